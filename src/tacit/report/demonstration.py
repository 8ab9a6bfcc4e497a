"""A private fit of embedded images, from the plan to the report, compared with the truth."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit.data import make_images
from tacit.errors import PrivacyWarning
from tacit.factor.arrays import SomeFloats
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.private import PrivateNMF
from tacit.measure import match_topics
from tacit.privacy import Ledger, fingerprint, gaussian_noise_multiplier
from tacit.privacy.ledger.book import Remaining
from tacit.privacy.rounding import exact, rounded_down, rounded_up
from tacit.report.figures import frontier, image_rows
from tacit.report.page import Report
from tacit.report.result import FitResult

SIDE, N_PARTS, ROW_NORM = 12, 8, 1.5
"""Size of the images, number of parts, and public bound on the norm of an image. Set by hand, on images with other seeds."""
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""The epsilons of the figure."""
SYNTHETIC = (
    "Embedded images, one per person, that are sums of a few parts. The images are synthetic. With real ones the true parts are "
    "unknown, and everything except the folder model/ would be for the holder only."
)


@dataclass(frozen=True, eq=False)
class Demonstration(FitResult):
    """The result of `demonstrate`.

    Attributes
    ----------
    model : PrivateNMF
    parts : dict of str to ndarray
        The true parts, the private ones and those without privacy, in the same order.
    measures : dict of str to float
        Mean cosine similarity of the fitted parts to the true ones.
    curves : dict of float to float
        The same by epsilon, with privacy.
    guarantee : Guarantee
        That of `model`.
    left : Remaining
        The remaining budget in the ledger.
    ledger_entries : int
    noise_multiplier : float
        That of one noisy sum with this budget.
    n_images : int
    image_shape : tuple of int
    """

    title = "tacit demonstration"
    model_name = "nmf"

    model: PrivateNMF
    parts: dict[str, SomeFloats]
    measures: dict[str, float]
    curves: dict[float, float]
    left: Remaining
    ledger_entries: int
    noise_multiplier: float
    n_images: int
    image_shape: tuple[int, int]

    @property
    def notice(self) -> str:
        """What the images are, and who the page is for."""
        return SYNTHETIC

    def values(self) -> dict[str, object]:
        """Return similarities and the remaining budget as plain values."""
        return {
            "noise_multiplier_of_one_sum": self.noise_multiplier,
            "images": self.n_images,
            "similarity_to_the_true_parts": {
                name.replace(" ", "_"): similarity for name, similarity in self.measures.items()
            },
            "similarity_by_epsilon": {str(epsilon): similarity for epsilon, similarity in self.curves.items()},
            "budget_left": self.left.epsilon,
            "ledger_entries": self.ledger_entries,
        }

    def lines(self) -> list[str]:
        """Return the similarities and the remaining budget."""
        return [
            f"The mean cosine of the {N_PARTS} private parts with the true ones is {self.measures['private']:.3f}; without "
            f"privacy it is {self.measures['without privacy']:.3f}.",
            f"Of the budget of epsilon {exact(2 * self.model.epsilon)} for these images, {rounded_down(self.left.epsilon)} is "
            "left in the ledger.",
        ]

    def draw(self, report: Report) -> None:
        """Add the parts, the cost of privacy, and the ledger."""
        caption = "The true parts of the images, and the fitted ones, in the same order."
        report.figure("Parts", image_rows(self.parts, self.image_shape), caption)
        report.figure(
            "What privacy costs",
            frontier(
                list(self.curves),
                list(self.curves.values()),
                reference=self.measures["without privacy"],
                value_name="similarity to the true parts",
                reference_name="without privacy",
            ),
            "Mean cosine of the private parts with the true ones, on new images at each epsilon.",
        )
        left = self.left
        rows = [
            ["spent", rounded_up(left.spent)],
            ["left", rounded_down(left.epsilon)],
            ["delta", exact(left.delta)],
        ]
        report.table("The ledger", ["epsilon", "value"], rows, "The account is named by the fingerprint of the images.")


def demonstrate(
    ledger: Ledger,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    n_images: int = 2000,
    progress: Callable[[str], None] | None = None,
) -> Demonstration:
    """Fit the parts of embedded images with privacy: plan, charge, release, guarantee, and the cost of privacy.

    Parameters
    ----------
    ledger : Ledger
        An account for the images, with twice the budget of the fit, is added to it.
    epsilon, delta : float
    n_images : int, default=2000
        Number of images, one per person.
    progress : callable, optional
        Called with the name of each stage.
    """
    say = progress or (lambda stage: None)
    say("making the embedded images")
    data = make_images(n_images, side=SIDE, n_parts=N_PARTS)
    say("calibrating the noise")
    multiplier = gaussian_noise_multiplier(epsilon, delta)
    say("opening an account in the ledger")
    dataset = fingerprint(data.images)
    ledger.open_account(dataset, 2 * epsilon, delta)
    say("releasing mean and covariance through the noisy channel, and factorising")
    settings: dict[str, Any] = {"delta": delta, "row_norm": ROW_NORM}
    model = PrivateNMF(N_PARTS, epsilon=epsilon, **settings, ledger=ledger).fit(data.images)
    plain = NMF(N_PARTS).fit(data.images)
    parts: dict[str, SomeFloats] = {"the truth": data.parts}
    measures: dict[str, float] = {}
    for name, components in (("private", model.components_), ("without privacy", plain.components_)):
        match = match_topics(data.parts, components)
        parts[name], measures[name] = components[match.permutation], match.mean_similarity
    say("measuring the cost of privacy at other epsilons")
    curve = {}
    for place, candidate in enumerate(EPSILONS):
        # images of other people each time: a second fit of the same ones would cost their budget
        other = make_images(n_images, side=SIDE, n_parts=N_PARTS, random_state=place + 1)
        with warnings.catch_warnings():  # the smallest epsilons are there to show where parts drown in noise
            warnings.simplefilter("ignore", PrivacyWarning)
            fitted = PrivateNMF(N_PARTS, epsilon=candidate, **settings).fit(other.images)
        curve[candidate] = match_topics(other.parts, fitted.components_).mean_similarity
    return Demonstration(
        model, parts, measures, curve, ledger.remaining(dataset), ledger.verify(), multiplier, n_images, data.shape
    )
