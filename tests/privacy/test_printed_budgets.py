"""What `tacit budget` and `tacit calibrate` print is rounded in the safe direction."""

import json
import re

import pytest
from typer.testing import CliRunner

from tacit.cli.main import app
from tacit.privacy import GaussianRelease, Guarantee, gaussian_epsilon, gaussian_noise_multiplier
from tacit.privacy.ledger import Ledger

NOISES = [6.1, 7.77, 9.999, 13.0, 31.4159]


def printed(*arguments):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    for place, noise in enumerate(NOISES):
        book.open_account(f"set{place}", 1.23456789, 1.00001e-6)
        plan = Guarantee.from_releases([GaussianRelease(noise_multiplier=noise)], delta=1e-6)
        book.charge(f"set{place}", plan, "a run")
    return book


@pytest.mark.slow
def test_budget_show(ledger):
    lines = printed("budget", "show", "--ledger", ledger.path).splitlines()
    for place in range(len(NOISES)):
        (line,) = (line for line in lines if f"set{place}" in line)
        epsilon, delta, spent, fits = (float(cell) for cell in line.split("│")[4:8])
        left = ledger.remaining(f"set{place}")
        assert (epsilon, delta) == (1.23456789, 1.00001e-6)  # a limit is printed as it was set
        assert left.spent <= spent <= left.spent * 1.001
        largest = ledger.affordable(f"set{place}")
        assert largest * 0.999 <= fits <= largest
        assert fits > left.budget - left.spent  # composition is less than the sum
    values = json.loads(printed("budget", "show", "--ledger", ledger.path, "--json"))
    assert [value["affordable"] for value in values] == [ledger.affordable(f"set{place}") for place in range(5)]
    assert [value["epsilon"] for value in values] == [1.23456789] * 5


def test_budget_history(ledger):
    for place, noise in enumerate(NOISES):
        text = printed("budget", "history", f"set{place}", "--ledger", ledger.path)
        (line,) = (line for line in text.splitlines() if "a run" in line)
        assert float(re.search(r"multiplier ([\d.]+)", line).group(1)) <= noise
        spent = float(line.split("│")[5])
        assert spent >= ledger.history(f"set{place}")[0].epsilon_after


@pytest.mark.parametrize("noise", NOISES)
def test_calibrate(noise):
    text = printed("calibrate", "--noise-multiplier", noise, "--delta", "1.00001e-6", "--steps", 3)
    multiplier, cost, delta = re.search(r"multiplier (\S+) costs epsilon (\S+) at delta (\S+)", text).groups()
    assert (float(multiplier), float(delta)) == (noise, 1.00001e-6)
    assert float(cost) >= gaussian_epsilon(noise, 1.00001e-6, steps=3)
    text = printed("calibrate", "--epsilon", noise / 10, "--delta", "1e-6", "--adjacency", "replace-one")
    sound = float(re.search(r"sound noise multiplier: (\S+)", text).group(1))
    assert sound >= gaussian_noise_multiplier(noise / 10, 1e-6, adjacency="replace-one")
