"""Every example runs, as a user would run it, and makes its picture."""

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from PIL import Image

mpl.use("Agg")

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))
NEEDS = {"plot_private_network": "torch"}


def test_there_are_examples():
    assert len(EXAMPLES) >= 20


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_and_words(script):
    """The gallery takes the title and the introduction from the docstring."""
    text = script.read_text(encoding="utf-8")
    title, line, rest = re.match(r'"""\n(.+)\n(=+)\n\n(.+?)"""', text, flags=re.DOTALL).groups()
    assert len(title) == len(line)
    assert len(rest.split()) >= 8
    assert "plt.show()" in text


def test_questions_of_other_projects_have_an_example():
    text = "\n".join(script.read_text(encoding="utf-8") for script in EXAMPLES)
    asked = ["scikit-learn 8447", "implicit 55", "implicit 658", "lenskit 147", "tensorly 610", "tensorly 335"]
    asked += ["opendp 2571", "BERTopic 2431", "sdcMicro 265"]
    assert not [question for question in asked if f"`{question} <https://github.com/" not in text]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script, tmp_path, monkeypatch, capsys):
    """Run in this process: a process of its own for each would spend most of its time on imports and compilation."""
    if script.stem in NEEDS and not find_spec(NEEDS[script.stem]):
        pytest.skip(f"needs {NEEDS[script.stem]}")
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert plt.get_fignums()
    plt.savefig("picture.png")
    plt.close("all")
    with Image.open("picture.png") as image:
        assert min(image.size) > 200
        assert len(image.convert("L").resize((50, 50)).getcolors()) > 3  # something was drawn
    assert {file.name for file in tmp_path.iterdir()} == {"picture.png"}  # examples leave nothing behind
