"""Reading a description of coupled relations: a TOML file that names data files, einsums, factors and ranks."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.data import read_matrix, read_terms
from tacit.data.files import existing_file, read_frame, reading
from tacit.errors import InvalidInputError, Undisclosed, kind_of, parameter, words

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from tacit.factor.coupled.relation import Relation

RELATION_KEYS = {"name", "file", "columns", "einsum", "factors", "observed", "divergence", "dispersion"}
TOP_KEYS = {"ranks", "relation", "names", "sizes", "model", "private", "held_out", "seed"}
LISTS = {".csv", ".tsv", ".parquet"}


@dataclass(frozen=True, repr=False)
class Description(Undisclosed):
    """The content of a description.

    Parameters
    ----------
    relations : list of Relation
    names : dict of factor to list of str
        Names of a factor's entities, if they are known.
    given : frozenset of str
        The factors whose entities the description itself gives; the others are inferred from the data.
    ranks : int or dict
    model : dict
        Other parameters of the model.
    private : dict
        Parameters of the private model.
    held_out : float
    seed : int
    """

    relations: list[Relation]
    names: dict[str, list[str]]
    given: frozenset[str]
    ranks: int | Mapping[str, int]
    model: dict[str, Any]
    private: dict[str, Any]
    held_out: float
    seed: int


def read_description(path: Path) -> Description:
    """Read a description and its data files, whose paths are relative to it."""
    file = existing_file(path)
    with reading(file, "a TOML file"):
        text = file.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # its message has the position, and at most one character of the file
        raise InvalidInputError(f"{file} to be a TOML file", words(str(error)), "Correct that line.") from None
    _check_keys(table, TOP_KEYS, f"{file.name}")
    entries = table.get("relation", [])
    if not isinstance(entries, list) or not entries:
        raise InvalidInputError(f"[[relation]] sections in {file}", words("none"), "Describe at least one relation.")
    if "ranks" not in table:
        raise InvalidInputError(f"ranks in {file}", words("none"), "Give ranks = 5, or ranks = { r = 5 }.")
    names = {name: list(read_terms(file.parent / listed)) for name, listed in table.get("names", {}).items()}
    opened = [_opened(entry, file.parent, place) for place, entry in enumerate(entries)]
    sizes = _sizes(table, opened, names)
    _collect_ids(opened, names)
    relations = [_relation(one, names) for one in opened]
    for one, relation in zip(opened, relations, strict=True):
        _check_sizes(one, relation, sizes)
    return Description(
        relations,
        names,
        frozenset(sizes),
        table["ranks"],
        _section(table, "model"),
        _section(table, "private"),
        float(table.get("held_out", 0.1)),
        int(table.get("seed", 0)),
    )


@dataclass(repr=False)
class _Opened(Undisclosed):
    """One relation's section and the content of its file: a matrix or array, or lists of ids and values."""

    entry: dict[str, Any]
    data: Any
    ids: list[pl.Series] | None

    def owner(self, axis: int) -> str | None:
        """Return the factor whose rows are the entities of an axis; None if there is no single one."""
        groups = self.entry["einsum"].replace(" ", "").split("->")
        letter = groups[1][axis]
        owners = [
            factor
            for factor, letters in zip(self.entry["factors"], groups[0].split(","), strict=False)
            if letter in letters
        ]
        return owners[0] if owners else None


def _opened(entry: dict[str, Any], folder: Path, place: int) -> _Opened:
    _check_keys(entry, RELATION_KEYS, f"relation {place + 1}")
    for key in ("file", "einsum", "factors"):
        if key not in entry:
            raise InvalidInputError(
                f"{key} in relation {place + 1}", words("none"), "See the page on coupled relations."
            )
    file = existing_file(folder / entry["file"])
    if file.suffix.lower() in LISTS and ("columns" in entry or _order(entry) != 2):
        return _list_of_cells(entry, file)
    if file.suffix.lower() == ".npy":
        import numpy as np

        with reading(file, "a NumPy array"):
            return _Opened(entry, np.load(file, allow_pickle=False), None)
    return _Opened(entry, read_matrix(file).X, None)


def _order(entry: dict[str, Any]) -> int:
    return len(str(entry["einsum"]).replace(" ", "").rpartition("->")[2])


def _list_of_cells(entry: dict[str, Any], file: Path) -> _Opened:
    """Read a table with one row per cell, one column per axis, and one column of values (all 1 without it)."""
    import numpy as np

    frame = read_frame(file)
    order = _order(entry)
    columns = list(entry.get("columns", frame.columns[: order + 1]))
    missing = [column for column in columns if column not in frame.columns]
    if missing or len(columns) not in (order, order + 1):
        raise InvalidInputError(
            f"{order} columns of ids and one of values in {file.name}, or the ids alone",
            words(f"no column {', '.join(map(str, missing))}" if missing else f"{len(columns)} columns"),
            "Name them in columns, in the order of the einsum's axes.",
        )
    values = np.ones(len(frame)) if len(columns) == order else _numbers(frame[columns[-1]], file)
    return _Opened(entry, values, [frame[column] for column in columns[:order]])


def _numbers(column: pl.Series, file: Path) -> NDArray[np.float64]:
    """Return a column of values as numbers; an empty cell becomes NaN, which `Relation` refuses."""
    import polars

    numbers = column.cast(polars.Float64, strict=False)
    if (numbers.is_null() & column.is_not_null()).any():
        raise InvalidInputError(
            f"numbers in the column {column.name!r} of {file.name}",
            words("values that are not numbers"),
            "Correct or drop these rows.",
        )
    return numbers.to_numpy()


def _collect_ids(opened: list[_Opened], names: dict[str, list[str]]) -> None:
    """Set the names of every factor whose entities are listed by id to the sorted ids of all lists, unless they were given."""
    given = set(names)
    by_place = {one.owner(axis) for one in opened if one.ids is None for axis in range(_order(one.entry))}
    for one in opened:
        for axis, column in enumerate(one.ids or []):
            factor = one.owner(axis)
            if factor is None or factor in given:
                continue
            if factor in by_place:
                raise InvalidInputError(
                    f"the names of {factor!r}: one file lists its entities by id, another by index",
                    parameter(one.entry["file"]),
                    f'Add a file with one name per line: [names] {factor} = "...", in the order of the indices.',
                )
            known = {*names.get(factor, []), *(str(value) for value in column.unique().to_list())}
            names[factor] = sorted(
                known, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)
            )


def _relation(one: _Opened, names: dict[str, list[str]]) -> Relation:
    import numpy as np

    from tacit.factor.coupled.relation import Relation

    options = {key: one.entry[key] for key in ("observed", "divergence", "dispersion", "name") if key in one.entry}
    data = one.data
    if one.ids is not None:
        columns, shape = [], []
        for axis, column in enumerate(one.ids):
            factor = one.owner(axis)
            if factor is None:
                raise InvalidInputError(
                    "a factor for every axis", parameter(one.entry["einsum"]), "Give each letter a factor."
                )
            place = {name: index for index, name in enumerate(names[factor])}
            ids = [str(value) for value in column.to_list()]
            if not place.keys() >= set(ids):
                raise InvalidInputError(
                    f"every id of {factor!r} to be in its file of names",
                    words("another id"),
                    f"Add all ids to the file that [names] gives for {factor!r}.",
                )
            columns.append(np.fromiter((place[name] for name in ids), np.int64, len(ids)))
            shape.append(len(place))
        data = (np.stack(columns, axis=1), data, tuple(shape))
    return Relation(data, one.entry["einsum"], one.entry["factors"], **options)


def _sizes(table: dict[str, Any], opened: list[_Opened], names: dict[str, list[str]]) -> dict[str, int]:
    """Return the number of entities of the factors for which [names] or [sizes] gives it."""
    sizes = {factor: len(listed) for factor, listed in names.items()}
    by_id = {one.owner(axis) for one in opened for axis in range(len(one.ids or []))}
    for factor, size in table.get("sizes", {}).items():
        if type(size) is not int or size < 1:
            raise InvalidInputError(
                f"[sizes] {factor} to be a whole number", parameter(size), "Give the number of entities."
            )
        if factor in names or factor in by_id:
            raise InvalidInputError(
                f"[sizes] for factors whose entities are listed by index, and [names] for {factor!r}",
                words("[sizes]"),
                f'Give [names] {factor} = "file.txt", with one entity per line, and no size.',
            )
        sizes[factor] = size
    return sizes


def _check_sizes(one: _Opened, relation: Relation, sizes: dict[str, int]) -> None:
    for place, factor in enumerate(relation.factors):
        axes = [relation.spec.output.index(letter) for letter in relation.spec.data_letters(place)]
        if factor in sizes and len(axes) == 1 and relation.shape[axes[0]] != sizes[factor]:
            raise InvalidInputError(
                f"{sizes[factor]} entities of {factor!r} in {one.entry['file']}, as in [names] or [sizes]",
                words("another number"),
                "Correct the file, or the number of entities.",
            )


def _section(table: dict[str, Any], name: str) -> dict[str, Any]:
    section = table.get(name, {})
    if not isinstance(section, dict):
        raise InvalidInputError(
            f"[{name}] to be a section", kind_of(section), f"Write [{name}], and settings below it."
        )
    return dict(section)


def check_given(description: Description, private: str, path: Path) -> None:
    """Refuse a description whose private relations have entities that are listed nowhere but in the data."""
    if not any(private in relation.factors for relation in description.relations):
        raise InvalidInputError(
            f"a relation with the protected entities in {path.name}",
            words(f"none with {private!r}"),
            "Name the factor of the protected entities with --private.",
        )
    for relation in description.relations:
        for place, factor in enumerate(relation.factors):
            if private in relation.factors and relation.spec.data_letters(place) and factor not in description.given:
                # names that the file has are ids; without names the entities are listed by index
                add = f'[names] {factor} = "file.txt" with one entity per line'
                add = add if factor in description.names else f"[sizes] {factor} = n, the number of entities, or {add}"
                raise InvalidInputError(
                    f"the entities of {factor!r} in {path.name} as a public list",
                    words("no list, so that they would be read from the private data"),
                    f"Add {add}. Make the list without looking at the data: it must not depend on who is in it.",
                )


def _check_keys(table: dict[str, Any], allowed: set[str], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise InvalidInputError(
                f"one of {', '.join(sorted(allowed))} in {where}", parameter(key), "Check the spelling."
            )
