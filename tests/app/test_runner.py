"""Runs in processes of their own: queue, cancel, memory, restarts and what the ledger says after each."""

import os
import signal
import stat
import sys
import time
from pathlib import Path

import pytest

from tacit.app import supervise
from tacit.app.files import read_json
from tacit.app.runner import CANCELLED, DONE, FAILED, INTERRUPTED, QUEUED, RUNNING, Runner
from tacit.errors import InvalidInputError
from tacit.privacy import GaussianRelease, Guarantee, Ledger

CHARGED = """
import sys, time
from pathlib import Path
from tacit.channel import Noisy, Outcome, Plan, Split, Step, Sum, run
from tacit.privacy import Ledger
from tacit.privacy.ledger.spending import Spending

split = Split(rounds=Step(count=10, weight=1.0))
def program():
    for _ in range(10):
        yield Sum(x=[1.0], bound=1.0, step=split["rounds"], units=1)
        Path(sys.argv[2]).touch()
        time.sleep(float(sys.argv[3]))
    return Outcome(public={})

spending = Spending(Ledger(sys.argv[1]), "people", "a slow run")
run(program(), Noisy(Plan.for_budget(1.0, 1e-6, steps=split), spending=spending))
"""


def python(code, *arguments):
    return [sys.executable, "-c", code, *map(str, arguments)]


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.fixture
def runner(tmp_path):
    made = Runner(tmp_path / "runs")
    made.start()
    yield made
    for run in made.runs():
        made.cancel(run.id)
    made.stop()


def ended(runner, name):
    until(lambda: runner.get(name).is_over)
    return runner.get(name)


def test_a_run_ends_with_its_output_and_its_stages(runner):
    code = (
        "import os; open(os.environ['TACIT_PROGRESS'], 'w').write('{\"stage\": \"fitting\"}\\n'); print('{\"a\": 1}')"
    )
    run = ended(runner, runner.submit("test", "A test", python(code)))
    assert (run.state, run.code, run.printed(), run.stages) == (DONE, 0, {"a": 1}, [{"stage": "fitting"}])
    assert run.created <= run.started <= run.ended


def test_everything_on_disk_is_its_owners_alone(runner):
    run = ended(runner, runner.submit("test", "", python("open('made', 'w').write('x')")))
    assert run.state == DONE
    for path in [runner.folder, *runner.folder.rglob("*")]:
        if path.name != "lock":
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path.name


@pytest.mark.slow
def test_runs_wait_for_each_other_in_their_order(runner):
    first = runner.submit("test", "", python("import time; time.sleep(0.5)"))
    second = runner.submit("test", "", python(""))
    beside = runner.submit("test", "", python(""), lane="simulation")
    assert runner.get(second).state == QUEUED
    assert ended(runner, beside).ended <= ended(runner, first).ended
    assert ended(runner, second).started >= runner.get(first).ended


def test_ids_sort_by_time(runner):
    runner.slots = 0  # nothing starts
    names = [runner.submit("test", "", python("")) for _ in range(20)]
    assert names == sorted(names)
    assert [run.id for run in runner.runs()] == names[::-1]


def test_a_failure_says_what_the_command_said(runner):
    code = 'print(\'{"error": {"message": "expected this; got that."}}\'); raise SystemExit(2)'
    run = ended(runner, runner.submit("test", "", python(code)))
    assert (run.state, run.code, run.error()) == (FAILED, 2, "expected this; got that.")


def test_a_run_without_memory_fails_in_words(tmp_path):
    runner = Runner(tmp_path / "runs", memory=256 << 20)
    runner.start()
    run = ended(runner, runner.submit("test", "", python("x = bytearray(1 << 30)")))
    runner.stop()
    assert run.state == FAILED
    assert "What was charged stays charged" in run.error()


@pytest.mark.slow
def test_a_queued_run_that_is_cancelled_never_starts(runner, tmp_path):
    first = runner.submit("test", "", python("import time; time.sleep(0.4)"))
    second = runner.submit("test", "", python(f"open({str(tmp_path / 'ran')!r}, 'w')"))
    runner.cancel(second)
    assert runner.get(second).state == CANCELLED
    ended(runner, first)
    time.sleep(0.5)
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_cancel_charges_what_was_released(runner, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("people", 3.0, 1e-6)
    name = runner.submit("test", "", python(CHARGED, ledger.path, tmp_path / "released", 0.3))
    until((tmp_path / "released").exists)
    assert ledger.history("people")[0].settled is None  # charged in full while it runs
    runner.cancel(name)
    assert ended(runner, name).state == CANCELLED
    (charge,) = ledger.history("people")
    assert 1 <= sum(release.count for release in charge.settled) < 10
    assert 0 < ledger.remaining("people").spent < 1.0


@pytest.mark.slow
def test_cancel_between_charge_and_release_never_undercharges(runner, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("people", 3.0, 1e-6)
    pausing = (
        "charge = Spending.charge\n"
        "def pause(self, guarantee):\n"
        "    made = charge(self, guarantee)\n"
        "    Path(sys.argv[2] + '.charged').touch()\n"
        "    time.sleep(60)\n"
        "    return made\n"
        "Spending.charge = pause\n"
    )
    code = CHARGED.replace("spending = Spending(", pausing + "spending = Spending(")
    name = runner.submit("test", "", python(code, ledger.path, tmp_path / "released", 0))
    until((tmp_path / "released.charged").exists)
    runner.cancel(name)
    run = ended(runner, name)
    assert run.state == CANCELLED
    assert not (tmp_path / "released").exists()
    (charge,) = ledger.history("people")  # nothing was released: the charge stands, which is the safe side
    assert charge.settled is None
    assert ledger.remaining("people").spent == pytest.approx(1.0, rel=1e-3)
    assert "in the moment of its charge stays charged in full" in run.error()
    assert ledger.verify() == 2


@pytest.mark.slow
def test_a_killed_run_stays_charged_in_full(runner, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("people", 3.0, 1e-6)
    name = runner.submit("test", "", python(CHARGED, ledger.path, tmp_path / "released", 5))
    until((tmp_path / "released").exists)
    process = read_json(runner.folder / name / supervise.PROCESS)
    os.kill(process["supervisor"][0], signal.SIGKILL)
    os.kill(process["command"][0], signal.SIGKILL)
    assert ended(runner, name).state == INTERRUPTED
    assert ledger.history("people")[0].settled is None
    assert ledger.remaining("people").spent == pytest.approx(1.0, rel=1e-3)
    assert ledger.verify() == 2


@pytest.mark.slow
def test_a_new_runner_finds_what_an_older_one_left(tmp_path):
    first = Runner(tmp_path / "runs")
    first.start()
    running = first.submit("test", "", python("import time; time.sleep(0.8)"))
    queued = first.submit("test", "", python(""))
    until(lambda: first.get(running).state == RUNNING)
    first.stop()  # as if it had been killed: the run goes on by itself
    second = Runner(tmp_path / "runs")
    assert second.get(running).state == RUNNING
    second.start()
    assert ended(second, running).state == DONE
    assert ended(second, queued).state == DONE
    assert second.get(queued).started >= second.get(running).ended
    second.stop()


def test_a_run_is_never_started_twice(runner, tmp_path):
    name = runner.submit("test", "", python(f"open({str(tmp_path / 'runs.txt')!r}, 'a').write('x')"))
    run = ended(runner, name)
    supervise.main(run.folder)
    assert (tmp_path / "runs.txt").read_text() == "x"


def test_one_folder_has_one_app(runner):
    with pytest.raises(InvalidInputError, match="an app is running on"):
        Runner(runner.folder).start()


def test_the_environment_of_a_run_has_no_ledger_and_no_tracebacks(runner, monkeypatch):
    monkeypatch.setenv("TACIT_LEDGER", "elsewhere.db")
    monkeypatch.setenv("TACIT_DEBUG", "1")
    code = "import json, os; print(json.dumps({n: n in os.environ for n in ('TACIT_LEDGER', 'TACIT_DEBUG')}))"
    assert ended(runner, runner.submit("test", "", python(code))).printed() == {
        "TACIT_LEDGER": False,
        "TACIT_DEBUG": False,
    }


def test_an_id_is_no_path(runner):
    assert runner.get("../../etc") is None
    assert runner.get("") is None


@pytest.mark.slow
def test_overspending_in_a_run_is_refused_and_said(runner, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("people", 1.0, 1e-6)
    spent = Guarantee.from_releases([GaussianRelease(noise_multiplier=6.0)], delta=1e-6)
    ledger.charge("people", spent, "an earlier run")
    name = runner.submit("test", "", python(CHARGED, ledger.path, tmp_path / "released", 0))
    assert ended(runner, name).state == FAILED
    assert len(ledger.history("people")) == 1
    assert not Path(tmp_path / "released").exists()
