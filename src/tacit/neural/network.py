"""Networks that are built from widths, and modules that users give."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn

from tacit.errors import InvalidInputError, kind_of, words
from tacit.validation import check_count

TRIED = 4
"""Number of random rows that a module is applied to."""
PREDICTED_AT_ONCE = 4096
"""Number of rows that pass through a network together in predictions."""
LEAST_SIDE = 12
"""Smallest side of images for `convolution`: its second layer then has two places per side or more."""
MIXING = (nn.modules.batchnorm._BatchNorm,)
"""Layers that compute statistics over the batch: one example would change what all others contribute."""


def perceptron(n_inputs: int, hidden: Sequence[int], n_outputs: int, random_state: int) -> nn.Sequential:
    """Build a network of fully connected layers with tanh between them: eq. 2.14 of Ermis 2020, which has ReLU.

    Bounded activations keep the gradients of examples similar in size, so that clipping loses less (Papernot et al. 2021).
    The last layer starts at zero, the others at random numbers from a public seed.
    """
    return nn.Sequential(*_dense(n_inputs, hidden, n_outputs, torch.Generator().manual_seed(random_state)))


def convolution(shape: tuple[int, int], hidden: Sequence[int], n_outputs: int, random_state: int) -> nn.Sequential:
    """Build a network of two convolutions with tanh, and fully connected layers behind them, for images of a shape.

    It is that of Papernot et al. (2021) for MNIST without its pooling. The start is as for `perceptron`.
    """
    generator = torch.Generator().manual_seed(random_state)
    first = nn.Conv2d(1, 16, kernel_size=8, stride=2, padding=2, dtype=torch.float64)
    second = nn.Conv2d(16, 32, kernel_size=4, stride=2, dtype=torch.float64)
    for layer in (first, second):
        limit = 1 / math.sqrt(layer.in_channels * math.prod(layer.kernel_size))
        nn.init.uniform_(layer.weight, -limit, limit, generator=generator)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    front = [nn.Unflatten(1, (1, *shape)), first, nn.Tanh(), second, nn.Tanh(), nn.Flatten()]
    with torch.no_grad():
        width = nn.Sequential(*front)(torch.zeros(1, math.prod(shape), dtype=torch.float64)).shape[1]
    return nn.Sequential(*front, *_dense(width, hidden, n_outputs, generator))


def _dense(n_inputs: int, hidden: Sequence[int], n_outputs: int, generator: torch.Generator) -> list[nn.Module]:
    widths = [n_inputs, *(check_count(width, "hidden") for width in hidden), n_outputs]
    layers: list[nn.Module] = []
    for place, (before, after) in enumerate(itertools.pairwise(widths)):
        layer = nn.Linear(before, after, dtype=torch.float64)
        nn.init.zeros_(layer.bias)
        if place == len(widths) - 2:
            nn.init.zeros_(layer.weight)
        else:
            nn.init.normal_(layer.weight, 0.0, 1 / math.sqrt(before), generator=generator)
        layers += [layer, nn.Tanh()]
    return layers[:-1]


def prepared(module: nn.Module | None, n_inputs: int, n_outputs: int) -> nn.Module:
    """Return a copy of a user's module in float64 and evaluation mode, without in-place layers.

    A module that cannot take rows of `n_inputs` numbers or does not give `n_outputs` numbers for each is refused. More is
    checked before a fit: see `tacit.neural.trial`.
    """
    if not isinstance(module, nn.Module):
        raise InvalidInputError(
            "module to be a torch.nn.Module", kind_of(module), "Give a network, or None for one from `hidden`."
        )
    for name, layer in module.named_modules():
        if isinstance(layer, MIXING) or getattr(layer, "track_running_stats", False):
            raise mixes(name, layer)
    try:
        # in evaluation mode dropout layers are off: the noise for privacy acts as dropout
        network = copy.deepcopy(module).double().eval()
    except Exception as error:
        raise failed("copied and converted to float64", error) from error
    for layer in network.modules():
        if getattr(layer, "inplace", False) is True:
            vars(layer)["inplace"] = False  # the same function, which keeps what gradients are computed from
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InvalidInputError("a module with parameters to learn", words("none"), "Unfreeze some of its parameters.")
    rows = torch.rand(TRIED, n_inputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    try:
        with torch.no_grad():
            output = network(rows)
    except Exception as error:
        raise failed(f"applied to rows of {n_inputs} numbers", error) from error
    if not isinstance(output, torch.Tensor) or output.shape != (TRIED, n_outputs):
        shape = f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else f"type {type(output).__name__}"
        raise InvalidInputError(
            f"a module that gives {n_outputs} numbers per example",
            words(f"an output of {shape} for {TRIED} examples"),
            "Give its last layer one output per class (without softmax) or per target.",
        )
    return network


def mixes(name: str, layer: nn.Module, when: str = "") -> InvalidInputError:
    """Return the error about a layer whose output for one example depends on the others."""
    return InvalidInputError(
        "layers that treat each example by itself",
        words(f"{named(name, layer)}, which mixes the examples of a batch{when}"),
        "One example would change what all others contribute, and clipping does not bound that. Use GroupNorm or LayerNorm.",
    )


def failed(use: str, error: Exception) -> InvalidInputError:
    """Return the error about a module that raises one; it was applied to random rows, so its message holds no data."""
    message = (str(error).splitlines() or [""])[0]
    return InvalidInputError(
        f"a module that can be {use}",
        words(f"{type(error).__name__}: {message}"),
        "It was tried on random rows. Change its forward method; nothing was charged.",
    )


def named(name: str, layer: nn.Module) -> str:
    """Return a layer's type and place in words."""
    return f"{type(layer).__name__} at {name!r}" if name else type(layer).__name__
