"""Compiled loops over the numbers of a chain: passes, losses, slopes, norms of rows, and totals in float64 of float32 numbers.

A piece of work is one or a few calls, none of which holds Python's global lock: threads that take it in turn for every small
operation wait for each other about as long as the operations take. Matrix products are those of the BLAS that SciPy has, which
must stay on one thread (`tacit.neural.threads.run_pieces`).

Every loop has a fixed order of additions: that of the text, except that the compiler chooses the order within a row in
`add_row_squares`, so that it can fill vector registers. The square, the loss and the slopes of a row are computed from that row
alone, so they do not depend on the other rows. Products are another matter: `tacit.neural.chain` tries them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

TANH, SIGMOID, RELU = 0, 1, 2
"""Activations whose derivative follows from their output."""
_TANH_IS_ONE = np.float32(7.90531110763549805)
"""From here on the hyperbolic tangent is 1 in float32, and so is the fraction below."""
# Coefficients of the odd numerator and the even denominator of a fraction that is the hyperbolic tangent to a few units of
# roundoff of float32: those of Eigen (`generic_fast_tanh_float`), which torch had too. It has no branches and no tables, so a
# vector register takes 16 numbers through it at a time.
_A1, _A3, _A5 = np.float32(4.89352455891786e-03), np.float32(6.37261928875436e-04), np.float32(1.48572235717979e-05)
_A7, _A9 = np.float32(5.12229709037114e-08), np.float32(-8.60467152213735e-11)  # likewise
_A11, _A13 = np.float32(2.00018790482477e-13), np.float32(-2.76076847742355e-16)  # likewise
_B0, _B2 = np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03)  # likewise
_B4, _B6 = np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06)  # likewise


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_row_squares(rows: NDArray[np.floating], width: int, totals: NDArray[np.float64]) -> None:
    """Add the squared norm of the first `width` numbers of each row to its total, in float64."""
    for place in range(len(totals)):
        row, total = rows[place], 0.0
        for column in range(width):
            number = np.float64(row[column])
            total += number * number
        totals[place] += total


@njit(cache=True, nogil=True)
def put_class_slopes(
    scores: NDArray[np.floating], labels: NDArray[np.int64], count: int, losses: NDArray[np.float64]
) -> None:
    """Put the losses of `classification_loss`, and replace the first `count` scores of each row by their slopes.

    Computed in float64; all that follows from a score that is not a finite number is not one either.
    """
    exponentials = np.empty(count)
    for place in range(len(losses)):
        row, label = scores[place], labels[place]
        largest = -np.inf
        for column in range(count):
            largest = max(largest, np.float64(row[column]))
        total = 0.0
        for column in range(count):
            exponentials[column] = math.exp(np.float64(row[column]) - largest)
            total += exponentials[column]
        if not 0 <= label < count:
            total = np.nan
        losses[place] = math.log(total) - (np.float64(row[min(max(label, 0), count - 1)]) - largest)
        for column in range(count):
            row[column] = exponentials[column] / total - np.float64(column == label)


@njit(cache=True, nogil=True)
def put_distances(
    scores: NDArray[np.floating], targets: NDArray[np.floating], count: int, losses: NDArray[np.float64]
) -> None:
    """Put the losses of `regression_loss`, and replace the first `count` scores of each row by their slopes."""
    for place in range(len(losses)):
        row, total = scores[place], 0.0
        for column in range(count):
            distance = np.float64(row[column]) - np.float64(targets[place, column])
            total += distance * distance
            row[column] = distance
        losses[place] = total / 2


@njit(cache=True, nogil=True)
def put_rows(rows: NDArray[np.floating], places: NDArray[np.int64], block: NDArray[np.floating]) -> None:
    """Put the rows at some places into the upper left part of a block, and zeros elsewhere."""
    width = rows.shape[1]
    for place in range(len(block)):
        row = block[place]
        if place < len(places):
            given = rows[places[place]]
            for column in range(width):
                row[column] = given[column]
            row[width:] = 0
        else:
            row[:] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def pass_forward(
    inputs: tuple[NDArray[np.floating], ...],
    outputs: tuple[NDArray[np.floating], ...],
    weights: tuple[NDArray[np.floating], ...],
    biases: tuple[NDArray[np.floating], ...],
    functions: NDArray[np.int64],
    single: bool,
) -> None:
    """Run a block forward: what goes into the first layer is given, and what goes into the others is put into `inputs`.

    The scores are in the last of `outputs`; the others hold products. `single` says that all numbers are in float32.
    """
    last = len(outputs) - 1
    for place in range(len(outputs)):
        products, bias = outputs[place], biases[place]
        np.dot(inputs[place], weights[place].T, products)
        for index in range(len(products)):
            row = products[index]
            for column in range(row.size):
                row[column] += bias[column]
        if place < last:
            _apply(functions[place], products, inputs[place + 1], single)


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(function: int, given: NDArray[np.floating], found: NDArray[np.floating], single: bool) -> None:
    """Apply an activation entry by entry; what is not a number stays so."""
    for place in range(len(given)):
        row, results = given[place], found[place]
        if function == RELU:
            for column in range(row.size):
                results[column] = 0 if row[column] < 0 else row[column]
        elif function == SIGMOID:
            for column in range(row.size):
                results[column] = 1 / (1 + math.exp(-np.float64(row[column])))
        elif not single:
            for column in range(row.size):
                results[column] = math.tanh(row[column])
        else:
            for column in range(row.size):
                x = np.float32(row[column])
                x = _TANH_IS_ONE if x > _TANH_IS_ONE else x
                x = -_TANH_IS_ONE if x < -_TANH_IS_ONE else x
                y = x * x
                above = _A13 * y + _A11
                above = above * y + _A9
                above = above * y + _A7
                above = above * y + _A5
                above = above * y + _A3
                above = above * y + _A1
                below = _B6 * y + _B4
                below = below * y + _B2
                below = below * y + _B0
                results[column] = x * above / below


@njit(cache=True, nogil=True)
def pass_backward(
    inputs: tuple[NDArray[np.floating], ...],
    slopes: tuple[NDArray[np.floating], ...],
    weights: tuple[NDArray[np.floating], ...],
    functions: NDArray[np.int64],
    widths: NDArray[np.int64],
    squares: NDArray[np.float64],
) -> None:
    """Run a block backward from the slopes of its scores, in the last of `slopes`, and add the squared norms of its rows.

    `widths` are those of the layers without padding, from the first one's input to the scores.
    """
    for place in range(len(slopes) - 2, -1, -1):
        np.dot(slopes[place + 1], weights[place + 1], slopes[place])
        _times_derivative(functions[place], inputs[place + 1], slopes[place])
    for place in range(len(slopes)):
        add_row_squares(inputs[place], widths[place], squares[place, 0])
        add_row_squares(slopes[place], widths[place + 1], squares[place, 1])


@njit(cache=True, nogil=True)
def _times_derivative(function: int, outputs: NDArray[np.floating], slopes: NDArray[np.floating]) -> None:
    """Multiply slopes by the derivative of an activation, where it has these outputs; that of ReLU is 0 at 0, as in torch."""
    one = slopes.dtype.type(1)
    for place in range(len(slopes)):
        row, given = slopes[place], outputs[place]
        if function == RELU:
            for column in range(row.size):
                row[column] *= given[column] > 0
        elif function == SIGMOID:
            for column in range(row.size):
                row[column] *= given[column] * (one - given[column])
        else:
            for column in range(row.size):
                row[column] *= one - given[column] * given[column]


@njit(cache=True, nogil=True)
def add_units(
    total: NDArray[np.float64],
    bias: NDArray[np.float64],
    g: NDArray[np.float32],
    a: NDArray[np.float32],
    factors: NDArray[np.float32],
    counts: NDArray[np.int64],
    most: int,
    begun: bool,
) -> None:
    """Add outer products of scaled slopes and inputs to the totals of some units, bucket by bucket (`tacit.neural.buckets`).

    Parameters
    ----------
    total : ndarray of shape (units, width)
        Of the weights; with no rows if they are not learned.
    bias : ndarray of shape (units,)
        Of the biases; empty if there are none.
    g, a : ndarray of shape (n_examples, units) and (n_examples, at least width)
        Slopes and inputs; `a` is contiguous, and what it has beyond the width is not used.
    factors : ndarray of shape (n_examples,)
        Of the slopes.
    counts : ndarray of int
        The number of examples of every bucket, in the order of the rows.
    most : int
        The products of a bucket with more examples are computed in float64.
    begun : bool
        Whether the totals hold numbers already; otherwise they are arbitrary and are replaced.
    """
    units = g.shape[1]
    largest = 0
    for count in counts:
        largest = max(largest, count)
    scaled, product = np.empty((largest, units), np.float32), np.empty((units, a.shape[1]), np.float32)
    if not begun:
        bias[:] = 0.0
        total[:] = 0.0
    start = 0
    for count in counts:
        for row in range(count):
            for unit in range(units):
                scaled[row, unit] = g[start + row, unit] * factors[start + row]
            for unit in range(bias.size):
                bias[unit] += np.float64(scaled[row, unit])
        if len(total) and count > most:
            wide = np.dot(scaled[:count].astype(np.float64).T, a[start : start + count].astype(np.float64))
            for unit in range(units):
                for column in range(total.shape[1]):
                    total[unit, column] += wide[unit, column]
        elif len(total):
            np.dot(scaled[:count].T, a[start : start + count], product)
            for unit in range(units):
                for column in range(total.shape[1]):
                    total[unit, column] += np.float64(product[unit, column])
        start += count


@njit(cache=True, nogil=True)
def move(
    theta: NDArray[np.float64],
    speed: NDArray[np.float64],
    noisy: NDArray[np.float64],
    factors: tuple[float, float, float],
    size: float,
) -> None:
    """Set the speed to the sum of speed, weight and noisy total, each times a factor, and take a step against it."""
    of_speed, of_theta, of_noisy = factors
    for place in range(theta.size):
        speed[place] = of_speed * speed[place] + of_theta * theta[place] + of_noisy * noisy[place]
        theta[place] -= size * speed[place]
