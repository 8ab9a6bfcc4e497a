"""The results of the functions behind the commands: values, a page, and files."""

import dataclasses
import importlib
import inspect
import json
import pkgutil

import pytest

import tacit.report
from tacit.cli.output import check_output_file, print_json
from tacit.errors import InvalidInputError
from tacit.report import Report
from tacit.report.result import Result, Shown

MODULES = [importlib.import_module(f"tacit.report.{one.name}") for one in pkgutil.iter_modules(tacit.report.__path__)]


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


def test_values_that_are_not_finite_are_null_for_programs_that_know_no_nan(tmp_path, capsys):
    values = {"bias": float("nan"), "scores": [1.0, (float("inf"), 2)], "name": "nan"}
    finite = {"bias": None, "scores": [1.0, [None, 2]], "name": "nan"}

    def refused(constant):
        raise AssertionError(constant)

    Result(values, Report("A fit")).write(tmp_path)
    print_json(values)
    for text in ((tmp_path / "result.json").read_text(), capsys.readouterr().out):
        assert json.loads(text, parse_constant=refused) == finite


def test_an_output_file_that_exists_or_cannot_be_written_is_refused(tmp_path):
    taken, free = tmp_path / "a.csv", tmp_path / "new" / "folder" / "b.csv"
    taken.write_text("paid for")
    check_output_file(free, overwrite=False)
    assert not free.parent.exists()
    with pytest.raises(InvalidInputError, match=r"a\.csv.*Give another output, or --overwrite"):
        check_output_file(taken, overwrite=False)
    check_output_file(taken, overwrite=True)
    for path in (tmp_path, taken / "b.csv"):
        with pytest.raises(InvalidInputError, match="an output file that can be written"):
            check_output_file(path, overwrite=True)


RESULTS = [
    cls
    for module in MODULES
    for _, cls in inspect.getmembers(module, inspect.isclass)
    if issubclass(cls, Shown) and dataclasses.is_dataclass(cls)
]


@pytest.mark.parametrize("cls", sorted(set(RESULTS), key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__)
def test_the_repr_of_a_result_says_what_it_is_and_holds_no_values(cls):
    """People paste reprs into messages and logs; the values of these results are for the holder only."""
    result = object.__new__(cls)
    for field in dataclasses.fields(cls):
        object.__setattr__(result, field.name, {"secret": 8675309})
    assert repr(result) == str(result)
    assert "8675309" not in repr(result)
    assert cls.__name__ in repr(result)
    assert ".summary" in repr(result)


def test_all_kinds_of_results_are_tested():
    assert len(set(RESULTS)) >= 10
