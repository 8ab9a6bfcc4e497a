"""What a job will release, in words, for a person who decides whether to take part; computed before the first connection."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Channel, Clear, Noisy, Plan, Total
from tacit.channel.asks import Choose, NormedSum, Sample, Sum, normalise_columns
from tacit.channel.directions.summer import withstands
from tacit.channel.run import Transcript, interpose
from tacit.errors import TacitError
from tacit.estimators.base import Estimator
from tacit.estimators.private import PrivateFit
from tacit.estimators.registry import JOBS, RATINGS, RECORDS, RELATIONS
from tacit.estimators.verdict import about_guarantee
from tacit.parties.job import Job
from tacit.parties.models import PartyData, estimator_of
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.rounding import shown_epsilon

REHEARSED_ROWS = 30
"""Made-up rows of a rehearsal: it shows which sums a job asks for, which does not depend on the number of rows."""
MOST_ASKS = 300
"""A rehearsal without privacy is stopped after this many asks."""
NO_LEDGER = "No ledger is charged."
"""What a review says if no account is named."""


@dataclass(frozen=True)
class Review:
    """What a party agrees to when it joins a job.

    Attributes
    ----------
    lines : sequence of str
        For people.
    values : dict
        The same, as plain values.
    plan : Plan or None
        The planned noise; None for a model without a guarantee.
    """

    lines: Sequence[str]
    values: dict[str, Any]
    plan: Plan | None

    def __str__(self) -> str:
        return "\n".join(self.lines)


def review(
    job: Job,
    estimator: Estimator | None = None,
    *,
    party: str | None = None,
    data: PartyData | None = None,
    account: tuple[Ledger, str] | None = None,
) -> Review:
    """Return what a job will release, and what that costs.

    The sums are found by a rehearsal: the model's program runs on invented rows with the job's columns, in this process, and
    the sums that it asks for are written down. Coupled models are rehearsed on the party's own relations, if given.

    Parameters
    ----------
    job : Job
    estimator : estimator, optional
        The job's, if not given.
    party : str, optional
        The party that reads it.
    data : PartyData, optional
    account : (Ledger, str), optional
        Where the party is charged.
    """
    estimator = estimator_of(job, accept_no_guarantee=True) if estimator is None else estimator
    sums, plan, failure = _rehearsed(job, estimator, data)
    voided = estimator.voided_by() if isinstance(estimator, PrivateFit) else None
    is_private = isinstance(estimator, PrivateFit) or plan is not None
    counted = _counted(sums, plan)
    names = [one.name for one in job.parties]
    lines = [
        f"Job {job.name} ({job.digest[:19] or 'not sealed'}), model {job.model}, with {', '.join(names)}.",
        "Settings: "
        + (", ".join(f"{key} = {value!r}" for key, value in job.settings.items()) or "those of the model."),
        *counted,
        *([] if failure is None else [f"A trial here failed, and so may the run: {failure}"]),
        _guaranteed(estimator, plan, voided),
        *(_concerns(plan, data) if voided is None else []),
        _pooled(job, estimator, is_private and voided is None),
        _cost(estimator, plan, voided, account),
    ]
    if party is not None:
        lines.insert(1, f"You take part as {party}; your records and what is computed per record stay here.")
    values = {
        "job": {"name": job.name, "digest": job.digest, "model": job.model, "settings": dict(job.settings)},
        "parties": [{"name": one.name, "address": one.address, "fingerprint": one.fingerprint} for one in job.parties],
        "sums": [{"sum": what, "times": count} for what, count in sums.items()],
        "has_guarantee": is_private and voided is None,
        "epsilon": plan.epsilon if plan is not None and voided is None else None,
        "delta": plan.delta if plan is not None and voided is None else None,
        "failed_trial": None if failure is None else str(failure),
        "text": lines,
    }
    return Review(lines, values, plan)


def _counted(sums: Mapping[str, int], plan: Plan | None) -> list[str]:
    if not sums:
        return ["What leaves: sums of statistics. Their sizes are known only when the model runs on the parties' data."]
    if plan is not None:
        rounds = sum(step.count for step in plan.steps)
        head = (
            f"What leaves, in {rounds} round{'s' if rounds != 1 else ''}, as sums over all parties with noise in them:"
        )
    else:
        head = (
            "What leaves, as exact sums over all parties (the number of rounds is that of a trial on invented rows; a "
            "model that stops by itself may make more or fewer):"
        )
    return [head, *(f"  {count} x {what}" for what, count in sums.items())]


def _guaranteed(estimator: Estimator, plan: Plan | None, voided: str | None) -> str:
    if voided is not None:
        return f"THERE IS NO GUARANTEE: the job sets {voided}. What the others learn may give single records away."
    if plan is None and isinstance(estimator, PrivateFit):
        return (
            f"Asked for: differential privacy with {_stated(estimator)}. The planned guarantee in words is known when the "
            "model's program runs: `tacit parties join` shows it, with this party's data, before it asks."
        )
    if plan is None:
        return (
            "There is no differential privacy in this model: all parties learn the exact sums, and whoever gets the model "
            "may learn things about single records."
        )
    planned = plan.guarantee()
    return f"Planned guarantee: {' '.join(planned._bound()[:2])}"


def _concerns(plan: Plan | None, data: PartyData | None) -> list[str]:
    """Return what should make a person hesitate: an epsilon or a delta that protects little."""
    if plan is None:
        return []
    concerns = about_guarantee(plan.guarantee(), None if data is None else data.records)
    return [f"CONSIDER: {concern.what}" for concern in concerns]


def _pooled(job: Job, estimator: Estimator, private: bool) -> str:
    parties = len(job.parties)
    others = parties - 1
    if private and job.colluding:
        text = f"The guarantee holds against up to {job.colluding} of the {parties} parties that pool what they know."
    elif private:
        text = "The guarantee holds against outsiders only: a party can subtract its own noise (colluding = 0)."
    elif parties == 2:
        text = "Of two parties each can subtract its own part from a sum: the other learns your sums exactly."
    else:
        text = (
            f"If all {others} others pool what they know, they learn your sums exactly; if fewer do, only sums over several "
            "parties."
        )
    if job.survive:
        left = others - job.survive
        text += f" Up to {job.survive} of the parties may leave for good; the run then goes on without their records"
        if private:
            text += "."
        elif left == 1:
            text += ", and the one other that may be left learns your sums exactly, without pooling."
        else:
            text += f", and the {left} others that may be left are enough to learn your sums exactly by pooling."
    if hasattr(estimator, "hide_singular_values"):
        if estimator.hide_singular_values and job.hide_norms:
            most = withstands(parties, job.colluding)
            text += f" Singular values stay hidden while at most {most} parties pool what they know."
        elif not private:
            text += " All parties learn the singular values: the job does not hide them."
    return text


def _stated(estimator: Estimator) -> str:
    """Return epsilon and delta as the job states them."""
    epsilon = estimator.epsilon
    shown = (
        "an epsilon of each user's own" if np.ndim(epsilon) or isinstance(epsilon, Mapping) else f"epsilon {epsilon:g}"
    )
    return f"{shown} and delta {estimator.delta:g}"


def _cost(estimator: Estimator, plan: Plan | None, voided: str | None, account: tuple[Ledger, str] | None) -> str:
    if account is None:
        return NO_LEDGER
    ledger, dataset = account
    if plan is None and voided is None and isinstance(estimator, PrivateFit):
        return f"Your ledger is charged with the planned guarantee before the first sum: {_stated(estimator)}."
    if plan is None or voided is not None:
        return "No ledger can be charged with this: leave out --ledger."
    spent, planned = ledger.remaining(dataset).spent, plan.guarantee()
    fits = ledger.can_afford(dataset, planned)
    return (
        f"Your ledger is charged with epsilon {shown_epsilon(planned.epsilon)} before the first sum; epsilon "
        f"{shown_epsilon(spent)} is spent so far"
        + ("." if fits else ". THE BUDGET IS NOT ENOUGH: the run will be refused.")
    )


class _EnoughError(Exception):
    """Ends a rehearsal that has shown what there is to see."""


class _Rehearsal:
    """A channel that returns every sum as the total, adds no noise, charges nothing, and notes what was asked for."""

    def __init__(self, channel: Channel, divides: bool) -> None:
        self.divides = divides
        self.plan = channel.plan if isinstance(channel, Noisy) else None
        self._clear = Clear()
        self.asked: Counter[str] = Counter()

    @property
    def transcript(self) -> Transcript:
        return self._clear.transcript

    @property
    def guarantee(self) -> Guarantee:
        return self._clear.guarantee

    def open(self) -> None:
        """Nothing is opened."""

    def exchange(self, asks: Sequence[Sum]) -> Total:
        ask = asks[0]
        arrays = ", ".join(f"{name} ({' x '.join(map(str, array.shape)) or '1'})" for name, array in ask.arrays.items())
        size = sum(array.size for array in ask.arrays.values())
        kind = "normalised sum" if isinstance(ask, NormedSum) else "sum"
        self.asked[f"{kind} of {arrays}: {size:,} number{'s' if size != 1 else ''}"] += 1
        if self.asked.total() >= MOST_ASKS:
            raise _EnoughError
        totals = dict(ask.arrays)
        if isinstance(ask, NormedSum):
            totals = {name: normalise_columns(array) for name, array in totals.items()}
        if ask.divisible is not None and self.divides:  # as in the masked channel
            divided = totals.pop(ask.divisible.of)
            return Total(totals, worked=ask.divisible.work(slice(None), divided, totals))
        return Total(totals)

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        return [np.ones(ask.units, dtype=bool) for ask in asks]

    def choose(self, asks: Sequence[Choose]) -> int:
        return 0

    def conclude(self, public: Mapping[str, object]) -> None:
        """There is nobody to compare with."""

    def close(self) -> None:
        """Nothing was opened."""


def _rehearsed(
    job: Job, estimator: Estimator, data: PartyData | None
) -> tuple[dict[str, int], Plan | None, TacitError | None]:
    """Run the program on invented rows; return which sums it asked for how often, the plan of a private model, and why it failed.

    A failure after the first sum is not reported: invented rows may end a fit early.
    """
    from sklearn.base import clone

    kind = JOBS[job.model].data if job.model in JOBS else None
    rows = data if kind == RELATIONS else _invented(job, estimator, kind)
    if rows is None:
        return {}, None, None
    failure: TacitError | None = None
    seen: list[_Rehearsal] = []

    def rehearse(channel: Channel) -> Channel:
        seen.append(_Rehearsal(channel, not job.survive))
        return seen[-1]

    trial = clone(estimator)
    if isinstance(trial, PrivateFit):
        trial.set_params(ledger=None, dataset=None)
    with warnings.catch_warnings(), interpose(rehearse), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        # invented rows may end a fit early; what was asked for until then counts
        try:
            trial.fit(rows.X) if rows.y is None else trial.fit(rows.X, rows.y)
        except TacitError as error:
            failure = error
        except (_EnoughError, ArithmeticError, ValueError):
            pass
    asked = sum((one.asked for one in seen), Counter())
    return dict(asked), next((one.plan for one in seen if one.plan is not None), None), None if asked else failure


def _invented(job: Job, estimator: Estimator, kind: str | None) -> PartyData:
    """Return random rows with the job's columns: no row of anybody."""
    generator, columns = np.random.default_rng(0), len(job.features)
    if kind == RATINGS:
        from scipy.sparse import csr_array

        low, high = getattr(estimator, "rating_range", None) or (1, 5)
        shown = generator.random((REHEARSED_ROWS, columns)) < min(1.0, max(0.3, 5 / max(columns, 1)))
        shown[0, :] = True  # every item is rated by somebody
        values = generator.integers(math.ceil(low), math.floor(high) + 1, size=shown.shape)
        return PartyData(csr_array(np.where(shown, np.maximum(values, 1), 0).astype(float)))
    if kind == RECORDS:
        import polars as pl

        cells = {
            name: spec.values(generator.integers(0, spec.n_cells, REHEARSED_ROWS), generator.random(REHEARSED_ROWS))
            for name, spec in estimator.schema.columns.items()
        }
        units = {name: np.arange(REHEARSED_ROWS) for name in job.features if name not in cells}
        return PartyData(pl.DataFrame({**cells, **units}))
    X = generator.gamma(1.0, size=(REHEARSED_ROWS, columns))
    return PartyData(X, generator.normal(size=REHEARSED_ROWS) if job.target else None)
