"""Networks that can be built, and networks that are refused before any charge."""

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import InvalidInputError
from tacit.neural import PrivateBayesianClassifier
from tacit.neural.network import perceptron, prepared


def with_layer(layer):
    return nn.Sequential(nn.Linear(4, 3), layer, nn.Linear(3, 2))


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.BatchNorm1d(3), "BatchNorm1d"),
        (nn.LazyBatchNorm1d(), "LazyBatchNorm1d"),
        (nn.SyncBatchNorm(3), "SyncBatchNorm"),
        (nn.InstanceNorm1d(3, track_running_stats=True), "InstanceNorm1d"),
    ],
)
def test_layers_that_mix_examples_are_refused_by_name(layer, name):
    with pytest.raises(InvalidInputError, match=rf"{name} at '1'.*mixes the examples.*GroupNorm"):
        prepared(with_layer(layer), 4, 2)


def test_layers_do_not_work_in_place_in_the_copy():
    module = with_layer(nn.ReLU(inplace=True))
    network = prepared(module, 4, 2)
    assert not network[1].inplace
    assert module[1].inplace
    rows = torch.randn(5, 4)
    assert torch.allclose(network(rows.double()), module(rows).double(), atol=1e-6)


@pytest.mark.parametrize("layer", [nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.Dropout(0.5), nn.Tanh()])
def test_layers_that_do_not_are_accepted(layer):
    network = prepared(with_layer(layer), 4, 2)
    assert not network.training
    assert {value.dtype for value in network.parameters()} == {torch.float64}


@pytest.mark.slow
def test_the_module_given_is_left_alone():
    module = with_layer(nn.Tanh())
    before = [value.detach().clone() for value in module.parameters()]
    rows = np.random.default_rng(0).random((40, 4))
    PrivateBayesianClassifier(module=module, epsilon=5.0, epochs=2, classes=(0, 1)).fit(rows, np.arange(40) % 2)
    assert all(torch.equal(first, second) for first, second in zip(before, module.parameters(), strict=True))
    assert module.training
    assert next(module.parameters()).dtype == torch.float32


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo):
        raise RuntimeError("not supported")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Uncopied(4, 2), "copied and converted to float64; got RuntimeError: not supported"),
        ("a network", "torch.nn.Module"),
        (nn.Linear(4, 5), "2 numbers per example.*shape .4, 5."),
        (nn.Linear(7, 2), "rows of 4 numbers"),
        (nn.Tanh(), "parameters to learn"),
        (nn.GRU(4, 2), "2 numbers per example; got an output of type tuple"),
    ],
)
def test_modules_that_cannot_be_used(module, message):
    with pytest.raises(InvalidInputError, match=message):
        prepared(module, 4, 2)


def test_a_perceptron_starts_alike_from_one_seed_and_at_even_odds():
    first, second, third = (perceptron(4, (8,), 3, seed) for seed in (1, 1, 2))
    assert torch.equal(first[0].weight, second[0].weight)
    assert not torch.equal(first[0].weight, third[0].weight)
    assert torch.equal(first(torch.ones(2, 4, dtype=torch.float64)), torch.zeros(2, 3, dtype=torch.float64))
