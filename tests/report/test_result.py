"""What the functions behind the commands return: values, a page, and files."""

import json

import pytest

from tacit.cli.output import refuse_existing
from tacit.errors import InvalidInputError
from tacit.report import Report
from tacit.report.result import Result


def test_a_result_is_shown_in_a_notebook_and_written(tmp_path):
    report = Report("A <title>", "")
    report.text("Verdict", 'It says "kept".')
    result = Result({"rows": 3}, report)
    shown = result._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count('"') == 8  # quotes of the page are escaped: only those of the attributes are left
    assert "kept" in shown
    result.write(tmp_path / "new" / "folder")
    assert json.loads((tmp_path / "new" / "folder" / "result.json").read_text()) == {"rows": 3}
    assert "<h2>Verdict</h2>" in (tmp_path / "new" / "folder" / "report.html").read_text()


def test_outputs_that_exist_are_refused_unless_asked(tmp_path):
    taken, free, empty = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "folder"
    taken.write_text("paid for")
    empty.mkdir()
    refuse_existing(free, empty, overwrite=False)
    with pytest.raises(InvalidInputError, match=r"a\.csv, which exists\. Give another output, or --overwrite"):
        refuse_existing(free, taken, overwrite=False)
    refuse_existing(taken, overwrite=True)
    (empty / "model.tacit").write_text("")
    with pytest.raises(InvalidInputError, match="folder"):
        refuse_existing(empty, overwrite=False)
