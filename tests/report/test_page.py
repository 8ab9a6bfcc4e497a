"""Reports are self-contained and escape what users write."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tacit.privacy import GaussianRelease, Guarantee
from tacit.report import Report
from tacit.report.figures import frontier, image_rows


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
    for part in ("first & second", "<b>x</b>", "a note", "cap 2", "differential privacy", "multiplier 3", "WX"):
        assert part in text
    assert seen.tags.count("svg") == 2
    assert seen.tags.count("table") == 2


def test_the_same_figure_gives_the_same_file():
    def draw():
        report = Report("t")
        report.figure("f", frontier([1, 2], [0.1, 0.2], reference=1, value_name="v", reference_name="r"), "c")
        return re.sub(r'(id|href|url\()[="#(]*[\w#-]+', "", report.html())

    assert draw() == draw()
