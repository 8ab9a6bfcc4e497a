"""A table with clusters and classes, and every method at a setting that suits it."""

import numpy as np

from tacit.perturb import (
    AdditiveNoise,
    CompressedNMF,
    ConstrainedNMF,
    CorrelationAware,
    HideMembership,
    NeighbourhoodAware,
    NMFRelease,
    RotationRelease,
    TruncatedSVDRelease,
)

CENTRES = np.array([[1.0, 8.0, 3.0, 2.0], [6.0, 2.0, 1.0, 9.0], [9.0, 7.0, 8.0, 1.0]])


def make_table(rows=40, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), rows)
    return CENTRES[labels] + generator.normal(size=(3 * rows, 4)), labels


TABLE, LABELS = make_table()
METHODS = {
    "uniform noise": AdditiveNoise(0.1, random_state=1),
    "normal noise": AdditiveNoise(0.1, kind="normal", random_state=1),
    "rotation": RotationRelease(0.5, random_state=1),
    "svd": TruncatedSVDRelease(2),
    "nmf": NMFRelease(2),
    "cnmf": ConstrainedNMF(0.7, n_clusters=3),
    "scnmf": ConstrainedNMF(0.7, n_clusters=3, sparsify=0.03),
    "comnmf": CompressedNMF(0.5, n_clusters=3),
    "cap": CorrelationAware(0.5, eta=0.2, random_state=1),
    "cap by leaves": CorrelationAware(0.5, eta=0.2, form="leaf", random_state=1),
    "nap": NeighbourhoodAware(0.3, random_state=1),
    "nap about means": NeighbourhoodAware(0.3, centre="mean", random_state=1),
    "hide": HideMembership({0: "anywhere else"}, beta=0.9, n_clusters=3),
}
