"""What releases of low rank share: a rank of at least 1 and at most full, whole or between two whole ones."""

from __future__ import annotations

from typing import Any

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.base import public
from tacit.perturb.base import Release, Rows
from tacit.perturb.search import Range
from tacit.validation import check_positive


class LowRank(Release):
    """Base of the two: their setting is the rank."""

    _level_name = "rank"

    rank: float | None = public(default=None, kw_only=False)

    def _settings(self, rows: Rows) -> Range:
        return Range(float(min(rows.shape)), 1.0)

    def _check_level(self, value: Any) -> float:
        rank = check_positive(value, "rank")
        if rank < 1:
            raise InvalidInputError("rank to be at least 1", parameter(value), "Rank 1 changes a table most.")
        return rank

    def _check_rank(self, rows: Rows) -> None:
        rank = self._asked()
        if rank is not None and rank > min(rows.shape):
            raise InvalidInputError(
                f"rank of at most {min(rows.shape)}, the number of rows or columns",
                words(f"{rank:g}"),
                "Ask for a lower rank.",
            )
