"""`tacit perturb`: release a table in changed form, or compare all ways of doing so."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options
from tacit.cli.budget import account
from tacit.cli.output import check_output_file, print_json, print_table, progress, show_concern, show_what_is_left
from tacit.cli.read import read_table
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    import polars as pl

    from tacit.data.schema import ColumnSpec, TableSchema

TABLE = typer.Argument(help="The table: csv, csv.gz, tsv or parquet, with names of columns.")
OUTPUT = typer.Option(Path("release.csv"), "--output", "-o", help="File to write the release to: csv or parquet.")
REPORT = typer.Option(Path("tacit-perturb"), help="Folder for report.html and result.json, which are for the holder.")
SETTINGS = typer.Option([], "--set", help="A further setting of the method, as in eta=0.2; may be repeated.")
APPENDED = typer.Option(
    None, help="The table released earlier; TABLE has the later rows. Give the method, its settings and --seed as then."
)
SCHEMA = typer.Option(None, help="private-table: public schema of the columns, toml or json; see tacit tables schema.")

PRIVATE = "private-table"
FOR_THE_HOLDER = ("compared", "concerns")
"""Values of a release that were computed from the real rows."""
ALWAYS = {"table", "report", "overwrite", "as_json"}
STATED = {"schema", "bounds", "integers", "categories"}
USED_BY_PRIVATE = ALWAYS | STATED | {"method", "output", "label", "epsilon", "delta", "seed", "ledger", "dataset"}
USED_BY_PRIVATE |= {"columns", "left_out", "missing"}
USED_BY_COMPARE = ALWAYS | {
    *("compare", "label", "columns", "missing", "distortions", "epsilons", "delta", "clusters", "seed"),
    *("schema", "bounds", "integers"),
}
USED_BY_METHODS = ALWAYS | {
    *(
        "method",
        "output",
        "label",
        "level",
        "target_distortion",
        "columns",
        "unchanged",
        "left_out",
        "missing",
        "settings",
        "appended_to",
    ),
}
PARAMETERS = {"clusters": "n_clusters", "seed": "random_state", "hide": "hide"}
"""Options that some methods use, and the parameter by which a method shows that it does."""
HAVE_OPTIONS = {"level", "target_distortion", "columns", "unchanged", "missing", *PARAMETERS.values()}


def perturb(
    context: typer.Context,
    table: Path = TABLE,
    method: str = typer.Option("compressed-nmf", help="A method by name, or private-table; see the documentation."),
    target_distortion: float | None = typer.Option(None, help="Value difference to reach."),
    level: float | None = typer.Option(None, help="The method's own setting, in place of a target."),
    columns: str | None = typer.Option(
        None, help="Columns to change, as in age,income; all but those passed or dropped."
    ),
    unchanged: str | None = typer.Option(None, "--pass", help="Columns to release as they are, as in zip,date."),
    left_out: str | None = typer.Option(None, "--drop", help="Columns that are not released, as in name,id."),
    label: str | None = typer.Option(None, help="Column with classes: never changed, used by methods that need it."),
    missing: str = typer.Option(
        "refuse",
        help="Missing values: refuse, or fill by mean or median; private-table: refuse, or keep them as a value.",
    ),
    appended_to: Path | None = APPENDED,
    hide: str | None = typer.Option(None, help="hide-membership: rows to move, as in '3=anywhere else,7=2'."),
    settings: list[str] = SETTINGS,
    epsilon: float = typer.Option(1.0, help="private-table: total privacy loss."),
    delta: float = typer.Option(1e-6, help="private-table: failure probability."),
    schema: Path | None = SCHEMA,
    bounds: str | None = typer.Option(None, help="private-table: public bounds, as in age=0:120,income=0:1e6."),
    integers: str | None = typer.Option(
        None, help="private-table: which columns of --bounds hold integers, as in age."
    ),
    categories: str | None = typer.Option(None, help="private-table: public values, as in 'sex=f|m,state=a|b|c'."),
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    compare: bool = typer.Option(False, "--compare", help="Measure all methods, and draw use against leak."),
    distortions: str = typer.Option("0.05,0.1,0.2,0.4", help="--compare: distortions to try."),
    epsilons: str = typer.Option("0.5,1,3,10", help="--compare: losses to try for the private table."),
    clusters: int = typer.Option(3, help="Number of clusters, for methods and measures that have them."),
    seed: int | None = typer.Option(
        None, help="Makes the release reproducible. Anyone who knows it can undo noise; private-table's has no seed."
    ),
    output: Path = OUTPUT,
    report: Path = REPORT,
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Perturb a table. Only private-table has a guarantee: measure the others before you pass them on.

    Writes the release, and a folder with report.html and result.json, which are for the holder. A column is released unchanged
    only if --pass or --label names it. private-table takes the public description of the columns from --schema or from
    --bounds, --integers and --categories, and nothing of it from the rows.
    """
    _refuse_unused(context, method, compare)
    if compare:
        stated = _stated(schema, bounds, integers, None) if schema or bounds or integers else None
        _compare(
            table,
            label=label,
            columns=_names(columns),
            distortions=_numbers(distortions, "--distortions"),
            epsilons=_numbers(epsilons, "--epsilons"),
            delta=delta,
            schema=stated,
            n_clusters=clusters,
            missing=missing,
            random_state=0 if seed is None else seed,
            folder=report,
            overwrite=overwrite,
            as_json=as_json,
        )
        return
    if not output.name.lower().endswith((".csv", ".parquet")):
        raise InvalidInputError(
            "an output that ends in .csv or .parquet", parameter(str(output)), "Give the file one of these endings."
        )
    check_output_file(output, overwrite=overwrite)
    from tacit.report.result import ResultFolder
    from tacit.report.tables import perturb_table, synthesize_table

    with (
        ResultFolder(report, overwrite=overwrite, model=False, data=table) as folder,
        progress(2, quiet=as_json) as advance,
    ):
        advance("releasing")
        folder.occasion.keep = lambda released: _write(released, output)
        if method == PRIVATE:
            stated = _stated(schema, bounds, integers, categories)
            result = synthesize_table(
                read_table(table, as_text=True),
                _narrowed(stated, table, _names(columns), _names(left_out) or [], missing),
                epsilon=epsilon,
                delta=delta,
                label=label,
                random_state=seed,
                **account(ledger, dataset, table),
            )
        else:
            given: dict[str, Any] = {
                **dict(_setting(text) for text in settings),
                **{"level": level, "target_distortion": target_distortion, "missing": missing},
                **{"columns": _names(columns), "unchanged": _names(unchanged)},
                **_own_options(method, clusters=clusters, seed=seed, hide=None if hide is None else _moves(hide)),
            }
            passed = given["unchanged"] or ()
            if appended_to is not None:
                given["appended_to"] = _with_text(read_table(appended_to), appended_to, passed)
            frame = _with_text(read_table(table), table, passed)
            result = perturb_table(frame, method, label=label, left_out=_names(left_out) or (), **given)
        advance("writing")
        _write(result.table, output)
        result.summary.update(table=str(table), output=str(output))
        if ledger is not None and method != PRIVATE:
            result.summary["ledger"] = "Nothing is charged: this release has no guarantee, and no account covers it."
        result.write(report)
    if as_json:  # what is printed may be passed on; the comparison with the real rows stays in the report's folder
        print_json({name: value for name, value in result.summary.items() if name not in FOR_THE_HOLDER})
        return
    _show_release(result.summary, report)


def _show_release(summary: dict[str, Any], folder: Path) -> None:
    for concern in summary.get("concerns", ()):
        show_concern(**concern)
    typer.echo(summary["guarantee"]["sentence"])
    if "ledger" in summary:
        typer.echo(summary["ledger"])
    for name, value in summary["measures"].items():
        shown = f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
        typer.echo(f"{name}: {shown}")
    show_what_is_left()
    if summary["unchanged"]:
        typer.echo(f"Released unchanged: {', '.join(summary['unchanged'])}")
    typer.echo(f"Release: {summary['output']}; report: {folder / 'report.html'}")
    if summary["method"] != PRIVATE:
        from tacit.report.tables import measure_options

        typer.echo(f"Before it leaves: tacit measure {summary['table']} {summary['output']}{measure_options(summary)}")


def _compare(table: Path, *, folder: Path, overwrite: bool, as_json: bool, **settings: Any) -> None:
    from tacit.report.result import ResultFolder
    from tacit.report.tables import N_COMPARED, compare_table

    with (
        ResultFolder(folder, overwrite=overwrite, model=False, data=table),
        progress(N_COMPARED, quiet=as_json) as advance,
    ):
        result = compare_table(read_table(table), **settings, advance=advance)
        result.write(folder)
    if as_json:
        print_json(result.summary)
        return
    rows = [
        [
            point.method,
            point.setting,
            "" if point.utility is None else f"{point.utility:.3f}",
            "" if point.leak is None else f"{point.leak:.3f}",
            point.note,
        ]
        for point in result.releases
    ]
    print_table(result.summary["title"], ["method", "setting", result.summary["utility"], "leak", ""], rows)
    typer.echo(result.summary["verdict"])
    typer.echo(f"Report: {folder / 'report.html'}")


def _refuse_unused(context: typer.Context, method: str, compare: bool) -> None:
    """Raise if an option was given that this method, or the comparison, does not use."""
    what, used = method, USED_BY_PRIVATE
    if compare:
        what, used = "--compare", USED_BY_COMPARE
    elif method != PRIVATE:
        from tacit.perturb.registry import PERTURBATIONS, accepts
        from tacit.validation import check_choice

        check_choice(method, "method", (*PERTURBATIONS, PRIVATE))
        used = USED_BY_METHODS | {name for name, setting in PARAMETERS.items() if accepts(method, setting)}
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name not in used and _is_given(context, option.name or "")
    ]
    if given:
        raise InvalidInputError(
            f"only options that {what} uses",
            words(", ".join(given)),
            "Leave them out: they would have no effect.",
        )


def _is_given(context: typer.Context, name: str) -> bool:
    """Return whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _own_options(method: str, **given: Any) -> dict[str, Any]:
    """Return the options that some methods have, by the parameters of this one."""
    from tacit.perturb.registry import accepts

    return {PARAMETERS[name]: value for name, value in given.items() if accepts(method, PARAMETERS[name])} | (
        {"random_state": 0} if method == "hide-membership" and given["seed"] is None else {}
    )  # the clusters of hide-membership need a seed, because --hide uses their numbers


def _with_text(frame: pl.DataFrame, table: Path, names: Sequence[str]) -> pl.DataFrame:
    """Return the frame with these columns as text if numbers would change their spelling: 01234 is not 1234."""
    if not names:
        return frame
    text = read_table(table, as_text=True).select(name for name in names if name in frame.columns)
    return frame.with_columns(cells for cells in text if not frame[cells.name].cast(cells.dtype).equals(cells))


def _write(released: pl.DataFrame, output: Path) -> None:
    """Write another file and rename it, so that a crash does not leave a part of a release that has cost a budget."""
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(output.name + ".partial")
    if output.name.lower().endswith(".parquet"):
        released.write_parquet(partial)
    else:
        released.write_csv(partial)
    os.replace(partial, output)


def _stated(schema: Path | None, bounds: str | None, integers: str | None, categories: str | None) -> TableSchema:
    """Return the schema from the options, joined with the schema file if there is one."""
    from tacit.data.schema import CategoryColumn, IntegerColumn, NumberColumn, TableSchema

    whole, pairs = _names(integers) or [], _bounds(bounds)
    unbounded = [name for name in whole if name not in pairs]
    if unbounded:
        raise InvalidInputError(
            "--integers to name columns of --bounds", words(", ".join(unbounded)), "Give their bounds too."
        )
    columns: dict[str, ColumnSpec] = {}
    for name, (low, high) in pairs.items():
        columns[name] = IntegerColumn(_integer(low), _integer(high)) if name in whole else NumberColumn(low, high)
    twice = [name for name in _categories(categories) if name in columns]
    if twice:
        raise InvalidInputError(
            "each column in --bounds or in --categories", words(f"both for {', '.join(twice)}"), "Choose one."
        )
    columns |= {name: CategoryColumn(tuple(values)) for name, values in _categories(categories).items()}
    options = TableSchema(columns)
    if schema is None:
        return options
    loaded = TableSchema.load(schema)
    joined = loaded.joined(options)
    loaded.check_public()  # now, not after the rows were read
    return joined


def _narrowed(
    schema: TableSchema, table: Path, columns: list[str] | None, left_out: list[str], missing: str
) -> TableSchema:
    """Return the schema of the columns to release; every other column of the table is left out."""
    from dataclasses import replace

    from tacit.data.files import read_columns
    from tacit.data.schema import Quantity

    if missing not in ("refuse", "keep"):
        raise InvalidInputError(
            "--missing to be refuse or keep for private-table",
            parameter(missing),
            "A mean or median would be computed from the private rows. With keep, missing is a value of its own.",
        )
    names = list(read_columns(table))
    unknown = [name for name in (*(columns or ()), *left_out) if name not in names]
    undeclared = [name for name in columns or () if name in names and name not in schema.columns]
    if unknown or undeclared:
        raise InvalidInputError(
            "columns of the table in --columns and --drop, and those of --columns in the schema",
            words(", ".join(unknown or undeclared)),
            "Check the names; tacit tables schema drafts the schema of all columns.",
        )
    out = {name for name in names if name in left_out or (columns is not None and name not in columns)}
    kept = {name: spec for name, spec in schema.columns.items() if name not in out}
    if missing == "keep":
        stated = {"missing": True}  # a field of every kind of quantity
        kept = {name: replace(spec, **stated) if isinstance(spec, Quantity) else spec for name, spec in kept.items()}
    return replace(schema, columns=kept, left_out=tuple(dict.fromkeys((*schema.left_out, *sorted(out)))))


def _integer(value: float) -> int:
    if value != int(value):
        raise InvalidInputError("whole numbers as bounds of --integers", parameter(value), "Round them outwards.")
    return int(value)


def _bounds(text: str | None) -> dict[str, tuple[float, float]]:
    """Return bounds by column from text as in ``age=0:120,income=0:1e6``."""
    bounds = {}
    for part in _names(text) or []:
        name, _, pair = part.partition("=")
        low, _, high = pair.partition(":")
        try:
            bounds[name.strip()] = float(low), float(high)
        except ValueError:
            raise InvalidInputError(
                "bounds as in age=0:120,income=0:1e6", parameter(part), "Give NAME=LOW:HIGH."
            ) from None
    return bounds


def _categories(text: str | None) -> dict[str, list[str]]:
    """Return values by column from text as in ``sex=f|m``; they are text, and cells must match them exactly."""
    categories: dict[str, list[str]] = {}
    for part in _names(text) or []:
        name, sign, values = part.partition("=")
        if not sign:
            raise InvalidInputError("categories as in sex=f|m,state=a|b", parameter(part), "Give NAME=VALUE|VALUE.")
        categories[name.strip()] = values.split("|")
    return categories


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str, name: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) <= 0:
        raise InvalidInputError(
            f"{name} as positive numbers, as in 0.1,0.2", parameter(text), "Separate them by commas."
        )
    return numbers


def _setting(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidInputError("a setting as in eta=0.2", parameter(text), "Give --set NAME=VALUE.")
    if name in HAVE_OPTIONS:
        raise InvalidInputError("settings that have no option of their own", parameter(name), "Give its option.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _moves(text: str) -> dict[int, int | str]:
    moves: dict[int, int | str] = {}
    for part in text.split(","):
        row, _, target = (piece.strip() for piece in part.partition("="))
        if not row.isdigit() or not target:
            raise InvalidInputError("--hide as in '3=anywhere else,7=2'", parameter(part), "Give ROW=CLUSTER.")
        moves[int(row)] = int(target) if target.isdigit() else target
    return moves
