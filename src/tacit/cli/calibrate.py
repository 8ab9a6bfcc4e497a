"""`tacit calibrate`: from a target to noise, or from noise to what it costs; published formulas beside."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from tacit.cli.output import print_json, print_table
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    from tacit.privacy.published import Comparison


def calibrate(
    epsilon: float | None = typer.Option(None, help="Target privacy loss of all steps together."),
    noise_multiplier: float | None = typer.Option(None, help="Instead of a target: noise whose cost is asked."),
    delta: float = typer.Option(..., help="Failure probability of all steps together."),
    steps: int = typer.Option(1, help="Number of releases."),
    rate: float = typer.Option(1.0, help="Poisson sampling rate of each step; 1 uses everyone."),
    adjacency: str = typer.Option("add-remove", help="add-remove or replace-one."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Find the noise that a total (epsilon, delta) needs, and see what published formulas would have used.

    A noise multiplier is the standard deviation of the noise over the largest L2 norm of one unit's contribution.
    """
    if (epsilon is None) == (noise_multiplier is None):
        raise InvalidInputError(
            "either --epsilon or --noise-multiplier",
            words("both" if epsilon is not None else "neither"),
            "Give --epsilon to find the noise, --noise-multiplier to find its cost.",
        )
    from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
    from tacit.privacy.rounding import exact, rounded_up, shown_epsilon

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


def _compared(epsilon: float, delta: float, steps: int, rate: float) -> list[Comparison]:
    from tacit.privacy.published import compare_published

    return compare_published(epsilon, delta, steps=steps, sampling_rate=rate)
