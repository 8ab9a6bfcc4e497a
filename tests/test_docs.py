"""What the documentation shows is true: links lead somewhere, commands and code run, no public name is missing."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from tacit.cli.main import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("_build", "api", "gallery")
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in GENERATED)
ALL_PAGES = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
JOURNEYS = tomllib.loads((ROOT / "tests" / "journeys" / "journeys.toml").read_text("utf-8"))
WITH_CHECKS = {journey["page"] for journey in JOURNEYS.values()}
"""Tutorials that tests/journeys run, with checks of what they leave."""
TUTORIALS = [
    page
    for page in PAGES
    if page.parent.name in ("tutorials", "start")
    and page.stem not in WITH_CHECKS
    and "```python" in page.read_text("utf-8")
]
COMMAND = typer.main.get_command(app)


def named(page):
    return str(page.relative_to(ROOT))


def without_code(text):
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Return the anchors that headings of a Markdown page have."""
    headings = re.findall(
        r"^#{1,3} (.+)$", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S), flags=re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def exists(target):
    """Tell whether a file is there, or will be made from what is there when the documentation is built."""
    parts = target.relative_to(DOCS).parts if target.is_relative_to(DOCS) else ()
    if parts[:1] == ("api",):
        return target.suffix == ".rst"
    if parts[:1] == ("gallery",):
        made = re.fullmatch(r"(?:sphx_glr_)?(plot_\w+?)(?:_\d{3})?\.(?:png|rst)", target.name)
        return target.name == "index.rst" or (made is not None and (ROOT / "examples" / f"{made[1]}.py").is_file())
    return target.exists()


def load_api_pages():
    spec = importlib.util.spec_from_file_location("api_pages", DOCS / "api_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ALL_PAGES, ids=named)
def test_links_lead_to_files_and_headings_that_exist(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / path)) if path else page
        if not exists(file) or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def test_a_broken_link_would_be_found():
    assert not exists(DOCS / "guide" / "nothing.md")
    assert not exists(DOCS / "gallery" / "images" / "sphx_glr_plot_nothing_001.png")
    assert exists(DOCS / "gallery" / "images" / "sphx_glr_plot_private_parts_001.png")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_lines_of_prose_are_short(page):
    text = re.sub(r"^(```|~~~).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    long = [
        line
        for line in text.splitlines()
        if len(line) > 120 and not line.startswith(("|", "#")) and "](" not in line and "`" not in line
    ]
    assert not long


def test_every_guide_shows_an_example_before_a_table_of_figures():
    for page in (DOCS / "guide").glob("*.md"):
        text = page.read_text("utf-8")
        example, figures = text.find("\n```"), re.search(r"^\|.*epsilon.*\d", text, flags=re.MULTILINE)
        assert figures is None or -1 < example < figures.start(), page


ALGORITHMS = {"Saha": 2, "Mugdho": 1, "Tsikhanovich": 7, "Ermis": 3, "Thapa": 6}
"""The number of algorithms that each paper numbers."""


def algorithms_of(paper, text):
    """Return the numbered algorithms in a paper's table, and the rows whose modules or functions do not have them."""
    section = next(part for part in text.split("\n## ") if part.startswith(paper))
    found, wrong = set(), []
    for row in re.findall(r"^\| (.+) \|$", section, flags=re.MULTILINE):
        name, where = row.split(" | ")[:2]
        numbers = {int(n) for some in re.findall(r"Algorithms? ([\d and]+)", name) for n in re.findall(r"\d", some)}
        files = [ROOT / "src" / Path(*module.split(".")) for module in re.findall(r"`(tacit(?:\.\w+)+)`", where)]
        files = [file / "__init__.py" if file.is_dir() else file.with_suffix(".py") for file in files]
        code = "".join(file.read_text("utf-8") for file in files if file.is_file())
        named = all(re.search(rf"Algorithm {n}\b|Algorithms [\w, ()-]*\b{n}\b", code) for n in numbers)
        if not all(file.is_file() for file in files) or not named:
            wrong.append(row)
        wrong += [row for function in re.findall(r"\(`(\w+)`\)", where) if f"def {function}(" not in code]
        found |= numbers
    return found, wrong


@pytest.mark.parametrize(("paper", "count"), ALGORITHMS.items())
def test_every_algorithm_of_a_paper_is_where_the_table_says(paper, count):
    found, wrong = algorithms_of(paper, (DOCS / "explain" / "papers.md").read_text("utf-8"))
    assert not wrong
    assert found == set(range(1, count + 1))


def test_a_wrong_place_of_an_algorithm_is_found():
    page = "\n## Saha\n\n| Algorithm 2, robust | {} | |\n"
    assert algorithms_of("Saha", page.format("`tacit.factor.nmf.saha_imtiaz` (`rounds_program`)")) == ({2}, [])
    no_file, no_name, no_function = (
        "`tacit.factor.nmf.nothing`",
        "`tacit.factor.nmf.topics`",
        "`tacit.factor.nmf.saha_imtiaz` (`nothing`)",
    )
    for place in (no_file, no_name, no_function):
        assert algorithms_of("Saha", page.format(place))[1]


@pytest.mark.slow
def test_no_public_name_is_missing_from_the_reference():
    reference = load_api_pages()
    pages = reference.documented()
    assert "NMF" in pages["tacit"]
    written = {package: reference.page(package, names) for package, names in pages.items()}
    objects = {
        id(getattr(importlib.import_module(package), name)) for package, names in pages.items() for name in names
    }
    for package in reference.PACKAGES:
        if package not in pages:
            continue
        module = importlib.import_module(package)
        for name in reference.public_names(package):
            assert id(getattr(module, name)) in objects, f"{package}.{name}"
    for package, names in pages.items():
        for name in names:
            assert f"\n   {name}\n" in written[package]


def test_packages_with_a_list_of_names_are_in_the_reference():
    reference = load_api_pages()
    ours = {
        ".".join(file.relative_to(ROOT / "src").parts[:-1])
        for file in (ROOT / "src" / "tacit").rglob("__init__.py")
        if re.search(r"^__all__ = ", file.read_text("utf-8"), flags=re.MULTILINE)
    }
    inner = {"tacit.factor.nmf", "tacit.factor.svd", "tacit.factor.ratings", "tacit.factor.noisy_moments"}
    inner |= {"tacit.factor.coupled.private", "tacit.channel.directions", "tacit.reproduce"}
    inner |= {package for package in ours if package.startswith("tacit.reproduce.")}
    assert ours - inner <= set(reference.PACKAGES)


def resolved(arguments):
    """Return the command that arguments name, and the arguments that are left for it."""
    command, rest = COMMAND, list(arguments)
    while getattr(command, "commands", None) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_have_the_options_that_a_page_names(page):
    text = page.read_text("utf-8")
    shown = [
        line.split("#")[0] for block in blocks(page, "(?:sh|text)") for line in block.replace("\\\n", " ").splitlines()
    ]
    shown += re.findall(r"`(tacit [a-z][^`\n|]*)`", text)
    for line in shown:
        if not line.startswith("tacit ") or "..." in line or "…" in line:
            continue
        words = shlex.split(line)[1:]
        if words[:1] == ["audit"] and "fit" in words:  # its options come before the command that is audited
            words = words[: words.index("fit")]
        if not words or words[0].startswith("-"):
            continue
        command, rest = resolved(words)
        assert command is not COMMAND, line
        options = {
            name
            for one in (command, *getattr(command, "commands", {}).values())
            for parameter in one.params
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word for word in rest if re.match(r"--?[a-z]", word)} <= options | {"--help"}, line


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=named)
def test_a_tutorial_runs_from_beginning_to_end(page, tmp_path):
    """The Python and the commands of a page run one after another, in an empty folder."""
    if page.stem == "network":
        pytest.importorskip("torch")
    if page.stem == "cluster":
        pytest.importorskip("distributed")
    env = {name: value for name, value in os.environ.items() if name != "TACIT_LEDGER"}
    code = []
    steps = re.findall(r"^```(python|sh)\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for language, block in steps:
        if language == "python":
            code.append(block)
            continue
        for line in block.splitlines():
            if line.startswith("tacit ") and line.split("#")[0].strip() != "tacit --help":
                code.append(f"import subprocess, sys\nsubprocess.run({run_command(line)!r}, check=True)\n")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def run_command(line):
    return [sys.executable, "-c", "from tacit.cli.main import main; main()", *shlex.split(line, comments=True)[1:]]


def test_the_site_loads_nothing_from_elsewhere():
    settings = (DOCS / "conf.py").read_text("utf-8")
    assert not re.search(r"https?://", settings)
    assert "intersphinx" not in settings
    assert not re.search(r"https?://|@import", (DOCS / "_static" / "tacit.css").read_text("utf-8"))


@pytest.mark.skipif(not (DOCS / "_build" / "html" / "index.html").is_file(), reason="make docs has not been run")
def test_built_pages_load_nothing_from_elsewhere():
    loads = re.compile(
        r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"'](https?:)?//", flags=re.IGNORECASE
    )
    pages = sorted((DOCS / "_build" / "html").rglob("*.html"))
    assert len(pages) > 100
    assert not [page for page in pages if loads.search(page.read_text("utf-8"))]


def test_pictures_of_the_documentation_are_small():
    for picture in (*(DOCS / "pictures").iterdir(), *(DOCS / "images").iterdir()):
        assert picture.stat().st_size < 250_000, picture
