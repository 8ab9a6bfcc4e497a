"""Reports are self-contained and escape users' text."""

import ast
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tacit.privacy import GaussianRelease, Guarantee
from tacit.report import Report
from tacit.report.figures import distributions, frontier, gains_by_size, histogram, image_rows
from tacit.report.page import IN_WORDS, OF_UNITS
from tacit.report.result import facts_of, for_the_holder

SOURCE = Path(__file__).parents[2] / "src" / "tacit"


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page(tmp_path):
    report = Report("A <script>alert(1)</script> title", "summary")
    report.text("Words", "first & second", "third")
    report.table("Numbers", ["name", "value"], [["<b>x</b>", "1"]], note="a note")
    report.figure(
        "Frontier", frontier([0.1, 1, 10], [0.5, 0.8, 0.9], reference=1, value_name="v", reference_name="r"), "cap"
    )
    report.figure("Images", image_rows({"a": np.random.default_rng(0).normal(size=(3, 16))}, (4, 4)), "cap 2")
    report.guarantee(Guarantee.from_releases([GaussianRelease(name="WX", noise_multiplier=3.0)], delta=1e-5))
    report.write(tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_needs_nothing_from_outside(page):
    seen = Seen()
    seen.feed(page)
    assert all(link.startswith("#") or link.startswith("data:") for link in seen.links)
    assert "script" not in seen.tags
    assert not re.search(r"@import|url\(\s*['\"]?http", page)


def test_shows_what_was_added_and_escapes_it(page):
    seen = Seen()
    seen.feed(page)
    text = " ".join(seen.text)
    for part in (
        "first & second",
        "<b>x</b>",
        "a note",
        "cap 2",
        "differential privacy",
        "multiplier 3",
        "sums of products with the weights",
    ):
        assert part in text
    assert seen.tags.count("svg") == 2
    assert seen.tags.count("table") == 2


def test_the_same_figure_gives_the_same_file():
    def draw():
        report = Report("t")
        report.figure("f", frontier([1, 2], [0.1, 0.2], reference=1, value_name="v", reference_name="r"), "c")
        return re.sub(r'(id|href|url\()[="#(]*[\w#-]+', "", report.html())

    assert draw() == draw()


def test_gains_of_parties_are_drawn_over_their_sizes():
    lines = {"k = 5": {900: 5.0, 60: 33.0, 390: 12.5}, "k = 10": {60: 34.0, 900: 6.5}}
    axis = gains_by_size(lines, size_name="users", value_name="gain").axes[0]
    drawn = {line.get_label(): line for line in axis.lines if line.get_label() in lines}
    assert list(drawn["k = 5"].get_xdata()) == [60, 390, 900]
    assert list(drawn["k = 5"].get_ydata()) == [33.0, 12.5, 5.0]
    assert axis.get_xscale() == "log"


def test_the_axes_of_dates_show_dates():
    days = np.array([[18262.0], [18300.0], [18627.0]])  # 2020-01-01 and later
    figure = distributions(["visit"], days, days, dates=["visit"])
    shown = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert [shown[0], shown[-1]] == ["2020-01", "2021-01"]
    assert all(re.fullmatch(r"202\d-\d\d", label) for label in shown)
    few = distributions(["visit"], days[:2], days[:2], dates=["visit"])
    assert few.axes[0].get_xticklabels()[0].get_text() == "2020-01-01"
    numbers = distributions(["visit"], days, days)
    assert not any("-" in label.get_text() for label in numbers.axes[0].get_xticklabels())


def test_bins_that_grow_outwards_are_labelled_with_their_values():
    codes = np.append(np.linspace(10_000, 10_300, 400), 20_000.0)[:, None]  # a tail far outside, and nothing near zero
    axis = distributions(["zip"], codes, codes).axes[0]
    labels = [float(label.get_text()) for label in axis.get_xticklabels()]
    assert labels[0] == 10_000
    assert labels[-1] == 20_000
    assert axis.get_xscale() == "linear"
    assert np.ptp(np.diff(axis.get_xticks())) <= 1  # evenly spaced on the page, up to a bin


def test_a_histogram_of_counts_has_no_empty_bin_between_whole_numbers():
    axis = histogram(np.repeat(np.arange(1, 26), 100), value_name="clicks").axes[0]
    assert all(bar.get_height() >= 100 for bar in axis.patches)
    assert axis.get_ylim()[0] < 1
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "2", "5", "10", "20"]


@pytest.mark.parametrize("most", [9, 95, 300, 2_300, 9_900, 250_000, 1_000_000])
def test_the_labels_of_a_histogram_do_not_touch(most):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = histogram(np.array([1, most]), value_name="ratings of a user")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = figure.axes[0].get_xticklabels()
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    assert len(boxes) > 2
    assert all(left.x1 + 3 < right.x0 for left, right in itertools.pairwise(boxes))


def test_the_labels_of_small_axes_do_not_touch():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    values = np.linspace(0, 100_000, 300)[:, None] * [1.0, 1e-2, 10.0, 1.0]
    figure = distributions(["gain", "age", "income", "again"], values, values)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axis in figure.axes:
        low, high = axis.get_xlim()
        labels = [one for one in axis.get_xticklabels() if low <= one.get_position()[0] <= high]
        boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
        assert len(boxes) > 1
        assert all(left.x1 + 5 < right.x0 for left, right in itertools.pairwise(boxes))


def asked_with_noise(path):
    """Return the names of the arrays of every sum of a module that has a bound, as far as they are written out."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Sum":
            given = [keyword.arg for keyword in node.keywords]
            if "bound" in given:
                yield from (
                    name for name in given if name not in (None, "bound", "change", "fractions", "step", "units")
                )


def test_every_statistic_that_is_released_has_a_name_that_a_reader_knows():
    asked = {
        name
        for package in ("factor", "neural", "synthetic")
        for path in (SOURCE / package).rglob("*.py")
        for name in asked_with_noise(path)
    }
    assert {"gram", "cells", "count"} <= asked
    assert asked - IN_WORDS.keys() - OF_UNITS["user"].keys() == set()


def test_in_a_page_for_the_holder_every_table_and_figure_says_whom_it_is_for():
    report = Report("A fit", for_the_holder("the folder model/"))
    report.table("Scores", ["a"], [["1"]])
    report.table("Released (may be passed on)", ["a"], [["1"]])
    page = report.html()
    assert "<strong>For the holder of the data only:" in page
    assert "without noise.</strong> Pass on the folder model/ instead." in page
    assert 'Scores <span class="mark holder">for the holder only</span>' in page
    assert 'Released <span class="mark passed">may be passed on</span>' in page
    public = Report("A plan", "It uses no data.")
    public.table("Noise", ["a"], [["1"]])
    assert "<span class" not in public.html()


def test_the_header_shows_settings_in_words_and_the_epsilon_of_all_parts():
    guarantee = Guarantee.from_releases([GaussianRelease("sum", noise_multiplier=5.0)], unit="row", delta=1e-6)
    shown = facts_of({"n_components": 4, "row_norm": 1.0, "outliers": None}, 1234, guarantee)
    assert shown == {"rows fitted": "1,234", "settings": "components 4, row norm 1"}
    shown = facts_of({"epsilon": guarantee.epsilon / 2}, None, guarantee)
    assert re.fullmatch(r"epsilon [\d.]+, epsilon in all [\d.]+", shown["settings"])
