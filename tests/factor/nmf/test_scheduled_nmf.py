"""Topics of documents that arrive over time: exact running moments, one charge, the sensitivity of all releases together."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from tacit import Ledger, PrivateNMF
from tacit.channel import Clear, Noisy, run
from tacit.errors import InvalidInputError
from tacit.estimators.scheduled import ScheduledSums
from tacit.factor.nmf.scheduled import SPLIT, scheduled_moments_program
from tacit.privacy.schedules import Schedule
from tacit.testing import check_neighbours

GENERATOR = np.random.default_rng(0)
TOPICS = np.kron(np.eye(3), np.ones(5)) / np.sqrt(5)
ROWS = GENERATOR.dirichlet(np.full(3, 0.2), size=6000) @ TOPICS
WEEKS = np.array_split(ROWS, 4)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_without_noise_the_moments_are_those_of_all_rows_so_far():
    memory = ScheduledSums(Schedule(4), SPLIT, 1000)
    for week in range(4):
        program = scheduled_moments_program(WEEKS[week], memory, row_norm=1.0, max_columns=50)
        found = run(program, Clear()).public["moments"]
        so_far = np.concatenate(WEEKS[: week + 1])
        assert found.count == pytest.approx(len(so_far))
        np.testing.assert_allclose(found.mean, so_far.mean(axis=0))
        covariance = (found.vectors.T * found.values) @ found.vectors
        np.testing.assert_allclose(covariance, np.cov(so_far.T, bias=True), atol=1e-9)


def test_a_year_of_topics_for_one_budget(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("documents", 9.0, 1e-5)
    model = PrivateNMF(3, epsilon=8.0, delta=1e-5, schedule=(4,), ledger=ledger, dataset="documents")
    for week in WEEKS:
        model.partial_fit(week)
        assert len(ledger.history("documents")) == 1
    assert model.guarantee_.epsilon <= 8.0
    assert any("all 4 releases" in assumption for assumption in model.guarantee_.assumptions)
    cosines = model.components_ @ TOPICS.T / np.linalg.norm(model.components_, axis=1, keepdims=True)
    assert cosines.max(axis=0).min() > 0.9
    with pytest.raises(InvalidInputError, match="at most 4 releases"):
        model.partial_fit(ROWS[:10])


def test_a_frame_of_sparse_columns_is_treated_as_a_sparse_matrix(monkeypatch):
    pandas = pytest.importorskip("pandas")
    limits = []

    def noted(rows, memory, *, row_norm, max_columns):
        limits.append(max_columns)
        return scheduled_moments_program(rows, memory, row_norm=row_norm, max_columns=max_columns)

    monkeypatch.setattr("tacit.factor.nmf.private.scheduled_moments_program", noted)
    rows = csr_array(np.where(ROWS[:200] > 0.1, ROWS[:200], 0.0))
    frame = pandas.DataFrame.sparse.from_spmatrix(rows, columns=[f"word {place}" for place in range(rows.shape[1])])
    for table in (rows, frame):
        PrivateNMF(3, epsilon=8.0, delta=1e-5, schedule=(4,)).partial_fit(table)
    assert limits[0] == limits[1]


MANY_WORDS = np.kron(np.eye(4), np.random.default_rng(1).gamma(0.5, size=60))
DOCUMENTS = np.random.default_rng(2).poisson(
    20 * np.random.default_rng(3).dirichlet(np.full(4, 0.2), size=2000) @ (MANY_WORDS / MANY_WORDS[0].sum())
)
DOCUMENTS = DOCUMENTS / np.maximum(np.linalg.norm(DOCUMENTS, axis=1, keepdims=True), 1.0)


def one_year(form, **settings):
    model = PrivateNMF(4, epsilon=4.0, schedule=(16,), insecure_seed=1, **settings)
    for week in np.array_split(np.arange(len(DOCUMENTS)), 16):
        model.partial_fit(form(DOCUMENTS[week]))
    return model


@pytest.mark.slow
def test_topics_of_many_small_releases_do_not_hang_on_the_noise_of_the_first(monkeypatch):
    """125 documents a week do not show which words matter: their rows are kept until some weeks do, and count."""
    cosines = []
    for latest in (0.25, 0.0):  # the second chooses in the first week
        monkeypatch.setattr("tacit.factor.nmf.scheduled.LATEST_CHOICE", latest)
        found = one_year(np.asarray).components_
        similar = found @ MANY_WORDS.T / np.linalg.norm(found, axis=1, keepdims=True) / np.linalg.norm(MANY_WORDS[0])
        cosines.append(similar.max(axis=0).min())
    assert cosines[0] > 0.9
    assert cosines[1] < cosines[0]


@pytest.mark.slow
def test_rows_before_the_choice_are_counted_each_week_with_the_same_noise(monkeypatch):
    sent = []
    original = Noisy.exchange

    def recorded(self, asks):
        sent.append({name: array.copy() for name, array in asks[0].arrays.items()})
        return original(self, asks)

    monkeypatch.setattr(Noisy, "exchange", recorded)
    model = one_year(csr_array)
    dense = one_year(np.asarray)
    for one, other in zip(*(year._memory.running["second"].answers for year in (model, dense)), strict=True):
        np.testing.assert_allclose(one["second"], other["second"], atol=1e-6)
    asked = [one["second"] for one in sent[: len(sent) // 2] if "second" in one]
    assert 1 + 16 - 4 <= len(asked) < 16  # at the latest after a quarter of the weeks, but not in the first
    assert len(asked[0]) == (1 + 16 - len(asked)) * len(asked[1])
    terms, answers = (getattr(model._memory.running["second"], name) for name in ("terms", "answers"))
    assert len(terms) == len(answers) == 16
    assert [np.linalg.norm(one["second"]) > 0 for one in terms] == [True] * 16
    noise = np.concatenate([a["second"] for a in answers]) - np.concatenate([asked[0], *asked[1:]])
    assert np.std(noise[: len(asked[0])]) == pytest.approx(np.std(noise[len(asked[0]) :]), rel=0.02)


@pytest.mark.slow
def test_a_row_moves_the_answers_of_all_releases_together_by_no_more_than_the_bound(monkeypatch):
    sent = []
    original = Noisy.exchange

    def recorded(self, asks):
        sent.append({name: array.copy() for name, array in asks[0].arrays.items()})
        return original(self, asks)

    monkeypatch.setattr(Noisy, "exchange", recorded)
    fixed = {}

    def terms(weeks):
        sent.clear()
        model = PrivateNMF(3, epsilon=8.0, schedule=(4,), insecure_seed=1)
        for place, week in enumerate(weeks):
            if place == 1:
                fixed.setdefault("memory", model._memory.fixed)
            model.partial_fit(week)
            if fixed:
                model._memory.fixed = fixed["memory"]
        return list(sent)

    longest = np.vstack([WEEKS[0], np.eye(1, 15) * 9.0])  # clipped to norm 1
    without = terms(WEEKS)
    first_of_without = without[1]["second"].shape
    with_row = terms([longest, *WEEKS[1:]])
    assert with_row[1]["second"].shape == first_of_without
    reach = Schedule(4).sensitivity
    moved = [
        first["total"] - second["total"] for first, second in zip(with_row, without, strict=True) if "total" in first
    ]
    assert 0.99 * reach < np.linalg.norm(np.concatenate(moved)) <= reach * (1 + 1e-9)


@pytest.mark.slow
def test_a_row_of_a_week_before_the_choice_moves_all_answers_by_no_more_than_the_bound(monkeypatch):
    """The answers of the second year are those of the first, so that both make the same choices."""
    sent, answers = [], []
    original = Noisy.exchange

    def frozen(self, asks):
        place = len(sent)
        sent.append({name: array.copy() for name, array in asks[0].arrays.items()})
        total = original(self, asks)
        if place < len(answers):
            return answers[place]
        answers.append(total)
        return total

    monkeypatch.setattr(Noisy, "exchange", frozen)
    weeks = [DOCUMENTS[125 * week : 125 * (week + 1)] for week in range(8)]

    def asked(first):
        sent.clear()
        model = PrivateNMF(4, epsilon=4.0, schedule=(16,), insecure_seed=1)
        for week in [first, *weeks[1:]]:
            model.partial_fit(week)
        return list(sent)

    longest = np.eye(1, 240, k=int(MANY_WORDS[0].argmax())) * 9.0  # of a frequent word; clipped to norm 1
    without, with_row = asked(weeks[0]), asked(np.vstack([weeks[0], longest]))
    seconds = [one["second"] for one in without if "second" in one]
    assert len(seconds) < len(weeks)  # the first weeks have none
    assert len(seconds[0]) > len(seconds[1])  # and are asked for together with that of the choice
    reach = Schedule(16).sensitivity
    for name in ("total", "second"):
        moved = [one[name] - other[name] for one, other in zip(with_row, without, strict=True) if name in one]
        # 8 of 16 releases: a part of what the row moves in all of them
        assert 0.5 * reach < np.linalg.norm(np.concatenate(moved)) <= reach * (1 + 1e-9)


def test_a_sum_that_the_first_release_leaves_out_stays_charged(tmp_path):
    """A later release asks for it, and is not charged."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("posts", 5.0, 1e-6)
    model = PrivateNMF(4, epsilon=2.0, schedule=(16,), ledger=ledger, dataset="posts")
    for week in range(6):
        model.partial_fit(DOCUMENTS[40 * week : 40 * (week + 1)])
        assert ledger.remaining("posts").spent == pytest.approx(2.0, rel=1e-3)
        if week == 0:
            assert not model._memory.fixed
    assert model._memory.fixed


def test_a_neighbour_of_the_first_release():
    def fit(rows):
        model = PrivateNMF(3, epsilon=20.0, schedule=(4,), insecure_seed=1).partial_fit(rows)
        return {name: getattr(model, name) for name in model._released if hasattr(model, name)}

    for row in (np.zeros((1, 15)), np.full((1, 15), 1e6), np.eye(1, 15)):
        check_neighbours(fit, np.vstack([WEEKS[0], row]), WEEKS[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PrivateNMF(2, schedule=(52, 52)).partial_fit(ROWS), "few of the releases"),
        (lambda: PrivateNMF(2, schedule=(4,), method="rounds").partial_fit(ROWS), "method='moments'"),
    ],
)
def test_refused(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_there_is_no_partial_fit_without_a_schedule():
    """Tools of scikit-learn call `partial_fit` wherever there is one."""
    assert not hasattr(PrivateNMF(2), "partial_fit")
    assert hasattr(PrivateNMF(2, schedule=(4,)), "partial_fit")
    with pytest.raises(AttributeError) as refused:
        PrivateNMF(2).partial_fit(ROWS)
    assert "Set schedule=" in str(refused.value.__cause__)
