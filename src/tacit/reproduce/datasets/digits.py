"""Images of digits: MNIST in its idx files."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import DataSet, Layout, data_set


@dataclass(frozen=True, eq=False, repr=False)
class Digits(Undisclosed):
    """Images as rows of pixels from 0 to 1, with their digits."""

    train: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float64]
    test_labels: NDArray[np.int64]


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of bytes, compressed or not: two zeros, the type 8, the number of axes, their sizes, the values."""
    with reading(path, "an idx file"):
        raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    axes = raw[3]
    shape = np.frombuffer(raw, dtype=">u4", count=axes, offset=4).astype(int)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def _idx(train: Path, train_labels: Path, test: Path, test_labels: Path) -> Digits:
    images = [read_idx(path).reshape(-1, 784) / 255.0 for path in (train, test)]
    labels = [read_idx(path).astype(np.int64) for path in (train_labels, test_labels)]
    return Digits(images[0], labels[0], images[1], labels[1])


def _arrays(train: Path, test: Path) -> Digits:
    with np.load(train) as first, np.load(test) as second:
        return Digits(
            first["x"] / 255.0, first["y"].astype(np.int64), second["x"] / 255.0, second["y"].astype(np.int64)
        )


def _check(digits: Digits) -> str:
    return (
        ""
        if (len(digits.train), len(digits.test)) == (60_000, 10_000)
        else f"{len(digits.train)} and {len(digits.test)} images"
    )


_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
data_set(
    DataSet(
        "mnist",
        "MNIST, 60,000 training and 10,000 test images",
        "https://yann.lecun.com/exdb/mnist/",
        (
            Layout(_NAMES, _idx),
            Layout(tuple(f"{name}.gz" for name in _NAMES), _idx),
            Layout(("mnist/mnist_train_60000.npz", "mnist/mnist_test_10000.npz"), _arrays),
        ),
        check=_check,
    )
)
