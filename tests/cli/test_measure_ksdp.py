"""`tacit measure ksdp`, as a user runs it."""

import json

import numpy as np
import pytest
from test_cli import invoke

from tacit.errors import InvalidInputError

X = np.abs(np.random.default_rng(6).standard_normal((200, 6)))
X[11] *= 25


@pytest.fixture
def table(tmp_path):
    np.save(tmp_path / "table.npy", X)
    return tmp_path / "table.npy"


@pytest.mark.slow
def test_a_strange_row_is_named(tmp_path, table):
    found = invoke(
        *(
            "measure",
            "ksdp",
            table,
            "--model",
            "svd",
            "--rank",
            2,
            "--reveal-singular-values",
            "--no-unit-rows",
            "--jobs",
            1,
        ),
        *("--only", "3,11", "--size", 20, "--samples", 15, "--output", tmp_path / "out", "--json"),
    )
    assert found.exit_code == 0, found.output
    result = json.loads(found.output)
    assert 11 in result["flagged"]
    assert result["guarantee"]["kind"] == "measured"
    assert result == json.loads((tmp_path / "out" / "result.json").read_text())
    page = (tmp_path / "out" / "report.html").read_text()
    assert "not a privacy guarantee" in page
    assert "<svg" in page


@pytest.mark.slow
@pytest.mark.parametrize("model", ["nmf", "pca"])
def test_rows_drawn_at_random(model, tmp_path, table):
    found = invoke(
        *(
            "measure",
            "ksdp",
            table,
            "--model",
            model,
            "--rank",
            2,
            "--documents",
            2,
            "--size",
            30,
            "--holders",
            "40,50",
        ),
        *("--samples", 8, "--jobs", 1, "--output", tmp_path / "out"),
    )
    assert found.exit_code == 0, found.output
    assert "This is a measurement, not a privacy guarantee" in found.output
    assert "2 other honest holders of 90 rows" in found.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "als"],
        ["--only", "1,x"],
        ["--documents", 200],
        ["--only", "400"],
        ["--holders", "a"],
        ["--samples", 2],
    ],
)
def test_bad_arguments(arguments, tmp_path, table):
    found = invoke("measure", "ksdp", table, "--rank", 2, "--jobs", 1, *arguments, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert not (tmp_path / "out").exists()
