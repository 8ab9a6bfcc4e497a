"""A verdict on a release, in words that need no knowledge of statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.measure.attacks import AttackResult, Linkage, Reconstruction
from tacit.measure.classifiers import PanelScore

# Thresholds of the verdict, set by hand. From this fraction of rows linked, or of variance recovered, a release hides little.
_LINKED, _RECOVERED = 0.1, 0.5
# Up to these losses of AUC, or fractions of rows in another cluster, the use is kept, or partly kept.
_KEPT, _PARTLY = 0.02, 0.1
# Up to this AUC, nothing was learned (0.5 is chance).
_CHANCE = 0.55
NO_PROOF = "Attacks that find nothing prove nothing, and this release has no guarantee that tacit could check."


def verdict(
    clustering_accuracy: float | None,
    panel: Sequence[PanelScore],
    attacks: Sequence[AttackResult],
    *,
    n_missed: int = 0,
) -> str:
    """Return what a release keeps and what it leaks; the strongest attack is named.

    Parameters
    ----------
    clustering_accuracy : float or None
        Fraction of rows that stay in their cluster, the measure of use if there is no panel. None if it is not known.
    panel : sequence of PanelScore
        The scores of classifiers.
    attacks : sequence of Finding
        The results of attacks.
    n_missed : int
        Number of attacks that could not be run on this table.

    Returns
    -------
    str
        One sentence about the release, and one about what this does not prove.
    """
    if panel:
        before = float(np.mean([score.auc_original for score in panel]))
        after = float(np.mean([score.auc for score in panel]))
        loss, use = before - after, f"mean AUC {after:.3f} where the original has {before:.3f}"
    elif clustering_accuracy is None:
        return (
            f"The use of the release could not be measured on this table; it {_privacy(attacks, n_missed)}. {NO_PROOF}"
        )
    else:
        loss, use = 1 - clustering_accuracy, f"{clustering_accuracy:.1%} of the rows stay in their cluster"
    if panel and before <= _CHANCE:
        kept = "has no use to keep: its classes cannot be learned from the original either"
        return f"The release {kept} ({use}, and 0.5 is chance); it {_privacy(attacks, n_missed)}. {NO_PROOF}"
    kept = "keeps its use" if loss <= _KEPT else "keeps part of its use" if loss <= _PARTLY else "loses much of its use"
    return f"The release {kept} ({use}) and {_privacy(attacks, n_missed)}. {NO_PROOF}"


def _privacy(attacks: Sequence[AttackResult], n_missed: int) -> str:
    leaking = [finding for finding in attacks if finding.leaks]
    if not attacks:
        return "was not attacked: no attack could be run on this table"
    if not leaking:
        could = "the one attack" if len(attacks) == 1 else f"any of the {len(attacks)} attacks"
        any_attack = f"{could} that could be run" if n_missed else "any attack here"
        return f"gave nothing beyond chance to {any_attack}"
    serious = [finding for finding in leaking if _is_serious(finding)]
    strongest = max(serious or leaking, key=_strength)
    degree = "hides little" if serious else "leaks"
    return f"{degree}: {_in_words(strongest)}"


def _is_serious(finding: AttackResult) -> bool:
    if isinstance(finding, Linkage):
        return finding.recovered >= _LINKED
    return isinstance(finding, Reconstruction) and finding.recovered >= _RECOVERED


def _strength(finding: AttackResult) -> float:
    """Return the gain over the baseline, as a fraction of the largest possible gain."""
    return (finding.recovered - finding.baseline) / max(1 - finding.baseline, 1e-12)


def _in_words(finding: AttackResult) -> str:
    if isinstance(finding, Linkage):
        return (
            f"{finding.attack} finds {finding.recovered:.1%} of the rows, where guessing finds {finding.baseline:.2%}"
        )
    if isinstance(finding, Reconstruction):
        return f"{finding.attack} recovers {max(finding.recovered, 0):.0%} of the variance of the original values"
    return f"{finding.attack} has {finding.measure} {finding.recovered:.3f}, without the release {finding.baseline:.3f}"
