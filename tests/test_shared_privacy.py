"""Every private estimator is registered here, in one line, and must treat neighbouring data sets as it promises."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from sklearn.base import clone

from tacit import PrivateCoupledFactorization, PrivateMoments, PrivateNMF, Relation, choose_rank
from tacit.data import NumberColumn, make_documents, make_images
from tacit.errors import PrivacyViolationError
from tacit.synthetic import PrivateTable
from tacit.testing import check_neighbours

IMAGES = make_images(60, side=5, n_parts=1).images
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
    Case("table", PrivateTable(epsilon=30.0, schema=NumberColumn(0, 1), bins=4), IMAGES),
    Case(
        "table, replace-one",
        PrivateTable(epsilon=30.0, schema=NumberColumn(0, 1), bins=4, adjacency="replace-one"),
        IMAGES,
    ),
    Case("nmf", PrivateNMF(3, epsilon=30.0, row_norm=2.0), IMAGES),
    Case("nmf, replace-one", PrivateNMF(3, epsilon=30.0, row_norm=2.0, adjacency="replace-one"), IMAGES),
    Case("nmf, outliers", PrivateNMF(3, epsilon=30.0, row_norm=2.0, outliers=0.2), IMAGES),
    Case("nmf, sparse", PrivateNMF(3, epsilon=30.0, row_norm=3.0, max_columns=12), COUNTS),
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
    """Networks want labels: here a row's label follows from the row itself."""
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
        Case("network for numbers", Numbered((6,), target_range=(0, 20), **fewest), IMAGES),
        Case("network, module", Labelled(module=convolution, method="dp-sgd", **few), IMAGES),
        Case("network, recurrent", Labelled(module=Recurrent(), **few), IMAGES),
        Case("network, gradient not finite", Labelled(module=Root(), **few), IMAGES),
    ]


CASES += network_cases()


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_neighbours_are_treated_as_promised(case):
    from sklearn.base import clone

    def fit(X):
        # fixed noise and samples: what is checked does not depend on them, and the test does not either
        model = clone(case.estimator).set_params(insecure_seed=5).fit(X)
        assert set(case.estimator._released) <= set(vars(model))
        return {name: getattr(model, name) for name in model._released}

    used = [
        check_neighbours(fit, data, neighbour, name=case.name).largest
        for data, neighbour in neighbours(case.X, case.estimator.adjacency)
    ]
    # the far-away rows are clipped to the bound, so a bound that is stated needlessly large would show here
    assert max(used) > 0.3


def test_the_published_algorithm_fails_the_check():
    with pytest.raises(PrivacyViolationError, match="noisy channel"):
        check_neighbours(
            lambda X: {"T": PrivateNMF(3, method="published", rounds=2).fit(X).components_}, IMAGES, IMAGES[:-1]
        )


def test_a_private_choice_of_rank_is_treated_as_promised():
    def fit(X):
        found = choose_rank(X, [1, 2, 3], epsilon=1.0, row_norm=2.0)
        return {"rank": found.rank, "components": found.model.components_}

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
    ("cells by gradients", {**SGLD, "unit": "cell"}),
    ("cells by gradients, own factors too", {**SGLD, "unit": "cell", "protect": "user"}),
]


@pytest.mark.parametrize("settings", [one for _, one in COUPLED], ids=[name for name, _ in COUPLED])
def test_coupled_neighbours_are_treated_as_promised(settings):
    # a large epsilon, so that no part of the method is left out for fear of the noise
    model = PrivateCoupledFactorization(
        {"r": 2}, **{"epsilon": 400.0, **settings}, value_range=(-1, 1), max_columns=6, insecure_seed=5
    )

    def fit(relations):
        fitted = type(model)(**model.get_params()).fit(relations)
        return {name: getattr(fitted, name) for name in fitted._released}

    used = [check_neighbours(fit, *pair).largest for pair in coupled_neighbours(model.unit, model.adjacency)]
    assert max(used) > 0.3


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


@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_a_sample_of_nobody_is_no_accident(case):
    epsilon, numbers = fit_on_nobody(clone(case.estimator), case.X)
    assert 0 < epsilon <= 5.0 * (1 + 1e-9)
    assert len(numbers) > 0
    assert np.isfinite(numbers).all()


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
