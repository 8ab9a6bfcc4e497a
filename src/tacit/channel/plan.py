"""A plan: the noisy sums that a run will make, how they split its budget, and the noise level that meets the budget."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tacit.errors import InvalidInputError, parameter, words
from tacit.privacy.accountant import Accountant
from tacit.privacy.calibration import gaussian_noise_multiplier, least_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.releases import ADJACENCIES, UNITS, ExponentialRelease, GaussianRelease, Release
from tacit.validation import check_choice, check_count, check_epsilon, check_fit_delta, check_positive, check_rate


@dataclass(frozen=True)
class Step:
    """`count` noisy sums of equal weight, over all units or over a Poisson sample.

    Parameters
    ----------
    count : int
        How many such sums the run makes.
    weight : float
        Part of the budget of **one** such sum, relative to the plan's other steps: its noise multiplier is the plan's
        divided by ``sqrt(weight)``.
    sampling_rate : float
        Rate of the Poisson sample that each sum is taken over; 1 for all units.
    name : str
        Set by `Split`; tells steps of equal weight apart.
    """

    count: int = 1
    weight: float = 1.0
    sampling_rate: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        check_count(self.count, "count")
        check_positive(self.weight, "weight")
        check_rate(self.sampling_rate)


class Split(Mapping[str, Step]):
    """The steps of a run by name; both the plan and the asks take them from here.

    A program yields ``Sum(..., step=split["second"])`` and the plan is ``Plan.for_budget(epsilon, delta, steps=split)``, so
    the two cannot disagree.

    Parameters
    ----------
    **steps : float or Step
        By name, in the order of the program. A number is the weight of a single sum over all units.

    Examples
    --------
    >>> from tacit.channel import Split, Step
    >>> split = Split(sums=0.2, rounds=Step(count=4, weight=0.2))
    >>> split.total
    1.0
    >>> split["rounds"].count
    4
    """

    def __init__(self, **steps: float | Step) -> None:
        if not steps:
            raise InvalidInputError("at least one step", words("none"), "Name the sums that the run will make.")
        self._steps = {
            name: replace(step if isinstance(step, Step) else Step(weight=step), name=name)
            for name, step in steps.items()
        }

    @property
    def total(self) -> float:
        """The weights of all sums together."""
        return sum(step.count * step.weight for step in self.values())

    def scaled(self, total: float) -> Split:
        """Return the same split with weights that add up to `total`."""
        factor = check_positive(total, "total") / self.total
        return Split(**{name: replace(step, weight=step.weight * factor) for name, step in self.items()})

    def __or__(self, other: Split) -> Split:
        """Return the steps of both splits; a name that both have is refused."""
        common = sorted(set(self) & set(other))
        if common:
            raise InvalidInputError("splits without common names", parameter(common), "Name the steps differently.")
        return Split(**self, **other)

    def __getitem__(self, name: str) -> Step:
        return self._steps[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self._steps == other._steps

    def __hash__(self) -> int:
        return hash(tuple(self._steps.items()))

    def __repr__(self) -> str:
        return f"Split({', '.join(f'{name}={step!r}' for name, step in self.items())})"


LEAST_LATTICE_SIGMA = 2.0**12
"""Least standard deviation of noise in grid steps; see GRID_RESERVE."""
MOST_NUMBERS = 2**40
"""Most numbers in one sum; see GRID_RESERVE."""
GRID_RESERVE = 1e-6
"""Relative addition to the noise. It pays, in advance, for the grid of the discrete Gaussian: with noise of at least
LEAST_LATTICE_SIGMA steps and at most MOST_NUMBERS numbers a sum, the grid takes less than 2e-7 off the multiplier."""


@dataclass(frozen=True)
class Plan:
    """The number of noisy sums, fixed before the first, and the noise that makes their total (epsilon, delta).

    Build it with `Plan.for_budget`.
    """

    epsilon: float
    delta: float
    steps: tuple[Step, ...]
    noise_multiplier: float
    unit: str = "row"
    adjacency: str = "add-remove"
    choices: tuple[float, ...] = ()

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        *,
        steps: int | Split | Iterable[Step] = 1,
        unit: str = "row",
        adjacency: str = "add-remove",
        choices: Iterable[float] = (),
    ) -> Plan:
        """Calibrate the noise so that all `steps` together cost `epsilon` at `delta`.

        Parameters
        ----------
        epsilon, delta : float
            For the whole run.
        steps : int, Split or iterable of Step
            The sums that will be made; an integer stands for that many of weight 1 over all units.
        unit, adjacency : str
            See `tacit.privacy.Guarantee`.
        choices : iterable of float
            The epsilon of each `Choose` that will be asked, in order; the sums get what is left.
        """
        epsilon, delta = check_epsilon(epsilon), check_fit_delta(delta)
        check_choice(unit, "unit", UNITS)
        check_choice(adjacency, "adjacency", ADJACENCIES)
        planned = (Step(count=steps),) if isinstance(steps, int) else _listed(steps)
        if not planned:
            raise InvalidInputError(
                "at least one step", parameter(planned), "Say how many noisy sums the run will make."
            )
        chosen = tuple(check_epsilon(choice) for choice in choices)
        if sum(chosen) >= epsilon:
            raise InvalidInputError(
                f"the choices' epsilons to add up to less than epsilon={epsilon:g}",
                parameter(chosen),
                "Lower them: the sums get what is left.",
            )
        multiplier = _calibrated(epsilon, delta, planned, adjacency, chosen) * (1 + GRID_RESERVE)
        return cls(epsilon, delta, planned, multiplier, unit, adjacency, chosen)

    def multiplier(self, weight: float) -> float:
        """The noise multiplier of a sum of this weight."""
        return self.noise_multiplier / math.sqrt(weight)

    def guarantee(self, done: Iterable[Step] | None = None, choices: int | None = None) -> Guarantee:
        """What the steps `done` and the first `choices` cost (all, if not given); a ledger is charged with it in advance."""
        releases = self.releases(self.steps if done is None else done, self.choices[:choices])
        return Guarantee.from_releases(releases, delta=self.delta, unit=self.unit, adjacency=self.adjacency)

    def releases(self, steps: Iterable[Step], choices: Iterable[float]) -> list[Release]:
        """Return steps and choices of this plan as releases, on the coarsest grid and with the most numbers that are allowed."""
        sums = _releases(self.noise_multiplier, steps)
        fine = [replace(release, lattice_sigma=LEAST_LATTICE_SIGMA, dimension=MOST_NUMBERS) for release in sums]
        return [*fine, *(ExponentialRelease(epsilon=choice) for choice in choices)]


def _listed(steps: Split | Iterable[Step]) -> tuple[Step, ...]:
    return tuple(steps.values()) if isinstance(steps, Mapping) else tuple(steps)


def _releases(noise_multiplier: float, steps: Iterable[Step]) -> list[GaussianRelease]:
    return [
        GaussianRelease(
            noise_multiplier=noise_multiplier / math.sqrt(step.weight),
            sampling_rate=step.sampling_rate,
            count=step.count,
        )
        for step in steps
    ]


@functools.lru_cache(maxsize=128)  # an audit repeats the same fit thousands of times, and a search takes seconds
def _calibrated(
    epsilon: float, delta: float, steps: tuple[Step, ...], adjacency: str, choices: tuple[float, ...]
) -> float:
    total_weight = sum(step.count * step.weight for step in steps)
    full_batch = gaussian_noise_multiplier(epsilon, delta, adjacency=adjacency) * math.sqrt(total_weight)
    if all(step.sampling_rate == 1 for step in steps) and not choices:
        return full_batch
    # one step in place of all gives the order of magnitude; the search does the rest
    count = sum(step.count for step in steps)
    rate = max(step.sampling_rate for step in steps)
    start = gaussian_noise_multiplier(epsilon, delta, steps=count, sampling_rate=rate, adjacency=adjacency)
    if len(steps) == 1 and not choices:  # then one step in place of all is all of them
        return start * math.sqrt(steps[0].weight)
    picks = tuple(ExponentialRelease(epsilon=choice) for choice in choices)
    return least_multiplier(
        lambda z: Accountant(adjacency, (*_releases(z, steps), *picks)).epsilon(delta), epsilon, start=start
    )
