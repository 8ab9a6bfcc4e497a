"""A non-negative factorisation with privacy beside one without, measured on rows that neither saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.data.split import check_fraction, held_out_by_seed, held_out_rows
from tacit.factor import NMF, PrivateNMF
from tacit.measure import held_out_error, match_topics, top_words, topic_coherence
from tacit.privacy.vocabulary import PaidVocabulary
from tacit.report.figures import curves, image_rows
from tacit.report.page import Report
from tacit.report.result import FitResult
from tacit.validation import check_epsilon

SWEEPS_SHOWN = 10


@dataclass(frozen=True, eq=False)
class NMFComparison(FitResult):
    """What `compare_nmf` found.

    Attributes
    ----------
    model : PrivateNMF or NMF
        The one to use: private if an epsilon was given.
    plain : NMF
        The fit without privacy.
    measures : dict of str to float
    curves : dict of str to list of float
        Error on held-out rows after every sweep without privacy, and after every private round.
    guarantee : Guarantee
        Of `model`.
    n_rows : int
        Rows that were fitted.
    terms : sequence of str or None
        Names of the columns.
    image_shape : tuple of int or None
    """

    title = "Non-negative factorisation"
    model_name = "nmf"

    model: Any
    plain: NMF
    measures: dict[str, float]
    curves: dict[str, list[float]]
    n_rows: int
    terms: Sequence[str] | None = None
    image_shape: tuple[int, int] | None = None

    @property
    def is_private(self) -> bool:
        """Whether `model` is another one than the fit without privacy."""
        return self.model is not self.plain

    def values(self) -> dict[str, Any]:
        """Return measures, topics and curves as plain values."""
        settings = {name: getattr(self.model, name) for name in ("n_components", "outliers", "random_state")}
        if self.is_private:
            settings |= {name: getattr(self.model, name) for name in ("epsilon", "delta", "method")}
        found: dict[str, Any] = {
            "rows": self.n_rows,
            "columns": int(self.model.components_.shape[1]),
            "measures": self.measures,
            "settings": settings,
            "held_out_curves": self.curves,
        }
        if self.terms is not None:
            found["top_words"] = top_words(self.model.components_, self.terms)
        return found

    def lines(self) -> list[str]:
        """Return the measures, one per line."""
        return [f"{name}: {value:.4f}" for name, value in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add measures, topics or parts, and learning curves."""
        report.table(
            "Measures", ["measure", "value"], [[name, f"{value:.4f}"] for name, value in self.measures.items()]
        )
        dictionaries = {"fitted": self.model.components_}
        if self.is_private:
            order = match_topics(self.model.components_, self.plain.components_).permutation
            dictionaries = {"private": self.model.components_, "without privacy": self.plain.components_[order]}
        if self.terms is not None:
            listed = [top_words(components, self.terms) for components in dictionaries.values()]
            rows = [
                [str(place + 1), *(" ".join(topic) for topic in topics)]
                for place, topics in enumerate(zip(*listed, strict=True))
            ]
            report.table("Topics", ["topic", *dictionaries], rows)
        if self.image_shape is not None:
            caption = "Each row of the dictionary as an image; those without privacy are matched to the private ones."
            report.figure("Parts", image_rows(dictionaries, self.image_shape), caption)
        report.figure(
            "Learning curve",
            curves({"without privacy": list(self.plain.loss_curve_)}, step_name="sweep", value_name="objective"),
            "Objective of the fit without privacy on the rows it is fitted to. The private fit makes a fixed number of "
            "releases and does not look at its loss.",
        )
        if self.curves:
            report.figure(
                "Learning curves on held-out rows",
                curves(self.curves, step_name="sweep, or private round", value_name="error on held-out rows"),
                "Both are measured on the rows that were held out of both fits. A dictionary from moments is computed in "
                "one step, so its line is level.",
            )


def compare_nmf(
    X: Any,
    n_components: int,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    method: str = "moments",
    outliers: float | None = None,
    row_norm: float = 1.0,
    held_out: float = 0.1,
    terms: Sequence[str] | None = None,
    counts: Any = None,
    image_shape: tuple[int, int] | None = None,
    assumptions: Sequence[str] = (),
    vocabulary: PaidVocabulary | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> NMFComparison:
    """Fit a non-negative factorisation with and without privacy, and measure both on held-out rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
        Not negative.
    n_components : int
    epsilon : float, optional
        Total privacy loss of the private fit; without it there is no private fit.
    delta, method, outliers, row_norm
        See `tacit.PrivateNMF`.
    held_out : float, default=0.1
        Fraction of the rows to hold out of both fits. With an `epsilon`, each row is held out or kept by itself, under a
        secret key (`tacit.data.split`); otherwise by `random_state`.
    terms : sequence of str, optional
        Names of the columns: public. The report then lists the first words of each topic.
    counts : CSR matrix, optional
        Term counts of the rows, for coherence.
    image_shape : tuple of int, optional
        Draw the dictionary's rows as images of this shape.
    assumptions : sequence of str
        What must be public for the guarantee to hold; the guarantee lists it.
    vocabulary : PaidVocabulary, optional
        Where the columns were paid for: the fit spends what they left of the budget, and the guarantee counts both.
    ledger, dataset
        See `tacit.PrivateNMF`.
    random_state : int, default=0
        Seed of the start and, without `epsilon`, of the split.
    progress : callable, optional
        Called with the name of each stage.

    Returns
    -------
    NMFComparison
        Measures and curves are computed without noise, and are for the holder of the data.

    Examples
    --------
    >>> from tacit.data import make_images
    >>> from tacit.report import compare_nmf
    >>> found = compare_nmf(make_images(2000, side=6, n_parts=3).images, 3, epsilon=4.0, row_norm=1.5)
    >>> bool(found.measures["held-out error"] < 3 * found.measures["held-out error without privacy"])
    True
    """
    say = progress or (lambda stage: None)
    if epsilon is not None:
        check_epsilon(epsilon)
    check_fraction(held_out)
    if epsilon is None:
        out = held_out_by_seed(X.shape[0], fraction=held_out, random_state=random_state)
    else:
        out = held_out_rows(X, fraction=held_out)
    train, test = X[~out], X[out]
    settings: dict[str, Any] = {
        "n_components": n_components,
        "outliers": outliers,
        "random_state": random_state,
    }
    say("fitting without privacy, to compare")
    plain = NMF(**settings).fit(train)
    measures = _measures(plain, test, counts)
    if epsilon is None:
        return NMFComparison(plain, plain, measures, {}, int(train.shape[0]), terms, image_shape)
    # everything that can fail has been tried on the fit without privacy before the private one is charged
    plain_curve = _sweep_errors(train, test, settings)
    private: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "method": method, "row_norm": row_norm}
    if vocabulary is not None and vocabulary.rest is not None:
        private |= vars(vocabulary.rest)
    say("fitting with privacy")
    model = PrivateNMF(**settings, **private, ledger=ledger, dataset=dataset).fit(train)
    model.extend_guarantee(*assumptions, earlier=vocabulary)
    say("measuring")
    both: dict[str, float] = {}
    for name, value in _measures(model, test, counts).items():
        both |= {name: value, f"{name} without privacy": measures[name]}
    similarity = match_topics(plain.components_, model.components_).mean_similarity
    both["similarity to the fit without privacy"] = float(similarity)
    found = {"without privacy": plain_curve, "private": _round_errors(model, test)} if test.shape[0] else {}
    return NMFComparison(model, plain, both, found, int(train.shape[0]), terms, image_shape)


def _measures(model: Any, test: Any, counts: Any) -> dict[str, float]:
    found = {}
    if test.shape[0]:
        found["held-out error"] = float(held_out_error(test, model.components_))
    if counts is not None:
        for measure in ("c_npmi", "u_mass"):
            found[measure] = float(topic_coherence(model.components_, counts, measure=measure).mean())
    return found


def _sweep_errors(train: Any, test: Any, settings: dict[str, Any]) -> list[float]:
    """Return the error on held-out rows after each of the first sweeps of the fit without privacy."""
    if not test.shape[0]:
        return []
    fits = (NMF(**settings, max_iter=sweeps, tol=0).fit(train) for sweeps in range(1, SWEEPS_SHOWN + 1))
    return [float(held_out_error(test, fit.components_)) for fit in fits]


def _round_errors(model: PrivateNMF, test: Any) -> list[float]:
    """Return the error on held-out rows after each private round; the rounds' dictionaries follow from what was released."""
    path = getattr(model, "components_by_round_", None)
    if path is None:
        return [float(held_out_error(test, model.components_))] * SWEEPS_SHOWN
    return [float(held_out_error(test, components)) for components in path]
