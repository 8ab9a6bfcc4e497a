"""Time to open the app's pages in a browser, and of its answers beside a fit, compared with those of an idle app."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from harness import Part, SkippedError, main, peer

COMMAND = [sys.executable, "-c", "from tacit.cli.main import main; main()", "app"]
PAGES = ("/", "/data", "/runs", "/ledger")


@contextmanager
def served(users: int) -> Iterator[str]:
    """Serve a folder with a file of ratings; yield the address that the app prints."""
    import polars as pl

    from tacit.data import make_ratings

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        made = make_ratings(users, 500, ratings_per_user=40)
        frame = pl.DataFrame({"user": made.users, "item": made.items + 1, "rating": made.ratings})
        frame.write_csv(folder / "files" / "ratings.csv")
        command = [*COMMAND, str(folder / "files"), "--state", str(folder / "state"), "--port", "0"]
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as app:
            assert app.stdout is not None
            try:
                address = next(line.strip() for line in app.stdout if line.startswith("http"))
                print(f"{'from the command to its address':<40} {time.perf_counter() - begun:8.3f} s")
                yield address
            finally:
                app.terminate()


class Browser:
    """Sends requests as a browser does, over one connection."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.origin = f"http://{parts.netloc}"
        self.connection = http.client.HTTPConnection(parts.netloc)
        self.cookie = ""
        answer = self.send("GET", f"{parts.path}?{parts.query}")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def send(self, method: str, path: str, fields: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """Return an answer, whose text is kept as `text`."""
        headers = {"Cookie": self.cookie, "Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
        self.connection.request(method, path, urlencode(fields) if fields else None, headers)
        answer = self.connection.getresponse()
        self.text = answer.read().decode()
        return answer

    def post(self, address: str, **fields: str) -> str:
        """Send a form and return where it leads."""
        token = re.search('name="form_token" value="([0-9a-f]+)"', self.text)
        assert token is not None, address
        answer = self.send("POST", address, {"form_token": token[1], **fields})
        leads = answer.headers["location"]
        assert answer.status == 303, (address, answer.status)
        self.send("GET", leads)
        return str(leads)


def answers(users: int = 20_000, rounds: int = 40) -> None:
    """Time each page before a fit and beside it; the fit is a private recommender in a process of its own."""
    with served(users) as address:
        browser = Browser(address)
        browser.send("GET", "/data")
        data = browser.post("/data/pick", root="0", path="ratings.csv")
        stated = {"name": "films", "kind": "ratings", "user": "user", "item": "item", "rating": "rating", "low": "1"}
        known = {"high": "5", "how-range": "definition", "items": "1-500", "how-items": "published"}
        browser.post(data, **stated, **known)
        question = f"{data}/question/recommender"
        browser.send("GET", question)
        browser.post(f"{question}/account", total_epsilon="9", total_delta="1e-6")
        idle = {page: timed(browser, page, rounds) for page in (*PAGES, question)}
        run = browser.post(f"{question}/run", epsilon="1", delta="1e-6")
        while "running" not in browser.text:
            browser.send("GET", run)
        pages = (*PAGES, question, f"{run}/state")
        beside: dict[str, list[float]] = {page: [] for page in pages}
        during = 0
        while during < rounds:
            for page in pages:
                beside[page] += timed(browser, page, 1)
            during += 1
            browser.send("GET", f"{run}/state")
            if 'data-state="running"' not in browser.text:
                break
        print(f"{during} rounds beside the fit")
        print(f"{'page':<28} {'idle, median':>14} {'beside, median':>15} {'largest':>10} {'ratio':>7}   (ms)")
        for page in pages:
            name = re.sub(r"[0-9]{8}-[0-9]{12}-[0-9a-f]{8}", "ID", page)
            alone = statistics.median(idle.get(page, [float("nan")]))
            median = statistics.median(beside[page])
            print(
                f"{name:<28} {1e3 * alone:>14.1f} {1e3 * median:>15.1f} {1e3 * max(beside[page]):>10.1f} {median / alone:>7.2f}"
            )


def timed(browser: Browser, page: str, rounds: int) -> list[float]:
    """Return the seconds of each answer."""
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        answer = browser.send("GET", page)
        found.append(time.perf_counter() - begun)
        assert answer.status == 200, page
    return found


def opening(rounds: int = 5) -> None:
    """Time from the printed address to the first page, and of each page, in Chromium."""
    playwright = peer("playwright.sync_api", "playwright")
    chromium = os.environ.get("TACIT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SkippedError("it needs chromium (apt-get install chromium, or set TACIT_CHROMIUM)")
    with served(500) as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        begun = time.perf_counter()
        page.goto(address)
        page.get_by_role("link", name="Begin with a file").wait_for()
        print(f"{'from the address to the first page':<40} {time.perf_counter() - begun:8.3f} s")
        origin = address.partition("/enter")[0]
        for path in PAGES:
            times = []
            for _ in range(rounds):
                begun = time.perf_counter()
                page.goto(origin + path)
                times.append(time.perf_counter() - begun)
            print(f"{path:<40} {statistics.median(times):8.3f} s, at most {max(times):.3f}")
        browser.close()


PARTS = {
    "opening": Part(opening, quick={"rounds": 1}),
    "answers": Part(answers, quick={"users": 300, "rounds": 2}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)
