"""Extrapolation of alternating minimisation: start a sweep a little further along the last move, and take it back if it failed.

References
----------
A. M. S. Ang, N. Gillis, "Accelerating nonnegative matrix factorization algorithms using extrapolation", Neural Computation
31(2), 2019.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Extrapolation:
    """How far ahead of T a sweep starts, as a fraction of T's last move: it grows while that works and is cut when it fails.

    It starts small: a long lead in the first sweeps, when T moves most, ended in worse optima.
    """

    fraction: float = 0.1
    most: float = 1.0
    growth: float = 1.2
    growth_of_most: float = 1.01
    cut: float = 1.5

    def worked(self) -> None:
        """Go a little further next time."""
        self.fraction = min(self.most, self.growth * self.fraction)
        self.most = min(1.0, self.growth_of_most * self.most)

    def failed(self) -> None:
        """Go less far, and do not return soon to the fraction that failed."""
        self.most, self.fraction = self.fraction, self.fraction / self.cut
