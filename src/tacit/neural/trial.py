"""Checks before a fit is charged: the network can be trained, and its gradients are right.

All of it runs on random rows within the public range, never on private rows, so a refusal says nothing about the data.
A module is refused if its output for one row depends on other rows, on their number or on earlier calls, in evaluation or
in training mode, if it is random, or if plain autograd cannot differentiate it. A fast engine for the gradients is used
only if it agrees with plain autograd, example by example, and gives every example the same bits in any batch.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from weakref import ReferenceType

import torch
from torch import nn

from tacit.errors import InvalidInputError, TacitError, Undisclosed, words
from tacit.neural.chain import BLOCK
from tacit.neural.gradients import Engine, Gradients, Learner
from tacit.neural.network import PREDICTED_AT_ONCE, failed, mixes, named

State = dict[tuple[str, str], bytes]
BeforeCall = Callable[[nn.Module, tuple[object, ...]], None]
AfterCall = Callable[[nn.Module, object, object], None]
"""By the name of a module and that of an attribute."""

ROWS = BLOCK
"""Number of random rows: a whole block."""
SINGLE = 7
"""Number of rows that also pass one by one; a prime, so that no layer's width is taken for it."""
SIZES = (1, 2, 3, 9, 33, 129, 1025, PREDICTED_AT_ONCE)
"""Batch sizes for which a module must give every row the same output: small ones, one more than powers of two, and that of
predictions."""
SAME_OUTPUT = 1e-5
"""Largest difference between these outputs, relative to the largest output; a module may use float32 internally."""
AGREEMENT = {torch.float64: 1e-8, torch.float32: 1e-3}
"""Largest distance of an engine's clipped gradient from that of plain autograd in float64, relative to its norm; rounding is
far below it, and a wrong gradient far above."""
CANCELLED = 1e-4
"""The same, in units of `AGREEMENT` and relative to the largest gradient: a small gradient may be a difference of large terms."""
STIRRED = 0.1
"""Standard deviation of what is added to the weights for a trial: where weights start at zero, many gradients are zero."""


def check_module(learner: Learner, rows: torch.Tensor) -> None:
    """Refuse a user's module that does not treat each row by itself, in the same way every time."""
    try:
        with _stirred(learner), torch.random.fork_rng(devices=[]):
            few = rows[:SINGLE]
            state = _state(learner.network)
            _refuse_randomness(learner.network, few, state)
            _refuse_mixing(learner.network, few)
            _refuse_batch_sizes(learner.network, few)
            _refuse_changes(learner.network, state)
    except TacitError:
        raise
    except Exception as error:
        raise failed("applied to rows", error) from error
    with _stirred(learner), torch.random.fork_rng(devices=[]):
        _check_training_mode(copy.deepcopy(learner.network).train(), few)


def choose_engine(learner: Learner, rows: torch.Tensor, targets: torch.Tensor, clip: float) -> None:
    """Let the learner use the fastest engine that is right, and try it on an empty batch, one example and a block.

    Parameters
    ----------
    learner : Learner
    rows, targets : tensor
        Random examples, `ROWS` of them.
    clip : float
    """
    few = rows[:SINGLE], targets[:SINGLE]
    state = _state(learner.network)
    _refuse_without_gradients(learner, *few)
    # torch.func may leave a module that it does not support in another state: use a copy
    tried = Learner(copy.deepcopy(learner.network), learner.loss, per_layer=learner.per_layer)
    if tried.use_chain(torch.float64) and _agrees(tried, *few, clip):
        tried.use_chain(torch.float32)
        learner.use_chain(torch.float32 if _agrees(tried, *few, clip) else torch.float64)
    else:
        tried.use_formed_gradients(Engine.VMAP)
        before = _state(tried.network)
        good = (
            _agrees(tried, *few, clip)
            and _is_batch_invariant(tried, rows, targets)
            and not _changes(tried.network, before)
        )
        learner.use_formed_gradients(Engine.VMAP if good else Engine.ONE_BY_ONE)
    for count in (0, 1, len(rows)):
        learner.clipped_totals(rows[:count], targets[:count], clip)
    _refuse_changes(learner.network, state)


def _refuse_without_gradients(learner: Learner, rows: torch.Tensor, targets: torch.Tensor) -> None:
    """Refuse a module that plain autograd cannot differentiate, or that has no finite gradient."""
    try:
        finite = [
            _norm(learner.gradient(*one)[0], learner.parameters) < math.inf for one in zip(rows, targets, strict=True)
        ]
    except Exception as error:
        raise failed("differentiated by autograd, one row at a time", error) from error
    if not any(finite):
        raise InvalidInputError(
            "a module with finite gradients",
            words("gradients that are not finite numbers, for all random rows within the range"),
            "Check its weights, and what it does with its inputs.",
        )


def _agrees(learner: Learner, rows: torch.Tensor, targets: torch.Tensor, clip: float) -> bool:
    """Return whether an engine gives the clipped gradient of every example and their total, at two sets of weights."""
    try:
        agrees = _gives_clipped_gradients(learner, rows, targets, clip)
        with _stirred(learner):
            return agrees and _gives_clipped_gradients(learner, rows, targets, clip)
    except Exception:  # torch.func raises errors of many kinds for what it does not support
        return False


def _gives_clipped_gradients(learner: Learner, rows: torch.Tensor, targets: torch.Tensor, clip: float) -> bool:
    tolerance = AGREEMENT[torch.float64 if learner.chain is None else learner.chain.dtype]
    if learner.engine is Engine.VMAP:
        learner.vmapped(rows, targets)  # raises where `clipped_totals` would fall back on plain autograd
    expected_total = {group: torch.zeros(()) for group in learner.groups}
    errors, sizes = [], []
    for place, (row, target) in enumerate(zip(rows, targets, strict=True)):
        gradient, _ = learner.gradient(row, target)
        norms = [_norm(gradient, names) for names in learner.groups.values()]
        # every other one is clipped to half its norm or less, so that clipping is tried too
        limit = clip if place % 2 else min([clip, *(norm / 2 for norm in norms if 0 < norm < math.inf)])
        totals, _ = learner.clipped_totals(row[None], target[None], limit)
        for (group, names), norm in zip(learner.groups.items(), norms, strict=True):
            flat = torch.cat([gradient[name].flatten() for name in names])
            clipped = [
                flat / max(1.0, norm / most) if max(norms) < math.inf else torch.zeros_like(flat)
                for most in (limit, clip)
            ]
            expected_total[group] = expected_total[group] + clipped[1]
            errors.append(float((totals[group] - clipped[0]).norm()))
            sizes.append(float(clipped[0].norm()))
    margins = [tolerance * (size + CANCELLED * max(sizes)) for size in sizes]
    totals, _ = learner.clipped_totals(rows, targets, clip)
    error = max(float((totals[group] - expected_total[group]).norm()) for group in totals)
    return error <= tolerance * clip * len(rows) and all(
        error <= margin for error, margin in zip(errors, margins, strict=True)
    )


def _norm(gradient: dict[str, torch.Tensor], names: Iterable[str]) -> float:
    """Return the norm of a part of a gradient; infinity where it is not a number."""
    norm = math.sqrt(sum(float(gradient[name].square().sum()) for name in names))
    return norm if norm < math.inf else math.inf


def _is_batch_invariant(learner: Learner, rows: torch.Tensor, targets: torch.Tensor) -> bool:
    """Return whether `Learner.vmapped` gives every example the same bits in another order and among other rows."""
    rows, targets = rows[: learner.block], targets[: learner.block]
    try:
        whole = learner.vmapped(rows, targets)
    except Exception:  # for one of the rows the module fails
        return False
    selections = [
        torch.arange(1, len(rows)),
        torch.arange(1),
        torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)),
        torch.arange(0, len(rows), 3),
    ]
    return all(_equal(learner.vmapped(rows[some], targets[some]), whole, some) for some in selections)


def _equal(part: Gradients, whole: Gradients, selection: torch.Tensor) -> bool:
    pairs = [(part.losses, whole.losses)]
    pairs += [(part.flat[group], whole.flat[group]) for group in whole.flat]
    pairs += [(part.squares[group], whole.squares[group]) for group in whole.squares]
    return all(_same(one, other[selection]) for one, other in pairs)


@contextmanager
def _stirred(learner: Learner) -> Iterator[None]:
    """Add random numbers to the weights for a while."""
    start = learner.weights()
    noise = torch.randn(start.shape, generator=torch.Generator().manual_seed(2), dtype=start.dtype)
    learner.set_weights(start + STIRRED * noise)
    try:
        yield
    finally:
        learner.set_weights(start)


def _refuse_randomness(network: nn.Module, rows: torch.Tensor, state: State) -> None:
    with torch.no_grad():
        first, _, again = (network(some.clone()) for some in (rows, rows.flip(0), rows))
    _refuse_changes(network, state)
    if not _same(first, again):
        raise InvalidInputError(
            "a module that gives the same output for the same rows",
            words("one that does not: it draws random numbers, or keeps something of earlier rows"),
            "Remove this from its forward method. Noise for privacy is added to the gradients.",
        )


def _refuse_mixing(network: nn.Module, rows: torch.Tensor) -> None:
    """Change the last row, and see whether the outputs for the others change; if so, name the layer where that begins."""
    changed = rows.clone()
    changed[-1] = 0.25 - rows[0] / 2
    before, after = _layer_passes(network, rows), _layer_passes(network, changed)

    def others_same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            return True
        return one.shape[:1] != (len(rows),) or _same(one[:-1], other[:-1])

    if others_same(before[-1].output, after[-1].output):
        return
    for first, second in zip(before, after, strict=False):
        if others_same(first.input, second.input) and not others_same(first.output, second.output):
            raise mixes(first.name, first.layer, " in training mode" if network.training else "")


def _refuse_batch_sizes(network: nn.Module, rows: torch.Tensor) -> None:
    """Compare the outputs of rows that pass alone with those of the same rows in batches of several sizes."""
    with torch.no_grad():
        alone = torch.cat([network(row[None].clone()) for row in rows])
        scale = float(alone.nan_to_num(0.0, 0.0, 0.0).abs().max())
        for size in SIZES:
            copies = -(-size // len(rows))
            output, expected = network(rows.repeat(copies, 1)[:size]), alone.repeat(copies, 1)[:size]
            if not _same(output, expected, SAME_OUTPUT * scale):
                raise InvalidInputError(
                    "a module that treats each row by itself, however many there are",
                    words(f"other outputs where {size} rows pass together than where each passes alone"),
                    "Remove what depends on the number of rows, or is computed over rows, from its forward method.",
                )


def _check_training_mode(network: nn.Module, rows: torch.Tensor) -> None:
    """Refuse a module that mixes examples or keeps something of them only in training mode; tacit never uses that mode.

    Its author expects what it does there (a batch normalisation, say) to happen. Dropout is accepted, and switched off.
    """
    before = _state(network)
    try:
        _layer_passes(network, rows)
        _refuse_changes(network, before)
        _refuse_mixing(network, rows)
    except TacitError:
        raise
    except Exception:  # a module that cannot be used in this mode cannot do anything wrong in it
        return


def _refuse_changes(network: nn.Module, before: State) -> None:
    for name, attribute in _changes(network, before):
        raise InvalidInputError(
            "a module that keeps nothing from one call to the next",
            words(
                f"{named(name, dict(network.named_modules())[name])}, whose {attribute!r} changes when rows pass through it"
            ),
            "It would carry private rows from one step to the next. Remove it from the module; use GroupNorm or LayerNorm "
            "instead of layers with running statistics.",
        )


@dataclass(frozen=True, repr=False)
class _LayerPass(Undisclosed):
    """One call of a layer: its first input and its output, where they are tensors."""

    name: str
    layer: nn.Module
    input: torch.Tensor | None
    output: torch.Tensor | None


def _layer_passes(network: nn.Module, rows: torch.Tensor) -> list[_LayerPass]:
    """Return the calls of all layers, in the order in which they end; that of the network itself is last."""
    passes: list[_LayerPass] = []

    def copied(value: object) -> torch.Tensor | None:
        return value.detach().clone() if isinstance(value, torch.Tensor) else None

    def note(name: str) -> tuple[BeforeCall, AfterCall]:
        inputs: list[torch.Tensor | None] = []  # copied before the call, which may overwrite them

        def before(_: nn.Module, given: tuple[object, ...]) -> None:
            inputs.append(copied(given[0]) if given else None)

        def after(layer: nn.Module, _: object, output: object) -> None:
            passes.append(_LayerPass(name, layer, inputs.pop(), copied(output)))

        return before, after

    handles = []
    for name, layer in network.named_modules():
        before, after = note(name)
        handles += [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    torch.manual_seed(0)  # dropout in training mode: the same entries every time
    try:
        with torch.no_grad():
            network(rows.clone())
    finally:
        for handle in handles:
            handle.remove()
    return passes


def _same(one: torch.Tensor, other: torch.Tensor, margin: float = 0.0) -> bool:
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=0.0, atol=margin, equal_nan=True
    )


class _Pickler(pickle.Pickler):
    """Writes values so that they can be compared later; parameters, modules and functions with their identity."""

    def persistent_id(self, obj: object) -> tuple[object, ...] | None:
        if isinstance(obj, torch.Tensor):
            identity = id(obj) if isinstance(obj, nn.Parameter) else None
            return "tensor", identity, str(obj.dtype), tuple(obj.shape), obj.detach().numpy().tobytes()
        if isinstance(obj, ReferenceType):
            return "reference", id(obj())
        if isinstance(obj, nn.Module) or callable(obj):
            return "object", id(obj)
        return None


def _state(network: nn.Module) -> State:
    """Return all attributes of all modules, parameters and buffers included, as bytes that can be compared."""
    state: State = {}
    for name, module in network.named_modules():
        attributes = {
            key: value for key, value in vars(module).items() if key not in ("_modules", "_parameters", "_buffers")
        }
        for attribute, value in {**attributes, **module._parameters, **module._buffers}.items():
            file = io.BytesIO()
            with suppress(Exception):  # of an object that cannot be written, nothing can be compared
                _Pickler(file).dump(value)
                state[name, attribute] = file.getvalue()
    return state


def _changes(network: nn.Module, before: State) -> list[tuple[str, str]]:
    after = _state(network)
    return [place for place in {**before, **after} if before.get(place) != after.get(place)]
