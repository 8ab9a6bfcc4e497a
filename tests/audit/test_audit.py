"""The audit as a whole: what it states, what it writes, and what it refuses to state."""

import json
import sys

import numpy as np
import pytest
from subjects import IMAGES
from typer.testing import CliRunner

from tacit import Ledger, PrivateMoments, PrivateNMF, PrivateRecommender
from tacit.audit import Certificate, audit
from tacit.cli.main import app
from tacit.data import make_ratings
from tacit.errors import InvalidInputError, TacitError

FAST = {"runs": 40, "bugs": False, "insecure_seed": 1}


@pytest.fixture(scope="module")
def found():
    return audit(PrivateMoments(epsilon=1.0, row_norm=2.0), IMAGES, attacks=("replay", "white box"), **FAST)


def test_nothing_seen_is_not_called_private(found):
    assert not found.violations
    assert "does not show that the model is private" in found.verdict
    assert "disproved" not in found.verdict


def test_the_certificate_says_what_was_audited_and_nothing_of_the_data(found, tmp_path):
    found.save(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert written["claimed"] == {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "adjacency": "add-remove"}
    assert written["settings"]["row_norm"] == 2.0
    assert written["data"] == "private"
    assert "no budget covers" in written["publication"]
    assert written["tacit"]
    other = audit(PrivateMoments(epsilon=1.0, row_norm=2.0), IMAGES[:40], attacks=("replay",), **FAST)
    assert other.fingerprint == found.fingerprint
    changed = audit(PrivateMoments(epsilon=1.1, row_norm=2.0), IMAGES[:40], attacks=("replay",), **FAST)
    assert changed.fingerprint != found.fingerprint


def test_a_changed_certificate_is_refused(found, tmp_path):
    found.save(tmp_path)
    path = tmp_path / "certificate.json"
    assert Certificate.read(path).digest == found.certificate.digest
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5'))
    with pytest.raises(InvalidInputError, match="digest"):
        Certificate.read(path)


def test_made_up_data_may_be_published(found):
    assert not found.certificate.may_be_published
    public = audit(PrivateMoments(row_norm=2.0), IMAGES, attacks=("replay",), made_up=True, **FAST)
    assert public.certificate.may_be_published


def test_a_ledger_chains_the_certificate_at_no_cost(found, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("faces", epsilon=2.0, delta=1e-6)
    head = ledger.head
    found.chain(ledger, "faces")
    assert [noted.certificate for noted in ledger.audits("faces")] == [found.certificate.digest]
    assert ledger.head != head
    assert ledger.remaining("faces").spent == 0
    assert ledger.verify() == 2
    with pytest.raises(TacitError):
        ledger.note_audit("others", found.certificate.digest)
    with pytest.raises(InvalidInputError, match="digest"):
        ledger.note_audit("faces", "no digest")


def test_an_audit_charges_no_ledger(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("faces", epsilon=2.0, delta=1e-6)
    model = PrivateMoments(row_norm=2.0, ledger=ledger, dataset="faces")
    audit(model, IMAGES, attacks=("replay",), **FAST)
    assert ledger.remaining("faces").spent == 0


def test_a_model_without_noise_is_reported_as_such():
    found = audit(
        PrivateNMF(2, method="published", rounds=2, row_norm=2.0), IMAGES, attacks=("replay", "white box"), **FAST
    )
    assert found.violations
    assert "No guarantee is claimed" in found.verdict


@pytest.mark.slow
def test_a_continued_audit_attacks_the_same_unit_and_repeats_no_run(tmp_path):
    journal = tmp_path / "journal.jsonl"
    settings = {"attacks": ("white box", "attributes"), "runs": 40, "bugs": False, "seconds": 0.0, "journal": journal}
    model = PrivateMoments(row_norm=2.0)
    first = audit(model, IMAGES, **settings)
    noted = journal.read_text()
    assert journal.stat().st_mode & 0o077 == 0
    again = audit(model, IMAGES, **settings)  # with other noise, which could have chosen another unit
    assert journal.read_text() == noted
    assert [one.to_dict() for one in again.findings] == [one.to_dict() for one in first.findings]


def test_the_unit_that_an_audit_began_with_is_kept(tmp_path, monkeypatch):
    journal = tmp_path / "journal.jsonl"
    settings = {"attacks": ("replay",), "journal": journal, **FAST}
    audit(PrivateMoments(row_norm=2.0), IMAGES, **settings)
    chosen = [values for key, values in map(json.loads, journal.read_text().splitlines()) if key.startswith("worst")]
    module = sys.modules["tacit.audit.audit"]
    monkeypatch.setattr(module, "worst_pair", lambda *pairs, **settings: pytest.fail("chosen a second time"))
    audit(PrivateMoments(row_norm=2.0), IMAGES, **settings)
    assert len(chosen) == 1


def test_ratings_with_texts_as_ids_are_audited():
    data = make_ratings(20, 6, ratings_per_user=3, random_state=1)
    users, items = (
        np.array([f"{kind}{one}" for one in ids], dtype=object) for kind, ids in (("u", data.users), ("i", data.items))
    )
    model = PrivateRecommender(1, epsilon=1.0, catalogue=sorted(set(items.tolist())))
    found = audit(model, (users, items, data.ratings), attacks=("white box",), seconds=0.0, **FAST)
    assert found.lower_bound > 0.1


@pytest.mark.slow
def test_tests_of_every_kind_share_the_level():
    attacks = ("white box", "attributes", "presence")
    found = audit(PrivateMoments(row_norm=2.0), IMAGES, attacks=attacks, seconds=0.0, **FAST)
    assert [one.confidence for one in found.findings] == pytest.approx([1 - 0.05 / 3] * 3)


@pytest.mark.slow
def test_many_runs_stand_in_where_one_run_cannot_be_attacked():
    stages = []
    narrow = audit(PrivateMoments(row_norm=2.0), IMAGES[:, :3], seconds=0.0, progress=stages.append, **FAST)
    assert [one.method for one in narrow.findings] == ["replay", "white box", "many runs", "membership"]
    assert [one.confidence for one in narrow.findings[1:]] == pytest.approx([1 - 0.05 / 3] * 3)
    assert "so far: epsilon of at least 0." in stages[-1]


@pytest.mark.slow
def test_no_bug_is_planted_after_the_time():
    settings = {**FAST, "bugs": True, "attacks": ("replay",)}
    assert audit(PrivateMoments(row_norm=2.0), IMAGES, seconds=-1.0, **settings).bugs == ()
    assert len(audit(PrivateMoments(row_norm=2.0), IMAGES, seconds=60.0, **settings).bugs) == 5


def test_results_show_no_values_in_their_repr(found):
    assert "0." not in repr(found)
    assert "<svg" in found.report.html()
    assert found._repr_html_().startswith("<iframe")


@pytest.mark.slow
def test_the_command(tmp_path):
    source = tmp_path / "rows.csv"
    header = ",".join(f"c{place}" for place in range(IMAGES.shape[1]))
    np.savetxt(source, IMAGES, delimiter=",", header=header, comments="")
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("faces", epsilon=2.0, delta=1e-6)
    options = ["--runs", "40", "--no-bugs", "--only", "white box", "--json", "--output", str(tmp_path / "out")]
    chained = ["--ledger", str(tmp_path / "budget.db"), "--dataset", "faces"]
    command = ["fit", "svd", str(source), "--rank", "2", "--epsilon", "1", "--unit-rows"]
    result = CliRunner().invoke(app, ["audit", *options, *chained, *command], catch_exceptions=False)
    values = json.loads(result.output)
    assert values["claimed"]["epsilon"] == pytest.approx(1.0)
    assert 0 < values["lower_bound"] < 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "certificate.json",
        "journal.jsonl",
        "report.html",
        "result.json",
    }
    assert len(ledger.audits("faces")) == 1
    assert ledger.remaining("faces").spent == 0


@pytest.mark.parametrize("command", [["fit", "nonsense"], ["budget", "show"], ["fit"]])
def test_commands_that_cannot_be_audited_are_refused(command, tmp_path):
    result = CliRunner().invoke(app, ["audit", "--output", str(tmp_path / "out"), *command])
    assert result.exit_code != 0


def test_a_command_without_epsilon_has_no_claim(tmp_path):
    np.savetxt(tmp_path / "rows.csv", IMAGES, delimiter=",", header=",".join("abcdefghijklmnop"), comments="")
    arguments = ["fit", "nmf", str(tmp_path / "rows.csv"), "--rank", "2"]
    result = CliRunner().invoke(app, ["audit", "--output", str(tmp_path / "out"), *arguments])
    assert result.exit_code != 0
