"""Synthetic rows beside the real ones: columns, pairs of columns, classifiers on real rows, and who was in the table.

Nothing here is private: all figures are computed from the real rows without noise and are for their holder.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, listed, words
from tacit.measure.attacks import AttackResult, membership
from tacit.measure.classifiers import classifier_scores
from tacit.validation import TableLike

if TYPE_CHECKING:
    import narwhals as nw

PARTS = 10
"""Numbers are compared in this many parts that hold equally many real rows, and one for missing values."""
MOST_CATEGORIES = 50
"""Text with more different values is left out of classifiers and attacks."""
CLASSIFIERS = ("logistic-l1", "tree")
MOST_ROWS = 10_000
"""Classifiers and attacks use a random choice of this many rows of larger tables."""


@dataclass(frozen=True)
class SyntheticMeasures:
    """How near synthetic rows are to real ones.

    Attributes
    ----------
    columns : dict of str to float
        Total variation between the distributions of a column: 0 where they are equal, 1 where they have nothing in common.
    pairs : dict of str to float
        The same for the joint distributions of two columns, under "first, second".
    classifiers : dict of str to (float, float)
        AUC of a classifier of the label, tested on real rows: trained on other real rows, and trained on synthetic rows.
    attack : Finding or None
        Membership, if there are rows that were not in the table.
    """

    columns: dict[str, float]
    pairs: dict[str, float]
    classifiers: dict[str, tuple[float, float]] = field(default_factory=dict)
    attack: AttackResult | None = None

    @property
    def mean_pair(self) -> float:
        """Mean of `pairs`; of `columns`, if there is one column only."""
        return float(np.mean(list(self.pairs.values() or self.columns.values())))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        attack = None if self.attack is None else self.attack.to_dict()
        plain = {**asdict(self), "attack": attack, "mean_pair": self.mean_pair}
        return {**plain, "classifiers": {name: list(pair) for name, pair in self.classifiers.items()}}


def measure_synthetic(
    original: TableLike,
    synthetic: TableLike,
    *,
    label: str | None = None,
    outsiders: TableLike | None = None,
    random_state: int = 0,
) -> SyntheticMeasures:
    """Compare synthetic rows with real ones.

    Parameters
    ----------
    original, synthetic : data frame
        With the same columns, in any order; the synthetic table may have fewer columns and any number of rows.
    label : str, optional
        A column with classes, for the classifiers. Half of the real rows train the one, the other half test both.
    outsiders : data frame, optional
        Real rows that were not in the table that the synthetic rows were made from, for the attack on membership.
    random_state : int

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from tacit.measure.synthetic import measure_synthetic
    >>> generator = np.random.default_rng(0)
    >>> one, other = (pl.DataFrame({"a": generator.normal(size=4000), "b": ["x", "y"] * 2000}) for _ in range(2))
    >>> bool(measure_synthetic(one, other).mean_pair < 0.05)
    True
    """
    before, after = _frame(original, "the original"), _frame(synthetic, "the synthetic table")
    names = list(after.columns)
    absent = [name for name in names if name not in before.columns]
    if absent or not names:
        raise InvalidInputError(
            "a synthetic table whose columns are columns of the original",
            words(f"also {listed(absent)}" if absent else "no columns"),
            "Compare the columns that both have.",
        )
    if label is not None and label not in names:
        raise InvalidInputError("the label to be a column of both tables", words(f"none called {label}"), "Check it.")
    coded = {name: _codes(name, before[name], after[name]) for name in names}
    columns = {name: _distance(*coded[name]) for name in names}
    pairs = {
        f"{one}, {other}": _distance(*(_joint(coded, one, other, place) for place in (0, 1)))
        for one, other in itertools.combinations(names, 2)
    }
    generator = np.random.default_rng(random_state)  # a choice of rows for a measurement that stays with the holder
    scores: dict[str, tuple[float, float]] = {}
    features = [name for name in names if name != label and _is_usable(before[name])]
    if label is not None and features:
        scores = _classifiers(before, after, features, label, generator)
    attack = None
    if outsiders is not None:
        others = _frame(outsiders, "outsiders")
        tables = [_numbers(table, before, features) for table in (before, after, others)]
        tables[1] = tables[1][generator.integers(len(tables[1]), size=len(tables[0]))]  # as many rows as the original
        attack = membership(*tables[:2], outsiders=tables[2], sample=MOST_ROWS, random_state=random_state)
    return SyntheticMeasures(columns, pairs, scores, attack)


def _frame(table: object, name: str) -> nw.DataFrame[Any]:
    import narwhals as nw
    from narwhals.dependencies import is_into_dataframe

    frame = nw.from_native(table, eager_only=True) if is_into_dataframe(table) else None
    if frame is None or not len(frame):
        raise InvalidInputError(f"{name} to be a data frame with rows", kind_of(table), "Name the columns.")
    return frame


def _is_number(column: nw.Series[Any]) -> bool:
    return bool(column.dtype.is_numeric() or column.dtype.is_temporal())


def _is_usable(column: nw.Series[Any]) -> bool:
    return _is_number(column) or column.n_unique() <= MOST_CATEGORIES


def _floats(column: nw.Series[Any]) -> NDArray[np.float64]:
    import narwhals as nw

    kind = nw.Int64 if column.dtype.is_temporal() else nw.Float64
    return np.asarray(column.cast(kind).cast(nw.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _codes(name: str, before: nw.Series[Any], after: nw.Series[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return both columns as parts of numbers, or as categories."""
    if _is_number(before) != _is_number(after):
        raise InvalidInputError(
            f"numbers in the column {name} of both tables, or of none", words("numbers in one of them"), "Convert it."
        )
    if _is_number(before):
        tables = [_floats(before), _floats(after)]
        known = tables[0][~np.isnan(tables[0])]
        cuts = np.unique(np.quantile(known, np.linspace(0, 1, PARTS + 1)[1:-1])) if len(known) else np.zeros(0)
        first, second = (
            np.where(np.isnan(t), len(cuts) + 1, np.searchsorted(cuts, t, side="left")).astype(np.intp) for t in tables
        )
        return first, second
    cells = [[str(cell) for cell in column.to_list()] for column in (before, after)]
    place = {cell: index for index, cell in enumerate(sorted({*cells[0], *cells[1]}))}
    first, second = (np.array([place[cell] for cell in part], dtype=np.intp) for part in cells)
    return first, second


def _joint(
    coded: dict[str, tuple[NDArray[np.intp], NDArray[np.intp]]], one: str, other: str, place: int
) -> NDArray[np.intp]:
    width = int(max(part.max() for part in coded[other])) + 1
    codes: NDArray[np.intp] = coded[one][place] * width + coded[other][place]
    return codes


def _distance(first: NDArray[np.intp], second: NDArray[np.intp]) -> float:
    size = int(max(first.max(), second.max())) + 1
    fractions = [np.bincount(part, minlength=size) / len(part) for part in (first, second)]
    return float(0.5 * np.abs(fractions[0] - fractions[1]).sum())


def _numbers(table: nw.DataFrame[Any], reference: nw.DataFrame[Any], features: Sequence[str]) -> NDArray[np.float64]:
    """Return columns as numbers: missing ones as the reference's median, categories of the reference as flags."""
    blocks = []
    for name in features:
        if _is_number(reference[name]):
            values, known = _floats(table[name]), _floats(reference[name])
            blocks.append(np.where(np.isnan(values), np.nanmedian(known) if not np.isnan(known).all() else 0.0, values))
        else:
            cells = np.array([str(cell) for cell in table[name].to_list()])
            categories = sorted({str(cell) for cell in reference[name].to_list()})
            blocks += [(cells == category).astype(np.float64) for category in categories]
    return np.column_stack(blocks)


def _classifiers(
    before: nw.DataFrame[Any],
    after: nw.DataFrame[Any],
    features: Sequence[str],
    label: str,
    generator: np.random.Generator,
) -> dict[str, tuple[float, float]]:
    real, drawn = (_numbers(table, before, features) for table in (before, after))
    classes, guessed = (np.array([str(cell) for cell in table[label].to_list()]) for table in (before, after))
    order, chosen = (generator.permutation(len(part))[:MOST_ROWS] for part in (real, drawn))
    train, test = order[::2], order[1::2]
    if len(np.unique(classes[test])) < 2 or len(np.unique(classes[train])) < 2:
        return {}
    return {
        name: (
            classifier_scores(real[train], classes[train], real[test], classes[test], name)[1],
            classifier_scores(drawn[chosen], guessed[chosen], real[test], classes[test], name)[1],
        )
        for name in CLASSIFIERS
    }
