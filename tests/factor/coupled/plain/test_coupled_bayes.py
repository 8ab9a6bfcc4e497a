"""Variational Bayes and Langevin samples: against posteriors that are known exactly, and against each other."""

import numpy as np
import pytest
from scipy.special import digamma

from tacit import AllBut, CoupledFactorization, Relation
from tacit.channel import Clear, run, run_together
from tacit.data import make_coupled
from tacit.factor.coupled.plain.langevin import LangevinSettings, langevin_program
from tacit.factor.coupled.plain.variational import BayesSettings, Posterior, fitted_shape, variational_program

DATA = make_coupled(random_state=3)
CP, TUCKER = "ir,jr,kr->ijk", "ir,js,kt,rst->ijk"
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(3.0, 200).astype(float)


def pair(observed=None, data=DATA):
    return [
        Relation(data.tensor, CP, ("user", "place", "activity"), observed=observed, name="visits"),
        Relation(data.features, "jr,fr->jf", ("place", "feature"), name="about", dispersion=2.0),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*no known cell")
@pytest.mark.parametrize("adapt", ["no", "factor", "component"])
@pytest.mark.parametrize("known", ["all", "some", "but"])
def test_the_evidence_never_falls(adapt, known):
    mask = np.random.default_rng(0).random(DATA.tensor.shape) < 0.5
    observed = {"all": None, "some": mask, "but": AllBut(slices={0: [1, 2]})}[known]
    model = CoupledFactorization(3, inference="vb", adapt_prior=adapt, tol=0, max_iter=60).fit(pair(observed))
    assert (np.diff(model.loss_curve_) <= 1e-9 * abs(model.loss_curve_[0])).all()
    tucker = Relation(DATA.tensor, TUCKER, ("user", "place", "activity", "core"), observed=observed)
    model = CoupledFactorization(2, inference="vb", adapt_prior=adapt, tol=0, max_iter=40).fit(tucker)
    assert (np.diff(model.loss_curve_) <= 1e-9 * abs(model.loss_curve_[0])).all()


def test_a_rate_of_its_own_for_every_count_has_its_exact_posterior():
    """Gamma(a, rate a/b) and a Poisson count x give Gamma(a + x, rate a/b + 1), and the bound is the evidence."""
    from scipy.stats import nbinom

    model = CoupledFactorization(
        1, inference="vb", adapt_prior="no", prior_shape=2.0, prior_scale=3.0, max_iter=3, tol=0
    )
    model.fit(Relation(COUNTS, "i->i", ("rate",)))
    assert np.allclose(model.posterior_["shape:rate"], 2 + COUNTS)
    assert np.allclose(model.posterior_["scale:rate"], 1 / (2 / 3 + 1))
    from scipy.special import gammaln

    evidence = nbinom.logpmf(COUNTS, 2.0, (2 / 3) / (2 / 3 + 1)).sum() + gammaln(COUNTS + 1).sum()
    assert -model.loss_ == pytest.approx(evidence)


def test_the_prior_adapts_to_what_made_the_factors():
    rates = np.random.default_rng(1).gamma(2.5, 4.0, 4000)
    counts = np.random.default_rng(2).poisson(rates)
    model = CoupledFactorization(1, inference="vb", max_iter=2000, tol=1e-9).fit(Relation(counts, "i->i", ("rate",)))
    assert model.posterior_["prior_shape:rate"][0] == pytest.approx(2.5, rel=0.1)
    assert model.posterior_["prior_scale:rate"][0] == pytest.approx(10.0, rel=0.05)


def test_the_fitted_shape_solves_its_equation():
    shapes = np.array([1e-3, 0.1, 0.5, 1.0, 7.0, 300.0])
    assert np.allclose(fitted_shape(np.log(shapes) - digamma(shapes)), shapes, rtol=1e-6)


def test_the_best_prior_is_best():
    posterior = Posterior(
        RNG.gamma(3.0, size=(20, 2)), RNG.gamma(1.0, size=(20, 2)), np.ones((20, 2)), np.ones((20, 2))
    )
    best = posterior.adapted("factor")
    for a, b in ((1.1, 1), (0.9, 1), (1, 1.1), (1, 0.9)):
        other = Posterior(posterior.shape, posterior.scale, a * best.prior_shape, b * best.prior_mean)
        assert other.bound() < best.bound()
    assert posterior.adapted("component").bound() >= best.bound()


@pytest.mark.slow
def test_langevin_samples_have_the_exact_posterior_of_counts():
    model = CoupledFactorization(
        1, inference="sgld", prior_shape=2.0, prior_scale=3.0, burn_in=200, n_samples=800, thin=5
    ).fit(Relation(COUNTS, "i->i", ("rate",)))
    mean, std = model.predict("rate", return_std=True)
    exact_mean, exact_std = (2 + COUNTS) / (2 / 3 + 1), np.sqrt(2 + COUNTS) / (2 / 3 + 1)
    assert abs(np.mean((mean - exact_mean) / exact_std)) < 0.05
    assert np.mean(std / exact_std) == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_langevin_samples_have_the_exact_posterior_of_normal_cells():
    x = np.random.default_rng(1).normal(1.0, 2.0, 200)
    relation = Relation(x, "i->i", ("level",), divergence="euclid", dispersion=0.5)
    model = CoupledFactorization(1, inference="sgld", prior_scale=1.5, burn_in=200, n_samples=800).fit(relation)
    mean, std = model.predict("level", return_std=True)
    variance = 1 / (1 / 0.5 + 1 / 1.5**2)
    assert abs(np.mean(mean - variance * x / 0.5)) / np.sqrt(variance) < 0.05
    assert np.mean(std) / np.sqrt(variance) == pytest.approx(1.0, abs=0.1)
    assert (mean < 0).any(), "factors of Normal cells have both signs"


@pytest.mark.parametrize("known", ["all", "stored"])
@pytest.mark.parametrize("divergence", ["kl", "euclid"])
def test_batches_estimate_the_gradient_without_bias(divergence, known):
    from tacit.factor.coupled.plain.langevin import Batch
    from tacit.factor.coupled.plain.terms import term_of

    cells, counts = DATA.coordinates()
    relation = Relation((cells, counts, DATA.tensor.shape), CP, ("a", "b", "c"), observed=known, divergence=divergence)
    term = term_of(relation)
    factors = tuple(RNG.random((size, 2)) for size in relation.shape)
    found = term.statistics(1, factors)
    rng = np.random.default_rng(0)
    drawn = np.array([Batch(term, 0.3, rng).residual(1, factors) for _ in range(400)])
    error = (drawn.mean(axis=0) - (found.numerator - found.denominator)) / (drawn.std(axis=0) / 20 + 1e-12)
    assert abs(error.mean()) < 4 / np.sqrt(error.size)
    assert np.abs(error).max() < 5


@pytest.mark.slow
def test_the_spread_covers_the_truth():
    data = make_coupled(mean_count=2.0, random_state=5)
    for inference in ("vb", "sgld"):
        model = CoupledFactorization({"r": 3}, inference=inference).fit(pair(data=data))
        mean, std = model.predict("visits", return_std=True)
        assert mean.shape == std.shape == data.tensor.shape
        inside = np.abs(mean - data.expected_tensor()) < 2 * std
        assert 0.7 < inside.mean() <= 1


def test_unseen_entities_keep_their_prior():
    relation = Relation(DATA.tensor, CP, ("user", "place", "activity"), observed=AllBut(slices={0: [4]}))
    with pytest.warns(UserWarning, match="no known cell"):
        model = CoupledFactorization(3, inference="vb").fit(relation)
    posterior = model.posterior_
    assert np.allclose(posterior["shape:user"][4], posterior["prior_shape:user"][4], rtol=1e-3)


def sites():
    parts = np.array_split(np.arange(40), 3)
    relations = [
        [Relation(DATA.tensor[part], CP, (f"user {site}", "place", "activity"), name=f"visits {site}")]
        for site, part in enumerate(parts)
    ]
    rng = np.random.default_rng(0)
    sizes = {**{f"user {site}": len(part) for site, part in enumerate(parts)}, "place": 30, "activity": 6}
    return relations, {name: 0.2 + rng.random((size, 3)) for name, size in sizes.items()}


@pytest.mark.slow
def test_holders_get_the_posterior_that_one_would():
    relations, start = sites()
    settings = BayesSettings(max_iter=30, tol=0)
    shared = ("place", "activity")
    together = run_together(
        [variational_program(site, start, shared=shared, settings=settings) for site in relations], Clear()
    )
    everything = [relation for site in relations for relation in site]
    alone = run(variational_program(everything, start, shared=shared, settings=settings), Clear())
    assert np.allclose(together[0].public["loss_curve"], alone.public["loss_curve"])
    assert np.allclose(together[0].public["shape:place"], alone.public["shape:place"])
    assert np.allclose(together[1].private["posteriors"]["user 1"].mean, alone.private["posteriors"]["user 1"].mean)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_holders_draw_what_one_would(rate):
    relations, start = sites()
    settings = LangevinSettings(burn_in=5, n_samples=4, thin=2, sampling_rate=rate)
    shared = ("place", "activity")
    together = run_together(
        [
            langevin_program(site, start, shared=shared, settings=settings, first_relation=number)
            for number, site in enumerate(relations)
        ],
        Clear(),
    )
    assert together[0].public["samples:place"].shape == (4, 30, 3)
    users = [outcome.private["samples"][f"user {site}"] for site, outcome in enumerate(together)]
    assert not np.allclose(users[0][:, :3], users[1][:, :3])
    everything = [relation for site in relations for relation in site]
    alone = run(langevin_program(everything, start, shared=shared, settings=settings), Clear())
    for outcome in together:
        for name, drawn in outcome.private["samples"].items():
            assert np.allclose(drawn, alone.private["samples"][name], rtol=1e-9)
    assert np.allclose(together[0].public["loss_curve"], alone.public["loss_curve"], rtol=1e-9)
