"""Integer noise with exactly the stated distribution, from secure random bits.

Noise made of floating-point numbers leaks through its gaps and rounding errors. Integer noise, drawn so that no outcome
depends on a rounding error, has exactly the distribution that the accounting assumes. The time that a draw takes depends
on its value and is not hidden.

May be imported by whoever may import `privacy`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError, kind_of, parameter
from tacit.privacy.long_arrays import empty, in_parts
from tacit.validation import check_count, check_positive

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.noise.samplers import Source

_LEAST_SIGMA = 0.5
"""Smallest width that the sampler is made and tested for; narrower noise is 0 most of the time."""
_LEAST_SCALE = 2.0**-8
"""Likewise; narrower noise is 0 except with a probability below 2 e^-256."""
_MOST = 2.0**40
"""Largest width: up to it all draws, and the products that the sampler computes, fit 64-bit integers."""
_LEAST_PART = 2**15
"""Secure draws that a core makes at least (about 0.2 ms of work), each core with random bits of its own; set by hand."""


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
    draws = np.zeros(_check_shape(size), np.int64)
    _put(_check_width(sigma, "sigma", _LEAST_SIGMA), draws, draws, generator)
    return draws


def with_discrete_gaussian(
    integers: NDArray[np.int64], sigma: float, *, generator: Generator | None = None
) -> NDArray[np.int64]:
    """Return integers with independent draws of `discrete_gaussian` added; it takes one pass and no memory for the draws.

    Parameters
    ----------
    integers : ndarray of int64
        Of at most 2**62 in magnitude, so that no sum wraps.
    sigma : float
    generator : numpy.random.Generator, optional
        As in `discrete_gaussian`.

    Returns
    -------
    numpy.ndarray of int64
        A new array.
    """
    if integers.dtype != np.int64:
        raise InvalidInputError("integers of 64 bits", kind_of(integers), "Put the numbers on a grid first.")
    noised = empty(integers.shape, np.int64)
    _put(_check_width(sigma, "sigma", _LEAST_SIGMA), np.ascontiguousarray(integers), noised, generator)
    return noised


def _put(sigma: float, integers: NDArray[np.int64], noised: NDArray[np.int64], generator: Generator | None) -> None:
    """Put the integers with noise into an array, which may be the same."""
    from tacit.privacy.noise.samplers import add_gaussian

    before, after = integers.reshape(-1), noised.reshape(-1)
    given = None if generator is None else _source(generator)

    def put(part: slice) -> None:
        if noised is not integers:
            after[part] = before[part]
        add_gaussian(sigma, after[part], _source(None) if given is None else given)

    # a generator is one stream, so its draws are not divided
    in_parts(put, after.size, _LEAST_PART if given is None else max(1, after.size))


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
