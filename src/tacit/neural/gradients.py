r"""Clipped gradients of single examples, and their totals.

For a fully connected layer the gradient of one example is an outer product, :math:`g a^\top`, of the layer's input a and
the gradient g with respect to its output, so its norm is :math:`|g|\,|a|` and is known without forming it. The clipped
total is then one matrix product with the rows of g scaled, :math:`\sum_i c_i g_i a_i^\top` (Goodfellow 2015). The gradients
of other networks are formed, for a few examples at a time by `torch.func`, or one by one by plain autograd.

Norms are computed in float64. So are clipping and totals, except for the totals of chains of fully connected layers, which
are added up as `tacit.neural.buckets` describes. A gradient whose norm is not a finite number contributes exactly zero.
Nothing that is computed for one example depends on which other examples are in the batch: `tacit.neural.trial` checks this
before a network is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from tacit.errors import Undisclosed
from tacit.neural.buckets import LARGEST, MOST, bucket_count, buckets_of, is_accurate, parts_of
from tacit.neural.chain import BLOCK, Chain
from tacit.neural.fallback import MEASURED, Fallback
from tacit.neural.loops import add_units
from tacit.neural.losses import Loss, classification_loss
from tacit.neural.threads import copy_rows, run_pieces
from tacit.privacy.long_arrays import empty

MOST_NUMBERS = 2**24
"""Largest number of gradient entries that are formed at a time (128 MB)."""

BUCKETS_AT_ONCE, BLOCKS_AT_ONCE = 24, 16
"""Number of buckets whose examples pass through a chain together, so that their blocks are nearly full and threads seldom wait
for each other; and of blocks, where totals are in float64. Set by hand; they affect speed and memory only."""
SCORED_AT_ONCE = 32 * BLOCK
"""Number of examples whose scores are kept at a time, for all posterior samples. It affects memory only."""


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
    last_bias : torch.nn.Parameter, optional
        Of a layer whose weights start at zero: with it, the network can start from any scores that are equal for all rows.

    Attributes
    ----------
    engine : Engine
        `Engine.ONE_BY_ONE` until `tacit.neural.trial.choose_engine` has found a faster one that is right.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss = classification_loss,
        *,
        per_layer: bool = False,
        last_bias: nn.Parameter | None = None,
    ) -> None:
        self.network, self.loss, self._last_bias = network, loss, last_bias
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
        start, given = 0, vector.numpy()
        for name in self._order():
            value = self.parameters[name]
            copy_rows(given[start : start + value.numel()].reshape(value.shape), value.detach().numpy())
            start += value.numel()

    def start_from(self, scores: torch.Tensor) -> None:
        """Let the network give these scores to every row, if it is one that can."""
        if self._last_bias is not None:
            with torch.no_grad():
                self._last_bias.copy_(scores)

    def gains(
        self,
        X: NDArray[np.float32],
        targets: torch.Tensor,
        samples: NDArray[np.float32],
        fallback: Fallback,
        baseline: torch.Tensor,
    ) -> NDArray[np.float64]:
        """Add up by how much the examples are predicted better than by the baseline (`Fallback.gains`).

        Privacy
        -------
        An example's gains follow from that example and released values alone, to the bit: examples pass in blocks of one
        shape, or one by one where the network is not a chain. They are added in float64.
        """
        total = np.zeros(len(MEASURED))
        for start in range(0, len(X), SCORED_AT_ONCE):
            place = slice(start, start + SCORED_AT_ONCE)
            scores = torch.stack([self._separate_scores(X[place], sample, len(baseline)) for sample in samples])
            for first in range(0, scores.shape[1], BLOCK):
                some = scores[:, first : first + BLOCK]
                count = some.shape[1]
                padded_scores = torch.zeros(len(samples), BLOCK, len(baseline), dtype=torch.float64)
                padded_scores[:, :count] = some
                padded_targets = targets.new_zeros(BLOCK, *targets.shape[1:])
                padded_targets[:count] = targets[place][first : first + BLOCK]
                total += fallback.gains(padded_scores, padded_targets, baseline)[:count].numpy().sum(axis=0)
        return total

    def buckets(self, X: NDArray[np.float32], expected: float, clip: float) -> torch.Tensor | None:
        """Return the bucket of every example for fast totals, if they are possible (`tacit.neural.buckets`).

        Parameters
        ----------
        X : array
            All examples; each one's bucket follows from that example alone.
        expected : float
            Expected number of examples in a step: public or released.
        clip : float
        """
        suits = self.chain is not None and self.chain.dtype is torch.float32 and clip >= 1 / LARGEST
        return buckets_of(X, bucket_count(expected)) if suits and is_accurate() else None

    def clipped_totals(
        self, rows: torch.Tensor, targets: torch.Tensor, clip: float, buckets: torch.Tensor | None = None
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Add up the clipped gradients of the examples.

        With `buckets`, adding or removing an example changes the totals by up to ``clip * (1 + ROUNDING)``.

        Returns
        -------
        totals : dict of str to tensor of shape (n_weights of the group,)
            By group of parameters that are clipped together.
        losses : tensor of shape (n_examples,)
            NaN for an example whose gradient is not finite, which contributes zero to the totals.
        """
        totals = {
            group: torch.from_numpy(empty((self._size_of(names),), np.float64)) for group, names in self.groups.items()
        }
        if buckets is None or not len(rows):
            _set_to_zero(totals)
        losses = [torch.zeros(0, dtype=torch.float64)]
        if self.chain is not None:
            self.chain.copy_weights()
        if buckets is not None:
            return totals, self._add_buckets(totals, rows, targets, clip, buckets)
        at_once = self.block * (BLOCKS_AT_ONCE if self.engine is Engine.CHAIN else 1)
        for start in range(0, len(rows), at_once):
            place = slice(start, start + at_once)
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

    def _separate_scores(self, X: NDArray[np.float32], weights: NDArray[np.float32], width: int) -> torch.Tensor:
        """Return the outputs of rows for these weights: in blocks of one shape for a chain, otherwise one by one.

        The outputs of a row for which the network fails are not numbers.
        """
        self.set_weights(torch.from_numpy(weights.astype(np.float64)))
        if self.chain is not None:
            self.chain.copy_weights()
            return self.chain.scores(torch.from_numpy(X))
        scores = torch.full((len(X), width), torch.nan, dtype=torch.float64)
        for row, given in zip(torch.from_numpy(X).double(), scores, strict=True):
            with suppress(Exception):  # it depends on this example alone, and the others must not be affected
                given.copy_(self.scores(row[None])[0])
        return scores

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
            gradients = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True)
        parts = {
            name: torch.zeros_like(value) if part is None else part.double()
            for (name, value), part in zip(self.parameters.items(), gradients, strict=True)
        }
        return parts, float(loss.detach())

    def _order(self) -> list[str]:
        return [name for names in self.groups.values() for name in names]

    def _size_of(self, names: list[str]) -> int:
        return sum(self.parameters[name].numel() for name in names)

    def _add(self, totals: dict[str, torch.Tensor], gradients: Gradients, clip: float) -> torch.Tensor:
        squares = {group: values.numpy() for group, values in gradients.squares.items()}
        dropped = torch.from_numpy(_not_finite(squares))
        for group, flat in gradients.flat.items():
            factors = torch.from_numpy(_clip_factors(squares[group], clip))
            totals[group] += factors @ flat.masked_fill_(dropped[:, None], 0.0)
        return gradients.losses.masked_fill(dropped, torch.nan)

    def _add_buckets(
        self,
        totals: dict[str, torch.Tensor],
        rows: torch.Tensor,
        targets: torch.Tensor,
        clip: float,
        buckets: torch.Tensor,
    ) -> torch.Tensor:
        order = torch.from_numpy(np.argsort(buckets.numpy(), kind="stable"))
        ends = np.cumsum(np.bincount(buckets.numpy())).tolist()
        losses = torch.from_numpy(np.zeros(len(rows)))
        start, begun = 0, False  # the first examples set the totals, the others are added to them
        for end in [*ends[BUCKETS_AT_ONCE - 1 :: BUCKETS_AT_ONCE], len(rows)]:
            some, start = order[start:end], end
            if len(some):
                losses[some] = self._add_outer_products(totals, rows, targets, clip, some, buckets[some], begun)
                begun = True
        return losses

    def _add_outer_products(
        self,
        totals: dict[str, torch.Tensor],
        rows: torch.Tensor,
        targets: torch.Tensor,
        clip: float,
        some: torch.Tensor | None = None,
        buckets: torch.Tensor | None = None,
        begun: bool = True,
    ) -> torch.Tensor:
        """Add the clipped gradients: bucket by bucket for the examples at the places `some`, otherwise in float64.

        Totals that were not `begun` hold arbitrary numbers, which are replaced.
        """
        assert self.chain is not None
        results = self.chain.forward_backward(rows, targets, self.loss, some)
        # single numbers of examples by NumPy, whose small operations are faster than those of torch
        squares = {
            group: _added(results.squares[name].numpy() for name in names) for group, names in self.groups.items()
        }
        dropped = _not_finite(squares)
        if dropped.any():
            results.losses[torch.from_numpy(dropped)] = torch.nan
            for numbers in (
                *results.slopes.values(),
                *results.inputs.values(),
            ):  # zero times infinity would not be zero
                numbers.masked_fill_(torch.from_numpy(dropped)[:, None], 0.0)
        large = (results.largest.numpy() > LARGEST**2) & ~dropped
        exact = np.ones_like(dropped) if buckets is None else large  # the examples that are added up in float64
        some_exact = np.flatnonzero(exact)
        if some_exact.size and not begun:
            _set_to_zero(totals)
            begun = True
        counts = np.empty(0, np.int64) if buckets is None else np.bincount(buckets.numpy())
        pieces: list[Callable[[], None]] = []
        for group, names in self.groups.items():
            factors = _clip_factors(squares[group], clip)
            factors[dropped] = 0.0
            scales = np.where(exact, 0.0, factors).astype(np.float32)
            start = 0
            for layer in {_split(name)[0]: None for name in names}:  # a layer's weights and bias are clipped together
                a, g = results.inputs[layer], results.slopes[layer]
                places: dict[str, torch.Tensor] = {}
                for kind in [_split(name)[1] for name in names if _split(name)[0] == layer]:
                    shape = self.parameters[layer + kind].shape
                    places[kind] = totals[group][start : start + shape.numel()].view(shape)
                    start += shape.numel()
                if some_exact.size:
                    apart = g[some_exact].double() * torch.from_numpy(factors[some_exact])[:, None]
                    for kind, place in places.items():
                        if kind == "bias":
                            place.add_(apart.sum(dim=0))
                        else:
                            place.addmm_(apart.T, a[some_exact].double())
                if buckets is not None:
                    weights, bias = (
                        places[kind].numpy() if kind in places else np.empty((0,) * dimensions)
                        for kind, dimensions in (("weight", 2), ("bias", 1))
                    )
                    pieces += [
                        partial(
                            add_units,
                            weights[units],
                            bias[units],
                            g.numpy()[:, units],
                            self.chain.padded_inputs(layer, len(g)),
                            scales,
                            counts,
                            MOST,
                            begun,
                        )
                        for units in parts_of(g.shape[1])
                    ]
        run_pieces(lambda piece: pieces[piece](), len(pieces), compiled=True)
        return results.losses


def _set_to_zero(totals: dict[str, torch.Tensor]) -> None:
    for total in totals.values():
        total.numpy().fill(
            0.0
        )  # by NumPy, because torch has threads for it, which go on spinning on cores that others want


def _clip_factors(squares: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Return ``1 / max(1, |g| / C)`` per example: line 6 of Algorithm 3 of Ermis 2020, which clips the batch instead."""
    norms: NDArray[np.float64] = np.sqrt(squares)
    return np.divide(clip, norms, out=np.ones_like(norms), where=norms > clip)


def _not_finite(squares: dict[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Return for every example whether the norm of its gradient is not a finite number, in one of the groups."""
    return ~np.isfinite(_added(iter(squares.values())))


def _added(numbers: Iterator[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Add vectors one after the other: a reduction may round an entry by its position."""
    total = next(numbers).copy()
    with np.errstate(over="ignore"):  # a warning would reveal that an example has such a gradient
        for more in numbers:
            total += more
    return total


def _groups(parameters: Mapping[str, torch.Tensor], per_layer: bool) -> dict[str, list[str]]:
    """Return the names of the parameters that are clipped together, by the name under which their sum is asked for."""
    if not per_layer:
        return {"gradient": list(parameters)}
    groups: dict[str, list[str]] = {}
    for name in parameters:
        layer = name.rpartition(".")[0] or "network"
        groups.setdefault(f"layer_{layer.replace('.', '_')}", []).append(name)
    return groups


def _places(network: nn.Module, parameters: Mapping[str, torch.Tensor]) -> dict[str, str]:
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
