"""A non-negative factorisation with privacy and one without, measured on held-out rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.split import check_fraction, held_out_by_seed, held_out_rows
from tacit.estimators.input import Rows
from tacit.estimators.verdict import Concern, about_columns, about_components, not_better_than
from tacit.factor.nmf.choose_rank import choose_rank
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.private import PrivateNMF
from tacit.measure import held_out_error, match_topics, top_words, topic_coherence
from tacit.privacy.ledger.spending import account_of
from tacit.privacy.vocabulary import PaidVocabulary
from tacit.report.figures import curves, image_rows, word_bars
from tacit.report.page import HOLDER_ONLY, Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, nmf_frontier
from tacit.validation import check_epsilon

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.privacy.ledger import Ledger

SWEEPS_SHOWN = 10
"""Number of sweeps in the learning curve."""
FLAT_ERROR = "held-out error of a constant row"


IN_WORDS = {
    "c_npmi": "topic coherence (NPMI)",
    "c_v": "topic coherence (C_V)",
    "u_mass": "topic coherence (UMass)",
}
"""Measures by the names in pages."""
ABOUT_MEASURES = (
    "The held-out error is half the mean squared distance of held-out rows from the dictionary. Topic coherence: do the words of "
    "a topic occur in the same texts? NPMI is 1 if always and 0 if by chance; UMass is better the nearer it is to 0."
)


@dataclass(frozen=True, eq=False)
class NMFComparison(FitResult):
    """The result of `compare_nmf`.

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
        That of `model`.
    n_rows : int
        Number of fitted rows.
    terms : sequence of str or None
        Names of the columns.
    image_shape : tuple of int or None
    data_concerns : tuple of Concern
        Concerns about the rows themselves.
    rank_errors : dict of int to float or None
        Where a rank was chosen: error of the fit without privacy on held-out rows, by rank.
    frontier : Frontier or None
        Error against epsilon on synthetic rows.
    """

    title = "Non-negative factorisation"
    model_name = "nmf"

    model: PrivateNMF | NMF
    plain: NMF
    measures: dict[str, float]
    curves: dict[str, list[float]]
    n_rows: int
    terms: Sequence[str] | None = None
    image_shape: tuple[int, int] | None = None
    data_concerns: tuple[Concern, ...] = ()
    rank_errors: dict[int, float] | None = None
    frontier: Frontier | None = None

    @property
    def n_units(self) -> int:
        """The number of fitted rows."""
        return self.n_rows

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the data, the error and the components."""
        concerns = [*super().concerns, *self.data_concerns, *about_components(self.model.components_)]
        if FLAT_ERROR in self.measures:
            error, flat = self.measures["held-out error"], self.measures[FLAT_ERROR]
            concerns += not_better_than("a constant row, which costs no privacy", error, flat, measure="held-out error")
        return concerns

    @property
    def is_private(self) -> bool:
        """Whether `model` is a private fit."""
        return self.model is not self.plain

    def values(self) -> dict[str, object]:
        """Return measures, topics and curves as plain values."""
        settings = {name: getattr(self.model, name) for name in ("n_components", "outliers", "random_state")}
        if self.is_private:
            settings |= {name: getattr(self.model, name) for name in ("epsilon", "delta", "method", "row_norm")}
        values: dict[str, object] = {
            "rows": self.n_rows,
            "columns": int(self.model.components_.shape[1]),
            "measures": self.measures,
            "settings": settings,
            "held_out_curves": self.curves,
        }
        if self.rank_errors is not None:
            values["held_out_error_by_rank_without_privacy"] = {
                str(rank): one for rank, one in self.rank_errors.items()
            }
        if self.frontier is not None:
            values["frontier_on_synthetic_rows"] = self.frontier.values()
        if self.terms is not None:
            values["top_words"] = top_words(self.model.components_, self.terms)
        return values

    def lines(self) -> list[str]:
        """Return the measures, one per line."""
        chosen = [] if self.rank_errors is None else [f"rank chosen: {self.model.n_components}"]
        return chosen + [f"{in_words(name)}: {value:.4f}" for name, value in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add measures, topics or parts, and learning curves."""
        report.table(
            f"Measures ({HOLDER_ONLY})",
            ["measure", "value"],
            [[in_words(name), f"{value:.4f}"] for name, value in self.measures.items()],
            note=ABOUT_MEASURES,
        )
        if self.rank_errors is not None:
            figure = curves(
                {"without privacy": list(self.rank_errors.values())}, step_name="", value_name="error on held-out rows"
            )
            figure.axes[0].set_xticks(range(1, len(self.rank_errors) + 1), [str(rank) for rank in self.rank_errors])
            figure.axes[0].set_xlabel("number of components")
            report.figure(
                "Number of components", figure, f"{self.model.n_components} was chosen. The curve is without privacy."
            )
        if self.frontier is not None:
            self.frontier.draw(report)
        dictionaries = {"fitted": self.model.components_}
        if self.is_private:
            order = match_topics(self.model.components_, self.plain.components_).permutation
            dictionaries = {"private": self.model.components_, "without privacy": self.plain.components_[order]}
        if self.terms is not None:
            caption = "The heaviest words of each topic; bars are fractions of the topic's largest weight."
            if self.is_private:
                caption += " Topics without privacy are matched to the private ones."
            report.figure("Topics", word_bars(dictionaries, self.terms, next(iter(dictionaries))), caption)
            listed = [top_words(components, self.terms) for components in dictionaries.values()]
            rows = [
                [str(place + 1), *(" ".join(topic) for topic in topics)]
                for place, topics in enumerate(zip(*listed, strict=True))
            ]
            report.table("Words of the topics", ["topic", *dictionaries], rows)
        if self.image_shape is not None:
            caption = "Each row of the dictionary as an image; those without privacy are matched to the private ones."
            report.figure("Parts", image_rows(dictionaries, self.image_shape), caption)
        if not self.curves:
            report.figure(
                "Learning curve",
                curves({"without privacy": list(self.plain.loss_curve_)}, step_name="sweep", value_name="objective"),
                "Objective of the fit without privacy on its rows.",
            )
        else:
            report.figure(
                f"Learning curves on held-out rows ({HOLDER_ONLY})",
                curves(self.curves, step_name="sweep, or private round", value_name="error on held-out rows"),
                "Both are measured on rows that were held out of both fits. A dictionary from moments is computed in one step, "
                "so its line is horizontal.",
            )


def in_words(name: str) -> str:
    """Return what a measure is called in pages: the names of coherence measures say little."""
    for short, long in IN_WORDS.items():
        name = name.replace(short, long)
    return name


@concerns_in_the_result
def compare_nmf(
    X: Rows,
    n_components: int | Sequence[int],
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    method: str = "moments",
    outliers: float | None = None,
    row_norm: float = 1.0,
    held_out: float = 0.1,
    terms: Sequence[str] | None = None,
    counts: csr_array | None = None,
    image_shape: tuple[int, int] | None = None,
    assumptions: Sequence[str] = (),
    vocabulary: PaidVocabulary | None = None,
    frontier: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> NMFComparison:
    """Fit a non-negative factorisation with and without privacy, and measure both on held-out rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
        Not negative.
    n_components : int or sequence of int
        Of several numbers one is chosen (`tacit.choose_rank`); with an `epsilon` out of the same budget.
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
        A private vocabulary of the columns: the fit uses the rest of the budget, and the guarantee covers both.
    frontier : bool, default=False
        Also fit synthetic rows at several epsilons, to draw what privacy costs. They are made from the released
        dictionary, so this costs no privacy.
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
    >>> result = compare_nmf(make_images(2000, side=6, n_parts=3).images, 3, epsilon=4.0, row_norm=1.5)
    >>> bool(result.measures["held-out error"] < 3 * result.measures["held-out error without privacy"])
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
    ranks = None if isinstance(n_components, int) else list(n_components)
    settings: dict[str, Any] = {"outliers": outliers, "random_state": random_state}
    say("fitting without privacy, to compare")
    rank_errors = None
    if ranks is None:
        plain = NMF(n_components, **settings).fit(train)
    else:
        fits = {rank: NMF(rank, **settings).fit(train) for rank in ranks}
        rank_errors = (
            {rank: float(held_out_error(test, fit.components_)) for rank, fit in fits.items()} if test.shape[0] else {}
        )
        plain = fits[choose_rank(train, ranks, row_norm=row_norm, random_state=random_state).rank]
    seen = tuple(about_columns(train, terms))
    flat: dict[str, float] = {}
    if test.shape[0]:
        flat[FLAT_ERROR] = float(held_out_error(test, np.ones((1, X.shape[1]))))
    fitted: dict[str, Any] = {
        "n_rows": int(train.shape[0]),
        "terms": terms,
        "image_shape": image_shape,
        "data_concerns": seen,
    }
    if epsilon is None:
        return NMFComparison(plain, plain, _measures(plain, test, counts) | flat, {}, **fitted, rank_errors=rank_errors)
    private: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "method": method, "row_norm": row_norm}
    if vocabulary is not None and vocabulary.rest is not None:
        private |= vars(vocabulary.rest)
    private |= {"ledger": ledger, "dataset": account_of(ledger, dataset, X)}
    # everything that can fail has been tried on the fit without privacy before the private one is charged
    if ranks is None:
        plain_curve = _sweep_errors(train, test, plain.n_components, settings)
        say("fitting with privacy")
        model = PrivateNMF(n_components, **settings, **private).fit(train)
    else:
        say("fitting with privacy")
        model = choose_rank(train, ranks, **settings, **private).model
        plain = fits[model.n_components]
        plain_curve = _sweep_errors(train, test, plain.n_components, settings)
    model.extend_guarantee(*assumptions, earlier=vocabulary)
    keep_release(model, NMFComparison.model_name, terms if counts is not None else None)
    say("measuring")
    measures, both = _measures(plain, test, counts), dict[str, float]()
    for name, value in _measures(model, test, counts).items():
        both |= {name: value, f"{name} without privacy": measures[name]}
    similarity = match_topics(plain.components_, model.components_).mean_similarity
    both |= {**flat, "similarity to the fit without privacy": float(similarity)}
    both["fraction of rows clipped to the row norm"] = model.clipped_fraction_
    errors = {"without privacy": plain_curve, "private": _round_errors(model, test)} if test.shape[0] else {}
    drawn = nmf_frontier(model, int(train.shape[0])) if frontier else None
    return NMFComparison(model, plain, both, errors, **fitted, rank_errors=rank_errors, frontier=drawn)


def _measures(model: PrivateNMF | NMF, test: Rows, counts: csr_array | None) -> dict[str, float]:
    measures = {}
    if test.shape[0]:
        measures["held-out error"] = float(held_out_error(test, model.components_))
    if counts is not None:
        for measure in ("c_npmi", "c_v", "u_mass"):
            measures[measure] = float(topic_coherence(model.components_, counts, measure=measure).mean())
    return measures


def _sweep_errors(train: Rows, test: Rows, rank: int, settings: dict[str, Any]) -> list[float]:
    """Return the error on held-out rows after each of the first sweeps of the fit without privacy."""
    if not test.shape[0]:
        return []
    fits = (NMF(rank, **settings, max_iter=sweeps, tol=0).fit(train) for sweeps in range(1, SWEEPS_SHOWN + 1))
    return [float(held_out_error(test, fit.components_)) for fit in fits]


def _round_errors(model: PrivateNMF, test: Rows) -> list[float]:
    """Return the error on held-out rows after each private round; the dictionaries of all rounds are released."""
    path = getattr(model, "components_by_round_", None)
    if path is None:
        return [float(held_out_error(test, model.components_))] * SWEEPS_SHOWN
    return [float(held_out_error(test, components)) for components in path]
