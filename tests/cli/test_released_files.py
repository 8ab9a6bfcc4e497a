"""Every command with --epsilon, on two files that differ in one unit: each byte of what may be passed on is the same.

The channel's answers on the first file are played back on the second one (`check_neighbours`), and the split has the same
key both times. Everything else that a command does with its file is then seen in the bytes that it writes: types, orders,
sizes, names, settings, times. A paid vocabulary does not go through a channel; its first answer is given again.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from test_cli import invoke

from tacit import load
from tacit.cli.main import app
from tacit.data import make_documents, make_images, make_ratings, split
from tacit.privacy.vocabulary import WordSelection
from tacit.testing import check_neighbours

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
KEY = bytes(32)
RANDOM = np.random.default_rng(5)
IMAGES = make_images(60, side=4, n_parts=1).images
RATINGS = make_ratings(40, 8, ratings_per_user=4, random_state=1)
EXAMPLES = np.column_stack([RANDOM.random((40, 2)), np.arange(40) % 2])
TEXTS = list(make_documents(40, n_topics=2, random_state=0).texts())
TERMS = sorted({word for text in TEXTS[:3] for word in text.split()})


@pytest.fixture(autouse=True)
def _frozen(monkeypatch):
    monkeypatch.setattr(split, "new_key", lambda: KEY)
    answers: list[tuple[dict[str, float], float]] = []
    select = WordSelection.select

    def first_answer(self, named, **arguments):
        answers.append(select(self, named, **arguments))
        return answers[0]

    monkeypatch.setattr(WordSelection, "select", first_answer)


def model_files(folder: Path, *arguments: object) -> dict[str, bytes]:
    """Run a command that writes a folder, and return every file of its part that may be passed on."""
    output = folder / "output"
    found = invoke(*arguments, "--output", output, "--json")
    assert found.exit_code == 0, found.exception
    files = sorted(path for path in (output / "model").rglob("*") if path.is_file())
    assert files
    return {path.name: path.read_bytes() for path in files}


def fit_nmf(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
    names = [f"c{place}" for place in range(rows.shape[1])]
    pl.DataFrame(rows, schema=names).write_csv(folder / "rows.csv")
    return model_files(folder, "fit", "nmf", folder / "rows.csv", "-k", 2, "--epsilon", 30)


def fit_nmf_chosen_rank(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
    names = [f"c{place}" for place in range(rows.shape[1])]
    pl.DataFrame(rows, schema=names).write_csv(folder / "rows.csv")
    return model_files(folder, "fit", "nmf", folder / "rows.csv", "-k", "2-3", "--epsilon", 30)


def components_of(model: str) -> Callable:
    def fit(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
        names = [f"c{place}" for place in range(rows.shape[1])]
        pl.DataFrame(rows, schema=names).write_csv(folder / "rows.csv")
        arguments = ("-k", 2, "--epsilon", 30, "--feature-range", "0:2")
        return model_files(folder, "fit", model, folder / "rows.csv", *arguments)

    fit.__name__ = f"fit_{model}"
    return fit


def fit_svd_hidden(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
    np.save(folder / "rows.npy", rows)
    return model_files(
        folder, "fit", "svd", folder / "rows.npy", "-k", 2, "--epsilon", 30, "--row-norm", 1, "--hide-singular-values"
    )


def fit_nmf_in_partitions(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
    pytest.importorskip("distributed", reason="dask is not installed")
    for place, part in enumerate((rows[:20], rows[20:40], rows[40:])):
        np.save(folder / f"rows{place}.npy", part)
    return model_files(folder, "fit", "nmf", folder / "rows*.npy", "-k", 2, "--epsilon", 30, "--workers", 1)


def fit_pcr(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
    pl.DataFrame(rows[:, :4], schema=["a", "b", "c", "y"]).write_csv(folder / "rows.csv")
    arguments = ("--label", "y", "-k", 2, "--epsilon", 30, "--feature-range", "0:2", "--label-range", "0:2")
    return model_files(folder, "fit", "pcr", folder / "rows.csv", *arguments)


def fit_nmf_of_texts(folder: Path, texts: list[str]) -> dict[str, bytes]:
    for place, text in enumerate(texts):
        (folder / f"{place}.txt").write_text(text)
    (folder / "terms").write_text("\n".join(TERMS))
    return model_files(folder, "fit", "nmf", folder, "-k", 2, "--epsilon", 30, "--vocabulary", folder / "terms")


def fit_nmf_paid_vocabulary(folder: Path, texts: list[str]) -> dict[str, bytes]:
    for place, text in enumerate(texts):
        (folder / f"{place}.txt").write_text(text)
    arguments = ("-k", 2, "--epsilon", 100, "--vocabulary", "paid", "--idf", "learned")
    return model_files(folder, "fit", "nmf", folder, *arguments)


def fit_recommend(folder: Path, ratings: pl.DataFrame) -> dict[str, bytes]:
    ratings.write_csv(folder / "ratings.csv")
    pl.DataFrame({"item": range(8)}).write_csv(folder / "items.csv")
    arguments = ("--catalogue", folder / "items.csv", "--factors", 2, "--epsilon", 4)
    return model_files(folder, "fit", "recommend", folder / "ratings.csv", *arguments)


def fit_recommend_non_negative(folder: Path, ratings: pl.DataFrame) -> dict[str, bytes]:
    ratings.write_csv(folder / "ratings.csv")
    pl.DataFrame({"item": range(8)}).write_csv(folder / "items.csv")
    arguments = ("--catalogue", folder / "items.csv", "--factors", 2, "--epsilon", 20, "--non-negative")
    return model_files(folder, "fit", "recommend", folder / "ratings.csv", *arguments)


def fit_recommend_own_budgets(folder: Path, ratings: pl.DataFrame) -> dict[str, bytes]:
    ratings.with_columns(own=2.0 + 2.0 * (pl.col("user") % 2)).write_csv(folder / "ratings.csv")
    pl.DataFrame({"item": range(8)}).write_csv(folder / "items.csv")
    arguments = ("--catalogue", folder / "items.csv", "--factors", 2, "--epsilon-column", "own")
    return model_files(folder, "fit", "recommend", folder / "ratings.csv", *arguments)


def fit_implicit(folder: Path, ratings: pl.DataFrame) -> dict[str, bytes]:
    ratings.drop("rating").write_csv(folder / "clicks.csv")
    pl.DataFrame({"item": range(8)}).write_csv(folder / "items.csv")
    arguments = (
        "--implicit",
        "--catalogue",
        folder / "items.csv",
        "--epsilon",
        20,
        "--columns",
        "user,item",
    )
    return model_files(folder, "fit", "recommend", folder / "clicks.csv", *arguments)


def fit_coupled_cells(folder: Path, ratings: pl.DataFrame) -> dict[str, bytes]:
    return fit_coupled(folder, ratings, "--unit", "cell")


def fit_coupled(folder: Path, ratings: pl.DataFrame, *further: object) -> dict[str, bytes]:
    ratings.write_csv(folder / "ratings.csv")
    for name, size in (("users", 40), ("items", 8)):
        (folder / f"{name}.txt").write_text("\n".join(map(str, range(size))))
    (folder / "spec.toml").write_text(
        'ranks = 2\n[model]\nmax_iter = 5\n[names]\nuser = "users.txt"\nitem = "items.txt"\n[[relation]]\n'
        'file = "ratings.csv"\ncolumns = ["user", "item", "rating"]\neinsum = "ir,jr->ij"\n'
        'factors = ["user", "item"]\nobserved = "stored"\ndivergence = "euclid"\n'
    )
    arguments = ("--value-range", "1:5", "--epsilon", 20, *further)
    return model_files(folder, "fit", "coupled", folder / "spec.toml", *arguments)


def fit_neural_regression(folder: Path, examples: np.ndarray) -> dict[str, bytes]:
    return fit_neural(folder, examples, "--label-range", "0:1")


def fit_neural(folder: Path, examples: np.ndarray, kind: str = "--classes", labels: str = "0,1") -> dict[str, bytes]:
    pytest.importorskip("torch", reason="torch is not installed")
    pl.DataFrame(examples, schema=["a", "b", "y"]).with_columns(pl.col("y").cast(int)).write_csv(folder / "rows.csv")
    arguments = ("--label", "y", kind, labels, "--feature-range", "0:1", "--hidden", "2", "--epochs", 2)
    return model_files(folder, "fit", "neural", folder / "rows.csv", *arguments, "--epsilon", 8, "--sampling-rate", 0.5)


def perturb(folder: Path, rows: np.ndarray) -> dict[str, bytes]:
    pl.DataFrame(rows[:, :3], schema=["a", "b", "c"]).write_csv(folder / "table.csv")
    (folder / "columns.toml").write_text(
        "version = 1\npublic = true\n"
        + "".join(f'[columns.{name}]\nkind = "number"\nlow = 0\nhigh = 2\ndecimals = 2\n' for name in "abc")
    )
    arguments = ("--method", "private-table", "--schema", folder / "columns.toml", "--seed", 1, "--epsilon", 8)
    arguments += ("-o", folder / "synthetic.csv", "--report", folder / "report")
    found = invoke("perturb", folder / "table.csv", *arguments, "--json")
    assert found.exit_code == 0, found.exception
    printed = found.stdout.replace(str(folder), "FOLDER").encode()
    return {"file": (folder / "synthetic.csv").read_bytes(), "printed": printed}


def without_row(rows: np.ndarray, place: int) -> np.ndarray:
    return np.delete(rows, place, axis=0)


def without_text(texts: list[str], place: int) -> list[str]:
    return [text for index, text in enumerate(texts) if index != place]


def without_cell(ratings: pl.DataFrame, place: int) -> pl.DataFrame:
    return ratings.with_row_index("place").filter(pl.col("place") != place % len(ratings)).drop("place")


def without_user(ratings: pl.DataFrame, place: int) -> pl.DataFrame:
    return ratings.filter(pl.col("user") != ratings["user"].unique(maintain_order=True)[place])


SPIKE = np.vstack([1000.0 * np.eye(1, IMAGES.shape[1]), IMAGES])
"""The first row alone decides that one column has nearly all of the squares, of which the holder is told."""
FRAME = pl.DataFrame({"user": RATINGS.users, "item": RATINGS.items, "rating": RATINGS.ratings}).sort("user")
EQUAL = FRAME.with_columns(rating=pl.when(pl.col("user") == FRAME["user"][0]).then(5.0).otherwise(3.0))
"""Without the first user all ratings are equal, of which the holder is told."""
CASES: dict[str, list[tuple[Callable, object, Callable]]] = {
    "fit nmf": [
        (fit_nmf, IMAGES, without_row),
        (fit_nmf_chosen_rank, IMAGES, without_row),
        (fit_nmf_of_texts, TEXTS, without_text),
        (fit_nmf_paid_vocabulary, TEXTS, without_text),
        (fit_nmf_in_partitions, IMAGES, without_row),
    ],
    "fit svd": [(components_of("svd"), IMAGES, without_row), (fit_svd_hidden, SPIKE, without_row)],
    "fit pca": [(components_of("pca"), IMAGES, without_row)],
    "fit pcr": [(fit_pcr, IMAGES, without_row)],
    "fit recommend": [
        (fit_recommend, FRAME, without_user),
        (fit_recommend, EQUAL, without_user),
        (fit_recommend_own_budgets, FRAME, without_user),
        (fit_recommend_non_negative, FRAME, without_user),
        (fit_implicit, FRAME, without_user),
    ],
    "fit coupled": [(fit_coupled, FRAME, without_user), (fit_coupled_cells, FRAME, without_cell)],
    "fit neural": [(fit_neural, EXAMPLES, without_row), (fit_neural_regression, EXAMPLES, without_row)],
    "perturb": [(perturb, IMAGES, without_row)],
}
"""By command: what runs it on data and returns what may be passed on, the data, and how to leave one unit out."""
WITHOUT_DATA = {"calibrate", "demo"}
"""Commands with --epsilon that read no data, or synthetic data of their own."""
ELSEWHERE = {"fit local"}
"""Commands whose noise does not come from a channel; their test is in test_fit_local.py."""


def commands_with(option: str) -> set[str]:
    """Return the commands that have an option whose name begins so, out of the app itself."""
    found = set()

    def walk(command, name):
        for sub, child in getattr(command, "commands", {}).items():
            walk(child, f"{name} {sub}".strip())
        if any(one.startswith(option) for parameter in command.params for one in parameter.opts):
            found.add(name)

    walk(typer.main.get_command(app), "")
    return found


def test_every_command_with_epsilon_is_here():
    assert {name for name in commands_with("--epsilon") if not name.startswith("budget")} == set(
        CASES
    ) | WITHOUT_DATA | ELSEWHERE


def test_no_command_lets_its_user_choose_the_adjacency():
    """One that did would need cases with a unit replaced; all fits here are under the adjacency of their model."""
    assert commands_with("--adjacency") == {"calibrate", "budget open"}


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize(
    ("run", "data", "without"),
    [case for cases in CASES.values() for case in cases],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_every_byte_is_the_same_without_one_unit(run, data, without, place, tmp_path):
    made = 0

    def released(rows):
        nonlocal made
        made += 1
        folder = tmp_path / str(made)
        folder.mkdir()
        return run(folder, rows)

    unit = place
    if run in (
        fit_neural,
        fit_neural_regression,
    ):  # its place among the examples that are not held out, which are sampled
        out = split.held_out_rows(EXAMPLES[:, :2], EXAMPLES[:, 2].astype(int), fraction=0.2, key=KEY)
        kept = np.flatnonzero(~out)
        place = kept[place // 2]
        unit = int(np.searchsorted(kept, place))
    check_neighbours(released, data, without(data, place), unit=unit, for_the_holder=True)


@pytest.mark.slow
def test_the_bytes_differ_where_the_answers_do(tmp_path):
    """The comparison can fail: two runs with their own noise write different bytes."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one, other = (fit_nmf(tmp_path / name, IMAGES) for name in ("one", "other"))
    assert one != other


@pytest.mark.slow
def test_an_overwritten_folder_holds_no_earlier_model(tmp_path):
    """All of model/ may be passed on under the guarantee in result.json; an earlier model without noise may not."""
    faces, out = tmp_path / "faces.npy", tmp_path / "out"
    np.save(faces, IMAGES)

    def contents():
        return {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    assert invoke("fit", "nmf", faces, "-k", 2, "--output", out).exit_code == 0
    plain = contents()
    arguments = ("fit", "svd", faces, "-k", 2, "--row-norm", 3, "--output", out, "--overwrite")
    assert invoke(*arguments, "--epsilon", -1).exit_code != 0
    assert contents() == plain  # a fit that failed has replaced nothing
    assert invoke(*arguments, "--epsilon", 1).exit_code == 0
    assert [path.name for path in (out / "model").iterdir()] == ["svd.tacit"]
    assert invoke(*arguments, "--epsilon", 2).exit_code == 0
    assert load(out / "model" / "svd.tacit").epsilon == 2
