"""How many components: by what they save on rows that were not fitted, by coherence, or privately."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Choose, Outcome, Program
from tacit.data.split import held_out_by_seed
from tacit.errors import InvalidInputError, parameter
from tacit.estimators.input import Rows, clip_rows
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.private import PrivateNMF
from tacit.factor.noisy_moments.centred import SPLIT
from tacit.factor.row_table import Table
from tacit.measure import held_out_error, topic_coherence
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger.spending import check_chargeable
from tacit.validation import check_choice, check_count, check_non_negative

CHOICE_SHARE = 0.1
"""Share of epsilon for the private choice; the rest is for the moments that all candidates are made from."""
HELD_OUT = 0.1
"""Fraction of the rows that a choice without privacy is scored on. A private choice scores all rows: there is no split."""


@dataclass(frozen=True)
class RankChoice:
    """The rank chosen.

    Attributes
    ----------
    rank : int
    scores : dict or None
        Score of each rank, the higher the better; None for a private choice, which releases the winner only.
    model : NMF or PrivateNMF
        Fitted with that rank; for a private choice at no further cost.
    guarantee : Guarantee
    """

    rank: int
    scores: dict[int, float] | None
    model: NMF | PrivateNMF
    guarantee: Guarantee


def choose_rank(
    X: Any,
    ranks: Iterable[int],
    *,
    by: str = "held-out",
    epsilon: float = math.inf,
    delta: float = 1e-6,
    row_norm: float = 1.0,
    cost: float = 0.004,
    random_state: int = 0,
    **private: Any,
) -> RankChoice:
    r"""Choose the number of components of a non-negative factorisation.

    Parameters
    ----------
    X : array or CSR matrix
    ranks : iterable of int
        The candidates.
    by : {"held-out", "coherence"}
        Error on a tenth of the rows that were not fitted, or mean c_npmi of the topics (not for a private choice: how
        far one row moves a coherence has no useful bound).
    epsilon, delta : float
        With a finite epsilon the choice is private, for choice and model together.
    row_norm : float
    cost : float
        What a further component must save, as a fraction of the largest possible error ``row_norm**2 / 2`` per row.
        Without it more components would always be better.
    random_state : int
    **private
        Further parameters of `PrivateNMF`.

    Privacy
    -------
    One release of moments serves all candidates, whose dictionaries are post-processing. Their scores are sums over
    rows of an error clipped to 1, so one row moves a score by at most 1; the winner is chosen by report-noisy-max.
    """
    candidates = sorted({check_count(rank, "ranks") for rank in ranks})
    check_choice(by, "by", ("held-out", "coherence"))
    check_non_negative(cost, "cost")
    if not candidates:
        raise InvalidInputError("at least one rank", parameter(candidates), "Give the ranks to choose from.")
    check_chargeable(private.get("ledger"), epsilon, private.get("insecure_seed"))
    if math.isinf(epsilon):
        return _choose_plainly(X, candidates, by, row_norm, cost, random_state)
    if by == "coherence":
        raise InvalidInputError(
            "by='held-out' for a private choice",
            parameter(by),
            "One row can change a coherence by any amount, so it cannot be protected.",
        )
    model = PrivateNMF(
        candidates[-1], epsilon=epsilon, delta=delta, row_norm=row_norm, random_state=random_state, **private
    )
    return _choose_privately(model, X, candidates, cost)


def _choose_plainly(
    X: Rows, ranks: Sequence[int], by: str, row_norm: float, cost: float, random_state: int
) -> RankChoice:
    models, scores = {}, {}
    kept_out = held_out_by_seed(X.shape[0], fraction=HELD_OUT, random_state=random_state)
    for rank in ranks:
        models[rank] = NMF(rank, random_state=random_state).fit(X[~kept_out])
        if by == "coherence":
            scores[rank] = float(topic_coherence(models[rank].components_, X).mean())
        else:
            error = held_out_error(X[kept_out], models[rank].components_)
            scores[rank] = -float(error) / (row_norm**2 / 2) - cost * rank
    best = max(ranks, key=lambda rank: scores[rank])
    return RankChoice(best, scores, models[best], models[best].guarantee_)


def _choose_privately(model: PrivateNMF, X: Rows, ranks: Sequence[int], cost: float) -> RankChoice:
    with model._fitting():
        rows = model._checked(X)
        plan = model._plan(SPLIT, choices=(CHOICE_SHARE * model.epsilon,))
        public = model._run(X, _rank_program(rows, model, ranks, cost), plan).public
    rank = int(public["rank"])
    chosen = PrivateNMF(**{**model.get_params(), "n_components": rank})
    with chosen._fitting():
        chosen.components_, chosen.n_features_in_ = public["components"], model.n_features_in_
        chosen.guarantee_, chosen._has_released = model.guarantee_, True
        chosen.clipped_fraction_ = model.clipped_fraction_
    return RankChoice(rank, None, chosen, chosen.guarantee_)


def _rank_program(X: Rows, model: PrivateNMF, ranks: Sequence[int], cost: float) -> Program:
    outcome = yield from model._moments_program(X, SPLIT)
    moments = outcome.public["moments"]
    candidates = [model._dictionary(moments, X, rank) for rank in ranks]
    rows = clip_rows(X, model.row_norm)
    scores = [
        -float(_errors(rows, T, model.row_norm).sum()) - cost * rank * moments.count
        for rank, T in zip(ranks, candidates, strict=True)
    ]
    winner = yield Choose(scores, bound=1.0, units=rows.shape[0])
    return Outcome({"rank": ranks[winner], "components": candidates[winner]})


def _errors(rows: Rows, T: NDArray[np.float64], row_norm: float) -> NDArray[np.float64]:
    """Return every row's squared error over the largest possible one, at most 1."""
    table = Table(rows)
    W = solve_rows(table, T)
    squares = (
        np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if hasattr(rows, "multiply") else (rows**2).sum(axis=1)
    )
    inner = np.einsum("ij,ij->i", table.times(T.T), W)
    errors: NDArray[np.float64] = squares - 2 * inner + np.einsum("ij,ij->i", W @ (T @ T.T), W)
    return np.clip(errors / row_norm**2, 0.0, 1.0)
