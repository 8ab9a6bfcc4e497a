"""Images of digits: MNIST in its idx files."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import FileLayout, PaperDataSet, data_set


@dataclass(frozen=True, eq=False, repr=False)
class Digits(Undisclosed):
    """Images as rows of pixels from 0 to 1, with their digits."""

    train: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float64]
    test_labels: NDArray[np.int64]


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of bytes, compressed or not: two zeros, the type 8, the number of axes, their sizes, the values."""
    with reading(path, "an idx file of bytes", zlib.error):
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        if raw[:3] != b"\0\0\x08" or len(raw) < 4:
            raise ValueError("magic number")
        shape = np.frombuffer(raw, dtype=">u4", count=raw[3], offset=4).astype(int)
        return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def _idx(train: Path, train_labels: Path, test: Path, test_labels: Path) -> Digits:
    with reading(train, "images of 28 x 28 pixels"):
        images = [read_idx(path).reshape(-1, 784) / 255.0 for path in (train, test)]
    labels = [read_idx(path).astype(np.int64) for path in (train_labels, test_labels)]
    return Digits(images[0], labels[0], images[1], labels[1])


def _arrays(train: Path, test: Path) -> Digits:
    with reading(train, "arrays x and y", KeyError), np.load(train) as first, np.load(test) as second:
        return Digits(
            first["x"] / 255.0, first["y"].astype(np.int64), second["x"] / 255.0, second["y"].astype(np.int64)
        )


def _check(digits: Digits) -> str:
    counts = tuple(map(len, (digits.train, digits.train_labels, digits.test, digits.test_labels)))
    fits = counts == (60_000, 60_000, 10_000, 10_000)
    return "" if fits else "{} images with {} labels, and {} with {}".format(*counts)


_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
data_set(
    PaperDataSet(
        "mnist",
        "MNIST, 60,000 training and 10,000 test images",
        "https://yann.lecun.com/exdb/mnist/",
        (
            FileLayout(_NAMES, _idx),
            FileLayout(tuple(f"{name}.gz" for name in _NAMES), _idx),
            FileLayout(("mnist/mnist_train_60000.npz", "mnist/mnist_test_10000.npz"), _arrays),
        ),
        check=_check,
    )
)
