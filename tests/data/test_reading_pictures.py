import numpy as np
import pytest
from PIL import Image

from tacit.data import read_pictures
from tacit.errors import InvalidInputError

GREY = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20


def test_pictures_of_every_kind(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    Image.fromarray(GREY).save(tmp_path / "b.pgm")
    Image.fromarray(GREY).convert("RGBA").save(tmp_path / "c.png")
    Image.fromarray(GREY.astype(np.uint16) * 257).save(tmp_path / "d.png")
    (tmp_path / "e.pgm").write_bytes(b"P5 4 3 65535\n" + (GREY.astype(">u2") * 257).tobytes())
    (tmp_path / "f").mkdir()
    Image.fromarray(np.full((3, 4), 200, dtype=np.uint8)).save(tmp_path / "f" / "g.JPG", quality=95)
    (tmp_path / "readme.txt").write_text("no picture")
    found = read_pictures(tmp_path)
    assert found.shape == (3, 4)
    assert found.names == ("a.png", "b.pgm", "c.png", "d.png", "e.pgm", "f/g.JPG")
    for row in found.X[:5]:
        np.testing.assert_allclose(row.reshape(found.shape), GREY / 255, atol=1e-12)
    np.testing.assert_allclose(found.X[5], 200 / 255, atol=2 / 255)


def test_black_is_zero_white_is_one(tmp_path):
    Image.fromarray(np.array([[0, 255]], dtype=np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(np.array([[False, True]])).save(tmp_path / "b.png")
    assert read_pictures(tmp_path).X.tolist() == [[0, 1], [0, 1]]


def test_pictures_of_several_sizes_are_refused(tmp_path):
    for name, picture in (("a.png", GREY), ("b.png", GREY), ("c.png", GREY.T), ("d.png", GREY[:2])):
        Image.fromarray(picture).save(tmp_path / name)
    with pytest.raises(InvalidInputError, match="to have one size; got pictures of different sizes"):
        read_pictures(tmp_path)


@pytest.mark.parametrize("content", ["cut", "noise", "disguise"])
def test_broken_pictures_are_refused(tmp_path, content):
    file = tmp_path / "face.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50), dtype=np.uint8)).save(file)
    if content == "cut":
        file.write_bytes(file.read_bytes()[:400])
    elif content == "noise":
        file.write_bytes(b"no picture at all")
    else:
        Image.fromarray(GREY).save(file, format="GIF")
    with pytest.raises(InvalidInputError, match=r"every picture in .* to be a complete"):
        read_pictures(tmp_path)
