"""An example's results in a chain are the same, to the bit, whatever other examples are in the batch."""

import copy

import pytest
import torch
from torch import nn

from tacit.neural.chain import BLOCK, Chain, ForwardBackward, _equal
from tacit.neural.losses import classification_loss, regression_loss
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


@pytest.mark.parametrize(("activation", "passes"), [(nn.Tanh, "_quick_block"), (nn.GELU, "_block")])
def test_blocks_are_single_rows_where_rows_depend_on_each_other(monkeypatch, activation, passes):
    network = nn.Sequential(nn.Linear(8, 5), activation(), nn.Linear(5, 3))
    honest = getattr(Chain, passes)

    def leaning(self, inputs, slopes, squares, targets, loss, losses):
        honest(self, inputs, slopes, squares, targets, loss, losses)
        losses[0] += losses[-1] * 2**-40

    assert chain_of(network).block == BLOCK
    monkeypatch.setattr(Chain, passes, leaning)
    assert chain_of(network).block == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("loss", [classification_loss, regression_loss])
@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Linear(7, 4),
        lambda: nn.Sequential(nn.Linear(7, 9), nn.Linear(9, 4)),
        lambda: nn.Sequential(
            nn.Linear(7, 20), nn.Tanh(), nn.Dropout(), nn.Linear(20, 9), nn.Sigmoid(), nn.Linear(9, 4)
        ),
        lambda: nn.Sequential(nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 4, bias=False)),
        lambda: nn.Sequential(nn.Linear(7, 5), nn.Sigmoid(), nn.Tanh(), nn.Linear(5, 4)),
    ],
)
def test_quick_blocks_give_what_autograd_gives(build, loss, dtype, monkeypatch):
    chain = chain_of(build(), dtype)
    rows, labels = examples(50, 7, 4)
    targets = labels if loss is classification_loss else torch.randn(50, 4, generator=torch.Generator().manual_seed(5))
    quick = copy.deepcopy(chain.forward_backward(rows, targets, loss))
    monkeypatch.setattr(Chain, "_quick_block", Chain._block)
    slow = chain.forward_backward(rows, targets, loss)
    close = {"rtol": 1e-11, "atol": 1e-13} if dtype is torch.float64 else {"rtol": 2e-5, "atol": 5e-6}
    torch.testing.assert_close(quick.losses, slow.losses, **close)
    for name in chain.layers:
        torch.testing.assert_close(quick.inputs[name], slow.inputs[name], **close)
        torch.testing.assert_close(quick.slopes[name], slow.slopes[name], **close)
    for name, squares in quick.squares.items():
        torch.testing.assert_close(squares, slow.squares[name], **close)


def test_the_perceptron_passes_without_autograd(monkeypatch):
    chain = chain_of(perceptron(7, (9, 5), 4, 0))
    monkeypatch.setattr(Chain, "_block", None)  # whoever calls it fails
    passed = chain.forward_backward(*examples(5, 7, 4), classification_loss)
    assert (passed.losses > 0).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 1e38])
def test_a_row_that_is_not_finite_does_not_affect_the_others(bad):
    chain = chain_of(perceptron(7, (9,), 4, 0))
    rows, labels = examples(20, 7, 4)
    whole = copy.deepcopy(chain.forward_backward(rows, labels, classification_loss))
    others = [place for place in range(20) if place != 6]
    rows[6, 2] = bad
    part = chain.forward_backward(rows, labels, classification_loss)
    assert _equal(ForwardBackward(*(of_places(kept, others) for kept in fields_of(part))), whole, torch.tensor(others))


def fields_of(passed):
    return passed.inputs, passed.slopes, passed.squares, passed.largest, passed.losses


def of_places(kept, places):
    if isinstance(kept, dict):
        return {name: numbers[places] for name, numbers in kept.items()}
    return kept[places]


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
