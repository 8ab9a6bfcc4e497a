"""The recommender without privacy: its steps solve their least squares problems, and it recovers planted factors."""

from datetime import date

import numpy as np
import pytest
from recommender_contract import RecommenderContract

import tacit
from tacit import Recommender
from tacit.channel import Clear, run, run_together
from tacit.data import make_ratings
from tacit.errors import InvalidInputError
from tacit.factor.noisy_moments.leave_one_out import regress
from tacit.factor.ratings.als import als_program
from tacit.factor.ratings.table import read_ratings
from tacit.factor.small_solves import normal_rows, ridge_rows, solve_packed

RNG = np.random.default_rng(5)


class TestRecommender(RecommenderContract):
    estimator = Recommender(3, sweeps=6, rating_range=(1, 5))


def problem(rows=7, columns=9, size=4, most=9):
    """Rows with 0, 1, ... ratings."""
    counts = np.minimum(np.arange(rows), most)
    ends = np.r_[0, np.cumsum(counts)].astype(np.int64)
    places = np.concatenate([RNG.choice(columns, count, replace=False) for count in counts]).astype(np.int32)
    return ends, places, RNG.normal(size=ends[-1]), RNG.normal(size=(columns, size)), RNG.random((columns, size))


@pytest.mark.slow
def test_rows_solve_the_dense_normal_equations():
    ends, columns, targets, factors, variances = problem()
    precision, noise = np.array([1.0, 2.0, 0.5, 3.0]), 0.7
    found, spreads, errors = ridge_rows(ends, columns, targets, factors, variances, precision, noise)
    grams, linears = normal_rows(ends, columns, targets, factors, variances, range(2, 7))
    packed, packed_spreads = solve_packed(grams, linears, precision, noise)
    for i in range(7):
        F, t = factors[columns[ends[i] : ends[i + 1]]], targets[ends[i] : ends[i + 1]]
        extra = np.diag(variances[columns[ends[i] : ends[i + 1]]].sum(axis=0))
        A = F.T @ F + extra + noise * np.diag(precision)
        x, covariance = np.linalg.solve(A, F.T @ t), noise * np.linalg.inv(A)
        assert np.allclose(found[i], x)
        assert np.allclose(spreads[i], np.diag(covariance))
        # the expected error of t = f'x with independent entries of f and of x
        expected = ((t - F @ x) ** 2).sum() + x @ extra @ x + np.diag(F.T @ F + extra) @ np.diag(covariance)
        assert errors[i] == pytest.approx(expected)
        if i >= 2:
            assert np.allclose(packed[i - 2], x)
            assert np.allclose(packed_spreads[i - 2], np.diag(covariance))


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_what_users_send_is_solved_without_the_rating_cut_and_measured(rows):
    """Against one dense solve per rating; users without ratings contribute nothing."""
    ends, columns, values, factors, _ = problem(rows=rows)
    precision, noise, longest, cut = np.array([1.0, 2.0, 0.5, 3.0]), 0.7, 0.4, 0.75
    factors[:, -1] = 1
    gain, biases, scales = 1 + RNG.random(9), RNG.normal(size=9), RNG.random(rows)
    sums, norms, averages, squares = regress(
        ends, columns, values, biases, factors, precision, noise, gain=gain, longest=longest, clip=cut, scales=scales
    )
    expected, shortened = np.zeros((9, 4)), 0
    for i in range(rows):
        part = range(ends[i], ends[i + 1])
        terms, regressors, errors = [], [], []
        for place in part:
            others = [p for p in part if p != place]
            F = factors[columns[others]]
            targets = values[others] - biases[columns[others]]
            x = np.linalg.solve(F.T @ F + noise * np.diag(precision), F.T @ targets)
            errors.append(values[place] - biases[columns[place]] - factors[columns[place]] @ x)
            length = np.linalg.norm(x[:-1])
            shortened += length > longest
            regressors.append(np.r_[x[:-1] * min(1, longest / max(length, 1e-300)), 1])
            terms.append(regressors[-1] * gain[columns[place]] * np.clip(errors[-1], -cut, cut))
        assert norms[i] == pytest.approx(np.linalg.norm(terms) if terms else 0.0)
        if terms:
            assert np.allclose(averages[i], np.mean(regressors, axis=0))
            assert squares[i] == pytest.approx(np.minimum(np.square(errors), 1).mean())
            np.add.at(expected, columns[list(part)], scales[i] * np.array(terms) / norms[i])
    assert np.allclose(sums, expected)
    assert (shortened > 0) == (rows > 1)


def test_what_users_send_is_the_same_on_any_number_of_threads(monkeypatch):
    data = make_ratings(600, 50, ratings_per_user=40, random_state=2)
    table = read_ratings(data.users, data.items, data.ratings)
    factors = np.c_[RNG.normal(size=(50, 5)), np.ones(50)]
    settings = {"gain": np.ones(50), "longest": 2.0, "clip": 0.75, "scales": np.ones(600)}

    def sent():
        return regress(table.ends, table.columns, table.values - 3, np.zeros(50), factors, np.ones(6), 0.3, **settings)

    several = sent()
    monkeypatch.setattr("tacit.factor.kernels.THREADS", 1)
    assert all(np.array_equal(one, other) for one, other in zip(sent(), several, strict=True))


def test_without_factors_it_is_the_ridge_of_biases():
    """Converged, the users' biases solve their ridge problem given the items', and the other way round."""
    data = make_ratings(50, 20, n_factors=0, ratings_per_user=8, random_state=1)
    model = Recommender(0, sweeps=200).fit(data.users, data.items, data.ratings)
    users, precision = model._users[:, -1], model.user_precision_[-1]
    for user in range(5):
        mine = data.users == user
        residuals = data.ratings[mine] - model.global_mean_ - model.item_biases_[data.items[mine]]
        assert users[user] == pytest.approx(residuals.sum() / (mine.sum() + model.noise_ * precision), abs=1e-3)


@pytest.mark.slow
def test_planted_tastes_are_found():
    """With two planted factors, the held-out error comes near the noise and beats that of biases alone."""
    data = make_ratings(1500, 80, n_factors=2, ratings_per_user=30, noise=0.4, random_state=2)
    held = np.random.default_rng(0).random(len(data.users)) < 0.1
    train = data.users[~held], data.items[~held], data.ratings[~held]
    test = data.users[held], data.items[held], data.ratings[held]
    error = {k: Recommender(k).fit(*train).evaluate(*test).rmse for k in (0, 2, 8)}
    best = np.sqrt(np.mean((np.clip(data.expected(*test[:2]), 1, 5) - test[2]) ** 2))
    assert error[2] < 0.85 * error[0]
    assert error[2] < 1.12 * best
    assert error[8] < 1.03 * error[2]  # factors too many are shrunk away, not fitted to noise


def test_the_scale_of_the_ratings_does_not_matter():
    data = make_ratings(200, 60, random_state=4)
    small = Recommender(2).fit(data.users, data.items, data.ratings)
    large = Recommender(2).fit(data.users, data.items, 20.0 * data.ratings - 7)
    assert np.allclose(large.predict(data.users, data.items), 20 * small.predict(data.users, data.items) - 7, atol=0.2)


def test_two_holders_learn_what_one_would():
    """The program is written from one holder's view: users split in two give the same items, up to rounding."""
    data = make_ratings(120, 30, ratings_per_user=10, random_state=6)
    catalogue = list(range(30))

    def table(mine):
        return read_ratings(data.users[mine], data.items[mine], data.ratings[mine], catalogue=catalogue)

    def program(mine):
        return als_program(table(mine), n_factors=2, sweeps=5, random_state=0)

    whole = run(program(data.users >= 0), Clear()).public
    parts = run_together([program(data.users < 50), program(data.users >= 50)], Clear())
    assert np.allclose(parts[0].public["factors"], whole["factors"], atol=1e-3)
    assert np.allclose(parts[1].public["biases"], whole["biases"], atol=1e-3)


def test_blocks_cover_all_users_once():
    data = make_ratings(70, 30, ratings_per_user=10, random_state=6)
    table = read_ratings(data.to_csr())
    for size in (1, 37, 10**6):
        pieces = list(table.blocks(size))
        assert [piece.start for piece, _ in pieces] == [0, *(piece.stop for piece, _ in pieces[:-1])]
        assert pieces[-1][0].stop == 70
        assert np.array_equal(np.concatenate([part.values for _, part in pieces]), table.values)
        assert all(part.ends[-1] == len(part.values) for _, part in pieces)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_factors": -1}, "n_factors"),
        ({"n_factors": 1.5}, "n_factors"),
        ({"sweeps": 0}, "sweeps"),
        ({"rating_range": (5, 1)}, "rating_range"),
        ({"rating_range": "15"}, "rating_range"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        Recommender(**parameters).fit([1], [1], [3])


def test_ids_that_no_file_can_hold_are_refused_before_writing(tmp_path):
    model = Recommender(1).fit([1, 2], [date(2026, 1, 1), date(2026, 1, 2)], [3, 4])
    with pytest.raises(InvalidInputError, match="numbers and texts"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_ids_that_are_tuples_come_back_as_tuples(tmp_path):
    Recommender(1).fit([1, 2], [("b", 2), ("a", 1)], [3, 4]).save(tmp_path / "model")
    assert tacit.load(tmp_path / "model").item_ids_ == [("a", 1), ("b", 2)]


def test_it_says_that_it_has_no_guarantee():
    assert "no privacy guarantee" in str(Recommender(1).fit([1, 2], [1, 2], [3, 4]).guarantee_)
