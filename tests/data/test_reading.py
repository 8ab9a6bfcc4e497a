import gzip
import os
import subprocess
import sys
from datetime import date
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array, csc_matrix, csr_array, save_npz

from tacit.data import read_matrix
from tacit.data.files import read_columns
from tacit.errors import InvalidInputError

NUMBERS = np.array([[0.0, 1.5, 2.0], [3.0, 0.0, 0.25]])
TERMS = ("ant", "bee", "café")


def write_sparse_with_terms(path, X=NUMBERS, terms=TERMS):
    # As save_npz writes it, with one more array.
    matrix = csr_array(X)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(path, format=b"csr", terms=np.array(terms), **parts)


def write_mtx_with_terms(path, X=NUMBERS, terms=TERMS):
    mmwrite(path, coo_array(X))
    path.with_suffix(".terms").write_text("\n".join(terms) + "\n", encoding="utf-8")


def frame():
    return pl.DataFrame(NUMBERS, schema=list(TERMS))


WRITERS = {
    "with_terms.npz": (write_sparse_with_terms, TERMS, "sparse"),
    "csr.npz": (lambda path: save_npz(path, csr_array(NUMBERS)), None, "sparse"),
    "csc.npz": (lambda path: save_npz(path, csc_matrix(NUMBERS)), None, "sparse"),
    "dense.npz": (lambda path: np.savez(path, x=NUMBERS, y=[1, 2]), None, "array"),
    "dense_terms.npz": (lambda path: np.savez_compressed(path, X=NUMBERS, terms=list(TERMS)), TERMS, "array"),
    "plain.npy": (lambda path: np.save(path, NUMBERS), None, "array"),
    "terms.mtx": (write_mtx_with_terms, TERMS, "sparse"),
    "alone.MTX": (lambda path: path.write_bytes(_mtx(coo_array(NUMBERS))), None, "sparse"),
    "dense.mtx": (lambda path: mmwrite(path, NUMBERS), None, "array"),
    "table.csv": (lambda path: frame().write_csv(path), TERMS, "table"),
    "table.csv.gz": (lambda path: path.write_bytes(gzip.compress(frame().write_csv().encode())), TERMS, "table"),
    "table.parquet": (lambda path: frame().write_parquet(path), TERMS, "table"),
}


def _mtx(matrix):
    stream = BytesIO()
    mmwrite(stream, matrix)
    return stream.getvalue()


def dense(X):
    return X if isinstance(X, np.ndarray) else X.toarray()


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_comes_back_as_it_was(tmp_path, name):
    write, names, kind = WRITERS[name]
    write(tmp_path / name)
    for path in (tmp_path / name, str(tmp_path / name)):
        matrix = read_matrix(path)
        np.testing.assert_array_equal(dense(matrix.X), NUMBERS)
        assert (matrix.names, matrix.kind) == (names, kind)
        assert matrix.X.dtype == np.float64
        assert (kind == "sparse") == isinstance(matrix.X, csr_array)


@pytest.mark.parametrize(("given", "kept"), [("u1", "f8"), ("f4", "f4"), ("?", "f8")])
def test_narrow_integers_are_widened(tmp_path, given, kept):
    X = np.array([[200, 0], [0, 200]]).astype(given)
    np.save(tmp_path / "a.npy", X)
    save_npz(tmp_path / "s.npz", csr_array(X))
    for name in ("a.npy", "s.npz"):
        matrix = read_matrix(tmp_path / name)
        np.testing.assert_array_equal(dense(matrix.X), X)
        assert matrix.X.dtype == kept


def test_tables_keep_whole_numbers_truth_values_and_late_decimals(tmp_path):
    lines = ["count,yes,late", *["1,true,1"] * 300, "2,false,0.5"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    X = read_matrix(tmp_path / "t.csv").X
    assert X.shape == (301, 3)
    assert X[-1].tolist() == [2, 0, 0.5]
    assert X[0].tolist() == [1, 1, 1]


def test_numbered_columns_are_names_but_other_numbers_are_a_lost_record(tmp_path):
    (tmp_path / "numbered.csv").write_text("0,1,2\n5,6,7\n")
    assert read_matrix(tmp_path / "numbered.csv").names == ("0", "1", "2")
    for first in ("5.1,3.5,1.4", "0,0,0", "2,1,0", "Ulm,Bonn,1", "Ulm,7,8"):
        (tmp_path / "headless.csv").write_text(f"{first}\n5,6,7\n")
        with pytest.raises(InvalidInputError, match=r"headless\.csv.*names"):
            read_matrix(tmp_path / "headless.csv")


class Exploding:
    def __reduce__(self):
        return os._exit, (1,)


def write_cut(path, name):
    write = WRITERS[name][0]
    write(path)
    path.write_bytes(path.read_bytes()[:-20])


BROKEN = {
    "pickled.npz": (lambda path: np.savez(path, X=np.array([[Exploding()]], dtype=object)), "pickle"),
    "pickled_terms.npz": (lambda path: np.savez(path, X=NUMBERS, terms=np.array(TERMS, dtype=object)), "dtype=str"),
    "pickled.npy": (lambda path: np.save(path, np.array([[Exploding()]], dtype=object)), "pickle"),
    "noise.npz": (lambda path: path.write_bytes(b"not a zip"), "archive"),
    "cut.npz": (lambda path: write_cut(path, "csr.npz"), "archive"),
    "two.npz": (lambda path: np.savez(path, a=NUMBERS, b=NUMBERS), "one 2-d array; got 2 of them"),
    "cube.npz": (lambda path: np.savez(path, a=np.ones((2, 2, 2))), "one 2-d array"),
    "few_terms.npz": (lambda path: write_sparse_with_terms(path, terms=TERMS[:1]), "3 columns.*more or fewer terms"),
    "beyond.npz": (
        lambda path: np.savez(
            path, format=b"csr", data=np.ones(1), indices=np.array([9]), indptr=np.array([0, 1]), shape=np.array([1, 3])
        ),
        "archive",
    ),
    "line.npy": (lambda path: np.save(path, np.ones(3)), "2-d array"),
    "cut.npy": (lambda path: write_cut(path, "plain.npy"), "numpy array"),
    "text.npy": (lambda path: np.save(path, np.array([["a"]])), "real numbers"),
    "complex.npy": (lambda path: np.save(path, np.array([[1j]])), "real numbers"),
    "nothing.npy": (lambda path: np.save(path, np.ones((0, 3))), "at least one row"),
    "gaps.npy": (lambda path: np.save(path, [[1, np.nan], [np.inf, 2]]), "NaN or infinity"),
    "noise.mtx": (lambda path: path.write_text("no matrix"), "MatrixMarket"),
    "cut.mtx": (
        lambda path: path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n"),
        "Market",
    ),
    "cut_number.mtx": (
        lambda path: path.write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.5E"),
        "MatrixMarket",
    ),
    "zero_byte.mtx": (
        lambda path: path.write_bytes(b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\0 1 2 3\n"),
        "MatrixMarket",
    ),
    "turned.mtx": (lambda path: write_mtx_with_terms(path, X=NUMBERS.T), "2 columns.*more or fewer terms.*transpose"),
    "empty.csv": (lambda path: path.write_text(""), "CSV"),
    "only_names.csv": (lambda path: path.write_text("a,b\n"), "at least one row"),
    "ragged.csv": (lambda path: path.write_text("a,b\n1,2\n1,2,3\n"), "CSV"),
    "words.csv": (lambda path: path.write_text("a,town,b\n1,Ulm,2\n"), "numbers.*town"),
    "holes.csv": (lambda path: path.write_text("a,b\n1,\n2,3\n"), "empty cells.*b"),
    "noise.csv.gz": (lambda path: path.write_bytes(gzip.compress(b"a,b\n1,2\n")[:-12]), "CSV"),
    "noise.parquet": (lambda path: path.write_bytes(b"PAR1 no table PAR1"), "Parquet"),
    "dates.parquet": (
        lambda path: pl.DataFrame({"when": [date(2020, 1, 1)], "x": [1]}).write_parquet(path),
        "numbers.*when",
    ),
    "matrix.xlsx": (lambda path: path.write_bytes(b""), "ends in"),
    "missing.npz": (lambda path: None, "does not exist"),
    "folder.npz": (lambda path: path.mkdir(), "a file to read"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name(tmp_path, name):
    write, said = BROKEN[name]
    write(tmp_path / name)
    with pytest.raises(InvalidInputError, match=f"(?s){said}") as caught:
        read_matrix(tmp_path / name)
    assert name in str(caught.value)


def test_columns_are_read_without_any_row(tmp_path):
    (tmp_path / "a.csv").write_text('name,age\n"an open quote in a row,3\n')
    assert read_columns(tmp_path / "a.csv") == {"name": "text", "age": "text"}
    frame = pl.DataFrame({"a": [1], "b": [0.5], "c": ["x"], "d": [True], "e": [date(2024, 1, 1)]})
    frame.write_parquet(tmp_path / "a.parquet")
    kinds = {"a": "integer", "b": "number", "c": "text", "d": "boolean", "e": "other"}
    assert read_columns(tmp_path / "a.parquet") == kinds
    (tmp_path / "b.csv").write_text("17.5,3\n1,2\n")
    with pytest.raises(InvalidInputError, match="names of the columns"):
        read_columns(tmp_path / "b.csv")


def test_importing_the_package_loads_no_reader():
    code = "import sys, tacit.data, tacit.measure; print({'polars', 'PIL', 'sklearn', 'scipy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


DATA = Path(os.environ.get("TACIT_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize(
    ("file", "shape", "kind", "named"),
    [
        ("text/bbc_2225x9635.npz", (2225, 9635), "sparse", True),
        ("text/reuters21578_8293x18933.npz", (8293, 18933), "sparse", False),
        ("faces/cbcl_19x19.npz", (2429, 361), "array", False),
        ("uci/winequality.csv.gz", (6497, 13), "table", True),
        ("regression/online_news_popularity_7928x58.parquet", (7928, 59), "table", True),
    ],
)
def test_real_files(file, shape, kind, named):
    if not (DATA / file).is_file():
        pytest.skip(f"{file} is not there; set TACIT_DATA to the folder with the data sets")
    matrix = read_matrix(DATA / file)
    assert matrix.X.shape == shape
    assert matrix.kind == kind
    assert (matrix.names is not None and len(matrix.names) == shape[1]) == named
