"""Data sets: a file, what one unit of it is, and what its holder states as public about it.

Nothing here is read from the rows, except a draft that the holder asks for. A draft counts as public only when the holder says of
each part how it is known without the data.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tacit.app.files import (
    DESCRIPTIONS,
    MATRICES,
    TABLES,
    TEXT_LINES,
    check_first_line,
    is_id,
    leads_outside,
    new_id,
    private_folder,
    read_json,
    write_json,
    write_private,
)
from tacit.app.supervise import now
from tacit.data.schema import CategoryColumn, ColumnSpec, DateColumn, IntegerColumn, NumberColumn, Quantity, TableSchema
from tacit.errors import InvalidInputError, TacitError, words

RATINGS, CLICKS, TABLE, TEXT_COLUMN, MATRIX, TEXTS, COUPLED = (
    "ratings",
    "clicks",
    "table",
    "text-column",
    "matrix",
    "texts",
    "coupled",
)
KINDS = {
    RATINGS: "Ratings: each row is one rating of an item by a user",
    CLICKS: "Clicks, plays or purchases: each row says that a user used an item",
    TABLE: "A table: each row is one record, each column a property",
    TEXT_COLUMN: "Texts: one column holds a text in each row",
    MATRIX: "A matrix of numbers",
    TEXTS: "A folder of texts or images, one file each",
    COUPLED: "Coupled tables, described in a TOML file",
}
HOW = {
    "": "Choose an answer",
    "definition": "A code book, form or law defines it",
    "limit": "It cannot be otherwise, for anybody",
    "published": "It is published elsewhere",
    "rows": "I looked at these rows",
}
"""Answers to "How do you know this without the data?"."""
NOT_PUBLIC = "What only these rows show is not public. State what is known without them, or leave the column out."
UNANSWERED = "Say how you know this without the data."
COLUMN_KINDS = {
    "": "Choose a kind",
    "number": "Number",
    "integer": "Whole number",
    "category": "Categories",
    "date": "Date",
    "left-out": "Leave out",
}
SEVERAL_ROWS = (
    "These models protect one row. Where a person has several, the guarantee would cover only one of them. Make a table with "
    "one row per person first, or use ratings, where a user's whole history is protected."
)
ROLES = {
    "user": ("user", "customer", "client", "member", "reader", "viewer", "visitor", "listener", "subscriber", "person"),
    "item": ("item", "movie", "film", "book", "product", "song", "track", "article", "title", "isbn", "sku", "asin"),
    "rating": ("rating", "stars", "score"),
    "weight": ("weight", "count", "clicks", "plays", "times", "quantity", "views", "purchases"),
}
"""Words in the name of a column that suggest what it holds, in a table of ratings or clicks."""
OF_RATINGS, OF_CLICKS = ("user", "item", "rating"), ("user", "item", "weight")
MOST_IN_RANGE = 1_000_000
"""Items that a range such as 1-1682 may have."""


@dataclass(frozen=True)
class DataSet:
    """One data set as it is on disk.

    Attributes
    ----------
    id : str
    name : str
        Also the name of its account in the ledger.
    path : str
        The file or folder.
    kind : str
        One of `KINDS`.
    columns : dict
        Names of a table's columns, with the kind that the file states.
    answers : dict
        What was filled into the form, as text.
    created : str
    ready : bool
        Whether all answers were accepted.
    """

    id: str
    name: str
    path: str
    kind: str
    columns: dict[str, str]
    created: str
    answers: dict[str, str] = field(default_factory=dict)
    ready: bool = False

    @property
    def unit(self) -> str:
        """What a guarantee protects: a user's whole history, or a row."""
        return "user" if self.kind in (RATINGS, CLICKS, COUPLED) else "row"

    @property
    def unit_in_words(self) -> str:
        """The same for people."""
        said = {RATINGS: "all ratings of one user", CLICKS: "the whole history of one user"}
        said |= {COUPLED: "everything about one person", TEXTS: "one file", TEXT_COLUMN: "one text"}
        return said.get(self.kind, "one row")

    @property
    def reads(self) -> list[str]:
        """What a run reads: the file or folder, and the files that a description names, if it can be read."""
        path = Path(self.path)
        if self.kind != COUPLED:
            return [self.path]
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # the command says what is wrong
            return [self.path]
        relations, names = table.get("relation", []), table.get("names", {})
        named = [one.get("file") for one in relations if isinstance(one, dict)] if isinstance(relations, list) else []
        named += names.values() if isinstance(names, dict) else []
        return [self.path, *(str(path.parent / one) for one in named if isinstance(one, str))]

    def unreadable(self, folders: Iterable[Path]) -> str:
        """Return why a run must not read the data set, whose files must be in these folders; empty if it may."""
        folders = list(folders)
        for path in map(Path, self.reads):
            if leads_outside(path, folders):
                return (
                    f"{path.name} is not in the folders that the app was started with. Start the app with its folder."
                )
            if not path.exists():
                return f"{path.name} is not there. Put it where it was, or beside the file that names it."
        return ""


class DataSets:
    """All data sets, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)

    def add(self, path: Path) -> DataSet:
        """Take a file or folder as a new data set; its columns are read, and no row."""
        kind, columns = kind_of_file(path), {}
        if kind == TABLE:
            from tacit.data.files import read_columns

            check_first_line(path)
            columns = read_columns(path)
            by_role = roles(columns)
            if {"user", "item"} <= set(by_role):
                kind = RATINGS if "rating" in by_role else CLICKS
        created = now()
        taken = {one.name for one in self.all()}
        stem = re.sub(r"[^\w.\- ]", " ", path.name.partition(".")[0]).strip() or "data"
        name = next(name for name in _names(stem) if name not in taken)
        made = DataSet(new_id(), name, str(path), kind, columns, created)
        private_folder(self.place(made))
        self.save(made)
        return made

    def place(self, data: DataSet) -> Path:
        """Return the folder of a data set's own files."""
        return self.folder / data.id

    def save(self, data: DataSet) -> None:
        """Write a data set."""
        write_json(self.place(data) / "data.json", asdict(data))

    def get(self, name: str) -> DataSet | None:
        """Return a data set by its id, or None."""
        values = read_json(self.folder / name / "data.json") if is_id(name) else None
        return None if values is None else DataSet(**values)

    def all(self) -> list[DataSet]:
        """Return all data sets, the newest first."""
        names = sorted((entry.name for entry in self.folder.iterdir()), reverse=True)
        return [data for data in map(self.get, names) if data is not None]

    def state(
        self, data: DataSet, answers: Mapping[str, str], *, charged: bool = False
    ) -> tuple[DataSet, dict[str, str]]:
        """Keep what was filled in, and write the files that a run needs if all is well; return it with what is wrong by field.

        Parameters
        ----------
        data : DataSet
        answers : mapping
            The fields of the form.
        charged : bool
            Whether the data set's account in the ledger has charges; then its name stays.
        """
        kind = answers.get("kind", data.kind)
        if kind not in kinds_of(data):
            kind = data.kind
        name = answers.get("name", "").strip()
        wrong: dict[str, str] = {}
        if not name or not name.isprintable() or name.startswith("sha256:"):
            wrong["name"] = "Give the data set a name of printable characters. The ledger's account has the same name."
        elif any(other.name == name and other.id != data.id for other in self.all()):
            wrong["name"] = (
                "Another data set has this name. The same people must be in one account: give two names only to two."
            )
        elif charged and name != data.name:
            wrong["name"] = (
                f"The account {data.name!r} has charges for these data: under another name they would have a second budget. "
                "Keep the name."
            )
            name = data.name
        asked = DataSet(data.id, name or data.name, data.path, kind, data.columns, data.created, dict(answers))
        if kind in (RATINGS, CLICKS):
            wrong |= self._histories(asked)
        elif kind == TABLE:
            wrong |= self._table(asked)
        else:
            wrong |= _unit(asked)
        if kind == TEXT_COLUMN and answers.get("text", "") not in data.columns:
            wrong["text"] = "Choose the column that holds the texts."
        stated = DataSet(**{**asdict(asked), "ready": not wrong})
        self.save(stated)
        return stated, wrong

    def catalogue(self, data: DataSet) -> Path:
        """Return the file with all items of ratings."""
        return self.place(data) / "catalogue.txt"

    def schema(self, data: DataSet) -> Path:
        """Return the file with what is public about the columns of a table."""
        return self.place(data) / "schema.toml"

    def frozen(self, path: Path) -> Path:
        """Return a copy of a data set's file that later changes of its form do not reach: what a run was asked with."""
        content = path.read_bytes()
        copy = path.with_name(f"{path.stem}-{hashlib.sha256(content).hexdigest()[:16]}{path.suffix}")
        if not copy.exists():
            write_private(copy, content)
        return copy

    def _histories(self, data: DataSet) -> dict[str, str]:
        answers, wrong = data.answers, {}
        wanted = OF_RATINGS if data.kind == RATINGS else OF_CLICKS
        chosen = [answers.get(role, "") for role in wanted]
        for role, column in zip(wanted, chosen, strict=True):
            if role == "weight" and not column:
                continue
            if column not in data.columns:
                wrong[role] = f"Choose the column that holds the {role}."
            elif "," in column:
                wrong[role] = "This column's name has a comma. Rename the column in the file."
            elif chosen.count(column) > 1:
                wrong[role] = "Choose different columns."
        if data.kind == RATINGS:
            wrong |= _scale(answers)
        items = list(items_of(answers.get("items", "")))
        if len(items) < 2:
            wrong["items"] = (
                "List all items that there are, used or not: one per line, a range as in 1-1682, or from a file."
            )
        else:
            wrong |= _answered(answers, "how-items")
            write_private(self.catalogue(data), "\n".join(items) + "\n")
        return wrong

    def _table(self, data: DataSet) -> dict[str, str]:
        wrong = _unit(data)
        columns: dict[str, ColumnSpec] = {}
        left_out = []
        for place, (name, stored) in enumerate(data.columns.items()):
            kind = data.answers.get(f"kind-{place}", "")
            if kind == "left-out":
                left_out.append(name)
                continue
            try:
                columns[name] = column_of(data.answers, place, stored)
            except TacitError as error:
                wrong[f"kind-{place}"] = error.fix
                continue
            wrong |= _answered(data.answers, f"how-{place}")
        if not columns and not wrong:
            wrong["kind-0"] = "Keep at least one column."
        if not wrong:
            write_private(self.schema(data), TableSchema(columns, tuple(left_out)).toml())
        return wrong


def kind_of_file(path: Path) -> str:
    """Return the kind of data that a file's ending suggests."""
    name = path.name.lower()
    if path.is_dir():
        return TEXTS
    for kind, endings in ((TABLE, TABLES), (MATRIX, MATRICES), (TEXTS, TEXT_LINES), (COUPLED, DESCRIPTIONS)):
        if name.endswith(endings):
            return kind
    raise InvalidInputError(
        "a table (csv, tsv, parquet), a matrix (npz, npy, mtx), texts (jsonl), coupled tables (toml) or a folder",
        words("another file"),
        "Pick one of these.",
    )


def roles(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns whose names suggest users, items, ratings and weights, by role."""
    by_role: dict[str, str] = {}
    for role, hints in ROLES.items():
        for hint in hints:
            like = [name for name in columns if hint in name.lower() and name not in by_role.values()]
            if like:
                by_role[role] = like[0]
                break
    return by_role


def kinds_of(data: DataSet) -> list[str]:
    """Return the kinds that a data set may have."""
    return [RATINGS, CLICKS, TABLE, TEXT_COLUMN] if data.columns else [data.kind]


def column_of(answers: Mapping[str, str], place: int, stored: str) -> ColumnSpec:
    """Return the column that the fields number `place` describe."""
    kind, missing = answers.get(f"kind-{place}", ""), answers.get(f"missing-{place}") == "yes"
    if kind == "category":
        texts = [text for part in answers.get(f"categories-{place}", "").split("|") if (text := part.strip())]
        if missing and stored not in ("text", "other"):
            raise _refusal(
                f"The file holds this column as {stored}, where empty cells are no category: save it as text."
            )
        texts += [""] * missing  # an empty cell of a column of categories is the text ""
        if len(texts) < 2:
            raise _refusal("List all values that the column may have, separated by |, as in yes | no.")
        if len(set(texts)) < len(texts):
            raise _refusal("Name each category once.")
        return CategoryColumn(tuple(_stored(texts, stored)))
    if kind == "date":
        try:
            return DateColumn(answers.get(f"low-{place}", ""), answers.get(f"high-{place}", ""), missing)
        except InvalidInputError:
            raise _refusal("Give two dates as in 2024-02-29, the earlier one first.") from None
    low, high = (_number(answers.get(f"{side}-{place}", "")) for side in ("low", "high"))
    if kind not in ("number", "integer"):
        raise _refusal("Choose a kind, or leave the column out.")
    if low is None or high is None or not low < high:
        raise _refusal("Give two numbers, the lesser one first. Values beyond them count as at the bound.")
    if kind == "integer":
        if low != int(low) or high != int(high):
            raise _refusal("The bounds of whole numbers must be whole numbers.")
        return IntegerColumn(int(low), int(high), missing)
    return NumberColumn(low, high, missing=missing)


def answers_of(schema: TableSchema, data: DataSet) -> dict[str, str]:
    """Return the form's fields for a schema, without an answer to how anything is known."""
    fields: dict[str, str] = {}
    for place, name in enumerate(data.columns):
        spec = schema.columns.get(name)
        if spec is None:
            fields[f"kind-{place}"] = "left-out" if name in schema.left_out else ""
            continue
        fields[f"kind-{place}"] = spec.kind
        if isinstance(spec, CategoryColumn):
            fields[f"categories-{place}"] = " | ".join(str(value) for value in spec.categories if value != "")
            fields |= {f"missing-{place}": "yes"} if "" in spec.categories else {}
        elif isinstance(spec, Quantity):
            fields |= {f"low-{place}": str(spec.low), f"high-{place}": str(spec.high)}
            fields |= {f"missing-{place}": "yes"} if spec.missing else {}
    return fields


def items_of(text: str) -> Iterator[str]:
    """Return the items of a list with one per line; a line such as 1-1682 stands for all whole numbers between."""
    seen: set[str] = set()
    for line in text.splitlines():
        item = line.strip()
        ends = re.fullmatch(r"(\d{1,9})\s*-\s*(\d{1,9})", item)
        listed = [item]
        if ends and 0 <= int(ends[2]) - int(ends[1]) < MOST_IN_RANGE:
            listed = [str(number) for number in range(int(ends[1]), int(ends[2]) + 1)]
        for one in listed:
            if one and one not in seen:
                seen.add(one)
                yield one


def _unit(data: DataSet) -> dict[str, str]:
    unit = data.answers.get("unit", "")
    if unit == "several":
        return {"unit": SEVERAL_ROWS}
    return {} if unit in ("person", "thing") else {"unit": "Say what one row is."}


def _scale(answers: Mapping[str, str]) -> dict[str, str]:
    low, high = _number(answers.get("low", "")), _number(answers.get("high", ""))
    if low is None or high is None or not low < high:
        return {"low": "Give the least and the greatest rating that the scale allows, as in 1 and 5."}
    return _answered(answers, "how-range")


def _answered(answers: Mapping[str, str], name: str) -> dict[str, str]:
    given = answers.get(name, "")
    if given == "rows":
        return {name: NOT_PUBLIC}
    return {} if given in HOW and given else {name: UNANSWERED}


def _stored(texts: list[str], stored: str) -> list[str] | list[int] | list[float] | list[bool]:
    """Return categories of the type that a column has in a Parquet file; cells of other files are text."""
    try:
        if stored == "integer":
            return [int(text) for text in texts]
        if stored == "number":
            return [float(text) for text in texts]
        if stored == "boolean":
            return [{"true": True, "false": False}[text.lower()] for text in texts]
    except (ValueError, KeyError):
        raise _refusal(f"The file holds this column as {stored}: write the categories so.") from None
    return list(texts)


def _refusal(fix: str) -> InvalidInputError:
    return InvalidInputError("a description of the column", words("another one"), fix)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _names(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem} {number}"
        number += 1
