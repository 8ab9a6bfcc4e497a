"""Pictures of faces: CBCL and the extended Yale B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data import read_pictures
from tacit.data.files import reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import FileLayout, PaperDataSet, data_set


@dataclass(frozen=True, eq=False, repr=False)
class Faces(Undisclosed):
    """Pictures as rows of pixels between 0 and 1, upright if they are reshaped to `shape`."""

    X: NDArray[np.float64]
    shape: tuple[int, int]


def read_pgm(folder: Path) -> Faces:
    """Read a folder of PGM files, as CBCL is published."""
    pictures = read_pictures(folder)
    return Faces(pictures.X, pictures.shape)


def read_yale_mat(path: Path) -> Faces:
    """Read ``fea`` of YaleB_32x32.mat, whose pictures are stored column by column."""
    from scipy.io import loadmat

    with reading(path, "matrix", KeyError):
        stored = loadmat(path)["fea"]
    return _upright(stored, (32, 32))


def _upright(rows: NDArray[np.generic], shape: tuple[int, int]) -> Faces:
    X = np.asarray(rows, dtype=np.float64) / 255.0
    return Faces(np.ascontiguousarray(X.reshape(-1, *shape).transpose(0, 2, 1)).reshape(len(X), -1), shape)


def _stored(path: Path) -> NDArray[np.float64]:
    with reading(path, "matrix", KeyError), np.load(path, allow_pickle=False) as stored:
        return np.asarray(stored["X"], dtype=np.float64)


def _count(rows: int, columns: int) -> Callable[[Faces], str]:
    def check(faces: Faces) -> str:
        return "" if faces.X.shape == (rows, columns) else f"{faces.X.shape[0]} pictures of {faces.X.shape[1]} pixels"

    return check


data_set(
    PaperDataSet(
        "cbcl",
        "CBCL, 2429 training faces of 19 x 19 pixels",
        "http://cbcl.mit.edu/software-datasets/FaceData2.html",
        (
            FileLayout(("train/face/",), read_pgm),
            FileLayout(("faces/cbcl_19x19.npz",), lambda path: Faces(_stored(path) / 255.0, (19, 19))),
        ),
        check=_count(2429, 361),
    )
)
data_set(
    PaperDataSet(
        "yale-b",
        "the extended Yale B, 2414 faces of 32 x 32 pixels",
        "http://www.cad.zju.edu.cn/home/dengcai/Data/FaceData.html",
        (
            FileLayout(("YaleB_32x32.mat",), read_yale_mat),
            FileLayout(("faces/yaleb_32x32.npz",), lambda path: _upright(_stored(path), (32, 32))),
        ),
        check=_count(2414, 1024),
    )
)
