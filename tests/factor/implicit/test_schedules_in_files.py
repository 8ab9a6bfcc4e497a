"""Schedules whose releases are made by one process after another: a file holds what the next one needs."""

import multiprocessing
import os
import shutil
import sqlite3
import stat
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from tacit import Ledger, PrivateImplicitRecommender, PrivateNMF
from tacit.channel import noisy
from tacit.data import make_images
from tacit.errors import BudgetError, InvalidInputError, LedgerError, words
from tacit.estimators.schedule_file import ScheduleFile
from tacit.factor.implicit import program

LIKES = np.where(np.arange(24)[None, :] % 3 == np.arange(900)[:, None] % 3, 0.6, 0.1)
USERS, ITEMS = np.nonzero(np.random.default_rng(0).random(LIKES.shape) < LIKES)
IMAGES = make_images(900, side=6, n_parts=3).images


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def recommender(file, **settings):
    given = {"epsilon": 20.0, "delta": 1e-5, "catalogue": range(24), "schedule": (3,), "schedule_file": file}
    return PrivateImplicitRecommender(**{**given, **settings})


def week(number):
    return USERS[number == USERS % 3], ITEMS[number == USERS % 3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["recommender", "topics"])
@pytest.mark.parametrize("epsilon", [20.0, np.inf])
def test_a_new_object_goes_on_where_the_last_one_ended(kind, epsilon, tmp_path):
    """With the same seed, three objects that share a file release what one object in memory releases."""

    def made(file):
        if kind == "recommender":
            return recommender(file, epsilon=epsilon, insecure_seed=5)
        return PrivateNMF(3, epsilon=epsilon, row_norm=2.0, schedule=(3,), schedule_file=file, insecure_seed=5)

    in_memory = made(None)
    for number in range(3):
        data = week(number) if kind == "recommender" else (IMAGES[number::3],)
        in_memory.partial_fit(*data)
        from_file = made(tmp_path / "schedule").partial_fit(*data)
        name = "item_pairs_" if kind == "recommender" else "components_"
        np.testing.assert_array_equal(getattr(from_file, name), getattr(in_memory, name))
        assert from_file.guarantee_ == in_memory.guarantee_
    with pytest.raises(InvalidInputError, match="at most 3 releases"):
        made(tmp_path / "schedule").partial_fit(*data)


@pytest.mark.slow
def test_months_before_the_choice_of_items_are_in_the_file_until_they_are_counted(tmp_path):
    in_memory = recommender(None, catalogue=range(2000), schedule=(12,), insecure_seed=5)
    rows = []
    for number in range(5):
        data = USERS[number == USERS % 12], ITEMS[number == USERS % 12]
        in_memory.partial_fit(*data)
        from_file = recommender(
            tmp_path / "schedule", catalogue=range(2000), schedule=(12,), insecure_seed=5
        ).partial_fit(*data)
        np.testing.assert_array_equal(from_file.item_pairs_, in_memory.item_pairs_)
        with sqlite3.connect(tmp_path / "schedule") as file:
            rows.append(file.execute("SELECT COUNT(*) FROM sums WHERE kind = 'kept'").fetchone()[0])
    assert rows == [3, 6, 0, 0, 0]  # ends, columns and values of each month


def test_only_the_first_release_is_charged_and_only_the_owner_can_read_the_file(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account("clicks", epsilon=25.0, delta=1e-5, unit="user")
    for number in range(3):
        model = recommender(tmp_path / "schedule", ledger=ledger, dataset="clicks").partial_fit(*week(number))
        assert 19 < ledger.remaining("clicks").spent <= 20
    assert model.guarantee_.epsilon <= 20
    assert stat.S_IMODE(os.stat(tmp_path / "schedule").st_mode) == 0o600


def test_a_release_is_made_once_also_by_copies_of_the_object_and_by_objects_that_were_read_before(tmp_path):
    first = recommender(tmp_path / "schedule").partial_fit(*week(0))
    recommender(tmp_path / "schedule").partial_fit(*week(1))
    with pytest.raises(BudgetError, match="release number 2 was begun before"):
        first.partial_fit(*week(1))
    recommender(tmp_path / "schedule").partial_fit(*week(2))


def test_a_release_that_failed_after_its_first_sum_is_not_made_again(tmp_path, monkeypatch):
    recommender(tmp_path / "schedule").partial_fit(*week(0))

    def fails(*args):
        raise MemoryError

    monkeypatch.setattr(program, "second_moment", fails)
    with pytest.raises(MemoryError):
        recommender(tmp_path / "schedule").partial_fit(*week(1))
    monkeypatch.undo()
    with pytest.raises(BudgetError, match="begun before"):
        recommender(tmp_path / "schedule").partial_fit(*week(1))


def test_a_first_release_that_failed_may_be_tried_again_as_it_pays_for_itself(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account("clicks", epsilon=60.0, delta=1e-4, unit="user")
    settings = {"ledger": ledger, "dataset": "clicks"}

    def fails(*args):
        raise MemoryError

    monkeypatch.setattr(program, "second_moment", fails)
    with pytest.raises(MemoryError):
        recommender(tmp_path / "schedule", **settings).partial_fit(*week(0))
    monkeypatch.undo()
    before = ledger.remaining("clicks").spent
    recommender(tmp_path / "schedule", **settings).partial_fit(*week(0))
    assert 0 < before < ledger.remaining("clicks").spent


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": 10.0}, "another epsilon"),
        ({"catalogue": range(1, 25)}, "another catalogue"),
        ({"schedule": (4,)}, "another schedule"),
        ({"insecure_seed": 1}, "another insecure_seed"),
        ({"dataset": "others"}, "another dataset"),
    ],
)
def test_a_later_release_has_the_settings_of_the_first(changed, words, tmp_path):
    recommender(tmp_path / "schedule").partial_fit(*week(0))
    with pytest.raises(InvalidInputError, match=words):
        recommender(tmp_path / "schedule", **changed).partial_fit(*week(1))
    recommender(tmp_path / "schedule").partial_fit(*week(1))  # the refusal took no turn


def test_other_files_are_refused_before_anything_is_released(tmp_path):
    (tmp_path / "text").write_text("not a schedule" * 100)
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE about (name TEXT, value BLOB)")
    for name in ("text", "other"):
        with pytest.raises(InvalidInputError, match="a schedule's file of this version"):
            recommender(tmp_path / name).partial_fit(*week(0))
    recommender(tmp_path / "schedule").partial_fit(*week(0))
    with pytest.raises(InvalidInputError, match="class among"):
        PrivateNMF(3, schedule=(3,), schedule_file=tmp_path / "schedule").partial_fit(IMAGES)


def _begin(path, number, results):
    results.put(ScheduleFile(path).begin(number))


@pytest.mark.slow
def test_of_several_processes_one_takes_the_turn(tmp_path):
    path = tmp_path / "schedule"
    recommender(path).partial_fit(*week(0))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_begin, args=(path, 1, results)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(results.get(timeout=10) for _ in processes) == [False, False, False, True]


def test_a_catalogue_of_one_item_has_all_releases_too():
    model = PrivateImplicitRecommender(epsilon=1.0, catalogue=["a"], schedule=(3,))
    for users in ([1, 2], [3], [4]):
        model.partial_fit(users, ["a"] * len(users))
    with pytest.raises(InvalidInputError, match="at most 3 releases"):
        model.partial_fit([5], ["a"])


def paid_for(tmp_path, **settings):
    """Return a function that makes models of one schedule, charged to one account."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account("clicks", epsilon=25.0, delta=1e-5, unit="user")
    return lambda: recommender(tmp_path / "schedule", ledger=ledger, dataset="clicks", **settings)


def test_an_older_copy_of_the_file_is_refused_with_a_ledger(tmp_path):
    made = paid_for(tmp_path)
    made().partial_fit(*week(0))
    shutil.copy(tmp_path / "schedule", tmp_path / "older")
    made().partial_fit(*week(1))
    shutil.copy(tmp_path / "schedule", tmp_path / "newest")
    shutil.copy(tmp_path / "older", tmp_path / "schedule")
    with pytest.raises(BudgetError, match="older copy"):
        made().partial_fit(*week(1))
    shutil.copy(tmp_path / "newest", tmp_path / "schedule")
    made().partial_fit(*week(2))
    assert [charge.later for charge in Ledger(tmp_path / "ledger").history("clicks")] == [2]
    Ledger(tmp_path / "ledger").verify()


def test_a_ledger_that_does_not_answer_takes_no_turn(tmp_path, monkeypatch):
    made = paid_for(tmp_path)
    made().partial_fit(*week(0))

    def locked(*args):
        raise LedgerError("a", words("b"), "c")

    monkeypatch.setattr(Ledger, "begin_later", locked)
    with pytest.raises(LedgerError):
        made().partial_fit(*week(1))
    monkeypatch.undo()
    made().partial_fit(*week(1))


def test_another_ledger_in_place_of_the_first_is_refused(tmp_path):
    made = paid_for(tmp_path)
    made().partial_fit(*week(0))
    for file in tmp_path.glob("ledger*"):
        file.unlink()
    Ledger(tmp_path / "ledger").open_account("clicks", epsilon=25.0, delta=1e-5, unit="user")
    with pytest.raises(LedgerError, match="the charge of the schedule"):
        made().partial_fit(*week(1))


@pytest.mark.parametrize("in_file", [False, True])
def test_a_schedule_with_a_ledger_names_its_account(in_file, tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    with pytest.raises(InvalidInputError, match="dataset= with a ledger and a schedule"):
        recommender(tmp_path / "schedule" if in_file else None, ledger=ledger).partial_fit(*week(0))
    assert not (tmp_path / "schedule").exists()


def test_two_schedules_do_not_mix_in_a_file_that_was_replaced(tmp_path):
    first = recommender(tmp_path / "schedule").partial_fit(*week(0))
    (tmp_path / "schedule").unlink()
    with pytest.raises(InvalidInputError, match="a schedule's file"):
        first.partial_fit(*week(1))
    assert not (tmp_path / "schedule").exists()
    recommender(tmp_path / "schedule").partial_fit(*week(2))
    with pytest.raises(InvalidInputError, match="another one"):
        first.partial_fit(*week(1))


def topics(file, **settings):
    return PrivateNMF(1, epsilon=20.0, row_norm=2.0, schedule=(3,), schedule_file=file, **settings)


@pytest.mark.parametrize("width", [1, 5])
def test_rows_with_other_columns_than_the_first_release_are_refused(width, tmp_path):
    """A single column would be added to every column of the totals, and a row would move them too far."""
    topics(tmp_path / "schedule").partial_fit(IMAGES[:300])
    with pytest.raises(InvalidInputError, match=f"X has {width} features"):
        topics(tmp_path / "schedule").partial_fit(IMAGES[300:600, :width])
    topics(tmp_path / "schedule").partial_fit(IMAGES[300:600])


def test_columns_have_the_names_of_the_first_release(tmp_path):
    frame = pd.DataFrame(IMAGES, columns=[f"pixel {place}" for place in range(36)])
    topics(tmp_path / "schedule").partial_fit(frame[:300])
    with pytest.raises(InvalidInputError, match="feature names"):
        topics(tmp_path / "schedule").partial_fit(frame.iloc[300:600, ::-1])
    topics(tmp_path / "schedule").partial_fit(frame[300:600])


def test_nothing_of_an_earlier_fit_is_in_a_model_that_goes_on_from_a_file(tmp_path):
    topics(tmp_path / "schedule").partial_fit(IMAGES[:300])
    model = topics(tmp_path / "schedule").fit(IMAGES[:300])
    model.left_ = "by the fit"
    model.partial_fit(IMAGES[300:600])
    assert not hasattr(model, "left_")


def test_the_schedule_does_not_drop_outliers_in_silence():
    with pytest.raises(InvalidInputError, match="no outliers for partial_fit"):
        topics(None, outliers=0.1).partial_fit(IMAGES)


def test_kept_rows_of_several_releases_may_be_more_than_max_units_together():
    """They are added up release by release; a refusal would come after the first sum, when the turn is taken."""
    model = recommender(None, catalogue=range(2000), schedule=(12,), max_units=100)
    for number in range(4):
        model.partial_fit(USERS[number == USERS % 12], ITEMS[number == USERS % 12])
    assert len(model.learned_items_)


def test_rows_that_were_kept_are_overwritten_in_the_file(tmp_path):
    file = ScheduleFile(tmp_path / "schedule")
    assert file.begin(0)
    planted = np.frombuffer(b"a kept row of the private data. " * 40, dtype=np.uint8)
    file.keep(0, {}, {}, [{"rows": planted}], {}, b"model")
    assert planted.tobytes() in (tmp_path / "schedule").read_bytes()
    assert file.begin(1)
    file.keep(1, {}, {}, [], {}, b"model")
    assert b"a kept row" not in (tmp_path / "schedule").read_bytes()


LINES = ("scheduled.py", "schedule_file.py", "budget.py", "noisy.py", "ledger/__init__.py", "estimators/base.py")


def interrupted(call, line):
    """Call with a KeyboardInterrupt before the given line of those files; return whether the call ended before it."""
    left = line

    def of_file(frame, event, value):
        nonlocal left
        left -= event == "line"
        if left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return of_file

    before = sys.gettrace()
    sys.settrace(lambda frame, event, value: of_file if frame.f_code.co_filename.endswith(LINES) else None)
    try:
        call()
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return True


@pytest.mark.slow
def test_a_release_that_drew_noise_before_it_was_interrupted_is_not_made_again(tmp_path, monkeypatch):
    draws = []
    add = noisy.with_discrete_gaussian
    monkeypatch.setattr(
        noisy, "with_discrete_gaussian", lambda *args, **given: (draws.append(1), add(*args, **given))[1]
    )
    outcomes = set()
    for line in range(30, 10_000, 61):
        folder = tmp_path / str(line)
        folder.mkdir()
        ledger = Ledger(folder / "ledger")
        ledger.open_account("rows", epsilon=25.0, delta=1e-5)
        made = lambda: topics(folder / "schedule", ledger=ledger, dataset="rows")  # noqa: B023, E731
        made().partial_fit(IMAGES[:30])
        draws.clear()
        if interrupted(lambda: made().partial_fit(IMAGES[30:60]), line):  # noqa: B023
            break
        released = bool(draws)
        draws.clear()
        try:
            made().partial_fit(IMAGES[30:60])
        except BudgetError:
            outcomes.add((released, "refused"))
        else:
            assert not released
            outcomes.add((released, "made"))
    assert {(False, "made"), (True, "refused")} <= outcomes
