"""Coupled matrices and tensors, fitted together and each alone, measured on held-out cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.estimators.verdict import Concern, not_better_than, out_of_scale
from tacit.factor.arrays import Floats
from tacit.factor.coupled.held_out import hold_out
from tacit.factor.coupled.plain.estimator import CoupledFactorization
from tacit.factor.coupled.relation import Relation
from tacit.report.figures import curves, factor_maps
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result
from tacit.validation import check_choice

CONSTANT = "constant"
NAMES_LISTED = 8
"""Names per component in the report."""


@dataclass(frozen=True, eq=False)
class CoupledComparison(FitResult):
    """The result of `compare_coupled`.

    Attributes
    ----------
    model : CoupledFactorization
        Fitted to all cells.
    relations : list of Relation
    measures : dict of str to dict
        For each relation, the scores on its held-out cells: fitted with the others ("coupled"), fitted "alone", and the
        RMSE of the best "constant", which is the mean of the held-out cells.
    guarantee : Guarantee
        There is none.
    names : mapping of factor to names
    held_out : float
        Fraction of the cells that was held out for the measures.
    source : dict of str to str
        Where the relations came from; it is in ``result.json``.
    """

    title = "Coupled factorisation"
    model_name = "coupled"

    model: CoupledFactorization
    relations: Sequence[Relation]
    measures: dict[str, dict[str, dict[str, float]]]
    names: Mapping[str, Sequence[str]]
    held_out: float
    source: dict[str, str] = field(default_factory=dict)

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee and the errors."""
        concerns = super().concerns
        for name, scores in self.measures.items():
            trivial = f"a constant for the relation {name!r}"
            error, constant = scores["coupled"]["rmse"], scores[CONSTANT]["rmse"]
            concerns += not_better_than(trivial, error, constant, measure="RMSE on held-out cells")
            concerns += out_of_scale(f"the relation {name!r} fitted alone", scores["alone"]["rmse"], constant)
        return concerns

    def values(self) -> dict[str, object]:
        """Return loss, dispersions, scores and top entities as plain values."""
        return {
            **self.source,
            "relations": {relation.name: repr(relation) for relation in self.relations},
            "loss": self.model.loss_,
            "sweeps": self.model.n_iter_,
            "dispersions": self.model.dispersions_,
            "held_out": self.measures,
            "top": top_entities(self.model.factors_, self.names),
        }

    def lines(self) -> list[str]:
        """Return the loss and the scores."""
        lines = [f"Loss {self.model.loss_:.6g} after {self.model.n_iter_} sweeps"]
        for name, both in self.measures.items():
            for how, scores in both.items():
                lines.append(f"{name}, {how}: " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items()))
        return lines

    def draw(self, report: Report) -> None:
        """Add relations, scores, loss, factors and top entities."""
        rows = [
            [
                relation.name,
                " x ".join(map(str, relation.shape)),
                relation.spec.text,
                ", ".join(relation.factors),
                f"{relation.n_observed:,}",
                f"{relation.power:g}",
                f"{self.model.dispersions_[relation.name]:.4g}",
            ]
            for relation in self.relations
        ]
        columns = ["relation", "shape", "einsum", "factors", "cells known", "divergence p", "dispersion"]
        report.table("Relations", columns, rows, "p = 0 is Euclid, 1 Kullback-Leibler, 2 Itakura-Saito.")
        if self.measures:
            keys = ("rmse", "divergence", "auc")
            rows = [
                [name, how, *(f"{scores[key]:.4f}" if key in scores else "" for key in keys)]
                for name, both in self.measures.items()
                for how, scores in both.items()
            ]
            note = (
                f"{self.held_out:.0%} of the stored cells were held out, and five zeros for each if the other cells are zeros. "
                "Alone: each relation fitted by itself. Constant: the mean of the held-out cells."
            )
            report.table("Held-out cells", ["relation", "fitted", "RMSE", "mean divergence", "AUC"], rows, note)
        loss = {self.model.inference: list(self.model.loss_curve_)}
        figure = curves(loss, step_name="sweep", value_name="cost")
        report.figure("Loss", figure, "The cost at every sweep. For variational Bayes, minus the evidence lower bound.")
        report.figure(
            "Factors",
            factor_maps(self.model.factors_, self.names),
            "One row per entity, one column per component, each column scaled to its largest entry; rows are grouped by "
            "component.",
        )
        for name, components in top_entities(self.model.factors_, self.names).items():
            report.table(
                f"Top of {name}",
                ["component", "entities"],
                [[str(place), ", ".join(top)] for place, top in enumerate(components)],
            )


def top_entities(factors: Mapping[str, Floats], names_of: Mapping[str, Sequence[str]]) -> dict[str, list[list[str]]]:
    """Return the names with the largest positive entries, for each component of each factor with names."""
    top = {}
    for name, factor in factors.items():
        names = names_of.get(name, ())
        if factor.ndim == 2 and len(names) == len(factor):
            order = np.argsort(-factor, axis=0, kind="stable")[:NAMES_LISTED]
            top[name] = [
                [names[row] for row in column if factor[row, place] > 0] for place, column in enumerate(order.T)
            ]
    return top


@concerns_in_the_result
def compare_coupled(
    relations: Sequence[Relation],
    ranks: int | Mapping[str, int],
    *,
    held_out: float = 0.1,
    names: Mapping[str, Sequence[str]] | None = None,
    random_state: int = 0,
    source: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    **parameters: Any,
) -> CoupledComparison:
    """Fit coupled relations together and each alone, without privacy, and measure both on held-out cells.

    Parameters
    ----------
    relations : sequence of Relation
    ranks : int or mapping of str to int
    held_out : float, default=0.1
        Fraction of the cells to hold out for the measures; 0 for no measures. `model` is fitted to all cells.
    names : mapping of factor to names, optional
        Names of the entities, for the report.
    random_state : int, default=0
        Seed of the split and of the start.
    source : dict of str to str, optional
        Kept with the result, for example the name of the file that describes the relations.
    progress : callable, optional
        Called with the name of each stage.
    **parameters
        Further parameters of `tacit.CoupledFactorization`.

    Examples
    --------
    >>> from tacit import Relation
    >>> from tacit.data import make_coupled
    >>> from tacit.report import compare_coupled
    >>> data = make_coupled(random_state=4)
    >>> visits = Relation(data.tensor, "ir,jr,kr->ijk", ("user", "place", "activity"), name="visits")
    >>> about = Relation(data.features, "jr,fr->jf", ("place", "feature"), name="about")
    >>> result = compare_coupled([visits, about], 3, max_iter=50)
    >>> sorted(result.measures["visits"])
    ['alone', 'constant', 'coupled']
    """
    say = progress or (lambda stage: None)
    for name in parameters:
        check_choice(name, "a parameter", plain_parameters())
    settings = {"random_state": random_state, **parameters}
    measures: dict[str, dict[str, dict[str, float]]] = {}
    if held_out:
        say("fitting without the held-out cells")
        kept = [hold_out(relation, held_out, random_state=random_state) for relation in relations]
        together = CoupledFactorization(ranks, **settings).fit([one.relation for one in kept])
        for one in kept:
            alone = CoupledFactorization(_own_ranks(ranks, one.relation), **settings).fit(one.relation)
            measures[one.relation.name] = {
                "coupled": one.scores(together),
                "alone": one.scores(alone),
                CONSTANT: {"rmse": float(np.std(one.values))},
            }
    say("fitting")
    model = CoupledFactorization(ranks, **settings).fit(relations)
    return CoupledComparison(model, relations, measures, names or {}, held_out, source or {})


def plain_parameters() -> list[str]:
    """Return the names of the parameters that a fit without privacy may be given."""
    return sorted(set(CoupledFactorization().get_params()) - {"ranks", "init"})


def _own_ranks(ranks: int | Mapping[str, int], relation: Relation) -> int | Mapping[str, int]:
    if not isinstance(ranks, Mapping):
        return ranks
    return {letter: rank for letter, rank in ranks.items() if letter in relation.spec.summed}
