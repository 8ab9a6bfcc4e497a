"""What a ledger charges, refuses, settles and remembers."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import BudgetError, InvalidInputError, LedgerError, UnaccountableError
from tacit.privacy import (
    Accountant,
    ApproximateRelease,
    GaussianRelease,
    Guarantee,
    LaplaceRelease,
    Release,
    gaussian_noise_multiplier,
)
from tacit.privacy.ledger import Ledger
from tacit.privacy.rounding import rounded_down

DELTA = 1e-6


def gaussian(noise: float = 20.0, count: int = 1, **terms: str) -> Guarantee:
    return Guarantee.from_releases([GaussianRelease(noise_multiplier=noise, count=count)], delta=DELTA, **terms)


def epsilon_of(*releases: Release, delta: float = DELTA) -> float:
    return Accountant("add-remove", releases).epsilon(delta)


def rows(ledger: Ledger) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(ledger.path)
    found = connection.execute("SELECT * FROM entries ORDER BY seq").fetchall()
    found += connection.execute("SELECT * FROM meta").fetchall()
    connection.close()
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.db")
    made.open_account("films", epsilon=2.0, delta=DELTA)
    return made


def test_a_charge_is_remembered_as_it_was_made(ledger: Ledger) -> None:
    charge = ledger.charge("films", gaussian(10.0, 3), "a first model")
    assert ledger.history("films") == [charge]
    assert Ledger(ledger.path, create=False).history("films") == [charge]
    assert charge.releases == (GaussianRelease(noise_multiplier=10.0, count=3),)
    assert charge.purpose == "a first model"
    assert charge.settled is None
    assert charge.epsilon_after == epsilon_of(*charge.releases)
    assert charge.hash == ledger.head
    assert ledger.datasets() == ["films"]
    assert (ledger.account("films").epsilon, ledger.account("films").unit) == (2.0, "row")
    assert not list(ledger.path.parent.glob(".*"))


def test_composition_is_by_releases_and_exactly_the_accountants(ledger: Ledger) -> None:
    plan = gaussian(10.0)
    assert 10 * plan.epsilon > 2.0
    for turn in range(10):
        ledger.charge("films", plan, f"run {turn}")
    left = ledger.remaining("films")
    assert left.spent == epsilon_of(*[GaussianRelease(noise_multiplier=10.0)] * 10) < 2.0
    assert (left.budget, left.delta, left.epsilon) == (2.0, DELTA, 2.0 - left.spent)
    assert [charge.epsilon_after for charge in ledger.history("films")] == [
        epsilon_of(GaussianRelease(noise_multiplier=10.0, count=count)) for count in range(1, 11)
    ]
    # more than the difference is left, because a further Gaussian costs less than it would alone
    further = gaussian(10.0, 4)
    assert further.epsilon > left.epsilon
    assert ledger.can_afford("films", further)
    ledger.charge("films", further, "beyond the difference")
    assert ledger.verify() == 12


def test_the_accounts_delta_counts_and_not_the_guarantees(ledger: Ledger) -> None:
    release = GaussianRelease(noise_multiplier=5.0)
    lenient = Guarantee.from_releases([release], delta=0.4)
    assert lenient.epsilon < 0.1
    assert ledger.charge("films", lenient, "a large delta").epsilon_after == epsilon_of(release)


def test_other_kinds_of_releases_compose_with_gaussians(ledger: Ledger) -> None:
    releases = [GaussianRelease(noise_multiplier=10.0), LaplaceRelease(noise_multiplier=4.0)]
    ledger.charge("films", Guarantee.from_releases(releases[:1], delta=DELTA), "sums")
    ledger.charge("films", Guarantee.from_releases(releases[1:], delta=DELTA), "a count")
    assert ledger.remaining("films").spent == epsilon_of(*releases)
    assert ledger.verify() == 3


def test_a_budget_can_be_spent_in_full_and_no_further(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", epsilon=epsilon_of(GaussianRelease(noise_multiplier=20.0, count=3)), delta=DELTA)
    for turn in range(3):
        assert ledger.can_afford("films", gaussian())
        ledger.charge("films", gaussian(), f"run {turn}")
    before = rows(ledger)
    assert not ledger.can_afford("films", gaussian(1e4))
    with pytest.raises(
        BudgetError, match=r"epsilon 0 still fits; got one of epsilon 0\.\d+ at that delta, 0\.\d+ with the earlier"
    ):
        ledger.charge("films", gaussian(), "one too many")
    assert rows(ledger) == before
    assert ledger.remaining("films").epsilon == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("guarantee", "message"),
    [
        (gaussian(unit="user"), "per row under add-remove"),
        (gaussian(adjacency="replace-one"), "per row under add-remove"),
        (Guarantee.none("it was not private"), "no privacy guarantee: it was not private"),
        (Guarantee.measured("an attack found nothing"), "This is a measurement"),
        (gaussian().voided("it printed the data"), "it printed the data"),
        (dataclasses.replace(gaussian(), epsilon=float("inf")), "finite epsilon"),
        (dataclasses.replace(gaussian(), epsilon=float("nan")), "finite epsilon"),
        (dataclasses.replace(gaussian(), releases=()), "from no releases"),
        (Guarantee.from_releases([], delta=DELTA), "nothing to charge"),
        (None, "a guarantee of differential privacy"),
    ],
)
def test_what_cannot_be_charged_is_refused(ledger: Ledger, guarantee: Guarantee, message: str) -> None:
    before = rows(ledger)
    for operation in (lambda: ledger.charge("films", guarantee, "no"), lambda: ledger.can_afford("films", guarantee)):
        with pytest.raises(InvalidInputError, match=message):
            operation()
    assert rows(ledger) == before


def test_an_epsilon_made_up_by_hand_is_not_believed(ledger: Ledger) -> None:
    with pytest.raises(BudgetError):
        ledger.charge("films", dataclasses.replace(gaussian(1.0), epsilon=0.01), "cheap, it says")


def test_a_release_of_an_unknown_kind_is_refused(ledger: Ledger) -> None:
    @dataclasses.dataclass(frozen=True)
    class Homemade(Release):
        pass

    with pytest.raises(UnaccountableError):
        ledger.charge("films", dataclasses.replace(gaussian(), releases=(Homemade(),)), "no")
    with pytest.raises(InvalidInputError, match="name to be a string"):
        GaussianRelease(name=object(), noise_multiplier=20.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("purpose", ["", "  ", None, 3])
def test_a_purpose_is_said_in_words(ledger: Ledger, purpose: str) -> None:
    with pytest.raises(InvalidInputError, match="purpose"):
        ledger.charge("films", gaussian(), purpose)


@pytest.mark.parametrize("name", ["", " films", "films\n", "fi\x00lms", "\ud800", None, 7])
def test_a_data_set_has_a_name(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name of a data set"):
        ledger.open_account(name, 1.0, DELTA)
    with pytest.raises(InvalidInputError, match="name of a data set"):
        ledger.remaining(name)


def test_names_that_look_the_same_are_the_same(ledger: Ledger) -> None:
    ledger.open_account("caf\u00e9 'x'; --", 1.0, DELTA)
    ledger.charge("cafe\u0301 'x'; --", gaussian(), "another spelling")
    assert len(ledger.history("caf\u00e9 'x'; --")) == 1


def test_an_unknown_data_set_is_an_error_that_lists_the_known(ledger: Ledger) -> None:
    for operation in (
        ledger.remaining,
        ledger.history,
        ledger.account,
        lambda name: ledger.charge(name, gaussian(), "x"),
    ):
        with pytest.raises(LedgerError, match=r"known: 'films'.*got 'flims'.*open_account"):
            operation("flims")
    for number in range(20):
        ledger.open_account(f"set {number}", 1.0, DELTA)
    with pytest.raises(LedgerError, match=r"'set 6', \.\.\.\)"):
        ledger.history("flims")


def test_an_account_is_opened_once(ledger: Ledger) -> None:
    before = rows(ledger)
    with pytest.raises(LedgerError, match=r"the same terms again.*account is open"):
        ledger.open_account("films", 2.0, DELTA)
    for terms in ({"epsilon": 3.0}, {"delta": 1e-5}, {"unit": "user"}, {"adjacency": "replace-one"}):
        with pytest.raises(LedgerError, match="never change"):
            ledger.open_account("films", **{"epsilon": 2.0, "delta": DELTA, **terms})
    assert rows(ledger) == before


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 0},
        {"delta": float("nan")},
        {"delta": 0},
        {"delta": 1},
        {"unit": "house"},
        {"adjacency": "near"},
    ],
)
def test_terms_are_checked(ledger: Ledger, terms: dict[str, object]) -> None:
    before = rows(ledger)
    with pytest.raises(InvalidInputError):
        ledger.open_account("books", **{"epsilon": 1.0, "delta": DELTA, **terms})
    assert rows(ledger) == before


def test_settling_frees_what_was_not_released(ledger: Ledger) -> None:
    charge = ledger.charge("films", gaussian(10.0, 16), "stopped half-way")
    assert not ledger.can_afford("films", gaussian(10.0, 6))
    ledger.settle(charge, gaussian(10.0, 6))
    assert ledger.remaining("films").spent == epsilon_of(GaussianRelease(noise_multiplier=10.0, count=6))
    ledger.charge("films", gaussian(10.0, 12), "the rest")
    settled, _ = ledger.history("films")
    assert settled == dataclasses.replace(charge, settled=gaussian(10.0, 6).releases)
    assert settled.effective == gaussian(10.0, 6).releases
    assert [charge.state for charge in ledger.history("films")] == ["settled to what was released", "charged in full"]
    assert ledger.verify() == 4


SAMPLED = Guarantee.from_releases([GaussianRelease(noise_multiplier=4.0, sampling_rate=0.1, count=20)], delta=DELTA)
PART = Guarantee.from_releases([GaussianRelease(noise_multiplier=4.0, sampling_rate=0.1, count=5)], delta=DELTA)


def test_a_settlement_frees_nothing_beside_other_kinds_of_releases(ledger: Ledger) -> None:
    """No theorem covers a budget that is spent depending on when a run with Poisson samples stopped."""
    stopped = ledger.charge("films", SAMPLED, "stopped by what it released")
    spent = ledger.remaining("films").spent
    ledger.settle(stopped, PART)
    assert ledger.remaining("films").spent == spent
    assert ledger.history("films")[0].settled == PART.releases  # on record all the same
    assert ledger.history("films")[0].state == "stopped early; counts in full"
    halved = ledger.charge("films", gaussian(20.0, 4), "full-batch, beside it")
    spent = ledger.remaining("films").spent
    ledger.settle(halved, gaussian(20.0, 1))
    assert ledger.remaining("films").spent == spent
    assert ledger.verify() == 5


def test_what_a_settlement_freed_is_not_there_for_other_kinds(ledger: Ledger) -> None:
    dear = Guarantee.from_releases([GaussianRelease(noise_multiplier=4.0, sampling_rate=0.1, count=100)], delta=DELTA)
    ledger.open_account("books", epsilon=2.0, delta=DELTA)
    ledger.charge("books", gaussian(10.0, 1), "a run of one sum")
    assert ledger.can_afford("books", dear)
    stopped = ledger.charge("films", gaussian(10.0, 16), "stopped after one sum")
    ledger.settle(stopped, gaussian(10.0, 1))
    assert ledger.can_afford("films", gaussian(10.0, 15))
    assert not ledger.can_afford("films", dear)
    with pytest.raises(BudgetError):
        ledger.charge("films", dear, "after what it saw")
    ledger.charge("films", gaussian(10.0, 15), "full-batch, after what it saw")
    assert ledger.verify() == 6


def test_a_run_with_samples_that_released_nothing_settles_to_nothing(ledger: Ledger) -> None:
    charge = ledger.charge("films", SAMPLED, "failed at once")
    ledger.settle(charge, Guarantee.from_releases([], delta=DELTA))
    assert ledger.remaining("films").spent == 0.0
    stopped = ledger.charge("films", gaussian(10.0, 16), "stopped")
    ledger.settle(stopped, gaussian(10.0, 1))
    assert ledger.can_afford("films", gaussian(10.0, 15))


def test_a_run_that_released_nothing_settles_to_nothing(ledger: Ledger) -> None:
    charge = ledger.charge("films", gaussian(), "failed at once")
    ledger.settle(charge, Guarantee.from_releases([], delta=DELTA))
    assert ledger.remaining("films").spent == 0.0
    assert ledger.verify() == 3


def test_settling_never_goes_upwards_nor_twice(ledger: Ledger, tmp_path: Path) -> None:
    charge = ledger.charge("films", gaussian(20.0, 4), "a run")
    two = Guarantee.from_releases(
        [GaussianRelease(noise_multiplier=20.0), GaussianRelease("W", noise_multiplier=20.0)], delta=DELTA
    )
    for settled in (gaussian(20.0, 5), gaussian(19.0), gaussian(21.0), two):
        with pytest.raises(InvalidInputError, match="within the charge"):
            ledger.settle(charge, settled)
    for settled in (gaussian(20.0, unit="user"), Guarantee.none("lost"), dataclasses.replace(gaussian(), releases=())):
        with pytest.raises(InvalidInputError):
            ledger.settle(charge, settled)
    with pytest.raises(InvalidInputError, match="the Charge that"):
        ledger.settle(charge.id, gaussian(20.0))  # type: ignore[arg-type]
    assert len(rows(ledger)) == 3
    ledger.settle(charge, gaussian(20.0, 4))
    before = rows(ledger)
    with pytest.raises(LedgerError, match="settled once"):
        ledger.settle(charge, gaussian(20.0, 1))
    other = Ledger(tmp_path / "other.db")
    other.open_account("films", epsilon=2.0, delta=DELTA)
    elsewhere = other.charge("films", gaussian(20.0, 4), "a run")
    with pytest.raises(LedgerError, match="not in it"):
        ledger.settle(elsewhere, gaussian(20.0))
    assert rows(ledger) == before


def test_later_releases_of_a_charge_begin_once_and_in_order(ledger: Ledger, tmp_path: Path) -> None:
    charge = ledger.charge("films", gaussian(20.0, 4), "a schedule")
    for number in (1, 2):
        ledger.begin_later("films", charge.hash, number)
    before = rows(ledger)
    for number in (0, 1, 2, 4):
        with pytest.raises(BudgetError, match="older copy"):
            ledger.begin_later("films", charge.hash, number)
    with pytest.raises(LedgerError, match="pays for later parts"):
        ledger.settle(charge, gaussian(20.0, 1))  # what it left out may be released by a later release
    with pytest.raises(LedgerError, match="the charge of the schedule or run"):
        ledger.begin_later("films", "0" * 64, 1)
    assert rows(ledger) == before
    assert [one.state for one in ledger.history("films")] == ["charged in full, for 2 later parts too"]
    settled = ledger.charge("films", gaussian(20.0, 4), "a run that stopped")
    ledger.settle(settled, gaussian(20.0, 1))
    with pytest.raises(LedgerError, match="it was settled"):
        ledger.begin_later("films", settled.hash, 1)
    assert ledger.verify() == 6


def test_a_charge_from_the_history_cannot_be_settled(ledger: Ledger) -> None:
    # else anyone who lists the history could take back the charge of a run that released everything
    ledger.charge("films", gaussian(20.0, 4), "a run that ended")
    before = rows(ledger)
    for book in (ledger, Ledger(ledger.path)):
        (found,) = book.history("films")
        with pytest.raises(InvalidInputError, match="one from the history"):
            book.settle(found, Guarantee.from_releases([], delta=DELTA))
    assert rows(ledger) == before


@pytest.mark.parametrize("name", ["sha256:", "sha256:" + 63 * "a", "sha256:" + 65 * "a", "sha256:" + 64 * "G"])
def test_a_truncated_fingerprint_is_no_name(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidInputError, match="a whole fingerprint"):
        ledger.open_account(name, 1.0, DELTA)
    ledger.open_account("sha256:" + 64 * "a", 1.0, DELTA)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("spent", [0, 1, 5])
@pytest.mark.parametrize("delta", [None, 1e-9, 1e-4])
def test_the_largest_affordable_epsilon_fits_and_no_larger_one(
    tmp_path: Path, adjacency: str, spent: int, delta: float | None
) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", 2.0, DELTA, adjacency=adjacency)
    if spent:
        ledger.charge("films", gaussian(20.0, spent, adjacency=adjacency), "earlier")
    largest = ledger.affordable("films", delta)

    def one_release(epsilon: float) -> Guarantee:
        planned = DELTA if delta is None else delta
        noise = gaussian_noise_multiplier(epsilon, planned, adjacency=adjacency)
        return Guarantee.from_releases([GaussianRelease(noise_multiplier=noise)], delta=planned, adjacency=adjacency)

    assert not ledger.can_afford("films", one_release(largest * 1.001))
    assert ledger.can_afford("films", one_release(largest * 0.9999))
    ledger.charge("films", one_release(float(rounded_down(largest))), "as much as fits")
    assert ledger.affordable("films") < 0.05


@pytest.mark.slow
def test_the_affordable_epsilon_beside_other_kinds_of_releases(ledger: Ledger) -> None:
    other = Guarantee.from_releases([LaplaceRelease(noise_multiplier=2.0)], delta=DELTA)
    ledger.charge("films", other, "a count")
    largest = ledger.affordable("films")
    fits, too_much = (
        gaussian(gaussian_noise_multiplier(epsilon, DELTA)) for epsilon in (largest * 0.999, largest * 1.01)
    )
    assert ledger.can_afford("films", fits)
    assert not ledger.can_afford("films", too_much)


def test_several_affordable_releases_use_up_the_budget_together(ledger: Ledger) -> None:
    ledger.charge("films", gaussian(20.0, 3), "an earlier fit")
    each = ledger.affordable("films", releases=12)
    assert each < ledger.affordable("films") / 2
    noise = gaussian_noise_multiplier(each, DELTA)
    for place in range(12):
        ledger.charge("films", gaussian(noise), f"fit {place}")
    assert ledger.remaining("films").spent == pytest.approx(2.0, rel=1e-3)
    assert ledger.affordable("films") < 0.2


def test_what_would_be_left_after_a_charge_is_what_is_left(ledger: Ledger) -> None:
    ledger.charge("films", gaussian(20.0, 3), "an earlier fit")
    before = ledger.remaining("films")
    planned = ledger.remaining("films", after=gaussian(8.0))
    assert ledger.remaining("films") == before
    ledger.charge("films", gaussian(8.0), "the planned one")
    assert ledger.remaining("films") == planned
    assert ledger.remaining("films", after=gaussian(0.5)).epsilon == 0.0


def test_nothing_is_affordable_when_everything_is_spent(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", gaussian(20.0, 3).epsilon, DELTA)
    assert ledger.affordable("films") == pytest.approx(gaussian(20.0, 3).epsilon, rel=1e-4)
    ledger.charge("films", gaussian(20.0, 3), "all of it")
    assert ledger.affordable("films") < 1e-3
    with pytest.raises(InvalidInputError, match="delta"):
        ledger.affordable("films", 2.0)


def test_a_refusal_names_delta_where_delta_is_the_reason(ledger: Ledger) -> None:
    lenient = Guarantee.from_releases([GaussianRelease(noise_multiplier=2.0)], delta=1e-3)
    assert lenient.epsilon < 2.0
    with pytest.raises(
        BudgetError, match=r"its guarantee is epsilon \S+ at delta 0\.001.*The account counts at delta 0\.000001"
    ):
        ledger.charge("films", lenient, "a larger delta")
    sloppy = Guarantee.from_releases([ApproximateRelease(epsilon=0.1, delta=1e-4)], delta=1e-3)
    assert sloppy.epsilon < 2.0
    with pytest.raises(BudgetError, match=r"no finite epsilon at that delta, 0\.000001.*smaller delta"):
        ledger.charge("films", sloppy, "a failure probability of its own")
    with pytest.raises(BudgetError) as refused:
        ledger.charge("films", gaussian(1.0), "too little noise")
    assert "its guarantee is" not in str(refused.value)
    assert "epsilon 2 still fits" in str(refused.value) or "epsilon 1.999 still fits" in str(refused.value)


def test_numbers_of_numpy_are_stored_as_numbers(ledger: Ledger) -> None:
    noise, count = np.float32(12.1), np.int64(2)
    release = GaussianRelease(noise_multiplier=noise, count=count)  # type: ignore[arg-type]
    charge = ledger.charge("films", Guarantee.from_releases([release], delta=DELTA), "numpy")
    assert type(charge.releases[0].count) is int
    assert charge.epsilon_after == epsilon_of(GaussianRelease(noise_multiplier=float(noise), count=2))
    ledger.settle(charge, Guarantee.from_releases([dataclasses.replace(release, count=1)], delta=DELTA))
