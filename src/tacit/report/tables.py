"""Release a perturbed table, release synthetic rows, or compare all methods: the functions behind `tacit perturb`.

Each function returns a `Result`, which a notebook shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import as_frame
from tacit.data.schema import ColumnSpec, DateColumn, TableSchema, looks_like_identifier
from tacit.errors import InvalidInputError, listed, parameter, words
from tacit.estimators.verdict import HOLDER, Concern, about_guarantee
from tacit.measure import value_difference
from tacit.measure.synthetic import SyntheticMeasures, measure_synthetic
from tacit.perturb import HideMembership, named_release
from tacit.perturb.base import TablePerturbation
from tacit.perturb.columns import NumericColumns, fill_missing, read_chosen
from tacit.perturb.compare import (
    COMPARED,
    PRIVATE,
    Compared,
    choice_in_words,
    compare_releases,
    frontier,
    rows_held_out,
)
from tacit.report.figures import category_bars, distributions, release_frontier
from tacit.report.page import HOLDER_ONLY, Report
from tacit.report.result import Result, concerns_in_the_result, facts_of, for_the_holder, keep_release
from tacit.synthetic import PrivateTable
from tacit.synthetic.rules import comparable
from tacit.validation import check_seed

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame

    from tacit.privacy.ledger import Ledger

COLUMNS_PER_FIGURE, ROWS_SHOWN, MEANS_SHOWN = 24, 200, 8
"""Most columns in a figure, and most rows and columns in a table of the report: more would not be readable."""
ROWS_OF_PAIRS = 10
"""The pairs of columns with the largest errors that the report lists."""
HARDLY_BETTER = 0.8
"""Synthetic rows with more than this fraction of the error of shuffled columns keep hardly any relation. Set by hand."""
RELATED = 1.5
"""Columns have something to do with each other if shuffling them changes pairs this many times as much as chance does."""
TRIED_ROWS = 50
"""Rows on which the comparison of a synthetic table is tried before its budget is charged."""
ROWS_COMPARED = 6000
"""Tables with more rows are compared on this many random ones. Set by hand: it bounds the time."""
MOSTLY, HALF = 0.9, 0.5
"""Where at least `MOSTLY` of the earlier rows are different ones, equal rows are seldom other people: a later table is refused
if more than `HALF` of it, or of the earlier one, is in both. Set by hand."""
ABOUT_COMPARISONS = (
    "Every method at several settings: utility for an analyst, against the largest gain of an attacker with the release over one "
    "without it. Top left is best. Only the private table has a guarantee; the others may be vulnerable to other attacks. "
)


@dataclass(frozen=True, eq=False)
class ReleasedTable(Result):
    """A released table, with a description and a page.

    Attributes
    ----------
    table : data frame
        The release: a data frame of the given type.
    summary, report
        As in `Result`; they are for the holder.
    """

    table: Any


def perturb_table(
    frame: IntoDataFrame,
    method: str = "compressed-nmf",
    *,
    label: str | None = None,
    left_out: Sequence[str] = (),
    appended_to: IntoDataFrame | None = None,
    **settings: Any,
) -> ReleasedTable:
    """Perturb a table with a method that has no guarantee.

    Parameters
    ----------
    frame : data frame
    method : str
        The name of a method; see `tacit.perturb.named_release`.
    label : str, optional
        A column with classes, used by the methods that need it. It is released unchanged.
    left_out : sequence of str
        Columns that are not released.
    appended_to : data frame, optional
        The table that was released earlier. `frame` has the rows that came later: they are changed as the method learned from
        the earlier table, and no earlier row is released again. Two releases of one row would tell more than one. Give
        the settings and the `random_state` of the earlier release.
    **settings
        Parameters of the method: `level` or `target_distortion`; `columns` to change; `unchanged`, the columns to release
        unchanged; and so on.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from tacit.report.tables import perturb_table
    >>> frame = pl.DataFrame(np.random.default_rng(0).random((40, 2)), schema=["age", "dose"])
    >>> result = perturb_table(frame.with_columns(zip=pl.lit("10115")), "uniform-noise", level=0.1, unchanged=["zip"])
    >>> result.table.columns, result.summary["unchanged"]
    (['age', 'dose', 'zip'], ['zip'])
    """
    whole = _frame(frame)
    _check_names(left_out, whole.columns, "left_out")
    kept = whole.drop(list(left_out))
    table, classes = _without_label(kept, label)
    release = named_release(method, **settings)
    if appended_to is None:
        released = _frame(release.fit_transform(table.to_native(), classes))
    else:
        earlier = _frame(appended_to)
        _check_names(left_out, earlier.columns, "left_out")
        again = _check_appended(kept, earlier.drop(list(left_out)), release)
        earlier_table, earlier_classes = _without_label(earlier.drop(list(left_out)), label)
        release.fit(earlier_table.to_native(), earlier_classes)
        released = _frame(release.transform(table.to_native()))
    if label is not None:
        released = released.with_columns(kept[label]).select(kept.columns)
    chosen = read_chosen(table.to_native(), release.columns, release.unchanged)
    unchanged = [name for name in kept.columns if name not in chosen.names]
    summary: dict[str, Any] = {
        "notice": for_the_holder(),
        "method": method,
        "label": label,
        "missing": settings.get("missing", "refuse"),
        "guarantee": release.guarantee_.to_dict(),
        "measures": _measures(release),
        "appended": appended_to is not None,
        "changed": list(chosen.names),
        "unchanged": unchanged,
        "not_released": list(left_out),
        "identifying": [name for name in unchanged if looks_like_identifier(name, kept[name].to_numpy())],
    }
    if appended_to is not None:
        summary["measures"] = _measures_of_appended(release, chosen, released)
        if again:
            summary["measures"]["rows equal to an earlier one"] = again
    if isinstance(release, HideMembership) and appended_to is None:
        summary |= _memberships(release, chosen)
    report = Report(f"A table released by {method}", summary["notice"])
    plain = {name: value for name, value in settings.items() if isinstance(value, (int, float, str))}
    report.facts = facts_of({"method": method, **plain}, len(released), release.guarantee_)
    report.guarantee(release.guarantee_)
    _say_what_leaves(report, summary)
    _show_measures(report, summary["measures"])
    if "clusters" in summary:
        _show_memberships(report, summary)
    before = dict(zip(chosen.names, chosen.values.T, strict=True))
    _draw_columns(report, before, {name: released[name].to_numpy() for name in before})
    options = measure_options(summary)
    report.text(
        "Before it leaves",
        f"Measure the release: tacit measure TABLE RELEASE{options} shows what it keeps and what attackers recover, also by "
        "the unchanged columns.",
    )
    return ReleasedTable(summary, report, released.to_native())


@concerns_in_the_result
def synthesize_table(
    frame: IntoDataFrame,
    schema: TableSchema | Mapping[str, ColumnSpec] | ColumnSpec,
    *,
    epsilon: float,
    delta: float = 1e-6,
    label: str | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: int | None = None,
) -> ReleasedTable:
    """Release synthetic rows with differential privacy for every row of a table.

    Parameters
    ----------
    frame : data frame
    schema : TableSchema or mapping from column to ColumnSpec
        The public description of the columns.
    epsilon, delta, label, ledger, dataset
        As in `PrivateTable`.
    random_state : int, optional
        Seed of the draw of the rows from the private model. It does not weaken the guarantee: privacy noise does not use it.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from tacit.data import IntegerColumn
    >>> from tacit.report.tables import synthesize_table
    >>> frame = pl.DataFrame({"age": np.random.default_rng(0).integers(18, 90, size=500)})
    >>> result = synthesize_table(frame, {"age": IntegerColumn(0, 120)}, epsilon=2.0)
    >>> result.table["age"].dtype, result.summary["guarantee"]["epsilon"] <= 2
    (Int64, True)
    """
    table = _frame(frame)
    if random_state is not None:
        check_seed(random_state)
    stated = TableSchema.of(schema, table.columns)
    read = {
        name: spec.numbers(table[name].to_numpy(), name) for name, spec in stated.for_columns(table.columns).items()
    }
    before = {name: values for name, values in read.items() if values is not None}
    dates = [name for name, spec in stated.columns.items() if isinstance(spec, DateColumn)]
    _draw_columns(Report(""), before, before, dates)  # everything that can fail is tried before the charge
    compared = _declared_cells(table, stated)
    named = [name for name in compared.columns if name not in before]
    _draw_categories(Report(""), compared, compared, named)
    measure_synthetic(compared, compared.head(TRIED_ROWS), label=label)
    model = PrivateTable(epsilon=epsilon, delta=delta, schema=stated, label=label, ledger=ledger, dataset=dataset).fit(
        frame
    )
    released = model.sample(random_state=random_state)
    keep_release(released)
    drawn = _declared_cells(_frame(released), stated)
    measured = measure_synthetic(compared, drawn, label=label)
    concerns = about_guarantee(model.guarantee_, len(table))
    concerns += _about_pairs(compared, measured)
    summary: dict[str, Any] = {
        "notice": for_the_holder("the synthetic table"),
        "concerns": [concern.to_dict() for concern in concerns],
        "method": PRIVATE,
        "label": label,
        "guarantee": model.guarantee_.to_dict(),
        "measures": {"rows (noisy)": round(model.count_), "rows drawn": len(released)},
        "releasable": ["guarantee", "measures"],
        "compared": measured.to_dict(),
        "changed": [],
        "unchanged": [],
        "not_released": list(stated.left_out),
        "identifying": [],
    }
    report = Report("A synthetic table", summary["notice"])
    report.facts = facts_of(
        {"epsilon": float(epsilon), "delta": float(delta), "columns": len(stated.columns)}, len(table), model.guarantee_
    )
    report.concerns(concerns)
    report.guarantee(model.guarantee_)
    _say_what_leaves(report, summary)
    report.table(
        "What was done (may be passed on)",
        ["", "value"],
        [[name, f"{value:,}"] for name, value in summary["measures"].items()],
        note="The number of rows is noisy, and part of the release.",
    )
    show_synthetic(report, measured, label)
    after = _frame(released)
    _draw_columns(
        report,
        before,
        {name: np.asarray(stated.columns[name].numbers(after[name].to_numpy(), name)) for name in before},
        dates,
    )
    _draw_categories(report, compared, drawn, named)
    report.text(
        "Before it leaves", "The guarantee bounds every attack. No synthetic row is derived from a single original row."
    )
    return ReleasedTable(summary, report, released)


def _about_pairs(real: nw.DataFrame[Any], measured: SyntheticMeasures) -> list[Concern]:
    """Return a concern if synthetic rows keep pairs of columns hardly better than real columns in shuffled order would.

    Where columns have little to do with each other, shuffling changes as little as drawing the rows again, and there is no
    concern.
    """
    import narwhals as nw

    if not measured.pairs:
        return []
    generator = np.random.default_rng(0)  # of the comparison, which is for the holder
    n_rows = len(real)
    cells = {name: real[name].to_numpy() for name in real.columns}
    drawn_again = generator.integers(n_rows, size=n_rows)
    again = {name: column[drawn_again] for name, column in cells.items()}
    shuffled = {name: column[generator.permutation(n_rows)] for name, column in cells.items()}
    chance, trivial = (
        measure_synthetic(real, nw.from_dict(one, backend="polars")).mean_pair for one in (again, shuffled)
    )
    if trivial < RELATED * chance or measured.mean_pair < HARDLY_BETTER * trivial:
        return []
    return [
        Concern(
            "Pairs of columns are hardly kept better than by real columns in shuffled order, which keep no relation at all: mean "
            f"total variation {measured.mean_pair:.3f} against {trivial:.3f}.",
            "Do not study relations between columns with these rows. Leave columns out, declare fewer categories, or give a "
            "larger epsilon.",
            HOLDER,
        )
    ]


def _declared_cells(table: nw.DataFrame[Any], schema: TableSchema) -> nw.DataFrame[Any]:
    """Return the declared columns as a private table reads them, also where a file was read as text."""
    import narwhals as nw

    specs = {name: schema.columns[name] for name in table.columns if name in schema.columns}
    columns = {name: comparable(spec, table[name].to_numpy(), name) for name, spec in specs.items()}
    return nw.from_dict(columns, backend="polars")


def show_synthetic(report: Report, measured: SyntheticMeasures, label: str | None) -> None:
    """Add how near synthetic rows are to the real ones; all of it is for the holder."""
    worst = sorted(measured.pairs.items(), key=lambda pair: -pair[1])[:ROWS_OF_PAIRS]
    report.table(
        "Columns (for the holder only)",
        ["column", "total variation"],
        [[name, f"{value:.3f}"] for name, value in measured.columns.items()],
        note="0: the same distribution in real and synthetic rows; 1: nothing in common. Numbers are compared in tenths.",
    )
    if worst:
        report.table(
            "Pairs of columns (for the holder only)",
            ["pair", "total variation"],
            [["mean of all pairs", f"{measured.mean_pair:.3f}"], *([name, f"{value:.3f}"] for name, value in worst)],
            note="The pairs that are farthest from the real ones. Few rows differ by chance, too.",
        )
    if measured.classifiers:
        report.table(
            f"Classifiers of {label} on real rows (for the holder only)",
            ["classifier", "AUC, trained on real rows", "trained on synthetic rows"],
            [[name, f"{real:.3f}", f"{drawn:.3f}"] for name, (real, drawn) in measured.classifiers.items()],
        )
    if measured.attack is not None:
        report.text("Who was in the table (for the holder only)", str(measured.attack) + ".")


@dataclass(frozen=True, eq=False)
class TableComparison(Result):
    """All methods on one table.

    Attributes
    ----------
    releases : list of Compared
    summary, report
        As in `Result`.
    """

    releases: list[Compared]


def compare_table(
    frame: IntoDataFrame,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    distortions: Sequence[float] = (0.05, 0.1, 0.2, 0.4),
    epsilons: Sequence[float] = (0.5, 1.0, 3.0, 10.0),
    delta: float = 1e-6,
    schema: TableSchema | None = None,
    n_clusters: int = 3,
    missing: str = "refuse",
    random_state: int = 0,
    advance: Callable[[str], None] = lambda stage: None,
) -> TableComparison:
    """Compare all methods of `tacit.perturb` on the numeric columns of a table: utility against leakage.

    Parameters
    ----------
    frame : data frame
    label : str, optional
        A column with classes, for the measure of utility.
    columns : sequence of str, optional
        Columns to compare on; all numeric ones if not given.
    distortions, epsilons, delta, n_clusters, random_state, advance
        As in `tacit.perturb.compare_releases`.
    schema : TableSchema, optional
        The public description of the columns, for the private table; it may declare more columns than are compared. If it is
        not given, bounds are computed from the data, and the notes say so.
    missing : {"refuse", "mean", "median"}
    """
    whole = _frame(frame)
    table, classes = _without_label(whole, label)
    numeric = [name for name, kind in table.schema.items() if kind.is_numeric()]
    if columns is None:
        table = table.select(numeric)
    else:
        _check_names(columns, table.columns, "columns")
        table = table.select(list(columns))
    chosen = read_chosen(table.to_native(), columns)
    values, _, n_filled = fill_missing(chosen.values, missing, chosen.names)
    of_all = f" of {len(values)}" if len(values) > ROWS_COMPARED else ""
    if len(values) > ROWS_COMPARED:
        # A choice with a public seed is fine here: a comparison has no guarantee and stays with the holder.
        some = np.sort(np.random.default_rng(random_state).permutation(len(values))[:ROWS_COMPARED])
        values, classes = values[some], None if classes is None else classes[some]
    points = compare_releases(
        values,
        classes,
        distortions=distortions,
        epsilons=epsilons,
        delta=delta,
        schema=None if schema is None else _declared(schema, chosen.names),
        n_clusters=n_clusters,
        names=chosen.names,
        random_state=random_state,
        advance=advance,
    )
    utility = "clustering accuracy" if classes is None else "AUC"
    reference = _use_of_original(values, classes, random_state)
    summary: dict[str, Any] = {
        "notice": for_the_holder(),
        "verdict": choice_in_words(points, reference, utility),
        "title": f"{len(values)}{of_all} rows, {values.shape[1]} columns",
        "utility": utility,
        "leak": f"largest gain of {max((len(point.attacks) for point in points), default=0)} attacks",
        "original": reference,
        "columns_left_out": [name for name in whole.columns if name not in chosen.names and name != label],
        "missing_filled": n_filled,
        "releases": [point.to_dict() for point in points],
    }
    return TableComparison(summary, _comparison_report(summary, points, reference), points)


N_COMPARED = len(COMPARED)
"""Number of calls of `advance` by `compare_table`."""


def _frame(frame: object) -> nw.DataFrame[Any]:
    table = as_frame(frame)
    if table is None:
        raise InvalidInputError(
            "a data frame with named columns", words(f"a value of type {type(frame).__name__}"), "Name the columns."
        )
    if not len(table):
        raise InvalidInputError("a table to have rows", words("names of columns only"), "Give the table with its rows.")
    return table


def _check_names(names: Sequence[str], known: Sequence[str], what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInputError(
            f"{what} to be columns of the table",
            words(f"{listed(unknown)}, which the table does not have"),
            f"It has {listed(known)}.",
        )


def _without_label(frame: nw.DataFrame[Any], label: str | None) -> tuple[nw.DataFrame[Any], NDArray[np.generic] | None]:
    """Return the table without its label, and the label's values, or None."""
    if label is None:
        return frame, None
    if label not in frame.columns:
        raise InvalidInputError(
            "the label to be a column of the table", parameter(label), f"It has {listed(frame.columns)}."
        )
    if frame[label].null_count():
        raise InvalidInputError("a label in every row", words("rows without one"), "Drop these rows.")
    return frame.drop(label), frame[label].to_numpy()


def _declared(schema: TableSchema, names: Sequence[str]) -> TableSchema:
    """Return the schema of these columns alone."""
    absent = [name for name in names if name not in schema.columns]
    if absent:
        raise InvalidInputError(
            "a schema of all columns to compare on",
            words(f"nothing about {listed(absent)}"),
            "Declare them, or give no schema.",
        )
    return TableSchema({name: schema.columns[name] for name in names})


def _measures(release: TablePerturbation) -> dict[str, float]:
    measures: dict[str, float] = {"distortion": release.distortion_, release._level_name: release.level_}
    if release.n_imputed_:
        measures["missing values filled"] = release.n_imputed_
    for name, shown in (("changes_", "rows moved"), ("missed_", "rows not moved"), ("side_effects_", "side effects")):
        if hasattr(release, name):
            measures[shown] = len(getattr(release, name))
    if hasattr(release, "n_unchanged_"):
        measures["rows released unchanged"] = release.n_unchanged_
    return measures


def _check_appended(frame: nw.DataFrame[Any], earlier: nw.DataFrame[Any], release: TablePerturbation) -> int:
    """Raise unless the rows came after those of the earlier table, and the method can be learned again as it was.

    Return how many rows equal an earlier one, which may be other people with the same values.
    """
    if earlier.columns != frame.columns:
        raise InvalidInputError(
            "the columns of the earlier table, in its order", words("others"), "Give both tables the same columns."
        )
    rows, released = (list(table.iter_rows()) for table in (frame, earlier))
    again = (Counter(rows) & Counter(released)).total()
    distinct = len(set(released)) >= MOSTLY * len(released)
    if rows[: len(released)] == released or (distinct and again > HALF * min(len(released), len(rows))):
        raise InvalidInputError(
            "the rows that came later, alone",
            words("a table with rows of the earlier one"),
            "Leave the earlier rows out: they were released, and a second version of them would tell more.",
        )
    if "random_state" in release.get_params() and release.random_state is None:
        raise InvalidInputError(
            "the random_state of the earlier release",
            words("none"),
            "Without it, the method learns something else.",
        )
    return again


def _measures_of_appended(
    release: TablePerturbation, chosen: NumericColumns, released: nw.DataFrame[Any]
) -> dict[str, float]:
    """Return the setting, and the distortion of the later rows, which the fit did not see."""
    values, *_ = fill_missing(chosen.values, release.missing, chosen.names, release._fills)
    changed = np.column_stack([released[name].to_numpy() for name in chosen.names]).astype(float)
    return {"distortion": value_difference(values, changed), release._level_name: release.level_}


def measure_options(summary: Mapping[str, Any]) -> str:
    """Return the options that `tacit measure` needs for these tables."""
    label = f" --label {summary['label']}" if summary["label"] is not None else ""
    return label + (f" --missing {summary['missing']}" if "missing values filled" in summary["measures"] else "")


def _say_what_leaves(report: Report, summary: Mapping[str, Any]) -> None:
    """Name the columns that are released unchanged, and those that are not released."""
    sentences = []
    if summary["unchanged"]:
        sentences.append(
            f"Released unchanged: {', '.join(summary['unchanged'])}. Anyone who knows a person's values in these columns can "
            "search for them in the release."
        )
    else:
        sentences.append("No column is released unchanged.")
    if summary["identifying"]:
        sentences.append(
            f"Of these, {', '.join(summary['identifying'])} may be identifiers, by name or because all rows have different "
            "values: anyone who knows them finds the row."
        )
    if summary["not_released"]:
        sentences.append(f"Not released: {', '.join(summary['not_released'])}.")
    report.text("Columns", *sentences)


def _show_measures(report: Report, measures: Mapping[str, float]) -> None:
    report.table("What was done", ["", "value"], [[name, f"{value:.4g}"] for name, value in measures.items()])


def _draw_columns(
    report: Report,
    before: Mapping[str, NDArray[np.float64]],
    after: Mapping[str, NDArray[np.float64]],
    dates: Collection[str] = (),
) -> None:
    """Add figures of the distributions of all columns of numbers; columns without any value are left out."""
    filled = [name for name, values in before.items() if np.isfinite(values).any()]
    for start in range(0, len(filled), COLUMNS_PER_FIGURE):
        drawn = filled[start : start + COLUMNS_PER_FIGURE]
        tables = (np.column_stack([columns[name] for name in drawn]) for columns in (before, after))
        report.figure(
            f"Distributions ({HOLDER_ONLY})",
            distributions(drawn, *tables, dates=dates),
            "Columns of numbers before and after, from the least to the greatest value. Heights are fractions of the rows, "
            "on a logarithmic scale.",
        )


def _draw_categories(report: Report, before: nw.DataFrame[Any], after: nw.DataFrame[Any], names: Sequence[str]) -> None:
    """Add figures of the frequencies of the categories of all named columns."""
    for start in range(0, len(names), COLUMNS_PER_FIGURE):
        drawn = names[start : start + COLUMNS_PER_FIGURE]
        pairs = {name: (_fractions(before[name]), _fractions(after[name])) for name in drawn}
        report.figure(
            f"Categories ({HOLDER_ONLY})", category_bars(pairs), "Fractions of the rows before and after, by category."
        )


def _fractions(column: nw.Series[Any]) -> dict[str, float]:
    values, counts = np.unique([str(value) for value in column.to_list()], return_counts=True)
    return dict(zip(values.tolist(), (counts / max(len(column), 1)).tolist(), strict=True))


def _memberships(release: HideMembership, chosen: NumericColumns) -> dict[str, Any]:
    """Return the rows that moved or were to move, and the clusters with the numbers that `hide` uses."""
    before, after = release.labels_, release.new_labels_
    kinds = {"changes_": "moved as asked", "missed_": "not moved as asked", "side_effects_": "side effect"}
    rows = [
        {"row": int(row), "before": int(before[row]), "after": int(after[row]), "what": what}
        for name, what in kinds.items()
        for row in getattr(release, name)
    ]
    clusters = [
        {
            "cluster": number,
            "rows before": int((before == number).sum()),
            "rows after": int((after == number).sum()),
            "means before": {
                name: float(np.nanmean(values)) if np.isfinite(values).any() else None
                for name, values in zip(chosen.names, chosen.values[before == number].T, strict=True)
            },
        }
        for number in range(release.n_clusters)
    ]
    return {"rows": rows, "clusters": clusters}


def _show_memberships(report: Report, summary: Mapping[str, Any]) -> None:
    rows = [[str(row["row"]), str(row["before"]), str(row["after"]), row["what"]] for row in summary["rows"]]
    shown = rows[:ROWS_SHOWN]
    note = f"The first {len(shown)} of {len(rows)}; all are in result.json." if len(rows) > len(shown) else ""
    report.table("Rows that moved, or were to", ["row", "cluster before", "after", ""], shown, note=note)
    names = list(summary["clusters"][0]["means before"])[:MEANS_SHOWN]
    table = [
        [
            str(one["cluster"]),
            str(one["rows before"]),
            str(one["rows after"]),
            *("-" if one["means before"][name] is None else f"{one['means before'][name]:.4g}" for name in names),
        ]
        for one in summary["clusters"]
    ]
    note = "Means of the original's columns" + (" (the first ones)" if len(names) == MEANS_SHOWN else "")
    note += ". --hide names clusters by these numbers, with the same --clusters and --seed."
    report.table("Clusters", ["cluster", "rows before", "after", *names], table, note=note)


def _use_of_original(values: NDArray[np.float64], classes: NDArray[np.generic] | None, seed: int) -> float:
    """Return the utility of the original table, as that of an unchanged release."""
    if classes is None:
        return 1.0
    from tacit.measure import classifier_scores

    test = rows_held_out(classes, len(values), seed)
    return float(classifier_scores(values[~test], classes[~test], values[test], classes[test], "logistic-l1")[1])


def _comparison_report(summary: Mapping[str, Any], points: Sequence[Compared], reference: float) -> Report:
    measured = [point for point in points if point.utility is not None and point.leak is not None]
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for point in measured:
        lines.setdefault(point.method, []).append((point.leak or 0, point.utility or 0, point.setting.split()[-1]))
    report = Report("Ways to release a table", ABOUT_COMPARISONS + summary["notice"])
    report.text("In words", summary["verdict"], _about_comparison(summary))
    figure = release_frontier(
        lines,
        best=[(point.leak or 0, point.utility or 0) for point in frontier(points)],
        utility_name=summary["utility"],
        leak_name=summary["leak"],
        reference=reference,
        highlight=PRIVATE,
    )
    caption = (
        "Along a line, markers grow with the setting: distortion, or epsilon for the private table. The grey line joins the "
        "releases that no other one beats in both; some of them are labelled with their setting."
    )
    report.figure("Use against leak", figure, caption)
    attacks = list(dict.fromkeys(name for point in measured for name in point.attacks))
    rows = [
        [
            point.method,
            point.setting,
            f"{point.utility:.3f}",
            *(f"{point.attacks[name]:.3f}" if name in point.attacks else "-" for name in attacks),
        ]
        for point in measured
    ]
    note = "Gain of each attack over an attacker without the release, as a fraction of the largest possible gain."
    report.table("All releases", ["method", "setting", summary["utility"], *attacks], rows, note=note)
    notes: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if point.note:
            notes.setdefault((point.method, point.note), []).append(point.setting)
    if notes:
        texts = [[method, ", ".join(filter(None, settings)), note] for (method, note), settings in notes.items()]
        report.table("Notes", ["method", "settings", ""], texts)
    return report


def _about_comparison(summary: Mapping[str, Any]) -> str:
    """Return what was compared and what was left out, as sentences."""
    sentences = [f"Compared on {summary['title']}."]
    if summary["missing_filled"]:
        sentences.append(f"{summary['missing_filled']} missing values were filled.")
    if summary["columns_left_out"]:
        sentences.append(f"Left out: {', '.join(summary['columns_left_out'])}.")
    return " ".join(sentences)
