import numpy as np
import pytest
from perturbed_tables import TABLE
from scipy.stats import kstest, norm, uniform

from tacit import NMF
from tacit.errors import InvalidInputError
from tacit.measure import value_difference
from tacit.perturb import AdditiveNoise, NMFRelease, TruncatedSVDRelease


@pytest.mark.parametrize(("kind", "law"), [("uniform", uniform(-0.5, 1)), ("normal", norm())])
def test_noise_has_the_law_it_says_in_units_of_the_range(kind, law):
    table = np.random.default_rng(0).random((4000, 2)) * [1.0, 100.0]
    noise = AdditiveNoise(0.3, kind=kind, random_state=2).fit_transform(table) - table
    scaled = noise / (0.3 * np.ptp(table, axis=0))
    assert kstest(scaled.ravel(), law.cdf).pvalue > 0.01
    assert abs(np.corrcoef(scaled.T)[0, 1]) < 0.06


def test_noise_grows_in_proportion_to_the_level():
    one, three = (AdditiveNoise(level, random_state=2).fit_transform(TABLE) - TABLE for level in (0.1, 0.3))
    np.testing.assert_allclose(three, 3 * one)


@pytest.mark.parametrize("kind", ["laplace", 3])
def test_other_kinds_of_noise_are_refused(kind):
    with pytest.raises(InvalidInputError, match="kind to be one of"):
        AdditiveNoise(0.1, kind=kind).fit(TABLE)


def test_the_svd_release_is_the_best_of_its_rank():
    values = np.linalg.svd(TABLE, compute_uv=False)
    for rank in (1, 2, 3):
        method = TruncatedSVDRelease(rank)
        released = method.fit_transform(TABLE)
        assert np.linalg.matrix_rank(released) == rank
        # Eckart and Young: the error is the norm of the discarded singular values
        assert method.distortion_ == pytest.approx(np.sqrt(np.sum(values[rank:] ** 2) / np.sum(values**2)))


def test_a_rank_between_two_keeps_a_part_of_the_next_component():
    low, high = (TruncatedSVDRelease(rank).fit_transform(TABLE) for rank in (2, 3))
    np.testing.assert_allclose(TruncatedSVDRelease(2.25).fit_transform(TABLE), 0.75 * low + 0.25 * high)


def test_the_nmf_release_is_that_of_the_library():
    model = NMF(2, max_iter=1000, random_state=0).fit(np.abs(TABLE))
    released = NMFRelease(2, scale="none").fit_transform(np.abs(TABLE))
    np.testing.assert_allclose(released, model.inverse_transform(model.transform(np.abs(TABLE))))
    assert value_difference(np.abs(TABLE), NMFRelease(4, scale="none").fit_transform(np.abs(TABLE))) == 0


@pytest.mark.parametrize("method", [TruncatedSVDRelease, NMFRelease])
@pytest.mark.parametrize("rank", [0.5, 5, -1])
def test_ranks_that_there_are_not(method, rank):
    with pytest.raises(InvalidInputError, match="rank"):
        method(rank).fit(TABLE)
