"""Every benchmark imports, lists its parts, and marks what it quotes; the harness runs all parts."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tacit.data import CategoryColumn, TableSchema

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("bench_*.py"))


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("TACIT_DATA", str(FOLDER / "no such folder"))  # importing a script must not need the data
    return importlib.import_module


def test_there_are_benchmarks():
    assert len(SCRIPTS) >= 15


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_imports_and_lists_its_parts(benchmark, script):
    if script == "bench_neural":
        pytest.importorskip("torch")
    parts = benchmark(script).PARTS
    harness = benchmark("harness")
    assert parts
    for part in parts.values():
        assert isinstance(part, harness.Part)
        signature = inspect.signature(part.run)
        signature.bind()  # the full run needs no arguments
        signature.bind(**part.quick)
        for name, value in part.quick.items():
            assert value != signature.parameters[name].default
        assert all(isinstance(quoted, harness.Quoted) for quoted in part.quoted)


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_quoted_is_marked_and_has_a_source(benchmark, script):
    """A constant of `Quoted` figures belongs to a part, which prints the source, and its column has an asterisk."""
    if script == "bench_neural":
        pytest.importorskip("torch")
    module, harness = benchmark(script), benchmark("harness")
    constants = [value for value in vars(module).values() if isinstance(value, harness.Quoted)]
    shown = [quoted for part in module.PARTS.values() for quoted in part.quoted]
    assert all(any(constant is quoted for quoted in shown) for constant in constants)
    text = (FOLDER / f"{script}.py").read_text(encoding="utf-8")
    assert not constants or re.search(r"\w\*['\" ):,]", text)
    for constant in constants:
        assert re.search(r"\(\d{4}\)|\d{4}\)|measured once", constant.source), constant.source
        assert constant.values


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_part_imports_when_it_runs_exists(script):
    """Parts import some things late; a moved module would be found only by running them."""
    if script == "bench_neural":
        pytest.importorskip("torch")
    for node in ast.walk(ast.parse((FOLDER / f"{script}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            module = importlib.import_module(node.module)
            for name in node.names:
                submodule = f"{node.module}.{name.name}"
                assert hasattr(module, name.name) or importlib.util.find_spec(submodule), submodule


PEER_STUB = """
import pathlib, sys
script, method, source, target, epsilon, delta, seed, rounds = sys.argv[1:]
lines = pathlib.Path(source).read_text().splitlines()
pathlib.Path(target).write_text("\\n".join(["a,b", *reversed(lines[1:])]))
print(pathlib.Path(script).name, method, lines[0], epsilon, delta, file=sys.stderr, flush=True)
while rounds == "for ever":
    pass
if rounds == "few":
    raise SystemExit(1)
print(1.5)
"""


@pytest.mark.parametrize("method", ["mst", "aim", "opendp mst", "opendp aim"])
def test_a_peer_runs_its_own_script_under_its_own_interpreter(benchmark, monkeypatch, tmp_path, capsys, method):
    """The stub stands for an interpreter: it gets the table of fixed bins, and its rows, seconds and failures come back."""
    module = benchmark("bench_synthetic")
    variable, script, its_method = module.PEERS[method]
    assert (FOLDER / script).exists()
    schema = TableSchema({"a": CategoryColumn(("x", "y")), "b": CategoryColumn((0, 1, 2))})
    frame = pl.DataFrame({"a": ["x", "y", "y"], "b": [2, 0, 1]})
    split = module.Split(frame, frame, schema, {}, ("a",))
    for name in {value[0] for value in module.PEERS.values()}:
        monkeypatch.delenv(name, raising=False)
    assert module.peer(method, split, 3.0, 0) is None
    assert f"{method}: left out; {variable}" in capsys.readouterr().out
    stub, interpreter = tmp_path / "stub.py", tmp_path / "interpreter"
    stub.write_text(PEER_STUB, encoding="utf-8")
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stub}" "$@"\n', encoding="utf-8")
    interpreter.chmod(0o700)
    monkeypatch.setenv(variable, str(interpreter))
    codes, seconds = module.peer(method, split, 3.0, 0)
    assert codes.tolist() == [[1, 1], [1, 0], [0, 2]]
    assert seconds == 1.5
    assert module.peer(method, split, 3.0, 0, "few") is None
    told = f"{script} {its_method} 2_0,3_1 3.0 1e-06"
    assert f"failed: {told}" in capsys.readouterr().out
    monkeypatch.setattr(module, "MOST_SECONDS", 1)
    assert module.peer(method, split, 3.0, 0, "for ever") is None
    assert f"did not end within 1 s of one core; at the end: {told}" in capsys.readouterr().out


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "bench_made_up.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
from harness import Part, Quoted, main, peer

PAPER = Quoted("Table 1 of Nobody (2000)", {{1: 2.0}})

def first(size=100):
    print("first of", size)

def second(size=100, name="long"):
    print("second of", size, name)

def third():
    peer("no_such_package", "no-such-package")

PARTS = {{"first": Part(first, quick={{"size": 1}}, quoted=(PAPER,)), "second": Part(second), "third": Part(third)}}
main(__doc__, PARTS, children={{"child": lambda text: print("child", text)}})
""",
        encoding="utf-8",
    )
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "expected", "absent"),
    [
        ((), ["first of 100", "second of 100 long", "skipped third: it needs no-such-package"], []),
        (("--quick",), ["first of 1\n", "second of 100 long", "the figures mean nothing"], []),
        (("second",), ["second of 100 long"], ["first of", "skipped"]),
        (("first",), ["* quoted, not measured here: Table 1 of Nobody (2000)"], []),
        (("--set", "size=7", "--set", "name=short"), ["first of 7", "second of 7 short"], []),
        (("--list",), ["first", "second", "third", "quotes: Table 1 of Nobody (2000)"], ["first of"]),
        (("child", "x"), ["child x"], ["first"]),
    ],
)
def test_the_harness_runs_what_it_is_asked(tmp_path, arguments, expected, absent):
    done = run(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout
    for text in absent:
        assert text not in done.stdout


def test_an_unknown_part_is_refused(tmp_path):
    done = run(tmp_path, "fourth")
    assert done.returncode == 2
    assert "choose among first, second, third" in done.stderr


def test_make_bench_runs_all_parts_of_all_scripts():
    recipe = re.search(
        r"^bench:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    ).group(1)
    assert "benchmarks/bench_*.py" in recipe
    assert "$$script $(BENCH)" in recipe  # no part is named: the harness runs all
