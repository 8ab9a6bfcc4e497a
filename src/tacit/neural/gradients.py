r"""Clipped gradients of single examples, and their totals.

For a fully connected layer the gradient of one example is an outer product, :math:`g a^\top`, of the layer's input a and
the gradient g with respect to its output, so its norm is :math:`|g|\,|a|` and is known without forming it. The clipped
total is then one matrix product with the rows of g scaled, :math:`\sum_i c_i g_i a_i^\top` (Goodfellow 2015). The gradients
of other networks are formed, for a few examples at a time by `torch.func`, or one by one by plain autograd.

Each example's gradient is converted to float64 before its norm is computed; norms, clipping and totals are in float64. A
gradient whose norm is not a finite number contributes exactly zero. Nothing that is computed for one example depends on
which other examples are in the batch: `tacit.neural.trial` checks this before a network is trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from tacit.errors import Undisclosed
from tacit.neural.chain import BLOCK, Chain, Loss

MOST_NUMBERS = 2**24
"""Largest number of gradient entries that are formed at a time (128 MB)."""


class Engine(Enum):
    """How the gradients of single examples are computed."""

    CHAIN = "outer products, for chains of fully connected layers"
    VMAP = "a block of examples at a time, by torch.func"
    ONE_BY_ONE = "one example at a time, by plain autograd"


@dataclass(frozen=True, repr=False)
class Gradients(Undisclosed):
    """Gradients of single examples.

    Attributes
    ----------
    flat : dict of str to tensor of shape (n_examples, n_weights of the group)
    squares : dict of str to tensor of shape (n_examples,)
        Their squared norms.
    losses : tensor of shape (n_examples,)
    """

    flat: dict[str, torch.Tensor]
    squares: dict[str, torch.Tensor]
    losses: torch.Tensor


def classification_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus the logarithm of the softmax of each label's score."""
    return cross_entropy(scores, labels, reduction="none")


def regression_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return half the squared distance of the scores from the targets."""
    return (scores - targets).square().sum(dim=1) / 2


class Learner:
    """A network as a vector of weights, with the clipped gradients of examples.

    Parameters
    ----------
    network : torch.nn.Module
        In float64 and evaluation mode.
    loss : callable
        Maps scores and targets to one loss per example.
    per_layer : bool
        Clip the gradient of each layer by itself instead of the whole gradient.

    Attributes
    ----------
    engine : Engine
        `Engine.ONE_BY_ONE` until `tacit.neural.trial.choose_engine` has found a faster one that is right.
    """

    def __init__(self, network: nn.Module, loss: Loss = classification_loss, *, per_layer: bool = False) -> None:
        self.network, self.loss = network, loss
        self.parameters = {name: value for name, value in network.named_parameters() if value.requires_grad}
        self.per_layer = per_layer
        self.groups = _groups(self.parameters, per_layer)
        self.engine = Engine.ONE_BY_ONE
        self.chain: Chain | None = None
        self._places = _places(network, self.parameters)

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(value.numel() for value in self.parameters.values())

    @property
    def block(self) -> int:
        """Number of examples whose gradients are computed together; it does not depend on the data."""
        return BLOCK if self.engine is Engine.CHAIN else max(1, min(BLOCK, MOST_NUMBERS // self.size))

    def use_chain(self, dtype: torch.dtype = torch.float32) -> bool:
        """Switch to outer products if the network is a chain; return whether it is one."""
        self.chain = Chain.of(self.network, self.parameters, dtype)
        if self.chain is not None:
            self.engine = Engine.CHAIN
        return self.chain is not None

    def use_formed_gradients(self, engine: Engine) -> None:
        """Switch to an engine that forms every example's gradient."""
        self.engine, self.chain = engine, None

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
        """Add up the clipped gradients of the examples.

        Returns
        -------
        totals : dict of str to tensor of shape (n_weights of the group,)
            By group of parameters that are clipped together.
        losses : tensor of shape (n_examples,)
            NaN for an example whose gradient is not finite, which contributes zero to the totals.
        """
        totals = {group: torch.zeros(self._size_of(names), dtype=torch.float64) for group, names in self.groups.items()}
        losses = [torch.zeros(0, dtype=torch.float64)]
        if self.chain is not None:
            self.chain.copy_weights()
        for start in range(0, len(rows), self.block):
            place = slice(start, start + self.block)
            if self.engine is Engine.CHAIN:
                losses.append(self._add_outer_products(totals, rows[place], targets[place], clip))
            else:
                losses.append(self._add(totals, self.gradients(rows[place], targets[place]), clip))
        return totals, torch.cat(losses)

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the network's outputs."""
        with torch.no_grad():
            output: torch.Tensor = self.network(rows.clone())  # a module may overwrite its input
            return output

    def gradients(self, rows: torch.Tensor, targets: torch.Tensor) -> Gradients:
        """Form the gradients of at most `block` examples."""
        if self.engine is Engine.VMAP:
            try:
                return self.vmapped(rows, targets)
            except Exception:  # the network fails for one of the rows: find it by taking them one by one
                pass
        return self.one_by_one(rows, targets)

    def vmapped(self, rows: torch.Tensor, targets: torch.Tensor) -> Gradients:
        """Form the gradients by `torch.func`, in a block that has the same shape however many examples there are."""
        count, weights = len(rows), {name: value.detach() for name, value in self.parameters.items()}
        padded_rows = torch.zeros(self.block, *rows.shape[1:], dtype=torch.float64)
        padded_rows[:count] = rows
        padded_targets = targets.new_zeros(self.block, *targets.shape[1:])
        padded_targets[:count] = targets

        def loss(weights: dict[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            placed = {place: weights[name] for place, name in self._places.items()}
            scores = functional_call(self.network, placed, (row[None],), tie_weights=False)
            return self.loss(scores.double(), target[None])[0]

        parts, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(weights, padded_rows, padded_targets)
        flat = {
            group: torch.cat([parts[name].detach().double().flatten(1) for name in names], dim=1)
            for group, names in self.groups.items()
        }
        squares = {group: rows.square().sum(dim=1)[:count] for group, rows in flat.items()}
        return Gradients({group: rows[:count] for group, rows in flat.items()}, squares, losses.detach()[:count])

    def one_by_one(self, rows: torch.Tensor, targets: torch.Tensor) -> Gradients:
        """Form the gradients by plain autograd; those of an example for which the network fails are not numbers."""
        flat = {
            group: torch.full((len(rows), self._size_of(names)), torch.nan, dtype=torch.float64)
            for group, names in self.groups.items()
        }
        squares = {group: torch.full((len(rows),), torch.nan, dtype=torch.float64) for group in self.groups}
        losses = torch.full((len(rows),), torch.nan, dtype=torch.float64)
        for place, (row, target) in enumerate(zip(rows, targets, strict=True)):
            try:
                parts, loss = self.gradient(row, target)
            except Exception:  # it depends on this example alone, and the others must not be affected
                continue
            for group, names in self.groups.items():
                joined = torch.cat([parts[name].flatten() for name in names])
                flat[group][place], squares[group][place] = joined, joined.square().sum()
            losses[place] = loss
        return Gradients(flat, squares, losses)

    def gradient(self, row: torch.Tensor, target: torch.Tensor) -> tuple[dict[str, torch.Tensor], float]:
        """Return one example's gradient in float64, by parameter, and its loss: the definition that all engines follow."""
        with torch.enable_grad():
            loss = self.loss(self.network(row.double()[None].clone()).double(), target[None])[0]
            found = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True)
        parts = {
            name: torch.zeros_like(value) if part is None else part.double()
            for (name, value), part in zip(self.parameters.items(), found, strict=True)
        }
        return parts, float(loss.detach())

    def _order(self) -> list[str]:
        return [name for names in self.groups.values() for name in names]

    def _size_of(self, names: list[str]) -> int:
        return sum(self.parameters[name].numel() for name in names)

    def _add(self, totals: dict[str, torch.Tensor], gradients: Gradients, clip: float) -> torch.Tensor:
        factors = _clip_factors(gradients.squares, clip)
        dropped = ~_all_finite(gradients.squares)
        for group, flat in gradients.flat.items():
            totals[group] += factors[group] @ flat.masked_fill_(dropped[:, None], 0.0)
        return gradients.losses.masked_fill(dropped, torch.nan)

    def _add_outer_products(
        self, totals: dict[str, torch.Tensor], rows: torch.Tensor, targets: torch.Tensor, clip: float
    ) -> torch.Tensor:
        assert self.chain is not None
        passed = self.chain.passed(rows, targets, self.loss)
        squares = {group: _added(passed.squares[name] for name in names) for group, names in self.groups.items()}
        factors = _clip_factors(squares, clip)
        dropped = ~_all_finite(squares)
        for group, names in self.groups.items():
            for layer in {_split(name)[0] for name in names}:  # a layer's weights and bias are clipped together
                passed.slopes[layer].mul_(factors[group][:, None])
                if bool(dropped.any()):  # zero times infinity would not be zero
                    passed.slopes[layer].masked_fill_(dropped[:, None], 0.0)
                    passed.inputs[layer].masked_fill_(dropped[:, None], 0.0)
        for group, names in self.groups.items():
            start = 0
            for name in names:
                layer, kind = _split(name)
                shape = self.parameters[name].shape
                place = totals[group][start : start + shape.numel()].view(shape)
                start += shape.numel()
                if kind == "weight":
                    place.addmm_(passed.slopes[layer].T, passed.inputs[layer])
                else:
                    place += passed.slopes[layer].sum(dim=0)
        return passed.losses.masked_fill(dropped, torch.nan)


def _clip_factors(squares: dict[str, torch.Tensor], clip: float) -> dict[str, torch.Tensor]:
    norms = {group: values.sqrt() for group, values in squares.items()}
    return {group: torch.where(values > clip, clip / values, 1.0) for group, values in norms.items()}


def _all_finite(squares: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return for every example whether the norms of its gradients are finite numbers, in all groups."""
    return torch.isfinite(_added(iter(squares.values())))


def _added(numbers: Iterator[torch.Tensor]) -> torch.Tensor:
    """Add vectors one after the other: a reduction may round an entry by its position."""
    total = next(numbers).clone()
    for more in numbers:
        total += more
    return total


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
