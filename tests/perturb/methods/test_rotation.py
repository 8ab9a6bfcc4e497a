import numpy as np
import polars as pl
import pytest
from perturbed_tables import TABLE
from scipy.spatial.distance import cdist, pdist
from scipy.stats import norm

from tacit.errors import InvalidInputError
from tacit.measure import entropy_loss
from tacit.measure.attacks import known_sample_regression
from tacit.perturb import AdditiveNoise, RotationRelease, named_release


def test_distances_stay_and_values_do_not():
    released = RotationRelease(1.0, scale="none").fit_transform(TABLE)
    np.testing.assert_allclose(pdist(released), pdist(TABLE), atol=1e-9)
    assert np.abs(released - TABLE).max() > 1
    np.testing.assert_allclose(released.mean(axis=0), TABLE.mean(axis=0))


def test_a_part_of_the_rotation_applied_again_and_again_is_the_whole():
    half, whole = (RotationRelease(level, scale="none", random_state=3).fit(TABLE) for level in (0.5, 1.0))
    np.testing.assert_allclose(half.transform(half.transform(TABLE)), whole.transform(TABLE), atol=1e-9)


def test_a_distortion_is_reached():
    method = named_release("rotation", target_distortion=0.3, random_state=0)
    method.fit(TABLE)
    assert method.distortion_ == pytest.approx(0.3, rel=0.02)


def test_appended_rows_are_turned_as_the_first_ones_were():
    method = RotationRelease(1.0, scale="none", random_state=1)
    first, more = method.fit_transform(TABLE[:80]), method.transform(TABLE[80:])
    np.testing.assert_allclose(cdist(first, more), cdist(TABLE[:80], TABLE[80:]), atol=1e-9)


def test_a_few_known_rows_undo_it():
    released = RotationRelease(1.0).fit_transform(TABLE)
    assert known_sample_regression(TABLE, released, n_known=8).recovered > 0.99


def test_categories_are_refused_with_words():
    frame = pl.DataFrame(TABLE, schema=list("abcd")).with_columns(town=pl.lit("Ulm"))
    with pytest.raises(InvalidInputError, match="other kinds in the columns town"):
        RotationRelease(1.0).fit(frame)


def test_entropy_loss_is_that_of_normal_noise():
    """Of a normal variable with normal noise of the same variance, I = 0.5 bits: parts lose a little of it."""
    generator = np.random.default_rng(0)
    table = generator.normal(size=(40_000, 2))
    noisy = table + generator.normal(size=table.shape)
    expected = 1 - 2.0**-0.5
    assert expected - 0.04 < entropy_loss(table, noisy) < expected
    assert entropy_loss(table, generator.normal(size=table.shape)) == pytest.approx(0, abs=0.005)
    assert entropy_loss(table, table) == pytest.approx(0.9, abs=0.01)
    assert entropy_loss(table, norm.cdf(table)) == pytest.approx(0.9, abs=0.01)  # a change of units hides nothing


def test_more_noise_takes_less_uncertainty_away():
    losses = [entropy_loss(TABLE, AdditiveNoise(level, random_state=0).fit_transform(TABLE)) for level in (0.1, 0.5, 3)]
    assert losses == sorted(losses, reverse=True)
