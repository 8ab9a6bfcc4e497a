"""Figures 1 to 6: RMSE by iteration, and RMSE and overall epsilon by the epsilon of one iteration."""

from __future__ import annotations

import math

import numpy as np

from tacit.privacy.calibration import gaussian_epsilon
from tacit.privacy.published import dwork_roth_noise_multiplier
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.mugdho_imtiaz.setting import (
    ALGORITHM,
    DELTA,
    NO_NUMBERS,
    SETS,
    STEP_DELTA,
    Fit,
    held_out,
    label,
    overall,
    prepared,
    published,
    repaired,
)
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide

BUDGETS = (0.15, 0.25, 0.4, 0.5, 0.8)
"""Epsilon of one iteration; the text names 0.15, 0.4 and 0.5 (pages 14 and 15)."""
REPAIRED_ROUNDS = 30
"""Rounds of the sound version. Set by hand: each further round adds noise to all of them."""
USERS = 800
"""Users drawn from each data set, for time; the paper uses all."""


@item(
    paper="mugdho-imtiaz",
    name="figures-1-6",
    title="RMSE by iteration, RMSE and overall epsilon by epsilon_i",
    page=13,
    needs=tuple(SETS),
    minutes=12,
    code=(*ALGORITHM, "tacit.PrivateRecommender"),
    covers=tuple(f"figure-{number}" for number in range(1, 7)),
)
def figures_1_6(run: ItemRun) -> ItemOutcome:
    """The learning curves, and their ends against the overall epsilon of eq. 9."""
    rounds = run.pick(80, 4)
    budgets = run.pick(BUDGETS, BUDGETS[:2])
    learning, trade, rows, verdicts = [], [], [], []
    for place, name in enumerate(run.each(list(SETS))):
        data = prepared(run, name, USERS)
        fits = {
            budget: [published(data, budget, rounds, seed) for seed in run.seeds] for budget in (math.inf, *budgets)
        }
        learning.append(
            Figure(
                f"Figure {place + 1}, {data.title}: RMSE of the fitted ratings by iteration, as printed",
                "iteration",
                "RMSE",
                tuple(
                    Curve.of(label(budget), range(rounds), [fit.curve for fit in repeated], dashed=math.isinf(budget))
                    for budget, repeated in fits.items()
                ),
            )
        )
        ends = np.array([[fit.curve[-1] for fit in fits[budget]] for budget in budgets]).T
        held = np.array([[held_out(fit.model, data) for fit in fits[budget]] for budget in budgets]).T
        sound = [exact(budget, rounds) for budget in budgets]
        ours = np.array([[repaired(data, total, REPAIRED_ROUNDS, seed) for seed in run.seeds] for total in sound]).T
        totals = tuple(overall(budget, rounds) for budget in budgets)
        trade.append(
            Figure(
                f"Figure {place + 4}, {data.title}: RMSE after {rounds} iterations and overall epsilon",
                "epsilon of one iteration",
                "RMSE",
                (
                    Curve("fitted, without privacy", budgets, (_end(fits[math.inf]),) * len(budgets), dashed=True),
                    Curve.of("fitted, as printed", budgets, ends),
                    Curve.of("held out, as printed", budgets, held),
                    Curve.of("held out, repaired, at the exact overall epsilon", budgets, ours),
                    Curve("overall epsilon, eq. 9", budgets, totals, right=True, dashed=True),
                ),
                right_label="overall epsilon",
            )
        )
        for column, budget in enumerate(budgets):
            remark = f"Overall epsilon {totals[column]:.1f} by eq. 9, {sound[column]:.1f} exactly."
            rows += [
                Row((data.title, label(budget), "fitted, as printed"), None, tuple(ends[:, column]), remark=remark),
                Row((data.title, label(budget), "held out, as printed"), None, tuple(held[:, column])),
                Row((data.title, label(budget), "held out, repaired"), None, tuple(ours[:, column])),
            ]
        rows.append(
            Row((data.title, "without privacy", "fitted"), None, tuple(fit.curve[-1] for fit in fits[math.inf]))
        )
        verdicts.append(
            f"{data.title}: as printed, epsilon_i = {budgets[-1]:g} ends {ends[:, -1].mean() - _end(fits[math.inf]):+.3f} "
            f"from the curve without privacy, {budgets[0]:g} ends {ends[:, 0].mean() - _end(fits[math.inf]):+.3f} from it."
        )
    table = SideBySide("RMSE in stars", ("data", "budget", "ratings"), tuple(rows))
    verdicts += [
        "As printed, noise is added to the users' gradient only; the items' gradient is exact, so the overall epsilon is not "
        "one of the released user profiles. The repaired method adds noise to both and starts from a public draw.",
        NO_NUMBERS,
    ]
    return ItemOutcome((table,), (*learning, *trade), verdicts=tuple(verdicts))


def _end(fits: list[Fit]) -> float:
    return float(np.mean([fit.curve[-1] for fit in fits]))


def exact(budget: float, steps: int) -> float:
    """Return the exact epsilon of as many Gaussian releases with the noise of one iteration."""
    return gaussian_epsilon(dwork_roth_noise_multiplier(budget, STEP_DELTA), DELTA, steps=steps)
