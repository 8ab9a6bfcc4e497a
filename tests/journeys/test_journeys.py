"""Ten tasks of a new user: the very commands and code of the documentation run first time, in an empty folder."""

import csv
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
JOURNEYS = tomllib.loads((Path(__file__).parent / "journeys.toml").read_text("utf-8"))
NEEDS = {"network": "torch", "notebook": "pandas"}


def steps(page):
    """Return the blocks of a page that a reader runs: Python, and commands."""
    text = (TUTORIALS / f"{page}.md").read_text("utf-8")
    return re.findall(r"^```(python|sh)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def program(page):
    """Return one program that does what a reader does: a command stops it if it fails."""
    parts = ["import subprocess"]
    for language, block in steps(page):
        if language == "python":
            parts.append(block)
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "tacit":
                command = [sys.executable, "-c", "from tacit.cli.main import main; main()", *words[1:]]
                parts.append(f"subprocess.run({command!r}, check=True)")
    return "\n".join(parts)


def run(page, folder):
    env = {name: value for name, value in os.environ.items() if name != "TACIT_LEDGER"}
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", program(page)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("journey", JOURNEYS)
def test_a_journey_works_first_time(journey, tmp_path):
    page = JOURNEYS[journey]["page"]
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in JOURNEYS[journey].get("files", []):
        assert (tmp_path / name).exists(), name
    assert "Traceback" not in done.stderr
    assert not re.search(r"\.py:\d+: \w*Warning", re.sub(r"<string>:\d+: ", "", done.stderr))
    for check in CHECKS.get(journey, []):
        check(tmp_path, done.stdout)


def synthetic_rows_have_dates_gaps_and_no_ids(folder, _printed):
    with (folder / "synthetic.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert "customer_id" not in rows[0]
    assert {row["city"] for row in rows} <= {"Ulm", "Bonn", "Kiel"}
    assert all(re.fullmatch(r"2024-\d\d-\d\d", row["joined"]) for row in rows)
    assert 0 < sum(row["income"] == "" for row in rows) < len(rows)


def report_says_what_it_is_about(folder, _printed):
    page = (folder / "topics" / "report.html").read_text("utf-8")
    for part in ("reviews.csv", "rows fitted", "for the holder only", "may be passed on", "topic coherence"):
        assert part in page, part


def weights_have_one_row_per_photo(folder, _printed):
    assert len((folder / "weights.csv").read_text("utf-8").splitlines()) == 601


def settings_come_back(_folder, printed):
    assert re.search(r"^1\.0 (1\.99|2\.0)", printed, flags=re.MULTILINE)


CHECKS = {
    "mixed_table": [synthetic_rows_have_dates_gaps_and_no_ids],
    "texts_in_a_table": [report_says_what_it_is_about],
    "photos": [weights_have_one_row_per_photo],
    "notebook": [settings_come_back],
}


def test_every_journey_has_a_page_with_commands_or_code():
    assert len(JOURNEYS) == 10
    for journey in JOURNEYS.values():
        assert steps(journey["page"]), journey["page"]
