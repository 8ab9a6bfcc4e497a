r"""Clipped gradients of single examples, added up.

For a fully connected layer the gradient of one example is an outer product, :math:`g a^\top` with the layer's input a
and the gradient g of its output, so its norm is :math:`|g|\,|a|` and is known without forming it. The clipped total is
then one matrix product with the rows of g scaled, :math:`\sum_i c_i g_i a_i^\top` (Goodfellow 2015). Networks with other
layers go through `torch.func`, which forms the gradients of a few examples at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Of scores (n, n_outputs) and targets (n or n, n_outputs): one number an example."""

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
        self._layers = _plain_layers(network, self.parameters)

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
            empty = {group: rows.new_zeros(self._size_of(names)) for group, names in self.groups.items()}
            return empty, rows.new_zeros(0)
        if self._layers is not None:
            return self._by_outer_products(rows, targets, clip, self._layers)
        return self._by_single_examples(rows, targets, clip)

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the network's outputs."""
        with torch.no_grad():
            output: torch.Tensor = self.network(rows)
            return output

    def _order(self) -> list[str]:
        return [name for names in self.groups.values() for name in names]

    def _size_of(self, names: list[str]) -> int:
        return sum(self.parameters[name].numel() for name in names)

    def _by_outer_products(
        self, rows: torch.Tensor, targets: torch.Tensor, clip: float, layers: dict[str, nn.Linear]
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        inputs, slopes, losses = _layer_slopes(self.network, self.loss, layers, rows, targets)
        squares: dict[str, torch.Tensor] = {}
        for name, layer in layers.items():
            g, a = slopes[name].square().sum(dim=1), inputs[name].square().sum(dim=1)
            for kind, square in (("weight", g * a), ("bias", g)):
                if getattr(layer, kind) is not None and f"{name}{kind}" in self.parameters:
                    squares[f"{name}{kind}"] = square
        totals = {}
        for group, names in self.groups.items():
            factor = _clip_factors(torch.stack([squares[name] for name in names]).sum(dim=0), clip)
            parts = []
            for name in names:
                layer_name, kind = _split(name)
                scaled = slopes[layer_name] * factor[:, None]
                parts.append((scaled.T @ inputs[layer_name]).flatten() if kind == "weight" else scaled.sum(dim=0))
            totals[group] = torch.cat(parts)
        return totals, losses

    def _by_single_examples(
        self, rows: torch.Tensor, targets: torch.Tensor, clip: float
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        learned = {name: value.detach() for name, value in self.parameters.items()}

        def loss(weights: dict[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return self.loss(functional_call(self.network, weights, (row[None],)), target[None])[0]

        single = vmap(grad_and_value(loss), in_dims=(None, 0, 0))
        chunk = max(1, MOST_NUMBERS // self.size)
        totals = {group: rows.new_zeros(self._size_of(names)) for group, names in self.groups.items()}
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


def _split(name: str) -> tuple[str, str]:
    layer, _, kind = name.rpartition(".")
    return (f"{layer}." if layer else ""), kind


def _plain_layers(network: nn.Module, parameters: dict[str, Any]) -> dict[str, nn.Linear] | None:
    """Return the fully connected layers by prefix, if they hold all parameters and each is used once, on vectors."""
    layers = {
        (f"{name}." if name else ""): layer for name, layer in network.named_modules() if isinstance(layer, nn.Linear)
    }
    if not isinstance(network, nn.Sequential | nn.Linear):  # elsewhere a layer may be used twice, or on several vectors
        return None
    if isinstance(network, nn.Sequential) and not all(isinstance(part, SIMPLE) for part in network):
        return None
    if len({id(layer) for layer in layers.values()}) != len(layers) or len(layers) != sum(
        isinstance(part, nn.Linear) for part in ([network] if isinstance(network, nn.Linear) else network)
    ):
        return None
    inside = {f"{prefix}{kind}" for prefix in layers for kind in ("weight", "bias")}
    return layers if set(parameters) <= inside else None


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
"""What a chain may be made of to take the quick way."""


def _layer_slopes(
    network: nn.Module, loss: Loss, layers: dict[str, nn.Linear], rows: torch.Tensor, targets: torch.Tensor
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]:
    """Run forward and back once; return each layer's inputs, the gradients of its outputs, and the losses."""
    inputs: dict[str, torch.Tensor] = {}
    outputs: dict[str, torch.Tensor] = {}

    def note(name: str) -> Any:
        def hook(_: nn.Module, given: Any, output: torch.Tensor) -> None:
            # the weights are frozen below, so the first output has no history: start one there
            if not output.requires_grad:
                output.requires_grad_()
            inputs[name], outputs[name] = given[0].detach(), output

        return hook

    frozen = [value for value in network.parameters() if value.requires_grad]
    handles = [layer.register_forward_hook(note(name)) for name, layer in layers.items()]
    try:
        for value in frozen:
            value.requires_grad_(False)
        with torch.enable_grad():
            losses = loss(network(rows), targets)
            slopes = torch.autograd.grad(losses.sum(), list(outputs.values()))
    finally:
        for value in frozen:
            value.requires_grad_(True)
        for handle in handles:
            handle.remove()
    return inputs, dict(zip(outputs, slopes, strict=True)), losses.detach()
