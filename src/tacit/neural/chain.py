r"""Chains of fully connected layers, run so that an example's numbers do not depend on the rest of the batch.

A matrix product may round a row differently depending on its position and on the number of rows. If one example were
added or removed, the numbers of all others would then change slightly, and at a kink (ReLU) more than slightly; the bound
on one example's gradient does not cover that. Here all products have one shape: blocks of `BLOCK` rows, with all widths
padded with zeros to multiples of `LANES`, so that every row goes through the same instructions. Whether this makes rows
independent of their position and of each other is checked bit for bit, on random rows, for every network on the machine
that runs it (`Chain.is_batch_invariant`). Where it does not, a block is one row.

Threads do whole blocks (`tacit.neural.threads`), so a block's products are the same on any number of them.

The forward and backward passes are in float32. Losses and norms are computed from their results in float64.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit.errors import Undisclosed
from tacit.neural.loops import RELU, SIGMOID, TANH, add_row_squares, pass_backward, pass_forward, put_rows
from tacit.neural.losses import COMPILED, Loss, regression_loss
from tacit.neural.threads import copy_rows, run_pieces

BLOCK, LANES = 320, 16
"""Rows per product, and the multiple to which widths are padded: 16 float32 numbers fill the widest vector registers. Set by
hand: with 160 to 320 rows, steps of 400 to 3,000 MNIST images were timed. They affect speed only."""

SIMPLE = (
    nn.Linear,
    nn.Tanh,
    nn.ReLU,
    nn.Sigmoid,
    nn.GELU,
    nn.SiLU,
    nn.ELU,
    nn.LeakyReLU,
    nn.Softplus,
    nn.Identity,
    nn.Dropout,
)
"""The layers of a chain. In evaluation mode all but the first work entry by entry."""

QUICK: dict[type[nn.Module], int] = {nn.Tanh: TANH, nn.Sigmoid: SIGMOID, nn.ReLU: RELU}
"""Those that the compiled loops know."""


@dataclass(frozen=True, repr=False)
class ForwardBackward(Undisclosed):
    """Results of a forward and a backward pass, one row per example.

    Attributes
    ----------
    inputs, slopes : dict of str to tensor of shape (n_examples, width)
        By layer: what goes into it, and the gradient of the loss with respect to what comes out of it; in the precision of
        the passes.
    squares : dict of str to tensor of shape (n_examples,)
        By parameter: the squared norm of the example's gradient, in float64.
    largest : tensor of shape (n_examples,)
        The largest squared norm of these inputs and slopes, in float64.
    losses : tensor of shape (n_examples,)
        In float64.
    """

    inputs: dict[str, torch.Tensor]
    slopes: dict[str, torch.Tensor]
    squares: dict[str, torch.Tensor]
    largest: torch.Tensor
    losses: torch.Tensor


class Chain:
    """A copy of a chain of layers, with padded widths.

    Parameters
    ----------
    parts : dict of str to torch.nn.Module
        The layers in order, by the prefix of their parameters' names.
    dtype : torch.dtype
        Of the forward and backward passes.
    block : int
        Number of rows that pass together.
    """

    def __init__(self, parts: dict[str, nn.Module], dtype: torch.dtype = torch.float32, block: int = BLOCK) -> None:
        self.layers = {prefix: part for prefix, part in parts.items() if isinstance(part, nn.Linear)}
        self.dtype, self.block = dtype, block
        self._parts = parts
        widths = [layer.in_features for layer in self.layers.values()]
        self._outputs = list(self.layers.values())[-1].out_features
        self._widths = np.array([*widths, self._outputs])
        self._ends = [_padded(int(width)) for width in self._widths]
        self._weights = [
            torch.zeros(after, before, dtype=dtype) for before, after in zip(self._ends, self._ends[1:], strict=False)
        ]
        self._biases = [torch.zeros(after, dtype=dtype) for after in self._ends[1:]]
        self._arrays = (
            tuple(weight.numpy() for weight in self._weights),
            tuple(bias.numpy() for bias in self._biases),
        )
        self._memory: dict[str, torch.Tensor] = {}
        self._activations = _activations(parts)

    @classmethod
    def of(
        cls, network: nn.Module, parameters: Mapping[str, torch.Tensor], dtype: torch.dtype = torch.float32
    ) -> Chain | None:
        """Return the chain if the network is one: only layers in `SIMPLE`, each used once, without shared parameters.

        Subclasses of these layers may compute something else, and in-place layers overwrite what is still needed: a
        network with either is not a chain.
        """
        if type(network) is nn.Linear:
            parts: dict[str, nn.Module] = {"": network}
        elif type(network) is nn.Sequential and all(type(part) in SIMPLE for part in network):
            parts = {f"{name}.": part for name, part in network.named_children()}
            if len(parts) < len(network):
                return None
        else:
            return None
        held = [id(value) for part in parts.values() for value in part.parameters()]
        if not parameters or len(set(held)) < len(held):
            return None
        if any(getattr(part, "inplace", False) for part in parts.values()):
            return None
        return cls(parts, dtype, BLOCK if cls(parts, dtype).is_batch_invariant() else 1)

    def copy_weights(self) -> None:
        """Take over the layers' current weights."""
        for layer, weight, bias in zip(self.layers.values(), self._weights, self._biases, strict=True):
            place = weight[: layer.out_features, : layer.in_features]
            copy_rows(layer.weight.detach().numpy(), place.numpy())
            if layer.bias is not None:
                bias[: layer.out_features] = layer.bias.detach()

    def forward_backward(
        self, rows: torch.Tensor, targets: torch.Tensor, loss: Loss, some: torch.Tensor | None = None
    ) -> ForwardBackward:
        """Run the rows, or those at the places `some`, forward and backward, with the weights of the last `copy_weights`.

        The results are kept in memory that the next call overwrites: fresh memory would take as long as the backward pass.
        They are laid out block by block, so that every block begins at a multiple of the width of vector registers.
        """
        given = targets if some is None else targets[some]
        count = len(given)
        whole = -(-count // self.block) * self.block
        inputs = [
            self.memory(f"inputs {place}", (whole, width), self.dtype) for place, width in enumerate(self._ends[:-1])
        ]
        slopes = [
            self.memory(f"slopes {place}", (whole, width), self.dtype) for place, width in enumerate(self._ends[1:])
        ]
        squares = np.zeros((len(inputs), 2, whole))  # of the inputs, and of the slopes
        losses = np.zeros(whole)
        padded_targets = targets.new_zeros(whole, *targets.shape[1:]).numpy()
        padded_targets[:count] = given
        # threads hold Python's global lock for a shorter time with slices of NumPy than with those of torch
        given_rows = rows.numpy()
        into, outof = (tuple(numbers.numpy() for numbers in kept) for kept in (inputs, slopes))
        places = np.arange(count) if some is None else some.numpy()
        quick = self._activations is not None and loss in COMPILED
        pass_block = self._quick_block if quick else self._block

        def run(piece: int) -> None:
            start = piece * self.block
            place = slice(start, start + self.block)
            put_rows(given_rows, places[place], into[0][place])
            pass_block(
                tuple(numbers[place] for numbers in into),
                tuple(numbers[place] for numbers in outof),
                squares[:, :, place],
                padded_targets[place],
                loss,
                losses[place],
            )

        run_pieces(run, whole // self.block, compiled=quick)
        squares = squares[:, :, :count]
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal that an example has such numbers
            products = squares[:, 0] * squares[:, 1]
            largest = torch.from_numpy(squares.max(axis=(0, 1)))
        results = ForwardBackward({}, {}, {}, largest, torch.from_numpy(losses[:count]))
        for place, (name, layer) in enumerate(self.layers.items()):
            # one example's gradient is the outer product of g and a (for the bias: g), so its norm is |g| |a| (or |g|)
            results.inputs[name] = inputs[place][:count, : layer.in_features]
            results.slopes[name] = slopes[place][:count, : layer.out_features]
            results.squares[f"{name}weight"] = torch.from_numpy(products[place])
            results.squares[f"{name}bias"] = torch.from_numpy(squares[place, 1])
        return results

    def memory(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Return memory that is used again under the same name; its numbers are arbitrary."""
        size = math.prod(shape)
        if name not in self._memory or self._memory[name].numel() < size or self._memory[name].dtype is not dtype:
            self._memory[name] = torch.empty(size, dtype=dtype)
        return self._memory[name][:size].view(shape)

    def padded_inputs(self, layer: str, count: int) -> NDArray[np.floating]:
        """Return what went into a layer in the last pass, with its padding, for a number of examples."""
        place = list(self.layers).index(layer)
        return self.memory(f"inputs {place}", (count, self._ends[place]), self.dtype).numpy()

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        """Run rows forward, with the weights of the last `copy_weights`; return scores in float64."""
        scores = torch.empty(len(rows), self._outputs, dtype=torch.float64)

        def run(piece: int) -> None:
            place = slice(piece * self.block, min((piece + 1) * self.block, len(rows)))
            padded = [torch.zeros(self.block, width, dtype=self.dtype) for width in self._ends[:-1]]
            put_rows(rows.numpy(), np.arange(place.start, place.stop), padded[0].numpy())
            with torch.no_grad():
                scores[place] = self._forward(padded)[1][: place.stop - place.start, : self._outputs].double()

        run_pieces(run, -(-len(rows) // self.block))
        return scores

    def is_batch_invariant(self) -> bool:
        """Return whether random rows give the same bits in another order and among other rows, with random weights."""
        draw = torch.Generator().manual_seed(0)
        for numbers in (*self._weights, *self._biases):
            numbers.copy_(torch.randn(numbers.shape, generator=draw) / numbers.shape[-1] ** 0.5)
        rows = torch.randn(self.block, next(iter(self.layers.values())).in_features, generator=draw)
        targets = torch.randn(self.block, self._outputs, generator=draw)

        loss = regression_loss
        whole = copy.deepcopy(self.forward_backward(rows, targets, loss))  # the next call uses its memory again
        selections = [
            torch.arange(1, self.block),
            torch.arange(1),
            torch.randperm(self.block, generator=draw),
            torch.arange(0, self.block, 3),
        ]
        return all(_equal(self.forward_backward(rows, targets, loss, some), whole, some) for some in selections)

    def _block(
        self,
        inputs: tuple[NDArray[np.floating], ...],
        slopes: tuple[NDArray[np.floating], ...],
        squares: NDArray[np.float64],
        targets: NDArray[np.generic],
        loss: Loss,
        losses: NDArray[np.float64],
    ) -> None:
        """Run one block, whose rows are in the first of `inputs`, and put its results into the other arguments.

        Everything that is computed from an example has the same shape, however many rows there are.
        """
        with torch.enable_grad():
            outputs, last = self._forward([torch.from_numpy(numbers) for numbers in inputs])
            of_rows = loss(last[:, : self._outputs].double(), torch.from_numpy(targets))
            gradients = torch.autograd.grad(of_rows.sum(), outputs)
        losses[:] = of_rows.detach().numpy()
        for layer, a, g, kept, both in zip(self.layers.values(), inputs, gradients, slopes, squares, strict=True):
            kept[:] = g.numpy()
            add_row_squares(a, layer.in_features, both[0])
            add_row_squares(kept, layer.out_features, both[1])

    def _quick_block(
        self,
        inputs: tuple[NDArray[np.floating], ...],
        slopes: tuple[NDArray[np.floating], ...],
        squares: NDArray[np.float64],
        targets: NDArray[np.generic],
        loss: Loss,
        losses: NDArray[np.float64],
    ) -> None:
        """Do what `_block` does without autograd, which takes longer than the products of narrow layers.

        The memory of the slopes holds a layer's outputs before.
        """
        assert self._activations is not None
        weights, biases = self._arrays
        pass_forward(inputs, slopes, weights, biases, self._activations, self.dtype is torch.float32)
        COMPILED[loss](slopes[-1], targets, self._outputs, losses)
        pass_backward(inputs, slopes, weights, self._activations, self._widths, squares)

    def _forward(self, inputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Run the block in the first of `inputs` and put what goes into the other layers into the others.

        Return what comes out of the fully connected layers, and the scores; all padded.
        """
        current = inputs[0]
        outputs: list[torch.Tensor] = []
        for name, part in self._parts.items():
            if name in self.layers:
                place = len(outputs)
                if place:
                    inputs[place].copy_(current.detach())
                current = torch.addmm(self._biases[place], current, self._weights[place].T)
                if not outputs:  # the weights take no gradient here, so the first output has no history: start one
                    current.requires_grad_()
                outputs.append(current)
            else:
                current = part(current)
        return outputs, current


def _activations(parts: dict[str, nn.Module]) -> NDArray[np.int64] | None:
    """Return what stands between the fully connected layers, if that is one function of `QUICK` each, and nothing else."""
    types = [type(part) for part in parts.values() if type(part) not in (nn.Identity, nn.Dropout)]
    between = types[1::2]
    if (
        any(kind is not nn.Linear for kind in types[::2])
        or len(types) % 2 == 0
        or not all(kind in QUICK for kind in between)
    ):
        return None
    return np.array([QUICK[kind] for kind in between], dtype=np.int64)


def _padded(width: int) -> int:
    return -(-width // LANES) * LANES


def _equal(part: ForwardBackward, whole: ForwardBackward, selection: torch.Tensor) -> bool:
    """Return whether the results of some rows are, bit for bit, those that they had among all rows."""
    pairs = [(part.losses, whole.losses), (part.largest, whole.largest)]
    for some, every in ((part.inputs, whole.inputs), (part.slopes, whole.slopes), (part.squares, whole.squares)):
        pairs += [(some[name], every[name]) for name in every]
    return all(torch.equal(one, other[selection]) for one, other in pairs)
