"""Every private estimator is registered here, in one line, and must treat neighbouring data sets as it promises."""

import pickle
import re
import tempfile
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from sklearn.base import clone

from tacit import (
    PrivateCoupledFactorization,
    PrivateImplicitRecommender,
    PrivateMoments,
    PrivateNMF,
    PrivatePCA,
    PrivatePCR,
    PrivateSVD,
    Relation,
    choose_rank,
)
from tacit.data import CategoryColumn, NumberColumn, make_documents, make_images
from tacit.errors import InvalidInputError, PrivacyViolationError
from tacit.factor.coupled.private.problem import Problem
from tacit.factor.nmf.topics import SHORTENING
from tacit.factor.noisy_moments import centred
from tacit.synthetic import PrivateTable
from tacit.testing import check_neighbours

IMAGES = make_images(60, side=5, n_parts=1).images
HUB = {**dict.fromkeys("01", NumberColumn(0, 1)), "2": CategoryColumn((0, 1), other=0)}
HUB_ROWS = np.tile(np.column_stack([IMAGES[:, :2], IMAGES[:, 3] > IMAGES[:, 3].mean()]), (5, 1))
COUNTS = csr_array(make_documents(40, n_topics=2).counts[:, :30].astype(float))


@dataclass(frozen=True)
class Case:
    name: str
    estimator: Any
    X: Any


CASES = [
    Case("moments", PrivateMoments(row_norm=2.0), IMAGES),
    Case("moments, replace-one", PrivateMoments(row_norm=2.0, adjacency="replace-one"), IMAGES),
    Case("moments, sparse", PrivateMoments(row_norm=3.0), COUNTS),
    Case("implicit recommender", PrivateImplicitRecommender(epsilon=30.0), COUNTS),
    Case(
        "implicit recommender, replace-one, weights",
        PrivateImplicitRecommender(epsilon=30.0, adjacency="replace-one", weighting="linear", max_columns=9),
        COUNTS,
    ),
    Case("table", PrivateTable(epsilon=30.0, schema=NumberColumn(0, 1)), IMAGES[:, :5]),
    Case(
        "table, replace-one",
        PrivateTable(epsilon=30.0, schema=NumberColumn(0, 1), adjacency="replace-one"),
        IMAGES[:, :5],
    ),
    Case("table, triples", PrivateTable(epsilon=30.0, schema=HUB), HUB_ROWS),
    Case("table, triples, replace-one", PrivateTable(epsilon=30.0, schema=HUB, adjacency="replace-one"), HUB_ROWS),
    Case("table, triples that do not pay", PrivateTable(epsilon=1.0, schema=HUB), HUB_ROWS),
    Case("nmf", PrivateNMF(3, epsilon=30.0, row_norm=2.0), IMAGES),
    Case("nmf, replace-one", PrivateNMF(3, epsilon=30.0, row_norm=2.0, adjacency="replace-one"), IMAGES),
    Case("nmf, outliers", PrivateNMF(3, epsilon=30.0, row_norm=2.0, outliers=0.2), IMAGES),
    Case("nmf, sparse", PrivateNMF(3, epsilon=30.0, row_norm=3.0, max_columns=12), COUNTS),
    Case(
        "nmf, sparse, replace-one",
        PrivateNMF(3, epsilon=30.0, row_norm=3.0, max_columns=12, adjacency="replace-one"),
        COUNTS,
    ),
    Case("nmf, topics of dense rows", PrivateNMF(3, epsilon=30.0, row_norm=2.0, goal="topics"), IMAGES),
    Case("nmf, the mean alone", PrivateNMF(3, epsilon=0.3, row_norm=2.0), IMAGES),
    Case(
        "nmf, the mean alone, replace-one",
        PrivateNMF(3, epsilon=0.3, row_norm=2.0, outliers=0.2, adjacency="replace-one"),
        IMAGES,
    ),
    Case("svd", PrivateSVD(3, epsilon=30.0, row_norm=2.0), IMAGES),
    Case("svd, sparse", PrivateSVD(3, epsilon=3.0, row_norm=3.0, non_negative=True, max_columns=12), COUNTS),
    Case("pca", PrivatePCA(3, epsilon=3.0, feature_range=(-1, 1)), IMAGES),
    Case("pca, replace-one", PrivatePCA(3, epsilon=30.0, row_norm=2.0, adjacency="replace-one"), IMAGES),
    Case("nmf by rounds", PrivateNMF(3, epsilon=30.0, row_norm=2.0, method="rounds", rounds=4), IMAGES),
    Case(
        "nmf by rounds, noisy start",
        PrivateNMF(3, epsilon=30.0, row_norm=2.0, method="rounds", rounds=2, init="noisy"),
        IMAGES,
    ),
    Case(
        "nmf by rounds, outliers",
        PrivateNMF(3, epsilon=30.0, row_norm=2.0, method="rounds", rounds=3, outliers=0.2),
        IMAGES,
    ),
    Case("nmf by rounds, sparse", PrivateNMF(3, epsilon=30.0, row_norm=3.0, method="rounds", rounds=3), COUNTS),
    Case(
        "nmf by rounds, mini-batches",
        PrivateNMF(3, epsilon=3.0, row_norm=2.0, method="rounds", rounds=4, sampling_rate=0.4),
        IMAGES,
    ),
    Case(
        "nmf by rounds, sparse mini-batches, replace-one",
        PrivateNMF(3, epsilon=3.0, row_norm=3.0, method="rounds", rounds=3, sampling_rate=0.4, adjacency="replace-one"),
        COUNTS,
    ),
]


def network_cases():
    """Networks need labels: here a row's label is computed from the row itself."""
    if find_spec("torch") is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="torch is not installed"), id="network")]
    import torch
    from torch import nn

    from tacit.neural import PrivateBayesianClassifier, PrivateBayesianRegressor

    class Recurrent(nn.Module):
        """Its gradients are computed one by one; one of its layers works in place."""

        def __init__(self):
            super().__init__()
            self.inner, self.outer = (
                nn.GRU(5, 3, batch_first=True),
                nn.Sequential(nn.ELU(inplace=True), nn.Linear(3, 2)),
            )

        def forward(self, x):
            return self.outer(self.inner(x.reshape(len(x), 5, 5))[0][:, -1].clone())

    class Root(nn.Module):
        """The gradient of an empty image is not finite."""

        def __init__(self):
            super().__init__()
            self.scale, self.layer = nn.Parameter(torch.ones(())), nn.Linear(1, 2)

        def forward(self, x):
            return self.layer(torch.sqrt(self.scale * (x + 1).sum(dim=1, keepdim=True)))

    class Labelled(PrivateBayesianClassifier):
        def fit(self, X):
            return super().fit(X, (X.sum(axis=1) > 8).astype(int))

    class Numbered(PrivateBayesianRegressor):
        def fit(self, X):
            return super().fit(X, X.sum(axis=1))

    for local in (Recurrent, Root, Labelled, Numbered):  # where pickle looks for them
        local.__qualname__ = local.__name__
        globals()[local.__name__] = local
    fewest = {"epsilon": 5.0, "clip": 0.1, "epochs": 1.6, "sampling_rate": 0.4, "n_samples": 2}
    few = {**fewest, "classes": (0, 1)}
    convolution = nn.Sequential(
        nn.Unflatten(1, (1, 5, 5)), nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(18, 2)
    )
    return [
        Case("network", Labelled((6,), **few), IMAGES),
        Case("network, replace-one", Labelled((6,), adjacency="replace-one", **few), IMAGES),
        Case("network, per layer", Labelled((6, 4), per_layer=True, **few), IMAGES),
        Case("network, sgld, everyone", Labelled((), method="sgld", **{**few, "sampling_rate": 1.0}), IMAGES),
        Case("network that counts in its steps", Labelled((6,), **{**few, "epsilon": 0.25}), IMAGES),
        Case(
            "network for numbers that counts",
            Numbered((6,), target_range=(0, 20), **{**fewest, "epsilon": 0.5}),
            IMAGES,
        ),
        Case("network for numbers", Numbered((6,), target_range=(0, 20), **fewest), IMAGES),
        Case("network, module", Labelled(module=convolution, method="dp-sgd", **few), IMAGES),
        Case("network, recurrent", Labelled(module=Recurrent(), **few), IMAGES),
        Case("network, gradient not finite", Labelled(module=Root(), **few), IMAGES),
    ]


CASES += network_cases()


def released_by(model):
    """Return everything that leaves with a fitted model: what it releases, and the bytes of its file and of its pickle."""
    assert set(model._released) <= set(vars(model))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.tacit")
        file = (Path(folder) / "model.tacit").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says what the pickle leaves out
        # torch names the storages of a module's tensors by their addresses in memory, which differ between any two fits
        pickled = re.sub(rb"\d{12,}", b"address", pickle.dumps(model))
    return {name: getattr(model, name) for name in model._released} | {"file": file, "pickle": pickled}


def stacked(X, row):
    return np.vstack([X, row]) if isinstance(X, np.ndarray) else csr_array(vstack([X, csr_array(row)]))


def neighbours(X, adjacency):
    """Return pairs that differ in their last row: removed, zero, ordinary, and far beyond any bound."""
    width = X.shape[1]
    rows = [np.zeros((1, width)), np.ones((1, width)), np.full((1, width), 1e6), np.eye(1, width) * 50]
    if adjacency == "add-remove":
        return [(X, X[:-1]), *((X, stacked(X, row)) for row in rows)]
    base = X[:-1]
    return [(stacked(base, first), stacked(base, second)) for first in rows for second in rows if first is not second]


@pytest.fixture(autouse=True)
def _few_synthetic_rows(monkeypatch):
    """They are drawn from what was released, so their number changes nothing but the time that the fits take."""
    monkeypatch.setattr("tacit.factor.nmf.private.SYNTHETIC_ROWS", 300)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_neighbours_are_treated_as_promised(case):
    from sklearn.base import clone

    def fit(X):
        # fixed noise and samples: the checked property does not depend on them, and so neither does the test
        return released_by(clone(case.estimator).set_params(insecure_seed=5).fit(X))

    used = [
        check_neighbours(fit, data, neighbour, name=case.name).largest
        for data, neighbour in neighbours(case.X, case.estimator.adjacency)
    ]
    # the far-away rows are clipped to the bound, so a bound that is stated needlessly large would show here
    assert max(used) > 0.3


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_neighbours_of_a_private_regression(adjacency):
    """Rows with their targets: a row's target is its first entry."""

    def fit(data):
        model = PrivatePCR(3, epsilon=30.0, row_norm=2.0, target_range=(-1, 1), adjacency=adjacency, insecure_seed=5)
        return released_by(model.fit(data, data[:, 0]))

    used = [check_neighbours(fit, *pair).largest for pair in neighbours(IMAGES, adjacency)]
    assert max(used) > 0.3


def test_the_published_algorithm_fails_the_check():
    with pytest.raises(PrivacyViolationError, match="noisy channel"):
        check_neighbours(
            lambda X: {"T": PrivateNMF(3, method="published", rounds=2).fit(X).components_}, IMAGES, IMAGES[:-1]
        )


@pytest.mark.slow
@pytest.mark.parametrize("place", [-1, -2])
def test_rows_that_are_clipped_less_than_stated_are_found(place, monkeypatch):
    """The clipping lengths of the third sum: that of the words of a covariance is shorter than usual, and sizes its noise."""
    usual = centred._clipped_sums

    def longer(*given):
        lengths = list(given)
        lengths[place] /= SHORTENING
        return usual(*lengths)

    def fit(X):
        return released_by(PrivateNMF(3, epsilon=30.0, row_norm=3.0, max_columns=12, insecure_seed=5).fit(X))

    pairs = neighbours(COUNTS, "add-remove")
    assert all(check_neighbours(fit, *pair).largest <= 1 for pair in pairs)
    monkeypatch.setattr(centred, "_clipped_sums", longer)
    with pytest.raises(PrivacyViolationError, match="to move by at most"):
        _ = [check_neighbours(fit, *pair) for pair in pairs]


def test_a_private_choice_of_rank_is_treated_as_promised():
    def fit(X):
        found = choose_rank(X, [1, 2, 3], epsilon=1.0, row_norm=2.0)
        return {"rank": found.rank, **released_by(found.model)}

    for data, neighbour in neighbours(IMAGES, "add-remove"):
        assert check_neighbours(fit, data, neighbour).largest <= 1


def coupled_relations(cells, values, divergence="euclid"):
    """A user x place x activity relation with these cells, and a public place x feature relation."""
    tensor = Relation(
        (cells, values, (30, 8, 3)),
        "ir,jr,kr->ijk",
        ("user", "place", "activity"),
        observed="stored",
        divergence=divergence,
    )
    features = np.random.default_rng(0).normal(size=(8, 4))
    features = features if divergence == "euclid" else np.abs(features)
    return [tensor, Relation(features, "jr,fr->jf", ("place", "feature"), divergence=divergence)]


def coupled_cells():
    every = np.stack(np.unravel_index(np.arange(30 * 8 * 3), (30, 8, 3)), axis=1)
    known = np.random.default_rng(1).random(len(every)) < 0.4
    known[-6:] = True
    values = np.random.default_rng(2).uniform(-1, 1, len(every))
    return every[known], values[known]


def coupled_neighbours(unit, adjacency):
    """Return pairs that differ in the last user's cells, or in the last cell: gone, ordinary, and far beyond any bound."""
    cells, values = coupled_cells()
    last = cells[:, 0] == 29 if unit == "user" else np.arange(len(cells)) == len(cells) - 1
    shifted = [np.where(last, new, values) for new in (0.0, 1.0, -1e6, 1e6)]
    if adjacency == "add-remove":
        without = coupled_relations(cells[~last], values[~last])
        return [(coupled_relations(cells, other), without) for other in (values, *shifted)]
    tables = [coupled_relations(cells, other) for other in shifted]
    return [(first, second) for first in tables for second in tables if first is not second]


SGLD = {"method": "sgld", "epsilon": 5.0, "rounds": 6, "sampling_rate": 0.5, "clip": 0.5}
COUPLED = [
    ("users", {}),
    ("users, replace-one", {"adjacency": "replace-one"}),
    ("users, own factors too", {"protect": "user"}),
    ("users, places shared", {"shared": ["place"]}),
    ("cells", {"unit": "cell"}),
    ("cells, replace-one", {"unit": "cell", "adjacency": "replace-one"}),
    ("cells, own factors too", {"unit": "cell", "protect": "user"}),
    ("users, the mean alone", {"epsilon": 0.05}),
    ("cells, the mean alone, replace-one", {"epsilon": 0.05, "unit": "cell", "adjacency": "replace-one"}),
    ("users by gradients", SGLD),
    ("users by gradients, replace-one", {**SGLD, "adjacency": "replace-one"}),
    ("users by gradients, own factors too", {**SGLD, "protect": "user"}),
    ("users by gradients, with a hyper-prior", {**SGLD, "hyper_prior": (1.0, 0.01)}),
    ("cells by gradients", {**SGLD, "unit": "cell"}),
    ("cells by gradients, own factors too", {**SGLD, "unit": "cell", "protect": "user"}),
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [one for _, one in COUPLED], ids=[name for name, _ in COUPLED])
def test_coupled_neighbours_are_treated_as_promised(settings):
    # a large epsilon, so that no part of the method is skipped because of the noise
    model = PrivateCoupledFactorization(
        {"r": 2}, **{"epsilon": 400.0, **settings}, value_range=(-1, 1), max_columns=6, insecure_seed=5
    )

    def fit(relations):
        return released_by(type(model)(**model.get_params()).fit(relations))

    used = [check_neighbours(fit, *pair).largest for pair in coupled_neighbours(model.unit, model.adjacency)]
    assert max(used) > 0.3


ROW_RELATIONS = [("ir,jr,kr->ijk", [0, 1, 2]), ("ir,kr->ik", [0, 2]), ("ir,jr->ij", [0, 1])]


def sites_of(cells, values, layout):
    """Divide users x places x activities among three sites.

    "rows": users of their own, and a different relation at each site. "columns": common users, and places of their own.
    "mixed": everything in common, each site with some of the cells. "same": like mixed, but the last user has the same cells
    at all sites, which moves the sums as far as three sites can.
    """
    names, sizes, sites = np.array(["user", "place", "activity"]), np.array([30, 8, 3]), []
    for site in range(3):
        einsum, axes, local, shape = "ir,jr,kr->ijk", [0, 1, 2], cells.copy(), sizes.copy()
        if layout == "rows":
            einsum, axes = ROW_RELATIONS[site]
            left_out = [axis for axis in range(3) if axis not in axes]
            mine = (cells[:, 0] % 3 == site) & (cells[:, left_out] == 0).all(axis=1)
            local[:, 0], shape[0] = cells[:, 0] // 3, 10
        elif layout == "columns":
            mine = cells[:, 1] % 3 == site
            local[:, 1], shape[1] = cells[:, 1] // 3, [3, 3, 2][site]
        else:
            mine = (cells.sum(axis=1) % 3 == site) | ((cells[:, 0] == 29) & (layout == "same"))
        data = (local[mine][:, axes], values[mine], tuple(shape[axes].tolist()))
        sites.append([Relation(data, einsum, names[axes].tolist(), observed="stored", divergence="euclid")])
    return sites


COMMON = {"shared": ["user", "place", "activity"]}
BY_GRADIENTS = {**SGLD, "sampling_rate": 1.0}
COUPLED_SITES = [
    ("users at one site, different relations", "rows", {}, 0.3),
    ("users at one site, different relations, replace-one", "rows", {"adjacency": "replace-one"}, 0.3),
    ("cells, different relations", "rows", {"unit": "cell"}, 0.3),
    ("users at one site, different relations, by gradients", "rows", SGLD, 0.3),
    ("common users, their own places", "columns", {"shared": ["user", "activity"]}, 0.3),
    (
        "common users, their own places, replace-one",
        "columns",
        {"shared": ["user", "activity"], "adjacency": "replace-one"},
        0.3,
    ),
    (
        "cells of common users, their own places",
        "columns",
        {"shared": ["user"], "unit": "cell", "protect": "user"},
        0.3,
    ),
    (
        "common users, their own places, by gradients",
        "columns",
        {**BY_GRADIENTS, "shared": ["user"], "protect": "user"},
        0.3,
    ),
    ("common users and places", "mixed", COMMON, 0.3),
    ("the same cells of a common user at all sites", "same", COMMON, 0.95),
    (
        "the same cells of a common user at all sites, by gradients",
        "same",
        {**BY_GRADIENTS, **COMMON, "clip": 0.01},
        0.95,
    ),
    ("the same cells at all sites, own factors too", "same", {**BY_GRADIENTS, **COMMON, "protect": "user"}, 0.5),
]


def fit_of_sites(settings):
    model = PrivateCoupledFactorization(
        {"r": 2}, **{"epsilon": 2000.0, **settings}, value_range=(-1, 1), max_columns=6, insecure_seed=5
    )

    def fit(sites):
        models = type(model)(**model.get_params()).fit_sites(sites)
        return {f"{place} {name}": one for place, each in enumerate(models) for name, one in released_by(each).items()}

    return fit


def neighbouring_sites(layout, unit="user", adjacency="add-remove"):
    """Return pairs that differ in the last user's cells at all sites, or in one of its cells."""
    cells, values = coupled_cells()
    last = cells[:, 0] == 29 if unit == "user" else (cells == [29, 7, 0]).all(axis=1)
    shifted = [np.where(last, new, values) for new in (1.0, -1e6)]
    if adjacency == "add-remove":
        without = sites_of(cells[~last], values[~last], layout)
        return [(sites_of(cells, other, layout), without) for other in (values, *shifted)]
    tables = [sites_of(cells, other, layout) for other in shifted]
    return [(tables[0], tables[1]), (tables[1], tables[0])]


@pytest.mark.slow
@pytest.mark.parametrize("case", COUPLED_SITES, ids=[case[0] for case in COUPLED_SITES])
def test_neighbours_at_several_sites_are_treated_as_promised(case):
    _, layout, settings, least = case
    pairs = neighbouring_sites(layout, settings.get("unit", "user"), settings.get("adjacency", "add-remove"))
    used = [check_neighbours(fit_of_sites(settings), *pair).largest for pair in pairs]
    assert max(used) > least


@pytest.mark.parametrize("settings", [COMMON, {**BY_GRADIENTS, **COMMON, "clip": 0.01}])
def test_a_bound_that_forgets_the_other_sites_is_found(settings, monkeypatch):
    monkeypatch.setattr(Problem, "repeats", lambda *_: 1.0)
    with pytest.raises(PrivacyViolationError, match="to move by at most"):
        check_neighbours(fit_of_sites(settings), *neighbouring_sites("same")[1])


def test_zeros_that_are_not_stored_leave_no_unit_absent():
    """Without its rows a user would have zeros, not no cells: two users' contributions may be further apart than one's norm."""
    table = csr_array((np.random.default_rng(0).random((30, 8)) < 0.4) * 1.0)
    relation = Relation(table, "ir,jr->ij", ("user", "film"), divergence="euclid")
    with pytest.raises(InvalidInputError, match="stored"):
        PrivateCoupledFactorization(2, value_range=(0, 1)).fit([relation])
    PrivateCoupledFactorization(2, value_range=(0, 1), adjacency="replace-one").fit([relation])


RARE = 1e-5  # of some hundred units hardly ever one is drawn
SAMPLED = [case for case in CASES if case is not None and getattr(case.estimator, "sampling_rate", 1.0) < 1]


def numbers_in(released):
    """Return all numbers of something released: an array, or arrays and texts by name, at any depth."""
    if isinstance(released, dict):
        return np.concatenate([np.zeros(0), *(numbers_in(one) for one in released.values())])
    found = np.asarray(released)
    return found.ravel() if found.dtype.kind in "fiu" else np.zeros(0)


def fit_on_nobody(estimator, *data):
    settings = {"sampling_rate": RARE, "epsilon": 5.0, "delta": 1e-9}
    if "epochs" in estimator.get_params():
        settings["epochs"] = 4 * RARE
    fitted = estimator.set_params(**settings).fit(*data)
    return fitted.guarantee_.epsilon, numbers_in({name: getattr(fitted, name) for name in fitted._released})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_a_sample_of_nobody_is_no_accident(case):
    epsilon, numbers = fit_on_nobody(clone(case.estimator), case.X)
    assert 0 < epsilon <= 5.0 * (1 + 1e-9)
    assert len(numbers) > 0
    assert np.isfinite(numbers).all()


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["euclid", "kl"])
@pytest.mark.parametrize("settings", [one for _, one in COUPLED if one.get("method") == "sgld"])
def test_a_coupled_sample_of_nobody_is_no_accident(settings, divergence):
    low = -1.0 if divergence == "euclid" else 0.0
    model = PrivateCoupledFactorization({"r": 2}, **settings, value_range=(low, 1), max_columns=6)
    cells, values = coupled_cells()
    epsilon, numbers = fit_on_nobody(model, coupled_relations(cells, np.maximum(values, low), divergence))
    assert 0 < epsilon <= 5.0 * (1 + 1e-9)
    assert len(numbers) > 0
    assert np.isfinite(numbers).all()
