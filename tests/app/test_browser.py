"""The app in a real browser: journeys, refusals, restarts, keyboard, small and dark screens, accessibility."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from app_browser import (  # noqa: E402
    AXE,
    CHROMIUM,
    REAL,
    SECONDS,
    SHOTS,
    Server,
    ask,
    describe_people,
    describe_ratings,
    pick,
    run,
    until,
    write_files,
)

from tacit.app.files import read_json  # noqa: E402
from tacit.privacy import Ledger  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium-headless-shell, or set TACIT_CHROMIUM"
    ),
    pytest.mark.slow,
]
STRANGE = "evil.example"


@pytest.fixture(scope="session")
def browser():
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", f"--host-resolver-rules=MAP {STRANGE} 127.0.0.1"]
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield made
        made.close()


def entered(browser, server):
    """Return the cookies of a browser that was given the printed address."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.entry)
    page.wait_for_url(f"{server.address}/")
    kept = context.storage_state()
    context.close()
    return kept


@pytest.fixture(scope="session")
def real(browser, tmp_path_factory):
    """The app as it is, with files of all kinds."""
    server = Server(tmp_path_factory.mktemp("real"))
    write_files(server.files)
    server.cookies = entered(browser, server)
    yield server
    assert server.stop() == ""  # nothing was logged


@contextmanager
def slow_server(browser, folder):
    """An app whose fits make ten releases, a fifth of a second apart."""
    server = Server(folder, slow=0.2)
    write_files(server.files)
    server.cookies = entered(browser, server)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_slow(browser, tmp_path_factory):
    with slow_server(browser, tmp_path_factory.mktemp("slow")) as server:
        yield server


@pytest.fixture
def slow(request, browser, tmp_path):
    """A slow app: one of its own for tests that damage it."""
    if request.node.get_closest_marker("damages") is None:
        yield request.getfixturevalue("shared_slow")
    else:
        with slow_server(browser, tmp_path) as server:
            yield server


def opened(browser, server, **options):
    context = browser.new_context(base_url=server.address, storage_state=server.cookies, **options)
    context.set_default_timeout(SECONDS)
    return context


@pytest.fixture
def page(browser, real):
    context = opened(browser, real)
    made = context.new_page()
    made.complaints = []
    made.on("console", lambda message: made.complaints.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: made.complaints.append(str(error)))
    yield made
    context.close()
    # Chromium reports a page of a refused form as an error; everything else is a defect, a breach of the policy above all
    assert [text for text in made.complaints if "the server responded with a status of 4" not in text] == []


@pytest.fixture
def slow_page(browser, slow):
    context = opened(browser, slow)
    yield context.new_page()
    context.close()
    later = opened(browser, slow)
    page = later.new_page()
    page.goto("/runs")
    # no test leaves a run to the next
    going = page.locator("tbody tr:has(.queued, .running, .cancelling) a").all()
    for address in [link.get_attribute("href") for link in going]:
        page.goto(address)
        page.wait_for_selector(".state.done, .state.cancelled, .state.failed")
    later.close()


def shot(page, name, *, full=True):
    """Make a picture for the documentation: of the whole page, or of what is seen first."""
    if SHOTS:
        page.set_viewport_size({"width": 960, "height": 720})
        page.screenshot(path=Path(SHOTS) / f"app-{name}.png", full_page=full)


def shot_small(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"app-{name}.png")


def ledger(server):
    return Ledger(server.state / "ledger.db", create=False)


# --- who is let in


def test_the_first_page_shows_where_to_begin(page):
    """How long it takes to open is measured by benchmarks/app.py."""
    page.goto("/")
    assert page.get_by_role("link", name="Begin with a file").is_visible()
    shot(page, "home")


@pytest.mark.parametrize("path", ["/enter?token=wrong", "/", "/runs", "/ledger"])
def test_a_stranger_is_refused(browser, real, path):
    context = browser.new_context(base_url=real.address)
    page = context.new_page()
    assert page.goto(path).status in (401, 403)
    assert "tacit app" in page.content() or "start it again" in page.content()
    context.close()


def test_the_address_works_once(browser, real):
    context = browser.new_context()
    page = context.new_page()
    assert page.goto(real.entry).status == 403
    assert page.goto(real.address).status == 401
    context.close()


def test_scripts_cannot_read_the_cookie(page):
    page.goto("/")
    assert page.evaluate("document.cookie") == ""


def test_a_rebound_name_is_refused(browser, real):
    context = opened(browser, real)
    page = context.new_page()
    assert page.goto(f"http://{STRANGE}:{real.port}/").status == 421
    context.close()


@pytest.fixture
def attacker():
    """Another site on this computer, whose pages a person may have open."""
    pages = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], pages
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", STRANGE])
def test_a_form_of_another_site_is_refused(browser, real, attacker, host):
    port, pages = attacker
    fields = "".join(
        f'<input name="{n}" value="{v}">' for n, v in (("name", "stolen"), ("total_epsilon", 9), ("total_delta", 0.001))
    )
    pages["/"] = f'<form method="post" action="{real.address}/ledger/open">{fields}<button>Win</button></form>'
    context = opened(browser, real)
    page = context.new_page()
    page.goto(f"http://{host}:{port}/")
    with page.expect_response(lambda answer: answer.url.endswith("/ledger/open")) as answer:
        page.get_by_role("button").click()
    assert answer.value.status == 403
    assert not (real.state / "ledger.db").exists() or "stolen" not in ledger(real).datasets()
    context.close()


def test_another_site_can_neither_read_nor_frame(browser, real, attacker):
    port, pages = attacker
    pages["/"] = f'<iframe src="{real.address}/ledger"></iframe>'
    context = opened(browser, real)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/")  # returns when the frame has loaded, or was refused
    assert "The ledger" not in "".join(frame.content() for frame in page.frames[1:])
    read = f"fetch('{real.address}/ledger').then(answer => answer.text()).catch(() => 'blocked')"
    assert page.evaluate(read) == "blocked"
    context.close()


def test_an_injected_script_does_not_run(browser, real):
    context = opened(browser, real)
    page = context.new_page()
    page.goto("/")
    with pytest.raises(sync_api.Error):
        page.add_script_tag(content="window.taken = true")
    page.evaluate(  # the handler in the attribute, were it allowed, would run before the listener that was added later
        """() => new Promise((done) => {
            document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.taken = true">');
            document.querySelector('img[src=x]').addEventListener('error', done, {once: true});
        }).then(() => null)"""
    )
    assert page.evaluate("window.taken") is None
    context.close()


# --- data


def test_a_file_in_an_inner_folder_is_picked(page):
    page.goto("/data")
    page.get_by_role("link", name="inner/").click()
    assert page.get_by_role("link", name="One folder up").is_visible()
    page.get_by_role("button", name=re.compile("deep.csv")).click()
    assert "deep.csv" in page.locator("h1").inner_text()
    assert page.locator("th[scope=row]").all_inner_texts() == ["age", "sex", "income"]


def test_a_changed_path_is_refused(page, real):
    (real.folder / "secret.csv").write_text("name\nAda\n")
    page.goto("/data")
    page.locator("input[name=path]").first.evaluate("field => field.value = '../secret.csv'")
    page.locator(".files button").first.click()
    assert "within the folders" in page.locator("#problems").inner_text()
    assert "Nothing was charged" in page.locator("#problems").inner_text()


def test_a_file_is_uploaded(page, real, tmp_path):
    (tmp_path / "my table.csv").write_text("age,dose\n30,1.5\n")
    page.goto("/data")
    page.set_input_files("#field-file", tmp_path / "my table.csv")
    page.get_by_role("button", name="Upload").click()
    sync_api.expect(page.locator("h1")).to_contain_text("my table.csv")


def test_a_large_file_is_refused_before_it_is_sent(page, tmp_path):
    (tmp_path / "large.csv").write_bytes(b"a,b\n" * 500_000)
    page.goto("/data")
    page.set_input_files("#field-file", tmp_path / "large.csv")
    page.get_by_role("button", name="Upload").click()
    assert "larger than the app takes" in page.locator("#field-file").evaluate("field => field.validationMessage")
    assert page.url.endswith("/data")


def test_a_large_file_is_refused_by_the_server(page, tmp_path):
    (tmp_path / "large.csv").write_bytes(b"a,b\n" * 400_000)
    page.goto("/data")
    page.locator("form[data-most]").evaluate("form => form.dataset.most = '1e12'")
    page.set_input_files("#field-file", tmp_path / "large.csv")
    page.get_by_role("button", name="Upload").click()
    sync_api.expect(page.get_by_role("alert")).to_contain_text("may have 1 MB")
    assert page.get_by_role("button", name="Upload").is_enabled()


def test_a_browser_without_scripts_is_told_how_to_pick_a_file(browser, real, tmp_path):
    (tmp_path / "table.csv").write_text("age\n1\n")
    context = opened(browser, real, java_script_enabled=False)
    page = context.new_page()
    page.goto("/data")
    page.set_input_files("#field-file", tmp_path / "table.csv")
    page.get_by_role("button", name="Upload").click()
    assert "runs no scripts" in page.locator("#problem-file").inner_text()
    context.close()


def test_a_file_that_cannot_be_sent_is_sent_again(page, tmp_path):
    (tmp_path / "table.csv").write_text("age\n1\n")
    page.goto("/data")
    page.set_input_files("#field-file", tmp_path / "table.csv")
    page.route("**/upload", lambda route: route.abort())
    page.get_by_role("button", name="Upload").click()
    sync_api.expect(page.get_by_role("alert")).to_contain_text("could not be sent")
    page.unroute("**/upload")
    page.complaints.clear()  # Chromium reports the broken connection
    page.get_by_role("button", name="Upload").click()
    sync_api.expect(page.locator("h1")).to_contain_text("table.csv")


def test_a_file_that_is_no_table_is_explained(page, tmp_path):
    (tmp_path / "letter.csv").write_text("17,3.5\n18,4.5\n")
    page.goto("/data")
    page.set_input_files("#field-file", tmp_path / "letter.csv")
    page.get_by_role("button", name="Upload").click()
    assert "names of the columns" in page.locator("#problem-file").inner_text()


def test_what_is_missing_is_said_beside_the_field_and_nothing_is_lost(page):
    pick(page, "ratings.csv")
    page.fill("#field-items", "1-20")
    page.fill("#field-low", "five")
    page.get_by_role("button", name="Go on to the question").click()
    page.locator("#problems:focus").wait_for()
    assert page.locator("#field-items").input_value() == "1-20"
    assert page.locator("#field-low").get_attribute("aria-invalid") == "true"
    described = page.locator("#field-low").get_attribute("aria-describedby").split()
    assert "least and the greatest" in page.locator(f"#{described[0]}").inner_text()
    assert page.locator("#problem-how-items").is_visible()
    shot(page, "correct")


def test_what_only_the_rows_show_is_refused(page):
    pick(page, "ratings.csv")
    page.fill("#field-items", "1-20")
    page.select_option("#field-how-range", "definition")
    page.select_option("#field-how-items", "rows")
    page.get_by_role("button", name="Go on to the question").click()
    assert "not public" in page.locator("#problem-how-items").inner_text()


def test_several_rows_of_a_person_are_refused(page):
    pick(page, "people.csv")
    page.check("#unit-several")
    page.get_by_role("button", name="Go on to the question").click()
    assert "protect one row" in page.locator("#problem-unit").inner_text()


def test_a_draft_fills_the_form_and_no_answer(page):
    pick(page, "people.csv")
    page.locator("summary").click()
    page.get_by_role("button", name="Make a draft").click()
    assert page.locator("#field-kind-1").input_value() == "category"
    assert page.locator("[name=categories-1]").input_value() == "f | m"
    assert page.locator("#field-how-1").input_value() == ""
    assert page.locator(".notice", has_text="by looking at the rows").is_visible()
    page.check("#unit-person")
    page.get_by_role("button", name="Go on to the question").click()
    assert page.locator("#problem-how-0").is_visible()


def test_a_schema_file_fills_the_form(page, tmp_path):
    (tmp_path / "columns.toml").write_text(
        'version = 1\npublic = true\nleft_out = ["income"]\n[columns."age"]\nkind = "integer"\nlow = 0\nhigh = 99\n'
        '[columns."sex"]\nkind = "category"\ncategories = ["f", "m", "x"]\n'
    )
    pick(page, "people.csv")
    page.locator("summary").click()
    page.set_input_files("#field-schema", tmp_path / "columns.toml")
    page.get_by_role("button", name="Fill from the file").click()
    for place, kind in enumerate(["integer", "category", "left-out"]):
        sync_api.expect(page.locator(f"#field-kind-{place}")).to_have_value(kind)
    assert page.locator("[name=high-0]").input_value() == "99"


def test_a_catalogue_file_fills_the_items(page, tmp_path):
    (tmp_path / "items.csv").write_text("item,title\n1,A\n2,B\n7,C\n")
    pick(page, "ratings.csv")
    page.set_input_files("#items-file", tmp_path / "items.csv")
    page.get_by_role("button", name="Fill from the file").click()
    sync_api.expect(page.locator("#field-items")).to_have_value("1\n2\n7")


def test_items_can_be_drafted(page):
    pick(page, "ratings.csv")
    page.get_by_role("button", name="Make a draft").click()
    assert set(page.locator("#field-items").input_value().split()) <= {str(item) for item in range(1, 21)}
    assert page.locator("#field-how-items").input_value() == ""


def test_another_kind_of_data_can_be_chosen(page):
    pick(page, "ratings.csv")
    page.check("#kind-is-table")
    page.get_by_role("button", name="Show the form for this kind").click()
    assert page.locator("#field-kind-2").is_visible()


def test_200_columns_are_described_in_one_line(page):
    pick(page, "wide.csv")
    page.check("#unit-thing")
    page.select_option("#field-kind-all", "number")
    page.fill("[name=low-all]", "0")
    page.fill("[name=high-all]", "1")
    page.select_option("#field-how-all", "limit")
    page.get_by_role("button", name="Fill what is empty").click()
    assert page.locator("[name=high-199]").input_value() == "1"
    page.get_by_role("button", name="Go on to the question").click()
    assert page.get_by_role("link", name="Choose Make a synthetic table").is_visible()


# --- question and budget


@pytest.fixture(scope="session")
def with_account(browser, real):
    """The address of a question about a data set with an account of epsilon 3, which no test charges."""
    context = opened(browser, real)
    page = context.new_page()
    describe_people(page, name="with an account")
    ask(page, "Make a synthetic table")
    address = page.url
    context.close()
    return address


@pytest.fixture
def question(page, with_account):
    page.goto(with_account)
    return page


def test_sliders_and_sentence_follow_each_other(question):
    question.locator("#slide-epsilon").focus()
    for _ in range(5):
        question.keyboard.press("ArrowRight")
    question.locator(".sentence", has_text="e^1.").wait_for()
    value = question.locator("#field-epsilon").input_value()
    assert 1.2 < float(value) < 1.3
    assert question.locator("#slide-epsilon").get_attribute("aria-valuetext") == value
    question.fill("#field-epsilon", "2")
    question.locator(".sentence", has_text="e^2)").wait_for()
    assert float(question.locator("#slide-epsilon").input_value()) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [("epsilon", "-1", "epsilon"), ("epsilon", "much", "epsilon"), ("delta", "0.5", "probability")],
)
def test_a_wrong_budget_is_explained_and_costs_nothing(question, real, field, value, told):
    question.fill(f"#field-{field}", value)
    question.get_by_role("button", name="Run, and charge").click()
    assert told in question.locator(f"#problem-{field}").inner_text()
    assert question.locator(f"#field-{field}").input_value() == value
    assert ledger(real).history("with an account") == []


def test_overspending_is_refused(question, real):
    question.fill("#field-epsilon", "3.5")
    question.wait_for_selector("#plan .problem")
    question.get_by_role("button", name="Run, and charge").click()
    assert "still fits" in question.locator("#problem-epsilon").inner_text()
    assert ledger(real).history("with an account") == []


def test_an_account_needs_right_numbers(page):
    describe_people(page, name=f"nobody {time.monotonic_ns()}")
    page.get_by_role("link", name="Choose Make a synthetic table").click()
    page.fill("#field-total_epsilon", "0")
    page.get_by_role("button", name="Open the account").click()
    assert page.locator("#problem-total_epsilon").is_visible()
    page.get_by_role("button", name="Run, and charge").click()
    assert "account first" in page.locator("#problem-total_epsilon").inner_text()


def test_a_simulation_shows_the_expected_error(question):
    question.fill("#field-rows", "200")
    question.get_by_role("button", name="Simulate").click()
    question.wait_for_selector(".bars .chosen", timeout=SECONDS)
    errors = [float(text) for text in question.locator(".bars td:nth-child(2)").all_inner_texts()]
    assert len(errors) == 6
    assert errors[0] > errors[4]  # epsilon 0.1 against 10
    assert "200 rows" in question.locator("#simulation-part").inner_text()
    shot(question, "simulation")


# --- whole journeys


def download(page, name, folder):
    with page.expect_download() as kept:
        page.get_by_role("link", name=f"Download {name}").click()
    path = folder / Path(name).name
    kept.value.save_as(path)
    return path


def test_journey_recommender(page, real, tmp_path):
    import tacit

    describe_ratings(page, "films")
    ask(page, "Recommend items", epsilon=20)
    page.fill("#field-factors", "2")
    page.fill("#field-epsilon", "8")
    run(page)
    assert "user" in page.locator(".verdict").inner_text()
    model = tacit.load(download(page, "model/recommender.tacit", tmp_path))
    assert model.guarantee_.holds
    assert len(model.recommend_for([1, 2], [5, 4], n=3)) == 3
    assert page.frame_locator("iframe").locator("h1").inner_text() == "Recommender"
    assert len(ledger(real).history("films")) == 1
    line = page.locator("#line").inner_text()
    assert line.startswith("tacit fit recommend")
    assert "--epsilon=8.0" in line
    shot(page, "run", full=False)
    page.fill("#field-history", "1 2 3")
    page.get_by_role("button", name="Recommend").click()
    assert "as in 17, 4" in page.locator("#problem-history").inner_text()


def test_journey_clicks(page, tmp_path):
    import tacit

    pick(page, "clicks.csv")
    assert page.locator("#kind-is-clicks").is_checked()  # by the names of its columns
    page.fill("#field-items", "1-20")
    page.select_option("#field-how-items", "published")
    page.get_by_role("button", name="Go on to the question").click()
    ask(page, "Recommend items", epsilon=9)
    page.fill("#field-epsilon", "8")
    assert page.locator("#field-factors").count() == 0  # of ratings only
    run(page)
    assert tacit.load(download(page, "model/recommender.tacit", tmp_path)).guarantee_.holds
    page.fill("#field-history", "1\n2")
    page.get_by_role("button", name="Recommend").click()
    page.locator("#listed").wait_for()
    listed = page.locator("#listed tbody tr td:first-child").all_inner_texts()
    assert set(listed) < {str(item) for item in range(3, 21)}
    shot(page, "try", full=False)


def test_journey_texts_of_a_column(page, tmp_path):
    import tacit

    pick(page, "letters.csv")
    page.check("#kind-is-text-column")
    page.get_by_role("button", name="Show the form for this kind").click()
    page.check("#unit-person")
    page.get_by_role("button", name="Go on to the question").click()
    assert "holds the texts" in page.locator("#problem-text").inner_text()
    page.select_option("#field-text", "letter")
    page.get_by_role("button", name="Go on to the question").click()
    ask(page, "Find topics or parts", epsilon=20, rank=2)
    page.fill("#field-epsilon", "15")
    run(page)
    assert tacit.load(download(page, "model/nmf.tacit", tmp_path)).guarantee_.holds


def test_journey_synthetic_table(page, real, tmp_path):
    describe_people(page, name="census")
    ask(page, "Make a synthetic table", epsilon=5)
    page.select_option("#field-label", "sex")
    run(page)
    released = pl.read_csv(download(page, "release.csv", tmp_path))
    assert released.columns == ["age", "sex", "income"]
    assert set(released["sex"]) <= {"f", "m"}
    assert released["age"].dtype == pl.Int64
    page.goto("/ledger/account?name=census")
    assert page.locator("svg.history circle").count() == 1
    page.fill("#field-releases", "4")
    page.get_by_role("button", name="Plan").click()
    assert "Each of 4 releases may have epsilon" in page.locator("#each").inner_text()
    shot(page, "ledger")


def describe_numbers(page, file, name, low="0", high="1"):
    pick(page, file)
    page.fill("#field-name", name)
    page.check("#unit-person")
    page.select_option("#field-kind-all", "number")
    page.fill("[name=low-all]", low)
    page.fill("[name=high-all]", high)
    page.select_option("#field-how-all", "limit")
    page.get_by_role("button", name="Fill what is empty").click()


def test_journey_topics(page, tmp_path):
    import tacit

    describe_numbers(page, "parts.csv", "parts")
    page.get_by_role("button", name="Go on to the question").click()
    ask(page, "Find topics or parts", rank=2)
    run(page)
    assert tacit.load(download(page, "model/nmf.tacit", tmp_path)).components_.shape == (2, 6)


def test_journey_components(page, tmp_path):
    import tacit

    describe_numbers(page, "parts.csv", "parts again")
    page.get_by_role("button", name="Go on to the question").click()
    ask(page, "Find components (PCA, SVD)", rank=2)
    page.select_option("#field-kind", "svd")
    run(page)
    found = tacit.load(download(page, "model/svd.tacit", tmp_path))
    assert found.components_.shape == (2, 6)
    assert found.guarantee_.holds


def test_journey_network(page, tmp_path):
    pytest.importorskip("torch", reason="tacit[neural] is not installed")
    import tacit

    describe_numbers(page, "classes.csv", "classes", "0", "2")
    page.select_option("#field-kind-4", "category")
    page.fill("[name=categories-4]", "0 | 1")
    page.select_option("#field-kind-0", "left-out")
    page.get_by_role("button", name="Go on to the question").click()
    ask(page, "Predict a class", hidden="8", epochs="2")
    page.select_option("#field-label", "class")
    run(page)
    assert tacit.load(download(page, "model/network.tacit", tmp_path)).guarantee_.holds


def test_journey_coupled(page, tmp_path):
    import tacit

    pick(page, "coupled.toml")
    page.fill("#field-name", "coupled with privacy")
    page.check("#unit-person")
    page.get_by_role("button", name="Go on to the question").click()
    page.locator("a.button[href$=private_coupled]").click()
    page.get_by_role("button", name="Open the account").click()
    page.wait_for_selector("#plan .figures")
    page.fill("#field-private", "place")
    page.fill("#field-value_range", "0:20")
    run(page)
    assert tacit.load(download(page, "model/coupled.tacit", tmp_path)).guarantee_.holds


def test_journey_coupled_without_privacy(page):
    pick(page, "coupled.toml")
    page.check("#unit-thing")
    page.get_by_role("button", name="Go on to the question").click()
    page.get_by_role("link", name="Choose Factorise coupled tables without privacy").click()
    run(page)
    assert "no privacy guarantee" in page.locator(".verdict").inner_text()


def test_data_that_does_not_fit_is_explained_and_costs_nothing(page, real):
    describe_people(page, "wrong.csv", "wrong cells")
    ask(page, "Make a synthetic table")
    run(page)
    said = page.locator("#state").inner_text()
    assert "only declared categories in the column sex" in said
    assert "unheard" not in page.content()
    assert "Nothing." in said
    assert ledger(real).history("wrong cells") == []


def test_the_command_is_copied(browser, real):
    context = opened(browser, real, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto("/runs")
    page.locator("tbody a").first.click()
    page.get_by_role("button", name="Copy the command").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("tacit ")
    context.close()


# --- runs that take their time


def start(page, name, budget=6):
    describe_ratings(page, name)
    ask(page, "Recommend items", epsilon=budget)
    page.locator("#ask button").last.click()
    page.wait_for_url("**/runs/*")
    return page.url


def data_of(server, address):
    """Return the data set of a run."""
    return read_json(server.state / "runs" / address.rpartition("/")[2] / "run.json")["data"]


def test_cancel_is_charged_for_what_was_released(slow, slow_page):
    start(slow_page, "cancel is charged")
    slow_page.get_by_text(re.compile(r"release \d")).wait_for()
    slow_page.get_by_role("button", name="Cancel").click()
    slow_page.locator(".state.cancelled").wait_for()
    (charge,) = ledger(slow).history("cancel is charged")
    count = sum(release.count for release in charge.settled)
    assert 1 <= count < 10
    assert f"charged for {count} of 10 releases" in slow_page.locator("#state").inner_text()


def test_reloading_and_closing_the_browser_lose_nothing(browser, slow, slow_page):
    address = start(slow_page, "reloading and closing")
    slow_page.get_by_text(re.compile(r"release \d")).wait_for()
    slow_page.reload()
    assert slow_page.locator(".state.running").is_visible()
    slow_page.context.close()
    later = opened(browser, slow).new_page()
    later.goto(address)
    later.wait_for_selector(".verdict", timeout=SECONDS)
    assert "A slow report" in later.frame_locator("iframe").locator("h1").inner_text()
    assert ledger(slow).history("reloading and closing")[0].settled is None


@pytest.mark.damages
def test_a_killed_app_leaves_run_and_ledger_right(slow, slow_page):
    address = start(slow_page, "a killed app")
    slow_page.get_by_text(re.compile(r"release \d")).wait_for()
    slow.stop(signal.SIGKILL)
    slow_page.get_by_text("The app does not answer").wait_for()
    assert len(ledger(slow).history("a killed app")) == 1
    slow.start()  # on the same port: the page that is open finds it again, with its session
    slow_page.wait_for_selector(".verdict")
    assert slow_page.url == address
    (charge,) = ledger(slow).history("a killed app")
    assert charge.settled is None
    assert ledger(slow).remaining("a killed app").spent == pytest.approx(1.0, rel=1e-3)
    assert ledger(slow).verify() == 2


def test_two_tabs_cannot_overspend(slow, slow_page):
    start(slow_page, "two tabs cannot", budget=1.2)
    other = slow_page.context.new_page()
    data = data_of(slow, slow_page.url)
    other.goto(f"{slow.address}/data/{data}/question/recommender")
    slow_page.get_by_text(re.compile(r"release \d")).wait_for()
    other.get_by_role("button", name="Run, and charge").click()
    assert "still fits" in other.locator("#problem-epsilon").inner_text()
    assert len(ledger(slow).history("two tabs cannot")) == 1


def test_runs_queue_and_a_waiting_one_is_cancelled_for_nothing(slow, slow_page):
    first = start(slow_page, "runs queue and")
    data = data_of(slow, first)
    slow_page.goto(f"/data/{data}/question/recommender")
    slow_page.get_by_role("button", name="Run, and charge").click()
    assert "One run is before it" in slow_page.locator("#state").inner_text()
    slow_page.get_by_role("button", name="Cancel").click()
    slow_page.locator(".state.cancelled").wait_for()
    slow_page.goto(first)
    slow_page.wait_for_selector(".verdict")
    assert len(ledger(slow).history("runs queue and")) == 1


def test_pages_are_answered_during_a_fit(slow, slow_page):
    """How long an answer takes is measured by benchmarks/app.py."""
    start(slow_page, "answered during a fit")
    slow_page.get_by_text(re.compile(r"release \d")).wait_for()
    for path in ("/", "/data", "/runs", "/ledger"):
        assert slow_page.request.get(path).ok
    assert "running" in slow_page.request.get(slow_page.url).text()


def test_a_double_click_is_one_run(slow, slow_page):
    describe_ratings(slow_page, "a double click")
    ask(slow_page, "Recommend items", epsilon=6)
    slow_page.locator("#ask button").last.dblclick(no_wait_after=True)
    slow_page.wait_for_url("**/runs/*")
    slow_page.wait_for_selector(".verdict")
    slow_page.goto("/runs")
    assert slow_page.get_by_role("link", name="Recommend items: a double click").count() == 1
    assert len(ledger(slow).history("a double click")) == 1


# --- the ledger


@pytest.fixture(scope="session")
def spent(browser, real):
    """An account that was opened by hand, and charged twice."""
    from tacit.privacy import GaussianRelease, Guarantee

    context = opened(browser, real)
    page = context.new_page()
    page.goto("/ledger")
    page.fill("#field-name", "by hand")
    page.get_by_role("button", name="Open").click()
    page.get_by_role("link", name="by hand").wait_for()
    context.close()
    for _ in range(2):
        charged = Guarantee.from_releases([GaussianRelease(noise_multiplier=6.0)], delta=1e-6)
        ledger(real).charge("by hand", charged, "by hand")
    return "by hand"


def test_the_history_is_drawn_and_listed(page, spent):
    page.goto("/ledger")
    page.get_by_role("link", name=spent).click()
    assert page.locator("svg.history circle").count() == 2
    assert page.locator("tbody tr").count() == 2


def test_the_record_is_verified(page, spent):
    page.goto("/ledger")
    head = page.locator("code.long").inner_text()
    page.fill("#field-head", head)
    page.get_by_role("button", name="Verify").click()
    assert "entries verify" in page.locator(".notice.good").inner_text()
    page.fill("#field-head", "0" * 63 + "1")
    page.get_by_role("button", name="Verify").click()
    assert "replaced" in page.locator("#problem-head").inner_text()


@pytest.mark.damages
def test_a_changed_record_is_found(slow, slow_page):
    start(slow_page, "changed")
    slow_page.get_by_text(re.compile(r"release \d")).wait_for()
    connection = sqlite3.connect(slow.state / "ledger.db")
    connection.execute("DROP TRIGGER IF EXISTS entries_no_update")
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("UPDATE entries SET body = replace(body, '6.0', '600.0')")
    connection.commit()
    connection.close()
    address = slow_page.url
    slow_page.goto("/ledger")
    assert "This was not possible" in slow_page.locator("h1").inner_text()
    slow_page.goto(address)  # the run is still there
    assert "entry" in slow_page.locator("#state .problem").first.inner_text()
    assert slow_page.locator(".state.done, .state.cancelled, .state.failed, .state.running").count() == 1


@pytest.mark.parametrize("count", ["0", "x", "99999999"])
def test_a_wrong_plan_is_explained(page, spent, count):
    page.goto(f"/ledger/account?name={spent}&releases={count}")
    assert "whole number" in page.locator("#problem-releases").inner_text()


# --- several organisations


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def test_two_organisations_fit_one_model(page, real, tmp_path):
    from tacit.parties import Identity, Job, Party

    page.goto("/parties")
    page.fill("#field-name", "hospital-a")
    page.get_by_role("button", name="Make an identity").click()
    with page.expect_download() as kept:
        page.get_by_role("link", name="certificate").click()
    kept.value.save_as(tmp_path / "a.pem")
    other = Identity.create("hospital-b")
    other.write(tmp_path / "b")
    ports = free_ports(2)
    parties = [
        Party("hospital-a", f"127.0.0.1:{ports[0]}", (tmp_path / "a.pem").read_bytes()),
        Party("hospital-b", f"127.0.0.1:{ports[1]}", other.certificate),
    ]
    settings = {"n_components": 2, "epsilon": 1.0, "delta": 1e-6}
    Job("study", "private-nmf", settings, list("abcdef"), parties).write(tmp_path / "job.toml")

    describe_numbers(page, "parts.csv", "parts of a")
    page.get_by_role("button", name="Go on to the question").click()
    page.wait_for_url("**/question")
    page.goto("/parties")
    page.set_input_files("#field-file", tmp_path / "job.toml")
    page.get_by_role("button", name="Review it").click()
    page.get_by_text("Planned guarantee").wait_for(timeout=SECONDS)
    assert page.get_by_text("No ledger is charged").count() == 0, "the form names the account that is charged"
    shot(page, "job")
    page.get_by_role("button", name="Take part").click()
    assert page.locator("#problem-agreed").is_visible()
    page.select_option("#field-data", label="parts of a")
    page.check("#field-compared")
    page.check("#field-agreed")
    page.get_by_role("button", name="Take part").click()
    page.get_by_text("waiting for hospital-b").wait_for(timeout=SECONDS)
    command = [
        sys.executable,
        "-c",
        REAL,
        "parties",
        "join",
        str(tmp_path / "job.toml"),
        "--as=hospital-b",
        "--yes",
        "--json",
    ]
    command += [f"--data={real.files / 'parts.csv'}", f"--identity={tmp_path / 'b'}", f"--output={tmp_path / 'out'}"]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS / 1000)
    page.wait_for_selector(".verdict.holds", timeout=SECONDS)
    assert len(ledger(real).history("parts of a")) == 1


# --- everybody can use it


def test_the_keyboard_is_enough(page, real):
    def press_until(condition, key="Tab", most=120):
        for _ in range(most):
            if page.evaluate(condition):
                return
            page.keyboard.press(key)
        raise AssertionError(condition)

    focused = "document.activeElement.matches('a, button') && document.activeElement.textContent.includes('%s')"
    page.goto("/")
    page.keyboard.press("Tab")
    assert "Skip" in page.evaluate("document.activeElement.textContent")
    press_until(focused % "Begin with a file")
    page.keyboard.press("Enter")
    page.wait_for_url("**/data")
    press_until(focused % "people.csv")
    page.keyboard.press("Enter")
    page.wait_for_url("**/data/2*")
    press_until("document.activeElement.name === 'unit'")
    page.keyboard.press("Space")
    values = (
        {"kind": "W", "low": "0", "high": "120", "how": "It"},
        {"kind": "C", "categories": "f | m", "how": "It"},
        {"kind": "N", "low": "0", "high": "1", "how": "It"},
    )
    for place, typed in enumerate(values):
        for field, text in typed.items():
            press_until(f"document.activeElement.name === '{field}-{place}'")
            page.keyboard.type(text)
    press_until(focused % "Go on to the question")
    page.keyboard.press("Enter")
    page.wait_for_url("**/question")
    press_until(focused % "Make a synthetic table")
    page.keyboard.press("Enter")
    page.wait_for_url("**/question/synthetic")
    press_until("document.activeElement.id === 'field-total_epsilon'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#plan .figures")
    press_until(focused % "Run, and charge")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    press_until(focused % "Cancel")
    page.keyboard.press("Enter")
    page.locator(".state.cancelled").wait_for()


def test_it_works_without_scripts(browser, slow):
    context = opened(browser, slow, java_script_enabled=False)
    page = context.new_page()
    describe_people(page, name="a table without scripts")  # all fields of a column are shown
    describe_ratings(page, "no scripts")
    ask(page, "Recommend items")
    assert page.locator(".slider").first.is_hidden()
    page.get_by_role("button", name="Run, and charge").click()
    assert page.get_by_role("button", name="Cancel").is_visible()

    def over():
        page.reload()
        return page.locator(".verdict").count() == 1

    until(over, SECONDS / 1000)
    context.close()


PAGES = ["/", "/data", "describe", "question", "/runs", "run", "/ledger", "account", "/audits", "/parties", "/nothing"]


@pytest.fixture(scope="session")
def addresses(browser, real):
    """The addresses of pages with something on them."""
    context = opened(browser, real)
    page = context.new_page()
    name = describe_people(page, name="shown")
    ask(page, "Make a synthetic table")
    page.get_by_role("button", name="Run, and charge").click()
    page.wait_for_selector(".verdict", timeout=SECONDS)
    found = {"describe": f"/data/{name}", "question": f"/data/{name}/question/synthetic", "run": page.url}
    context.close()
    return {**found, "account": "/ledger/account?name=shown"}


@pytest.mark.parametrize("name", PAGES)
def test_accessibility(browser, real, addresses, name):
    if AXE is None or not Path(AXE).is_file():
        pytest.skip("there is no axe-core: npm install axe-core, and set TACIT_AXE to its axe.min.js")
    context = opened(browser, real, bypass_csp=True)
    page = context.new_page()
    page.goto(addresses.get(name, name))
    page.add_script_tag(path=AXE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("axe.run(document, {iframes: false}).then(results => results.violations)")
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], scheme
    context.close()


def test_screens_of_400_pixels(browser, real, addresses):
    context = opened(browser, real, viewport={"width": 400, "height": 800})
    page = context.new_page()
    for name in PAGES:
        page.goto(addresses.get(name, name))
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        if name == "describe":
            shot_small(page, "small")
    context.close()


def test_a_report_fits_400_pixels_dark_screens_and_paper(browser, tmp_path):
    """Reports are written by commands too; the app shows them in a frame."""
    from tacit.report import Report
    from tacit.report.figures import bars
    from tacit.report.result import for_the_holder

    report = Report("A fit", for_the_holder())
    report.facts = {"settings": "components 3, " * 30}
    report.text("Certificate", f"Its digest is sha256:{'0123456789abcdef' * 4}.")
    report.table("Wide", [f"column {place}" for place in range(20)], [["1.2345"] * 20])
    report.table("Job", ["digest", "settings"], [["0123456789abcdef" * 6, "none"]])
    report.figure("Bars", bars([f"group {place}" for place in range(12)], {"error": [1.0] * 12}, value_name="x"), "")
    report.write(tmp_path / "report.html")
    context = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme="dark")
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    background = "getComputedStyle(document.body).backgroundColor"
    assert sum(map(int, re.findall(r"\d+", page.evaluate(background))[:3])) < 150
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": 700, "height": 1000})  # of a sheet of A4
    job = "(() => { const box = [...document.querySelectorAll('.scroll')].pop(); return box.scrollWidth - box.clientWidth })()"
    assert page.evaluate(job) <= 0, "paper cannot be scrolled"
    assert sum(map(int, re.findall(r"\d+", page.evaluate(background))[:3])) == 3 * 255
    context.close()


def test_dark_screens_are_dark(browser, real):
    context = opened(browser, real, color_scheme="dark")
    page = context.new_page()
    page.goto("/")
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    back, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert back < 150
    assert ink > 500
    context.close()


def test_the_question_page_knows_nothing_of_the_rows(page, real):
    """The page is the same, but for ids and tokens, whatever the rows are."""
    texts = []
    for rows in ("30,f,0.5\n", "77,m,0.25\n" * 500):
        (real.files / "varying.csv").write_text("age,sex,income\n" + rows)
        name = describe_people(page, "varying.csv", "varying")
        page.get_by_role("link", name="Choose Make a synthetic table").click()
        page.wait_for_url("**/synthetic")
        texts.append(re.sub(r"\d{8}-\d{12}-[0-9a-f]{8}", "", page.request.get(page.url).text()))
        os.remove(real.state / "data" / name / "data.json")  # the next one has the same name
    assert texts[0] == texts[1]
