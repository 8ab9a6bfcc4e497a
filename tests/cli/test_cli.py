"""The commands, run as a user runs them; their arguments fuzzed; errors are messages with exit codes."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tacit
from tacit import report
from tacit.cli.main import app
from tacit.errors import TacitError
from tacit.privacy import GaussianRelease, Guarantee, Ledger

TACIT = Path(sys.executable).parent / "tacit"


def tacit_command(*arguments, cwd=None):
    return subprocess.run([TACIT, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_help_lists_every_command():
    found = tacit_command("--help")
    assert found.returncode == 0
    for command in ("demo", "calibrate", "budget"):
        assert command in found.stdout


def test_version():
    assert tacit_command("--version").stdout.strip() == f"tacit {tacit.__version__}"


def commands(group, *names):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), command


def test_no_word_of_the_help_is_taken_for_markup():
    """Rich leaves out words in brackets, such as sections of a TOML file, unless they are escaped."""
    for name, command in commands(typer.main.get_command(app)):
        for text in (command.help, *(getattr(option, "help", None) for option in command.params)):
            assert not re.search(r"(?<!\\)\[/?[a-z][^\]]*\]", text or ""), name


def test_delta_has_one_default_in_commands_functions_and_estimators():
    found = {
        name: option.default
        for name, command in commands(typer.main.get_command(app))
        for option in command.params
        if option.name == "delta" and not option.required
    }
    assert {"fit nmf", "fit recommend", "fit neural", "fit coupled", "perturb", "demo"} <= set(found)
    for name in report.__all__:
        parameters = inspect.signature(getattr(report, name)).parameters if callable(getattr(report, name)) else {}
        if "delta" in parameters and parameters["delta"].default is not inspect.Parameter.empty:
            found[name] = parameters["delta"].default
    assert {"compare_nmf", "compare_recommenders", "compare_implicit"} <= set(found)
    assert set(found.values()) == {tacit.PrivateMoments().delta, tacit.PrivateNMF().delta}


@pytest.mark.slow
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


def test_calibrate_shows_what_a_schedule_costs():
    asked = ("calibrate", "--epsilon", 1, "--delta", 1e-6, "--schedule", "weekly", "--for", "1y")
    found = json.loads(invoke(*asked, "--json").output)
    one = tacit.gaussian_noise_multiplier(1.0, 1e-6)
    assert found["releases"] == 52
    assert found["noise_multiplier_of_one_release"] == pytest.approx(one)
    assert found["epsilon_if_each_release_costs_epsilon"] == pytest.approx(tacit.gaussian_epsilon(one, 1e-6, steps=52))
    assert found["noise_multiplier_of_separate_releases"] == pytest.approx(
        tacit.gaussian_noise_multiplier(1.0, 1e-6, steps=52)
    )
    assert 2.3 < found["correlated_noise_over_one_release"]["52"] <= 2.4
    shown = invoke(*asked, "--participations", 4, "--separation", 4).output
    assert re.search(r"52 .* 7\.1", shown)
    refused = invoke(*asked, "--participations", 52).output
    assert "does not help" in refused


@pytest.mark.slow
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
        ["--epsilon", "1", "--delta", "1e-5", "--schedule", "hourly"],
        ["--epsilon", "1", "--delta", "1e-5", "--schedule", "weekly", "--for", "a year"],
        ["--epsilon", "1", "--delta", "1e-5", "--schedule", "weekly", "--for", "0w"],
        ["--noise-multiplier", "1", "--delta", "1e-5", "--schedule", "weekly"],
    ],
)
def test_calibrate_refuses_with_a_message_and_code_2(arguments):
    found = tacit_command("calibrate", *arguments)
    assert found.returncode == 2
    assert found.stderr.startswith("error: expected")
    assert "Traceback" not in found.stderr


numbers = st.one_of(st.floats(), st.integers(-10, 10**6), st.text(max_size=5).filter(lambda text: "\x00" not in text))


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert invoke("budget", "show", "patients [2024]", "--ledger", ledger.path).output == shown.output
    assert "other" in str(invoke("budget", "show", "other", "--ledger", ledger.path).exception)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_no_ledger_is_made_by_looking_for_one(tmp_path):
    found = tacit_command("budget", "show", "--ledger", tmp_path / "missing.db")
    assert found.returncode == 4
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.slow
def test_errors_are_json_when_asked(tmp_path):
    found = tacit_command("budget", "show", "--ledger", tmp_path / "missing.db", "--json")
    assert found.returncode == 4
    assert json.loads(found.stdout)["error"]["kind"] == "LedgerError"


@pytest.mark.slow
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
    # the components are nearer to the true ones as epsilon grows, up to noise
    similar = list(result["similarity_by_epsilon"].values())
    assert similar[-1] > 0.95
    assert similar[-1] > similar[0]


@pytest.mark.slow
def test_demo_prints_the_guarantee_for_people(tmp_path):
    found = tacit_command("demo", "--output", tmp_path / "out", "--images", 1500)
    assert "tacit app FOLDER" in found.stdout
    assert "differential privacy per row" in found.stdout
    assert "What privacy cost" in found.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "nmf", "rows.csv", "--rank", 2, "--drop", "id", "--drop", "zip"),
        ("measure", "a.csv", "b.csv", "--label=x", "--label", "y"),
        ("audit", "--seconds", 1, "fit", "nmf", "rows.csv", "--rank", 2, "--epsilon", 1, "--rank", 3),
    ],
    ids=["command", "default command", "audited command"],
)
def test_an_option_with_one_value_is_not_given_twice(arguments):
    """All values but the last were passed by: `--drop id --drop zip` kept the ids."""
    found = invoke(*arguments)
    assert isinstance(found.exception, TacitError)
    assert re.search("expected --(drop|label|rank) once; got several", str(found.exception))


def test_options_with_several_values_are_given_several_times():
    options = ("--only", "replay", "--only", "white box", "--output", "a")
    found = invoke("audit", *options, "fit", "nothing", "--output", "b")  # one is the audit's, the other the command's
    assert "a command such as fit nmf" in str(found.exception)


def test_an_audit_names_the_options_of_the_command_that_it_reads(tmp_path):
    (tmp_path / "rows.csv").write_text("id,x,y\n1,2.5,1.5\n2,3.5,2\n3,1.5,4\n")
    found = invoke("audit", "fit", "nmf", tmp_path / "rows.csv", "--rank", 1, "--epsilon", 1)
    assert "Leave columns out with --drop id." in str(found.exception)
