r"""The channel with noise: contributions bounded per unit, totals on a grid, discrete Gaussian noise, an account.

How much one unit can move the *integers* that get noise, in steps of the grid, for `d` numbers and a bound `C`:

.. math:: S = \frac{C}{\text{step}} (1 + 2^{-30} + 2 N^2 2^{-53}) + \sqrt{d}

The last term is the rounding of two neighbouring totals to the grid (each number at most half a step, twice). The
factor covers floating point: :math:`2^{-30}` for the rounding within one unit's own contribution (its norm and its
clipping), and the rest for addition, since adding N contributions of norm at most C in any order errs by at most
:math:`N 2^{-53}` times the sum of their norms, on each of the two data sets (Higham 2002, section 4.2; that such
errors break guarantees is shown by Casacuberta et al. 2022). N is `max_units`, a public number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Bound, Choose, NormedSum, Sample, Sum, Total, normalise_columns
from tacit.channel.budget import BudgetedRun, ChargedAccount
from tacit.channel.fixedpoint import Grid, exact_sum
from tacit.channel.peers import ONE_WORD, Alone, Peers
from tacit.channel.plan import LEAST_LATTICE_SIGMA, Plan
from tacit.channel.run import Transcript, lengths_of
from tacit.errors import InvalidInputError, ProtocolError, Undisclosed, parameter, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise import discrete_laplace, with_discrete_gaussian
from tacit.privacy.noise.entropy import insecure_generator
from tacit.privacy.releases import GaussianRelease
from tacit.validation import check_count, warn_about_delta


class PoissonSampling:
    """The sample that the next sum is taken over.

    Privacy
    -------
    Every unit is drawn on its own with the stated rate; the mask never leaves its holder. A unit that was not drawn must
    not change the next sum at all, not even by rounding: amplification is accounted for units that contribute nothing
    unless drawn. Compute the sum from the drawn units alone; `check_neighbours` verifies that.
    """

    def __init__(self) -> None:
        self.rate = 1.0

    def draw(self, asks: Sequence[Sample], generator: np.random.Generator) -> list[NDArray[np.bool_]]:
        """Draw each holder's mask; a second draw before the sum is refused."""
        if self.rate != 1:
            raise ProtocolError(
                "a Sum after every Sample",
                words("a second Sample"),
                "Yield a Sum after every Sample; otherwise the first sample is not accounted for.",
            )
        self.rate = asks[0].rate
        return [generator.random(ask.units) < ask.rate for ask in asks]

    def spend(self) -> None:
        """Use the sample up: the next sum is over all units, unless another sample is drawn."""
        self.rate = 1.0


FLOAT_UNIT = 2.0**-53
"""Unit roundoff of double precision."""
WITHIN_A_UNIT = 2.0**-30
"""Relative reserve for the rounding within one unit's contribution: 2**23 operations in double precision."""
LEAST_STEPS_PER_ROUNDING = 2.0**13
"""A grid is so fine that rounding all numbers of a unit to it adds at most one part in this to the sensitivity (0.012%)."""
LEAST_SHARE = 32.0
"""Least standard deviation, in grid steps, of one party's share of the noise. The factor exp(10 h exp(-pi^2 s^2)) of Kairouz,
Liu & Steinke (2021, section 4) is then 1 in double precision, for any number of parties."""
SHARE_RESERVE = 2.0**-40
"""A share is this much wider than its root says, so that rounding the root takes nothing off the honest shares' sum."""


@dataclass(frozen=True, repr=False)
class Measured(Undisclosed):
    """One array's exact total on its grid, how far a unit can move it, and how much noise it will get (in steps)."""

    integers: NDArray[np.int64]
    grid: Grid
    sensitivity: float
    sigma: float


def with_float_errors(norm: float, max_units: int) -> float:
    """Return a bound that covers the rounding of floating-point arithmetic too."""
    return norm * (1 + WITHIN_A_UNIT + 2 * max_units**2 * FLOAT_UNIT)


def scales(norm: float, dimension: int, multiplier: float, max_units: int) -> tuple[Grid, float, float]:
    """Return a grid whose rounding and discreteness cost nothing that matters, and on it sensitivity and noise."""
    slack = with_float_errors(norm, max_units)
    finest = min(multiplier * slack / LEAST_LATTICE_SIGMA, slack / (math.sqrt(dimension) * LEAST_STEPS_PER_ROUNDING))
    grid = Grid(math.floor(math.log2(finest)))
    sensitivity = slack / grid.step + math.sqrt(dimension)
    return grid, sensitivity, multiplier * sensitivity


class Noisy:
    """Add discrete Gaussian noise to every total, sized by the bounds that the program states.

    Parameters
    ----------
    plan : Plan
        How many sums there will be and how much noise each gets. A sum that was not planned is refused.
    max_units : int, default=2**20
        Public upper bound on the number of units a holder adds up; it enters the bound on rounding errors.
    spending : ChargedAccount, optional
        Charged with the whole plan before the first release, settled when the run ends.
    keep_values : bool, default=False
        Keep the released numbers in the transcript.
    insecure_seed : int, optional
        For tests only: reproducible noise. It voids the guarantee.

    Notes
    -----
    A channel serves one run (`tacit.channel.budget`): a second one is refused.

    Privacy
    -------
    Unit and adjacency are the plan's. What leaves: the noised totals, their names and shapes, nothing else. Why the
    bound holds: the integers that get noise move by at most `Measured.sensitivity` in L2 (`tacit.channel.noisy`), so each
    release is a discrete Gaussian mechanism with the recorded multiplier, and the accountant composes the records.
    Among parties (`joined`) each adds a share of the noise, so wide that the shares of the honest ones alone are that
    noise: a sum of h discrete Gaussians of width s is, number for number, within a factor exp(10 h exp(-pi^2 s^2)) of
    one of width s sqrt(h) (Kairouz, Liu, Steinke 2021, section 4); from `LEAST_SHARE` on that factor is 1 in any
    arithmetic.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        max_units: int = 2**20,
        spending: ChargedAccount | None = None,
        keep_values: bool = False,
        insecure_seed: int | None = None,
    ) -> None:
        self.plan = plan
        self.max_units = check_count(max_units, "max_units")
        self.transcript = Transcript(keep_values)
        self._peers: Peers = Alone()
        self._budget = BudgetedRun(plan, spending, self._peers)
        self._sampling = PoissonSampling()
        self._warned = False
        self._insecure_seed = insecure_seed
        self._insecure = None if insecure_seed is None else insecure_generator(insecure_seed)

    def joined(self, peers: Peers) -> Noisy:
        """Return this channel, made to add up over the parties, each of which adds its share of the noise."""
        self._peers = self._budget.memory = peers
        if self._insecure_seed is not None:  # even insecure noise is drawn by each party for itself
            self._insecure = insecure_generator(self._insecure_seed + peers.index)
        return self

    def open(self) -> None:
        """Begin the one run that this channel serves."""
        self._budget.open()

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        """Draw each holder's Poisson sample for the next sum, from the secure generator."""
        self._warn_holder(sum(ask.units for ask in asks))
        return self._sampling.draw(asks, self._insecure or self._peers.sampler())

    def exchange(self, asks: Sequence[Sum]) -> Total:
        """Total, add noise, record: nothing leaves before every check has passed and the ledger was charged."""
        measured, rate = self.measure(asks), self._sampling.rate
        return self.release(asks[0], measured, units=sum(ask.units or 0 for ask in asks), rate=rate)

    def release(self, ask: Sum, measured: dict[str, Measured], *, units: int, rate: float = 1.0) -> Total:
        """Charge, count and release a total that was measured here or by others.

        Parameters
        ----------
        ask : Sum
            Its public part is used, not its arrays.
        measured : dict of str to Measured
        units : int
            How many units were added up.
        rate : float
            Of the Poisson sample that they are.
        """
        step = self._budget.planned(ask.step, rate)
        self._warn_holder(units)
        release = self._record(ask, measured, rate)
        shares = {name: self._share(array) for name, array in measured.items()}
        self._budget.take(step, release)
        self._sampling.spend()
        total = self._released(ask, measured, shares)
        self.transcript.add(ask.kind, total, release=release)
        return total

    def recall(self, ask: Sum, total: Total, *, rate: float = 1.0) -> None:
        """Count a total that an earlier process of the same run released; it is not released again."""
        measured = self.scaled(ask, {name: np.zeros(array.shape, np.int64) for name, array in ask.arrays.items()})
        release = self._record(ask, measured, rate)
        self._budget.take(self._budget.planned(ask.step, rate), release)
        self.transcript.add(ask.kind, total, release=release)

    def recall_choice(self, winner: int) -> None:
        """Count a choice that an earlier process of the same run made."""
        release = self._budget.take_choice()
        self.transcript.add("choice", {"choice": np.array([float(winner)])}, release=release)

    def _record(self, ask: Sum, measured: dict[str, Measured], rate: float) -> GaussianRelease:
        return GaussianRelease(
            name="+".join(ask.names),
            noise_multiplier=self.plan.multiplier(ask.step.weight),
            sampling_rate=rate,
            lattice_sigma=min(array.sigma for array in measured.values()),
            dimension=max(1, sum(array.integers.size for array in measured.values())),
        )

    def choose(self, asks: Sequence[Choose]) -> int:
        """Return the winner by report-noisy-max (Dwork & Roth 2014, section 3.3), with discrete Laplace noise."""
        if self._peers.parties > 1:
            raise ProtocolError("sums only, among parties", words("a Choose"), "Make the choice before, or alone.")
        return self.choose_from(*self.measure_scores(asks))

    def choose_from(self, scores: NDArray[np.int64], sensitivity: float) -> int:
        """Return the winner among total scores on a grid; one unit can change each score by `sensitivity` grid steps."""
        release = self._budget.take_choice()
        noise = discrete_laplace(2 * sensitivity / release.epsilon, scores.shape, generator=self._insecure)
        winner = int(np.argmax(scores + noise))
        self.transcript.add("choice", {"choice": np.array([float(winner)])}, release=release)
        return winner

    def measure_scores(self, asks: Sequence[Choose]) -> tuple[NDArray[np.int64], float]:
        """Put the total scores on a grid; return them and how many grid steps one unit can move any of them.

        Replacing a unit takes one score of at most the bound away and adds another: twice the bound.
        """
        for ask in asks:
            self._check_units(ask.units, "a Choose")
        grid = Grid(math.floor(math.log2(asks[0].bound / LEAST_STEPS_PER_ROUNDING)))
        scores = exact_sum([grid.encode(ask.scores) for ask in asks])
        moves = 2 if self.plan.adjacency == "replace-one" else 1
        return scores, moves * with_float_errors(asks[0].bound, self.max_units) / grid.step + 1.0

    def measure(self, asks: Sequence[Sum]) -> dict[str, Measured]:
        """Put every array's total on its grid; no noise yet, nothing leaves."""
        for ask in asks:
            if ask.bound is None:
                raise ProtocolError(
                    "a bound on what one unit contributes",
                    words(f"a Sum of {ask.names} without one"),
                    "State `bound=`.",
                )
            if ask.short:
                raise ProtocolError(
                    "double-precision sums",
                    words(f"{ask.short} in single or half precision"),
                    "Convert each unit's contribution to float64 before adding: the sensitivity does not cover the rounding "
                    "of shorter additions.",
                )
            self._check_units(ask.units, f"a Sum of {ask.names}")
        grids = {name: array.grid for name, array in self.scaled(asks[0], {}).items()}
        totals = {name: exact_sum([grid.encode(ask.arrays[name]) for ask in asks]) for name, grid in grids.items()}
        return self.scaled(asks[0], totals)

    def scaled(self, ask: Sum, totals: Mapping[str, NDArray[np.int64]]) -> dict[str, Measured]:
        """Return the grid, the sensitivity and the noise of every array; they follow from the ask's public part."""
        joint = sum(array.size for array in ask.arrays.values())
        measured = {}
        for name, array in ask.arrays.items():
            norm, dimension = self._norm_of(ask, name), array.size
            weight = ask.step.weight
            if isinstance(ask.bound, dict):
                weight *= ask.fractions[name]
            else:
                dimension = joint  # one vector: its rounding counts once, over all its numbers
            scale = scales(norm, max(dimension, 1), self.plan.multiplier(weight), self.max_units)
            measured[name] = Measured(totals.get(name, np.empty(0, np.int64)), *scale)
        return measured

    def _released(self, ask: Sum, measured: dict[str, Measured], shares: dict[str, float]) -> Total:
        """Add the noise and total over the parties."""
        noised = [
            with_discrete_gaussian(array.integers, shares[name], generator=self._insecure)
            for name, array in measured.items()
        ]
        joined = noised[0] if len(noised) == 1 else np.concatenate([array.ravel() for array in noised])
        added = self._peers.add(
            ONE_WORD.of_integers(joined, parties=self._peers.parties),
            ONE_WORD,
            str(ask.signature()),
            noised=True,
        )
        flat, ends = added[0].view(np.int64), np.cumsum([array.size for array in noised])
        totals = {
            name: array.grid.decode(part.reshape(array.integers.shape))
            for (name, array), part in zip(measured.items(), np.split(flat, ends[:-1]), strict=True)
        }
        if isinstance(ask, NormedSum):
            totals = {name: normalise_columns(array) for name, array in totals.items()}
            return Total(totals, dict.fromkeys(totals, math.nan))
        # every party adds its share, colluding or not
        spread = math.sqrt(self._peers.parties)
        return Total(totals, {name: shares[name] * spread * array.grid.step for name, array in measured.items()})

    def _warn_holder(self, units: int) -> None:
        """Warn once about a delta that is too large for the number of units, which only a single holder knows."""
        if not self._warned and self._peers.parties == 1:
            self._warned = True
            warn_about_delta(self.plan.delta, units)

    def conclude(self, public: Mapping[str, object]) -> None:
        """Check that all parties ended with the same."""
        self._peers.agree(lengths_of(public))

    def close(self) -> None:
        """End the run; the ledger is corrected to what was really released, unless the run is to be resumed."""
        self._budget.close()

    @property
    def guarantee(self) -> Guarantee:
        """What the releases so far have earned; of a run that has ended, what its whole plan costs (`BudgetedRun.releases`)."""
        earned = Guarantee.from_releases(
            self._budget.releases,
            delta=self.plan.delta,
            unit=self.plan.unit,
            adjacency=self.plan.adjacency,
            trust=self._peers.trust + self._counted_on(),
            assumptions=(f"no holder adds up more than {self.max_units} units",),
        )
        if self._insecure is not None:
            return earned.voided("the noise came from a fixed seed (insecure_seed), so anyone can subtract it")
        return earned

    def _counted_on(self) -> str:
        """Say whose noise the guarantee counts on."""
        parties, colluding = self._peers.parties, self._peers.parties - self._peers.honest
        if parties == 1:
            return ""
        if colluding == 0:
            return "; the noise of all parties is counted, so this holds against outsiders: a party can subtract its own share"
        return f"; noise is counted as if {colluding} of the {parties} parties pooled what they know"

    def _share(self, array: Measured) -> float:
        """Return the standard deviation, in grid steps, of the noise that this party adds."""
        share = array.sigma / math.sqrt(self._peers.honest) * (1 + SHARE_RESERVE)
        if share < LEAST_SHARE:
            raise InvalidInputError(
                f"at most {(array.sigma / LEAST_SHARE) ** 2:.0f} parties to share the noise",
                parameter(self._peers.honest),
                "Use fewer parties.",
            )
        return share

    def _check_units(self, units: int | None, ask: str) -> None:
        if units is None:
            raise ProtocolError("the number of units added up", words(f"{ask} without it"), "State `units=`.")
        if units > self.max_units:
            raise InvalidInputError(
                f"at most max_units = {self.max_units} units in one holder's sum",
                words("more"),
                "Set max_units to a public upper bound of your data's size.",
            )

    def _norm_of(self, ask: Sum, name: str) -> float:
        """The norm that the accountant's convention wants: under replace-one it doubles it itself."""
        bound = ask.bound[name] if isinstance(ask.bound, dict) else ask.bound
        assert isinstance(bound, Bound)
        if self.plan.adjacency == "replace-one" and self._sampling.rate == 1:
            return bound.replaced / 2
        return bound.norm
