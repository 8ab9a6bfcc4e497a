"""`tacit fit nmf`: topics of texts, parts of images or of any table without negative entries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options, partitions
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.read import ChosenColumns, chosen_columns, image_shape_of, prepare
from tacit.errors import InvalidInputError, parameter, words
from tacit.validation import check_choice, check_count, check_positive, check_seed

if TYPE_CHECKING:
    from tacit.privacy.vocabulary import PaidVocabulary

VOCABULARY = typer.Option(
    None,
    help="File with one public term per line, as the word list of a spell checker (stop words are left out); or the word "
    "paid: learned from the texts, out of the same budget.",
)
PAID = Path("paid")
MOST_RANKS = 8
"""Candidates of a range of ranks, evenly spaced: each costs a fit, and the noise of the choice finds the best of few better."""
VOCABULARY_FRACTION = 0.15
"""Fraction of the noise budget for a paid vocabulary; the fit gets the rest. Set by hand."""


def nmf(
    data: Path = options.MATRIX,
    rank: str = typer.Option(
        ...,
        "--rank",
        "-k",
        help="Number of components; or a range, as in 5-20: then it is chosen, with --epsilon out of the same budget.",
    ),
    epsilon: float | None = options.EPSILON,
    delta: float = options.DELTA,
    outliers: float | None = typer.Option(None, help="Threshold above which an entry counts as an outlier."),
    method: str = typer.Option("moments", help="moments, rounds or published."),
    row_norm: float | None = options.ROW_NORM,
    unit_rows: bool | None = typer.Option(
        None, help="Scale each row to L2 norm 1 (texts always are); the default unless --row-norm is given."
    ),
    vocabulary: Path | None = VOCABULARY,
    idf: str = typer.Option(
        "uniform", help="Weights of terms: uniform (public) or learned (private only with a paid vocabulary)."
    ),
    text_column: str | None = options.TEXT_COLUMN,
    columns: str | None = options.COLUMNS,
    drop: str | None = options.DROP,
    missing: str = options.MISSING,
    stem: bool = typer.Option(False, "--stem", help="For texts in English: cut off the endings of plurals."),
    image_shape: str | None = options.IMAGE_SHAPE,
    frontier: bool = options.FRONTIER,
    held_out: float = typer.Option(0.1, help="Fraction of the rows to hold out of the fit, to measure its error on."),
    seed: int = options.SPLIT_SEED,
    output: Path = typer.Option(Path("tacit-nmf"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    scheduler: str | None = partitions.SCHEDULER,
    workers: int | None = partitions.WORKERS,
    blocks: int = partitions.BLOCKS,
    resident: int | None = partitions.RESIDENT,
    checkpoint: Path | None = partitions.CHECKPOINT,
    dashboard: bool = partitions.DASHBOARD,
    as_json: bool = options.JSON,
) -> None:
    """Factorise texts, images or a table; with --epsilon the dictionary may be released.

    Writes model/, the only folder that may be passed on (nmf.tacit, and terms.txt for texts), and result.json and report.html
    for the holder.
    """
    from tacit.data.split import check_fraction
    from tacit.factor.nmf.estimator import NMF
    from tacit.factor.nmf.private import PrivateNMF
    from tacit.report.nmf import compare_nmf
    from tacit.report.result import ResultFolder, write_terms

    check_fraction(held_out)
    check_choice(method, "method", ("moments", "rounds", "published"))
    check_positive(1.0 if outliers is None else outliers, "outliers")
    ranks = ranks_of(rank)
    if len(ranks) > 1 and (method != "moments" or vocabulary == PAID):
        raise InvalidInputError(
            "one --rank with --method rounds or published, and with --vocabulary paid",
            words("a range"),
            "Give one number of components.",
        )
    check_positive(1.0 if row_norm is None else row_norm, "row_norm")
    unit_rows = row_norm is None if unit_rows is None else unit_rows
    check_seed(seed, "seed")
    shape = None if image_shape is None else image_shape_of(image_shape)
    chosen = chosen_columns(columns, drop, missing, text_column, private=epsilon is not None)
    parts = partitions.Partitioned(data, scheduler, workers, blocks, resident, checkpoint, dashboard)
    if parts.wanted:
        if len(ranks) > 1 or vocabulary == PAID or idf != "uniform" or frontier or stem or chosen != ChosenColumns():
            raise partitions.whole_data_only(
                "range of ranks, --vocabulary paid, --idf, --stem, --frontier, --columns, --drop, --missing or --text-column"
            )
        private: dict[str, Any] = {}
        if epsilon is not None:
            private = {"epsilon": epsilon, "delta": delta, "method": method}
            private |= {"row_norm": 1.0 if row_norm is None else row_norm}
            private |= parts.spending(ledger, dataset, private=True)
        model = (NMF if epsilon is None else PrivateNMF)(ranks[0], outliers=outliers, random_state=seed, **private)
        settings: dict[str, Any] = {"overwrite": overwrite, "as_json": as_json, "stages": partitions.STAGES}
        settings |= {
            "vocabulary": parts.terms(vocabulary),
            "unit_rows": unit_rows,
            "assumptions": (partitions.PUBLIC_COLUMNS,),
        }
        return parts.fit(model, "nmf", output, **settings)
    with ResultFolder(output, overwrite=overwrite, data=data), progress(5, quiet=as_json) as advance:
        advance("reading the data")
        spending = account(ledger, dataset, data, private=epsilon is not None)
        buy = None
        if vocabulary == PAID:
            buy, spending, vocabulary = _buyer(epsilon, delta, ranks[0], spending), {}, None
        rows = prepare(
            data,
            private=epsilon is not None,
            unit_rows=unit_rows,
            vocabulary=vocabulary,
            idf=idf,
            shape=shape,
            stem=stem,
            buy=buy,
            chosen=chosen,
        )
        result = compare_nmf(
            rows.X,
            ranks if len(ranks) > 1 else ranks[0],
            row_norm=1.0 if row_norm is None else row_norm,
            epsilon=epsilon,
            delta=delta,
            method=method,
            outliers=outliers,
            held_out=held_out,
            terms=rows.names,
            counts=rows.counts,
            image_shape=rows.shape,
            assumptions=rows.assumptions,
            vocabulary=rows.paid,
            frontier=frontier,
            **spending,
            random_state=seed,
            progress=advance,
        )
        advance("writing the report")
        result.write(output)
        write_terms(output, rows.names if rows.counts is not None else None)
    return show_fit(result, output, as_json=as_json)


def ranks_of(text: str) -> list[int]:
    """Return the number that --rank names, or the numbers of a range to choose from."""
    low, _, high = text.partition("-")
    try:
        ends = [check_count(int(end), "rank") for end in (low, high or low)]
    except ValueError:
        ends = [1, 0]
    if ends[0] > ends[1]:
        raise InvalidInputError("a rank as in 20, or a range as in 5-20", parameter(text), "Give --rank LOW-HIGH.")
    steps = min(ends[1] - ends[0], MOST_RANKS - 1)
    return sorted({round(ends[0] + place * (ends[1] - ends[0]) / max(steps, 1)) for place in range(steps + 1)})


def _buyer(
    epsilon: float | None, delta: float, rank: int, spending: dict[str, Any]
) -> Callable[[tuple[str, ...]], PaidVocabulary]:
    """Return a function that computes a private vocabulary and charges for it and for the fit together."""
    from tacit.privacy.vocabulary import check_found, private_vocabulary

    if epsilon is None:
        raise InvalidInputError(
            "--epsilon with --vocabulary paid",
            words("none"),
            "Without privacy nothing is charged: leave --vocabulary out.",
        )

    def buy(texts: tuple[str, ...]) -> PaidVocabulary:
        settings: dict[str, Any] = {"fraction": VOCABULARY_FRACTION, "purpose": "vocabulary and PrivateNMF"}
        paid = private_vocabulary(texts, epsilon=epsilon, delta=delta, **settings, **spending)
        return check_found(paid, rank)

    return buy
