"""A program: an algorithm from one holder's view, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.channel.asks import Ask
from tacit.errors import Undisclosed


@dataclass(frozen=True, repr=False)
class Outcome(Undisclosed):
    """What a program returns.

    Parameters
    ----------
    public : mapping
        What was learned from totals alone: the same for every holder, and free to be released as far as the channel's
        guarantee goes.
    private : mapping
        What depends on this holder's records in other ways (its rows' factors, its loss). It stays with the holder.
    channel : Channel
        Set by `run`: the channel that the program ran over, and so what was earned. Among parties it is not the one that the
        caller gave.
    """

    public: Mapping[str, Any]
    private: Mapping[str, Any] = field(default_factory=dict)
    channel: Any = field(default=None, compare=False, repr=False)


Program = Generator[Ask, Any, Outcome]
"""Yields a `Sum`, `NormedSum`, `Sample` or `Choose`; receives a `Total`, a mask or an index; returns an `Outcome`."""
