r"""Clipped gradients of single examples, added up in float64.

For a fully connected layer the gradient of one example is an outer product, :math:`g a^\top` with the layer's input a
and the gradient g of its output, so its norm is :math:`|g|\,|a|` and is known without forming it. The clipped total is
then one matrix product with the rows of g scaled, :math:`\sum_i c_i g_i a_i^\top` (Goodfellow 2015). Networks with other
layers go through `torch.func`, which forms the gradients of a few examples at a time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from tacit.neural.chain import Chain, Loss

MOST_NUMBERS = 2**24
"""`torch.func` forms so many gradient entries at a time at most."""


def classification_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus the logarithm of the softmax of each label's score."""
    return cross_entropy(scores, labels, reduction="none")


def regression_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return half the squared distance of the scores from the targets."""
    return (scores - targets).square().sum(dim=1) / 2


class Learner:
    """A network seen as a vector of weights, and what examples say about it.

    Parameters
    ----------
    network : torch.nn.Module
        In float64 and evaluation mode.
    loss : callable
    per_layer : bool
        Clip the gradient of each layer by itself in place of the whole.
    """

    def __init__(self, network: nn.Module, loss: Loss = classification_loss, *, per_layer: bool = False) -> None:
        self.network, self.loss = network, loss
        self.parameters = {name: value for name, value in network.named_parameters() if value.requires_grad}
        self.per_layer = per_layer
        self.groups = _groups(self.parameters, per_layer)
        self._chain = Chain.of(network, self.parameters)
        self._places = _places(network, self.parameters)

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(value.numel() for value in self.parameters.values())

    def weights(self) -> torch.Tensor:
        """Return all weights as one vector, group by group."""
        return torch.cat([self.parameters[name].detach().flatten() for name in self._order()])

    def set_weights(self, vector: torch.Tensor) -> None:
        """Put a vector of weights into the network."""
        start = 0
        with torch.no_grad():
            for name in self._order():
                value = self.parameters[name]
                value.copy_(vector[start : start + value.numel()].reshape(value.shape))
                start += value.numel()

    def clipped_totals(
        self, rows: torch.Tensor, targets: torch.Tensor, clip: float
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Return the totals of the clipped gradients, one vector a group, and the loss of every example."""
        if not len(rows):
            return self._nothing(), torch.zeros(0, dtype=torch.float64)
        if self._chain is not None:
            return self._by_outer_products(rows, targets, clip, self._chain)
        return self._by_single_examples(rows.double(), targets, clip)

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the network's outputs."""
        with torch.no_grad():
            output: torch.Tensor = self.network(rows)
            return output

    def _order(self) -> list[str]:
        return [name for names in self.groups.values() for name in names]

    def _size_of(self, names: list[str]) -> int:
        return sum(self.parameters[name].numel() for name in names)

    def _nothing(self) -> dict[str, torch.Tensor]:
        return {group: torch.zeros(self._size_of(names), dtype=torch.float64) for group, names in self.groups.items()}

    def _by_outer_products(
        self, rows: torch.Tensor, targets: torch.Tensor, clip: float, chain: Chain
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        passed = chain.passed(rows, targets, self.loss)
        squares: dict[str, torch.Tensor] = {}
        for name in chain.layers:
            g, a = _squares(passed.slopes[name]), _squares(passed.inputs[name])
            squares |= {f"{name}weight": g * a, f"{name}bias": g}
        factors = {
            group: _clip_factors(torch.stack([squares[name] for name in names]).sum(dim=0), clip)
            for group, names in self.groups.items()
        }
        # a layer's weights and bias are clipped together
        for group, names in self.groups.items():
            for layer in {_split(name)[0] for name in names}:
                passed.slopes[layer].mul_(factors[group][:, None])
        totals = self._nothing()
        for group, names in self.groups.items():
            start = 0
            for name in names:
                layer, kind = _split(name)
                scaled, shape = passed.slopes[layer], self.parameters[name].shape
                place = totals[group][start : start + shape.numel()].view(shape)
                start += shape.numel()
                if kind == "weight":
                    torch.mm(scaled.T, passed.inputs[layer], out=place)
                else:
                    torch.sum(scaled, dim=0, out=place)
        return totals, passed.losses

    def _by_single_examples(
        self, rows: torch.Tensor, targets: torch.Tensor, clip: float
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        learned = {name: value.detach() for name, value in self.parameters.items()}

        def loss(weights: dict[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            placed = {place: weights[name] for place, name in self._places.items()}
            scores = functional_call(self.network, placed, (row[None],), tie_weights=False)
            return self.loss(scores, target[None])[0]

        single = vmap(grad_and_value(loss), in_dims=(None, 0, 0))
        chunk = max(1, MOST_NUMBERS // self.size)
        totals = self._nothing()
        losses = []
        for start in range(0, len(rows), chunk):
            gradients, values = single(learned, rows[start : start + chunk], targets[start : start + chunk])
            losses.append(values.detach())
            for group, names in self.groups.items():
                flat = torch.cat([gradients[name].flatten(1) for name in names], dim=1)
                totals[group] += _clip_factors(flat.square().sum(dim=1), clip) @ flat
        return totals, torch.cat(losses)


def _clip_factors(squares: torch.Tensor, clip: float) -> torch.Tensor:
    norms = squares.sqrt()
    return torch.where(norms > clip, clip / norms, torch.ones_like(norms))


def _groups(parameters: dict[str, Any], per_layer: bool) -> dict[str, list[str]]:
    """Return the names of the parameters that are clipped together, by the name under which their sum is asked for."""
    if not per_layer:
        return {"gradient": list(parameters)}
    groups: dict[str, list[str]] = {}
    for name in parameters:
        layer = name.rpartition(".")[0] or "network"
        groups.setdefault(f"layer_{layer.replace('.', '_')}", []).append(name)
    return groups


def _places(network: nn.Module, parameters: dict[str, Any]) -> dict[str, str]:
    """Return every place at which a module holds a learned parameter, and the parameter's name.

    Torch finds tied parameters by itself, but where one module stands in two places it puts back the wrong one afterwards.
    """
    names = {id(value): name for name, value in parameters.items()}
    return {
        f"{prefix}.{kind}" if prefix else kind: names[id(value)]
        for prefix, module in network.named_modules()
        for kind, value in module.named_parameters(recurse=False)
        if id(value) in names
    }


def _split(name: str) -> tuple[str, str]:
    layer, _, kind = name.rpartition(".")
    return (f"{layer}." if layer else ""), kind


def _squares(rows: torch.Tensor) -> torch.Tensor:
    """Return the squared norm of every row."""
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms.square()
