r"""Totals of outer products in single precision, with a bound on their rounding that holds for neighbouring data.

Adding up :math:`\sum_i h_i a_i^\top` over a whole batch in float32 is fast, but not private: one example more may round the
contributions of all others differently, by up to :math:`2 N^2 2^{-24}` times the clipping norm for N examples (the channel's
formula, with the unit roundoff of float32). So examples are divided into **buckets** of at most `MOST` examples. The bucket
follows from the bytes of the example alone, so one example changes the rounding of one bucket only. The product of a bucket
is computed in float32, and the buckets are added up in float64. With :math:`|h_i| |a_i| \le C` and n examples in a bucket,
any order of additions, with or without fused multiplications, errs by at most

.. math:: \Big\| \mathrm{fl}\Big(\sum_i h_i a_i^\top\Big) - \sum_i h_i a_i^\top \Big\|_F \le \gamma_n n C,
          \qquad \gamma_n = \frac{n u}{1 - n u}, \quad u = 2^{-24}

(Higham 2002, section 3.5). That counts for both data sets: `ROUNDING` is :math:`2 \gamma_n n` for n = `MOST`, with a reserve
for rounding an example's own numbers to float32. The channel is told a bound that is larger by this factor, so the noise
covers it.

The products of a bucket with more examples are computed in float64, and so are those of examples with numbers so large that
float32 could overflow. How many buckets there are follows from the released number of examples.
Examples that are all alike share a bucket; this costs time, not privacy.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.neural.loops import add_units
from tacit.neural.threads import one_blas_thread

MOST = 192
"""Most examples in a bucket that is added up in float32. Set by hand: buckets twice as large are faster by a tenth and need four
times the reserve."""
LOAD = 156
"""Mean number of examples per bucket, so that a number above MOST (2.9 standard deviations more) is rare."""
UNIT = 2.0**-24
"""Unit roundoff of float32."""
ROUNDING = 2 * MOST * MOST * UNIT / (1 - MOST * UNIT) + 2.0**-20
"""By what factor, less 1, rounding to float32 can enlarge what one example changes: 0.44%. The last term is 16 units of
roundoff; an example's own numbers take 3 of them (its factor, the product with the factor, and the product of both)."""
LARGEST = 2.0**40
"""Norms up to LARGEST are safe in float32, with a clipping norm of at least 1 / LARGEST: factors do not underflow, products
do not overflow, and what underflows is below 2^-50 of the clipping norm."""

FEW_UNITS, MOST_UNITS = 64, 128
"""Layers with fewer units are added up in one part, all others in at least two, of at most MOST_UNITS: their totals and products
fit the caches of a core. Set by hand; they affect speed only."""


def bucket_count(expected: float) -> int:
    """Return the number of buckets for an expected number of examples in a step, which must be public or released."""
    return max(1, round(expected / LOAD))


def buckets_of(X: NDArray[np.float32], count: int) -> torch.Tensor:
    """Return the bucket of every row, computed from its bytes alone.

    Privacy
    -------
    A row's bucket depends on this row and on `count` only. All arithmetic is of integers modulo 2^64, without rounding.
    """
    random = np.random.default_rng(0)
    odd = random.integers(2**63, size=X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    words = np.ascontiguousarray(X).view(np.uint32)
    keys = np.empty(len(X), np.uint64)
    for start in range(0, len(X), MOST):  # a few rows at a time, for the memory of 64-bit copies
        some = words[start : start + MOST].astype(np.uint64)
        keys[start : start + MOST] = ((some + (some << np.uint64(32))) * odd).sum(axis=1, dtype=np.uint64)
    keys ^= keys >> np.uint64(32)
    keys *= np.uint64(0x9E3779B97F4A7C15)  # the usual multiplier of Fibonacci hashing; the upper bits are the best ones
    return torch.from_numpy(((keys >> np.uint64(32)) % np.uint64(count)).astype(np.int64))


def parts_of(units: int) -> list[slice]:
    """Return the units of a layer whose totals are added up together, so that threads can do several parts at a time."""
    size = units if units < FEW_UNITS else min(MOST_UNITS, -(-units // 16) * 8)
    return [slice(start, min(start + size, units)) for start in range(0, units, size)]


def is_accurate() -> bool:
    """Return whether this machine's products of a bucket have at most the error that `ROUNDING` allows for one data set.

    Settings of a BLAS can replace float32 products by those of shorter numbers, whose error is hundreds of times larger.
    """
    draw = np.random.default_rng(0)
    h, a = (draw.random((MOST, width), dtype=np.float32) for width in (64, 256))
    exact = h.astype(np.float64).T @ a
    norms = np.linalg.norm(h.astype(np.float64), axis=1) * np.linalg.norm(a.astype(np.float64), axis=1)
    found = np.zeros_like(exact)
    with one_blas_thread():
        add_units(found, np.empty(0), h, a, np.ones(MOST, np.float32), np.array([MOST]), MOST, True)
    return float(np.linalg.norm(found - exact)) <= MOST * UNIT * float(norms.sum())
