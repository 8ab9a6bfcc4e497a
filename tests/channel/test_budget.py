"""Charges of a private run: releases stay charged even after errors, and a run can be used only once."""

import os
import sqlite3
import sys
import threading

import numpy as np
import pytest

from tacit.channel import Choose, Noisy, Outcome, Plan, Split, Step, Sum, run
from tacit.channel.budget import State
from tacit.errors import BudgetError, InvalidInputError, LedgerError, ProtocolError
from tacit.privacy import Ledger, Spending

X = np.ones((10, 3)) / 2


def program(rounds=1):
    for _ in range(rounds):
        total = yield Sum(v=X.sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"v": total.v})


@pytest.fixture
def ledger(tmp_path):
    return opened(tmp_path, 5.0)


def opened(folder, epsilon, timeout=30.0):
    book = Ledger(folder / "budget.db", timeout=timeout)
    book.open_account("d", epsilon=epsilon, delta=1e-6)
    return book


def noisy(ledger, steps=1, epsilon=1.0, **settings):
    return Noisy(Plan.for_budget(epsilon, 1e-6, steps=steps, **settings), spending=Spending(ledger, "d", "a test"))


def test_a_refused_charge_is_not_free_on_retry(tmp_path):
    book = opened(tmp_path, 0.5)
    channel = noisy(book)
    for _ in range(2):
        with pytest.raises((BudgetError, ProtocolError)):
            run(program(), channel)
    assert channel.guarantee.epsilon == 0
    assert len(channel.transcript) == 0
    assert book.remaining("d").spent == 0


def test_a_refused_charge_is_asked_for_again_by_a_caller_without_run(tmp_path):
    """A caller of `exchange` may go on after a refusal; the channel has not ended, and must ask the ledger again."""
    channel = noisy(opened(tmp_path, 0.5))
    for _ in range(2):
        with pytest.raises(BudgetError):
            channel.exchange([Sum(v=X.sum(axis=0), bound=1.0, units=len(X))])
    assert len(channel.transcript) == 0


def test_a_charge_that_met_a_locked_ledger_is_made_or_nothing_is_released(tmp_path):
    book = opened(tmp_path, 5.0, timeout=0.2)
    channel = noisy(book)
    other = sqlite3.connect(tmp_path / "budget.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError):
        run(program(), channel)
    other.execute("ROLLBACK")
    other.close()
    with pytest.raises(ProtocolError, match="not been used"):
        run(program(), channel)
    assert len(channel.transcript) == 0


def test_a_channel_serves_one_run(ledger):
    channel = noisy(ledger, steps=10)
    run(program(1), channel)
    spent = ledger.remaining("d").spent
    with pytest.raises(ProtocolError, match="not been used"):
        run(program(9), channel)
    assert spent == ledger.remaining("d").spent > 0.2


def test_a_run_that_ends_before_its_plan_states_the_whole_plan(ledger):
    """When it ends may depend on what was released; the epsilon of a part holds for an end that was fixed beforehand."""
    channel = noisy(ledger, steps=10)
    run(program(1), channel)
    assert channel.guarantee.epsilon == pytest.approx(1.0, rel=1e-5)
    assert sum(release.count for release in channel.guarantee.releases) == 10
    assert ledger.remaining("d").spent == pytest.approx(
        0.291, abs=0.001
    )  # full-batch Gaussian sums: any end is paid for
    chosen = Noisy(Plan.for_budget(2.0, 1e-6, choices=(1.0, 0.5)))
    run(program(1), chosen)
    assert [release.kind for release in chosen.guarantee.releases] == ["gaussian", "exponential", "exponential"]
    refused = Noisy(Plan.for_budget(9.0, 1e-6), spending=Spending(ledger, "d", "too much"))
    with pytest.raises(BudgetError):
        run(program(1), refused)
    assert refused.guarantee.epsilon == 0


def test_a_refused_run_leaves_the_charge_of_another_on_the_same_account(tmp_path):
    book = opened(tmp_path, 1.2)
    account = Spending(book, "d", "two runs")
    run(program(), Noisy(Plan.for_budget(1.0, 1e-6), spending=account))
    spent = book.remaining("d").spent
    with pytest.raises(BudgetError):
        run(program(), Noisy(Plan.for_budget(1.0, 1e-6), spending=account))
    assert book.remaining("d").spent == spent > 0.99


def test_two_runs_on_one_account_settle_their_own_charges(ledger):
    account = Spending(ledger, "d", "two runs")
    first = Noisy(Plan.for_budget(1.0, 1e-6, steps=4), spending=account)
    second = Noisy(Plan.for_budget(0.5, 1e-6, steps=4), spending=account)
    run(program(4), first)
    run(program(1), second)
    one, other = ledger.history("d")
    assert one.settled is None
    assert sum(release.count for release in other.settled) == 1


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_a_run_that_breaks_is_charged_for_what_it_released(ledger, error):
    def breaks():
        yield Sum(v=np.zeros(3), bound=1.0, units=3)
        yield Sum(v=np.zeros(3), bound=1.0, units=3)
        raise error

    with pytest.raises(error if error is not GeneratorExit else BaseException):
        run(breaks(), noisy(ledger, steps=5))
    (charge,) = ledger.history("d")
    assert sum(release.count for release in charge.settled) == 2


class Counted(Noisy):
    """Counts the totals that leave, at the moment they do."""

    left = 0

    def _released(self, ask, measured, shares):
        self.left += 1  # from the first instruction on, something may have left
        return super()._released(ask, measured, shares)


def lines_of_a_run(book):
    """Run once under a tracer; return how many lines of tacit.channel and tacit.privacy.ledger.spending are executed."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        name = frame.f_code.co_filename
        if f"tacit{os.sep}channel" not in name and "spending" not in name:
            return None
        lines += event == "line"
        return trace

    sys.settrace(trace)
    try:
        run(program(2), Counted(Plan.for_budget(0.1, 1e-6, steps=3), spending=Spending(book, "d", "trace")))
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.slow
def test_an_interrupt_at_any_line_leaves_the_ledger_at_or_above_what_was_released(tmp_path):
    """KeyboardInterrupt is raised before every single line of channel and spending code, one run each."""
    book = opened(tmp_path, 1e6)
    for place in range(lines_of_a_run(book)):
        seen = 0

        def trace(frame, event, _, place=place):
            nonlocal seen
            name = frame.f_code.co_filename
            if f"tacit{os.sep}channel" not in name and "spending" not in name:
                return None
            if event == "line":
                seen += 1
                if seen == place + 1:
                    raise KeyboardInterrupt
            return trace

        fresh = Ledger(tmp_path / f"{place}.db")
        fresh.open_account("d", epsilon=1e6, delta=1e-6)
        channel = Counted(Plan.for_budget(0.1, 1e-6, steps=3), spending=Spending(fresh, "d", "interrupted"))
        sys.settrace(trace)
        try:
            run(program(2), channel)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        charges = fresh.history("d")
        paid = sum(
            release.count
            for charge in charges
            for release in (charge.releases if charge.settled is None else charge.settled)
        )
        assert paid >= channel.left, f"line {place}: {channel.left} released, {paid} charged"


def test_a_killed_run_stays_charged_in_full(ledger):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:

        def killed():
            yield Sum(v=np.zeros(3), bound=1.0, units=3)
            os.write(write, b"released")
            os._exit(9)

        run(killed(), noisy(ledger, steps=5))
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"released"
    (charge,) = ledger.history("d")
    assert charge.settled is None
    assert sum(release.count for release in charge.releases) == 5


def test_a_fork_can_neither_release_nor_settle(ledger):
    channel = noisy(ledger, steps=3)

    def forks():
        yield Sum(v=np.zeros(3), bound=1.0, units=3)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                channel.exchange([Sum(v=np.zeros(3), bound=1.0, units=3)])
            except ProtocolError:
                channel.close()
                status = 0
            os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert ledger.history("d")[0].settled is None
        yield Sum(v=np.zeros(3), bound=1.0, units=3)
        return Outcome({})

    run(forks(), channel)
    assert sum(release.count for release in ledger.history("d")[0].settled) == 2


def test_threads_cannot_share_a_channel(ledger):
    channel, errors, barrier = noisy(ledger, steps=2), [], threading.Barrier(2)

    def work():
        barrier.wait()
        try:
            run(program(2), channel)
        except ProtocolError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1
    assert len(channel.transcript) == 2
    assert len(ledger.history("d")) == 1


def test_the_states_of_a_run(ledger):
    channel = noisy(ledger, steps=2)
    budget, seen = channel._budget, []

    def watched():
        for _ in range(2):
            seen.append(budget.state)
            yield Sum(v=np.zeros(3), bound=1.0, units=3)
        seen.append(budget.state)
        return Outcome({})

    run(watched(), channel)
    assert seen == [State.PLANNED, State.RUNNING, State.RUNNING]
    assert budget.state is State.CLOSED


def test_a_choice_is_charged_before_it_is_made(tmp_path):
    book = opened(tmp_path, 0.1)
    channel = noisy(book, choices=(0.5,))
    with pytest.raises(BudgetError):
        channel.choose([Choose([1.0, 2.0], bound=1.0, units=1)])
    assert channel.guarantee.epsilon == 0


def test_a_split_is_what_is_planned_and_what_is_asked():
    split = Split(sums=0.25, rounds=Step(count=3, weight=0.25))
    assert split.total == 1
    assert split.scaled(2.0)["rounds"] == Step(3, 0.5, 1.0, "rounds")

    def asks(name):
        yield Sum(v=np.zeros(3), bound=1.0, units=3, step=split[name])
        yield Sum(v=np.zeros(3), bound=1.0, units=3, step=split[name])
        return Outcome({})

    run(asks("rounds"), Noisy(Plan.for_budget(1.0, 1e-6, steps=split)))
    with pytest.raises(BudgetError, match="'sums'"):
        run(asks("sums"), Noisy(Plan.for_budget(1.0, 1e-6, steps=split)))
    with pytest.raises(InvalidInputError, match="common"):
        split | Split(sums=1.0)
