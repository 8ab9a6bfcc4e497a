"""Pictures from a folder, as rows of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import files_under, reading
from tacit.errors import InvalidInputError, Undisclosed, words

# The decoders of Pillow that may be used, chosen by the content of a file.
_FORMATS = ("PNG", "JPEG", "PPM")
_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".pgm"})
# Largest values of pixels of 8 and 16 bits.
_GREATEST_8_BIT, _GREATEST_16_BIT = 255.0, 65535.0


@dataclass(frozen=True, eq=False, repr=False)
class Pictures(Undisclosed):
    """Grey-scale pictures of one size.

    Parameters
    ----------
    X : ndarray of shape (n_pictures, height * width)
        Intensities in [0, 1], from black to white, row by row of the picture.
    shape : tuple of int
        Height and width; ``X.reshape(-1, *shape)`` are two-dimensional pictures.
    names : tuple of str
        The path of each file below the folder, with forward slashes, in order.
    """

    X: NDArray[np.float64]
    shape: tuple[int, int]
    names: tuple[str, ...]


def read_pictures(folder: str | Path) -> Pictures:
    """Read every PNG, JPEG and PGM file in a folder and its subfolders, as grey-scale pictures.

    Colours are converted to luminance, and transparency is ignored. Pictures of 8 and of 16 bits are divided by their
    largest possible value. The orientation that a camera has stored in the file is applied.

    Parameters
    ----------
    folder : str or Path
        The folder; all pictures must have the same size.

    Returns
    -------
    Pictures
        The pictures in the order of their paths.
    """
    root, files = files_under(folder, _SUFFIXES)
    first = _read(files[0], root)
    X = np.empty((len(files), first.size))
    for row, file in zip(X, files, strict=True):
        picture = _read(file, root)
        if picture.shape != first.shape:
            raise InvalidInputError(
                f"all pictures in {root} to have one size",
                words("pictures of different sizes"),
                "Scale or crop the pictures to one size; `file` lists the sizes.",
            )
        row[:] = picture.ravel()
    return Pictures(
        X=X,
        shape=(first.shape[0], first.shape[1]),
        names=tuple(file.relative_to(root).as_posix() for file in files),
    )


def _read(file: Path, folder: Path) -> NDArray[np.float64]:
    from PIL import Image, ImageOps

    # Pillow reports a damaged PNG as a SyntaxError.
    with (
        reading(
            f"every picture in {folder}", "a complete PNG, JPEG or PGM file", SyntaxError, Image.DecompressionBombError
        ),
        Image.open(file, formats=_FORMATS) as opened,
    ):
        upright = ImageOps.exif_transpose(opened)
        # Conversion to 8 bits would clip values above 255 instead of scaling them.
        if upright.mode.startswith("I"):
            return np.asarray(upright, dtype=np.float64) / _GREATEST_16_BIT
        return np.asarray(upright.convert("L"), dtype=np.float64) / _GREATEST_8_BIT
