"""An example's numbers are the same, to the bit, whoever else is in the batch."""

import copy

import pytest
import torch
from torch import nn

from tacit.neural.chain import BLOCK, Chain, _equal
from tacit.neural.gradients import _squares, classification_loss
from tacit.neural.network import perceptron


def chain_of(network, dtype=None):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn(value.shape, generator=generator, dtype=value.dtype))
    found = Chain.of(network.eval(), dict(network.named_parameters()))
    return found if dtype is None else Chain(found._parts, dtype)


def examples(count, width, classes):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(count, width, generator=generator), torch.randint(classes, (count,), generator=generator)


def relu(width, hidden, classes):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("build", "width", "classes"),
    [
        (lambda: perceptron(25, (6,), 2, 0), 25, 2),
        (lambda: perceptron(313, (77, 5), 3, 0), 313, 3),
        (lambda: relu(40, 130, 10), 40, 10),
        (lambda: nn.Linear(3, 2), 3, 2),
    ],
)
def test_company_does_not_matter(build, width, classes, dtype):
    chain = chain_of(build(), dtype)
    if not Chain(chain._parts, chain.dtype).rows_stand_alone():
        pytest.skip("this machine rounds a row by where it stands, which is seen before a fit")
    rows, labels = examples(2 * BLOCK + 37, width, classes)
    whole = copy.deepcopy(chain.passed(rows, labels, classification_loss))
    for way in (torch.arange(1, len(rows)), torch.tensor([BLOCK + 20]), torch.randperm(len(rows))):
        part = chain.passed(rows[way], labels[way], classification_loss)
        assert _equal(part, whole, way)
        for name in chain.layers:  # the norms by which examples are clipped
            assert torch.equal(_squares(part.slopes[name]), _squares(whole.slopes[name])[way])
            assert torch.equal(_squares(part.inputs[name]), _squares(whole.inputs[name])[way])


def test_the_look_at_the_machine_sees_rows_that_lean_on_others(monkeypatch):
    network = perceptron(8, (5,), 3, 0)
    honest = Chain._block

    def leaning(self, rows, targets, loss):
        found = honest(self, rows, targets, loss)
        found.losses[0] += found.losses[-1] * 2**-40
        return found

    monkeypatch.setattr(Chain, "_block", leaning)
    assert chain_of(network).dtype == torch.float64
    monkeypatch.setattr(Chain, "rows_stand_alone", lambda self: True)
    assert chain_of(network).dtype == torch.float32


def test_losses_and_slopes_are_those_of_autograd():
    network = relu(7, 9, 4).double()
    chain = chain_of(network, torch.float64)
    rows, labels = examples(11, 7, 4)
    scores = network(rows.double()).detach().requires_grad_()
    losses = classification_loss(scores, labels)
    (slopes,) = torch.autograd.grad(losses.sum(), scores)
    found = chain.passed(rows, labels, classification_loss)
    assert torch.allclose(found.losses, losses.detach(), rtol=1e-12)
    assert torch.allclose(found.slopes["2."], slopes, rtol=1e-10, atol=1e-14)
    assert torch.equal(found.inputs["0."], rows.double())
