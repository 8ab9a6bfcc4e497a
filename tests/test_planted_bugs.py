"""Bugs planted in tacit itself, one at a time: the checks of the product must catch every one.

A *check* asserts a property of the product and passes on the unchanged code. A *mutant* breaks the code in one place, as
a mistake would, and names the check that must catch it. All listed bugs are known to be caught; add those that you fear.
"""

import functools
import json
import math
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import tacit.channel.plan as plan_module
import tacit.factor.nmf.private as private_nmf
import tacit.factor.nmf.saha_imtiaz as rounds
import tacit.factor.noisy_moments.centred as centred_moments
import tacit.factor.ratings.table as rating_table
import tacit.privacy.ledger.book as ledger_book
from tacit import (
    PrivateCoupledFactorization,
    PrivateImplicitRecommender,
    PrivateMoments,
    PrivateNMF,
    PrivateRecommender,
    PrivateTable,
    Relation,
)
from tacit.channel import Bound, Choose, Grid, Noisy, Outcome, Plan, Sample, Step, Sum, budget, noisy, run
from tacit.cli.main import app
from tacit.cluster import run_on
from tacit.cluster.journal import ClusterJournal
from tacit.data import CategoryColumn, NumberColumn, make_images, make_ratings, split
from tacit.errors import BudgetError, PrivacyViolationError, TacitError
from tacit.estimators import base, private, scheduled
from tacit.factor import moments
from tacit.factor.ratings import item_moments
from tacit.factor.ratings import private as private_recommender
from tacit.privacy import Guarantee, Ledger, Spending, gaussian_noise_multiplier
from tacit.privacy.schedules import Schedule
from tacit.testing import check_neighbours

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

IMAGES = make_images(60, side=4, n_parts=1).images
RATINGS = make_ratings(40, 8, ratings_per_user=4, random_state=1)


# ------------------------------------------------------------------------------------------------------------ the checks


def released(model: Any) -> dict[str, Any]:
    """Everything that leaves with a model: its released attributes, its guarantee, its public parameters."""
    result = model._result
    parameters = {f"parameter {name}": repr(value) for name, value in result.parameters.items()}
    return {**result.values, **parameters, "guarantee": json.dumps(result.guarantee.to_dict(), sort_keys=True)}


def replayed(estimator: Any, X: Any = IMAGES, far: float = 1e6) -> None:
    """Rows of every kind added, removed and replaced, in the first, a middle and the last place."""

    def fit(rows: Any) -> dict[str, Any]:
        return released(type(estimator)(**estimator.get_params(deep=False)).fit(rows))

    width = X.shape[1]
    for place in (0, 29, len(X) - 1):
        if estimator.adjacency == "add-remove":
            check_neighbours(fit, X, np.delete(X, place, axis=0), unit=place)
            for row in (np.full((1, width), far), np.zeros((1, width)), np.eye(1, width) * far):
                check_neighbours(fit, X, np.insert(X, place, row, axis=0), unit=place)
        else:
            one, other = X.copy(), X.copy()
            one[place], other[place] = np.eye(1, width) * far, np.eye(1, width, 1) * far
            check_neighbours(fit, one, other, unit=place)


def replay_moments() -> None:
    replayed(PrivateMoments(row_norm=2.0, insecure_seed=3))


def replay_moments_replaced() -> None:
    replayed(PrivateMoments(row_norm=2.0, adjacency="replace-one", insecure_seed=3))


def replay_nmf() -> None:
    replayed(PrivateNMF(2, epsilon=30.0, row_norm=2.0, insecure_seed=3))


def replay_rounds() -> None:
    replayed(PrivateNMF(2, epsilon=30.0, row_norm=2.0, method="rounds", rounds=2, sampling_rate=0.4, insecure_seed=3))


def replay_outliers() -> None:
    replayed(PrivateNMF(2, epsilon=30.0, row_norm=2.0, method="rounds", rounds=2, outliers=0.2, insecure_seed=3))


def replay_table() -> None:
    replayed(
        PrivateTable(epsilon=30.0, schema=NumberColumn(0, 1), insecure_seed=3),
        np.clip(IMAGES, 0, 1)[:, :5],
        1.0,
    )


def replay_table_with_hub() -> None:
    rows = np.clip(IMAGES, 0, 1)[:, :3]
    rows[:, 2] = rows[:, 2] > np.median(
        rows[:, 2]
    )  # both classes are frequent: a hub with a rare one has no triple tables
    schema = {**dict.fromkeys("01", NumberColumn(0, 1)), "2": CategoryColumn((0, 1), other=0)}
    replayed(PrivateTable(epsilon=30.0, schema=schema, insecure_seed=3), np.tile(rows, (5, 1)), 1.0)


def rated(with_user: bool, *, reverse: bool = False) -> tuple[Any, Any, Any]:
    """Ratings with or without one more user, who rates everything, far from everybody else."""
    users, items, values = RATINGS.users, RATINGS.items, RATINGS.ratings
    if with_user:
        more = np.unique(items)[::-1]
        parts = [(np.full(len(more), -1), users), (more, items), (np.where(more % 2, 5.0, 1.0), values)]
        users, items, values = (np.concatenate(pair if reverse else pair[::-1]) for pair in parts)
    return users, items, values


def replay_recommender() -> None:
    catalogue = sorted(np.unique(RATINGS.items).tolist())

    def fit(data: Any) -> dict[str, Any]:
        return released(PrivateRecommender(2, epsilon=50.0, catalogue=catalogue, insecure_seed=3).fit(*data))

    check_neighbours(fit, rated(True, reverse=True), rated(False), unit=0)


def replay_items_of_the_data() -> None:
    """Without a catalogue the items are those of the data: their order must not depend on who comes first."""

    def fit(data: Any) -> dict[str, Any]:
        users, items, values = data
        named = np.array([f"item {item}" for item in items], dtype=object)
        return released(PrivateRecommender(2, epsilon=50.0, insecure_seed=3).fit(users, named, values))

    check_neighbours(fit, rated(True, reverse=True), rated(False), unit=0)


CELLS = np.array([(user, film) for user in range(20) for film in range(5) if (user + film) % 3])
VALUES = np.sin(np.arange(len(CELLS)) * 1.7)


def replay_coupled(unit: str) -> None:
    extra = np.array([(19, film) for film in range(5)]) if unit == "user" else np.array([(3, 3)])
    kept = [cell for cell in range(len(CELLS)) if unit == "cell" or CELLS[cell][0] != 19]

    def fit(cells: Any) -> dict[str, Any]:
        places, values = cells
        relation = Relation(
            (places, values, (20, 5)), "ir,jr->ij", ("user", "film"), observed="stored", divergence="euclid"
        )
        model = PrivateCoupledFactorization({"r": 1}, epsilon=200.0, unit=unit, value_range=(-1, 1), insecure_seed=3)
        return released(model.fit([relation]))

    without = (CELLS[kept], VALUES[kept])
    added = (np.concatenate([CELLS[kept], extra]), np.concatenate([VALUES[kept], np.ones(len(extra))]))
    if unit == "cell":
        places = {tuple(cell) for cell in CELLS.tolist()}
        assert (3, 3) not in places
    check_neighbours(fit, without, added)


def noise_is_as_planned() -> None:
    """Its width by a chi-squared test at 1e-6, against a closed form; no two totals share it."""
    size, channel = 20_000, Noisy(Plan.for_budget(1.0, 1e-6, steps=2))

    def program() -> Any:
        first = yield Sum(a=np.zeros(size), bound=2.0, units=1)
        second = yield Sum(a=np.zeros(size), bound=2.0, units=1)
        return Outcome({"first": first.a, "second": second.a, "stated": first.noise["a"]})

    found = run(program(), channel).public
    sigma = 2.0 * gaussian_noise_multiplier(1.0, 1e-6) * math.sqrt(2)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], size)
    for name in ("first", "second"):
        assert low <= (found[name] ** 2).sum() / (sigma * (1 + 2e-3)) ** 2 * (1 + 4e-3)
        assert (found[name] ** 2).sum() / sigma**2 <= high * (1 + 4e-3)
    assert found["stated"] == pytest.approx(sigma, rel=2e-3)
    assert abs(np.corrcoef(found["first"], found["second"])[0, 1]) < 6 / math.sqrt(size)
    again = run(program(), Noisy(Plan.for_budget(1.0, 1e-6, steps=2))).public
    assert not np.array_equal(again["first"], found["first"])


def choices_are_noisy() -> None:
    """Two candidates a tenth of the bound apart, at epsilon 0.1: both must win, about equally often."""

    def program() -> Any:
        winner = yield Choose([0.0, 0.1], bound=1.0, units=1)
        return Outcome({"winner": winner})

    plan = Plan.for_budget(1.0, 1e-6, steps=1, choices=(0.1,))
    wins = sum(run(program(), Noisy(plan)).public["winner"] for _ in range(200))
    assert stats.binomtest(wins, 200, 0.5).pvalue > 1e-6


def choices_cover_a_replacement() -> None:
    channel = Noisy(Plan.for_budget(2.0, 1e-6, steps=1, choices=(1.0,), adjacency="replace-one"))
    (one, allowed), (other, _) = (
        channel.measure_scores([Choose(scores, bound=1.0, units=2)]) for scores in ([1.0, 0.0], [-1.0, 0.0])
    )
    assert np.abs(one - other).max() <= allowed


def samples_have_the_stated_rate() -> None:
    def program() -> Any:
        mask = yield Sample(20_000, 0.1)
        yield Sum(a=[0.0], bound=1.0, units=1)
        return Outcome({}, {"mask": mask})

    plan = Plan.for_budget(1.0, 1e-6, steps=[Step(1, sampling_rate=0.1)])
    first, second = (run(program(), Noisy(plan)).private["mask"] for _ in range(2))
    assert stats.binomtest(int(first.sum()), 20_000, 0.1).pvalue > 1e-6
    assert not np.array_equal(first, second)


class Shared:
    """Three parties of which two are honest; the total is the party's own vector."""

    index, parties, honest, trust, hides_norms, resumable, charged = 0, 3, 2, "the test", False, False, False

    def add(self, elements: Any, ring: Any, label: str, *, noised: bool = False) -> Any:
        return elements

    def agree(self, numbers: Any) -> None:
        pass

    def note_charge(self) -> None:
        pass


def shares_of_the_honest_are_enough() -> None:
    size = 20_000

    def program() -> Any:
        total = yield Sum(a=np.zeros(size), bound=1.0, units=1)
        return Outcome({"a": total.a})

    own = run(program(), Noisy(Plan.for_budget(1.0, 1e-6)).joined(Shared())).public["a"]  # type: ignore[arg-type]
    planned = gaussian_noise_multiplier(1.0, 1e-6)
    assert (own**2).sum() * 2 >= stats.chi2.ppf(1e-6, size) * planned**2


def spent(ledger: Ledger) -> float:
    return ledger.remaining("d").spent


def ledger_covers_releases(tmp_path: Path) -> None:
    """Refusals, retries, errors in the middle and several models: the account covers all that was released."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("d", epsilon=1.5, delta=1e-6)
    earned: list[Any] = []

    def fit(epsilon: float, stop_after: int = 9) -> None:
        def program() -> Any:
            for place in range(3):
                if place == stop_after:
                    raise RuntimeError
                yield Sum(a=np.zeros(3), bound=1.0, units=1)
            return Outcome({})

        channel = Noisy(Plan.for_budget(epsilon, 1e-6, steps=3), spending=Spending(ledger, "d", "a fit"))
        try:
            run(program(), channel)
        except (RuntimeError, BudgetError):
            pass
        finally:
            earned.extend(channel.transcript.releases)

    fit(1.0, stop_after=2)
    fit(5.0)
    fit(0.9)
    fit(5.0)
    fit(0.7)
    total = Guarantee.from_releases(earned, delta=1e-6).epsilon
    assert earned
    assert total <= spent(ledger) * (1 + 1e-6)
    assert spent(ledger) <= 1.5 * (1 + 1e-6)
    ledger.verify()


def forks_release_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("d", epsilon=9.0, delta=1e-6)
    channel = Noisy(Plan.for_budget(1.0, 1e-6, steps=2), spending=Spending(ledger, "d", "a fit"))

    def program() -> Any:
        yield Sum(a=np.zeros(3), bound=1.0, units=1)
        child = os.fork()
        if child == 0:
            try:
                channel.exchange([Sum(a=np.zeros(3), bound=1.0, units=1)])
            except TacitError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        return Outcome({})

    run(program(), channel)


def unaccountable_fits_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("d", epsilon=9.0, delta=1e-6)
    for settings in ({"epsilon": math.inf}, {"insecure_seed": 1}):
        with pytest.raises(TacitError):
            PrivateMoments(row_norm=2.0, ledger=ledger, dataset="d", **settings).fit(IMAGES)


PLANTED = "planted-4711"


def files_hold_public_things_only(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account(PLANTED, epsilon=9.0, delta=1e-6)
    model = PrivateMoments(row_norm=2.0, ledger=ledger, dataset=PLANTED).fit(IMAGES)
    model.save(tmp_path / "model.tacit")
    header = np.load(tmp_path / "model.tacit")["model.json"].tobytes()
    state = pickle.dumps(model)
    for content in (header, state):
        assert PLANTED.encode() not in content
        assert str(tmp_path).encode() not in content
        assert b"sha256" not in content


def pickles_hold_no_ratings() -> None:
    users, items, values = rated(False)
    users, values = users + 1000, np.clip(values, 1.5, 4.5) + 0.03125
    state = pickle.dumps(PrivateRecommender(2, epsilon=50.0).fit(users, items, values))
    assert b"_table" not in state
    for private_numbers in (values, np.unique(users), users):
        assert np.ascontiguousarray(private_numbers)[:8].tobytes() not in state


def refits_leave_nothing(tmp_path: Path) -> None:
    users, items, values = rated(False)
    model = PrivateRecommender(2, method="gradient", unit="cell", epsilon=math.inf, rounds=2).fit(users, items, values)
    assert hasattr(model, "user_factors_")
    model.set_params(method="moments", unit="user", epsilon=5.0, rounds=None).fit(users, items, values)
    model.save(tmp_path / "model.tacit")
    assert "user_factors" not in str(np.load(tmp_path / "model.tacit").files)
    assert not hasattr(model, "user_factors_")


def schedules_keep_their_settings() -> None:
    model = PrivateNMF(2, epsilon=1.0, schedule=(4,)).partial_fit(IMAGES[:30])
    with pytest.raises(TacitError):
        model.set_params(epsilon=1e6).partial_fit(IMAGES[30:])


def schedules_release_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = PrivateNMF(2, epsilon=1.0, schedule=(4,)).partial_fit(IMAGES[:30])
    noised: list[Any] = []
    add_noise = Noisy._released

    def interrupted(self: Any, *arguments: Any) -> Any:
        noised.append(add_noise(self, *arguments))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Noisy, "_released", interrupted)
        for _ in range(3):
            with pytest.raises((KeyboardInterrupt, BudgetError)):
                model.partial_fit(IMAGES[30:])
    assert len(noised) == 1


def schedules_refuse_older_copies(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "ledger.db")
    book.open_account("images", 2.0, 1e-5)

    def release() -> None:
        file = tmp_path / "schedule"
        PrivateNMF(2, schedule=(4,), schedule_file=file, ledger=book, dataset="images").partial_fit(IMAGES[:30])

    release()
    older = (tmp_path / "schedule").read_bytes()
    release()
    (tmp_path / "schedule").write_bytes(older)
    with pytest.raises(BudgetError):
        release()


def checkpoints_release_once(tmp_path: Path) -> None:
    """One charge pays for one run, also where two drivers use its checkpoint, or one goes on from an older copy of it."""
    book, checkpoint = Ledger(tmp_path / "ledger.db"), tmp_path / "run"
    book.open_account("images", 9.0, 1e-5)
    np.save(tmp_path / "rows.npy", IMAGES)

    def fit(on_round: Any = None) -> Any:
        model = PrivateNMF(2, method="rounds", rounds=2, ledger=book, dataset="images")
        return run_on(None, model, [tmp_path / "rows.npy"], checkpoint=checkpoint, on_round=on_round)

    def disturb(progress: Any) -> None:
        if progress.rounds == 1:
            shutil.copytree(checkpoint, tmp_path / "older")
            with pytest.raises(TacitError):
                fit()

    fit(disturb)
    shutil.rmtree(checkpoint)
    shutil.move(tmp_path / "older", checkpoint)
    with pytest.raises(BudgetError):
        fit()
    assert len(book.history("images")) == 1


def schedules_count_the_rounding_of_all_releases() -> None:
    plan = Schedule(100)
    grid, sensitivity, _ = noisy.scales(plan.reach(1000), 50, 2.0, 1000)
    assert plan.sensitivity / grid.step + (100 * 50) ** 0.5 <= sensitivity


def refitted_models_state_both_fits() -> None:
    users, items, _ = rated(False)
    catalogue = list(np.unique(items))
    bare = PrivateImplicitRecommender(epsilon=math.inf, catalogue=catalogue).fit(users, items)
    model = PrivateImplicitRecommender(epsilon=1.0, catalogue=catalogue).refit(users + 1000, items, previous=bare)
    assert not model.guarantee_.holds


def ended_runs_state_their_plan() -> None:
    def program() -> Any:
        yield Sum(a=np.zeros(3), bound=1.0, units=1)
        return Outcome({})

    channel = Noisy(Plan.for_budget(1.0, 1e-6, steps=4))
    run(program(), channel)
    assert channel.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)


def settlements_free_gaussian_sums_only(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("d", epsilon=9.0, delta=1e-6)
    whole, part = (Plan(1.0, 1e-6, (Step(count, sampling_rate=0.5),), 5.0).guarantee() for count in (20, 1))
    charge = ledger.charge("d", whole, "a run with samples that stopped")
    spent = ledger.remaining("d").spent
    ledger.settle(charge, part)
    assert ledger.remaining("d").spent == spent


def files_hold_what_the_fit_made(tmp_path: Path) -> None:
    model = PrivateMoments(row_norm=2.0).fit(IMAGES)
    noisy_mean = model.mean_.copy()
    model.mean_ = IMAGES.mean(axis=0)
    model.save(tmp_path / "model.tacit")
    assert np.array_equal(np.load(tmp_path / "model.tacit")["mean_"], noisy_mean)


def failed_fits_leave_no_model(tmp_path: Path) -> None:
    model = PrivateMoments(row_norm=2.0).fit(IMAGES)
    with pytest.raises(TacitError):
        model.fit(np.full((3, 2), np.nan))
    with pytest.raises(TacitError):
        model.save(tmp_path / "model.tacit")


def what_is_not_a_number_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("d", epsilon=9.0, delta=1e-6)
    for bad in (np.nan, np.inf):
        rows = IMAGES.copy()
        rows[3, 2] = bad
        with pytest.raises(TacitError):
            PrivateMoments(row_norm=2.0, ledger=ledger, dataset="d").fit(rows)
    assert spent(ledger) == 0


def splits_are_decided_per_unit() -> None:
    key = bytes(range(32))
    for place in (0, 17, 59):
        out = split.held_out_rows(IMAGES, fraction=0.3, key=key)
        others = split.held_out_rows(np.delete(IMAGES, place, axis=0), fraction=0.3, key=key)
        assert np.array_equal(np.delete(out, place), others)


def splits_are_secret() -> None:
    first, second = (split.held_out_rows(IMAGES, fraction=0.5) for _ in range(2))
    assert not np.array_equal(first, second)


def messages_hold_no_data() -> None:
    users, items, values = rated(False)
    values = values.copy()
    values[5] = 731.25
    with pytest.raises(TacitError) as caught:
        PrivateRecommender(2).fit(users, items, values)
    assert "731" not in str(caught.value)


def records_state_all_they_cost() -> None:
    whole = PrivateMoments(row_norm=2.0).fit(IMAGES).guarantee_.to_dict()
    for name in sorted(whole):
        part = {key: value for key, value in whole.items() if key != name}
        try:
            kept = Guarantee.from_dict(part)
        except TacitError:
            continue
        assert not kept.holds or kept.epsilon >= whole["epsilon"], name
    with pytest.raises(TacitError):
        Guarantee.from_dict({**whole, "epsilon": whole["epsilon"] / 2})


def sentences_round_up() -> None:
    releases = PrivateMoments(row_norm=2.0).fit(IMAGES).guarantee_.releases
    sentence = str(Guarantee.from_releases(releases, delta=1.00001e-6))
    assert "0.000001." not in sentence
    assert "plus 0.000001 " not in sentence


def command_files_do_not_see_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tacit fit nmf` on two files that differ in one row: every byte of what may be passed on is the same."""
    monkeypatch.setattr(split, "new_key", lambda: bytes(32))
    header = ",".join(f"c{place}" for place in range(IMAGES.shape[1]))

    def fit(rows: Any) -> dict[str, Any]:
        source, folder = tmp_path / "rows.csv", tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        np.savetxt(source, rows, delimiter=",", header=header, comments="")
        arguments = ["fit", "nmf", str(source), "--rank", "2", "--epsilon", "30", "--output", str(folder), "--json"]
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return {path.name: path.read_bytes() for path in sorted((folder / "model").iterdir())}

    with monkeypatch.context() as patch:
        original = Noisy.__init__
        patch.setattr(
            Noisy, "__init__", lambda self, *args, **more: original(self, *args, **{**more, "insecure_seed": 3})
        )
        check_neighbours(fit, IMAGES, IMAGES[1:], unit=0, for_the_holder=True)


CHECKS: dict[str, Callable[..., None]] = {
    "moments": replay_moments,
    "moments, replaced": replay_moments_replaced,
    "nmf": replay_nmf,
    "rounds": replay_rounds,
    "outliers": replay_outliers,
    "table": replay_table,
    "table, hub": replay_table_with_hub,
    "recommender": replay_recommender,
    "items": replay_items_of_the_data,
    "coupled, users": functools.partial(replay_coupled, "user"),
    "coupled, cells": functools.partial(replay_coupled, "cell"),
    "noise": noise_is_as_planned,
    "choices": choices_are_noisy,
    "choices, replaced": choices_cover_a_replacement,
    "samples": samples_have_the_stated_rate,
    "shares": shares_of_the_honest_are_enough,
    "ledger": ledger_covers_releases,
    "forks": forks_release_nothing,
    "unaccountable": unaccountable_fits_are_refused,
    "files": files_hold_public_things_only,
    "pickles": pickles_hold_no_ratings,
    "refits": refits_leave_nothing,
    "schedules, settings": schedules_keep_their_settings,
    "schedules, once": schedules_release_once,
    "schedules, older copies": schedules_refuse_older_copies,
    "checkpoints": checkpoints_release_once,
    "schedules, rounding": schedules_count_the_rounding_of_all_releases,
    "refitted": refitted_models_state_both_fits,
    "ended": ended_runs_state_their_plan,
    "settlements": settlements_free_gaussian_sums_only,
    "frozen": files_hold_what_the_fit_made,
    "failed": failed_fits_leave_no_model,
    "numbers": what_is_not_a_number_is_refused,
    "splits": splits_are_decided_per_unit,
    "secret splits": splits_are_secret,
    "messages": messages_hold_no_data,
    "records": records_state_all_they_cost,
    "sentences": sentences_round_up,
    "command": command_files_do_not_see_a_row,
}


def run_check(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = CHECKS[name]
    inner = check.func if isinstance(check, functools.partial) else check
    wanted = inner.__code__.co_varnames[: inner.__code__.co_argcount]
    given = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    check(**{argument: given[argument] for argument in wanted if argument in given})


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_the_code_as_it_is_passes(name, tmp_path, monkeypatch):
    run_check(name, tmp_path, monkeypatch)


# ----------------------------------------------------------------------------------------------------------- the mutants

Patch = pytest.MonkeyPatch


def same(X: Any, *_: Any, **__: Any) -> Any:
    return X


def scaled_bound(factor: float, *names: str) -> Callable[[Patch], None]:
    """The bound of some arrays is stated too small (or, with a factor of nought point something, far too small)."""

    def plant(patch: Patch) -> None:
        original = Sum.__init__

        def smaller(self: Any, *, bound: Any = None, **settings: Any) -> None:
            if names[0] in settings:
                bound = (
                    {key: replaced(one) if key in names else one for key, one in bound.items()}
                    if isinstance(bound, dict)
                    else replaced(bound)
                )
            original(self, bound=bound, **settings)

        def replaced(one: Any) -> Any:
            if isinstance(one, Bound):
                return Bound(one.norm * factor, None if one.change is None else one.change * factor)
            return one * factor

        patch.setattr(Sum, "__init__", smaller)

    return plant


def attribute(target: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(target, name, value)


def wrapped(target: Any, name: str, wrapper: Callable[[Any], Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(target, name, wrapper(getattr(target, name)))


def parameter_from_rows(name: str, value: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """A parameter of the fit is set from the private rows."""

    def wrapper(fit: Any) -> Any:
        def changed(self: Any, X: Any, y: Any = None) -> Any:
            setattr(self, name, value(X))
            return fit(self, X, y)

        return changed

    return wrapped(PrivateMoments, "fit", wrapper)


def exact_count(program: Any) -> Any:
    """The program divides by the exact number of rows."""

    def changed(X: Any, **settings: Any) -> Any:
        outcome = yield from program(X, **settings)
        return Outcome({**outcome.public, "mean": outcome.public["mean"] * outcome.public["count"] / X.shape[0]})

    return changed


def exact_mean(program: Any) -> Any:
    """The dictionary is made from the exact mean."""

    def changed(X: Any, **settings: Any) -> Any:
        outcome = yield from program(X, **settings)
        found = outcome.public["moments"]
        return Outcome({"moments": replace(found, mean=X.mean(axis=0))})

    return changed


def scaled_rows(validate: Any) -> Any:
    """Rows are divided by the largest entry of the private data."""

    def changed(*args: Any, **settings: Any) -> Any:
        rows = validate(*args, **settings)
        return rows / abs(rows).max()

    return changed


def halved(scores: Any, allowed: float) -> tuple[Any, float]:
    return scores, allowed / 2


def no_forgetting(self: Any) -> None:
    pass


def no_charge(self: Any) -> None:
    self.state = budget.State.CHARGED


def uncounted(self: Any, step: Any, release: Any) -> None:
    """The step is charged but not counted."""
    self._charge_once()
    self.state = budget.State.RUNNING


def swallowed(charge: Any) -> Any:
    def changed(self: Any, guarantee: Any) -> Any:
        try:
            return charge(self, guarantee)
        except BudgetError:
            return None

    return changed


def settled_to_nothing(self: Any) -> None:
    if self.state is not budget.State.CLOSED and self._charge is not None:
        self.state = budget.State.CLOSED
        self._charge.settle(self.plan.guarantee([], 0))


def as_settled(self: Any, further: Any = ()) -> Any:
    return (*(release for charge in self.charges for release in charge.effective), *further)


def without_process(check: Any) -> Any:
    def changed(self: Any) -> None:
        self._process = os.getpid()
        check(self)

    return changed


def narrower(scales: Any, factor: float) -> Any:
    def changed(*args: Any) -> Any:
        grid, sensitivity, sigma = scales(*args)
        return grid, sensitivity, factor * sigma

    return changed


def repeated(draw: Any) -> Any:
    """Noise is drawn once for every shape and used again."""
    kept: dict[Any, Any] = {}

    def changed(integers: Any, scale: float, *, generator: Any = None) -> Any:
        return integers + kept.setdefault(
            (scale, integers.shape), draw(np.zeros_like(integers), scale, generator=generator)
        )

    return changed


def silent(scale: float, size: Any, *, generator: Any = None) -> Any:
    return np.zeros(size, dtype=np.int64)


def fixed_generator(*_: Any) -> Any:
    return np.random.default_rng(0)


def by_place(X: Any, y: Any = None, *, fraction: float, key: Any = None) -> Any:
    return np.random.default_rng(0).random(len(X)) < fraction


def start_from_rows(self: Any, X: Any) -> Any:
    from tacit.factor.nmf.start import nndsvd

    return rounds.unit_ball(nndsvd(X, self.n_components, random_state=0)[1])


def fewer_rounds(program: Any) -> Any:
    def changed(X: Any, T: Any, *, step: Any, **settings: Any) -> Any:
        return program(X, T, step=replace(step, count=step.count - X.shape[0] % 2), **settings)

    return changed


def in_order_of_appearance(ids: Any) -> Any:
    known = list(dict.fromkeys(ids.tolist()))
    return rating_table.Ids(known), np.array([known.index(one) for one in ids.tolist()])


class Everyone(np.ndarray[Any, Any]):
    """Rows that ignore a mask."""

    def __getitem__(self, index: Any) -> Any:
        masked = isinstance(index, np.ndarray) and index.dtype == bool
        return self if masked else np.asarray(super().__getitem__(index))


def whole_batch(draw: Any) -> Any:
    """Everybody is in the sample, whatever the rate."""

    def changed(self: Any, asks: Any, generator: Any) -> Any:
        return [np.ones(len(mask), dtype=bool) for mask in draw(self, asks, generator)]

    return changed


def louder(regress: Any) -> Any:
    def changed(*args: Any, **settings: Any) -> Any:
        found = regress(*args, **settings)
        return (3 * found[0], *found[1:])

    return changed


def told(error: Any) -> Any:
    """Refusals of ratings show the ratings."""

    def changed(*args: Any, **settings: Any) -> Any:
        try:
            return error(*args, **settings)
        except TacitError as refusal:
            raise type(refusal)(f"ratings in range, not {np.max(args[2])}", refusal.got, refusal.fix) from None

    return changed


def lenient(from_dict: Any) -> Any:
    def changed(values: Any) -> Any:
        if "releases" in values:
            return from_dict(values)
        return Guarantee.from_releases([], delta=values["delta"])

    return changed


def unchecked(patch: Patch) -> None:
    """Neither the input nor the grid refuses NaN."""
    encode = Grid.encode
    patch.setattr(moments, "validated", lambda self, X, **_: np.asarray(X))
    patch.setattr(Grid, "encode", lambda self, values: encode(self, np.nan_to_num(values, posinf=0.0, neginf=0.0)))


@dataclass(frozen=True)
class Mutant:
    kind: str
    name: str
    caught_by: str
    plant: Callable[[Patch], None]


MUTANTS = [
    Mutant("sensitivity", "moments: rows are not clipped", "moments", attribute(moments, "clip_rows", same)),
    Mutant(
        "sensitivity",
        "moments: rows are clipped to twice the norm",
        "moments",
        wrapped(moments, "clip_rows", lambda clip: lambda X, norm: clip(X, 2 * norm)),
    ),
    Mutant("sensitivity", "moments: bound of the sum is halved", "moments", scaled_bound(0.5, "total")),
    Mutant("sensitivity", "moments: bound of the products is halved", "moments", scaled_bound(0.5, "second")),
    Mutant("sensitivity", "moments: bound of the count is halved", "moments", scaled_bound(0.5, "count")),
    Mutant("sensitivity", "nmf: distances are not clipped", "nmf", attribute(centred_moments, "clip_rows", same)),
    Mutant("sensitivity", "rounds: rows and weights are not clipped", "rounds", attribute(rounds, "clip_rows", same)),
    Mutant("sensitivity", "rounds: bound of A is a tenth", "rounds", scaled_bound(0.1, "A")),
    Mutant("sensitivity", "outliers: bound of B is a fifth", "outliers", scaled_bound(0.2, "B")),
    Mutant(
        "sensitivity", "recommender: first moments at a third of the bound", "recommender", scaled_bound(0.3, "items")
    ),
    Mutant("sensitivity", "recommender: second moment at a tenth", "recommender", scaled_bound(0.1, "second")),
    Mutant(
        "sensitivity", "recommender: regressions are tripled", "recommender", wrapped(item_moments, "regress", louder)
    ),
    Mutant("sensitivity", "coupled: rows' sums at a tenth", "coupled, users", scaled_bound(0.1, "rows")),
    Mutant("sensitivity", "coupled: residuals of cells are not clipped", "coupled, cells", scaled_bound(0.05, "sums")),
    Mutant("sensitivity", "table: histograms at a third", "table", scaled_bound(0.3, "cells")),
    Mutant("sensitivity", "table: pair tables at a third", "table", scaled_bound(0.3, "pairs")),
    Mutant("sensitivity", "table: triple tables at a third", "table, hub", scaled_bound(0.3, "triples")),
    Mutant(
        "sensitivity",
        "replacing counts like adding",
        "moments, replaced",
        wrapped(Noisy, "_norm_of", lambda norm: lambda self, ask, name: norm(self, ask, name) / 2),
    ),
    Mutant(
        "sensitivity",
        "choices: replacing counts like adding",
        "choices, replaced",
        wrapped(
            Noisy,
            "measure_scores",
            lambda measure: lambda self, asks: halved(*measure(self, asks)),
        ),
    ),
    Mutant("noise", "no noise", "noise", attribute(noisy, "with_discrete_gaussian", same)),
    Mutant("noise", "noise of half the width", "noise", wrapped(noisy, "scales", lambda s: narrower(s, 0.5))),
    Mutant("noise", "noise of nine tenths of the width", "noise", wrapped(noisy, "scales", lambda s: narrower(s, 0.9))),
    Mutant("noise", "noise used twice", "noise", wrapped(noisy, "with_discrete_gaussian", repeated)),
    Mutant(
        "noise",
        "noise from a fixed seed",
        "noise",
        wrapped(
            noisy,
            "with_discrete_gaussian",
            lambda add: lambda integers, scale, *, generator=None: add(integers, scale, generator=fixed_generator()),
        ),
    ),
    Mutant(
        "noise",
        "calibrated for twice the epsilon",
        "noise",
        wrapped(plan_module, "_calibrated", lambda calibrate: lambda epsilon, *more: calibrate(2 * epsilon, *more)),
    ),
    Mutant("noise", "choices without noise", "choices", attribute(noisy, "discrete_laplace", silent)),
    Mutant(
        "noise",
        "shares sized for all parties",
        "shares",
        wrapped(Noisy, "_share", lambda share: lambda self, array: share(self, array) * math.sqrt(2 / 3)),
    ),
    Mutant("sampling", "everybody is sampled", "samples", wrapped(noisy.PoissonSampling, "draw", whole_batch)),
    Mutant(
        "sampling",
        "samples from a fixed seed",
        "samples",
        wrapped(
            noisy.PoissonSampling,
            "draw",
            lambda draw: lambda self, asks, generator: draw(self, asks, fixed_generator()),
        ),
    ),
    Mutant(
        "sampling",
        "the sample is ignored",
        "rounds",
        wrapped(rounds, "clip_rows", lambda clip: lambda X, norm: clip(X, norm).view(Everyone)),
    ),
    Mutant("size", "the exact count divides the mean", "moments", wrapped(moments, "moments_program", exact_count)),
    Mutant("size", "delta is 1/(1000 n)", "moments", parameter_from_rows("delta", lambda X: 1e-3 / len(X))),
    Mutant("size", "epsilon grows with n", "moments", parameter_from_rows("epsilon", lambda X: len(X) / 60)),
    Mutant("size", "max_units is n", "moments", parameter_from_rows("max_units", len)),
    Mutant(
        "size",
        "row_norm is the largest norm",
        "moments",
        parameter_from_rows("row_norm", lambda X: float(np.linalg.norm(X, axis=1).max())),
    ),
    Mutant(
        "size",
        "the guarantee states n",
        "moments",
        wrapped(
            private.PrivateFit,
            "_run",
            lambda run_it: lambda self, given, *more: _with_count(run_it(self, given, *more), self, given),
        ),
    ),
    Mutant("size", "rounds depend on n", "outliers", wrapped(private_nmf, "rounds_program", fewer_rounds)),
    Mutant("domain", "rows are scaled by their largest entry", "moments", wrapped(moments, "validated", scaled_rows)),
    Mutant(
        "domain",
        "the start is computed from the rows",
        "outliers",
        attribute(PrivateNMF, "_given_start", start_from_rows),
    ),
    Mutant(
        "domain",
        "the mean is that of the rows",
        "nmf",
        wrapped(private_nmf, "centred_moments_program", exact_mean),
    ),
    Mutant(
        "domain",
        "items are listed in the order of the data",
        "items",
        attribute(rating_table, "indexed", in_order_of_appearance),
    ),
    Mutant("double spending", "nothing is charged", "ledger", attribute(budget.BudgetedRun, "_charge_once", no_charge)),
    Mutant("double spending", "a refused charge is ignored", "ledger", wrapped(Spending, "charge", swallowed)),
    Mutant("double spending", "releases are not counted", "ledger", attribute(budget.BudgetedRun, "take", uncounted)),
    Mutant(
        "double spending",
        "a run settles to nothing",
        "ledger",
        attribute(budget.BudgetedRun, "close", settled_to_nothing),
    ),
    Mutant(
        "double spending",
        "the account allows anything",
        "ledger",
        attribute(ledger_book.Account, "allows", lambda self, epsilon: True),
    ),
    Mutant(
        "double spending",
        "a fork may release",
        "forks",
        wrapped(budget.BudgetedRun, "_check_usable", without_process),
    ),
    Mutant(
        "double spending",
        "fits without a guarantee pass the ledger by",
        "unaccountable",
        attribute(private, "check_chargeable", lambda *_, **__: None),
    ),
    Mutant(
        "double spending",
        "a release of a schedule can be made again",
        "schedules, once",
        attribute(scheduled.Turns, "begin", lambda self, release: None),
    ),
    Mutant(
        "double spending",
        "a schedule goes on from an older copy of its file",
        "schedules, older copies",
        attribute(scheduled.PaidSchedule, "begin", lambda self, release: None),
    ),
    Mutant(
        "double spending",
        "two drivers use one checkpoint",
        "checkpoints",
        attribute(ClusterJournal, "_hold", lambda self: True),
    ),
    Mutant(
        "double spending",
        "a run goes on from an older copy of its checkpoint",
        "checkpoints",
        attribute(ClusterJournal, "_note", lambda self, spending, **_: None),
    ),
    Mutant(
        "sensitivity",
        "a schedule counts the rounding of one release",
        "schedules, rounding",
        attribute(Schedule, "reach", lambda self, max_units: self.sensitivity),
    ),
    Mutant(
        "double spending",
        "a later release of a schedule has less noise",
        "schedules, settings",
        attribute(scheduled.ScheduledFit, "_check_unchanged", lambda self: None),
    ),
    Mutant(
        "double spending",
        "a settlement frees any kind of release",
        "settlements",
        attribute(ledger_book.Book, "counted", as_settled),
    ),
    Mutant(
        "records",
        "a run that ended early states what it released",
        "ended",
        attribute(budget.BudgetedRun, "releases", property(lambda self: tuple(self._releases))),
    ),
    Mutant(
        "stale state",
        "a refit forgets what the earlier model was",
        "refitted",
        attribute(Guarantee, "joined_with", lambda self, *_: self),
    ),
    Mutant(
        "stale state",
        "a fit keeps what the last one left",
        "refits",
        attribute(base.Estimator, "_forget", no_forgetting),
    ),
    Mutant(
        "stale state",
        "a failed fit keeps the last model",
        "failed",
        attribute(base.Estimator, "_forget", no_forgetting),
    ),
    Mutant(
        "stale state",
        "files are written from attributes",
        "frozen",
        wrapped(
            PrivateMoments,
            "save",
            lambda save: lambda self, path: (_refreeze(self), save(self, path))[1],
        ),
    ),
    Mutant(
        "saved parameters",
        "all parameters are public",
        "files",
        wrapped(
            base.Estimator,
            "__getstate__",
            lambda state: lambda self: {**state(self), "dataset": self.dataset},
        ),
    ),
    Mutant(
        "saved parameters",
        "pickles hold everything",
        "pickles",
        attribute(base.Estimator, "__getstate__", lambda self: dict(vars(self))),
    ),
    Mutant("NaN", "numbers that are not numbers become zero", "numbers", unchecked),
    Mutant("split", "split by place and a public seed", "splits", attribute(split, "held_out_rows", by_place)),
    Mutant("split", "the key is known", "secret splits", attribute(split, "new_key", lambda: bytes(32))),
    Mutant("logging", "a refusal shows the ratings", "messages", wrapped(private_recommender, "read_ratings", told)),
    Mutant("records", "a record without releases costs nothing", "records", wrapped(Guarantee, "from_dict", lenient)),
]


def _with_count(outcome: Any, model: Any, given: Any) -> Any:
    model.guarantee_ = model.guarantee_.assuming(f"there are {len(given)} rows")
    return outcome


def _refreeze(model: Any) -> None:
    values = {name: getattr(model, name) for name in model._released}
    model._result = replace(model._result, values=values)


def test_the_list_is_long_enough():
    assert len(MUTANTS) >= 40
    assert {mutant.kind for mutant in MUTANTS} >= {
        "sensitivity", "noise", "sampling", "size", "domain", "double spending", "stale state", "saved parameters", "NaN",
        "split", "logging", "records",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.kind}: {mutant.name}")
def test_a_planted_bug_is_caught(mutant, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        mutant.plant(patch)
        with pytest.raises((PrivacyViolationError, AssertionError, pytest.fail.Exception)):
            run_check(mutant.caught_by, tmp_path, monkeypatch)
