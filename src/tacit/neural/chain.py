r"""Chains of fully connected layers, run so that an example's numbers do not depend on who else is in the batch.

A product of matrices rounds a row by where it stands and by how many rows there are. Where one example comes or goes, all
others would then change a little, and at a kink (ReLU) more than a little, which no bound on one example's gradient covers.
Here all products have one shape: blocks of `BLOCK` rows, all widths padded with zeros to multiples of `LANES`. Then every
row goes through the same instructions. That this is so on the machine at hand is looked at once for every network, on
made-up rows (`Chain.rows_stand_alone`); it is what allows the passes to be in float32. Where it is not so they are in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tacit.errors import Undisclosed

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Of scores (n, n_outputs) and targets (n or n, n_outputs): one number an example."""

BLOCK, LANES = 128, 16

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
"""What a chain may be made of; all but the first work number by number, in evaluation mode."""


@dataclass(frozen=True, repr=False)
class Passed(Undisclosed):
    """What passes forward and back say of every layer, by its prefix, and of every example: one row an example."""

    inputs: dict[str, torch.Tensor]
    slopes: dict[str, torch.Tensor]
    losses: torch.Tensor


class Chain:
    """A copy of a chain of layers, padded.

    Parameters
    ----------
    parts : dict of str to torch.nn.Module
        By prefix, in order.
    dtype : torch.dtype
    """

    def __init__(self, parts: dict[str, nn.Module], dtype: torch.dtype) -> None:
        self.layers = {prefix: part for prefix, part in parts.items() if isinstance(part, nn.Linear)}
        self.dtype = dtype
        self._parts = parts
        widths = [layer.in_features for layer in self.layers.values()]
        self._outputs = list(self.layers.values())[-1].out_features
        self._ends = [_padded(width) for width in (*widths, self._outputs)]
        self._weights = [
            torch.zeros(after, before, dtype=dtype) for before, after in zip(self._ends, self._ends[1:], strict=False)
        ]
        self._kept: Passed | None = None
        self._biases = [torch.zeros(after, dtype=dtype) for after in self._ends[1:]]

    @classmethod
    def of(cls, network: nn.Module, parameters: dict[str, Any]) -> Chain | None:
        """Return the chain, if the network is one: nothing but known parts, each used once, no two sharing a parameter.

        Subclasses do not count: they may compute something else.
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
        return cls(parts, torch.float32 if cls(parts, torch.float32).rows_stand_alone() else torch.float64)

    def passed(self, rows: torch.Tensor, targets: torch.Tensor, loss: Loss) -> Passed:
        """Run forward and back, block by block, with the layers' present weights.

        The numbers come in float64; inputs and slopes in memory that the next call uses again.
        """
        self._take_weights()
        count = len(rows)
        found = self._room(count)
        for start in range(0, count, BLOCK):
            place = slice(start, start + BLOCK)
            part = self._block(rows[place], targets[place], loss)
            for name in self.layers:
                found.inputs[name][place] = part.inputs[name]
                found.slopes[name][place] = part.slopes[name]
            found.losses[place] = part.losses
        return Passed(found.inputs, found.slopes, found.losses.clone())

    def rows_stand_alone(self) -> bool:
        """Fill in made-up weights; see whether made-up rows get the same bits in another place and other company."""
        draw = torch.Generator().manual_seed(0)
        for numbers in (*self._weights, *self._biases):
            numbers.copy_(torch.randn(numbers.shape, generator=draw) / numbers.shape[-1] ** 0.5)
        rows = torch.randn(BLOCK, next(iter(self.layers.values())).in_features, generator=draw)
        aims = torch.randn(BLOCK, self._outputs, generator=draw)

        def loss(scores: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
            return (scores - given).square().sum(dim=1)

        whole = self._block(rows, aims, loss)
        ways = [
            torch.arange(1, BLOCK),
            torch.arange(1),
            torch.randperm(BLOCK, generator=draw),
            torch.arange(0, BLOCK, 3),
        ]
        return all(_equal(self._block(rows[way], aims[way], loss), whole, way) for way in ways)

    def _room(self, count: int) -> Passed:
        """Return room for so many examples; asking the system for it anew in every step would take longer than to fill it."""
        if self._kept is None or len(self._kept.losses) < count:
            most = count + count // 8
            self._kept = Passed(
                {name: torch.empty(most, one.in_features, dtype=torch.float64) for name, one in self.layers.items()},
                {name: torch.empty(most, one.out_features, dtype=torch.float64) for name, one in self.layers.items()},
                torch.empty(most, dtype=torch.float64),
            )
        return Passed(
            {name: array[:count] for name, array in self._kept.inputs.items()},
            {name: array[:count] for name, array in self._kept.slopes.items()},
            self._kept.losses[:count],
        )

    def _take_weights(self) -> None:
        with torch.no_grad():
            for layer, weight, bias in zip(self.layers.values(), self._weights, self._biases, strict=True):
                weight[: layer.out_features, : layer.in_features] = layer.weight
                if layer.bias is not None:
                    bias[: layer.out_features] = layer.bias

    def _block(self, rows: torch.Tensor, targets: torch.Tensor, loss: Loss) -> Passed:
        count = len(rows)
        current = torch.zeros(BLOCK, self._ends[0], dtype=self.dtype)
        current[:count, : rows.shape[1]] = rows
        aims = targets.new_zeros(BLOCK, *targets.shape[1:])
        aims[:count] = targets
        inputs: dict[str, torch.Tensor] = {}
        outputs: list[torch.Tensor] = []
        weights = zip(self._weights, self._biases, strict=True)
        with torch.enable_grad():
            for name, part in self._parts.items():
                if name in self.layers:
                    inputs[name] = current.detach()[:count, : self.layers[name].in_features]
                    weight, bias = next(weights)
                    current = torch.addmm(bias, current, weight.T)
                    if not outputs:  # the weights take no gradient here, so the first output has no history: start one
                        current.requires_grad_()
                    outputs.append(current)
                else:
                    current = part(current)
            losses = loss(current[:, : self._outputs].double(), aims)
            slopes = torch.autograd.grad(losses.sum(), outputs)
        cut = {
            name: slope[:count, : layer.out_features]
            for (name, layer), slope in zip(self.layers.items(), slopes, strict=True)
        }
        return Passed(inputs, cut, losses.detach()[:count])


def _padded(width: int) -> int:
    return -(-width // LANES) * LANES


def _equal(part: Passed, whole: Passed, way: torch.Tensor) -> bool:
    pairs = [(part.losses, whole.losses)]
    pairs += [(part.inputs[name], whole.inputs[name]) for name in whole.inputs]
    pairs += [(part.slopes[name], whole.slopes[name]) for name in whole.slopes]
    return all(torch.equal(one, other[way]) for one, other in pairs)
