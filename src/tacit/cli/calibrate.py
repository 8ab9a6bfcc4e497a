"""`tacit calibrate`: the noise for a target, or the cost of noise, compared with published formulas."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from tacit.cli.output import print_json, print_table
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    from tacit.privacy.published import Comparison

DAYS = {"daily": 1, "weekly": 7, "monthly": 30}
"""Days from one release of a schedule to the next."""
DAYS_IN = {"d": 1, "w": 7, "m": 30, "y": 365}
"""Days in the units of a duration."""


def calibrate(
    epsilon: float | None = typer.Option(None, help="Target privacy loss of all steps together."),
    noise_multiplier: float | None = typer.Option(None, help="Instead of a target: compute the cost of this noise."),
    delta: float = typer.Option(..., help="Failure probability of all steps together."),
    steps: int = typer.Option(1, help="Number of releases."),
    rate: float = typer.Option(1.0, help="Poisson sampling rate of each step; 1 uses everyone."),
    adjacency: str = typer.Option("add-remove", help="add-remove or replace-one."),
    schedule: str | None = typer.Option(
        None, help="Instead of --steps: a model that is released daily, weekly or monthly."
    ),
    duration: str = typer.Option("1y", "--for", help="How long, with --schedule: as in 30d, 26w, 6m or 1y."),
    participations: int = typer.Option(1, help="In how many releases a unit has new data, with --schedule."),
    separation: int = typer.Option(1, help="How many releases lie at least between two of them, plus one."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Compute the noise that a total (epsilon, delta) needs, and compare it with that of published formulas.

    A noise multiplier is the standard deviation of the noise divided by the largest L2 norm of one unit's contribution.
    """
    if (epsilon is None) == (noise_multiplier is None):
        raise InvalidInputError(
            "either --epsilon or --noise-multiplier",
            words("both" if epsilon is not None else "neither"),
            "Give --epsilon to find the noise, --noise-multiplier to find its cost.",
        )
    from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
    from tacit.privacy.rounding import exact, rounded_up, shown_epsilon

    if schedule is not None:
        _show_schedule(
            epsilon, delta, adjacency, _releases(schedule, duration), participations, separation, as_json=as_json
        )
        return
    settings = {"delta": delta, "steps": steps, "sampling_rate": rate, "adjacency": adjacency}
    if noise_multiplier is not None:
        cost = gaussian_epsilon(noise_multiplier, delta, steps=steps, sampling_rate=rate, adjacency=adjacency)
        if as_json:
            print_json({**settings, "noise_multiplier": noise_multiplier, "epsilon": cost})
        else:
            typer.echo(
                f"noise multiplier {exact(noise_multiplier)} costs epsilon {shown_epsilon(cost)} at delta {exact(delta)}"
            )
        return
    assert epsilon is not None
    sound = gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=rate, adjacency=adjacency)
    rows = _compared(epsilon, delta, steps, rate) if adjacency == "add-remove" else []
    if as_json:
        print_json(
            {**settings, "epsilon": epsilon, "noise_multiplier": sound, "comparison": [asdict(row) for row in rows]}
        )
        return
    typer.echo(f"sound noise multiplier: {rounded_up(sound)}")
    typer.echo(
        f"({steps} step(s) at rate {exact(rate)}: epsilon {exact(epsilon)} in total at delta {exact(delta)}, {adjacency})"
    )
    if rows:
        print_table(
            "What each formula uses for this target, and what that noise really costs",
            ["formula", "noise multiplier", "real epsilon", "remark"],
            [[r.method, rounded_up(r.noise_multiplier), shown_epsilon(r.real_epsilon), r.remark] for r in rows],
        )


def _releases(schedule: str, duration: str) -> int:
    """Return the number of releases of a schedule within a duration."""
    if schedule not in DAYS:
        raise InvalidInputError(
            f"--schedule to be one of {', '.join(DAYS)}", parameter(schedule), "Name how often the model is released."
        )
    count, unit = duration[:-1], duration[-1:]
    if not count.isdecimal() or unit not in DAYS_IN or not int(count):
        raise InvalidInputError(
            "--for to be a number and d, w, m or y", parameter(duration), "Give a duration as in 30d, 26w, 6m or 1y."
        )
    return max(1, int(int(count) * DAYS_IN[unit] // DAYS[schedule]))


def _show_schedule(
    epsilon: float | None,
    delta: float,
    adjacency: str,
    releases: int,
    participations: int,
    separation: int,
    *,
    as_json: bool,
) -> None:
    """Print what a schedule of releases costs: paid for one by one, or together with correlated noise."""
    from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
    from tacit.privacy.rounding import exact, rounded_up, shown_epsilon
    from tacit.privacy.schedules import Schedule

    if epsilon is None:
        raise InvalidInputError("--epsilon with --schedule", words("none"), "Give the budget to plan for.")
    planned = Schedule(releases, participations, separation)
    one = gaussian_noise_multiplier(epsilon, delta, adjacency=adjacency)
    all_separate = gaussian_epsilon(one, delta, steps=releases, adjacency=adjacency)
    shared = one * planned.separate_noise
    places = sorted({0, releases // 4, releases // 2, releases - 1})
    noise = {place + 1: planned.relative_noise(place) for place in places} if planned.helps else {}
    if as_json:
        print_json(
            {
                "epsilon": epsilon,
                "delta": delta,
                "adjacency": adjacency,
                "releases": releases,
                "participations": participations,
                "separation": separation,
                "epsilon_if_each_release_costs_epsilon": all_separate,
                "noise_multiplier_of_one_release": one,
                "noise_multiplier_of_separate_releases": shared,
                "correlated_noise_helps": planned.helps,
                "noise_multiplier_of_correlated_releases": one * planned.sensitivity if planned.helps else None,
                "correlated_noise_over_one_release": noise,
            }
        )
        return
    typer.echo(
        f"{releases} releases, each with epsilon {exact(epsilon)} of its own, cost epsilon {shown_epsilon(all_separate)} "
        f"in total at delta {exact(delta)}."
    )
    typer.echo(
        f"For epsilon {exact(epsilon)} in total, separate releases need {planned.separate_noise:.2f} times the noise of one "
        f"(noise multiplier {rounded_up(shared)} each)."
    )
    if not planned.helps:
        typer.echo(
            f"Correlated noise does not help here: units take part in up to {participations} of {releases} releases. It would be "
            f"{planned.mean_noise:.1f} times that of one release."
        )
        return
    print_table(
        f"Correlated noise, epsilon {exact(epsilon)} in total, units with new data in at most {participations} releases",
        ["release", "noise of the total over that of one release"],
        [[str(place), f"{value:.2f}"] for place, value in noise.items()],
    )


def _compared(epsilon: float, delta: float, steps: int, rate: float) -> list[Comparison]:
    from tacit.privacy.published import compare_published

    return compare_published(epsilon, delta, steps=steps, sampling_rate=rate)
