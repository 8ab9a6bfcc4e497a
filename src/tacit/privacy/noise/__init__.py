"""Integer noise with exactly the stated distribution, from secure random bits.

Noise made of floating-point numbers leaks through its gaps and rounding errors. Integer noise, drawn so that no outcome
depends on a rounding error, has exactly the distribution that the accounting assumes. The time that a draw takes depends
on its value and is not hidden.

May be imported by whoever may import `privacy`.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_count, check_positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.noise.samplers import Source

_LEAST_SIGMA = 0.5
"""Smallest width that the sampler is made and tested for; narrower noise is 0 most of the time."""
_LEAST_SCALE = 2.0**-8
"""Likewise; narrower noise is 0 except with a probability below 2 e^-256."""
_MOST = 2.0**40
"""Largest width: up to it all draws, and the products that the sampler computes, fit 64-bit integers."""
_PARALLEL_DRAWS = 2**17
"""From this many secure draws on, all cores take part, each with random bits of its own (below, threads cost more)."""


def discrete_gaussian(
    sigma: float, size: int | tuple[int, ...], *, generator: Generator | None = None
) -> NDArray[np.int64]:
    """Draw integers k with probability proportional to exp(-k**2 / (2 sigma**2)).

    Parameters
    ----------
    sigma : float
        Width, from 0.5 to 2**40; exactly the number that the float stands for is used. The standard
        deviation is slightly below it for sigma < 1 and practically equal to it above.
    size : int or tuple of int
        Shape of the result.
    generator : numpy.random.Generator, optional
        Source of random bits; by default `tacit.privacy.noise.entropy.secure_words` (AES-256 in counter mode, with a
        new key). Any other choice is for tests: noise that can be predicted protects nothing.

    Returns
    -------
    numpy.ndarray of int64
        Independent draws.

    Raises
    ------
    InvalidInputError
        If `sigma` or `size` or `generator` cannot be used.
    """
    sigma = _check_width(sigma, "sigma", _LEAST_SIGMA)
    shape = _check_shape(size)
    from tacit.privacy.noise.samplers import put_gaussian, sample_gaussian

    count = math.prod(shape)
    if generator is not None or count < _PARALLEL_DRAWS:
        return sample_gaussian(sigma, count, _source(generator)).reshape(shape)
    return _in_parts(lambda part: put_gaussian(sigma, part, _source(None)), count).reshape(shape)


def discrete_laplace(
    scale: float, size: int | tuple[int, ...], *, generator: Generator | None = None
) -> NDArray[np.int64]:
    """Draw integers k with probability proportional to exp(-abs(k) / scale).

    Parameters
    ----------
    scale : float
        Width, from 2**-8 to 2**40; exactly the number that the float stands for is used.
    size : int or tuple of int
        Shape of the result.
    generator : numpy.random.Generator, optional
        Source of random bits; by default `tacit.privacy.noise.entropy.secure_words` (AES-256 in counter mode, with a
        new key). Any other choice is for tests: noise that can be predicted protects nothing.

    Returns
    -------
    numpy.ndarray of int64
        Independent draws.

    Raises
    ------
    InvalidInputError
        If `scale` or `size` or `generator` cannot be used.
    """
    scale = _check_width(scale, "scale", _LEAST_SCALE)
    shape = _check_shape(size)
    source = _source(generator)
    from tacit.privacy.noise.samplers import sample_laplace

    return sample_laplace(scale, math.prod(shape), source).reshape(shape)


def discrete_gaussian_pmf(k: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Return the probabilities of `discrete_gaussian`, in floating point.

    A reference for tests and for accounting; the sampler does not use it.

    Parameters
    ----------
    k : array_like of int
        Where to evaluate.
    sigma : float
        Width, from 0.5 to 2**40.

    Returns
    -------
    numpy.ndarray of float64
        Probabilities, of the shape of `k`.
    """
    sigma = _check_width(sigma, "sigma", _LEAST_SIGMA)
    # Poisson summation of the normalising sum: three terms are enough, the fourth is below 1e-33 for sigma >= 0.5
    ripple = sum(math.exp(-2 * (math.pi * sigma * j) ** 2) for j in range(1, 4))
    total = math.sqrt(2 * math.pi) * sigma * (1 + 2 * ripple)
    return np.asarray(np.exp(-0.5 * np.square(np.asarray(k, dtype=np.float64) / sigma)) / total)


def discrete_laplace_pmf(k: ArrayLike, scale: float) -> NDArray[np.float64]:
    """Return the probabilities of `discrete_laplace`, in floating point.

    A reference for tests and for accounting; the sampler does not use it.

    Parameters
    ----------
    k : array_like of int
        Where to evaluate.
    scale : float
        Width, from 2**-8 to 2**40.

    Returns
    -------
    numpy.ndarray of float64
        Probabilities, of the shape of `k`.
    """
    scale = _check_width(scale, "scale", _LEAST_SCALE)
    return np.asarray(math.tanh(0.5 / scale) * np.exp(-np.abs(np.asarray(k, dtype=np.float64)) / scale))


def _in_parts(put: Callable[[NDArray[np.int64]], None], count: int) -> NDArray[np.int64]:
    """Draw `count` numbers in parallel, one part per core; the samplers release Python's global lock."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    drawn = np.empty(count, np.int64)
    parts = np.array_split(drawn, min(cores, count // (_PARALLEL_DRAWS // 2)))
    if len(parts) == 1:
        put(drawn)
        return drawn
    for done in [_pool(os.getpid(), cores).submit(put, part) for part in parts]:
        done.result()
    return drawn


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked child has another number, and so gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"tacit-noise-{process}")


def _check_width(value: object, name: str, least: float) -> float:
    width = check_positive(value, name)
    if not least <= width <= _MOST:
        raise InvalidInputError(
            f"{name} to be from {least:g} to 2**40",
            parameter(value),
            "Choose a finer or coarser grid, so that the noise has more or fewer grid steps.",
        )
    return width


def _check_shape(size: object) -> tuple[int, ...]:
    if isinstance(size, tuple):
        return tuple(check_count(length, "each length in size", least=0) for length in size)
    return (check_count(size, "size", least=0),)


def _source(generator: object) -> Source:
    from numpy.random import Generator

    if generator is None:
        from tacit.privacy.noise.entropy import secure_words

        return secure_words()
    if not isinstance(generator, Generator):
        raise InvalidInputError(
            "generator to be a numpy.random.Generator or None",
            parameter(generator),
            "Omit it: the default takes its key from the operating system.",
        )
    # unlike `random_raw`, `integers` gives 64 random bits from bit generators of 32-bit words too
    return lambda count: generator.integers(0, 2**64 - 1, size=count, dtype=np.uint64, endpoint=True)
