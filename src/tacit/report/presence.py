"""Measure whether a document's presence shows in what a fit among holders sends, with a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidInputError, parameter
from tacit.estimators.input import Rows
from tacit.measure.ksdp import ksdp
from tacit.measure.ksdp.result import KSDP
from tacit.report.page import Report
from tacit.report.result import Result, for_the_holder
from tacit.validation import check_count, check_seed


@dataclass(frozen=True, eq=False)
class PresenceResult(Result):
    """The result of `measure_presence`.

    Attributes
    ----------
    summary, report
        As in `Result`; they name documents and are for the holder.
    ksdp : KSDP
        The p-values.
    """

    ksdp: KSDP


def measure_presence(
    mechanism: object,
    X: Rows,
    documents: int | Sequence[int] = 20,
    *,
    samples: int = 50,
    size: int | None = None,
    holders: Sequence[int] = (),
    level: float = 0.05,
    jobs: int = 2,
    random_state: int = 0,
) -> PresenceResult:
    """Run a fit with and without each document, and compare everything that others would see.

    Parameters
    ----------
    mechanism : estimator, or callable
        See `tacit.measure.ksdp`.
    X : array or CSR matrix
    documents : int or sequence of int, default=20
        Rows to measure, or the number of rows to draw at random.
    samples, size, holders, level, jobs, random_state
        See `tacit.measure.ksdp`.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import SVD
    >>> from tacit.report import measure_presence
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> X[7] *= 20
    >>> result = measure_presence(SVD(2, hide_singular_values=False), X, [3, 7], size=30, samples=20, jobs=1)
    >>> result.summary["flagged"]
    [7]
    """
    chosen = _drawn(documents, X.shape[0], random_state) if isinstance(documents, int) else documents
    measured = ksdp(
        mechanism,
        X,
        chosen,
        samples=samples,
        size=size,
        holders=holders,
        level=level,
        jobs=jobs,
        random_state=random_state,
    )
    notice = for_the_holder()
    report = Report("What a document's presence changes", notice)
    report.guarantee(measured.guarantee)
    caption = "Each point is a document. The presence of documents far below the line shows; leave them out of the fit."
    report.figure("P-values", measured.figure(), caption)
    rows = [
        [str(document), f"{p:.3g}", f"{corrected:.3g}", "shows" if corrected <= measured.level else "-"]
        for document, p, corrected in zip(measured.documents, measured.pi, measured.corrected, strict=True)
    ]
    report.table("Documents", ["row", "smallest p-value", "corrected", ""], rows)
    return PresenceResult({"notice": notice, **measured.to_dict()}, report, measured)


def _drawn(documents: int, n_rows: int, random_state: int) -> list[int]:
    count = check_count(documents, "documents")
    if count >= n_rows:
        raise InvalidInputError("fewer documents than rows", parameter(count), "Measure fewer documents.")
    drawn = np.random.default_rng(check_seed(random_state)).choice(n_rows, size=count, replace=False)
    chosen: list[int] = np.sort(drawn).tolist()
    return chosen
