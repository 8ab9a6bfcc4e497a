"""The folder of a result: created before any charge, and unchanged if the fit fails."""

import threading

import pytest

from tacit.errors import InvalidInputError
from tacit.report import ResultFolder


@pytest.mark.parametrize("name", ["model", "result.json", "report.html"])
def test_an_earlier_result_is_refused_and_kept(name, tmp_path):
    path = tmp_path / "out"
    path.mkdir()
    (path / name).write_text("paid for")
    with pytest.raises(InvalidInputError, match="earlier result"), ResultFolder(path):
        raise AssertionError("entered")
    assert [(file.name, file.read_text()) for file in path.iterdir()] == [(name, "paid for")]


def test_overwriting_must_be_asked_for(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "nmf.tacit").write_text("old")
    with ResultFolder(tmp_path, overwrite=True):
        (tmp_path / "model" / "nmf.tacit").write_text("new")
    assert (tmp_path / "model" / "nmf.tacit").read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_fit_that_fails_leaves_nothing(error, tmp_path):
    def fail():
        raise error

    with pytest.raises(error), ResultFolder(tmp_path / "a" / "b" / "out"):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_fit_that_fails_with_overwrite_leaves_the_old_result(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "nmf.tacit").write_text("old")
    with pytest.raises(ZeroDivisionError), ResultFolder(tmp_path, overwrite=True):
        _ = 1 / 0
    assert (tmp_path / "model" / "nmf.tacit").read_text() == "old"


def test_what_was_written_before_a_failure_is_kept(tmp_path):
    def write_and_fail():
        (tmp_path / "out" / "model" / "nmf.tacit").write_text("paid for")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), ResultFolder(tmp_path / "out"):
        write_and_fail()
    assert (tmp_path / "out" / "model" / "nmf.tacit").read_text() == "paid for"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(InvalidInputError, match="can be written to"), ResultFolder(path):
            raise AssertionError("entered")
    assert (tmp_path / "file").read_text() == ""


def test_of_two_fits_for_one_folder_one_is_refused(tmp_path):
    barrier, outcomes = threading.Barrier(8), []

    def claim():
        barrier.wait()
        try:
            with ResultFolder(tmp_path / "out"):
                outcomes.append("claimed")
                barrier.wait(5)
        except InvalidInputError:
            outcomes.append("refused")
            barrier.wait(5)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["claimed"] + ["refused"] * 7


def test_a_result_without_a_model_makes_no_folder_for_one(tmp_path):
    with ResultFolder(tmp_path / "out", model=False):
        assert not (tmp_path / "out" / "model").exists()
