"""`tacit fit coupled`: matrices and tensors that share factors, described in one TOML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.output import print_json, progress

if TYPE_CHECKING:
    from tacit.cli.read_coupled import Description
    from tacit.report import Report

SPEC = typer.Argument(help="A TOML file: ranks, and a [[relation]] section for every data file.")
OUTPUT = typer.Option(Path("tacit-coupled"), help="Folder to write to.")
TOP = 8
FOR_THE_HOLDER = "Every number here was computed from the data without noise: it is for the holder alone."


def coupled(
    spec: Path = SPEC,
    output: Path = OUTPUT,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Factorise coupled matrices and tensors, without privacy.

    Writes model/coupled.tacit, result.json and report.html. The scores come from a fit without the held-out cells, the model
    from all of them.
    """
    from tacit.cli.read_coupled import read_description
    from tacit.factor import CoupledFactorization
    from tacit.factor.coupled.held_out import hold_out

    with progress(4, quiet=as_json) as advance:
        advance("reading the relations")
        found = read_description(spec)
        settings = {"random_state": found.seed, **found.model}
        model = CoupledFactorization(found.ranks, **_known(settings))
        scores: dict[str, dict[str, dict[str, float]]] = {}
        if found.held_out:
            advance("fitting without the held-out cells")
            kept = [hold_out(relation, found.held_out, random_state=found.seed) for relation in found.relations]
            trial = CoupledFactorization(found.ranks, **_known(settings)).fit([one.relation for one in kept])
            for one in kept:
                alone = CoupledFactorization(_own_ranks(found, one.relation), **_known(settings)).fit(one.relation)
                scores[one.relation.name] = {"coupled": one.scores(trial), "alone": one.scores(alone)}
        advance("fitting")
        model.fit(found.relations)
        advance("writing the report")
        (output / "model").mkdir(parents=True, exist_ok=True)
        model.save(output / "model" / "coupled.tacit")
        result: dict[str, Any] = {
            "guarantee": model.guarantee_.to_dict(),
            "spec": str(spec.resolve()),
            "relations": {relation.name: repr(relation) for relation in found.relations},
            "loss": model.loss_,
            "sweeps": model.n_iter_,
            "dispersions": model.dispersions_,
            "held_out": scores,
            "top": _top(model, found.names),
        }
        _report(model, found, result).write(output / "report.html")
        (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    if as_json:
        print_json(result)
        return
    typer.echo(result["guarantee"]["sentence"])
    typer.echo(f"Loss {model.loss_:.6g} after {model.n_iter_} sweeps")
    for name, both in scores.items():
        for how, values in both.items():
            typer.echo(f"{name}, {how}: " + ", ".join(f"{key} {value:.4f}" for key, value in values.items()))
    typer.echo(f"Report: {output / 'report.html'}")


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings if they are parameters of the model."""
    from tacit.factor import CoupledFactorization
    from tacit.validation import check_choice

    for name in settings:
        check_choice(name, "a name in [model]", sorted(set(CoupledFactorization().get_params()) - {"ranks", "init"}))
    return settings


def _own_ranks(found: Description, relation: Any) -> Any:
    if not isinstance(found.ranks, dict):
        return found.ranks
    return {letter: rank for letter, rank in found.ranks.items() if letter in relation.spec.summed}


def _top(model: Any, names: dict[str, list[str]]) -> dict[str, list[list[str]]]:
    """Return the names with the largest entries, for every component of every factor with names."""
    import numpy as np

    found = {}
    for name, factor in model.factors_.items():
        if name in names and factor.ndim == 2 and len(names[name]) == len(factor):
            order = np.argsort(-factor, axis=0, kind="stable")[:TOP]
            found[name] = [
                [names[name][row] for row in column if factor[row, place] > 0] for place, column in enumerate(order.T)
            ]
    return found


def _report(model: Any, found: Description, result: dict[str, Any]) -> Report:
    from tacit.report import Report
    from tacit.report.factor_maps import factor_maps
    from tacit.report.figures import curves

    report = Report("Coupled factorisation", FOR_THE_HOLDER)
    report.guarantee(model.guarantee_)
    rows = [
        [
            relation.name,
            " x ".join(map(str, relation.shape)),
            relation.spec.text,
            ", ".join(relation.factors),
            f"{relation.n_observed:,}",
            f"{relation.power:g}",
            f"{model.dispersions_[relation.name]:.4g}",
        ]
        for relation in found.relations
    ]
    columns = ["relation", "shape", "einsum", "factors", "cells known", "divergence p", "dispersion"]
    report.table("Relations", columns, rows, "p = 0 is Euclid, 1 Kullback-Leibler, 2 Itakura-Saito.")
    if result["held_out"]:
        measures = ("rmse", "divergence", "auc")
        rows = [
            [name, how, *(f"{values[key]:.4f}" if key in values else "" for key in measures)]
            for name, both in result["held_out"].items()
            for how, values in both.items()
        ]
        note = (
            f"{found.held_out:.0%} of the stored cells were kept out, and five zeros for each where the others are zeros. "
            "Alone: each relation fitted by itself."
        )
        report.table("Held-out cells", ["relation", "fitted", "RMSE", "mean divergence", "AUC"], rows, note)
    figure = curves({found.model.get("inference", "map"): model.loss_curve_}, step_name="sweep", value_name="cost")
    report.figure("Loss", figure, "The cost at every sweep. For variational Bayes, minus the evidence lower bound.")
    report.figure(
        "Factors",
        factor_maps(model.factors_, found.names),
        "A row an entity, a column a component, each column scaled to its largest entry; rows grouped by component.",
    )
    for name, components in result["top"].items():
        report.table(
            f"Top of {name}",
            ["component", "entities"],
            [[str(place), ", ".join(top)] for place, top in enumerate(components)],
        )
    return report
