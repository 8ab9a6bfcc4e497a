"""The result of a KSDP measurement: p-values of documents, corrected for multiple tests, in words and as a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLAGGED, QUIET = "#b5651d", "#1f6f8b"


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's corrected p-values: rejecting those below a level has at most that probability of any wrong rejection."""
    flat = p_values.ravel()
    order = np.argsort(flat, kind="stable")
    stepped = np.maximum.accumulate((flat.size - np.arange(flat.size)) * flat[order])
    corrected = np.empty_like(flat)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected.reshape(p_values.shape)


@dataclass(frozen=True)
class KSDP:
    """P-values of Kolmogorov-Smirnov tests of "the document makes no difference to what is seen".

    Attributes
    ----------
    documents : tuple of int
        Rows of the table that were measured.
    statistics : tuple of str
    p_values : ndarray of shape (n_documents, n_statistics)
        Not corrected.
    samples : int
        Runs with each document, and runs without.
    size : int
        Rows of the holder in every run.
    holders : tuple of int
        Rows of the other honest holders.
    level : float
        Corrected p-values up to this are flagged.
    """

    documents: tuple[int, ...]
    statistics: tuple[str, ...]
    p_values: NDArray[np.float64]
    samples: int
    size: int
    holders: tuple[int, ...] = ()
    level: float = 0.05

    @property
    def pi(self) -> NDArray[np.float64]:
        """The smallest p-value of every document, smaller with every further statistic: pi of Algorithm 5 (line 11)."""
        smallest: NDArray[np.float64] = self.p_values.min(axis=1)
        return smallest

    @property
    def corrected(self) -> NDArray[np.float64]:
        """The smallest p-value of every document after Holm's correction for all documents and statistics."""
        smallest: NDArray[np.float64] = holm(self.p_values).min(axis=1)
        return smallest

    @property
    def flagged(self) -> tuple[int, ...]:
        """The documents whose presence shows."""
        return tuple(document for document, p in zip(self.documents, self.corrected, strict=True) if p <= self.level)

    @property
    def guarantee(self) -> Guarantee:
        """The measurement as a `Guarantee` that prints that there is none."""
        return Guarantee.measured(self._sentence())

    def _sentence(self) -> str:
        visible = f"{len(self.flagged)} of {len(self.documents)} documents"
        beside = f", with {len(self.holders)} other honest holders of {sum(self.holders)} rows" if self.holders else ""
        return (
            f"with {self.samples} runs each way on {self.size} rows{beside}, the presence of {visible} shows at level "
            f"{self.level:g} in one of {len(self.statistics)} statistics (Kolmogorov-Smirnov, corrected by Holm; "
            f"smallest corrected p-value {self.corrected.min():.3g}). Other statistics, more runs, or knowledge "
            "of the other rows may show more."
        )

    def __str__(self) -> str:
        lines = [str(self.guarantee)]
        for place in np.argsort(self.corrected, kind="stable")[:10]:
            best = self.statistics[int(self.p_values[place].argmin())]
            mark = "shows" if self.corrected[place] <= self.level else "-"
            lines.append(
                f"  document {self.documents[place]}: p {self.pi[place]:.3g}, "
                f"corrected {self.corrected[place]:.3g}, {mark} ({best})"
            )
        if len(self.documents) > 10:
            lines.append(f"  and {len(self.documents) - 10} more")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "documents": [
                {
                    "document": document,
                    "p": float(p),
                    "corrected": float(corrected),
                    "shows": bool(corrected <= self.level),
                }
                for document, p, corrected in zip(self.documents, self.pi, self.corrected, strict=True)
            ],
            "flagged": list(self.flagged),
            "statistics": list(self.statistics),
            "p_values": self.p_values.tolist(),
            "samples": self.samples,
            "size": self.size,
            "holders": list(self.holders),
            "level": self.level,
        }

    def figure(self) -> Figure:
        """Draw the documents' smallest p-values in order, and those expected of documents that make no difference."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6))
        axis = figure.subplots()
        order = np.argsort(self.pi, kind="stable")
        places = (np.arange(len(order)) + 1) / (len(order) + 1)
        colours = [FLAGGED if self.corrected[place] <= self.level else QUIET for place in order]
        axis.scatter(places, np.maximum(self.pi[order], 1e-300), c=colours, s=18, zorder=3)
        # the smallest of m independent uniform p-values has the quantile function 1 - (1 - u)^(1/m)
        expected = 1 - (1 - places) ** (1 / len(self.statistics))
        axis.plot(places, expected, color="#6b7280", linestyle="--", label="if no document made a difference")
        for colour, name in ((FLAGGED, "shows after correction"), (QUIET, "does not show")):
            axis.scatter([], [], c=colour, s=18, label=name)
        axis.set_yscale("log")
        axis.set_xlabel("documents, the most sensitive first")
        axis.set_ylabel("smallest p-value")
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
        return figure
