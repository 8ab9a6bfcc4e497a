"""Clipped totals are those of single examples, one by one, whichever way they are computed."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tacit.neural.chain import Chain
from tacit.neural.gradients import Learner
from tacit.neural.network import perceptron


def examples(n=7, width=6, classes=3):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(n, width, generator=generator, dtype=torch.float64)
    return rows, torch.randint(classes, (n,), generator=generator)


def stirred(network):
    """A network away from its start, whose last layer is zero."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.3 * torch.randn(value.shape, generator=generator, dtype=value.dtype))
    return network


def one_by_one(learner, rows, labels, clip):
    totals = dict.fromkeys(learner.groups, 0.0)
    for row, label in zip(rows, labels, strict=True):
        loss = cross_entropy(learner.network(row[None]), label[None])
        names = list(learner.parameters)
        found = dict(zip(names, torch.autograd.grad(loss, [learner.parameters[name] for name in names]), strict=True))
        for group, members in learner.groups.items():
            flat = torch.cat([found[name].flatten() for name in members])
            totals[group] = totals[group] + flat * min(1.0, clip / max(float(flat.norm()), 1e-300))
    return totals


def convolution():
    return nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3))


class Shared(nn.Module):
    """The same layer twice: its gradient is no outer product."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.outer = nn.Linear(6, 3)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


def all_sorts():
    """Functions that are not zero at zero, where the padding is."""
    return nn.Sequential(
        nn.Linear(6, 17), nn.Sigmoid(), nn.Linear(17, 5), nn.Softplus(), nn.Dropout(0.5), nn.GELU(), nn.Linear(5, 3)
    )


def twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(6, 3))


def tied():
    """Two layers with one matrix."""
    network = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 3))
    network[2].weight = network[0].weight
    return network


def tied_chain():
    network = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 3))
    network[2].weight = network[0].weight
    return network


class Doubled(nn.Linear):
    """Looks like a fully connected layer, and is not."""

    def forward(self, x):
        return 2 * super().forward(x)


NETWORKS = {
    "linear": lambda: perceptron(6, (), 3, 0),
    "two hidden layers": lambda: perceptron(6, (5, 4), 3, 0),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3)),
    "convolution": convolution,
    "shared layer": Shared,
    "a bare layer": lambda: nn.Linear(6, 3),
    "all sorts": all_sorts,
    "the same layer in two places": twice,
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)),
    "one matrix in two layers": tied,
    "a chain with one matrix in two layers": tied_chain,
    "a layer of its own kind": lambda: nn.Sequential(Doubled(6, 5), nn.Tanh(), nn.Linear(5, 3)),
}


@pytest.fixture
def float64(monkeypatch):
    """Make chains compute as they do where rows do not stand alone."""
    monkeypatch.setattr(Chain, "rows_stand_alone", lambda self: False)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("clip", [0.2, 100.0])
def test_totals_are_those_of_single_examples(name, per_layer, clip):
    learner = Learner(stirred(NETWORKS[name]().double().eval()), per_layer=per_layer)
    rows, labels = examples()
    totals, losses = learner.clipped_totals(rows, labels, clip)
    expected = one_by_one(learner, rows, labels, clip)
    assert set(totals) == set(expected)
    for group, total in totals.items():
        assert torch.allclose(total, expected[group], rtol=1e-10, atol=1e-13)
    assert torch.allclose(losses, cross_entropy(learner.network(rows), labels, reduction="none"))


@pytest.mark.parametrize("name", ["linear", "two hidden layers", "no bias", "a bare layer", "all sorts"])
def test_totals_in_float32_differ_by_its_rounding(name, monkeypatch):
    monkeypatch.setattr(Chain, "rows_stand_alone", lambda self: True)
    learner = Learner(stirred(NETWORKS[name]().double().eval()))
    assert learner._chain.dtype == torch.float32
    rows, labels = examples(300)
    totals, _ = learner.clipped_totals(rows, labels, 0.2)
    expected = one_by_one(learner, rows, labels, 0.2)["gradient"]
    assert totals["gradient"].dtype == torch.float64
    assert 0 < float((totals["gradient"] - expected).norm()) < 1e-5 * float(expected.norm())


def test_which_networks_take_the_quick_way():
    quick = {name for name, build in NETWORKS.items() if Learner(build().double())._chain is not None}
    assert quick == {"linear", "two hidden layers", "no bias", "a bare layer", "all sorts"}


def test_one_example_moves_a_total_by_no_more_than_the_clipping_norm():
    learner = Learner(stirred(perceptron(6, (5,), 3, 0)))
    rows, labels = examples()
    rows[-1] *= 1e6
    whole, _ = learner.clipped_totals(rows, labels, 0.5)
    without, _ = learner.clipped_totals(rows[:-1], labels[:-1], 0.5)
    assert float((whole["gradient"] - without["gradient"]).norm()) <= 0.5 * (1 + 1e-12)


@pytest.mark.usefixtures("float64")
def test_frozen_parameters_stay_out():
    network = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    network[0].requires_grad_(False)
    learner = Learner(network)
    rows, labels = examples()
    totals, _ = learner.clipped_totals(rows, labels, 1.0)
    assert totals["gradient"].shape == (learner.size,) == (18,)
    expected = one_by_one(learner, rows, labels, 1.0)
    assert torch.allclose(totals["gradient"], expected["gradient"], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("build", NETWORKS.values())
def test_new_weights_are_used_after_gradients_were_taken(build):
    learner = Learner(stirred(build().double().eval()))
    rows, labels = examples()
    learner.clipped_totals(rows, labels, 1.0)
    before = learner.scores(rows)
    learner.set_weights(1.5 * learner.weights())
    assert not torch.allclose(learner.scores(rows), before)
    _, losses = learner.clipped_totals(rows, labels, 1.0)
    assert torch.allclose(losses, cross_entropy(learner.scores(rows), labels, reduction="none"), rtol=1e-4)


def test_an_empty_sample_has_a_total_of_zero():
    for build in NETWORKS.values():
        learner = Learner(build().double().eval())
        totals, losses = learner.clipped_totals(*examples(0), 1.0)
        assert float(totals["gradient"].abs().sum()) == 0.0
        assert totals["gradient"].shape == (learner.size,)
        assert len(losses) == 0


def test_weights_go_in_as_they_came_out():
    learner = Learner(perceptron(6, (5, 4), 3, 0), per_layer=True)
    vector = torch.arange(learner.size, dtype=torch.float64)
    learner.set_weights(vector)
    assert torch.equal(learner.weights(), vector)


@pytest.mark.usefixtures("float64")
def test_the_totals_of_opacus_are_the_same():
    opacus = pytest.importorskip("opacus", reason="opacus is not installed")
    learner = Learner(stirred(perceptron(6, (5,), 3, 0)))
    rows, labels = examples()
    wrapped = opacus.GradSampleModule(stirred(perceptron(6, (5,), 3, 0)), loss_reduction="sum")
    cross_entropy(wrapped(rows), labels, reduction="sum").backward()
    single = torch.cat([value.grad_sample.flatten(1) for value in wrapped.parameters()], dim=1)
    expected = (single * (0.2 / single.norm(dim=1)).clamp(max=1.0)[:, None]).sum(dim=0)
    totals, _ = learner.clipped_totals(rows, labels, 0.2)
    assert torch.allclose(totals["gradient"], expected, rtol=1e-8, atol=1e-12)
