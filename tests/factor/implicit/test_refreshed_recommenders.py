"""Recommenders that are fitted again and again: sums that add up, correlated noise, one charge for a schedule."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

import tacit
from tacit import Ledger, PrivateImplicitRecommender
from tacit.channel import Noisy
from tacit.errors import BudgetError, InvalidInputError
from tacit.estimators import scheduled as scheduled_module
from tacit.estimators.base import pickling_everything
from tacit.factor.implicit.co_occurrence import second_moment
from tacit.factor.implicit.interactions import read_interactions
from tacit.privacy.schedules import Schedule
from tacit.testing import check_neighbours

GENERATOR = np.random.default_rng(0)
LIKES = np.where(np.arange(24)[None, :] % 3 == np.arange(900)[:, None] % 3, 0.6, 0.1)
USERS, ITEMS = np.nonzero(GENERATOR.random(LIKES.shape) < LIKES)
CATALOGUE = list(range(24))
MODEL = PrivateImplicitRecommender(epsilon=20.0, delta=1e-5, catalogue=CATALOGUE)
WEEKS = [week == USERS % 3 for week in range(3)]  # every user in one week


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(**settings):
    return clone(MODEL).set_params(**settings)


def test_without_noise_a_refit_and_a_schedule_are_the_sums_over_all_users():
    exact = {"epsilon": np.inf}
    first = made(**exact).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    second = made(**exact).refit(USERS[~WEEKS[0]], ITEMS[~WEEKS[0]], previous=first)
    whole = made(**exact).fit(USERS, ITEMS)
    np.testing.assert_allclose(second.item_weights_, whole.item_weights_)
    assert second.n_users_ == whole.n_users_ == 900
    weekly = made(**exact, schedule=(3,))
    for week in WEEKS:
        weekly.partial_fit(USERS[week], ITEMS[week])
    np.testing.assert_allclose(weekly.item_weights_, whole.item_weights_)
    np.testing.assert_allclose(weekly.item_pairs_, second.item_pairs_)  # the same direction, from the first week
    assert weekly.n_users_ == pytest.approx(900)


def test_a_refit_pays_for_itself_and_its_noise_adds_up(tmp_path):
    first = made(insecure_seed=1).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    first.save(tmp_path / "first")
    again = made(insecure_seed=2, epsilon=5.0).refit(
        USERS[~WEEKS[0]], ITEMS[~WEEKS[0]], previous=tacit.load(tmp_path / "first")
    )
    alone = made(insecure_seed=2, epsilon=5.0).fit(USERS[~WEEKS[0]], ITEMS[~WEEKS[0]])
    assert again.pair_noise_ == pytest.approx(np.hypot(first.pair_noise_, alone.pair_noise_))
    np.testing.assert_allclose(again.item_weights_, first.item_weights_ + alone.item_weights_)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("clicks", 9.0, 1e-5, unit="user")
    first = made(epsilon=2.0).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    paid = made(epsilon=5.0, ledger=ledger, dataset="clicks").refit(USERS, ITEMS, previous=first)
    assert paid.guarantee_.epsilon <= 5.0
    assert ledger.remaining("clicks").spent == pytest.approx(5.0, rel=1e-3)


def test_a_refit_claims_no_more_than_the_earlier_model_earned(tmp_path):
    """The file holds what both fits released: an earlier model without noise, or with less, is still in it."""
    for settings in ({"epsilon": np.inf}, {"insecure_seed": 1}):
        bare = made(**settings).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
        again = made(epsilon=1.0).refit(USERS[WEEKS[1]], ITEMS[WEEKS[1]], previous=bare)
        assert not again.guarantee_.holds
        again.save(tmp_path / "again")
        assert "earlier fit" in str(tacit.load(tmp_path / "again").guarantee_)
    weak = made(epsilon=9.0, delta=1e-4).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    again = made(epsilon=1.0).refit(USERS[WEEKS[1]], ITEMS[WEEKS[1]], previous=weak)
    assert again.guarantee_.epsilon == pytest.approx(9.0, rel=1e-3)
    assert again.guarantee_.delta == 1e-4
    assert any("in two of the fits" in assumption for assumption in again.guarantee_.assumptions)
    strong = made(epsilon=0.5).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    again = made(epsilon=1.0).refit(USERS[WEEKS[1]], ITEMS[WEEKS[1]], previous=strong)
    assert again.guarantee_.epsilon == pytest.approx(1.0, rel=1e-3)
    assert again.guarantee_.assumptions.count(again.guarantee_.assumptions[0]) == 1
    other = made(adjacency="replace-one").fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    with pytest.raises(InvalidInputError, match="adjacency of the earlier"):
        made().refit(USERS[WEEKS[1]], ITEMS[WEEKS[1]], previous=other)


def test_a_model_may_be_refitted_to_itself_and_a_failed_refit_leaves_nothing():
    model = made(epsilon=np.inf).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    model.refit(USERS[~WEEKS[0]], ITEMS[~WEEKS[0]], previous=model)
    assert model.n_users_ == 900
    earlier = made(epsilon=np.inf).fit(USERS, ITEMS)
    with pytest.raises(InvalidInputError):
        model.refit([1], ["not in the catalogue"], previous=earlier)
    with pytest.raises(InvalidInputError, match="fitted"):
        model.save("nowhere")


def test_more_weeks_make_better_lists():
    first = made(epsilon=3.0, insecure_seed=4).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    last = first
    for week in WEEKS[1:]:
        last = made(epsilon=3.0, insecure_seed=5).refit(USERS[week], ITEMS[week], previous=last)

    def right(model):
        lists = model.rank([[kind, kind + 3] for kind in range(3)], 6)
        return np.mean([[item % 3 == kind for item in best] for kind, best in enumerate(lists)])

    assert right(last) > right(first) - 0.01
    assert right(last) > 0.9


def test_a_schedule_is_charged_once_and_says_what_it_covers(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("clicks", 9.0, 1e-5, unit="user")
    model = made(epsilon=5.0, ledger=ledger, dataset="clicks", schedule=(3, 1, 1))
    guarantees = []
    for week in WEEKS:
        model.partial_fit(USERS[week], ITEMS[week])
        guarantees.append(str(model.guarantee_))
        assert len(ledger.history("clicks")) == 1
    assert len(set(guarantees)) == 1
    assert model.guarantee_.epsilon <= 5.0
    assert any("all 3 releases" in assumption for assumption in model.guarantee_.assumptions)
    with pytest.raises(InvalidInputError, match="at most 3 releases"):
        model.partial_fit(USERS, ITEMS)
    assert ledger.remaining("clicks").spent == pytest.approx(5.0, rel=1e-3)


def test_the_noise_of_each_release_is_that_of_the_schedule():
    one = made(insecure_seed=1).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    model = made(insecure_seed=1, schedule=(3,))
    for release, week in enumerate(WEEKS):
        model.partial_fit(USERS[week], ITEMS[week])
        assert model.pair_noise_ == pytest.approx(one.pair_noise_ * Schedule(3).relative_noise(release), rel=1e-3)


def test_a_user_moves_the_answers_of_all_releases_together_by_no_more_than_the_bound(monkeypatch):
    """The terms of all releases, with and without a user of the first week: their distance is one mechanism's sensitivity."""
    sent = []
    original = Noisy.exchange

    def recorded(self, asks):
        sent.append({name: array.copy() for name, array in asks[0].arrays.items()})
        return original(self, asks)

    monkeypatch.setattr(Noisy, "exchange", recorded)

    def terms(users, items, chosen=None):
        sent.clear()
        model = made(insecure_seed=1, schedule=(3,))
        for week in range(3):
            if chosen is not None and week == 0:
                monkeypatch.setattr("tacit.factor.implicit.program.choose_items", lambda *_: chosen)
            now = users % 3 == week
            model.partial_fit(users[now], items[now])
        return copy.deepcopy(sent), model._memory.chosen

    with_user, chosen = terms(USERS, ITEMS)
    kept = USERS != 3
    without, _ = terms(USERS[kept], ITEMS[kept], chosen)
    for name in ("items", "pairs"):
        moved = [first[name] - second[name] for first, second in zip(with_user, without, strict=True) if name in first]
        assert len(moved) == 3
        assert (
            0.8 * Schedule(3).sensitivity
            < np.linalg.norm(np.concatenate(moved))
            <= Schedule(3).sensitivity * (1 + 1e-9)
        )


def test_a_failed_release_leaves_the_earlier_model(monkeypatch):
    model = made(schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    before = model.item_weights_.copy()
    with pytest.raises(InvalidInputError):
        model.partial_fit([1], ["not in the catalogue"])
    monkeypatch.setattr(scheduled_module, "run", lambda *_: (_ for _ in ()).throw(RuntimeError))
    with pytest.raises(RuntimeError):
        model.partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])
    monkeypatch.undo()
    assert np.array_equal(model.item_weights_, before)
    assert len(model.recommend(int(USERS[WEEKS[0]][0]), 3)) == 3
    model.partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])
    assert not np.array_equal(model.item_weights_, before)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1000.0},
        {"epsilon": np.inf},
        {"delta": 1e-3},
        {"adjacency": "replace-one"},
        {"max_units": 5000},
        {"insecure_seed": 3},
        {"dataset": "others"},
        {"schedule": (4,)},
        {"catalogue": CATALOGUE[::-1]},
        {"features": np.eye(24)},
    ],
)
def test_a_later_release_has_the_settings_of_the_first(change):
    """Its noise is that of one mechanism over all releases: with less noise in one of them nothing holds."""
    model = made(schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    before = model.item_weights_.copy()
    with pytest.raises(InvalidInputError, match=f"another {next(iter(change))}"):
        model.set_params(**change).partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])
    assert np.array_equal(model.item_weights_, before)
    kept = {name: getattr(made(schedule=(3,)), name) for name in change}
    model.set_params(**kept, verbose=False).partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])


def test_a_ledger_cannot_be_attached_to_a_schedule_that_goes_on(tmp_path):
    model = made(schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    model.ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(InvalidInputError, match="another ledger"):
        model.partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])


@pytest.fixture
def noised(monkeypatch):
    """Return the list of the sums that got noise; while it has `fail` set, each of them fails right after."""

    class Noised(list):
        fail = False

    made_noisy, original = Noised(), Noisy._released

    def released(self, *arguments):
        total = original(self, *arguments)
        made_noisy.append(total)
        if made_noisy.fail:
            raise KeyboardInterrupt
        return total

    monkeypatch.setattr(Noisy, "_released", released)
    return made_noisy


def test_a_release_that_was_interrupted_is_not_made_again(noised):
    """Every attempt would add fresh noise to the same sums, for nothing."""
    model = made(schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    noised.clear()
    noised.fail = True
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])
    noised.fail = False
    for attempt in (model, copy.copy(model), copy.deepcopy(model)):
        with pytest.raises(BudgetError, match="release number 2 was begun before"):
            attempt.partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])
    assert len(noised) == 1
    assert len(model.recommend(int(USERS[WEEKS[0]][0]), 3)) == 3  # what was released before is still there


def test_copies_share_the_releases_of_a_schedule(noised):
    model = made(schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    twin = copy.deepcopy(model)
    with ThreadPoolExecutor(4) as threads:
        runs = [
            threads.submit(one.partial_fit, USERS[WEEKS[1]], ITEMS[WEEKS[1]]) for one in (model, twin, copy.copy(model))
        ]
    assert sorted(type(run.exception()).__name__ for run in runs) == ["BudgetError", "BudgetError", "NoneType"]
    assert len(noised) == 4  # two sums of the first release, two of the second


def test_a_schedule_goes_on_in_its_own_process_only(noised):
    model = made(schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    with pickling_everything():
        moved = pickle.loads(pickle.dumps(model))
    noised.clear()
    with pytest.raises(BudgetError, match="another process"):
        moved.partial_fit(USERS[WEEKS[1]], ITEMS[WEEKS[1]])
    assert not noised


def test_the_first_release_of_a_schedule_has_nothing_of_an_earlier_fit():
    model = made(epsilon=np.inf).fit(USERS, ITEMS)
    model.left_behind_ = 1
    model.set_params(epsilon=1.0, schedule=(3,)).partial_fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])
    assert not hasattr(model, "left_behind_")
    assert model.guarantee_.holds


def test_a_neighbour_of_a_refit_and_of_a_schedule():
    first = made(insecure_seed=1).fit(USERS[WEEKS[0]], ITEMS[WEEKS[0]])

    def released(model):
        return {name: getattr(model, name) for name in model._released}

    def refit(data):
        return released(made(insecure_seed=2).refit(*data, previous=first))

    def start(data):
        return released(made(insecure_seed=2, schedule=(12, 2, 4)).partial_fit(*data))

    more = np.r_[[-1] * 24, USERS], np.r_[CATALOGUE, ITEMS]
    check_neighbours(refit, more, (USERS, ITEMS), unit=0)
    check_neighbours(start, more, (USERS, ITEMS), unit=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: made(schedule=()).partial_fit(USERS, ITEMS), "releases"),
        (lambda: made(schedule=(52, 52, 1)).partial_fit(USERS, ITEMS), "few of the releases"),
        (lambda: made().refit(USERS, ITEMS, previous=made()), "fitted"),
        (
            lambda: made(catalogue=CATALOGUE[::-1]).refit(USERS, ITEMS, previous=made().fit(USERS, ITEMS)),
            "catalogue of the earlier",
        ),
    ],
)
def test_refused(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


# many items, few users a week: what the first week knows of popularity is noise -----------------------------------------

MANY = list(range(2000))
TWELFTHS = [month == USERS % 12 for month in range(12)]


def a_year(**settings):
    model = made(catalogue=MANY, schedule=(12,), **settings)
    learned = []
    for month in TWELFTHS:
        model.partial_fit(USERS[month], ITEMS[month])
        learned.append(model.n_learned_)
    return model, learned


def test_items_are_chosen_when_noise_allows_it_and_the_pairs_of_the_months_before_count_too():
    model, learned = a_year(insecure_seed=1)
    assert learned[:2] == [0, 0]
    assert min(learned[2:]) > 16
    assert set(range(24)) <= set(model.learned_items_.tolist())
    table = read_interactions(USERS, ITEMS, catalogue=MANY)
    exact = second_moment(table.ends, table.columns, table.values, 2000, model._release().chosen)
    away = (model.item_pairs_ - exact) / model.pair_noise_
    assert np.abs(away).max() < 6
    assert np.std(away) == pytest.approx(1, abs=0.1)
    single = made(catalogue=MANY, insecure_seed=1).fit(USERS, ITEMS)
    assert model.pair_noise_ == pytest.approx(single.pair_noise_ * Schedule(12).relative_noise(11), rel=1e-3)


def test_a_user_of_a_month_before_the_choice_moves_all_answers_by_no_more_than_the_bound(monkeypatch):
    sent = []
    original = Noisy.exchange

    def recorded(self, asks):
        sent.append({name: array.copy() for name, array in asks[0].arrays.items()})
        return original(self, asks)

    monkeypatch.setattr(Noisy, "exchange", recorded)
    model, _ = a_year(insecure_seed=1)
    with_user, chosen = copy.deepcopy(sent), model._memory.chosen
    sent.clear()
    kept = USERS != 0  # of the first month
    monkeypatch.setattr("tacit.factor.implicit.program.choose_items", lambda *_: chosen)
    monkeypatch.setattr(f"{__name__}.TWELFTHS", [month & kept for month in TWELFTHS])
    a_year(insecure_seed=1)
    moved = [
        first["pairs"] - second["pairs"] for first, second in zip(with_user, sent, strict=True) if "pairs" in first
    ]
    assert [len(one) for one in moved] == [3 * len(moved[-1])] + [len(moved[-1])] * 9
    bound = Schedule(12).sensitivity
    assert 0.8 * bound < np.linalg.norm(np.concatenate(moved)) <= bound * (1 + 1e-9)
