"""Locally private counts: the mechanism against its distribution, the sampler against exact enumeration."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import gammaln

import tacit
from tacit import Ledger, LocalCountFactorization, LocallyPrivateCounts
from tacit.errors import BudgetError, InvalidInputError, PrivacyWarning
from tacit.factor.coupled.local.kernels import bessel_count, draw_counts, draw_counts_and_noise
from tacit.factor.coupled.local.noise import NoisyCounts
from tacit.privacy.published import ermis_geometric_epsilon

LEVEL = 1e-4
"""Of every statistical test here; seeds are fixed, so that a test passes always or never."""


def chi_square(draws, probabilities):
    """Return the p-value of draws of 0, 1, 2, ... against their probabilities, rare values pooled."""
    counts = np.bincount(draws, minlength=len(probabilities))[: len(probabilities)].astype(float)
    counts = np.append(counts, len(draws) - counts.sum())
    expected = np.append(probabilities, max(1 - probabilities.sum(), 0)) * len(draws)
    common = expected >= 10
    seen, wanted = (
        np.append(counts[common], counts[~common].sum()),
        np.append(expected[common], expected[~common].sum()),
    )
    if wanted[-1] < 10:
        seen, wanted = np.append(seen[:-2], seen[-2:].sum()), np.append(wanted[:-2], wanted[-2:].sum())
    return stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue


@pytest.mark.parametrize(("epsilon", "delta_max"), [(0.5, 1), (1.0, 3)])
def test_the_noise_is_two_sided_geometric(epsilon, delta_max):
    a = math.exp(-epsilon / delta_max)
    noise = (
        LocallyPrivateCounts(epsilon, delta_max, insecure_seed=1).privatise(np.zeros((400, 500), int)).values.ravel()
    )
    reach = 60
    law = (1 - a) / (1 + a) * a ** np.abs(np.arange(-reach, reach + 1))
    assert chi_square(noise + reach, law) > LEVEL
    # a change of one entry by delta_max changes the log-probability of an outcome by at most epsilon, and attains it
    assert np.abs(np.log(law[delta_max:]) - np.log(law[:-delta_max])).max() == pytest.approx(epsilon)


def test_the_guarantee_is_pure_and_says_what_it_covers():
    site = LocallyPrivateCounts(epsilon=0.7, delta_max=3)
    view = site.privatise([[1, 2], [3, 4]])
    guarantee = site.guarantee_
    assert guarantee.holds
    assert 0.7 * (1 - 1e-6) <= guarantee.epsilon <= 0.7
    assert (guarantee.unit, guarantee.adjacency) == ("cell", "replace-one")
    assert view.scale * 0.7 == pytest.approx(3)
    assert 3 / view.scale <= 0.7
    assert "changes by at most 3" in str(guarantee)
    assert "delta = 0" in str(guarantee)
    # the thesis's parameter is a: stated as it is in the paper, the cost is Delta log(1/a)
    assert ermis_geometric_epsilon(math.exp(-1 / view.scale), 3) == pytest.approx(0.7)


def test_noise_is_fresh_and_a_second_view_is_said_to_cost():
    site = LocallyPrivateCounts(epsilon=0.1)
    first = site.privatise(np.zeros((20, 20), int)).values
    with pytest.warns(PrivacyWarning, match="second release"):
        second = site.privatise(np.zeros((20, 20), int)).values
    assert (first != second).any()
    assert (first < 0).any()
    assert not LocallyPrivateCounts(insecure_seed=1).privatise([[1]]).guarantee.holds


def test_a_ledger_is_charged_before_the_release(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("visits", epsilon=1.0, delta=1e-6, unit="cell", adjacency="replace-one")
    site = LocallyPrivateCounts(epsilon=0.8, ledger=ledger, dataset="visits")
    site.privatise([[1, 2]])
    with pytest.raises(BudgetError):
        site.privatise([[1, 2]])


def exact_count(z, rate, a, most=400):
    x = np.arange(most)
    logs = x * math.log(rate) - gammaln(x + 1) + np.abs(z - x) * math.log(a)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.7, 10.0])
@pytest.mark.parametrize(("z", "rate"), [(-7, 0.3), (0, 2.0), (4, 2.5), (30, 3.0), (3, 40.0), (12, 12.0)])
def test_true_counts_given_noisy_ones_have_the_exact_law(z, rate, scale):
    a, n = math.exp(-1 / scale), 6_000
    counts = np.zeros(n, np.int64)
    generator = np.random.default_rng(5)
    draw_counts(np.full(n, z), np.full(n, rate), a, generator, counts)
    assert chi_square(counts, exact_count(z, rate, a)) > LEVEL
    # the variables of Schein et al. converge to the same distribution from any start
    rates = np.full((2, n), 1.0)
    for _ in range(150):
        draw_counts_and_noise(np.full(n, z), np.full(n, rate), a, generator, counts, rates)
    assert chi_square(counts, exact_count(z, rate, a)) > LEVEL


@pytest.mark.parametrize(("order", "product"), [(0, 0.5), (3, 20.0), (40, 900.0)])
def test_bessel_counts_have_their_law(order, product):
    m = np.arange(300)
    logs = m * math.log(product) - gammaln(m + 1) - gammaln(m + order + 1)
    law = np.exp(logs - logs.max())
    places = np.random.default_rng(2).random(20_000)
    assert chi_square(np.array([bessel_count(order, product, place) for place in places]), law / law.sum()) > LEVEL


def enumerated(z, scale, shape, rate, most=60):
    """Return the exact posterior of the true counts of a 2 x 1 table: rank 1, U_i ~ Gamma(shape, rate), V ~ Gamma(shape, shape).

    Given V a count is negative binomial; V is summed over a fine grid of its own distribution.
    """
    grid = stats.gamma(shape, scale=1 / shape).ppf((np.arange(20_000) + 0.5) / 20_000)
    x = np.arange(most)
    count = stats.nbinom.pmf(x[:, None], shape, rate / (rate + grid[None, :]))
    joint = count @ count.T / len(grid)
    noise = [np.exp(-np.abs(value - x) / scale) for value in z]
    posterior = joint * noise[0][:, None] * noise[1][None, :]
    return posterior / posterior.sum()


@pytest.mark.slow
@pytest.mark.parametrize("latent", ["counts", "skellam"])
def test_the_sampler_agrees_with_exact_enumeration(latent):
    z, shape, rate = [5, -2], 1.0, 0.4
    view = LocallyPrivateCounts(0.5, insecure_seed=0).privatise([[0], [0]])
    view = type(view)(np.array([[z[0]], [z[1]]]), view.scale, view.observed, view.guarantee)
    exact = enumerated(z, view.scale, shape, rate)
    # the state of many chains, each long enough to have forgotten its start
    last = []
    for seed in range(600):
        model = LocalCountFactorization(
            1, latent=latent, sweeps=20, burn_in=19, n_samples=1, prior_shape=shape, prior_rate=rate, random_state=seed
        )
        last.append(model.fit([view]).expected_counts_[0].ravel())
    drawn = np.rint(last).astype(int)
    assert chi_square(drawn[:, 0], exact.sum(axis=1)) > LEVEL
    assert chi_square(drawn[:, 1], exact.sum(axis=0)) > LEVEL
    # the mean of the product would be wrong for a sampler that drew the two counts independently
    x = np.arange(len(exact))
    product = float(x @ exact @ x)
    spread = drawn.prod(axis=1).std() / math.sqrt(len(drawn))
    assert abs(drawn.prod(axis=1).mean() - product) < stats.norm.ppf(1 - LEVEL / 2) * spread


def tables(n_sites, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.gamma(0.5, 2.0, (12, 2))
    found = [rng.poisson(rng.gamma(0.5, 4.0, (25, 2)) @ shared.T) for _ in range(n_sites)]
    return found, [rng.random(table.shape) < 0.8 for table in found]


def small(**settings):
    return LocalCountFactorization(2, sweeps=120, burn_in=60, n_samples=20, **settings)


def test_modelling_the_noise_beats_taking_it_for_data():
    found, seen = tables(3)
    views = [
        LocallyPrivateCounts(0.1, insecure_seed=site).privatise(table, observed=mask)
        for site, (table, mask) in enumerate(zip(found, seen, strict=True))
    ]
    held = ~seen[0]
    modelled, naive = small().fit(views), small(noise="naive").fit(views)
    assert modelled.score(found[0], observed=held) > naive.score(found[0], observed=held)
    # LDP2: a site's own table without noise
    own = small().fit([found[0], *views[1:]], observed=[seen[0], None, None])
    assert own.score(found[0], observed=held) > modelled.score(found[0], observed=held)
    assert not own.guarantee_.holds
    assert "without noise" in str(own.guarantee_)


def test_without_noise_the_counts_are_what_they_are():
    found, seen = tables(2)
    model = small().fit(found, observed=seen)
    assert all(
        np.allclose(mean[mask], table[mask])
        for mean, table, mask in zip(model.expected_counts_, found, seen, strict=True)
    )
    fine = LocallyPrivateCounts(200.0, insecure_seed=1).privatise(found[0])  # so little noise that there is none
    assert np.array_equal(fine.values, found[0])


def test_a_list_of_cells_gives_what_the_table_gives():
    found, seen = tables(2)
    lists = [(np.argwhere(mask), table[mask], table.shape) for table, mask in zip(found, seen, strict=True)]
    dense = small().fit(found, observed=seen)
    listed = small().fit(lists, observed=["stored", "stored"])
    assert np.array_equal(dense.shared_samples_, listed.shared_samples_)
    assert np.allclose(dense.predict(1, [[3, 4], [0, 1]]), dense.predict(1)[[3, 0], [4, 1]])
    held = (np.argwhere(~seen[0]), found[0][~seen[0]], found[0].shape)
    assert listed.score(held, observed="stored") == dense.score(found[0], observed=~seen[0])


def test_sparse_counts_get_noise_where_they_are_stored_and_their_places_must_be_public():
    counts = csr_array(np.random.default_rng(0).poisson(0.3, (50, 40)))
    site = LocallyPrivateCounts(1.0)
    with pytest.raises(InvalidInputError, match="places are public"):
        site.privatise(counts)
    view = site.privatise(counts, observed="stored")
    assert len(view.values) == counts.nnz
    assert "which cells are observed is public" in str(view.guarantee)
    assert (view.values != counts.tocoo().data).any()


@pytest.mark.slow
def test_tensors_share_all_axes_but_the_first():
    rng = np.random.default_rng(0)
    shared = [rng.gamma(0.5, 2.0, (size, 2)) for size in (10, 6)]
    found = [rng.poisson(np.einsum("ik,jk,lk->ijl", rng.gamma(0.5, 4.0, (20, 2)), *shared)) for _ in range(2)]
    seen = rng.random(found[0].shape) < 0.8
    views = [LocallyPrivateCounts(2.0, insecure_seed=place).privatise(table) for place, table in enumerate(found)]
    views[0] = LocallyPrivateCounts(2.0, insecure_seed=0).privatise(found[0], observed=seen)
    model = small().fit(views)
    assert model.shape(1) == (20, 10, 6)
    assert model.predict(0).shape == (20, 10, 6)
    error = np.sqrt(np.mean((model.predict(0) - found[0])[~seen] ** 2))
    assert error < 0.6 * found[0][~seen].std()


def test_views_are_saved_with_their_guarantee(tmp_path):
    view = LocallyPrivateCounts(1.0).privatise(np.arange(6).reshape(2, 3), observed=np.eye(2, 3, dtype=bool))
    view.save(tmp_path / "view.npz")
    again = NoisyCounts.load(tmp_path / "view.npz")
    assert again.guarantee == view.guarantee
    assert np.array_equal(again.listed().values, view.listed().values)
    assert np.array_equal(again.listed().cells, [[0, 0], [1, 1]])
    (tmp_path / "other.npz").write_bytes(b"PK not an archive")
    with pytest.raises(InvalidInputError, match="noisy counts"):
        NoisyCounts.load(tmp_path / "other.npz")


def test_the_weakest_view_gives_the_guarantee():
    found, _ = tables(2)
    views = [LocallyPrivateCounts(epsilon).privatise(table) for epsilon, table in zip((0.5, 2.0), found, strict=True)]
    assert small().fit(views).guarantee_.epsilon == pytest.approx(2.0)


def test_a_saved_model_predicts_the_same(tmp_path):
    found, _ = tables(2)
    model = small().fit([LocallyPrivateCounts(1.0).privatise(table) for table in found])
    model.save(tmp_path / "local.tacit")
    loaded = tacit.load(tmp_path / "local.tacit")
    assert np.array_equal(loaded.predict(1), model.predict(1))
    assert loaded.guarantee_ == model.guarantee_
    assert not hasattr(loaded, "expected_counts_")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1, -1]], "between 0 and"),
        ([[1, 2.5]], "whole numbers"),
        ([[1, math.nan]], "whole numbers"),
        ([["a"]], "table of whole numbers"),
        ([], "table of whole numbers"),
        (3, "table of whole numbers"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(InvalidInputError, match=message):
        LocallyPrivateCounts(1.0).privatise(counts)


@pytest.mark.parametrize(
    "settings", [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"delta_max": 0}, {"delta_max": 1.5}]
)
def test_bad_budgets_are_refused(settings):
    with pytest.raises(InvalidInputError):
        LocallyPrivateCounts(**settings).privatise([[1]])


def test_bad_tables_for_the_fit_are_refused():
    view = LocallyPrivateCounts(1.0).privatise(np.ones((3, 4), int))
    for given, message in [
        ([], "at least one table"),
        ([view, np.ones((3, 5), int)], "columns"),
        ([np.ones(4, int)], "two axes"),
        ([np.ones((2, 3, 4), int), np.ones((2, 3), int)], "sizes of axes"),
        ([csr_array(np.eye(3, dtype=int))], 'observed="stored"'),
        ([[[1, -2]]], "between 0 and"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            small().fit(given)
    with pytest.raises(InvalidInputError, match="boolean table"):
        LocallyPrivateCounts(1.0).privatise([[1, 2]], observed=[[1, 0]])
    with pytest.raises(InvalidInputError, match="at least one observed cell"):
        small().fit([np.ones((2, 2), int)], observed=[np.zeros((2, 2), bool)])
    with pytest.raises(InvalidInputError, match="not fitted"):
        small().predict()
    with pytest.raises(InvalidInputError, match="sweeps"):
        LocalCountFactorization(sweeps=10, burn_in=20).fit([view])
