import numpy as np
import pytest
from scipy.optimize import nnls

from tacit.data import Images, make_images
from tacit.errors import InvalidInputError


@pytest.fixture(scope="module")
def exact() -> Images:
    return make_images(noise=0)


def test_same_seed_same_data_other_seed_other_data():
    one, again, other = make_images(), make_images(), make_images(random_state=1)
    for name in ("images", "parts", "activations"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


def test_shapes_and_ranges():
    data = make_images(30, side=9, n_parts=5)
    assert data.images.shape == (30, 81)
    assert data.parts.shape == (5, 81)
    assert data.activations.shape == (30, 5)
    assert data.shape == (9, 9)
    assert data.images.dtype == np.float64
    assert 0 <= data.images.min() < data.images.max() <= 1
    assert data.parts.min() == 0
    assert data.activations.min() == 0
    assert data.activations.max() <= 1


def test_without_noise_images_are_sums_of_parts(exact):
    np.testing.assert_allclose(exact.images, exact.activations @ exact.parts, atol=1e-12)
    assert np.linalg.matrix_rank(exact.images) == 8
    assert exact.images.max() <= 1


def test_non_negative_fit_on_the_true_parts_finds_the_activations(exact):
    for image, truth in zip(exact.images[:20], exact.activations[:20], strict=True):
        found, residual = nnls(exact.parts.T, image)
        np.testing.assert_allclose(found, truth, atol=1e-8)
        assert residual < 1e-8


@pytest.mark.parametrize(("side", "n_parts"), [(3, 1), (6, 4), (7, 4), (12, 8), (12, 16), (19, 25)])
def test_every_part_has_pixels_of_its_own(side, n_parts):
    for seed in range(10):
        parts = make_images(1, side=side, n_parts=n_parts, random_state=seed).parts
        alone = (parts > 0).sum(axis=0) == 1
        assert ((parts > 0) & alone).any(axis=1).all()
        # The divisor is common to all parts and as small as it can be.
        assert parts.sum(axis=0).max() == pytest.approx(1)
        np.testing.assert_allclose(parts.max(axis=1), parts.max())


def test_parts_are_local_blobs_and_bars(exact):
    shapes = exact.parts.reshape(-1, *exact.shape)
    assert ((exact.parts > 0).mean(axis=1) < 0.25).all()
    pixels = np.stack(np.meshgrid(range(12), range(12), indexing="ij")).reshape(2, -1)
    for index, shape in enumerate(shapes):
        weights = shape.ravel() / shape.sum()
        centred = pixels - (pixels @ weights)[:, None]
        narrow, wide = np.linalg.eigvalsh((centred * weights) @ centred.T)
        assert wide / narrow > 2 if index % 2 else wide / narrow < 1.6
    smallest_kept = min(shape[shape > 0].min() / shape.max() for shape in shapes)
    assert smallest_kept >= 0.05


@pytest.mark.parametrize("part_rate", [0.05, 0.3, 1.0])
def test_activations_are_sparse_and_no_image_is_empty(part_rate):
    active = make_images(4000, part_rate=part_rate).activations
    assert (active > 0).any(axis=1).all()
    assert active[active > 0].min() >= 0.25
    assert active[active > 0].mean() == pytest.approx(0.625, abs=0.01)
    # One part in eight is on in any case, the others at the rate.
    assert (active > 0).mean() == pytest.approx(1 / 8 + 7 / 8 * part_rate, abs=0.015)


def test_noise_has_the_given_size():
    data = make_images(2000, noise=0.02)
    clean = data.activations @ data.parts
    inside = (clean > 0.1) & (clean < 0.9)
    assert (data.images - clean)[inside].std() == pytest.approx(0.02, rel=0.02)
    assert abs((data.images - clean)[inside].mean()) < 4 * 0.02 / np.sqrt(inside.sum())
    assert make_images(noise=0.5).images.max() == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"n_images": 0},
        {"side": 2},
        {"n_parts": 0},
        {"n_parts": 17},
        {"part_rate": 0},
        {"part_rate": 1.1},
        {"noise": -1},
        {"random_state": 0.5},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        make_images(**settings)
