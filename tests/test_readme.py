"""What README.md shows works: its Python blocks run, its commands run or have the options that it names."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import tacit
from tacit.cli.main import app
from tacit.data import make_ratings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = typer.main.get_command(app)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def spelled_out(command):
    """Return the commands that `a|b c` stands for."""
    alternatives = re.search(r"\S+(?:\|\S+)+", command)
    if alternatives is None:
        return [command]
    return [command.replace(alternatives[0], one, 1) for one in alternatives[0].split("|")]


def commands():
    """Return every `tacit ...` of the README, from its text, tables and shell blocks, without repetitions."""
    shown = [text.replace("\\|", "|") for text in re.findall(r"`(tacit [^`\n]+)`", README)]
    shown += [
        line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.startswith("tacit ")
    ]
    return list(dict.fromkeys(one for text in shown for one in spelled_out(text)))


def resolved(arguments):
    """Return the command that arguments name, and the arguments that are left for it."""
    command, rest = COMMAND, list(arguments)
    while getattr(command, "commands", None) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the commands of the README name."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    groups = generator.integers(3, size=90)
    values = np.abs(generator.normal(size=(3, 4)))[groups] + 0.8 * generator.random((90, 4))
    table = pl.DataFrame(values, schema=["mcg", "gvh", "alm", "mit"])
    table.write_csv("table.csv")
    labelled = table.with_columns(pl.Series("class", groups))
    labelled.write_csv("original.csv")
    noisy = table.select(pl.all() + pl.Series(0.05 * generator.normal(size=90))).with_columns(labelled["class"])
    noisy.write_csv("release.csv")
    rated = make_ratings(300, 20, ratings_per_user=8, random_state=1)
    pl.DataFrame({"user": rated.users, "item": rated.items, "rating": rated.ratings}).write_csv("ratings.csv")
    pl.DataFrame({"user": rated.users, "item": rated.items}).write_csv("clicks.csv")
    np.savez("counts.npz", X=np.random.default_rng(0).poisson(3.0, size=(30, 8)))
    pl.DataFrame({"item": np.arange(20), "genre": ["drama", "comedy"] * 10}).write_csv("items.csv")
    np.save("DATA.npy", np.abs(generator.normal(size=(300, 30))))
    return tmp_path


def run(command):
    return CliRunner().invoke(app, shlex.split(command.replace(" DATA ", " DATA.npy "))[1:])


def test_the_python_of_the_first_block_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = blocks("python")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(first, "README.md", "exec"), {})
    (quoted,) = re.findall(r'# "(.+?) \.\.\."', first)
    assert printed.getvalue().startswith(quoted)
    assert tacit.load("faces.tacit").guarantee_.epsilon <= 1.0
    spent = tacit.Ledger("budget.db").remaining("faces").spent
    assert 0.9 < spent <= 1.0


@pytest.mark.slow
def test_all_python_blocks_run_one_after_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert len(names["models"]) == 3
    assert all(model.guarantee_.holds for model in names["models"])


@pytest.mark.parametrize("command", commands())
def test_every_command_has_the_options_that_the_readme_names(command):
    found, rest = resolved(shlex.split(command)[1:])
    assert found is not COMMAND or rest == ["--help"]
    options = {
        name for one in (found, *getattr(found, "commands", {}).values()) for param in one.params for name in param.opts
    }
    named = {part for part in rest if part.startswith("-")}
    assert named <= options | {"--help"}


RUNNABLE = [one for one in commands() if len(shlex.split(one)) > 3 or one == "tacit --help"]


@pytest.mark.slow
@pytest.mark.parametrize("command", RUNNABLE)
def test_commands_with_all_their_arguments_run(command, folder):
    if "--schema columns.toml" in command:
        pytest.skip("a part of a command, which names no table")
    if "-o release.csv" in command:
        (folder / "release.csv").unlink()
    result = run(command)
    assert result.exit_code == 0, (result.output, result.exception)
    if "-o release.csv" in command:
        assert pl.read_csv("release.csv").shape == (90, 4)


def test_the_commands_of_the_readme_are_found():
    assert len(commands()) >= 25
    assert len(RUNNABLE) >= 7


@pytest.mark.slow
def test_the_demonstration_runs(folder):
    assert run("tacit demo").exit_code == 0
    assert (folder / "tacit-demo" / "report.html").is_file()


def test_targets_of_make_exist():
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE)
    assert targets
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", rules, flags=re.MULTILINE)


def test_linked_files_exist():
    links = re.findall(r"\]\(([\w/.-]+)\)", README)
    assert len(links) > 15
    assert not [link for link in links if not (ROOT / link).exists()]
