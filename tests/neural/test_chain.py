"""An example's results in a chain are the same, to the bit, whatever other examples are in the batch."""

import copy

import pytest
import torch
from torch import nn

from tacit.neural.chain import BLOCK, Chain, _equal
from tacit.neural.gradients import classification_loss
from tacit.neural.network import perceptron


def chain_of(network, dtype=torch.float32, block=None):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn(value.shape, generator=generator, dtype=value.dtype))
    chain = Chain.of(network.eval(), dict(network.named_parameters()), dtype)
    if block is not None:
        chain = Chain(chain._parts, dtype, block)
    chain.copy_weights()
    return chain


def examples(count, width, classes):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(count, width, generator=generator), torch.randint(classes, (count,), generator=generator)


def relu(width, hidden, classes):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "block"), [(torch.float32, None), (torch.float64, None), (torch.float32, 1), (torch.float64, 1)]
)
@pytest.mark.parametrize(
    ("build", "width", "classes"),
    [
        (lambda: perceptron(25, (6,), 2, 0), 25, 2),
        (lambda: perceptron(313, (77, 5), 3, 0), 313, 3),
        (lambda: relu(40, 130, 10), 40, 10),
        (lambda: nn.Linear(3, 2), 3, 2),
        (lambda: nn.Linear(40_000, 2), 40_000, 2),  # wider than what torch gives to one thread
    ],
)
def test_results_do_not_depend_on_the_batch(build, width, classes, dtype, block):
    chain = chain_of(build(), dtype, block)
    rows, labels = examples(BLOCK + 37, width, classes)
    whole = copy.deepcopy(
        chain.forward_backward(rows, labels, classification_loss)
    )  # the next call uses its memory again
    for selection in (torch.arange(1, len(rows)), torch.tensor([BLOCK + 20]), torch.randperm(len(rows))):
        part = chain.forward_backward(rows[selection], labels[selection], classification_loss)
        assert _equal(part, whole, selection)


def test_blocks_are_single_rows_where_rows_depend_on_each_other(monkeypatch):
    network = perceptron(8, (5,), 3, 0)
    honest = Chain._block

    def leaning(self, inputs, slopes, squares, targets, loss, losses):
        honest(self, inputs, slopes, squares, targets, loss, losses)
        losses[0] += losses[-1] * 2**-40

    assert chain_of(network).block == BLOCK
    monkeypatch.setattr(Chain, "_block", leaning)
    assert chain_of(network).block == 1


@pytest.mark.parametrize("block", [None, 1])
def test_losses_slopes_and_norms_are_those_of_autograd(block):
    network = relu(7, 9, 4).double()
    chain = chain_of(network, torch.float64, block)
    rows, labels = examples(11, 7, 4)
    scores = network(rows.double())
    losses = classification_loss(scores, labels)
    (slopes,) = torch.autograd.grad(losses.sum(), scores, retain_graph=True)
    passed = chain.forward_backward(rows, labels, classification_loss)
    assert torch.allclose(passed.losses, losses.detach(), rtol=1e-12)
    assert torch.allclose(passed.slopes["2."], slopes, rtol=1e-10, atol=1e-14)
    assert torch.equal(passed.inputs["0."], rows.double())
    for k, loss in enumerate(losses):
        for name, value in network.named_parameters():
            (gradient,) = torch.autograd.grad(loss, value, retain_graph=True)
            assert float(passed.squares[name][k]) == pytest.approx(float(gradient.square().sum()), rel=1e-10)


def test_examples_are_found_by_their_places():
    chain = chain_of(relu(7, 9, 4))
    rows, labels = examples(BLOCK + 5, 7, 4)
    places = torch.tensor([BLOCK + 1, 0, 3])
    chosen = copy.deepcopy(chain.forward_backward(rows[places], labels[places], classification_loss))
    assert _equal(chain.forward_backward(rows, labels, classification_loss, places), chosen, torch.arange(3))


def test_losses_and_norms_of_a_float32_pass_are_in_float64():
    chain = chain_of(relu(7, 9, 4))
    assert chain.dtype == torch.float32
    passed = chain.forward_backward(*examples(3, 7, 4), classification_loss)
    for numbers in (passed.losses, passed.largest, *passed.squares.values()):
        assert numbers.dtype == torch.float64


def test_a_layer_that_works_in_place_is_no_part_of_a_chain():
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3))
    assert Chain.of(network, dict(network.named_parameters())) is None
