"""Coupled factorisation: the cost never rises, other libraries agree, and several holders get one holder's result."""

import warnings

import numpy as np
import pytest
from links import in_threads
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import non_negative_factorization

import tacit
from tacit import AllBut, CoupledFactorization, Relation
from tacit.channel import Clear, run, run_together
from tacit.channel.masked import Masked
from tacit.data import make_coupled
from tacit.errors import InvalidInputError
from tacit.factor.coupled.plain.program import CoupledSettings, Prior, coupled_program, rules_for
from tacit.factor.coupled.predict import reconstruct

DATA = make_coupled(random_state=1)
CP, TUCKER = "ir,jr,kr->ijk", "ir,js,kt,rst->ijk"
NAMES = ("user", "place", "activity")
POWERS = [0.0, 0.5, 1.0, 1.3, 2.0]


def start_for(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return {name: 0.2 + rng.random(shape) for name, shape in shapes.items()}


SHAPES = {"user": (40, 3), "place": (30, 3), "activity": (6, 3), "feature": (12, 3)}


def pair(p=1.0, q=1.0, observed=None, raised=0.5):
    return [
        Relation(
            DATA.tensor + raised, CP, ("user", "place", "activity"), divergence=p, name="visits", observed=observed
        ),
        Relation(DATA.features + raised, "jr,fr->jf", ("place", "feature"), divergence=q, dispersion=2.0, name="about"),
    ]


def curve(relations, start, **settings):
    settings = CoupledSettings(rules=rules_for(relations, settings.get("prior", Prior())), tol=0, **settings)
    shared = [name for name in start if sum(name in relation.factors for relation in relations) > 1]
    return run(coupled_program(relations, start, shared=shared, settings=settings), Clear())


@pytest.mark.slow
@pytest.mark.parametrize("extrapolate", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("q", POWERS)
@pytest.mark.parametrize("p", POWERS)
def test_the_cost_never_rises(p, q, masked, extrapolate):
    """For every p in [0, 2], and for any two relations that share a factor."""
    mask = np.random.default_rng(0).random(DATA.tensor.shape) < 0.5 if masked else None
    outcome = curve(pair(p, q, mask), start_for(SHAPES), max_iter=40, extrapolate=extrapolate)
    steps = np.diff(outcome.public["loss_curve"])
    assert (steps <= 1e-10 * outcome.public["loss_curve"][0]).all()
    assert outcome.public["loss_curve"][-1] < 0.8 * outcome.public["loss_curve"][0]
    assert outcome.public["loss"] <= outcome.public["loss_curve"][-1] * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("p", POWERS)
def test_the_cost_never_rises_with_a_prior_or_a_core_or_estimated_dispersions(p):
    tucker = Relation(DATA.tensor + 0.5, TUCKER, ("user", "place", "activity", "core"), divergence=p)
    shapes = {"user": (40, 2), "place": (30, 3), "activity": (6, 2), "core": (2, 3, 2)}
    settings = {"max_iter": 30, "extrapolate": False}
    priors = {"prior": Prior(1.5, 0.7)}
    for options in ({}, priors):
        assert (np.diff(curve([tucker], start_for(shapes), **settings, **options).public["loss_curve"]) <= 1e-8).all()
    assert (np.diff(curve(pair(p, 1.0), start_for(SHAPES), **settings, **priors).public["loss_curve"]) <= 1e-8).all()
    outcome = curve(pair(p, 1.0), start_for(SHAPES), **settings, estimate_dispersion=True)
    assert (np.diff(outcome.public["loss_curve"]) <= 1e-8).all()


def test_estimated_dispersions_are_those_of_the_likelihood():
    """Normal noise of known size: the estimate is its variance."""
    rng = np.random.default_rng(0)
    truth = {name: rng.random((size, 2)) for name, size in (("a", 60), ("b", 50), ("c", 40))}
    x = truth["a"] @ truth["b"].T + 0.1 * rng.standard_normal((60, 50))
    y = truth["b"] @ truth["c"].T + 0.3 * rng.standard_normal((50, 40))
    relations = [
        Relation(x, "ir,jr->ij", ("a", "b"), divergence="euclid", name="x"),
        Relation(y, "jr,kr->jk", ("b", "c"), divergence="euclid", name="y"),
    ]
    model = CoupledFactorization(2, dispersion="estimate", n_init=3).fit(relations)
    assert model.dispersions_["x"] == pytest.approx(0.01, rel=0.15)
    assert model.dispersions_["y"] == pytest.approx(0.09, rel=0.15)


@pytest.mark.parametrize(("divergence", "name"), [("kl", "kullback-leibler"), ("itakura-saito", "itakura-saito")])
def test_a_matrix_alone_moves_as_scikit_learn_moves_it(divergence, name):
    rng = np.random.default_rng(0)
    x, w, h = rng.gamma(2.0, size=(30, 20)), 0.1 + rng.random((30, 3)), 0.1 + rng.random((3, 20))
    relation = Relation(x, "ir,rj->ij", ("w", "h"), divergence=divergence)
    outcome = curve([relation], {"w": w, "h": h}, max_iter=25, extrapolate=False)
    theirs_w, theirs_h, _ = non_negative_factorization(
        x, W=w.copy(), H=h.copy(), n_components=3, init="custom", solver="mu", beta_loss=name, max_iter=25, tol=0
    )
    ours = outcome.private["factors"]
    assert np.allclose(ours["w"] @ ours["h"], theirs_w @ theirs_h, rtol=1e-6)


def test_euclid_without_gaps_reaches_non_negative_least_squares():
    """At the end no factor can be improved alone: each row solves its own non-negative least-squares problem."""
    from scipy.optimize import nnls

    relations = pair(0.0, 0.0, raised=0.0)
    outcome = curve(relations, start_for(SHAPES), max_iter=400)
    factors = outcome.private["factors"]
    design = np.einsum("jr,kr->jkr", factors["place"], factors["activity"]).reshape(-1, 3)
    best = np.array([nnls(design, slab.ravel())[0] for slab in DATA.tensor.astype(float)])
    assert np.allclose(factors["user"], best, atol=1e-3 * best.max())


@pytest.mark.slow
def test_sparse_and_dense_give_the_same():
    cells, counts = DATA.coordinates()
    mask = np.random.default_rng(0).random(DATA.tensor.shape) < 0.7
    hidden = np.argwhere(~mask)
    for p in ("kl", "euclid"):
        results = []
        for data, observed in (
            (DATA.tensor, mask),
            ((cells, counts, DATA.tensor.shape), AllBut(hidden)),
            ((cells, counts, DATA.tensor.shape), mask),
        ):
            visits = Relation(data, CP, ("user", "place", "activity"), observed=observed, divergence=p, name="visits")
            about = Relation(
                sparse.csr_array(DATA.features), "jr,fr->jf", ("place", "feature"), divergence=p, name="about"
            )
            model = CoupledFactorization(3, init=start_for(SHAPES), max_iter=30, tol=0).fit([visits, about])
            results.append(model.predict("visits"))
        assert np.allclose(results[1], results[0], rtol=1e-6, atol=1e-9)
        assert np.allclose(results[2], results[0], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "masked"), [(1.0, False), (1.0, True), (0.0, False), (0.0, True), (2.0, False)])
def test_holders_get_what_one_would(p, masked):
    """Three sites with different users; places and activities are shared, and one site has features of the places."""
    parts = np.array_split(np.arange(40), 3)
    mask = np.random.default_rng(1).random(DATA.tensor.shape) < 0.6 if masked else np.ones(DATA.tensor.shape, bool)
    sites = [
        [
            Relation(
                DATA.tensor[part] + 0.5,
                CP,
                (f"user {site}", "place", "activity"),
                observed=mask[part],
                divergence=p,
                name=f"visits {site}",
            )
        ]
        for site, part in enumerate(parts)
    ]
    sites.append([Relation(DATA.features + 0.5, "jr,fr->jf", ("place", "feature"), divergence=p, name="about")])
    everything = [relation for site in sites for relation in site]
    shapes = {**{f"user {site}": (len(part), 3) for site, part in enumerate(parts)}, **SHAPES}
    start = start_for(shapes)
    settings = CoupledSettings(rules=rules_for(everything, Prior()), max_iter=30, tol=0)
    shared = ("place", "activity")
    together = run_together([coupled_program(site, start, shared=shared, settings=settings) for site in sites], Clear())
    alone = run(coupled_program(everything, start, shared=shared, settings=settings), Clear())
    assert np.allclose(together[0].public["loss_curve"], alone.public["loss_curve"], rtol=1e-9)
    for name in shared:
        assert np.allclose(together[0].public[f"factor:{name}"], alone.private["factors"][name], rtol=1e-6, atol=1e-12)
    masked = in_threads(
        len(sites),
        lambda way: run(coupled_program(sites[way.index], start, shared=shared, settings=settings), Masked(way)),
    )
    for outcome in masked:
        for name in shared:
            factor = f"factor:{name}"
            assert np.allclose(outcome.public[factor], together[0].public[factor], rtol=1e-6, atol=1e-9)
    for site in range(3):
        found = together[site].private["factors"]
        assert np.allclose(found[f"user {site}"], alone.private["factors"][f"user {site}"], rtol=1e-6, atol=1e-12)
        assert not any(name.startswith("user") and name != f"user {site}" for name in found)


def test_only_totals_of_shared_factors_leave_a_holder():
    channel = Clear(keep_values=True)
    settings = CoupledSettings(rules=rules_for(pair(), Prior()), max_iter=3, tol=0)
    run(coupled_program(pair(), start_for(SHAPES), shared=("place",), settings=settings), channel)
    left = {(name, shape) for entry in channel.transcript for name, shape in entry.shapes.items()}
    assert left == {("numerator", (30, 3)), ("denominator", (30, 3)), ("loss", (2,))}


def test_zeros_in_data_and_start_do_no_harm():
    tensor = DATA.tensor.astype(float)
    tensor[3] = 0  # a user who did nothing
    tensor[:, :, 2] = 0
    for p in (0.0, 0.7, 1.0, 1.5):
        start = start_for(SHAPES)
        start["user"][5] = 0
        start["place"][:, 1] = 0
        relation = Relation(tensor, CP, ("user", "place", "activity"), divergence=p)
        del start["feature"]
        model = CoupledFactorization(3, init=start, max_iter=50).fit(relation)
        assert all(np.isfinite(factor).all() and (factor >= 0).all() for factor in model.factors_.values())
        assert np.isfinite(model.loss_)


def test_negative_data_under_euclid():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 15))
    for observed in (None, rng.random(x.shape) < 0.6):
        relation = Relation(x, "ir,jr->ij", ("a", "b"), divergence="euclid", observed=observed)
        model = CoupledFactorization(3, extrapolate=False, tol=0, max_iter=50).fit(relation)
        assert (np.diff(model.loss_curve_) <= 1e-10).all()
        assert model.loss_ < 0.5 * np.sum(x[observed if observed is not None else ...] ** 2)


@pytest.mark.slow
def test_the_model_finds_what_made_the_data():
    data = make_coupled(60, 50, 8, mean_count=4.0, random_state=2)
    visits = Relation(data.tensor, CP, ("user", "place", "activity"), name="visits")
    about = Relation(data.features, "jr,fr->jf", ("place", "feature"), name="about")
    model = CoupledFactorization({"r": 3}, n_init=3).fit([visits, about])
    error = model.predict("visits") - data.expected_tensor()
    assert np.sqrt(np.mean(error**2)) < 0.15 * data.expected_tensor().std()


@pytest.mark.slow
def test_a_model_can_be_cloned_saved_and_loaded(tmp_path):
    relations = pair()
    for inference in ("map", "vb", "sgld"):
        model = CoupledFactorization({"r": 3}, inference=inference, max_iter=20, burn_in=5, n_samples=5)
        clone(model)
        model.fit(relations)
        model.save(tmp_path / "model.npz")
        again = tacit.load(tmp_path / "model.npz")
        cells = [[0, 0, 0], [39, 29, 5]]
        assert np.array_equal(again.predict("visits", cells), model.predict("visits", cells))
        assert again.score(relations) == model.score(relations)
        assert set(again.factors_) == set(SHAPES)
        assert "no" in str(again.guarantee_).lower()
        if inference != "map":
            assert np.array_equal(*(found.predict("about", return_std=True)[1] for found in (model, again)))


def test_predictions_of_cells_and_of_everything_agree():
    model = CoupledFactorization(3, max_iter=10, n_init=1).fit(pair())
    whole = model.predict("visits")
    cells = np.argwhere(whole > 0)[::7]
    assert np.allclose(model.predict("visits", cells), whole[tuple(cells.T)])
    other = Relation(np.ones((40, 12)), "ir,fr->if", ("user", "feature"), name="never fitted")
    assert np.allclose(model.predict(other), model.factors_["user"] @ model.factors_["feature"].T)
    assert model.score(pair()[:1]) == pytest.approx(
        -np.mean(whole - (DATA.tensor + 0.5) * np.log(whole) + _constant(DATA.tensor + 0.5))
    )


def _constant(x):
    return x * np.log(x) - x


def test_defaults_estimate_dispersions_and_average_over_starts():
    data = make_coupled(mean_count=0.5, random_state=4)
    noisy = np.random.default_rng(0).poisson(3.0, data.features.shape)
    visits = Relation(data.tensor, CP, NAMES, name="visits")
    about = Relation(noisy, "jr,fr->jf", ("place", "feature"), name="about")
    model = CoupledFactorization(3, max_iter=20).fit([visits, about])
    assert model.dispersions_["visits"] == 1.0  # the smaller mean divergence
    assert 1.0 < model.dispersions_["about"] <= 30.0
    starts = model.posterior_["starts:user"]
    assert starts.shape == (5, 40, 3)
    assert any(np.array_equal(one, model.factors_["user"]) for one in starts)
    logs = 0
    for place in range(5):
        logs = (
            logs + np.log(reconstruct(visits.spec, [model.posterior_[f"starts:{name}"][place] for name in NAMES])) / 5
        )
    assert np.allclose(model.predict("visits"), np.exp(logs))
    given = Relation(noisy, "jr,fr->jf", ("place", "feature"), name="about", dispersion=7.0)
    assert CoupledFactorization(3, max_iter=5).fit([visits, given]).dispersions_["about"] == 7.0
    best = CoupledFactorization(3, max_iter=5, n_init=1, dispersion="given").fit([visits, about])
    assert best.dispersions_ == {"visits": 1.0, "about": 1.0}
    assert best.posterior_ == {}


def test_the_default_prior_keeps_entities_with_one_cell_finite():
    """Without it, the factors of a row with one cell grow without bound where the column's factor is close to zero."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.outer(rng.gamma(0.3, 3, 60), rng.gamma(0.3, 3, 40)))
    known = rng.random(counts.shape) < 0.05
    relation = Relation(counts, "ir,jr->ij", ("a", "b"), observed=known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = CoupledFactorization(4).fit(relation).predict("a-b")
    assert predicted.max() < 20 * counts.max()


def test_units_of_the_data_do_not_change_the_default_fit_under_euclid():
    known = {"divergence": "euclid", "name": "visits"}
    one, other = (
        CoupledFactorization(2, max_iter=8, tol=0).fit(
            [
                Relation(scale * DATA.tensor, CP, NAMES, **known),
                Relation(DATA.features, "jr,fr->jf", ("place", "feature"), divergence="euclid"),
            ]
        )
        for scale in (1.0, 1000.0)
    )
    expected = 1000 * one.predict("visits")
    assert np.linalg.norm(other.predict("visits") - expected) < 0.05 * np.linalg.norm(expected)
    assert other.dispersions_["visits"] == pytest.approx(1e6 * one.dispersions_["visits"], rel=0.1)


@pytest.mark.parametrize(
    ("options", "points_at"),
    [
        ({"inference": "em"}, "inference"),
        ({"prior_shape": 0.5}, "prior_shape of at least 1"),
        ({"init": {"user": np.ones((40, 3))}}, "a start for the factor 'place'"),
        ({"init": {name: -np.ones(shape) for name, shape in SHAPES.items()}}, "without negative numbers"),
        ({"init": "svd"}, "init"),
        ({"dispersion": "guess"}, "dispersion"),
        ({"max_iter": 0}, "max_iter"),
        ({"inference": "sgld", "step_decay": 2.0}, "step_decay"),
        ({"inference": "sgld", "sampling_rate": 0.0}, "sampling_rate"),
        ({"inference": "vb", "adapt_prior": True}, "adapt_prior"),
    ],
)
def test_bad_parameters_are_refused(options, points_at):
    with pytest.raises(InvalidInputError, match=points_at):
        CoupledFactorization(3, **options).fit(pair())


def test_bad_questions_are_refused():
    model = CoupledFactorization(3, max_iter=2).fit(pair())
    with pytest.raises(InvalidInputError, match="one of the relations 'visits', 'about'"):
        model.predict("visit")
    with pytest.raises(InvalidInputError, match="0 to 39 on axis 0"):
        model.predict("visits", [[40, 0, 0]])
    with pytest.raises(InvalidInputError, match="a point estimate"):
        model.predict("visits", return_std=True)
    with pytest.raises(InvalidInputError, match="must have the entities of the fit"):
        model.predict(Relation(np.ones((40, 11)), "ir,fr->if", ("user", "feature")))
    with pytest.raises(InvalidInputError, match="a fitted model"):
        CoupledFactorization(3).predict("visits")
    for inference in ("vb", "sgld"):
        with pytest.raises(InvalidInputError, match="divergence"):
            CoupledFactorization(3, inference=inference).fit(pair(0.5, 1.0))


def test_tensorly_reaches_the_same_cost():
    """An independent non-negative CP decomposition of one tensor, from the same start."""
    tensorly = pytest.importorskip("tensorly")
    from tensorly.cp_tensor import CPTensor, cp_to_tensor
    from tensorly.decomposition import non_negative_parafac_hals

    x = DATA.expected_tensor() + 0.1
    start = start_for({name: SHAPES[name] for name in ("user", "place", "activity")})
    theirs = non_negative_parafac_hals(
        tensorly.tensor(x), 3, n_iter_max=2000, tol=1e-12, init=CPTensor((None, [f.copy() for f in start.values()]))
    )
    lost = 0.5 * np.sum((x - cp_to_tensor(theirs)) ** 2)
    relation = Relation(x, CP, ("user", "place", "activity"), divergence="euclid")
    model = CoupledFactorization(3, init=start, tol=1e-10, max_iter=3000).fit(relation)
    assert model.loss_ <= 1.01 * lost + 1e-6 * np.sum(x**2)
