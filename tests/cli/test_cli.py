"""The commands, run as a user runs them; their arguments fuzzed; errors are messages with exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tacit
from tacit.cli.main import app
from tacit.errors import TacitError
from tacit.privacy import GaussianRelease, Guarantee, Ledger

TACIT = Path(sys.executable).parent / "tacit"


def tacit_command(*arguments, cwd=None):
    return subprocess.run([TACIT, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_help_lists_every_command():
    found = tacit_command("--help")
    assert found.returncode == 0
    for command in ("demo", "calibrate", "budget"):
        assert command in found.stdout


def test_version():
    assert tacit_command("--version").stdout.strip() == f"tacit {tacit.__version__}"


def test_calibrate_prints_the_sound_multiplier_and_what_others_would_use():
    found = invoke("calibrate", "--epsilon", 0.5, "--delta", 1e-4, "--rate", 0.01, "--steps", 20_000)
    assert found.exit_code == 0
    sound = float(re.search(r"sound noise multiplier: ([\d.]+)", found.output).group(1))
    assert sound == pytest.approx(8.375, rel=1e-3)
    coarse = re.search(r"grid 1e-3[^\d]+([\d.]+)", found.output)
    assert float(coarse.group(1)) == pytest.approx(8.90, rel=0.01)
    for formula in ("Saha", "Mugdho", "Ermis App. E, AC", "Ermis App. E, zCDP", "Ermis App. C"):
        assert formula in found.output


def test_calibrate_json_and_the_other_direction():
    found = json.loads(invoke("calibrate", "--epsilon", 1, "--delta", 1e-5, "--steps", 3, "--json").output)
    assert found["noise_multiplier"] == pytest.approx(tacit.gaussian_noise_multiplier(1.0, 1e-5, steps=3))
    z = found["noise_multiplier"]
    back = json.loads(invoke("calibrate", "--noise-multiplier", z, "--delta", 1e-5, "--steps", 3, "--json").output)
    assert back["epsilon"] == pytest.approx(1.0)
    replace = invoke("calibrate", "--epsilon", 1, "--delta", 1e-5, "--adjacency", "replace-one", "--json")
    assert json.loads(replace.output)["noise_multiplier"] == pytest.approx(
        2 * tacit.gaussian_noise_multiplier(1.0, 1e-5)
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "0", "--delta", "1e-5"],
        ["--epsilon", "nan", "--delta", "1e-5"],
        ["--epsilon", "inf", "--delta", "1e-5"],
        ["--epsilon", "1", "--delta", "2"],
        ["--epsilon", "1", "--noise-multiplier", "2", "--delta", "1e-5"],
        ["--delta", "1e-5"],
        ["--epsilon", "1", "--delta", "1e-5", "--steps", "0"],
        ["--epsilon", "1", "--delta", "1e-5", "--rate", "1.5"],
        ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "near"],
    ],
)
def test_calibrate_refuses_with_a_message_and_code_2(arguments):
    found = tacit_command("calibrate", *arguments)
    assert found.returncode == 2
    assert found.stderr.startswith("error: expected")
    assert "Traceback" not in found.stderr


numbers = st.one_of(st.floats(), st.integers(-10, 10**6), st.text(max_size=5).filter(lambda text: "\x00" not in text))


@given(epsilon=numbers, delta=numbers, steps=numbers, rate=numbers)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_fuzzed_arguments_end_in_an_answer_or_a_refusal(epsilon, delta, steps, rate):
    found = invoke(
        "calibrate", f"--epsilon={epsilon}", f"--delta={delta}", f"--steps={steps}", f"--rate={rate}", "--json"
    )
    if found.exit_code == 0:
        assert json.loads(found.output)["noise_multiplier"] > 0
    else:
        assert isinstance(found.exception, TacitError) or found.exit_code == 2


@given(
    name=st.text(min_size=1, max_size=30), epsilon=numbers, delta=numbers, unit=st.sampled_from(["row", "planet", ""])
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_fuzzed_accounts_are_opened_as_asked_or_not_at_all(name, epsilon, delta, unit):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        found = invoke(
            "budget",
            "open",
            f"--epsilon={epsilon}",
            f"--delta={delta}",
            f"--unit={unit}",
            f"--ledger={path}",
            "--",
            name,
        )
        if found.exit_code == 0:
            account = Ledger(path, create=False).account(name)
            assert (account.epsilon, account.delta, account.unit) == (float(epsilon), float(delta), unit)
        else:
            assert isinstance(found.exception, TacitError) or found.exit_code == 2
            assert not path.exists() or Ledger(path, create=False).datasets() == []


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.open_account("patients [2024]", 2.0, 1e-6)
    plan = Guarantee.from_releases([GaussianRelease(name="WX", noise_multiplier=8.0, count=3)], delta=1e-6)
    book.charge("patients [2024]", plan, "topics [first try]")
    return book


def test_budget_commands_show_what_the_ledger_holds(ledger):
    shown = invoke("budget", "show", "--ledger", ledger.path)
    assert shown.exit_code == 0
    assert "patients [2024]" in shown.output
    listed = invoke("budget", "history", "patients [2024]", "--ledger", ledger.path)
    assert "topics [first try]" in listed.output
    assert "multiplier 8" in listed.output
    verified = invoke("budget", "verify", "--ledger", ledger.path)
    assert "2 entries verify" in verified.output
    assert ledger.head in verified.output


def test_budget_json(ledger):
    (account,) = json.loads(invoke("budget", "show", "--ledger", ledger.path, "--json").output)
    assert account["spent"] == pytest.approx(ledger.remaining("patients [2024]").spent)
    (charge,) = json.loads(invoke("budget", "history", "patients [2024]", "--ledger", ledger.path, "--json").output)
    assert charge["releases"][0]["noise_multiplier"] == 8.0
    checked = json.loads(invoke("budget", "verify", "--ledger", ledger.path, "--head", ledger.head, "--json").output)
    assert checked["verified"] is True


def test_an_account_can_be_named_by_its_data(tmp_path):
    data = tmp_path / "ratings.csv"
    data.write_text("user,item,rating\n1,2,3\n")
    path = tmp_path / "ledger.db"
    opened = invoke("budget", "open", "--data", data, "--epsilon", 1, "--delta", 1e-6, "--ledger", path)
    assert opened.exit_code == 0
    assert Ledger(path).datasets() == [tacit.fingerprint(data)]
    assert invoke("budget", "history", "--data", data, "--ledger", path).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["history", "strangers"], 4),
        (["open", "patients [2024]", "--epsilon", "3", "--delta", "1e-6"], 4),
        (["open", "--epsilon", "3", "--delta", "1e-6"], 2),
        (["open", "x", "--epsilon", "-3", "--delta", "1e-6"], 2),
        (["verify", "--head", "1" * 64], 5),
    ],
)
def test_budget_refusals_have_their_codes(ledger, arguments, code):
    found = tacit_command("budget", *arguments, "--ledger", ledger.path)
    assert found.returncode == code, found.stderr
    assert "Traceback" not in found.stderr
    assert ledger.verify() == 2


def test_no_ledger_is_made_by_looking_for_one(tmp_path):
    found = tacit_command("budget", "show", "--ledger", tmp_path / "missing.db")
    assert found.returncode == 4
    assert not (tmp_path / "missing.db").exists()


def test_errors_are_json_when_asked(tmp_path):
    found = tacit_command("budget", "show", "--ledger", tmp_path / "missing.db", "--json")
    assert found.returncode == 4
    assert json.loads(found.stdout)["error"]["kind"] == "LedgerError"


def test_demo_does_the_whole_way(tmp_path):
    found = tacit_command("demo", "--output", tmp_path / "out", "--images", 1500, "--json")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["guarantee"]["epsilon"] <= 1.0
    assert result["guarantee"]["epsilon"] > 0.9
    assert 0.8 < result["similarity_to_the_true_parts"]["private"] <= 1
    assert result["ledger_entries"] == 2
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    model = tacit.load(tmp_path / "out" / "model" / "nmf.tacit")
    assert model.components_.shape == (8, 144)
    assert model.guarantee_.to_dict() == result["guarantee"]
    # the parts come nearer to the true ones as epsilon grows, noise aside
    similar = list(result["similarity_by_epsilon"].values())
    assert similar[-1] > 0.95
    assert similar[-1] > similar[0]


def test_demo_prints_the_guarantee_for_people(tmp_path):
    found = tacit_command("demo", "--output", tmp_path / "out", "--images", 1500)
    assert "differential privacy per row" in found.stdout
    assert "What privacy cost" in found.stdout
