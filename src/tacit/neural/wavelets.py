r"""A fixed front end for images: a scattering transform, which is not fitted to any data.

It computes wavelet coefficients in several orientations at two scales, their absolute values and local averages, and
repeats this on the absolute values of the fine scale. The wavelets are given by formulas and each image is transformed by
itself, so the transform costs no privacy. A network on top of it learns much more from noisy gradients than one on pixels.

.. math:: \{x * \phi,\; |x * \psi_{j,\theta}| * \phi,\; ||x * \psi_{0,\theta}| * \psi_{1,\theta'}| * \phi\}

with Morlet wavelets :math:`\psi_{j,\theta}` of scale :math:`2^j`, j = 0, 1, in 8 orientations, averaged by a Gaussian
:math:`\phi` and sampled every 4 pixels. The coarse wavelets are the fine ones on the image at half its size. They are truncated
to 7 x 7 pixels.

References
----------
J. Bruna, S. Mallat. Invariant scattering convolution networks. IEEE TPAMI 35(8), 2013.
F. Tramèr, D. Boneh. Differentially private learning needs better features (or much more data). ICLR 2021.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter

ORIENTATIONS = 8
"""As in Tramèr & Boneh (2021)."""
CHANNELS = 1 + 2 * ORIENTATIONS + ORIENTATIONS**2
"""The average, both scales of the first order, and the second order."""
STRIDE = 4
"""2^J pixels for J = 2 scales, as there."""
LEAST_SIDE = 8
"""Smaller images would have one average per channel."""
REACH = 3
"""The wavelets are truncated at this distance: 3.75 standard deviations along the wave, 1.9 across."""
# the usual Morlet constants: width, central frequency, ratio of the axes
WIDTH, FREQUENCY, SLANT = 0.8, 3 * math.pi / 4, 0.5
BLUR = 0.8
"""Standard deviation of the Gaussian averages, in units of half the stride: that of the wavelets' envelope."""
SMOOTHED = 1e-4
"""Added to the root mean square that features are divided by, so that an empty image stays empty."""


def scattering_size(shape: tuple[int, int]) -> int:
    """Return the number of features of an image of this shape."""
    return CHANNELS * math.ceil(shape[0] / STRIDE) * math.ceil(shape[1] / STRIDE)


def scattering(X: NDArray[np.floating], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Transform images, one per row, each by itself, in float64.

    Parameters
    ----------
    X : array of shape (n_images, height * width)
        Intensities in a public range.
    shape : tuple of int
        Height and width, each at least 8.

    Returns
    -------
    ndarray of shape (n_images, scattering_size(shape))
        The averages, the first and the second absolute values; in every image each of the three has mean 0 and root
        mean square 1.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.neural.wavelets import scattering
    >>> scattering(np.eye(64), (8, 8)).shape
    (64, 324)
    """
    if min(shape) < LEAST_SIDE:
        raise InvalidInputError(
            f"images of at least {LEAST_SIDE} x {LEAST_SIDE} pixels",
            parameter(shape),
            "Use features=None for smaller ones.",
        )
    out = np.empty((len(X), scattering_size(shape)), np.float32)
    for place, row in enumerate(X):
        # one image at a time: in a batch, rounding may depend on the position and on the number of images
        image = torch.from_numpy(np.array(row, np.float64)).reshape(1, 1, *shape)
        out[place] = _transformed(image).numpy()[0]
    return out


def _transformed(images: torch.Tensor) -> torch.Tensor:
    fine = _wavelets(images)
    first = [_averaged(fine, 4), _averaged(_wavelets(_averaged(images, 2)), 2)]
    second = _averaged(_wavelets(_averaged(fine, 2)), 2)
    groups = (_averaged(images, 4), torch.cat(first, dim=1), second)
    return torch.cat([_normalised(group.flatten(1)) for group in groups], dim=1)


def _normalised(features: torch.Tensor) -> torch.Tensor:
    """Centre and scale the features of every image by themselves."""
    centred = features - features.mean(dim=1, keepdim=True)
    return centred / (centred.square().mean(dim=1, keepdim=True).sqrt() + SMOOTHED)


def _wavelets(channels: torch.Tensor) -> torch.Tensor:
    """Return the absolute values of every channel's wavelet coefficients, one channel per orientation."""
    count, depth, height, width = channels.shape
    padded = torch.nn.functional.pad(channels, (REACH,) * 4, mode="reflect")
    coefficients = torch.nn.functional.conv2d(padded.reshape(count * depth, 1, *padded.shape[2:]), _bank())
    sizes = torch.hypot(coefficients[:, :ORIENTATIONS], coefficients[:, ORIENTATIONS:])
    return sizes.reshape(count, -1, height, width)


@lru_cache(maxsize=1)
def _bank() -> torch.Tensor:
    """Return the wavelets as convolution kernels: the real parts, then the imaginary parts."""
    at = torch.arange(-REACH, REACH + 1, dtype=torch.float64)
    v, u = torch.meshgrid(at, at, indexing="ij")
    waves = []
    for theta in (math.pi * k / ORIENTATIONS for k in range(ORIENTATIONS)):
        along, across = u * math.cos(theta) + v * math.sin(theta), v * math.cos(theta) - u * math.sin(theta)
        envelope = torch.exp(-(along**2 + (SLANT * across) ** 2) / (2 * WIDTH**2))
        envelope = envelope / envelope.sum()
        wave = envelope * torch.exp(1j * FREQUENCY * along)
        waves.append(wave - envelope * wave.sum())  # a wavelet has mean zero
    bank = torch.stack(waves)
    return torch.cat([bank.real, bank.imag])[:, None]


def _averaged(channels: torch.Tensor, stride: int) -> torch.Tensor:
    rows, columns = (_averaging(side, stride) for side in channels.shape[2:])
    return rows @ channels @ columns.T


@lru_cache(maxsize=16)
def _averaging(side: int, stride: int) -> torch.Tensor:
    """Return the matrix of Gaussian averages around every stride-th pixel; at the border, of the pixels that exist."""
    at = torch.arange(math.ceil(side / stride), dtype=torch.float64) * stride + (stride - 1) / 2
    distance = torch.arange(side, dtype=torch.float64) - at[:, None]
    weights = torch.exp(-0.5 * (distance / (BLUR * stride / 2)) ** 2)
    return weights / weights.sum(dim=1, keepdim=True)
