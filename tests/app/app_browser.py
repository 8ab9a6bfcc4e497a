"""A real browser, and apps to look at with it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first has no windows of its own, and takes two thirds of the processor time."""
CHROMIUM = os.environ.get("TACIT_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
AXE = os.environ.get("TACIT_AXE")
SHOTS = os.environ.get("TACIT_SCREENSHOTS")
SECONDS = 120_000
"""How long a page may wait for a run, in milliseconds; runs take a few seconds, more on a busy computer."""

REAL = "from tacit.cli.main import main; main()"
SLOW = """
import sys
from pathlib import Path
from tacit.app.server import serve

folder, state, step = sys.argv[1:]
command = [sys.executable, str(Path(__file__).with_name("slow_fit.py")), step]
serve([Path(folder)], state=Path(state), ledger=Path(state) / "ledger.db", command=command, port=int(sys.stdin.readline()),
      memory=0, most_uploaded=1 << 20, ready=lambda address: print(address, flush=True))
"""
SLOW_FIT = """
# Takes the arguments of a private fit, and makes ten slow releases with the ledger's account.
import json, os, sys, time
from pathlib import Path
from tacit.channel import Noisy, Outcome, Plan, Split, Step, Sum, run
from tacit.privacy import Ledger
from tacit.privacy.ledger.spending import Spending

given = dict(part[2:].split("=", 1) for part in sys.argv[2:] if part.startswith("--") and "=" in part)
split = Split(rounds=Step(count=10, weight=1.0))
def note(stage, done):
    with open(os.environ["TACIT_PROGRESS"], "a") as file:
        file.write(json.dumps({"stage": stage, "done": done, "of": 10}) + "\\n")
def program():
    for place in range(10):
        yield Sum(x=[1.0], bound=1.0, step=split["rounds"], units=1)
        note(f"release {place + 1}", place)
        time.sleep(float(sys.argv[1]))
    return Outcome(public={})
note("reading", 0)
book = Ledger(given["ledger"], create=False)
plan = Plan.for_budget(float(given["epsilon"]), float(given["delta"]), steps=split, unit=book.account(given["dataset"]).unit)
channel = Noisy(plan, spending=Spending(book, given["dataset"], "a slow fit"))
run(program(), channel)
output = Path(given["output"])
(output / "model").mkdir(parents=True)
(output / "model" / "recommender.tacit").write_text("a model")
(output / "result.json").write_text(json.dumps({"guarantee": channel.guarantee.to_dict(), "measures": {"error": 0.5}}))
(output / "report.html").write_text("<h1>A slow report</h1>")
"""


class Server:
    """An app in a process of its own, as a person starts it."""

    def __init__(self, folder: Path, *, slow: float | None = None) -> None:
        self.folder, self.files, self.state, self.slow = folder, folder / "files", folder / "state", slow
        self.files.mkdir(exist_ok=True)
        self.port = 0
        self.start()

    def start(self) -> None:
        if self.slow is None:
            command = [sys.executable, "-c", REAL, "app", str(self.files), "--state", str(self.state)]
            command += ["--port", str(self.port), "--max-upload", "0.001"]
        else:
            (self.folder / "slow_app.py").write_text(SLOW)
            (self.folder / "slow_fit.py").write_text(SLOW_FIT)
            command = [
                sys.executable,
                str(self.folder / "slow_app.py"),
                str(self.files),
                str(self.state),
                str(self.slow),
            ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self.slow is not None:
            self.process.stdin.write(f"{self.port}\n")
            self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("http"):
                self.entry = line.strip()
                break
        else:
            raise AssertionError(self.process.stderr.read())
        self.address = self.entry.partition("/enter")[0]
        self.port = int(self.address.rpartition(":")[2])

    def stop(self, number: int = signal.SIGINT) -> str:
        """End the app; return what it wrote to its standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.communicate(timeout=120)[1]


def write_files(folder: Path) -> None:
    """Write a small file for each kind of data."""
    from tacit.data import make_ratings

    made = make_ratings(200, 20, ratings_per_user=10, random_state=1)
    pl.DataFrame({"user": made.users, "item": made.items + 1, "rating": made.ratings}).write_csv(folder / "ratings.csv")
    rng = np.random.default_rng(0)
    people = pl.DataFrame(
        {"age": rng.integers(18, 90, 300), "sex": rng.choice(["f", "m"], 300), "income": rng.random(300).round(3)}
    )
    people.write_csv(folder / "people.csv")
    clicks = pl.DataFrame({"visitor": made.users, "article": made.items + 1})
    clicks.write_csv(folder / "clicks.csv")
    told = [" ".join(rng.choice(group, 8)) for group in (["bus", "train", "late"], ["soup", "cold", "waiter"]) * 60]
    pl.DataFrame({"id": range(120), "letter": told}).write_csv(folder / "letters.csv")
    people.with_columns(sex=pl.lit("unheard")).write_csv(folder / "wrong.csv")
    parts = rng.dirichlet(np.ones(6), size=400)
    pl.DataFrame(parts, schema=list("abcdef")).write_csv(folder / "parts.csv")
    y = rng.integers(2, size=200)
    numbers = {"x": rng.random(200) + y, "z": rng.random(200), "w": rng.random(200)}
    pl.DataFrame({"id": range(200), **numbers, "class": y}).write_csv(folder / "classes.csv")
    pl.DataFrame(rng.random((30, 200)).round(3), schema=[f"c{place}" for place in range(200)]).write_csv(
        folder / "wide.csv"
    )
    (folder / "inner").mkdir()
    people.write_csv(folder / "inner" / "deep.csv")
    cells = rng.poisson(3.0, size=(12, 8))
    rows = [{"place": f"p{i}", "kind": f"k{j}", "count": int(cells[i, j])} for i in range(12) for j in range(8)]
    pl.DataFrame(rows).write_csv(folder / "counts.csv")
    (folder / "places.txt").write_text("\n".join(f"p{place}" for place in range(12)))
    (folder / "kinds.txt").write_text("\n".join(f"k{place}" for place in range(8)))
    (folder / "coupled.toml").write_text(
        'ranks = 2\n[[relation]]\nname = "counts"\nfile = "counts.csv"\ncolumns = ["place", "kind", "count"]\n'
        'observed = "stored"\ndivergence = "euclid"\neinsum = "ir,jr->ij"\nfactors = ["place", "kind"]\n'
        '[names]\nplace = "places.txt"\nkind = "kinds.txt"\n[model]\nmax_iter = 5\n'
    )


def pick(page, name):
    """Take a file of the list as a data set."""
    page.goto("/data")
    page.get_by_role("button", name=re.compile(f"Use.*{re.escape(name)}")).click()
    page.wait_for_url("**/data/2*")


def describe_ratings(page, name=None):
    pick(page, "ratings.csv")
    if name:
        page.fill("#field-name", name)
    page.fill("#field-items", "1-20")
    page.select_option("#field-how-range", "definition")
    page.select_option("#field-how-items", "published")
    page.get_by_role("button", name="Go on to the question").click()
    page.wait_for_url("**/question")
    return page.url.split("/")[-2]


def describe_people(page, file="people.csv", name=None):
    pick(page, file)
    if name:
        page.fill("#field-name", name)
    page.check("#unit-person")
    fields = [
        ("integer", {"low": "0", "high": "120"}),
        ("category", {"categories": "f | m"}),
        ("number", {"low": "0", "high": "1"}),
    ]
    for place, (kind, stated) in enumerate(fields):
        page.select_option(f"#field-kind-{place}", kind)
        for field, text in stated.items():
            page.fill(f"[name={field}-{place}]", text)
        page.select_option(f"#field-how-{place}", "limit")
    page.get_by_role("button", name="Go on to the question").click()
    page.wait_for_url("**/question")
    return page.url.split("/")[-2]


def ask(page, title, *, epsilon=3, **settings):
    """Choose a question, open the account if there is none, and fill in the settings."""
    page.get_by_role("link", name=f"Choose {title}").click()
    if page.locator("#field-total_epsilon").count():
        page.fill("#field-total_epsilon", str(epsilon))
        page.get_by_role("button", name="Open the account").click()
        page.wait_for_selector("#plan .figures")
    for name, value in settings.items():
        page.fill(f"#field-{name}", str(value))


def run(page):
    """Run, and wait for the end."""
    page.locator("#ask button").last.click()
    page.wait_for_selector(".verdict, #state .problem", timeout=SECONDS)


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
