"""Networks: built from widths, or given; checked that no layer mixes examples."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from tacit.errors import InvalidInputError, kind_of, words
from tacit.validation import check_count

PROBES = 4
MIXING = (nn.modules.batchnorm._BatchNorm,)
"""Layers whose statistics run over the batch: one example would change what all others contribute."""


def perceptron(n_inputs: int, hidden: Sequence[int], n_outputs: int, random_state: int) -> nn.Module:
    """Build a network of fully connected layers with tanh between them.

    Bounded activations keep gradients of examples of like size, so that less is lost by clipping (Papernot et al. 2021).
    The last layer starts at zero and the others at random, from a public seed.
    """
    generator = torch.Generator().manual_seed(random_state)
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
    return nn.Sequential(*layers[:-1])


def prepared(module: Any, n_inputs: int, n_outputs: int) -> nn.Module:
    """Return a copy of a user's module in float64 and evaluation mode, or refuse it before anything is charged."""
    if not isinstance(module, nn.Module):
        raise InvalidInputError(
            "module to be a torch.nn.Module", kind_of(module), "Give a network, or None for one from `hidden`."
        )
    for name, layer in module.named_modules():
        if isinstance(layer, MIXING) or getattr(layer, "track_running_stats", False):
            raise _mixes(name, layer)
    # float64: the noisy channel's bound on rounding is for it; evaluation mode: dropout layers are off, the noise is one
    network = copy.deepcopy(module).double().eval()
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InvalidInputError("a module with parameters to learn", words("none"), "Unfreeze some of its parameters.")
    _check_on_probes(network, n_inputs, n_outputs)
    return network


def _check_on_probes(network: nn.Module, n_inputs: int, n_outputs: int) -> None:
    """Change one of a few made-up examples, and see which layers' outputs for the others change."""
    probes = torch.randn(PROBES, n_inputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    changed = probes.clone()
    changed[-1] += 1.0
    try:
        before, after = _outputs(network, probes), _outputs(network, changed)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InvalidInputError(
            f"a module that takes rows of {n_inputs} numbers", words(str(error).splitlines()[0]), "Reshape inside it."
        ) from error
    for (name, layer, first), (_, _, second) in zip(before, after, strict=True):
        if first.shape[:1] == (PROBES,) and not torch.equal(first[:-1], second[:-1]):
            raise _mixes(name, layer)
    answer = before[-1][2]
    if answer.shape != (PROBES, n_outputs):
        raise InvalidInputError(
            f"a module that gives {n_outputs} numbers per example",
            words(f"an output of shape {tuple(answer.shape)} for {PROBES} examples"),
            "Give its last layer one output per class (without softmax) or per target.",
        )


def _outputs(network: nn.Module, rows: torch.Tensor) -> list[tuple[str, nn.Module, torch.Tensor]]:
    """Return what every layer gives, in the order in which they end; the network itself is last."""
    found: list[tuple[str, nn.Module, torch.Tensor]] = []

    def note(name: str) -> Any:
        def hook(layer: nn.Module, _: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                found.append((name, layer, output.detach()))

        return hook

    handles = [layer.register_forward_hook(note(name)) for name, layer in network.named_modules()]
    try:
        with torch.no_grad():
            network(rows)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _mixes(name: str, layer: nn.Module) -> InvalidInputError:
    place = f" at {name!r}" if name else ""
    return InvalidInputError(
        "layers that treat each example by itself",
        words(f"{type(layer).__name__}{place}, which mixes the examples of a batch"),
        "One example would change what all others contribute, and no clipping bounds that. Use GroupNorm or LayerNorm.",
    )
