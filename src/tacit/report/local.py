"""Counts with local privacy: noise at the site, a fit from noisy counts, and its error on held-out cells."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.split import check_fraction, held_out_cells
from tacit.estimators.verdict import Concern, not_better_than
from tacit.factor.coupled.cells import TensorLike
from tacit.factor.coupled.local.estimator import LocalCountFactorization, count_list
from tacit.factor.coupled.local.noise import CountList, LocallyPrivateCounts, NoisyCounts, named_by
from tacit.privacy.ledger.spending import account_of
from tacit.report.figures import curves, histogram
from tacit.report.page import Report
from tacit.report.result import MODEL, FitResult, keep_release
from tacit.report.synthetic_frontier import Frontier, local_frontier

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

PRIVATE, OWN, NAIVE, PLAIN, CONSTANT = (
    "from noisy counts",
    "own counts without noise",
    "noisy counts taken for true ones",
    "without privacy",
    "constant",
)
VIEW = "view.npz"
"""In the folder of a model: the noisy counts."""


@dataclass(frozen=True, eq=False)
class LocalCountsResult(FitResult):
    """The result of `fit_local_counts`.

    Attributes
    ----------
    model : LocalCountFactorization
    view : NoisyCounts or None
        The noisy counts, which may be released; None without an epsilon.
    measures : dict of str to dict
        RMSE and mean log-likelihood of the held-out counts, by method.
    n_cells, n_views : int
        Numbers of fitted cells of this site, and of views of other sites.
    frontier : Frontier or None
    source : dict of str to str
    """

    title = "Counts with local privacy"
    model_name = "local"

    model: LocalCountFactorization
    view: NoisyCounts | None
    measures: dict[str, dict[str, float]]
    n_cells: int
    n_views: int
    frontier: Frontier | None = None
    source: dict[str, str] = field(default_factory=dict)

    @property
    def n_units(self) -> int:
        """The number of fitted cells."""
        return self.n_cells

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee and the error."""
        concerns = super().concerns
        if self.measures:
            fitted = next(iter(self.measures.values()))["rmse"]
            concerns += not_better_than(
                "a constant", fitted, self.measures[CONSTANT]["rmse"], measure="RMSE on held-out counts"
            )
        return concerns

    def values(self) -> dict[str, object]:
        """Return scores as plain values."""
        values = {**self.source, "cells": self.n_cells, "views": self.n_views, "held_out": self.measures}
        if self.view is not None:
            values["noise_scale"] = self.view.scale
        if self.frontier is not None:
            values["frontier_on_synthetic_counts"] = self.frontier.values()
        return values

    def lines(self) -> list[str]:
        """Return the scores."""
        return [
            f"{how}: " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items())
            for how, scores in self.measures.items()
        ]

    def draw(self, report: Report) -> None:
        """Add scores, the frontier, the components' sizes and the noisy counts."""
        if self.measures:
            rows = [
                [how, f"{scores['rmse']:.4f}", f"{scores['loglikelihood']:.4f}" if "loglikelihood" in scores else ""]
                for how, scores in self.measures.items()
            ]
            report.table("Held-out counts", ["predicted by", "RMSE", "mean log-likelihood"], rows)
        if self.frontier is not None:
            self.frontier.draw(report)
        weights = np.sort(self.model.own_samples_.mean(axis=(0, 1)) * self.model.shared_samples_.mean(axis=(0, 1)))[
            ::-1
        ]
        figure = curves({"mean rate": [float(one) for one in weights]}, step_name="component", value_name="mean rate")
        report.figure("Components", figure, "The part of a cell's mean that each component explains, largest first.")
        if self.view is not None:
            caption = "What leaves the site: true counts plus two-sided geometric noise. They may be negative."
            report.figure("Noisy counts", histogram(self.view.listed().values, value_name="noisy count"), caption)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write all files; the noisy counts are model/view.npz."""
        (Path(folder) / MODEL).mkdir(parents=True, exist_ok=True)
        if self.view is not None:
            self.view.save(Path(folder) / MODEL / VIEW)
        super().write(folder)


def fit_local_counts(
    counts: TensorLike,
    n_components: int = 5,
    *,
    epsilon: float | None = None,
    delta_max: int = 1,
    observed: ArrayLike | None = None,
    views: Sequence[NoisyCounts] = (),
    held_out: float = 0.1,
    frontier: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    source: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    **parameters: Any,
) -> LocalCountsResult:
    """Add noise to a site's counts, fit them with the noisy counts of other sites, and measure the fit on held-out cells.

    Parameters
    ----------
    counts : array_like of int, scipy sparse array or ``(coords, values, shape)``
        A table or a tensor. Its first axis belongs to the site, the others are shared.
    n_components : int, default=5
    epsilon : float, optional
        Privacy loss of one cell. Without it the site's own counts are fitted without noise (LDP2), and the model has no
        guarantee.
    delta_max : int, default=1
        Largest change of a cell that is protected.
    observed : array_like of bool, or "stored" for sparse counts
        Which cells hold counts: public.
    views : sequence of NoisyCounts
        What other sites released.
    held_out : float, default=0.1
        Fraction of the cells to hold out, each by its place under a secret key; 0 for no measures. Held-out cells are in no
        release.
    frontier : bool, default=False
        With an epsilon: also fit synthetic counts at several epsilons, drawn from what was released, which costs no privacy.
    ledger, dataset
        See `tacit.LocallyPrivateCounts`; the fingerprint is that of all counts, those that are held out included.
    random_state : int, default=0
        Seed of the sampler. It protects nothing.
    source : dict of str to str, optional
    progress : callable, optional
    **parameters
        Further parameters of `tacit.LocalCountFactorization`.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.report import fit_local_counts
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(rng.gamma(1, 3, (40, 1)) * rng.gamma(1, 1, 12))
    >>> result = fit_local_counts(counts, 1, epsilon=2.0, sweeps=40, burn_in=20)
    >>> result.guarantee.unit, bool(result.measures["from noisy counts"]["rmse"] < result.measures["constant"]["rmse"])
    ('cell', True)
    """
    say = progress or (lambda stage: None)
    listed = count_list(counts, observed)
    out = np.zeros(len(listed.values), bool)
    if held_out:
        out = held_out_cells(listed.cells, fraction=check_fraction(held_out))
    kept, test = _part(listed, ~out), _part(listed, out)
    settings = {"random_state": random_state, **parameters}
    fitted: dict[str, LocalCountFactorization] = {}
    own = (kept.cells, kept.values, kept.shape)
    # what can fail is tried on this fit, before anything is charged
    say("fitting without noise")
    plain = LocalCountFactorization(n_components, **settings).fit(
        [own, *views], observed=["stored", *[None] * len(views)]
    )
    view = None
    if epsilon is None:
        fitted[OWN] = plain
    else:
        say("adding noise")
        account = account_of(ledger, dataset, named_by(counts, observed))
        site = LocallyPrivateCounts(epsilon, delta_max, ledger=ledger, dataset=account)
        view = site.privatise(own, observed="stored")
        keep_release(view, VIEW)
        say("fitting from noisy counts")
        fitted[PRIVATE] = LocalCountFactorization(n_components, **settings).fit([view, *views])
        fitted[NAIVE] = LocalCountFactorization(n_components, **{**settings, "noise": "naive"}).fit([view, *views])
        fitted[PLAIN] = plain
    model = next(iter(fitted.values()))
    measures = {}
    if len(test.values):
        measures = {how: _scores(one, test) for how, one in fitted.items()}
        measures[CONSTANT] = {"rmse": float(np.std(test.values))}
    drawn = local_frontier(model, len(kept.values), delta_max) if frontier and view is not None else None
    return LocalCountsResult(model, view, measures, len(kept.values), len(views), drawn, source or {})


def _part(counts: CountList, chosen: NDArray[np.bool_]) -> CountList:
    return CountList(counts.cells[chosen], counts.values[chosen], counts.shape)


def _scores(model: LocalCountFactorization, test: CountList) -> dict[str, float]:
    triple = (test.cells, test.values, test.shape)
    return {
        "rmse": float(np.sqrt(np.mean((model.predict(0, test.cells) - test.values) ** 2))),
        "loglikelihood": model.score(triple, observed="stored"),
    }
