"""Small models of every family and their data, for tests of the audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from tacit import (
    PrivateCoupledFactorization,
    PrivateImplicitRecommender,
    PrivateMoments,
    PrivateNMF,
    PrivatePCA,
    PrivatePCR,
    PrivateRatingNMF,
    PrivateRecommender,
    PrivateSVD,
    PrivateTable,
    Relation,
)
from tacit.audit.subject import Subject
from tacit.audit.units import units_of
from tacit.data import CategoryColumn, IntegerColumn, NumberColumn, make_documents, make_images, make_ratings

IMAGES = make_images(60, side=4, n_parts=1).images
CLICKS = csr_array((make_documents(40, n_topics=2).counts[:, :20] > 0).astype(float))
RATINGS = make_ratings(40, 8, ratings_per_user=4, random_state=1)
STARS = (RATINGS.users, RATINGS.items, RATINGS.ratings)
CATALOGUE = sorted(np.unique(RATINGS.items).tolist())


def relation() -> list[Relation]:
    every = np.stack(np.unravel_index(np.arange(20 * 6), (20, 6)), axis=1)
    known = np.random.default_rng(1).random(len(every)) < 0.5
    values = np.random.default_rng(2).uniform(-1, 1, int(known.sum()))
    return [
        Relation(
            (every[known], values, (20, 6)), "ir,jr->ij", ("user", "place"), observed="stored", divergence="euclid"
        )
    ]


@dataclass(frozen=True)
class Model:
    name: str
    estimator: Any
    data: Any

    def subject(self, seed: int | None = 1) -> Subject:
        return Subject.of(self.estimator, units_of(self.estimator, self.data), seed=seed)


FULL_BATCH = [
    Model("moments", PrivateMoments(epsilon=2.0, row_norm=2.0), IMAGES),
    Model("nmf", PrivateNMF(2, epsilon=2.0, row_norm=2.0), IMAGES),
    Model("svd", PrivateSVD(2, epsilon=2.0, row_norm=2.0), IMAGES),
    Model("pca", PrivatePCA(2, epsilon=2.0, feature_range=(0, 1)), IMAGES),
    Model("pcr", PrivatePCR(2, epsilon=2.0, row_norm=2.0, target_range=(0, 1)), (IMAGES, IMAGES[:, 0])),
    Model("recommender", PrivateRecommender(2, epsilon=2.0, catalogue=CATALOGUE), STARS),
    Model("rating nmf", PrivateRatingNMF(2, epsilon=2.0, catalogue=CATALOGUE), STARS),
    Model("implicit", PrivateImplicitRecommender(epsilon=2.0), CLICKS),
    Model("table", PrivateTable(epsilon=2.0, schema=NumberColumn(0, 1)), np.clip(IMAGES[:, :4], 0, 1)),
    Model(
        "coupled, cells",
        PrivateCoupledFactorization({"r": 2}, epsilon=2.0, unit="cell", value_range=(-1, 1)),
        relation(),
    ),
    Model("nmf by rounds", PrivateNMF(2, epsilon=2.0, row_norm=2.0, method="rounds", rounds=3), IMAGES),
    Model("coupled, users", PrivateCoupledFactorization({"r": 2}, epsilon=2.0, value_range=(-1, 1)), relation()),
]
SAMPLED = [
    Model(
        "nmf by rounds, sampled",
        PrivateNMF(2, epsilon=2.0, row_norm=2.0, method="rounds", rounds=3, sampling_rate=0.4),
        IMAGES,
    ),
    Model(
        "coupled by gradients",
        PrivateCoupledFactorization(
            {"r": 2}, epsilon=2.0, value_range=(-1, 1), method="sgld", rounds=4, sampling_rate=0.5, clip=0.5
        ),
        relation(),
    ),
]


def visits(n_persons: int = 40) -> pl.DataFrame:
    """Return a table with two rows of every person."""
    random = np.random.default_rng(3)
    ages = random.integers(20, 60, n_persons).repeat(2)
    return pl.DataFrame(
        {
            "person": [f"p{place}" for place in range(n_persons) for _ in range(2)],
            "age": ages,
            "sex": np.where(random.random(n_persons) < 0.5, "f", "m").repeat(2),
            "dose": np.round(random.uniform(0, 5, 2 * n_persons) + (ages > 40), 1),
        }
    )


COLUMNS = {"age": IntegerColumn(0, 99), "sex": CategoryColumn(("f", "m")), "dose": NumberColumn(0, 10, decimals=1)}
TABLES = [
    Model(
        "table of persons",
        PrivateTable(epsilon=2.0, schema=COLUMNS, unit_column="person", max_rows_per_unit=2),
        visits(),
    ),
    Model(
        "table, replace-one",
        PrivateTable(epsilon=2.0, schema=COLUMNS, adjacency="replace-one"),
        visits().drop("person"),
    ),
]
