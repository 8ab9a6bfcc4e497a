"""The statistics of relations for their factors, against the explicit formula over all cells."""

import numpy as np
import pytest

from tacit import AllBut, Relation
from tacit.factor.coupled.divergence import divergence
from tacit.factor.coupled.einsum import Layout
from tacit.factor.coupled.plain.terms import DenseTerm, MaskedCountsTerm, StoredTerm, ZerosTerm, term_of

SIZES = {"i": 7, "j": 5, "k": 6, "r": 2, "s": 3, "t": 2}
MODELS = [
    "ir,jr,kr->ijk",
    "ir,sj,kt,rst->ijk",
    "ir,jr->ij",
    "rij,kr->ijk",
    "ir->i",
    "ir,irt,jt->ij",
    "ir,jr,r->ij",
    "ir,js->ij",
]
CASES = [
    (form, known, p)
    for form in ("dense", "sparse")
    for known in ("all", "stored", "mask", "all but")
    for p in (0.0, 0.5, 1.0, 1.5, 2.0)
    if not (form == "sparse" and p not in (0, 1) and known != "stored") and not (form == "dense" and known == "stored")
]


def made(text, form, known, p, seed=0):
    """Return a relation, its factors, its data as used and its mask."""
    rng = np.random.default_rng([seed, len(text)])
    groups, output = text.split("->")
    factors = tuple(0.1 + rng.random([SIZES[letter] for letter in group]) for group in groups.split(","))
    x = rng.poisson(1.0, [SIZES[letter] for letter in output]).astype(float)
    x[0] = 0
    mask, slices = np.ones(x.shape, bool), {}
    if known in ("mask", "all but"):
        mask = rng.random(x.shape) < 0.6
    if known == "all but":
        slices = {0: [1, 2]}
        mask[[1, 2]] = False
    if known == "stored":
        mask = x > 0
    observed = {"all": None, "stored": "stored", "mask": mask, "all but": AllBut(np.argwhere(~mask), slices=slices)}[
        known
    ]
    cells = np.argwhere(x)
    data = (cells, x[tuple(cells.T)], x.shape) if form == "sparse" else x
    names = [f"factor {place}" for place in range(len(factors))]
    relation = Relation(data, text, names, observed=observed, divergence=p)
    used = np.maximum(x, 0.01 * x[mask & (x > 0)].min()) if p == 2 else x
    return relation, factors, used, mask


def explicit(text, weights, factors, place):
    """The sum over all cells of weights times the derivative of the mean by each entry, entry by entry."""
    found = np.zeros(factors[place].shape)
    for entry in np.ndindex(*found.shape):
        unit = np.zeros(found.shape)
        unit[entry] = 1.0
        found[entry] = np.vdot(weights, np.einsum(text, *factors[:place], unit, *factors[place + 1 :]))
    return found


@pytest.mark.filterwarnings("ignore:.*zeros of")
@pytest.mark.parametrize("text", MODELS)
@pytest.mark.parametrize(("form", "known", "p"), CASES)
def test_statistics_are_those_of_the_formula(text, form, known, p):
    relation, factors, x, mask = made(text, form, known, p)
    term = term_of(relation)
    means = np.einsum(text, *factors)
    cost = divergence(x, means, p)[mask].sum()
    assert term.loss(factors) == pytest.approx(cost)
    assert term.mass(factors) == pytest.approx(means[mask].sum())
    assert term.n_observed == mask.sum()
    for place in range(len(factors)):
        top = explicit(text, np.where(mask, x * means**-p, 0), factors, place)
        bottom = explicit(text, np.where(mask, means ** (1 - p), 0), factors, place)
        found = term.statistics(place, factors, loss=True)
        assert np.allclose(found.numerator, top)
        assert np.allclose(found.denominator, bottom)
        assert found.loss == pytest.approx(cost)
        assert np.allclose(term.numerator(place, factors), top)
        assert np.allclose(term.exposure(place, factors), explicit(text, mask * 1.0, factors, place))


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("text", MODELS)
def test_grams_give_the_denominator_of_every_row(text, form):
    relation, factors, _, _ = made(text, form, "all", 0.0)
    term = term_of(relation)
    for place in range(len(factors)):
        gram = term.gram(place, factors)
        if gram is None:  # two factors with the same data letter: every row has its own
            assert text == "ir,irt,jt->ij"
            continue
        rows = Layout.of(relation.spec, place).rows
        assert np.allclose(rows(factors[place]) @ gram, rows(term.statistics(place, factors).denominator))


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0, 1.7, 2.0])
def test_divergences_are_distances(p):
    x, m = np.random.default_rng(0).gamma(2.0, size=(2, 1000))
    assert (divergence(x, m, p) >= 0).all()
    assert np.allclose(divergence(x, x, p), 0, atol=1e-12)
    slope = (divergence(x, m + 1e-6, p) - divergence(x, m - 1e-6, p)) / 2e-6
    assert np.allclose(slope, (m - x) * m**-p, rtol=1e-3, atol=1e-4)


def test_named_divergences_are_limits_of_their_neighbours():
    x, m = np.random.default_rng(1).gamma(2.0, size=(2, 100))
    for p in (1.0, 2.0):
        near = divergence(x, m, p - 1e-6)
        if p == 2:
            near = near - divergence(x, x, p - 1e-6)
        assert np.allclose(divergence(x, m, p), near, rtol=1e-3, atol=1e-3)


def test_the_cheapest_form_is_chosen():
    sparse_enough = np.zeros((50, 40))
    sparse_enough[3, 4] = 2.0
    assert isinstance(term_of(Relation(sparse_enough, "ir,jr->ij", ("a", "b"))), ZerosTerm)
    assert isinstance(term_of(Relation(sparse_enough + 1, "ir,jr->ij", ("a", "b"))), DenseTerm)
    masked = Relation(sparse_enough, "ir,jr->ij", ("a", "b"), observed=sparse_enough < 3)
    assert isinstance(term_of(masked), ZerosTerm)
    hidden = np.arange(2000).reshape(50, 40) % 3 == 0
    assert isinstance(term_of(Relation(sparse_enough, "ir,jr->ij", ("a", "b"), observed=~hidden)), MaskedCountsTerm)
    listed = ([[3, 4]], [2.0], (50, 40))
    assert isinstance(term_of(Relation(listed, "ir,jr->ij", ("a", "b"), observed="stored")), StoredTerm)


def test_zeros_that_are_not_stored_are_never_listed():
    """A tensor of 10**15 cells: any step over its cells would never end."""
    rng = np.random.default_rng(0)
    shape = (100_000, 100_000, 100_000)
    cells = np.unique(rng.integers(0, 100_000, (500, 3)), axis=0)
    for p in ("kl", "euclid"):
        hole = AllBut(cells[:50], slices={0: [5, 6]})
        relation = Relation(
            (cells, np.ones(len(cells)), shape), "ir,jr,kr->ijk", ("a", "b", "c"), observed=hole, divergence=p
        )
        factors = tuple(rng.random((size, 2)) for size in shape)
        term = term_of(relation)
        found = term.statistics(1, factors, loss=True)
        assert np.isfinite(found.loss)
        assert np.isfinite(found.denominator).all()


@pytest.mark.parametrize("text", ["ir,jr,kr->ijk", "ir,js,kt,rst->ijk"])
def test_many_cells_are_cut_into_blocks(text, monkeypatch):
    relation, factors, _x, _ = made(text, "sparse", "all", 1.0)
    whole = [term_of(relation).statistics(place, factors) for place in range(len(factors))]
    monkeypatch.setattr("tacit.factor.coupled.predict.BLOCK_NUMBERS", 500)
    term = term_of(relation)
    for place, before in enumerate(whole):
        assert np.allclose(term.statistics(place, factors).numerator, before.numerator)


@pytest.mark.parametrize("text", ["ir,jr,kr->ijk", "ir,js,kt,rst->ijk"])
def test_a_mask_over_few_counts_gives_what_the_array_gives(text):
    relation, factors, _, mask = made(text, "dense", "mask", 1.0)
    quick, plain = MaskedCountsTerm(relation), DenseTerm(relation)
    assert quick.loss(factors) == pytest.approx(plain.loss(factors))
    assert quick.mass(factors) == pytest.approx(plain.mass(factors))
    assert quick.n_observed == mask.sum()
    for place in range(len(factors)):
        one, other = quick.statistics(place, factors, loss=True), plain.statistics(place, factors, loss=True)
        assert np.allclose(one.numerator, other.numerator)
        assert np.allclose(one.denominator, other.denominator)
        assert one.loss == pytest.approx(other.loss)
