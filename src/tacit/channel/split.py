"""A budget split: the sums that a run will make, and how they divide its budget, declared once as a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tacit.errors import InvalidInputError, parameter, words
from tacit.validation import check_count, check_positive, check_rate


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
