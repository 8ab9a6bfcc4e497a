"""Figures 7 to 27: RMSE, overall epsilon and time by the dimension n of the profiles and by the step size mu."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.mugdho_imtiaz.setting import (
    ALGORITHM,
    NO_NUMBERS,
    SETS,
    Data,
    Fit,
    label,
    overall,
    prepared,
    published,
)
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome

BUDGETS = (0.25, 0.5, 0.8)
"""Epsilon of one iteration; three of the five of Figures 1 to 6, for time."""
DIMENSIONS = (5, 10, 20, 40, 80)
"""The paper goes to 320 and more on a graphics card; the time of an iteration grows in proportion."""
STEPS = (0.00025, 0.0005, 0.001, 0.002, 0.004)
"""Around the paper's 0.0005 (page 14); its text does not list the values of Figures 19 to 27."""
TOLERANCE = 0.0005
"""An RMSE that changes by less in one iteration has converged. The paper does not state its criterion; the number of
iterations, and with it the overall epsilon, depends on it."""
USERS = 150
"""Users drawn from each data set, for time; the paper uses all."""

Sweep = dict[float, list[list[Fit]]]


def swept(run: ItemRun, values: Sequence[float], fit: Callable[[float, float, int], Fit]) -> Sweep:
    """Fit every value for every budget, inf included, and every seed."""
    budgets = (math.inf, *run.pick(BUDGETS, BUDGETS[:1]))
    return {budget: [[fit(value, budget, seed) for seed in run.seeds] for value in values] for budget in budgets}


def drawn(
    sweep: Sweep, values: Sequence[float], data: Data, x_label: str, numbers: Sequence[int], log_x: bool
) -> list[Figure]:
    """Draw RMSE (first number), overall epsilon (second), and both (third), by a parameter."""

    def points(budget: float, of: Callable[[Fit], float]) -> np.ndarray:
        return np.array([[of(fit) for fit in fits] for fits in sweep[budget]]).T

    def rmse(budget: float) -> Curve:
        ends = np.minimum(points(budget, lambda fit: float(fit.curve[-1])), 10.0)  # diverged fits are cut off at 10
        return Curve.of(label(budget), values, ends, dashed=math.isinf(budget))

    private = [budget for budget in sweep if math.isfinite(budget)]

    def spent(budget: float, *, right: bool = False) -> Curve:
        costs = points(budget, lambda fit: overall(budget, fit.steps))
        name = f"overall epsilon, {label(budget)}" if right else label(budget)
        return Curve.of(name, values, costs, right=right, dashed=right)

    middle = private[len(private) // 2]
    return [
        Figure(
            f"Figure {numbers[0]}, {data.title}: RMSE by {x_label}", x_label, "RMSE", tuple(map(rmse, sweep)), log_x
        ),
        Figure(
            f"Figure {numbers[1]}, {data.title}: overall epsilon by {x_label}",
            x_label,
            "overall epsilon",
            tuple(map(spent, private)),
            log_x,
        ),
        Figure(
            f"Figure {numbers[2]}, {data.title}: RMSE and overall epsilon by {x_label}",
            x_label,
            "RMSE",
            (rmse(math.inf), rmse(middle), spent(middle, right=True)),
            log_x,
            right_label="overall epsilon",
        ),
    ]


@item(
    paper="mugdho-imtiaz",
    name="figures-7-18",
    title="RMSE, overall epsilon and time by the dimension n",
    page=15,
    needs=tuple(SETS),
    minutes=20,
    code=ALGORITHM,
    covers=tuple(f"figure-{number}" for number in range(7, 19)),
)
def figures_7_18(run: ItemRun) -> ItemOutcome:
    """The dimension of the profiles."""
    values, rounds = run.pick(DIMENSIONS, (2, 4)), run.pick(100, 4)
    figures: list[Figure] = []
    verdicts = []
    for place, name in enumerate(run.each(list(SETS))):
        data = prepared(run, name, USERS)
        sweep = swept(
            run,
            values,
            lambda n, budget, seed, data=data: published(data, budget, rounds, seed, n=int(n), tol=TOLERANCE),  # type: ignore[misc]
        )
        figures += drawn(sweep, values, data, "dimension n", (7 + place, 10 + place, 13 + place), True)
        times = [[1000 * fit.seconds for fit in fits] for fits in sweep[math.inf]]
        figures.append(
            Figure(
                f"Figure {16 + place}, {data.title}: milliseconds of one iteration by n",
                "dimension n",
                "time of one iteration (ms)",
                (Curve.of("one core", values, np.array(times).T),),
                True,
            )
        )
        plain = [float(np.mean([fit.curve[-1] for fit in fits])) for fits in sweep[math.inf]]
        verdicts.append(
            f"{data.title}: without privacy the RMSE of the fitted ratings falls from {plain[0]:.3f} at n = {values[0]} to "
            f"{plain[-1]:.3f} at n = {values[-1]}; an iteration takes {np.mean(times[-1]) / np.mean(times[0]):.1f} times as long."
        )
        unfinished = min(fit.steps for per_value in sweep.values() for fits in per_value for fit in fits) == rounds
        if unfinished:
            verdicts.append(
                f"{data.title}: no fit converges within {rounds} iterations, so the overall epsilon does not depend on n here; "
                "in the paper it follows the number of iterations until convergence."
            )
    return ItemOutcome(figures=tuple(figures), verdicts=(*verdicts, NO_NUMBERS))


@item(
    paper="mugdho-imtiaz",
    name="figures-19-27",
    title="RMSE and overall epsilon by the step size mu",
    page=17,
    needs=tuple(SETS),
    minutes=12,
    code=ALGORITHM,
    covers=tuple(f"figure-{number}" for number in range(19, 28)),
)
def figures_19_27(run: ItemRun) -> ItemOutcome:
    """The step size."""
    values, rounds = run.pick(STEPS, (0.0005, 0.002)), run.pick(100, 4)
    figures: list[Figure] = []
    verdicts = []
    for place, name in enumerate(run.each(list(SETS))):
        data = prepared(run, name, USERS)
        sweep = swept(
            run,
            values,
            lambda mu, budget, seed, data=data: published(data, budget, rounds, seed, n=20, mu=mu, tol=TOLERANCE),  # type: ignore[misc]
        )
        figures += drawn(sweep, values, data, "step size mu", (19 + place, 22 + place, 25 + place), True)
        middle = sorted(budget for budget in sweep if math.isfinite(budget))[0]
        steps = [round(float(np.mean([fit.steps for fit in fits]))) for fits in sweep[middle]]
        verdicts.append(
            f"{data.title}: at {label(middle)} the fit stops after {', '.join(map(str, steps))} iterations for mu = "
            f"{', '.join(f'{value:g}' for value in values)}; the overall epsilon follows their number, as the paper says."
        )
    return ItemOutcome(figures=tuple(figures), verdicts=(*verdicts, NO_NUMBERS))
