"""Coupled relations with privacy, beside the fit without it and predictors that need no model, on held-out cells."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.split import check_fraction
from tacit.errors import InvalidInputError, words
from tacit.estimators.verdict import HOLDER, Concern, not_better_than, only_means
from tacit.factor.coupled.held_out import HeldOutCells, hold_out_by_key
from tacit.factor.coupled.plain.estimator import CoupledFactorization
from tacit.factor.coupled.private.estimator import PrivateCoupledFactorization
from tacit.factor.coupled.relation import Relation
from tacit.privacy.ledger.spending import account_of
from tacit.report.coupled import plain_parameters, top_entities
from tacit.report.figures import factor_maps, histogram
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, coupled_frontier
from tacit.validation import check_choice, check_epsilon

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

PRIVATE, SAME_METHOD, PLAIN = "private", "the same method without noise", "without privacy"
CONSTANT, OWN_MEAN = "constant", "an entity's own mean"
FREE = (CONSTANT, OWN_MEAN)
GIVEN = {"ranks", "epsilon", "delta", "ledger", "dataset", "insecure_seed", "random_state"}
"""Parameters of the private model that `compare_private_coupled` has itself."""


@dataclass(frozen=True, eq=False)
class PrivateCoupledComparison(FitResult):
    """The result of `compare_private_coupled`.

    Attributes
    ----------
    model : PrivateCoupledFactorization
        Fitted to the cells that are not held out.
    relations : list of Relation
    measures : dict of str to dict
        For each private relation, the scores on its held-out cells: of the private model, of the same method without noise,
        of `CoupledFactorization`, of the best constant, and of each entity's own mean.
    guarantee : Guarantee
        That of `model`.
    names : mapping of factor to names
    held_out : float
    cells_per_entity : ndarray of int
        Numbers of fitted cells, of the entities that have some.
    outside : float
        Fraction of the fitted cells whose value was clipped to `value_range`.
    frontier : Frontier or None
        RMSE against epsilon, on synthetic cells.
    source : dict of str to str
    """

    title = "Private coupled factorisation"
    model_name = "coupled"

    model: PrivateCoupledFactorization
    relations: Sequence[Relation]
    measures: dict[str, dict[str, dict[str, float]]]
    names: Mapping[str, Sequence[str]]
    held_out: float
    cells_per_entity: NDArray[np.int64]
    outside: float
    frontier: Frontier | None = None
    source: dict[str, str] = field(default_factory=dict)

    @property
    def n_units(self) -> int:
        """The number of fitted units: entities with cells, or cells."""
        return int(self.cells_per_entity.sum()) if self.model.unit == "cell" else len(self.cells_per_entity)

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the errors, the range of the values and the components."""
        concerns = super().concerns
        for name, scores in self.measures.items():
            trivial = min((one for one in FREE if one in scores), key=lambda one: scores[one]["rmse"])
            concerns += not_better_than(
                f"{'a constant' if trivial == CONSTANT else trivial} for the relation {name!r}",
                scores[PRIVATE]["rmse"],
                scores[trivial]["rmse"],
                measure="RMSE on held-out cells",
            )
        if self.outside:
            concerns.append(
                Concern(
                    f"{self.outside:.1%} of the values are outside the value range, and were clipped to it.",
                    "Give the public range of the values (--value-range), if there is a wider one.",
                    HOLDER,
                )
            )
        return concerns + only_means(self.model.n_components_)

    def values(self) -> dict[str, object]:
        """Return settings, scores, components and top entities as plain values."""
        settings = ("private", "unit", "protect", "method", "epsilon", "delta", "adjacency")
        values = {
            **self.source,
            "relations": {relation.name: repr(relation) for relation in self.relations},
            "settings": {name: getattr(self.model, name) for name in settings},
            "components": self.model.n_components_,
            "held_out": self.measures,
            "top": top_entities(self.model.factors_, self.names),
        }
        if self.frontier is not None:
            values["frontier_on_synthetic_cells"] = self.frontier.values()
        return values

    def lines(self) -> list[str]:
        """Return the scores."""
        return [
            f"{name}, {how}: " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items())
            for name, each in self.measures.items()
            for how, scores in each.items()
        ]

    def draw(self, report: Report) -> None:
        """Add relations, scores, the frontier, factors, top entities and the entities' contributions."""
        protected = self.model.private
        rows = [
            [
                relation.name,
                " x ".join(map(str, relation.shape)),
                relation.spec.text,
                ", ".join(relation.factors),
                "private" if protected in relation.factors else "public",
            ]
            for relation in self.relations
        ]
        report.table("Relations", ["relation", "shape", "einsum", "factors", "is"], rows)
        keys = ("rmse", "divergence", "auc")
        rows = [
            [name, how, *(f"{scores[key]:.4f}" if key in scores else "" for key in keys)]
            for name, each in self.measures.items()
            for how, scores in each.items()
        ]
        note = f"About {self.held_out:.0%} of the private relations' cells, each held out or kept under a secret key."
        report.table("Held-out cells", ["relation", "predicted by", "RMSE", "mean divergence", "AUC"], rows, note)
        if self.frontier is not None:
            self.frontier.draw(report)
        shown = {name: factor for name, factor in self.model.factors_.items() if factor.shape[-1]}
        if shown:
            report.figure(
                "Released factors",
                factor_maps(shown, self.names),
                "One row per entity, one column per component, each column scaled to its largest entry.",
            )
        for name, components in top_entities(self.model.factors_, self.names).items():
            if components:
                report.table(
                    f"Top of {name}",
                    ["component", "entities"],
                    [[str(place), ", ".join(top)] for place, top in enumerate(components)],
                )
        report.figure(
            "Contributions",
            histogram(self.cells_per_entity, value_name=f"cells of one {protected}"),
            "Numbers of fitted cells. Each unit's contribution to a released sum has a bounded norm, however many cells it has.",
        )


@concerns_in_the_result
def compare_private_coupled(
    relations: Sequence[Relation],
    ranks: int | Mapping[str, int],
    *,
    epsilon: float,
    delta: float = 1e-6,
    held_out: float = 0.1,
    names: Mapping[str, Sequence[str]] | None = None,
    plain: Mapping[str, Any] | None = None,
    frontier: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    source: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    **parameters: Any,
) -> PrivateCoupledComparison:
    """Fit coupled relations of one holder with privacy, and measure the model on held-out cells beside others.

    Parameters
    ----------
    relations : sequence of Relation
        Those with the protected factor are private, the others public. The sizes of the factors are public.
    ranks : int or mapping of str to int
    epsilon, delta : float
        Of the whole fit.
    held_out : float, default=0.1
        Fraction of the private relations' cells to hold out of all fits, each by its place under a secret key.
    names : mapping of factor to names, optional
        Public names of the entities.
    plain : mapping of str to object, optional
        Parameters of the `tacit.CoupledFactorization` without privacy, to compare.
    frontier : bool, default=False
        Also fit synthetic cells at several epsilons (``method="moments"``). They are drawn from what was released, so this
        costs no privacy.
    ledger, dataset
        See `tacit.PrivateCoupledFactorization`.
    random_state : int, default=0
        Seed of the starts. It protects nothing.
    source : dict of str to str, optional
    progress : callable, optional
        Called with the name of each stage.
    **parameters
        Further parameters of `tacit.PrivateCoupledFactorization`, such as `private` and `value_range`.

    Returns
    -------
    PrivateCoupledComparison
        Scores are computed without noise, and are for the holder of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import Relation
    >>> from tacit.data import make_ratings
    >>> from tacit.report import compare_private_coupled
    >>> data = make_ratings(600, 40, random_state=1)
    >>> cells = np.stack([data.users, data.items], axis=1)
    >>> known = {"observed": "stored", "divergence": "euclid", "name": "ratings"}
    >>> ratings = Relation((cells, data.ratings, (600, 40)), "ir,jr->ij", ("user", "film"), **known)
    >>> result = compare_private_coupled([ratings], 3, epsilon=5.0, value_range=(1, 5))
    >>> scores = result.measures["ratings"]
    >>> bool(scores["private"]["rmse"] < scores["constant"]["rmse"])
    True
    """
    say = progress or (lambda stage: None)
    check_private_settings(parameters)
    for name in plain or {}:
        check_choice(name, "a parameter", plain_parameters())
    check_epsilon(epsilon)
    check_fraction(held_out)
    settings = {"random_state": random_state, **parameters}
    model = PrivateCoupledFactorization(ranks, epsilon=epsilon, delta=delta, **settings, ledger=ledger, dataset=dataset)
    if ledger is not None:
        private = [one for one in relations if isinstance(one, Relation) and model.private in one.factors]
        known = tuple(part for relation in private for part in relation.known_cells())
        model.set_params(dataset=account_of(ledger, dataset, known))
    if model.adjacency == "replace-one" and model.unit == "cell":
        raise InvalidInputError(
            'adjacency="add-remove" with unit="cell" and held-out cells',
            words("replace-one: a cell that is replaced may come from the held-out part"),
            'Leave adjacency out, or protect the entity with all its cells (unit="user").',
        )
    if frontier and model.method != "moments":
        raise InvalidInputError(
            'method="moments" with a frontier', words("another method"), "Leave the frontier out, or change the method."
        )
    kept = {
        relation.name: hold_out_by_key(relation, held_out)
        for relation in relations
        if isinstance(relation, Relation) and model.private in relation.factors
    }
    train = [
        kept[relation.name].relation if isinstance(relation, Relation) and relation.name in kept else relation
        for relation in relations
    ]
    # everything that can fail is tried on the fits without noise, before the private one is charged
    say("fitting without noise, to compare")
    noiseless = PrivateCoupledFactorization(
        ranks, **{**settings, "epsilon": math.inf, "method": "moments" if model.method == "moments" else "sgld"}
    ).fit(train)
    say("fitting without privacy, to compare")
    compared = CoupledFactorization(ranks, **{"random_state": random_state, **(plain or {})}).fit(train)
    say("fitting with privacy")
    model.fit(train)
    keep_release(model, PrivateCoupledComparison.model_name)
    say("measuring")
    measures = {}
    for name, one in kept.items():
        if not len(one.values):
            continue
        models = {PRIVATE: model, SAME_METHOD: noiseless, PLAIN: compared}
        measures[name] = {
            **{how: one.scores(fitted) for how, fitted in models.items()},
            CONSTANT: {"rmse": float(np.std(one.values))},
        }
        if model.protect == "site":
            measures[name][OWN_MEAN] = {"rmse": own_mean_error(one, model.private)}
    counts = _cells_per_entity([one.relation for one in kept.values()], model.private)
    drawn = None
    if frontier:
        public = [relation for relation in train if model.private not in relation.factors]
        drawn = coupled_frontier(model, public, int(counts.sum()), held_out)
    return PrivateCoupledComparison(
        model,
        relations,
        measures,
        names or {},
        held_out,
        counts[counts > 0],
        _outside([one.relation for one in kept.values()], model),
        drawn,
        source or {},
    )


def check_private_settings(settings: Mapping[str, Any]) -> None:
    """Refuse names that are not further parameters of the private model."""
    allowed = sorted(set(PrivateCoupledFactorization().get_params()) - GIVEN)
    for name in settings:
        check_choice(name, "a setting of the private fit", allowed)


def own_mean_error(held: HeldOutCells, entity: str) -> float:
    """Predict the mean of each entity's kept cells (of all, for entities without any); return the RMSE on held-out cells."""
    relation = held.relation
    axis = _axis(relation, entity)
    cells, values = relation.known_cells()
    counts = np.bincount(cells[:, axis], minlength=relation.shape[axis])
    sums = np.bincount(cells[:, axis], values, minlength=relation.shape[axis])
    means = np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
    return float(np.sqrt(np.mean((held.values - means[held.cells[:, axis]]) ** 2)))


def _axis(relation: Relation, entity: str) -> int:
    return relation.spec.output.index(relation.spec.data_letters(relation.factors.index(entity)))


def _cells_per_entity(relations: Sequence[Relation], entity: str) -> NDArray[np.int64]:
    counts: NDArray[np.int64] | int = 0
    for relation in relations:
        axis = _axis(relation, entity)
        counts = counts + np.bincount(relation.known_cells()[0][:, axis], minlength=relation.shape[axis])
    return np.asarray(counts)


def _outside(relations: Sequence[Relation], model: PrivateCoupledFactorization) -> float:
    outside, known = 0, 0
    for relation in relations:
        (least, greatest), values = model.relations_[relation.name]["range"], relation.known_cells()[1]
        outside, known = outside + int(((values < least) | (values > greatest)).sum()), known + len(values)
    return outside / known
