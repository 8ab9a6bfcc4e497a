"""Attacks that estimate values: they recover what is recoverable, and report nothing without a leak."""

import numpy as np
import pytest
from tables_to_attack import correlated, independent_copy, rotated, truncated

from tacit.errors import InvalidInputError
from tacit.measure.attacks import known_sample_regression, noise_estimation, spectral_filtering

FILTERS = {
    "spectral": spectral_filtering,
    "bayes": lambda *tables, **settings: noise_estimation(*tables, method="bayes", **settings),
    "pca": lambda *tables, **settings: noise_estimation(*tables, method="pca", **settings),
}


@pytest.fixture(params=FILTERS)
def attack(request):
    return FILTERS[request.param]


def test_noise_on_correlated_columns_is_filtered(attack):
    table = correlated()
    noisy = table + table.std(axis=0) * np.random.default_rng(1).normal(size=table.shape)
    found = attack(table, noisy)
    # as much noise as data: the unprocessed release explains nothing; two of eight directions contain the data
    assert found.as_released == pytest.approx(0, abs=0.1)
    assert found.recovered > 0.7
    assert found.leaks
    assert found.estimate.shape == table.shape


def test_noise_on_independent_columns_cannot_be_filtered(attack):
    """The best estimate of one column alone explains half the variance, with as much noise as data."""
    generator = np.random.default_rng(2)
    table = generator.normal(size=(5000, 5))
    found = attack(table, table + generator.normal(size=table.shape))
    assert found.recovered < 0.53


def test_the_bayes_estimate_is_the_formula():
    generator = np.random.default_rng(3)
    table = correlated(3)
    variances = np.linspace(0.5, 2, 8)
    noisy = table + np.sqrt(variances) * generator.normal(size=table.shape)
    found = noise_estimation(table, noisy, noise_variance=variances)
    covariance = np.cov(noisy.T, bias=True) - np.diag(variances)
    # In units of the noise, the remaining variance may be negative in some directions: these are clipped at zero.
    units = np.sqrt(variances)
    values, vectors = np.linalg.eigh(covariance / units / units[:, None])
    of_data = units[:, None] * (vectors * np.maximum(values, 0)) @ vectors.T * units
    centred = noisy - noisy.mean(axis=0)
    expected = noisy.mean(axis=0) + centred @ np.linalg.solve(of_data + np.diag(variances), of_data)
    np.testing.assert_allclose(found.estimate, expected, atol=1e-8)


def test_no_linear_filter_of_the_spectrum_does_better_than_bayes():
    table = correlated(4)
    noisy = table + np.random.default_rng(4).normal(size=table.shape)
    best = noise_estimation(table, noisy, noise_variance=1.0)
    for name in ("spectral", "pca"):
        assert FILTERS[name](table, noisy, noise_variance=1.0).recovered < best.recovered + 0.01


def test_the_edge_of_the_noise_is_that_of_marchenko_and_pastur():
    """Pure noise has no eigenvalue above its edge, up to fluctuations, so that only the means are kept."""
    generator = np.random.default_rng(5)
    noise = generator.normal(size=(4000, 10))
    table = 1e-6 * generator.normal(size=noise.shape)
    found = spectral_filtering(table, table + noise, noise_variance=1.05)
    np.testing.assert_allclose(found.estimate, np.broadcast_to(noise.mean(axis=0), noise.shape), atol=1e-4)


def test_a_release_without_noise_is_taken_as_it_is(attack):
    table = correlated(6)
    found = attack(table, table)
    assert found.recovered == pytest.approx(1, abs=1e-6)


def test_an_independent_table_gives_nothing_to_filters(attack):
    for seed in range(5):
        found = attack(*independent_copy(seed))
        assert not found.leaks
        assert found.recovered < 0.02


def test_a_rotation_is_undone_from_two_rows_more_than_columns():
    table = correlated(7, own=0.5)
    found = known_sample_regression(table, rotated(table), n_known=10)
    assert found.recovered > 1 - 1e-6
    assert found.as_released < 0
    np.testing.assert_allclose(found.estimate.std(axis=0), table.std(axis=0), rtol=0.1)


def test_translation_scale_and_low_rank_are_undone_from_known_rows():
    table = correlated(8)
    assert known_sample_regression(table, table * np.arange(1, 9) + 100).recovered > 1 - 1e-6
    assert known_sample_regression(table, truncated(table, 3)).recovered > 0.9


def test_more_known_rows_recover_more_of_a_noisy_rotation():
    table = correlated(9)
    release = rotated(table) + 0.5 * np.random.default_rng(9).normal(size=table.shape)
    few, many = (known_sample_regression(table, release, n_known=count).recovered for count in (5, 200))
    assert few < many
    assert many > 0.8


def test_an_independent_table_gives_nothing_to_regression():
    for seed in range(5):
        table, other = independent_copy(seed)
        found = known_sample_regression(table, other, random_state=seed)
        assert not found.leaks
        assert found.recovered < 0.02
        assert -0.2 < found.baseline <= 0


def test_the_interval_covers_what_is_recovered_on_average():
    """Of 100 samples of 300 rows, 95% intervals should miss the mean about 5 times; 13 have a chance below 0.2%."""
    large = correlated(10, n_rows=30_000)
    noisy = large + np.random.default_rng(10).normal(size=large.shape)
    blocks = [slice(start, start + 300) for start in range(0, 30_000, 300)]
    found = [noise_estimation(large[rows], noisy[rows], noise_variance=1.0) for rows in blocks]
    mean = np.mean([one.recovered for one in found])
    misses = sum(not one.interval[0] <= mean <= one.interval[1] for one in found)
    assert 0 < misses < 13


def test_findings_as_words_and_plain_values():
    table = correlated()
    found = spectral_filtering(table, table)
    assert "more than the 0 without the release" in str(found)
    values = found.to_dict()
    assert values["leaks"] is True
    assert "estimate" not in values
    assert set(values) == {
        "attack",
        "measure",
        "recovered",
        "baseline",
        "interval",
        "n_targets",
        "as_released",
        "leaks",
    }


def test_bad_input(attack):
    table = correlated()
    constant = table.copy()
    constant[:, 2] = 1.0
    with pytest.raises(InvalidInputError, match="a single value in column 2"):
        attack(constant, table)
    with pytest.raises(InvalidInputError, match="as original has"):
        attack(table, table[1:])
    with pytest.raises(InvalidInputError, match="at least 3 rows"):
        attack(table[:1], table[:1])
    for wrong in (-1.0, [1.0, 2.0], np.inf):
        with pytest.raises(InvalidInputError, match="noise_variance to be one variance"):
            attack(table, table, noise_variance=wrong)


def test_bad_settings():
    table = correlated()
    with pytest.raises(InvalidInputError, match="method to be one of"):
        noise_estimation(table, table, method="best")
    with pytest.raises(InvalidInputError, match="leave at least two of the 600 rows"):
        known_sample_regression(table, table, n_known=599)
    with pytest.raises(InvalidInputError, match="n_known to be an integer"):
        known_sample_regression(table, table, n_known=0)


def test_one_column():
    generator = np.random.default_rng(11)
    table = generator.normal(size=(300, 1))
    assert known_sample_regression(table, 3 - 2 * table).recovered > 1 - 1e-6
    assert spectral_filtering(table, table).recovered == pytest.approx(1, abs=1e-6)
