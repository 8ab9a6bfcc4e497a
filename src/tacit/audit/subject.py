"""What is audited: an estimator with its settings and its data, fitted anew as often as an attack needs."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from tacit.audit.trajectory import World, recorded
from tacit.audit.units import Units
from tacit.channel import Channel
from tacit.channel.noisy import Noisy
from tacit.channel.plan import Plan
from tacit.errors import InvalidInputError, PrivacyViolationError, Undisclosed, kind_of
from tacit.estimators.base import Estimator
from tacit.privacy.accountant import Accountant
from tacit.privacy.ledger.store import canonical_json

Plant = Callable[[Noisy], None]
Model = TypeVar("Model", bound=Estimator)
"""Changes a channel before its run, as a bug would (see `tacit.audit.plants`)."""


@dataclass(frozen=True, repr=False)
class Subject(Undisclosed):
    """An estimator and its data.

    Attributes
    ----------
    estimator : estimator
        It is never fitted itself: every fit is one of a new object with its parameters, without a ledger.
    data : Units
    plant : callable or None
        A bug to plant in the channel of every fit, for tests of the audit.
    seed : int or None
        For tests of the audit: reproducible noise. None for the real noise.
    honest : Subject or None
        The subject without the bug, whose claims count.
    """

    estimator: Estimator
    data: Units
    plant: Plant | None = None
    seed: int | None = None
    honest: Subject | None = None
    _fits: list[int] = field(default_factory=lambda: [0])

    @staticmethod
    def of(estimator: Estimator, data: Units, *, plant: Plant | None = None, seed: int | None = None) -> Subject:
        """Return a subject; the estimator must be one of tacit's, with `get_params`."""
        if not hasattr(estimator, "get_params") or not hasattr(estimator, "fit"):
            raise InvalidInputError("an estimator of tacit", kind_of(estimator), "Give a model that is not fitted.")
        return Subject(estimator, data, plant, seed)

    def on(self, data: Units) -> Self:
        """Return the same subject on other data."""
        return replace(self, data=data)

    def fitted(self, data: Units) -> Estimator:
        """Fit a new object with the same parameters, and return it."""
        settings = dict(self.estimator.get_params(deep=False))
        settings |= {name: None for name in ("ledger", "dataset", "insecure_seed") if name in settings}
        settings |= {"verbose": False} if "verbose" in settings else {}
        if self.seed is not None and "insecure_seed" in settings:
            self._fits[0] += 1
            settings["insecure_seed"] = self.seed + self._fits[0]
        model = type(self.estimator)(**settings)
        if self.plant is not None:
            object.__setattr__(model, "_channel", _planted(model._channel, self.plant))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(*data.arguments())
        return model

    def released(self, data: Units) -> dict[str, Any]:
        """Fit, and return everything that would leave the holder, by name."""
        result = self.fitted(data)._result
        guarantee = json.dumps(result.guarantee.to_dict(), sort_keys=True)
        return {**result.values, "guarantee": guarantee}

    def is_private(self) -> bool:
        """Whether the settings promise a guarantee."""
        voided = getattr(self.estimator, "voided_by", None)
        return voided is not None and replace_seed(self.estimator).voided_by() is None

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of the noisy run; None if statistics leave without noise."""
        try:
            return recorded(self.fitted, World(self.data, False)).plan
        except PrivacyViolationError:
            return None

    @cached_property
    def claimed(self) -> tuple[float, float]:
        """The claim: the epsilon that was asked for (what the plan costs, where users have their own), and delta.

        A model that states no guarantee claims an infinite epsilon.
        """
        if self.honest is not None:
            return self.honest.claimed
        asked = getattr(self.estimator, "epsilon", math.inf)
        wanted = float(asked) if isinstance(asked, int | float) else math.inf
        delta = float(getattr(self.estimator, "delta", 1e-6))
        if self.plan is None:
            return math.inf, delta
        return wanted if math.isfinite(wanted) else self.plan.guarantee().epsilon, self.plan.delta

    def claimed_at(self, delta: float) -> float:
        """Return the epsilon that the plan costs at another delta."""
        if self.honest is not None:
            return self.honest.claimed_at(delta)
        if self.plan is None:
            return math.inf
        return Accountant(self.plan.adjacency, self.plan.guarantee().releases).epsilon(delta)

    def with_bug(self, plant: Plant) -> Subject:
        """Return the subject with a bug in its channel; the claims stay."""
        return Subject(self.estimator, self.data, plant, self.seed, self)

    @property
    def is_full_batch(self) -> bool:
        """Whether all noisy sums are over all units, so that the run is exactly Gaussian differential privacy."""
        plan = self.plan
        return plan is not None and not plan.choices and all(step.sampling_rate == 1 for step in plan.steps)

    @cached_property
    def settings(self) -> dict[str, object]:
        """The public parameters, as text where JSON has no form for them."""
        public = self.estimator._public_parameters() if hasattr(self.estimator, "_public_parameters") else {}
        return {name: _plain(value) for name, value in sorted(public.items())}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model, its public parameters and its plan. It holds nothing of the data."""
        plan = None if self.plan is None else {name: _plain(value) for name, value in vars(self.plan).items()}
        known = {"model": type(self.estimator).__name__, "settings": self.settings, "plan": plan}
        return f"sha256:{hashlib.sha256(canonical_json(known).encode('ascii')).hexdigest()}"

    def smaller(self, most: int, random: np.random.Generator) -> Self:
        """Return the subject on at most this many random units: neither bounds nor noise depend on their number."""
        if self.data.count <= most:
            return self
        places = np.sort(random.choice(self.data.count, size=most, replace=False))
        return self.on(self.data.take(places))


def replace_seed(estimator: Model) -> Model:
    """Return the estimator with its own settings, but without a fixed seed of the noise."""
    settings = dict(estimator.get_params(deep=False))
    if "insecure_seed" in settings:
        settings["insecure_seed"] = None
    return type(estimator)(**settings)


def _planted(make: Callable[..., Channel], plant: Plant) -> Callable[..., Channel]:
    def changed(*arguments: object) -> Channel:
        channel = make(*arguments)
        if isinstance(channel, Noisy):
            plant(channel)
        return channel

    return changed


def _plain(value: object) -> object:
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and len(value) <= 64:
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray | list | tuple):
        content = hashlib.sha256(repr(np.asarray(value).tolist()).encode()).hexdigest()
        return f"{type(value).__name__} {np.shape(value)} {content[:16]}"
    return str(value) if hasattr(value, "weight") or hasattr(value, "to_dict") else type(value).__name__
