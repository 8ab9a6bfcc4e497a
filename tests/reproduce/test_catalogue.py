"""The list of tables and figures: complete for three papers, with code that exists and data that is described."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.errors import InvalidInputError
from tacit.reproduce.catalogue import PAPERS, catalogue, chosen
from tacit.reproduce.data import data_sets
from tacit.reproduce.pages import resolve, source_link, write_markdown
from tacit.reproduce.results import read

ITEMS = catalogue()
PAGES = Path(__file__).parents[2] / "docs" / "reproduce"
WANTED = {
    "saha-imtiaz": {"table-2", "table-3", "table-4", *(f"figure-{number}" for number in range(2, 11))},
    "mugdho-imtiaz": {f"figure-{number}" for number in range(1, 28)},
    "tsikhanovich": {*(f"table-{n}" for n in (1, 2, 3)), "figure-4a", "figure-4b", "figure-4c", "figure-5", "figure-6"},
}


@pytest.mark.parametrize("paper", WANTED)
def test_every_table_and_figure_of_the_paper_is_listed(paper):
    listed = {name for entry in ITEMS if entry.paper == paper for name in entry.covers}
    assert WANTED[paper] - listed == set()


def test_names_are_unique_and_say_what_they_are():
    names = [(entry.paper, entry.name) for entry in ITEMS]
    assert len(set(names)) == len(names)
    assert {entry.paper for entry in ITEMS} <= {paper.name for paper in PAPERS}
    for entry in ITEMS:
        assert entry.title
        assert entry.minutes > 0
        assert entry.run.__doc__, entry.name
        if entry.paper in WANTED:
            assert re.fullmatch(r"(table|figure)-\d+|figures-\d+-\d+", entry.name)
            assert entry.page > 0


@pytest.mark.parametrize("entry", ITEMS, ids=lambda entry: f"{entry.paper}-{entry.name}")
def test_code_and_data_exist(entry, tmp_path):
    assert entry.code
    known = data_sets()
    assert set(entry.needs) <= set(known)
    for name in entry.code:
        if name.startswith("tacit.neural"):
            pytest.importorskip("torch")
        assert resolve(name) is not None
        assert re.search(r"src/tacit/.*\.py#L\d+$", source_link(resolve(name), tmp_path)), name
    assert re.search(r"src/tacit/.*\.py#L\d+$", source_link(entry.run, tmp_path))


def test_every_data_set_says_where_it_is_published_and_what_stands_in():
    for described in data_sets().values():
        assert described.published.startswith(("http", "nowhere: ")), described.name
        assert described.layouts or described.stand_in
        assert (described.stand_in is None) == (not described.stand_in_title), described.name


def test_a_covered_figure_is_found_by_its_own_name():
    assert [entry.name for entry in chosen("mugdho-imtiaz", ["figure-8"])] == ["figures-7-18"]
    assert [entry.name for entry in chosen("mugdho-imtiaz", ["figure-8", "figure-9"])] == ["figures-7-18"]
    with pytest.raises(InvalidInputError, match="figures-1-6"):
        chosen("mugdho-imtiaz", ["figure-99"])
    with pytest.raises(InvalidInputError, match="saha-imtiaz"):
        chosen("nobody", [])


@pytest.mark.parametrize("paper", [paper.name for paper in PAPERS])
def test_the_page_of_results_is_dated_and_explains_every_number(paper):
    """Each section of the pages in docs/ is of an item that exists, has its date, and a sentence for each row."""
    text = (PAGES / f"{paper}.md").read_text(encoding="utf-8")
    known = {entry.name for entry in ITEMS if entry.paper == paper}
    sections = text.split("\n## ")[1:]
    assert sections
    for section in sections:
        name = section.partition(":")[0]
        assert name in known
        assert re.search(r"Computed on \d{4}-\d\d-\d\d in .* \(\d+ cores", section.replace("\n", " ")), name
        rows = [line for line in section.splitlines() if line.startswith("|")]
        assert all(row.rstrip("|").split("|")[-1].strip() for row in rows), name
        for figure in re.findall(r"!\[.*\]\((.*)\)", section):
            assert (PAGES / figure).exists()
    shown = {section.partition(":")[0] for section in sections}
    absent = re.search(r"Without a result: ([^#]*?)\.\n\n", text)
    said = set(re.split(r",\s+", absent[1].replace("\n", " "))) if absent else set()
    assert {name.strip() for name in said} == known - shown


def without_places(text):
    """Leave out what does not come from the result: where the sources are."""
    return re.sub(r"\]\(\S*src/tacit/(\S*)\.py#L\d+\)", r"](\1)", text)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_pages_come_from_the_files_of_results(paper, tmp_path, monkeypatch):
    """Nobody has edited a section by hand, if its result is there; the page names all others."""
    for drawing in ("curves_svg", "pictures_svg"):  # a figure takes a tenth of a second
        monkeypatch.setattr(f"tacit.reproduce.pages.{drawing}", lambda figure: "")
    entries = [entry for entry in ITEMS if entry.paper == paper.name]
    found = [read(PAGES / "results" / paper.name / f"{entry.name}.json", entry) for entry in entries]
    results = [result for result in found if result is not None]
    assert not any(result.settings["quick"] for result in results)
    page = without_places((PAGES / f"{paper.name}.md").read_text(encoding="utf-8"))
    made = without_places(write_markdown(paper, results, tmp_path).read_text(encoding="utf-8"))
    sections, shown = made.split("\n## ")[1:], page.split("\n## ")[1:]
    assert {section.rstrip() for section in sections} <= {section.rstrip() for section in shown}
    kept = re.search(r"Kept from an earlier page, without the file of its result: ([^#]*?)\.\n\n", page)
    said = re.split(r",\s+", kept[1].replace("\n", " ")) if kept else []
    there = {result.item.name for result in results}
    assert set(said) == {section.partition(":")[0] for section in shown} - there
    for drawn in (tmp_path / paper.name).glob("*.svg"):
        assert (PAGES / paper.name / drawn.name).exists()
