"""The one table of estimators: used by ``import tacit``, by `tacit.load` and by `tacit.parties`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.estimators.saved import SavedModel

TABLE, RATINGS, RELATIONS, RECORDS = "table", "ratings", "relations", "records"
"""Kinds of data that parties bring to a job: rows of numbers, ratings, coupled relations, or records of columns of any kind."""


@dataclass(frozen=True)
class Entry:
    """Where an estimator's class is, and how parties fit it.

    Attributes
    ----------
    name, module : str
        Of the class.
    job : str
        The name of the model in a job of `tacit.parties`; empty if it cannot be fitted among parties.
    data : {"table", "ratings", "relations", "records"}
        What the parties bring.
    needs : tuple of str
        Parameters that a job must state, because no party may take them from its own data.
    extra : str
        The extra of tacit that must be installed; empty if none.
    """

    name: str
    module: str
    job: str = ""
    data: str = TABLE
    needs: tuple[str, ...] = ()
    extra: str = ""

    def load_class(self) -> type[SavedModel]:
        """Import the class."""
        loaded: type[SavedModel] = getattr(import_module(self.module), self.name)
        return loaded


_ENTRIES = (
    Entry("CoupledFactorization", "tacit.factor.coupled.plain.estimator", "coupled", RELATIONS, ("ranks",)),
    Entry("ImplicitRecommender", "tacit.factor.implicit.plain"),
    Entry("LocalCountFactorization", "tacit.factor.coupled.local.estimator"),
    Entry("NMF", "tacit.factor.nmf.estimator", "nmf"),
    Entry("PCA", "tacit.factor.svd.pca", "pca"),
    Entry("PrincipalComponentRegression", "tacit.factor.svd.regression", "regression"),
    Entry("PrivateBayesianClassifier", "tacit.neural.classifier", extra="neural"),
    Entry("PrivateBayesianRegressor", "tacit.neural.regressor", extra="neural"),
    Entry(
        "PrivateCoupledFactorization",
        "tacit.factor.coupled.private.estimator",
        "private-coupled",
        RELATIONS,
        ("ranks", "value_range"),
    ),
    Entry("PrivateImplicitRecommender", "tacit.factor.implicit.private", "private-implicit", RATINGS),
    Entry("PrivateMoments", "tacit.factor.moments", "moments"),
    Entry("PrivateNMF", "tacit.factor.nmf.private", "private-nmf"),
    Entry("PrivatePCA", "tacit.factor.svd.private", "private-pca"),
    Entry("PrivatePCR", "tacit.factor.svd.private", "private-regression"),
    Entry("PrivateRatingNMF", "tacit.factor.ratings.private_non_negative", "private-rating-nmf", RATINGS),
    Entry("PrivateRecommender", "tacit.factor.ratings.private", "private-recommender", RATINGS),
    Entry("PrivateSVD", "tacit.factor.svd.private", "private-svd"),
    Entry("PrivateTable", "tacit.synthetic.private_table", "private-table", RECORDS, ("schema",)),
    Entry("RatingNMF", "tacit.factor.ratings.non_negative", "rating-nmf", RATINGS, ("rating_range",)),
    Entry("Recommender", "tacit.factor.ratings.plain"),
    Entry("SVD", "tacit.factor.svd.estimator", "svd"),
)
ESTIMATORS = {entry.name: entry for entry in _ENTRIES}
"""Every estimator that can be fitted and saved; nothing else is ever imported because a file or a job names it."""
JOBS = {entry.job: entry for entry in _ENTRIES if entry.job}
"""Those that parties can fit, by the name of the model in a job."""


def load(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model that was saved by its `save` method; returns the fitted estimator, without its private data.

    Parameters
    ----------
    path : path-like
    """
    from tacit.estimators.saved import read_model

    header, arrays = read_model(path, ESTIMATORS)
    return ESTIMATORS[header["class"]].load_class()._restore(header, arrays)
