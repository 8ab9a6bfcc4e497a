"""`tacit parties`: identities, jobs, and real processes that fit one model."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tacit import load
from tacit.cli.main import app
from tacit.parties import Job


def tacit(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def write_table(path, seed=0):
    table = np.random.default_rng(seed).gamma(1.0, size=(40, 4))
    pl.DataFrame({name: table[:, place] for place, name in enumerate("abcd")}).write_csv(path)
    return table


def test_an_identity_and_a_job(tmp_path):
    table = tmp_path / "data.csv"
    write_table(table)
    parties = []
    for place, name in enumerate(("north", "south")):
        shown = json.loads(tacit("parties", "init", name, "--folder", tmp_path / name, "--json"))
        parties += ["--party", f"{name}={shown['certificate']}@127.0.0.1:{9000 + place}"]
    job = tmp_path / "job.toml"
    made = ["--model", "nmf", *parties, "--features", table, "--set", "n_components=2", "-o", job]
    assert "sha256:" in tacit("parties", "job", "study", *made)
    assert Job.read(job).features == ["a", "b", "c", "d"]
    assert Job.read(job).settings == {"n_components": 2}
    job.write_text(job.read_text().replace("n_components = 2", "n_components = 3"))
    assert tacit("parties", "seal", job).strip() == Job.read(job).digest
    from tacit.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="settings of NMF"):
        tacit("parties", "job", "study", *made[:-4], "--set", "rank=2", "-o", job)
    with pytest.raises(InvalidInputError, match="NAME=certificate"):
        tacit("parties", "job", "study", "--model", "nmf", "--party", "x", "--features", table)


@pytest.mark.slow
def test_simulated_parties_leave_what_real_ones_would(tmp_path):
    table = tmp_path / "data.csv"
    X = write_table(table)
    words = ["parties", "simulate", table, "--parties", "3", "--model", "nmf", "--set", "n_components=2"]
    code = "from tacit.cli.main import main; main()"
    command = [sys.executable, "-c", code, *words, "--set", "max_iter=5", "-o", tmp_path / "out", "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=300)
    results = json.loads(done.stdout)["parties"]
    assert sum(result["records"] for result in results) == len(X)
    models = [load(tmp_path / "out" / result["party"] / "model" / "nmf.tacit") for result in results]
    for result, model in zip(results, models, strict=True):
        folder = tmp_path / "out" / result["party"]
        np.testing.assert_array_equal(model.components_, models[0].components_)
        assert np.load(folder / "rows.npy").shape == (result["records"], 2)
        assert "bytes sent" in (folder / "report.html").read_text()
        assert result["traffic"]["sent"] > 0
        assert (
            json.loads((folder / "result.json").read_text())["job"]["digest"]
            == Job.read(tmp_path / "out" / "job.toml").digest
        )


@pytest.mark.slow
def test_a_simulated_party_with_other_columns_is_named(tmp_path):
    write_table(tmp_path / "one.csv")
    pl.read_csv(tmp_path / "one.csv").select("b", "a", "c", "d").write_csv(tmp_path / "two.csv")
    code = "from tacit.cli.main import main; main()"
    words = [
        "parties",
        "simulate",
        tmp_path / "one.csv",
        tmp_path / "two.csv",
        "--set",
        "n_components=2",
        "--timeout",
        "2",
    ]
    command = [sys.executable, "-c", code, *words, "-o", tmp_path / "out", "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 8
    message = json.loads(done.stdout)["error"]["message"]
    assert "party-2" in message
    assert "another order" in message
