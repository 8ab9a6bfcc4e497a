"""Figures 2, 3, 5 and 6: learning curves by epsilon per iteration, and what the overall epsilon buys."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.factor.nmf.private import PrivateNMF
from tacit.privacy.calibration import gaussian_epsilon
from tacit.privacy.published import dwork_roth_noise_multiplier
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome
from tacit.reproduce.saha_imtiaz.setting import (
    ALGORITHM,
    DELTA,
    Case,
    faces,
    objective,
    overall,
    published,
    start,
    texts,
)

BUDGETS = (0.3, 0.5, 0.7, 0.999)
"""Epsilon of one iteration; those of Table 3 and Table 4."""


def learning(run: ItemRun, cases: Mapping[str, Callable[[], Case]], numbers: Sequence[str]) -> ItemOutcome:
    """Draw, for each data set, the objective by iteration (a), and the last objective and the overall epsilon (b)."""
    rounds, every = run.pick((40, 5), (4, 1))
    budgets = run.pick(BUDGETS, BUDGETS[:2])
    figures, verdicts = [], []
    for make in run.each(list(cases.values())):
        case = make()
        steps = list(range(every, rounds + 1, every))
        paths = {}
        for budget in (math.inf, *budgets):
            seeds = run.seeds if math.isfinite(budget) else run.seeds[:1]
            fits = [published(case, budget, rounds, seed, keep_every=every) for seed in seeds]
            paths[budget] = [[objective(case.X, T) for T in fit.components_by_round_] for fit in fits]
        begin = objective(case.X, start(case, run.seed))
        label = {budget: "without privacy" if math.isinf(budget) else f"epsilon_i = {budget:g}" for budget in paths}
        figures.append(
            Figure(
                f"{numbers[0]}, {case.title}: objective value by iteration, Algorithm 2 as printed, K = {case.rank}",
                "iteration",
                "objective value",
                (
                    *(
                        Curve.of(label[budget], steps, path, dashed=math.isinf(budget))
                        for budget, path in paths.items()
                    ),
                    Curve("the start, without any noise", (0, rounds), (begin, begin), dashed=True),
                ),
            )
        )
        ends = {budget: np.array(path)[:, -1:] for budget, path in paths.items()}
        totals = [overall(budget, rounds) for budget in budgets]
        sound = [tight(budget, rounds) for budget in budgets]
        ours = [[objective(case.X, repaired_dictionary(case, total, seed)) for seed in run.seeds] for total in sound]
        figures.append(
            Figure(
                f"{numbers[1]}, {case.title}: objective after {rounds} iterations, and overall epsilon (delta = {DELTA:g})",
                "epsilon of one iteration",
                "objective value",
                (
                    Curve("without privacy", budgets, (float(ends[math.inf].mean()),) * len(budgets), dashed=True),
                    Curve("the start, without any noise", budgets, (begin,) * len(budgets), dashed=True),
                    Curve.of("Algorithm 2 as printed", budgets, np.hstack([ends[budget] for budget in budgets])),
                    Curve.of("PrivateNMF, guaranteed, at the same noise cost", budgets, np.array(ours).T),
                    Curve("overall epsilon, Theorem 3.1", budgets, tuple(totals), right=True, dashed=True),
                    Curve("overall epsilon, exact", budgets, tuple(sound), right=True, dashed=True),
                ),
                right_label="overall epsilon",
            )
        )
        gap = [float(ends[budget].mean() / ends[math.inf].mean() - 1) for budget in budgets]
        verdicts.append(
            f"{case.title}: the gap to the fit without privacy falls from {gap[0]:.1%} at epsilon_i = {budgets[0]:g} to "
            f"{gap[-1]:.1%} at {budgets[-1]:g}; the overall epsilon is {totals[0]:.1f} to {totals[-1]:.1f} by Theorem 3.1. "
            f"It starts at {begin:.4f}, the private data's own NNDSVD, and ends at {ends[budgets[0]].mean():.4f} to "
            f"{ends[budgets[-1]].mean():.4f} with noise, at {ends[math.inf].mean():.4f} without. PrivateNMF by moments, which "
            f"has a guarantee, is at {np.mean(ours[0]):.4f} to {np.mean(ours[-1]):.4f}."
        )
    verdicts.append(
        "Where a private curve lies above the start, the noise has made worse what the start had taken from the private data "
        "without noise: the small gap of the paper is then the work of the start, and the overall epsilon does not cover it."
    )
    verdicts.append("The figures of the paper have no printed numbers; axes and quantities are those of the paper.")
    return ItemOutcome(figures=tuple(figures), verdicts=tuple(verdicts))


def tight(budget: float, rounds: int) -> float:
    """Return the exact epsilon of `rounds` Gaussian releases of A and B, if the sensitivities held."""
    return gaussian_epsilon(dwork_roth_noise_multiplier(budget, DELTA), DELTA, steps=2 * rounds)


def repaired_dictionary(case: Case, total: float, seed: int, outliers: float | None = None) -> NDArray[np.float64]:
    """Return the dictionary of the default method, at an overall epsilon that holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of components that do not rise above the noise: the error shows it
        model = PrivateNMF(case.rank, epsilon=total, delta=DELTA, outliers=outliers, random_state=seed)
        return model.fit(case.X).components_


@item(
    paper="saha-imtiaz",
    name="figures-2-3",
    title="utility and overall epsilon on texts",
    page=8,
    needs=("guardian", "news-aggregator", "rcv1-4class", "tdt2"),
    minutes=15,
    code=ALGORITHM,
    covers=("figure-2", "figure-3"),
)
def figures_2_3(run: ItemRun) -> ItemOutcome:
    """Figures 2 and 3."""
    return learning(run, texts(run), ("Figure 2", "Figure 3"))


@item(
    paper="saha-imtiaz",
    name="figures-5-6",
    title="utility and overall epsilon on faces",
    page=10,
    needs=("yale-b", "cbcl"),
    minutes=15,
    code=ALGORITHM,
    covers=("figure-5", "figure-6"),
)
def figures_5_6(run: ItemRun) -> ItemOutcome:
    """Figures 5 and 6."""
    return learning(run, faces(run), ("Figure 5", "Figure 6"))
