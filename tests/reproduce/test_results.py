"""Verdicts, results that are used again, pages, and the command."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize
from typer.testing import CliRunner

from tacit.cli.main import app
from tacit.errors import InvalidInputError
from tacit.reproduce.catalogue import Item, ItemRun, Paper
from tacit.reproduce.data import DataFolder
from tacit.reproduce.drawing import curves_svg
from tacit.reproduce.outcome import (
    NO_NUMBER,
    Curve,
    Figure,
    ItemOutcome,
    PictureGrid,
    PictureRow,
    Row,
    SideBySide,
    WordList,
    WordLists,
    same_order,
)
from tacit.reproduce.pages import QUICK, write_html, write_markdown
from tacit.reproduce.results import obtain
from tacit.reproduce.saha_imtiaz.ratings import rmse

PAPER = Paper("made-up", "made_up", "N. Body. On nothing. 2000.")


@pytest.mark.parametrize(
    ("paper", "ours", "better", "expected"),
    [
        (0.5, (0.4, 0.4), "lower", "better"),
        (0.5, (0.6, 0.6), "lower", "worse"),
        (0.5, (0.6, 0.6), "higher", "better"),
        (0.5, (0.50004,), "lower", "equal"),  # within the paper's rounding
        (0.5, (0.4, 0.7), "lower", "equal"),  # within two standard errors
        (0.5, (0.4,), None, "not comparable"),
        (None, (0.4,), "lower", "not comparable"),
        (0.5, (math.nan,), "lower", "not comparable"),
    ],
)
def test_verdicts(paper, ours, better, expected):
    assert Row("x", paper, ours, better, "why").verdict == expected


def test_spread_and_number_are_shown():
    table = SideBySide("t", ("x", "y"), (Row(("a", "b"), 1.0, (1.0, 3.0), "lower", "why", 2),))
    assert table.headings() == ["x", "y", "paper", "ours", "n", "ours is", "remark"]
    assert table.cells() == [["a", "b", "1.00", "2.00 ± 1.41", "2", "equal", "why"]]
    table = SideBySide("t", ("x",), (Row("a", None, (1.0,)),))
    assert table.cells() == [["a", "-", "1.0000", "1", "not comparable", NO_NUMBER]]


def test_evidence_about_a_claim_says_whether_it_holds():
    rows = (Row("a", 1.0, (2.0,), "lower", "why"), Row("b", 1.0, (0.5,), "lower", "why"))
    table = SideBySide("t", ("x",), rows, heads=("stated", "measured"), of_claim=True)
    assert table.headings() == ["x", "stated", "measured", "n", "the claim", "remark"]
    assert [row[-2] for row in table.cells()] == ["does not hold", "holds"]
    assert ItemOutcome.from_json(json.loads(json.dumps(ItemOutcome((table,)).to_json()))).tables == (table,)


def test_the_order_of_numbers_is_compared_by_ranks():
    rows = [Row("x", paper, (ours,), None, "why") for paper, ours in ((1, 10), (2, 30), (3, 20), (4, 90))]
    (said,) = same_order([*rows, Row("x", None, (5.0,))])
    assert "over 4 numbers: 0.80" in said
    assert same_order(rows[:3]) == ()
    assert same_order([Row("x", 1.0, (float(n),), None, "why") for n in range(9)]) == ()


def whole() -> ItemOutcome:
    images = np.arange(8.0).reshape(2, 4)
    return ItemOutcome(
        (SideBySide("a | caption", ("x",), (Row("one", 2.0, (1.0, 1.5), "lower", "because"),)),),
        (
            Figure(
                "curves", "x", "y", (Curve.of("c", (1, 2), [[1, 2], [3, 4]]), Curve("d", (1,), (2,), right=True)), True
            ),
        ),
        (PictureGrid("pictures", (PictureRow.of("row", images, (2, 2)),)),),
        (WordLists("words", (WordList("topic <1>", ("a", "b")),)),),
        ("It holds.", "See `a < b`."),
    )


def test_json_keeps_everything():
    outcome = whole()
    found = ItemOutcome.from_json(json.loads(json.dumps(outcome.to_json())))
    assert found.tables == outcome.tables
    assert found.figures == outcome.figures
    assert found.words == outcome.words
    assert found.verdicts == outcome.verdicts
    assert np.array_equal(found.pictures[0].rows[0].images, outcome.pictures[0].rows[0].images)
    assert outcome.pictures[0].rows[0].images[0].ravel().tolist() == [0, 85, 170, 255]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Curve("c", (1.0,), (math.nan,)), "finite"),
        (lambda: Curve("c", (1.0, 2.0), (1.0,)), "as many"),
        (lambda: Curve("c", (), ()), "points"),
        (lambda: Figure("f", "x", "y", ()), "no curves"),
        (lambda: Row("one", 2.0, (1.0,), "lower"), "sentence"),
        (lambda: SideBySide("t", ("a", "b"), (Row("one", 2.0, (1.0,), remark="why"),)), "label"),
        (lambda: SideBySide("t", ("a",), (Row("one", 2.0, (math.nan,), remark="why"),)), "no row"),
        (lambda: Figure("f", "x", "y", (Curve("c", (1.0, 2.0), (1.0, 2.0)),), ticks=("a", "b")), "place"),
        (lambda: ItemOutcome(figures=whole().figures * 2), "same caption"),
    ],
)
def test_outcomes_that_a_page_cannot_show_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


def test_an_item_without_an_outcome_fails(tmp_path):
    empty = Item("made-up", "table-1", "nothing", 3, (), 1.0, lambda run: ItemOutcome(verdicts=("Done.",)), ("tacit",))
    (result,) = obtain([empty], ItemRun(DataFolder(tmp_path)), tmp_path)
    assert "no table" in str(result.error)
    assert not list(tmp_path.rglob("*.json"))


CALLS: list[int] = []


def counted(run: ItemRun) -> ItemOutcome:
    """Count the calls."""
    CALLS.append(run.repetitions)
    return whole()


ITEM = Item("made-up", "table-1", "nothing", 3, (), 1.0, counted, ("tacit.reproduce.outcome.Row",), covers=("table-1",))


@pytest.fixture
def calls() -> list[int]:
    CALLS.clear()
    return CALLS


def test_results_are_used_again_unless_the_settings_differ(tmp_path, calls):
    item, run = ITEM, ItemRun(DataFolder(tmp_path))
    first = obtain([item], run, tmp_path)
    again = obtain([item], run, tmp_path)
    assert calls == [3]
    assert not first[0].reused
    assert again[0].reused
    assert again[0].outcome.tables == first[0].outcome.tables
    obtain([item], ItemRun(DataFolder(tmp_path), repetitions=5), tmp_path)
    obtain([item], ItemRun(DataFolder(tmp_path), repetitions=5), tmp_path, overwrite=True)
    assert calls == [3, 5, 5]
    (tmp_path / "made-up" / "table-1.json").write_text("{")  # as after a crash of another program
    obtain([item], run, tmp_path)
    assert calls == [3, 5, 5, 3]


def test_an_interrupted_run_goes_on(tmp_path, calls):
    def fails(run: ItemRun) -> ItemOutcome:
        raise KeyboardInterrupt

    bad = Item("made-up", "table-2", "nothing", 3, (), 1.0, fails, ("tacit",))
    with pytest.raises(KeyboardInterrupt):
        obtain([ITEM, bad], ItemRun(DataFolder(tmp_path)), tmp_path)
    obtain([ITEM], ItemRun(DataFolder(tmp_path)), tmp_path)
    assert calls == [3]


def test_a_long_item_goes_on_with_the_part_at_which_it_was_interrupted(tmp_path):
    computed: list[str] = []

    def long(run: ItemRun) -> ItemOutcome:
        def one(name: str) -> float:
            computed.append(name)
            if computed == ["a", "b"]:
                raise KeyboardInterrupt
            return float(len(computed))

        values = tuple(run.part(name, lambda name=name: one(name)) for name in ("a", "b", "c"))
        return ItemOutcome((SideBySide("t", ("x",), (Row("y", 1.0, values, "lower", "why"),)),))

    item = Item("made-up", "table-6.1", "long", 3, (), 1.0, long, ("tacit",))
    run = ItemRun(DataFolder(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        obtain([item], run, tmp_path)
    (result,) = obtain([item], replace(run, seed=1), tmp_path)
    assert computed == ["a", "b", "a", "b", "c"]  # other settings: nothing is used again
    assert not list(tmp_path.rglob("*.unfinished"))
    computed.clear()
    with pytest.raises(KeyboardInterrupt):
        obtain([item], run, tmp_path)
    (result,) = obtain([item], run, tmp_path)
    assert computed == ["a", "b", "b", "c"]
    assert result.outcome.tables[0].rows[0].ours == (1.0, 3.0, 4.0)
    assert not list(tmp_path.rglob("*.unfinished"))
    computed.clear()
    with pytest.raises(KeyboardInterrupt):
        obtain([item], run, tmp_path, overwrite=True)
    obtain([item], run, tmp_path, overwrite=True)
    assert computed == ["a", "b", "a", "b", "c"]


def broken(run: ItemRun) -> ItemOutcome:
    """Fail."""
    raise ZeroDivisionError


def test_an_item_that_fails_does_not_keep_others_from_running(tmp_path, calls, monkeypatch):
    bad = Item("saha-imtiaz", "table-2", "nothing", 3, (), 1.0, broken, ("tacit",))
    good = Item("saha-imtiaz", "table-3", "nothing", 3, (), 1.0, counted, ("tacit",))
    monkeypatch.setattr(sys.modules["tacit.reproduce.catalogue"], "chosen", lambda paper, names: [bad, good])
    command = ["reproduce", "saha-imtiaz", "--all", "--data", str(tmp_path), "--output", str(tmp_path / "o")]
    done = CliRunner().invoke(app, command)
    assert calls == [3]
    assert isinstance(done.exception, ZeroDivisionError)
    assert "failed: saha-imtiaz table-2 (ZeroDivisionError)" in done.output
    page = (tmp_path / "o" / "saha_imtiaz.html").read_text(encoding="utf-8")
    assert 'id="table-3"' in page
    assert "Without a result: table-2." in page
    assert CliRunner().invoke(app, command).exception is not None
    assert calls == [3]  # kept, although another item failed


def noisy(run: ItemRun) -> ItemOutcome:
    """Warn once for each repetition."""
    for _ in run.seeds:
        with warnings.catch_warnings():  # the filter "once" forgets at this
            pass
        warnings.warn("the same words for each repetition", UserWarning, stacklevel=1)
    return whole()


def test_the_same_warning_is_given_once(tmp_path):
    item = Item("made-up", "table-1", "nothing", 3, (), 1.0, noisy, ("tacit",))
    with pytest.warns(UserWarning, match="same words") as found:  # and not one for each of the repetitions
        obtain([item], ItemRun(DataFolder(tmp_path), repetitions=5), tmp_path)
    assert len(found) == 1


def test_missing_data_are_a_result_that_is_not_kept(tmp_path):
    item = Item("made-up", "table-1", "nothing", 3, ("movielens-1m",), 1.0, lambda run: whole(), ("tacit",))
    (result,) = obtain([item], ItemRun(DataFolder(tmp_path)), tmp_path)
    assert "grouplens.org" in result.missing
    assert not list(tmp_path.rglob("*.json"))


def test_pages_show_all_and_escape(tmp_path):
    results = obtain([ITEM], ItemRun(DataFolder(tmp_path), quick=True), tmp_path)
    page = write_html(PAPER, results, tmp_path).read_text(encoding="utf-8")
    for text in (
        "because",
        "better",
        "It holds.",
        "See <code>a &lt; b</code>.",
        "topic &lt;1&gt;",
        "<svg",
        "outcome.py#L",
        QUICK,
        "reproduce made-up table-1",
    ):
        assert text in page
    text = write_markdown(PAPER, results, tmp_path / "md").read_text(encoding="utf-8")
    assert "| one | 2.0000 | 1.2500 ± 0.3536 | 2 | better | because |" in text
    for picture in (1, 2):
        svg = tmp_path / "md" / "made-up" / f"table-1-{picture}.svg"
        assert svg.stat().st_size < 100_000
        assert f"made-up/{svg.name}" in text


def test_a_section_says_when_where_and_how_often_was_measured(tmp_path):
    (result,) = obtain([ITEM], ItemRun(DataFolder(tmp_path), repetitions=2), tmp_path)
    assert re.fullmatch(r"\d+ cores(, \d+ GB of memory)?; Python \S+, tacit \S+", result.machine)
    text = write_markdown(PAPER, [result], tmp_path / "md").read_text(encoding="utf-8").replace("\n", " ")
    assert f"Computed on {result.date} in about a second ({result.machine}), at most 2 repetitions." in text
    assert "Numbers beside the paper's, by verdict: better: 1." in text


def test_markdown_keeps_sections_of_earlier_runs(tmp_path):
    run = ItemRun(DataFolder(tmp_path))
    other = Item("made-up", "table-12", "nothing", 3, (), 1.0, counted, ("tacit",))
    first, second = obtain([ITEM, other], run, tmp_path)
    write_markdown(PAPER, [second], tmp_path / "md", absent=["table-1"])
    page = write_markdown(PAPER, [first], tmp_path / "md", absent=["table-12"])
    both = page.read_text(encoding="utf-8")
    assert both.count("\n## table-1:") == both.count("\n## table-12:") == 1
    assert "Without a result" not in both
    assert "better: 2." in both
    assert (tmp_path / "md" / "made-up" / "table-12-1.svg").exists()
    assert write_markdown(PAPER, [first], tmp_path / "md", absent=["table-12"]).read_text(encoding="utf-8") == both


def test_points_are_not_joined():
    curve = Curve("cloud", (1.0, 2.0, 1.5), (3.0, 1.0, 2.0))
    joined, single = (curves_svg(Figure("f", "x", "y", (curve,), points=points)) for points in (False, True))
    assert "PathCollection" in single
    assert "PathCollection" not in joined


def test_figures_that_an_item_no_longer_has_are_removed(tmp_path):
    (result,) = obtain([ITEM], ItemRun(DataFolder(tmp_path)), tmp_path)
    folder = tmp_path / "md" / "made-up"
    folder.mkdir(parents=True)
    for name in ("table-1-9.svg", "table-1-2-1.svg"):
        (folder / name).write_text("old")
    write_markdown(PAPER, [result], tmp_path / "md")
    assert sorted(path.name for path in folder.iterdir()) == ["table-1-1.svg", "table-1-2-1.svg", "table-1-2.svg"]


def test_the_command_lists_and_names_what_is_missing(tmp_path):
    runner = CliRunner()
    listed = runner.invoke(app, ["reproduce", "--data", str(tmp_path), "--json"])
    assert listed.exit_code == 0
    found = {(entry["paper"], entry["item"]): entry for entry in json.loads(listed.stdout)}
    assert found["saha-imtiaz", "table-4"]["data"] == {"movielens-1m": "missing"}
    assert "grouplens.org" in runner.invoke(app, ["reproduce", "saha-imtiaz", "--data", str(tmp_path)]).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("saha-imtiaz", "table-4"), "movielens-1m"),
        (("saha-imtiaz", "table-99"), "table-4"),
        (("nobody",), "saha-imtiaz"),
        (("saha-imtiaz", "table-4", "--all"), "both"),
    ],
)
def test_wrong_requests_are_refused(tmp_path, arguments, message):
    done = CliRunner().invoke(app, ["reproduce", *arguments, "--data", str(tmp_path), "--output", str(tmp_path / "o")])
    assert isinstance(done.exception, InvalidInputError)
    assert message in str(done.exception)
    assert done.exception.exit_code == 2


def test_pages_can_be_written_again_without_computing(tmp_path, monkeypatch):
    command = ["reproduce", "saha-imtiaz", "--pages", "--data", str(tmp_path), "--output", str(tmp_path / "o")]
    monkeypatch.setattr("tacit.reproduce.results.obtain_one", None)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.exception
    assert "Nothing was computed" in (tmp_path / "o" / "saha_imtiaz.html").read_text(encoding="utf-8")


def test_a_whole_paper_without_its_data_says_what_is_missing(tmp_path):
    command = ["reproduce", "saha-imtiaz", "--all", "--quick", "--data", str(tmp_path), "--output", str(tmp_path / "o")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    assert "not computed" in done.stdout
    assert "grouplens.org" in (tmp_path / "o" / "saha_imtiaz.html").read_text(encoding="utf-8")


def test_the_scale_of_table_4():
    """Rows of length 1 and the observed ratings only: no model at all has the RMSE sqrt(users / ratings)."""
    X = normalize(csr_array([[5.0, 0, 3], [0, 4, 1], [2, 2, 0]]))
    assert rmse(X, np.zeros((3, 1)), np.zeros((1, 3))) == pytest.approx(math.sqrt(3 / 6))
    assert rmse(X, np.eye(3), X.toarray()) == pytest.approx(0)
