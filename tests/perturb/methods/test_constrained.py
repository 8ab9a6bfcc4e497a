import numpy as np
import pytest
from perturbed_tables import LABELS, TABLE
from scipy.optimize import nnls

from tacit.errors import InvalidInputError
from tacit.measure import label_agreement
from tacit.perturb import CompressedNMF, ConstrainedNMF
from tacit.perturb.clusters import indicators
from tacit.perturb.methods.constrained_nmf import constrained_factors, solve_memberships

A = np.abs(TABLE)
C = indicators(LABELS, 3)
CENTROIDS = np.array([A[group == LABELS].mean(axis=0) for group in range(3)])


def objective(H, W, beta):
    return (1 - beta) * np.sum((A - H @ W) ** 2) + beta * np.sum((H - C) ** 2)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9, 1.0])
def test_the_objective_never_rises_and_is_what_it_says(beta):
    found = constrained_factors(A, C, beta, CENTROIDS)
    steps = np.diff(found.objective)
    assert (steps <= 1e-9 * found.objective[0]).all()
    assert min(found.H.min(), found.W.min()) >= 0
    assert objective(found.H, found.W, beta) <= found.objective[-1] * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.2, 0.6, 0.95])
def test_the_thesis_updates_go_to_the_same_place_and_no_lower(beta):
    H, W = C + 0.1, CENTROIDS.copy()
    for _ in range(4000):
        # (3.25) with beta times H in the denominator, and (3.24)
        H *= ((1 - beta) * A @ W.T + beta * C) / ((1 - beta) * H @ W @ W.T + beta * H)
        W *= (H.T @ A) / (H.T @ H @ W)
    found = constrained_factors(A, C, beta, CENTROIDS, tolerance=1e-9, most_sweeps=5000)
    assert objective(found.H, found.W, beta) <= objective(H, W, beta) * (1 + 1e-3)


def test_memberships_solve_their_least_squares_problem():
    beta, row = 0.3, 17
    H = solve_memberships(A, C, beta, CENTROIDS, start=C)
    stacked = np.vstack([np.sqrt(1 - beta) * CENTROIDS.T, np.sqrt(beta) * np.eye(3)])
    expected, _ = nnls(stacked, np.concatenate([np.sqrt(1 - beta) * A[row], np.sqrt(beta) * C[row]]))
    np.testing.assert_allclose(H[row], expected, atol=1e-6)


def test_at_one_every_row_becomes_its_centroid():
    for method in (ConstrainedNMF(1.0, scale="none"), CompressedNMF(1.0, scale="none")):
        released = method.fit_transform(A)
        assert label_agreement(method.labels_, LABELS) == 1
        means = np.array([A[method.labels_ == group].mean(axis=0) for group in range(3)])
        np.testing.assert_allclose(released, means[method.labels_], rtol=1e-3)
        np.testing.assert_allclose(method.cluster_centers_, means)


def test_memberships_that_are_small_become_zero():
    dense, sparse = (ConstrainedNMF(0.5, scale="none", sparsify=delta) for delta in (None, 0.1))
    difference = dense.fit_transform(A) - sparse.fit_transform(A)
    memberships = solve_memberships(A, indicators(dense.labels_, 3), 0.5, dense._basis, start=C)
    small = np.where(memberships < 0.1, memberships, 0.0)
    assert small.any()
    np.testing.assert_allclose(difference, small @ dense._basis, atol=1e-6)


@pytest.mark.parametrize("beta", [0.25, 1.0, 1.5])
def test_at_full_rank_rows_move_towards_and_beyond_their_centroid(beta):
    method = CompressedNMF(beta, rank=4, scale="none")
    released = method.fit_transform(A)
    moved = (1 - beta) * A + beta * method.cluster_centers_[method.labels_]
    np.testing.assert_allclose(released, np.maximum(moved, 0))


def test_low_rank_compression_is_no_worse_than_the_thesis_updates():
    method = CompressedNMF(0.5, rank=2, scale="none")
    released = method.fit_transform(A)
    goal = 0.5 * A + 0.5 * method.cluster_centers_[method.labels_]
    assert np.linalg.matrix_rank(released, tol=1e-6) == 2
    generator = np.random.default_rng(0)
    best = np.inf
    for _ in range(3):
        H, W = generator.random((len(A), 2)), generator.random((2, 4))
        for _ in range(500):
            W *= (H.T @ goal) / (H.T @ H @ W)
            H *= (goal @ W.T) / (H @ W @ W.T)
        best = min(best, np.linalg.norm(goal - H @ W))
    assert np.linalg.norm(goal - released) <= best * 1.001


def test_a_target_below_what_the_rank_allows_raises_the_rank():
    method = CompressedNMF(n_clusters=2, target_distortion=0.03, scale="none").fit(A)
    assert method.rank_ > 2
    assert method.distortion_ == pytest.approx(0.03, rel=0.02)
    with pytest.raises(InvalidInputError, match="the smallest for this table"):
        CompressedNMF(n_clusters=2, rank=2, target_distortion=0.03, scale="none").fit(A)


@pytest.mark.parametrize(
    "method",
    [
        ConstrainedNMF(1.2),
        ConstrainedNMF(-0.1),
        ConstrainedNMF(0.5, sparsify=-1),
        ConstrainedNMF(0.5, n_clusters=0),
        CompressedNMF(2.1),
        CompressedNMF(0.5, rank=5),
        CompressedNMF(0.5, n_clusters=1.5),
    ],
)
def test_settings_that_make_no_sense(method):
    with pytest.raises(InvalidInputError):
        method.fit(A)


def test_new_rows_go_where_fitted_rows_like_them_went():
    for method in (ConstrainedNMF(0.6), CompressedNMF(0.6)):
        released = method.fit_transform(A)
        np.testing.assert_allclose(method.transform(A[:20]), released[:20], atol=1e-4)


@pytest.mark.slow
def test_a_threshold_that_cuts_much_at_small_beta_is_searched_from_where_it_cuts_least():
    at_nought, at_most = (ConstrainedNMF(beta, scale="none", sparsify=0.3).fit(A).distortion_ for beta in (0.0, 0.95))
    assert at_nought > 1.1 * at_most  # so a search from 0 upwards would find nothing
    asked = ConstrainedNMF(target_distortion=at_most, scale="none", sparsify=0.3).fit(A)
    assert asked.distortion_ == pytest.approx(at_most, rel=0.02)
