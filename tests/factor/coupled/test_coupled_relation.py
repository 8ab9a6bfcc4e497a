"""Relations: accepted input, refused input, and their masks of known cells."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from tacit import AllBut, CoupledFactorization, Relation
from tacit.errors import InvalidInputError
from tacit.factor.coupled.einsum import Spec, checked_ranks, factor_shapes
from tacit.factor.coupled.predict import reconstruct, reconstruct_at

rng = np.random.default_rng(3)
SIZES = {"i": 7, "j": 5, "k": 6, "r": 2, "s": 3, "t": 2}
COUNTS = rng.poisson(1.0, (7, 5, 6)).astype(float)
NAMES = ("user", "place", "activity")
CP = "ir,jr,kr->ijk"


def triple(array):
    cells = np.argwhere(array)
    return cells, array[tuple(cells.T)], array.shape


@pytest.mark.parametrize(
    ("text", "points_at"),
    [
        ("ir,jr,kr", "one arrow"),
        ("ir,jr,k1->ijk", "1"),
        ("ir,jr->ijk", "2 groups"),
        ("ir,jr,kr->ij", "2 letters"),
        ("ir,jr,kr->ijl", "'l' in no factor"),
        ("iir,jr,kr->ijk", "'i' twice"),
        ("ir,,kr->ijk", "empty group"),
        (7, "arrow"),
    ],
)
def test_a_wrong_einsum_is_pointed_at(text, points_at):
    with pytest.raises(InvalidInputError, match=points_at):
        Relation(COUNTS, text, NAMES)


def test_a_factor_with_two_sizes_is_pointed_at():
    visits = Relation(COUNTS, CP, NAMES, name="visits")
    about = Relation(np.ones((4, 3)), "jr,fr->jf", ("place", "feature"), name="about")
    with pytest.raises(InvalidInputError, match=r"'place' in all relations: \(5, 2\) in 'visits'.*\(4, 2\) in 'about'"):
        factor_shapes([visits, about], {"r": 2})


def test_a_letter_that_nobody_sums_is_pointed_at():
    visits = Relation(COUNTS, CP, NAMES)
    with pytest.raises(InvalidInputError, match="No relation sums over 'q'"):
        checked_ranks({"r": 2, "q": 3}, [visits])
    with pytest.raises(InvalidInputError, match="No relation sums over 'i'"):
        checked_ranks({"r": 2, "i": 3}, [visits])
    with pytest.raises(InvalidInputError, match="'r' of 'user-place-activity'"):
        checked_ranks({}, [visits])


@pytest.mark.parametrize(
    "text", [CP, "ir,sj,kt,rst->ijk", "ir,jr->ij", "rij,kr->ijk", "ir->i", "i->i", "ir,irt,jt->ij", "ir,js->ij"]
)
def test_cells_one_by_one_are_those_of_the_whole(text):
    groups, output = text.split("->")
    factors = tuple(rng.random([SIZES[letter] for letter in group]) for group in groups.split(","))
    spec = Spec.parse(text, len(factors), len(output))
    whole = np.einsum(text, *factors)
    cells = np.argwhere(np.ones(whole.shape)).astype(np.int32)
    assert np.allclose(reconstruct_at(spec, factors, cells), whole.ravel())
    assert np.allclose(reconstruct(spec, factors), whole)


def test_all_forms_of_the_data_hold_the_same():
    matrix = COUNTS[:, :, 0]
    whole = Relation(matrix, "ir,jr->ij", ("user", "place"))
    for form in (sparse.csr_array(matrix), sparse.coo_matrix(matrix), triple(matrix)):
        relation = Relation(form, "ir,jr->ij", ("user", "place"))
        cells, values = relation.known_cells()
        assert np.array_equal(values, matrix.ravel())
        assert np.array_equal(cells, whole.known_cells()[0])
        stored = Relation(form, "ir,jr->ij", ("user", "place"), observed="stored")
        assert stored.n_observed == np.count_nonzero(matrix)


@pytest.mark.parametrize("form", [np.asarray, triple])
def test_what_is_known(form):
    hidden = rng.random(COUNTS.shape) < 0.4
    as_mask = Relation(form(COUNTS), CP, NAMES, observed=~hidden)
    as_list = Relation(form(COUNTS), CP, NAMES, observed=AllBut(np.argwhere(hidden)))
    later = Relation(form(COUNTS), CP, NAMES).without(np.argwhere(hidden))
    for relation in (as_mask, as_list, later):
        cells, values = relation.known_cells()
        assert np.array_equal(cells, np.argwhere(~hidden))
        assert np.array_equal(values, COUNTS[~hidden])
        assert relation.n_observed == (~hidden).sum()
    sliced = Relation(form(COUNTS), CP, NAMES, observed=AllBut([[0, 0, 0], [2, 1, 1]], slices={0: [2, 3], 2: [0]}))
    known = np.ones(COUNTS.shape, bool)
    known[[2, 3]] = known[:, :, 0] = False
    assert np.array_equal(sliced.known_cells()[0], np.argwhere(known))
    assert sliced.n_observed == known.sum()


def test_hiding_cells_leaves_the_relation_as_it_was():
    relation = Relation(triple(COUNTS), CP, NAMES)
    before = relation.n_observed, len(relation.values)
    relation.without([[0, 0, 0]])
    assert (relation.n_observed, len(relation.values)) == before


@pytest.mark.parametrize("divergence", ["kl", "itakura-saito", 0.5])
def test_negative_data_is_refused(divergence):
    with pytest.raises(InvalidInputError, match="no negative numbers in 'visits'"):
        Relation(COUNTS - 1, CP, NAMES, divergence=divergence, name="visits")
    hidden = COUNTS - 1 >= 0
    Relation(COUNTS - 1, CP, NAMES, divergence="kl", observed=hidden)
    Relation(COUNTS - 1, CP, NAMES, divergence="euclid")


def test_zeros_under_itakura_saito_are_raised_and_said():
    with pytest.warns(UserWarning, match="zeros .* replaced by 0.01 times"):
        relation = Relation(COUNTS, CP, NAMES, divergence="itakura-saito")
    assert relation.dense.min() == pytest.approx(0.01)
    with pytest.raises(InvalidInputError, match="zeros only"):
        Relation(np.zeros((2, 2)), "ir,jr->ij", ("a", "b"), divergence=2)
    with pytest.raises(InvalidInputError, match="cells that are not stored as zeros"):
        Relation(triple(COUNTS), CP, NAMES, divergence="itakura-saito")


@pytest.mark.parametrize(
    ("data", "options", "points_at"),
    [
        (COUNTS, {"observed": np.zeros(COUNTS.shape, bool)}, "at least one known cell in 'visits'"),
        (COUNTS, {"observed": AllBut(slices={1: range(5)})}, "at least one known cell"),
        (triple(COUNTS), {"observed": AllBut(slices={1: range(5)})}, "at least one known cell"),
        ((np.zeros((0, 3)), [], (2, 3, 4)), {"observed": "stored"}, "at least one known cell"),
        (np.where(COUNTS > 2, np.nan, COUNTS), {}, "NaN"),
        (np.where(COUNTS > 2, np.inf, COUNTS), {}, "NaN or infinity"),
        (([[0, 0, 0]], [np.nan], (2, 3, 4)), {}, "NaN or infinity"),
        (([[0, 0, 4]], [1.0], (2, 3, 4)), {}, "0 to 3 on axis 2; got an index outside"),
        (([[0, -1, 0]], [1.0], (2, 3, 4)), {}, "0 to 2 on axis 1; got an index outside"),
        (([[0, 0.5, 0]], [1.0], (2, 3, 4)), {}, "whole numbers"),
        (([[0, 1]], [1.0], (2, 3, 4)), {}, "3 columns"),
        (([[0, 1, 1]], [1.0, 2.0], (2, 3, 4)), {}, "one value for each stored cell"),
        (
            ([[0, 1, 1], [1, 1, 1], [0, 1, 1]], [1.0, 2.0, 3.0], (2, 3, 4)),
            {},
            "duplicate cells",
        ),
        (COUNTS, {"observed": AllBut([[9, 0, 0]])}, "the cells of AllBut"),
        (COUNTS, {"observed": AllBut(slices={3: [0]})}, "axis from 0 to 2"),
        (COUNTS, {"observed": np.ones((7, 5), bool)}, "data's shape"),
        (COUNTS, {"observed": "some"}, "observed to be"),
        (COUNTS, {"divergence": "huber"}, "divergence to be one of"),
        (COUNTS, {"divergence": 2.5}, "divergence to be one of"),
        (COUNTS, {"dispersion": 0}, "dispersion"),
        (np.zeros((0, 2, 2)), {}, "data with cells"),
        ("text", {}, "numbers in 'visits'"),
    ],
)
def test_bad_data_is_refused(data, options, points_at):
    with pytest.raises(InvalidInputError, match=points_at):
        Relation(data, CP, NAMES, name="visits", **options)


def test_unknown_cells_may_hold_anything():
    data = np.where(COUNTS > 2, np.nan, COUNTS)
    relation = Relation(data, CP, NAMES, observed=~np.isnan(data))
    assert np.isfinite(relation.dense).all()


def test_a_factor_twice_in_one_relation_is_refused():
    with pytest.raises(InvalidInputError, match="'user' twice"):
        Relation(np.ones((3, 3)), "ir,jr->ij", ("user", "user"))


def test_an_entity_with_no_cell_anywhere_is_said_and_gets_the_mean():
    relation = Relation(COUNTS, CP, NAMES, observed=AllBut(slices={0: [3]}))
    with pytest.warns(UserWarning, match="some entities of 'user' have no known cell"):
        model = CoupledFactorization(2, max_iter=20).fit(relation)
    user = model.factors_["user"]
    assert np.allclose(user[3], np.delete(user, 3, axis=0).mean(axis=0))
    side = Relation(rng.poisson(2.0, (7, 4)), "ir,mr->im", ("user", "mark"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CoupledFactorization(2, max_iter=2).fit([relation, side])


def test_relations_that_share_nothing_are_allowed_and_said():
    one, other = Relation(COUNTS, CP, NAMES), Relation(np.ones((3, 4)), "ar,br->ab", ("a", "b"))
    start = {name: 0.2 + rng.random((size, 2)) for name, size in zip((*NAMES, "a", "b"), (7, 5, 6, 3, 4), strict=True)}
    options = {"max_iter": 30, "extrapolate": False, "tol": 0.0, "dispersion": "given"}
    with pytest.warns(UserWarning, match="2 groups without a common factor"):
        together = CoupledFactorization(2, init=start, **options).fit([one, other])
    alone = CoupledFactorization(2, init={name: start[name] for name in NAMES}, **options).fit(one)
    assert np.allclose(together.factors_["user"], alone.factors_["user"])


def test_relations_need_names_of_their_own():
    one = Relation(COUNTS, CP, NAMES)
    with pytest.raises(InvalidInputError, match="a different name"):
        CoupledFactorization(2).fit([one, one])
    with pytest.raises(InvalidInputError, match="Wrap the data"):
        CoupledFactorization(2).fit([COUNTS])
    with pytest.raises(InvalidInputError, match="at least one relation"):
        CoupledFactorization(2).fit([])
