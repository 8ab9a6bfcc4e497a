"""KSDP: it finds planted leaks, reports none where there is none, and states what kind of statement it is."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls

from tacit import NMF, PCA, SVD
from tacit.channel import Clear, Outcome, Sum
from tacit.errors import InvalidInputError
from tacit.measure.ksdp import TotalsOnly, ksdp, observing
from tacit.measure.ksdp.observation import Observation
from tacit.measure.ksdp.result import KSDP, holm
from tacit.measure.ksdp.statistics import fitting_statistics, nmf_statistics, svd_statistics, total_statistics

rng = np.random.default_rng(8)
X = np.abs(rng.standard_normal((500, 8)))
DOCUMENTS = list(range(6))


def sums(rows):
    total = yield Sum(rows=rows.sum(axis=0))
    return Outcome(public={"rows": total.rows})


@pytest.mark.slow
def test_a_channel_that_shows_one_holders_own_term_is_found():
    """Eight rows among 400 are hidden by the sum, and distinguished by their own term."""
    wide = np.abs(np.random.default_rng(9).standard_normal((4000, 8)))
    measured = partial(ksdp, X=wide, documents=DOCUMENTS, size=8, holders=[200, 200], samples=150, jobs=1)
    assert measured(observing(sums, TotalsOnly)).flagged == ()
    leaky = measured(observing(sums, lambda: Clear(keep_values=True)))
    assert len(leaky.flagged) >= 3
    for place in np.flatnonzero(leaky.corrected < 0.05):
        assert "holder 0's own" in leaky.statistics[leaky.p_values[place].argmin()]


@pytest.mark.slow
def test_singular_values_of_a_tiny_holder_give_its_documents_away():
    """All rows have one direction, so that directions do not show a long row; its length shows in the singular value."""
    lengths = np.abs(rng.standard_normal(500)) + 1
    lengths[:3] = [2.0, 12.0, 1.5]
    data = np.outer(lengths, np.ones(6))

    def nine_digits(observation, document):  # beyond them there is rounding, which depends on the data too
        return {name: float(f"{value:.9g}") for name, value in svd_statistics(observation, document).items()}

    measured = partial(ksdp, X=data, documents=[0, 1, 2], size=10, samples=60, statistics=[nine_digits], jobs=1)
    assert measured(SVD(1)).flagged == ()
    assert 1 in measured(SVD(1, hide_singular_values=False)).flagged


@pytest.mark.slow
def test_a_mechanism_that_ignores_the_document_is_left_alone():
    """Only the other holders' rows reach the sum. 60 p-values below 0.05 by chance: more than 9 with probability 0.1%."""

    def ignoring(rows, others):
        return observing(sums)(others[0], [])

    found = ksdp(ignoring, X, list(range(60)), size=20, holders=[50], samples=40, statistics=[total_statistics], jobs=1)
    assert found.flagged == ()
    along = found.p_values[:, found.statistics.index("first total rows along the document")]
    assert np.sum(along < 0.05) <= 9
    assert 0.2 < np.median(along) <= 1


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("estimator", [NMF(2, max_iter=5), SVD(2), PCA(2, hide_singular_values=False)])
def test_estimators_are_measured_with_the_statistics_that_fit(estimator, form):
    strange = X.copy()
    strange[3] *= 30
    found = ksdp(estimator, form(strange), [2, 3], size=30, samples=20, jobs=1)
    assert 3 in found.flagged
    expected = "a.w^2" if isinstance(estimator, NMF) else "maximum of S o xx'"
    assert expected in found.statistics
    assert any("along the document" in name for name in found.statistics)
    assert found.p_values.shape == (2, len(found.statistics))


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing():
    settings = {"size": 20, "holders": [30], "samples": 8, "random_state": 4}
    one, two = (ksdp(SVD(2), X, [1, 2], jobs=jobs, **settings) for jobs in (1, 2))
    assert np.array_equal(one.p_values, two.p_values)
    other = ksdp(SVD(2), X, [1, 2], jobs=1, **{**settings, "random_state": 5})
    assert not np.array_equal(one.p_values, other.p_values)


def test_databases_are_those_of_the_algorithm():
    """With the document or without any that is measured, of one size, no row twice, the document anywhere among them."""
    numbered, runs = np.arange(60.0)[:, None], []

    def recording(rows, others):
        runs.append([part.ravel().astype(int) for part in (rows, *others)])
        return Observation((), {"x": np.zeros(1)})

    ksdp(recording, numbered, [5, 9], size=7, holders=[3, 4], samples=8, jobs=1)
    assert len(runs) == 3 * 8
    for place, parts in enumerate(runs):
        rows = np.concatenate(parts)
        assert [len(part) for part in parts] == [7, 3, 4]
        assert len(set(rows)) == 14
        expected = set() if place < 8 else {5} if place < 16 else {9}
        assert set(rows) & {5, 9} == expected == set(parts[0]) & {5, 9}
    assert len({list(parts[0]).index(5) for parts in runs[8:16]}) > 1


def test_the_statistic_of_topics_is_that_of_the_paper():
    T, W, x = rng.random((3, 8)), rng.random((20, 3)), X[0] / 50
    T /= T.sum(axis=1)[:, None]
    coefficients = nnls(T.T, x)[0]
    assert coefficients.max() < 1, "so the upper end of [0, 1] plays no part"
    expected = coefficients @ np.sum(W**2, axis=0)
    scale = np.array([3.0, 0.2, 7.0])  # the same factorisation in another scale
    for factor in (np.ones(3), scale):
        public = {"T": T * factor[:, None], "WW": (W / factor).T @ (W / factor)}
        found = nmf_statistics(Observation((), public), x)
        assert found == {"a.w^2": pytest.approx(expected, rel=1e-8)}
    bounded = nmf_statistics(Observation((), {"T": T, "WW": W.T @ W}), 100 * X[0])
    assert bounded["a.w^2"] <= np.trace(W.T @ W) + 1e-9


def test_the_statistics_of_singular_vectors_are_those_of_the_paper(monkeypatch):
    V, x = np.linalg.qr(rng.standard_normal((8, 2)))[0].T, X[0]
    for public, values in (
        ({"singular_values": np.array([3.0, 1.0])}, [3.0, 1.0]),
        ({"relative_values": np.array([1.0, 0.5])}, [1.0, 0.5]),
    ):
        S = V.T @ np.diag(np.square(values)) @ V
        product, apart = np.abs(S * np.outer(x, x)), np.abs(S / np.linalg.norm(S) - np.outer(x, x) / np.linalg.norm(x))
        expected = [number for M in (product, apart) for number in (M.max(), M.sum(), np.sum(M**2))]
        monkeypatch.setattr("tacit.measure.ksdp.statistics.BLOCK_NUMBERS", 24)  # three rows at a time
        found = svd_statistics(Observation((), {"components": V, **public}), x)
        assert list(found.values()) == pytest.approx(expected)
    own = svd_statistics(Observation((), {"components": V, **public}), x, values=np.array([3.0, 1.0]))
    revealed = svd_statistics(Observation((), {"components": V, "singular_values": np.array([3.0, 1.0])}), x)
    assert own == revealed


def test_everything_that_was_seen_enters():
    channel = observing(sums, lambda: Clear(keep_values=True))
    seen = channel(X[:4], [X[4:6]])
    found = total_statistics(seen, X[0])
    direction = X[0] / np.linalg.norm(X[0])
    assert found["first total rows along the document"] == pytest.approx(X[:6].sum(axis=0) @ direction)
    assert found["first holder 1's own rows along the document"] == pytest.approx(X[4:6].sum(axis=0) @ direction)
    assert found["length of result rows"] == pytest.approx(np.linalg.norm(X[:6].sum(axis=0)))
    assert fitting_statistics(seen) == (total_statistics,)
    assert not any("holder" in name for name in total_statistics(observing(sums)(X[:4], [X[4:6]]), X[0]))


def test_holms_correction():
    p = np.array([[0.01, 0.04], [0.03, 0.005]])
    # sorted 0.005 0.01 0.03 0.04 times 4 3 2 1, made monotone
    assert np.allclose(holm(p), [[0.03, 0.06], [0.06, 0.02]])
    assert np.all(holm(np.array([0.9, 0.8, 0.7])) == 1)


def test_it_says_what_it_is():
    found = KSDP((4, 7), ("one", "two"), np.array([[0.5, 0.9], [1e-9, 0.2]]), samples=50, size=30)
    assert found.flagged == (7,)
    assert np.allclose(found.pi, [0.5, 1e-9])
    assert str(found).startswith("This is a measurement, not a privacy guarantee")
    assert "document 7" in str(found)
    assert not found.guarantee.holds
    assert found.to_dict()["flagged"] == [7]
    assert found.to_dict()["guarantee"]["kind"] == "measured"
    axis = found.figure().axes[0]
    assert axis.get_ylabel() == "smallest p-value"


@pytest.mark.parametrize(
    "settings",
    [
        {"documents": []},
        {"documents": [1, 1]},
        {"documents": [0.5]},
        {"documents": [-1]},
        {"documents": [500]},
        {"samples": 3},
        {"size": 1},
        {"size": 499},
        {"size": 300, "holders": [250]},
        {"holders": [0]},
        {"level": 0},
        {"jobs": 0},
        {"random_state": None},
    ],
)
def test_bad_parameters(settings):
    with pytest.raises(InvalidInputError):
        ksdp(SVD(2), X, **{"documents": DOCUMENTS, "jobs": 1, **settings})


@pytest.mark.parametrize("mechanism", [7, lambda rows, others: sums(rows), lambda rows, others: None])
def test_what_is_not_a_mechanism(mechanism):
    with pytest.raises(InvalidInputError, match="observing"):
        ksdp(mechanism, X, DOCUMENTS, jobs=1)


def test_a_statistic_that_is_no_number_is_refused_and_hides_nothing():
    """The test has no order for NaN: a document that another statistic distinguishes would not be flagged."""
    data = np.random.default_rng(0).standard_normal((300, 4))
    data[7] *= 20

    def undefined(observation, document):
        first = observation.public["components"][0, 0]
        return {"root of the first entry": float(np.sqrt(first)) if first >= 0 else float("nan")}

    measured = partial(ksdp, SVD(2, hide_singular_values=False), data, [3, 7], size=30, samples=20, jobs=1)
    assert measured(statistics=[total_statistics]).flagged == (7,)
    with pytest.raises(InvalidInputError, match=r"'root of the first entry' to be a number in every run; got NaN"):
        measured(statistics=[total_statistics, undefined])
