"""Small synthetic images: sums of parts (blobs and bars), each at its own position and present in some images."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_count, check_non_negative, check_rate, check_seed

# A part is centred in a cell of its own; with fewer pixels across, neighbours would overlap too much.
_LEAST_CELL = 3
# Intensities below this fraction of a part's peak are set to zero, so that a part is local and sparse. Set by hand.
_LEAST_INTENSITY = 0.05
# Least brightness of a part that is present. Set by hand.
_DIMMEST = 0.25


@dataclass(frozen=True, eq=False)
class Images:
    """Images as rows of pixels, with their parts and activations.

    Parameters
    ----------
    images : ndarray of shape (n_images, side * side)
        Intensities in [0, 1], row by row of the image.
    parts : ndarray of shape (n_parts, side * side)
        The parts, non-negative; at every pixel their sum is at most one.
    activations : ndarray of shape (n_images, n_parts)
        The brightness of each part in each image, in [0, 1]; 0 if the part is missing.
    shape : tuple of int
        Height and width; ``images.reshape(-1, *shape)`` are two-dimensional images.
    """

    images: NDArray[np.float64]
    parts: NDArray[np.float64]
    activations: NDArray[np.float64]
    shape: tuple[int, int]


def make_images(
    n_images: int = 400,
    *,
    side: int = 12,
    n_parts: int = 8,
    part_rate: float = 0.3,
    noise: float = 0.01,
    random_state: int = 0,
) -> Images:
    r"""Draw images that are sums of a few non-negative parts of a common set.

    .. math::
        X = \mathrm{clip}(A P + \sigma Z, 0, 1), \qquad Z_{ip} \sim N(0, 1), \qquad
        A_{ij} = B_{ij} U_{ij}, \qquad U_{ij} \sim \mathrm{Uniform}(0.25, 1),

    where :math:`B_{ij}` is 1 with probability `part_rate`, and always for one random part of each image.

    The square is divided into cells, and every part is centred in one of them. Along its own axes, rotated by a
    random angle, a part is :math:`\exp(-(s/a)^2/2 - (t/b)^2/2)`, set to zero below 0.05 of its peak. Parts are
    alternately blobs (a = b) and bars (a > b). All parts are divided by the same number, so that
    :math:`\sum_j P_{jp} \le 1` and no pixel of AP exceeds 1.

    Parameters
    ----------
    n_images : int
        Number of images.
    side : int
        Height and width in pixels.
    n_parts : int
        Number of parts, the non-negative rank of the images without noise; at most (side // 3) squared.
    part_rate : float
        Probability in (0, 1] that an image has a given part.
    noise : float
        Standard deviation of the noise of a pixel; with 0 the images are exactly activations @ parts.
    random_state : int
        Seed; the same seed gives the same data.

    Returns
    -------
    Images
        The images and their truth.

    Examples
    --------
    >>> data = make_images(50, noise=0.0)
    >>> data.images.shape, data.shape
    ((50, 144), (12, 12))
    """
    n_images = check_count(n_images, "n_images")
    side = check_count(side, "side", least=_LEAST_CELL)
    n_parts = check_count(n_parts, "n_parts")
    most_parts = (side // _LEAST_CELL) ** 2
    if n_parts > most_parts:
        raise InvalidInputError(
            f"n_parts to be at most {most_parts} for side={side}",
            parameter(n_parts),
            "Give fewer parts or larger images.",
        )
    part_rate = check_rate(part_rate, "part_rate")
    noise = check_non_negative(noise, "noise")
    rng = np.random.default_rng(check_seed(random_state))

    parts = _parts(rng, side, n_parts)
    present = rng.random((n_images, n_parts)) < part_rate
    # No image is empty.
    present[np.arange(n_images), rng.integers(n_parts, size=n_images)] = True
    activations = present * rng.uniform(_DIMMEST, 1, size=present.shape)
    images = activations @ parts + noise * rng.standard_normal((n_images, side * side))
    return Images(images=np.clip(images, 0, 1), parts=parts, activations=activations, shape=(side, side))


def _parts(rng: np.random.Generator, side: int, n_parts: int) -> NDArray[np.float64]:
    """Draw blobs and bars in distinct cells of the square."""
    cells_across = math.ceil(math.sqrt(n_parts))
    cell = side / cells_across
    places = rng.permutation(cells_across**2)[:n_parts]
    pixels = np.arange(side) + 0.5
    parts = np.empty((n_parts, side, side))
    for index, place in enumerate(places):
        row, column = divmod(int(place), cells_across)
        down, right = cell * (np.array([row, column]) + 0.5 + rng.uniform(-0.1, 0.1, size=2))
        angle = rng.uniform(0, math.pi)
        is_bar = index % 2 == 1
        length, width = (0.4 * cell, 0.15 * cell) if is_bar else (0.25 * cell, 0.25 * cell)
        y, x = np.meshgrid(pixels - down, pixels - right, indexing="ij")
        along = x * math.cos(angle) + y * math.sin(angle)
        across = y * math.cos(angle) - x * math.sin(angle)
        part = np.exp(-((along / length) ** 2 + (across / width) ** 2) / 2)
        parts[index] = np.where(part < _LEAST_INTENSITY * part.max(), 0.0, part / part.max())
    parts /= parts.sum(axis=0).max()
    return parts.reshape(n_parts, side * side)
