"""A unit that is not sampled changes nothing, to the bit; one that is sampled changes its own contribution only."""

import math

import numpy as np
import pytest
from torch import nn

from tacit.channel import Clear
from tacit.neural import PrivateBayesianClassifier, PrivateBayesianRegressor

RANDOM = np.random.default_rng(11)
X = RANDOM.random((300, 64))
Y = (X[:, 0] > 0.5).astype(int)
MARK = 1 / 3
"""First feature of the unit that comes and goes; no other row has this value."""
UNIT = np.append(MARK, RANDOM.random(63))


def with_unit(rows, place, unit=UNIT):
    return np.insert(rows, place, unit, axis=0)


class Recorded(Clear):
    """Samples every row by its content, never the marked unit, and records every total to the bit."""

    totals: list

    def sample(self, asks):
        rows = self.rows
        step = len(self.totals)
        chosen = np.array([int.from_bytes(row[1:3].tobytes(), "little") // 7 % 3 == step % 3 for row in rows])
        return [chosen & (rows[:, 0] != MARK)]

    def exchange(self, asks):
        total = super().exchange(asks)
        if "count" in asks[0].names:
            # a private fit has noise here, and everything that follows is its consequence
            total["count"][:], total["targets"][:] = 300.0, 140.0
        else:
            self.totals.append(b"".join(array.tobytes() for array in asks[0].arrays.values()))
        return total


def totals_of(monkeypatch, model, rows, labels):
    recorded = Recorded()
    recorded.rows, recorded.totals = rows, []
    monkeypatch.setattr(type(model), "_channel", lambda self, *arguments: recorded)
    model.fit(rows, labels)
    return recorded.totals


def convolution():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layer = nn.GRU(8, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(self.inner(x.reshape(len(x), 8, 8))[0][:, -1])


def classifier(**settings):
    return PrivateBayesianClassifier(epsilon=math.inf, sampling_rate=0.3, epochs=1.8, classes=(0, 1), **settings)


MODELS = {
    "perceptron": lambda: classifier(hidden=(20,)),
    "per layer": lambda: classifier(hidden=(20, 5), per_layer=True),
    "scattering": lambda: classifier(hidden=(), features="scattering"),
    "convolution": lambda: classifier(module=convolution()),
    "recurrent": lambda: classifier(module=Recurrent()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_unit_that_is_not_sampled_leaves_every_total_as_it_is(name, monkeypatch):
    model = MODELS[name]()
    expected = totals_of(monkeypatch, model, X, Y)
    assert len(expected) == 6
    assert len(set(expected)) == 6
    for place in (0, 1, 150, 299, 300):
        found = totals_of(monkeypatch, model, with_unit(X, place), np.insert(Y, place, 1))
        assert found == expected


def test_numbers_too(monkeypatch):
    model = PrivateBayesianRegressor((9,), epsilon=math.inf, sampling_rate=0.3, epochs=1.8)
    expected = totals_of(monkeypatch, model, X, X[:, 0])
    for place in (0, 137, 300):
        assert totals_of(monkeypatch, model, with_unit(X, place), np.insert(X[:, 0], place, 1e9)) == expected


def test_the_check_would_see_a_unit_that_is_sampled(monkeypatch):
    model = MODELS["perceptron"]()
    expected = totals_of(monkeypatch, model, X, Y)
    another = np.append(0.5, UNIT[1:])
    assert totals_of(monkeypatch, model, with_unit(X, 150, another), np.insert(Y, 150, 1)) != expected
