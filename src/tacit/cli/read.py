"""Read the files of the command line: matrices, texts, images, tables, ratings and labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.validation import check_choice

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from tacit.data.texts import TermCounts
    from tacit.estimators.input import Rows
    from tacit.privacy.vocabulary import PaidVocabulary


TEXT_ENDINGS = {".txt"}


@dataclass(frozen=True)
class ChosenColumns:
    """Which columns of a table a command uses: --columns, --drop, --missing and --text-column."""

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    missing: str | float = "refuse"
    text_column: str | None = None

    @property
    def numbers(self) -> dict[str, Any]:
        """The parameters of `tacit.data.read_matrix`."""
        return {"columns": self.columns, "drop": self.drop, "missing": self.missing}


def chosen_columns(
    columns: str | None, drop: str | None, missing: str, text_column: str | None = None, *, private: bool
) -> ChosenColumns:
    """Return what the options choose; refuse what a private fit must not compute from its rows."""
    fill: str | float = missing
    if missing not in ("refuse", "mean", "median"):
        try:
            fill = float(missing)
        except ValueError:
            raise InvalidInputError(
                "--missing to be refuse, mean, median or a number", parameter(missing), "As in --missing 0."
            ) from None
    elif missing != "refuse" and private:
        raise InvalidInputError(
            "--missing with a number in a private fit",
            words(f"{missing}, which would be computed from the private rows and released without a charge"),
            "Give a number that you know without the rows, as in --missing 0.",
        )
    if text_column is not None and (columns is not None or drop is not None or missing != "refuse"):
        raise InvalidInputError(
            "--text-column without --columns, --drop and --missing",
            words("both"),
            "Other columns are not read, and an empty cell is an empty text.",
        )
    return ChosenColumns(None if columns is None else _names(columns), _names(drop or ""), fill, text_column)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, repr=False)
class Prepared(Undisclosed):
    """Rows to factorise.

    Attributes
    ----------
    X : array or CSR matrix
    names : sequence of str or None
        Names of the columns: words, or the column names of a table.
    shape : tuple of int or None
        Shape of an image, if each row is one.
    counts : CSR matrix or None
        Term counts, for coherence.
    assumptions : tuple of str
        What must be public for the guarantee to hold.
    paid : PaidVocabulary or None
        The private vocabulary, if there is one.
    """

    X: Rows
    names: tuple[str, ...] | None
    shape: tuple[int, int] | None
    counts: csr_array | None
    assumptions: tuple[str, ...]
    paid: PaidVocabulary | None = None


def prepare(
    path: Path,
    *,
    private: bool,
    unit_rows: bool,
    vocabulary: Path | None,
    idf: str,
    shape: tuple[int, int] | None,
    stem: bool = False,
    stop_words: bool = False,
    buy: Callable[[tuple[str, ...]], PaidVocabulary] | None = None,
    chosen: ChosenColumns = ChosenColumns(),  # it cannot be changed
) -> Prepared:
    """Read texts, images or a matrix; with `unit_rows`, scale each row by itself to norm 1, which costs no privacy.

    With `stem`, words of texts and of a public vocabulary lose their plural endings. The vocabulary of texts may be any list of
    words, see `read_vocabulary`. `buy` computes a private vocabulary from the texts and charges for it.
    """
    import numpy as np

    from tacit.data import TermCounts, read_matrix, read_pictures, read_terms, read_vocabulary, stemmed, term_counts

    if not path.exists():
        raise InvalidInputError(
            "a file or a folder with data", words(f"{path}, which does not exist"), "Check the path."
        )
    texts = _texts(path, chosen.text_column)
    if texts is not None:
        terms = None if vocabulary is None else read_vocabulary(vocabulary, stop_words=stop_words)
        if stem:
            texts = tuple(map(stemmed, texts))
            terms = None if terms is None else tuple(dict.fromkeys(map(stemmed, terms)))
        if buy is not None:
            check_choice(idf, "--idf", ("uniform", "learned"))  # before anything is charged
            return _from_paid(texts, buy(texts), idf)
        return _from_counts(term_counts(texts, vocabulary=terms), private, idf)
    if stem:
        raise InvalidInputError("texts for --stem", words("data without texts"), "Leave --stem out.")
    if buy is not None:
        raise InvalidInputError(
            "a folder of texts, or --text-column, for --vocabulary paid",
            parameter(str(path)),
            "A matrix has its own columns: give a file of public terms, or leave --vocabulary out.",
        )
    if path.is_dir():
        _refuse_choice(chosen, path)
        pictures = read_pictures(path)
        return Prepared(_rows(pictures.X, unit_rows), None, pictures.shape, None, ("the size of the images is public",))
    with _texts_need_an_option(path, chosen):
        matrix = read_matrix(path, **chosen.numbers)
    names = matrix.names if vocabulary is None else read_terms(vocabulary)
    if names is not None and not isinstance(matrix.X, np.ndarray):
        # the columns of a matrix count as public; the guarantee states this as an assumption
        return _from_counts(TermCounts(matrix.X, tuple(names), vocabulary_is_public=True), private, idf)
    if shape is not None and shape[0] * shape[1] != matrix.X.shape[1]:
        raise InvalidInputError(
            f"an image shape of {matrix.X.shape[1]} pixels",
            words(f"{shape[0]}x{shape[1]}"),
            "Give --image-shape ROWSxCOLUMNS.",
        )
    return Prepared(_rows(matrix.X, unit_rows), names, shape, None, ("the columns of the table are public",))


def _texts(path: Path, column: str | None) -> tuple[str, ...] | None:
    """Return the texts of a folder, or of a column of a table; None if the data are no texts."""
    from tacit.data import read_text_lines, read_texts
    from tacit.data.files import read_frame

    if path.suffix.lower() == ".jsonl" and path.is_file():
        _refuse_choice(ChosenColumns(text_column=column), path)
        return read_text_lines(path)
    if path.is_dir():
        if not any(file.suffix.lower() in TEXT_ENDINGS for file in path.rglob("*")):
            return None
        _refuse_choice(ChosenColumns(text_column=column), path)
        return read_texts(path).texts
    if column is None:
        return None
    import polars

    frame = read_frame(path, as_text=True)
    if column not in frame.columns:
        raise InvalidInputError(
            f"--text-column to be a column of {path.name}",
            parameter(column),
            f"It has {', '.join(frame.columns[:20])}.",
        )
    return tuple(frame[column].cast(polars.String).fill_null("").to_list())


def _refuse_choice(chosen: ChosenColumns, path: Path) -> None:
    if chosen != ChosenColumns():
        raise InvalidInputError(
            "a table with --columns, --drop, --missing or --text-column",
            words(f"the folder {path}" if path.is_dir() else f"the texts of {path.name}"),
            "Leave them out: every file of a folder, or line of a jsonl file, is one row.",
        )


@contextmanager
def _texts_need_an_option(path: Path, chosen: ChosenColumns) -> Iterator[None]:
    """Add to an error about a table with text that --text-column reads texts."""
    try:
        yield
    except InvalidInputError as error:
        if "other kinds" in error.got and chosen.columns is None:
            fix = f"{error.fix} If the rows are texts, name the column that holds them with --text-column."
            raise InvalidInputError(error.expected, error.got, fix) from None
        raise


def image_shape_of(text: str) -> tuple[int, int]:
    """Return the shape that --image-shape ROWSxCOLUMNS names."""
    try:
        height, width = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise InvalidInputError(
            "an image shape as in 19x19", parameter(text), "Give --image-shape ROWSxCOLUMNS."
        ) from None
    return height, width


def _from_counts(counts: TermCounts, private: bool, idf: str) -> Prepared:
    from tacit.data import tfidf

    if private and not counts.vocabulary_is_public:
        raise InvalidInputError(
            "a public vocabulary for a private fit",
            words("one learned from the private texts, which is private"),
            "Give --vocabulary FILE with one public term per line (a spell checker's word list will do, as "
            "/usr/share/dict/words on many systems), or --vocabulary paid.",
        )
    weighted = tfidf(counts, idf=idf)
    if private and not weighted.weights_are_public:
        raise InvalidInputError(
            "public term weights for a private fit",
            words("inverse document frequencies learned from the private texts"),
            "Use --idf uniform, which gives all terms the same weight and costs no privacy.",
        )
    assumptions = ("the vocabulary is public", "all terms have the same weight")
    return Prepared(weighted.X, weighted.terms, None, counts.counts, assumptions if private else ())


def _from_paid(texts: tuple[str, ...], paid: PaidVocabulary, idf: str) -> Prepared:
    """Weight the words of a private vocabulary; "learned" frequencies are its noisy ones."""
    from tacit.data import term_counts, tfidf

    counts = term_counts(texts, vocabulary=paid.terms)
    weighted = tfidf(counts, idf=paid.idf if idf == "learned" else "uniform")
    return Prepared(weighted.X, weighted.terms, None, counts.counts, (), paid)


def _rows(X: Rows, unit_rows: bool) -> Rows:
    if not unit_rows:
        return X
    from sklearn.preprocessing import normalize

    scaled: Rows = normalize(X)
    return scaled


def range_of(text: str, option: str) -> tuple[float, float]:
    """Return a public range from text as in 0:100."""
    try:
        low, high = (float(side) for side in text.split(":"))
    except ValueError:
        raise InvalidInputError(f"{option} LOW:HIGH", parameter(text), "Give the public range, as in 0:100.") from None
    return low, high


def read_table(path: Path, *, as_text: bool = False) -> pl.DataFrame:
    """Read a table; raise if it has no rows, because the types of its columns would be wrong."""
    from tacit.data.files import read_frame

    frame = read_frame(path, as_text=as_text)
    if not frame.height:
        raise InvalidInputError(f"{path} to have rows", words("names of columns only"), "Give the table with its rows.")
    return frame


NAMES = ("user", "item", "rating")


def read_ratings_file(
    path: Path, columns: str, catalogue: pl.Series | None = None, *, implicit: bool = False
) -> pl.DataFrame:
    """Return a polars frame with the columns user, item and rating; `columns` names them in the file, in this order.

    With a catalogue, the items have the type of its ids, which does not depend on the other items of the file. Users are text:
    whether 07 and 7 are one user must not depend on the ids of others. With `implicit` the third column is a weight, and there
    need not be one.
    """
    import polars

    from tacit.data.files import read_frame

    chosen = column_names(columns, implicit=implicit)
    names = ("user", "item", "weight")[: len(chosen)] if implicit else NAMES
    frame = read_frame(path, text=chosen[:1] if catalogue is None else chosen[:2])
    missing = [name for name in chosen if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"columns {', '.join(chosen)} in {path.name}",
            words(f"no column {', '.join(missing)} among {len(frame.columns)}"),
            # the names in the first line are not shown: in a file without them it is a record
            f"Name the columns of users, items and {'weights' if implicit else 'ratings'} with --columns, as the first line of "
            f"the file spells them: --columns {','.join(f'YOUR_{name.upper()}' for name in names)}.",
        )
    frame = frame.select(polars.col(given).alias(name) for given, name in zip(chosen, names, strict=True))
    return frame if catalogue is None else frame.with_columns(as_type_of(frame["item"], catalogue))


def read_budgets(path: Path, columns: str, name: str) -> dict[Hashable, float]:
    """Return each user's own epsilon from a column of the ratings' file: the same in all rows of a user."""
    import polars

    from tacit.data.files import read_frame

    user = column_names(columns)[0]
    frame = read_frame(path, text=(user,))
    missing = [column for column in (user, name) if column not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"a column {missing[0]!r} in {path.name}",
            words("none"),
            "Name the column of epsilons with --epsilon-column.",
        )
    given = frame.select(
        polars.col(user).alias("user"), polars.col(name).cast(polars.Float64, strict=False).alias("own")
    )
    if given["own"].null_count() or not bool((given["own"] > 0).all()):
        raise InvalidInputError(
            f"an epsilon above 0 in every row of column {name!r}, or inf for a volunteer",
            words("other values, or gaps"),
            "Correct the column; every user states an epsilon.",
        )
    pairs = given.unique(maintain_order=True)
    if pairs["user"].n_unique() < len(pairs):
        raise InvalidInputError(
            f"one epsilon per user in column {name!r}",
            words("different ones in the rows of some user"),
            "Repeat each user's epsilon in all rows of the user.",
        )
    return dict(zip(pairs["user"].to_list(), pairs["own"].to_list(), strict=True))


HISTORIES = "histories.parquet"
"""A copy of the ratings for their holder, sorted by user, so that one user's can be read without the others'."""
ROWS_PER_GROUP = 10_000
"""Rows that are read together: at most a few groups have a user."""


def write_histories(frame: pl.DataFrame, folder: Path) -> None:
    """Write what was read, sorted by user, into the folder of a fit; only the owner of the folder can read it."""
    import polars

    path = folder / HISTORIES
    path.unlink(missing_ok=True)  # an earlier one may have another mode, or be a link
    path.touch(mode=0o600)
    by_user = frame.with_columns(polars.col("user").cast(polars.String)).sort("user", maintain_order=True)
    by_user.write_parquet(path, row_group_size=ROWS_PER_GROUP, statistics=True)


def read_history(folder: Path, user: str) -> pl.DataFrame | None:
    """Return the rows of one user, as `read_ratings_file` returns them; None if the folder has no copy of the ratings."""
    import polars

    path = folder / HISTORIES
    if not path.is_file():
        return None
    return polars.scan_parquet(path).filter(polars.col("user") == user).collect()


def read_item_features(
    path: Path, columns: str, names: str | None, titles: str | None = None, *, implicit: bool = False
) -> NDArray[np.float64]:
    """Return the features of the catalogue's items that columns of its table give, in the catalogue's order.

    `names` are columns of lists of words or of numbers, `titles` columns of titles, separated by commas.
    """
    from tacit.data import item_features
    from tacit.data.files import read_frame

    listed, titled = ([] if given is None else [name.strip() for name in given.split(",")] for given in (names, titles))
    both = sorted(set(listed) & set(titled))
    if both:
        raise InvalidInputError(
            "each column of the catalogue in --features or in --titles",
            words(f"{', '.join(both)} in both"),
            "Name columns of titles in --titles alone.",
        )
    wanted = [*listed, *titled]
    frame = None if path.suffix.lower() == ".txt" else read_frame(path)
    item = column_names(columns, implicit=implicit)[1]
    if frame is not None:
        item = _item_column(frame, item)
    if frame is None or item not in frame.columns or not set(wanted) <= set(frame.columns):
        raise InvalidInputError(
            f"a table with the columns {', '.join([item, *wanted])} in {path.name}",
            words("none"),
            "Name the columns of the catalogue's table that hold public features with --features, and those that hold titles "
            "with --titles.",
        )
    numbers = [name for name in titled if frame[name].dtype.is_numeric()]
    if numbers:
        raise InvalidInputError(
            "columns of text in --titles", words(f"numbers in {', '.join(numbers)}"), "Name them in --features."
        )
    first = frame.drop_nulls(item).unique(item, keep="first", maintain_order=True)
    return item_features({name: first[name].to_list() for name in wanted}, titles=titled)[0]


def read_item_names(path: Path, columns: str, shown: str, *, implicit: bool = False) -> dict[str, str]:
    """Return what column `shown` of the catalogue's table says about each item, by the item's id as text."""
    from tacit.data.files import read_frame

    frame = None if path.suffix.lower() == ".txt" else read_frame(path)
    item = column_names(columns, implicit=implicit)[1]
    if frame is not None:
        item = _item_column(frame, item)
    if frame is None or not {item, shown} <= set(frame.columns):
        raise InvalidInputError(
            f"a table with the columns {item} and {shown} in {path.name}",
            words("none"),
            "Name the column of the catalogue's table that describes the items with --show.",
        )
    return {str(key): str(name) for key, name in zip(frame[item], frame[shown], strict=True) if name is not None}


def read_catalogue(path: Path, columns: str, *, implicit: bool = False) -> pl.Series:
    """Return all items as a polars series: the column of items (or the only column) of a table, or the lines of a file."""
    import polars

    from tacit.data.files import read_frame

    name = column_names(columns, implicit=implicit)[1]
    if path.suffix.lower() == ".txt":
        from tacit.data import read_terms

        items = polars.Series(name, list(read_terms(path)))
        numbers = items.cast(polars.Int64, strict=False)
        return (items if numbers.null_count() else numbers).alias("item")
    frame = read_frame(path)
    column = _item_column(frame, name)
    if column not in frame.columns:
        raise InvalidInputError(
            f"a column {name!r} or 'item' in the catalogue {path.name}",
            words(f"none among {len(frame.columns)}"),
            "Name the catalogue's column of items as the data does, or item.",
        )
    return frame[column].drop_nulls().unique(maintain_order=True).alias("item")


def _item_column(frame: pl.DataFrame, name: str) -> str:
    """Return the column of items of a catalogue: called as in the data, or `item`, or the only one."""
    if name in frame.columns:
        return name
    if len(frame.columns) == 1:
        return str(frame.columns[0])
    return "item" if "item" in frame.columns else name


def as_type_of(items: pl.Series, ids: pl.Series) -> pl.Series:
    """Return a polars series of items with the type of `ids`: whole numbers, or text."""
    from tacit.data.files import as_item_type

    return items if items.dtype == ids.dtype else as_item_type(items, item_type_of(ids))


def item_type_of(ids: pl.Series) -> str:
    """Return what the ids of a catalogue are, as `as_item_type` calls it; a private fit refuses other ids later."""
    return "integer" if ids.dtype.is_integer() else "text"


def column_names(columns: str, *, implicit: bool = False) -> list[str]:
    """Return the columns that --columns names: of users, items and ratings, or of users, items and perhaps weights."""
    chosen = [name.strip() for name in columns.split(",")]
    if implicit and len(chosen) not in (2, 3):
        raise InvalidInputError(
            "two or three column names, as in user,item or user,item,weight", parameter(columns), "Give --columns."
        )
    if not implicit and len(chosen) != len(NAMES):
        raise InvalidInputError(
            "three column names in --columns, as in user,item,rating",
            parameter(columns),
            "If the file has no ratings, but clicks, plays or purchases, add --implicit." if len(chosen) == 2 else "",
        )
    return chosen


@dataclass(frozen=True, eq=False, repr=False)
class Labelled(Undisclosed):
    """Rows and their labels, with the names of the columns and the shape of the images if they are known."""

    X: Rows
    y: NDArray[Any]
    names: tuple[str, ...] | None = None
    shape: tuple[int, int] | None = None
    feature_range: tuple[float, float] | None = None


def read_labelled(path: Path, label: str | None, chosen: ChosenColumns = ChosenColumns()) -> Labelled:
    """Read a csv or parquet table, an npz archive, or a folder of images with one subfolder per class."""
    if not path.exists():
        raise InvalidInputError(
            "a file or a folder with data", words(f"{path}, which does not exist"), "Check the path."
        )
    if path.is_dir():
        _refuse_choice(chosen, path)
        return _images(path)
    if label is None:
        raise InvalidInputError(
            "--label, the name of the column with the classes", words("none"), "Name it, as in --label y."
        )
    if path.suffix.lower() == ".npz":
        return _archive(path, label)
    return _table(path, label, chosen)


def read_classes(text: str) -> NDArray[Any]:
    """Return the classes that --classes lists, or that a file has one per line; as numbers if all are whole numbers."""
    import numpy as np

    from tacit.data import read_terms

    names = list(read_terms(Path(text))) if Path(text).is_file() else [name.strip() for name in text.split(",")]
    try:
        return np.unique(np.array([int(name) for name in names]))
    except ValueError:
        return np.unique(np.array(names))


def labels_among(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels with the type of the classes, so that it does not depend on the other labels of the file."""
    import numpy as np

    place = {str(name): index for index, name in enumerate(classes.tolist())}
    texts = [str(int(label) if isinstance(label, float) and label.is_integer() else label) for label in y.tolist()]
    codes = np.array([place.get(text, -1) for text in texts], dtype=np.int64)
    if (codes < 0).any():
        raise InvalidInputError("labels among --classes", words("other labels"), "Name every class that may occur.")
    return classes[codes]


def feature_range_of(given: str, names: tuple[str, ...] | None) -> tuple[ArrayLike, ArrayLike]:
    """Return the range that --feature-range names: LOW:HIGH for all columns, or a file with one line per column."""
    return read_ranges(Path(given), names) if Path(given).exists() else range_of(given, "--feature-range")


def read_ranges(path: Path, names: tuple[str, ...] | None) -> tuple[ArrayLike, ArrayLike]:
    """Read a table with the columns name, low and high: the public range of every column of the data."""
    from tacit.data.files import read_frame

    table = read_frame(path)
    missing = {"name", "low", "high"} - set(table.columns)
    ranges = {} if missing else {str(name): (low, high) for name, low, high in table["name", "low", "high"].iter_rows()}
    if missing or names is None or not set(names) <= set(ranges):
        raise InvalidInputError(
            f"{path} to have the columns name, low and high, and a line for each column of the data",
            words(
                "other columns" if missing else f"no line for {', '.join(sorted(set(names or ()) - set(ranges))[:5])}"
            ),
            "Write one line per column, with a range that is public.",
        )
    return [float(ranges[name][0]) for name in names], [float(ranges[name][1]) for name in names]


def _images(folder: Path) -> Labelled:
    import numpy as np

    from tacit.data import read_pictures

    pictures = read_pictures(folder)
    labels = [name.rpartition("/")[0] for name in pictures.names]
    if "" in labels:
        raise InvalidInputError(
            "images in one folder per class",
            words(f"images directly in {folder}"),
            "Put the images of each class in a folder named after it.",
        )
    return Labelled(pictures.X, np.array(labels), shape=pictures.shape, feature_range=(0.0, 1.0))


def _archive(path: Path, label: str) -> Labelled:
    import numpy as np

    from tacit.data import read_matrix

    with np.load(path, allow_pickle=False) as archive:
        names = list(archive.files)
        labels = archive[label] if label in names and archive[label].ndim == 1 else None
    if labels is None:
        raise InvalidInputError(
            f"a 1-d array {label!r} in {path}", words("none"), "Name the array of labels with --label."
        )
    return Labelled(read_matrix(path).X, labels)


def _table(path: Path, label: str, chosen: ChosenColumns) -> Labelled:
    from tacit.data.files import read_frame
    from tacit.data.tables import numbers_of

    table = read_frame(path)
    if label not in table.columns:
        raise InvalidInputError(
            f"a column {label!r} in {path}",
            words("none"),
            "Name the column of labels with --label.",
        )
    if table[label].null_count():
        raise InvalidInputError(f"a label in every row of {path}", words("missing labels"), "Drop these rows.")
    if not table.drop(label).columns:
        raise InvalidInputError(
            f"columns of {path} other than {label!r}", words("none"), "Give the table with its features."
        )
    rows = numbers_of(table.drop(label), path, **chosen.numbers)
    return Labelled(rows.X, table[label].to_numpy(), rows.names)
