"""`tacit fit nmf`: topics of texts, parts of images or of any table without negative entries."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.budget import account
from tacit.cli.output import print_json, progress
from tacit.cli.prepare import Prepared, prepare
from tacit.errors import InvalidInputError, parameter, words
from tacit.validation import check_choice, check_count, check_positive

if TYPE_CHECKING:
    from tacit.factor import NMF, PrivateNMF

DATA = typer.Argument(help="A folder of .txt files or of images, or a matrix: npz, mtx, npy, csv, parquet.")
VOCABULARY = typer.Option(
    None, help="File with one public term a line; or the word paid: learned from the texts, out of the same budget."
)
PAID = Path("paid")
SWEEPS_SHOWN = 10
VOCABULARY_SHARE = 0.15
"""The part of the noise budget that a paid vocabulary gets; the rest is the fit's."""
OUTPUT = typer.Option(Path("tacit-nmf"), help="Folder to write to.")
LEDGER = typer.Option(None, help="Ledger to charge; the account is --dataset, or the fingerprint of DATA.")
FOR_THE_HOLDER = (
    "Figures marked 'without privacy' and all errors and coherences were computed from the private data without noise. They are "
    "for the holder: pass on the model, not this page."
)


def nmf(
    data: Path = DATA,
    rank: int = typer.Option(..., "--rank", "-k", help="Number of topics or parts."),
    epsilon: float | None = typer.Option(None, help="Total privacy loss; without it there is no privacy."),
    delta: float = typer.Option(1e-6, help="Failure probability."),
    outliers: float | None = typer.Option(None, help="Threshold of entries taken for outliers."),
    method: str = typer.Option("moments", help="moments, rounds or published."),
    unit_rows: bool = typer.Option(True, help="Scale each row to L2 norm 1 (texts always are)."),
    vocabulary: Path | None = VOCABULARY,
    idf: str = typer.Option(
        "uniform", help="Weights of terms: uniform (public) or learned (private only with a paid vocabulary)."
    ),
    image_shape: str | None = typer.Option(None, help="Draw rows as images of this shape, as in 19x19."),
    held_out: float = typer.Option(0.1, help="Share of the rows kept out of the fit, to measure its error on."),
    seed: int = typer.Option(0, help="Seed of the start and, without --epsilon, of the split. It protects nothing."),
    output: Path = OUTPUT,
    ledger: Path | None = LEDGER,
    dataset: str | None = typer.Option(None, help="The ledger's account."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Factorise texts, images or a table; with --epsilon the dictionary may be released.

    Writes model/nmf.tacit (all that may be passed on), result.json and report.html (for the holder).
    """
    if not 0 < held_out < 1:
        raise InvalidInputError(
            "--held-out between 0 and 1", parameter(held_out), "Give the share of rows to keep out, as 0.1."
        )
    with progress(5, quiet=as_json) as advance:
        advance("reading the data")
        shape = None if image_shape is None else _shape(image_shape)
        spending = account(ledger, dataset, data)
        buy = None
        if vocabulary == PAID:
            check_choice(method, "method", ("moments", "rounds", "published"))  # before anything is charged
            check_positive(1.0 if outliers is None else outliers, "outliers")
            buy, spending, vocabulary = _buyer(epsilon, delta, check_count(rank, "rank"), spending), {}, None
        rows = prepare(
            data, private=epsilon is not None, unit_rows=unit_rows, vocabulary=vocabulary, idf=idf, shape=shape, buy=buy
        )
        result = _fit_and_report(
            rows,
            settings={"n_components": rank, "outliers": outliers, "random_state": seed},
            private={"epsilon": math.inf if epsilon is None else epsilon, "delta": delta, "method": method},
            held_out=held_out,
            spending=spending,
            output=output,
            advance=advance,
        )
    if as_json:
        print_json(result)
        return
    typer.echo(result["guarantee"]["sentence"])
    for name, value in result["measures"].items():
        typer.echo(f"{name}: {value:.4f}")
    typer.echo(f"Report: {output / 'report.html'}")


def _fit_and_report(
    rows: Prepared,
    *,
    settings: dict[str, Any],
    private: dict[str, Any],
    held_out: float,
    spending: dict[str, Any],
    output: Path,
    advance: Any,
) -> dict[str, Any]:
    from tacit.data.split import held_out_by_seed, held_out_rows
    from tacit.factor import NMF, PrivateNMF

    if math.isfinite(private["epsilon"]):
        kept_out = held_out_rows(rows.X, fraction=held_out)
    else:
        kept_out = held_out_by_seed(rows.X.shape[0], fraction=held_out, random_state=settings["random_state"])
    train, test = rows.X[~kept_out], rows.X[kept_out]
    advance("fitting without privacy, to compare")
    plain = NMF(**settings).fit(train)
    model: NMF | PrivateNMF = plain
    if math.isfinite(private["epsilon"]):
        advance("fitting with privacy")
        model = PrivateNMF(**settings, **{**private, **_left(rows)}, **spending).fit(train)
        if rows.paid is not None:
            model.guarantee_ = rows.paid.joined(model.guarantee_)
        model.guarantee_ = model.guarantee_.assuming(*rows.assumptions)
    advance("measuring")
    measures = _measures(rows, test, model, plain)
    advance("writing the report")
    (output / "model").mkdir(parents=True, exist_ok=True)
    model.save(output / "model" / "nmf.tacit")
    result = {
        "guarantee": model.guarantee_.to_dict(),
        "rows": int(train.shape[0]),
        "columns": int(train.shape[1]),
        "measures": measures,
        "settings": {**settings, **private, "epsilon": None if model is plain else private["epsilon"]},
    }
    if rows.names is not None:
        from tacit.measure import top_words

        result["top_words"] = top_words(model.components_, rows.names)
    curves = {} if model is plain else _held_out_curves(train, test, model, settings)
    result["held_out_curves"] = curves
    _report(rows, model, plain, measures, curves).write(output / "report.html")
    (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _buyer(epsilon: float | None, delta: float, rank: int, spending: dict[str, Any]) -> Any:
    """Return what buys the vocabulary and, in the same charge, the fit."""
    from tacit.factor.vocabulary import check_found, private_vocabulary

    if epsilon is None:
        raise InvalidInputError(
            "--epsilon with --vocabulary paid",
            words("none"),
            "Without privacy nothing is paid: leave --vocabulary out.",
        )

    def buy(texts: tuple[str, ...]) -> Any:
        found = private_vocabulary(
            texts, epsilon=epsilon, delta=delta, share=VOCABULARY_SHARE, purpose="vocabulary and PrivateNMF", **spending
        )
        return check_found(found, rank)

    return buy


def _left(rows: Prepared) -> dict[str, Any]:
    """Return what a paid vocabulary left of the budget, if there is one."""
    return {} if rows.paid is None or rows.paid.rest is None else vars(rows.paid.rest)


def _measures(rows: Prepared, test: Any, model: Any, plain: Any) -> dict[str, float]:
    from tacit.measure import held_out_error, match_topics, topic_coherence

    found = {"held-out error": held_out_error(test, model.components_)}
    if model is not plain:
        found["held-out error without privacy"] = held_out_error(test, plain.components_)
        match = match_topics(plain.components_, model.components_)
        found["similarity to the fit without privacy"] = match.mean_similarity
    if rows.counts is not None:
        for measure in ("c_npmi", "u_mass"):
            found[measure] = float(topic_coherence(model.components_, rows.counts, measure=measure).mean())
            if model is not plain:
                without = topic_coherence(plain.components_, rows.counts, measure=measure)
                found[f"{measure} without privacy"] = float(without.mean())
    return {name: float(value) for name, value in found.items()}


def _held_out_curves(train: Any, test: Any, model: Any, settings: dict[str, Any]) -> dict[str, list[float]]:
    """Return the error on held-out rows after every sweep without privacy, and after every round with it.

    The rounds' dictionaries follow from what was released. The held-out rows are no part of the fit, and their error is
    computed without noise: like all errors it is for the holder.
    """
    from tacit.factor import NMF
    from tacit.measure import held_out_error

    path = getattr(model, "components_by_round_", [model.components_] * SWEEPS_SHOWN)
    plain = [
        NMF(**settings, max_iter=sweeps, tol=0).fit(train).components_
        for sweeps in range(1, min(len(path), SWEEPS_SHOWN) + 1)
    ]
    curves = {"without privacy": plain, "private": path}
    return {name: [float(held_out_error(test, T)) for T in dictionaries] for name, dictionaries in curves.items()}


def _report(
    rows: Prepared, model: Any, plain: Any, measures: dict[str, float], held_out: dict[str, list[float]]
) -> Any:
    from tacit.measure import match_topics, top_words
    from tacit.report import Report
    from tacit.report.figures import curves, image_rows

    report = Report("Non-negative factorisation", FOR_THE_HOLDER)
    report.guarantee(model.guarantee_)
    report.table("Measures", ["measure", "value"], [[name, f"{value:.4f}"] for name, value in measures.items()])
    dictionaries = {"fitted": model.components_}
    if model is not plain:
        order = match_topics(model.components_, plain.components_).permutation
        dictionaries = {"private": model.components_, "without privacy": plain.components_[order]}
    if rows.names is not None:
        listed = [top_words(components, rows.names) for components in dictionaries.values()]
        table = [
            [str(place + 1), *(" ".join(topic) for topic in topics)]
            for place, topics in enumerate(zip(*listed, strict=True))
        ]
        report.table("Topics", ["topic", *dictionaries], table)
    if rows.shape is not None:
        caption = "Each row of the dictionary as an image; those without privacy are matched to the private ones."
        report.figure("Parts", image_rows(dictionaries, rows.shape), caption)
    losses = {"without privacy": list(plain.loss_curve_)}
    report.figure(
        "Learning curve",
        curves(losses, step_name="sweep", value_name="objective"),
        "Objective of the fit without privacy on the rows it is fitted to. The private fit makes a fixed number of releases and "
        "does not look at its loss.",
    )
    if held_out:
        report.figure(
            "Learning curves on held-out rows",
            curves(held_out, step_name="sweep, or private round", value_name="error on held-out rows"),
            "Both measured on the rows that were set aside and took part in neither fit. A dictionary from moments is made at "
            "once, so its line is level.",
        )
    return report


def _shape(text: str) -> tuple[int, int]:
    try:
        height, width = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise InvalidInputError(
            "an image shape as in 19x19", parameter(text), "Give --image-shape ROWSxCOLUMNS."
        ) from None
    return height, width
