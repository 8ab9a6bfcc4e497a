"""What one attack showed: a lower bound with its confidence, and whether it disproves the claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REPLAY = "replay"
WHITE_BOX = "white box"
ONE_RUN = "one run"
MANY_RUNS = "many runs"
MEMBERSHIP = "membership"
ATTRIBUTES = "attributes"
PRESENCE = "presence"


def rounded_down(bound: float) -> str:
    """Return a lower bound with three decimals, never above it."""
    return f"{math.floor(bound * 1000) / 1000:.3f}"


@dataclass(frozen=True)
class Finding:
    """The outcome of one attack.

    Attributes
    ----------
    method : str
        "replay", "white box", "one run", "many runs", "membership", "attributes" or "presence".
    target : str
        What was attacked, in words.
    epsilon : float or None
        Lower bound on epsilon at the claimed delta; None if the attack gives none.
    confidence : float
        Probability with which the bound holds.
    violation : str
        What contradicts the claim, in words; empty if nothing does.
    remark : str
        What limits the attack, in words.
    figures : mapping of str to number
        Further measurements.
    curve : list of (float, float)
        Points of the ROC curve: false-positive and true-positive rate.
    """

    method: str
    target: str
    epsilon: float | None
    confidence: float
    violation: str = ""
    remark: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {**vars(self), "figures": dict(self.figures), "curve": [list(point) for point in self.curve]}
        if not self.curve:
            del values["curve"]
        return values

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_dict` wrote."""
        curve = tuple((float(false), float(true)) for false, true in values.get("curve", ()))
        return Finding(**{**values, "curve": curve})
