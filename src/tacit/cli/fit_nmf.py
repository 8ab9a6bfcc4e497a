"""`tacit fit nmf`: topics of texts, parts of images or of any table without negative entries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.prepare import image_shape_of, prepare
from tacit.errors import InvalidInputError, words
from tacit.validation import check_choice, check_count, check_positive, check_seed

if TYPE_CHECKING:
    from tacit.privacy.vocabulary import PaidVocabulary

VOCABULARY = typer.Option(
    None, help="File with one public term per line; or the word paid: learned from the texts, out of the same budget."
)
PAID = Path("paid")
VOCABULARY_FRACTION = 0.15
"""The fraction of the noise budget that a paid vocabulary gets; the rest is the fit's."""


def nmf(
    data: Path = options.MATRIX,
    rank: int = options.RANK,
    epsilon: float | None = typer.Option(None, help="Total privacy loss; without it there is no privacy."),
    delta: float = typer.Option(1e-6, help="Failure probability."),
    outliers: float | None = typer.Option(None, help="Threshold above which an entry counts as an outlier."),
    method: str = typer.Option("moments", help="moments, rounds or published."),
    unit_rows: bool = typer.Option(True, help="Scale each row to L2 norm 1 (texts always are)."),
    vocabulary: Path | None = VOCABULARY,
    idf: str = typer.Option(
        "uniform", help="Weights of terms: uniform (public) or learned (private only with a paid vocabulary)."
    ),
    image_shape: str | None = options.IMAGE_SHAPE,
    held_out: float = typer.Option(0.1, help="Fraction of the rows to hold out of the fit, to measure its error on."),
    seed: int = options.SPLIT_SEED,
    output: Path = typer.Option(Path("tacit-nmf"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    """Factorise texts, images or a table; with --epsilon the dictionary may be released.

    Writes model/nmf.tacit (all that may be passed on), result.json and report.html (for the holder).
    """
    from tacit.data.split import check_fraction
    from tacit.report import ResultFolder, compare_nmf

    check_fraction(held_out)
    check_choice(method, "method", ("moments", "rounds", "published"))
    check_positive(1.0 if outliers is None else outliers, "outliers")
    check_count(rank, "rank")
    check_seed(seed, "seed")
    shape = None if image_shape is None else image_shape_of(image_shape)
    with ResultFolder(output, overwrite=overwrite), progress(5, quiet=as_json) as advance:
        advance("reading the data")
        spending = account(ledger, dataset, data, private=epsilon is not None)
        buy = None
        if vocabulary == PAID:
            buy, spending, vocabulary = _buyer(epsilon, delta, rank, spending), {}, None
        rows = prepare(
            data, private=epsilon is not None, unit_rows=unit_rows, vocabulary=vocabulary, idf=idf, shape=shape, buy=buy
        )
        found = compare_nmf(
            rows.X,
            rank,
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
            **spending,
            random_state=seed,
            progress=advance,
        )
        advance("writing the report")
        found.write(output)
    show_fit(found, output, as_json=as_json)


def _buyer(
    epsilon: float | None, delta: float, rank: int, spending: dict[str, Any]
) -> Callable[[tuple[str, ...]], PaidVocabulary]:
    """Return what buys the vocabulary and, in the same charge, the fit."""
    from tacit.privacy.vocabulary import check_found, private_vocabulary

    if epsilon is None:
        raise InvalidInputError(
            "--epsilon with --vocabulary paid",
            words("none"),
            "Without privacy nothing is paid: leave --vocabulary out.",
        )

    def buy(texts: tuple[str, ...]) -> PaidVocabulary:
        settings: dict[str, Any] = {"fraction": VOCABULARY_FRACTION, "purpose": "vocabulary and PrivateNMF"}
        found = private_vocabulary(texts, epsilon=epsilon, delta=delta, **settings, **spending)
        return check_found(found, rank)

    return buy
