"""`tacit perturb`: release a table in changed form, or compare all ways of doing so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json, print_table, progress
from tacit.errors import InvalidInputError, parameter, words

TABLE = typer.Argument(help="The table: csv, csv.gz or parquet, with names of columns.")
OUTPUT = typer.Option(Path("release.csv"), "--output", "-o", help="File to write the release to: csv or parquet.")
REPORT = typer.Option(Path("tacit-perturb"), help="Folder for report.html and result.json, which are for the holder.")
SETTINGS = typer.Option([], "--set", help="A further setting of the method, as in eta=0.2; may be repeated.")


def perturb(
    table: Path = TABLE,
    method: str = typer.Option("compressed-nmf", help="A method by name, or private-table; see the documentation."),
    target_distortion: float | None = typer.Option(None, help="Value difference to reach."),
    level: float | None = typer.Option(None, help="The method's own setting, in place of a target."),
    columns: str | None = typer.Option(
        None, help="Columns to change, as in age,income; all numeric ones if not given."
    ),
    label: str | None = typer.Option(None, help="Column with classes: never changed, used by methods that need it."),
    others: str = typer.Option("refuse", help="Columns that are not numbers: refuse the table, or pass them on."),
    missing: str = typer.Option("refuse", help="Missing values: refuse, or fill by mean or median."),
    hide: str | None = typer.Option(None, help="hide-membership: rows to move, as in '3=anywhere else,7=2'."),
    settings: list[str] = SETTINGS,
    epsilon: float = typer.Option(1.0, help="private-table: total privacy loss."),
    delta: float = typer.Option(1e-6, help="private-table: failure probability."),
    bounds: str | None = typer.Option(None, help="private-table: public bounds, as in age=0:120,income=0:1e6."),
    categories: str | None = typer.Option(None, help="private-table: public values, as in 'sex=f|m,state=a|b|c'."),
    compare: bool = typer.Option(False, "--compare", help="Measure all methods, and draw use against leak."),
    distortions: str = typer.Option("0.05,0.1,0.2,0.4", help="--compare: distortions to try."),
    epsilons: str = typer.Option("0.5,1,3,10", help="--compare: losses to try for the private table."),
    clusters: int = typer.Option(3, help="Number of clusters, for methods and measures that have them."),
    seed: int | None = typer.Option(None, help="Makes the release repeatable. Whoever knows it can undo noise."),
    output: Path = OUTPUT,
    report: Path = REPORT,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Release a table in changed form. Only private-table has a guarantee: measure the others before they leave.

    Writes the release, and a folder with report.html and result.json, which are for the holder.
    """
    from tacit.cli.perturb_tables import read_table

    frame = read_table(table)
    if compare:
        from tacit.cli.perturb_compare import compare_methods

        result = compare_methods(
            frame,
            label=label,
            columns=columns,
            distortions=_numbers(distortions, "--distortions"),
            epsilons=_numbers(epsilons, "--epsilons"),
            delta=delta,
            bounds=bounds,
            clusters=clusters,
            missing=missing,
            seed=0 if seed is None else seed,
            folder=report,
            quiet=as_json,
        )
        _show_comparison(result, report, as_json)
        return
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    with progress(3, quiet=as_json) as advance:
        advance("releasing")
        if method == "private-table":
            from tacit.cli.perturb_tables import release_privately

            released, found = release_privately(
                frame, epsilon=epsilon, delta=delta, bounds=bounds, categories=categories, label=label, seed=seed
            )
        else:
            from tacit.cli.perturb_tables import release_changed

            given: dict[str, Any] = {
                "level": level,
                "target_distortion": target_distortion,
                "columns": chosen,
                "random_state": seed,
            }
            given |= {"others": others, "missing": missing, **dict(_setting(text) for text in settings)}
            released, found = release_changed(frame, method, given, label=label, hide=hide, clusters=clusters)
        advance("writing the report")
        _write(released, output)
        from tacit.cli.perturb_report import write_report

        result = {"table": str(table), "method": method, "output": str(output), "label": label, **found}
        write_report(frame, released, result, report)
    if as_json:
        print_json(result)
        return
    typer.echo(result["guarantee"]["sentence"])
    for name, value in result["measures"].items():
        typer.echo(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    typer.echo(f"Release: {output}; report: {report / 'report.html'}")


def _show_comparison(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    rows = [
        [
            point["method"],
            point["setting"],
            "" if point["utility"] is None else f"{point['utility']:.3f}",
            "" if point["leak"] is None else f"{point['leak']:.3f}",
            point["note"],
        ]
        for point in result["releases"]
    ]
    print_table(result["title"], ["method", "setting", result["utility"], "leak", ""], rows)
    typer.echo(result["verdict"])
    typer.echo(f"Report: {folder / 'report.html'}")


def _write(released: Any, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.name.lower().endswith(".parquet"):
        released.write_parquet(output)
    elif output.name.lower().endswith(".csv"):
        released.write_csv(output)
    else:
        raise InvalidInputError("an output that ends in .csv or .parquet", parameter(str(output)), "Name it so.")


def _numbers(text: str, name: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) <= 0:
        raise InvalidInputError(
            f"{name} as positive numbers, as in 0.1,0.2", parameter(text), "Separate them by commas."
        )
    return found


def _setting(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidInputError("a setting as in eta=0.2", words(text), "Give --set NAME=VALUE.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
