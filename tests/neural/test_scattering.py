"""The front end treats each image alone, and its wavelets have mean zero."""

import numpy as np
import pytest
import torch

from tacit.errors import InvalidInputError
from tacit.neural import wavelets
from tacit.neural.wavelets import CHANNELS, ORIENTATIONS, _bank, _wavelets, scattering, scattering_size

IMAGES = np.random.default_rng(0).random((70, 12 * 9))


def test_each_image_is_transformed_by_itself():
    whole = scattering(IMAGES, (12, 9))
    assert whole.shape == (70, scattering_size((12, 9))) == (70, CHANNELS * 3 * 3)
    assert whole.dtype == np.float32
    for rows in (slice(0, 1), slice(3, 40), slice(60, 70)):
        assert np.array_equal(scattering(IMAGES[rows], (12, 9)), whole[rows])


def test_images_pass_one_at_a_time(monkeypatch):
    """In a batch, rounding may depend on the position: adding or removing an image would change the features of others."""
    passed, transform = [], wavelets._transformed

    def watched(images):
        passed.append(tuple(images.shape))
        return transform(images)

    monkeypatch.setattr(wavelets, "_transformed", watched)
    scattering(IMAGES[:20], (12, 9))
    assert passed == [(1, 1, 12, 9)] * 20


def test_wavelets_do_not_see_a_constant():
    assert torch.allclose(_bank().sum(dim=(1, 2, 3)), torch.zeros(2 * ORIENTATIONS, dtype=torch.float64), atol=1e-14)
    assert np.abs(scattering(np.full((2, 64), 0.7), (8, 8))).max() < 1e-9


@pytest.mark.parametrize("orientation", range(ORIENTATIONS))
def test_an_orientation_answers_to_its_own_waves(orientation):
    theta = np.pi * orientation / ORIENTATIONS
    v, u = np.mgrid[:20, :20]
    wave = np.cos(3 * np.pi / 4 * (u * np.cos(theta) + v * np.sin(theta)))
    answers = _wavelets(torch.from_numpy(wave)[None, None])[0, :, 5:15, 5:15].mean(dim=(1, 2))
    assert int(answers.argmax()) == orientation


def test_groups_of_features_have_one_size():
    found = scattering(IMAGES, (12, 9))
    for part in np.split(found, np.cumsum([9, 16 * 9]), axis=1):
        assert np.allclose(part.mean(axis=1), 0, atol=1e-5)
        assert np.all(np.sqrt(np.mean(part**2, axis=1)) < 1)
        assert np.all(np.sqrt(np.mean(part**2, axis=1)) > 0.9)


def test_a_small_shift_moves_features_less_than_pixels():
    image = np.zeros((28, 28))
    image[8:20, 12:15] = 1.0
    shifted = np.roll(image, 1, axis=1)

    def distance(a, b):
        return np.linalg.norm(a - b) / np.linalg.norm(a)

    features = scattering(np.stack([image.ravel(), shifted.ravel()]), (28, 28))
    assert distance(*features) < 0.75 * distance(image, shifted)


def test_images_that_are_too_small_are_refused():
    with pytest.raises(InvalidInputError, match="at least 8 x 8"):
        scattering(np.ones((2, 49)), (7, 7))
