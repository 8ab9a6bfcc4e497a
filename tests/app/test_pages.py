"""Pages without a browser: what is kept, what a simulation is given, and that the code shown does what the command does."""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import metadata

import polars as pl
import pytest
from packaging.requirements import Requirement

from tacit.app import simulate
from tacit.app.budget import picture, planned
from tacit.app.datasets import DataSets, answers_of, items_of
from tacit.app.questions import QUESTIONS, Context, command_line, defaults
from tacit.data.schema import DateColumn, IntegerColumn, NumberColumn, TableSchema
from tacit.parties import Identity, Job, Party
from tacit.parties.identity import check_valid
from tacit.privacy import GaussianRelease, Guarantee, Ledger
from tacit.privacy.rounding import rounded_down

PEOPLE = {
    "name": "people",
    "kind": "table",
    "unit": "person",
    "kind-0": "integer",
    "low-0": "0",
    "high-0": "120",
    "how-0": "limit",
    "kind-1": "category",
    "categories-1": "f | m",
    "how-1": "definition",
}
RATINGS = {
    "name": "films",
    "kind": "ratings",
    "user": "user",
    "item": "item",
    "rating": "rating",
    "low": "1",
    "high": "5",
    "how-range": "definition",
    "items": "1-20",
    "how-items": "published",
}


@pytest.fixture
def people(client, site, tmp_path):
    """A described table of one secret person."""
    (tmp_path / "files" / "people.csv").write_text("age,sex\n31,f\n" + "40,m\n" * 200)
    client.submit("/data/pick", {"root": "0", "path": "people.csv"})
    (data,) = site.datasets.all()
    assert client.submit(f"/data/{data.id}", PEOPLE).url.path == f"/data/{data.id}/question"
    return site.datasets.get(data.id)


@pytest.fixture
def films(client, site, tmp_path):
    from tacit.data import make_ratings

    made = make_ratings(150, 20, ratings_per_user=8, random_state=1)
    frame = pl.DataFrame({"user": made.users, "item": made.items + 1, "rating": made.ratings})
    frame.write_csv(tmp_path / "files" / "ratings.csv")
    client.submit("/data/pick", {"root": "0", "path": "ratings.csv"})
    (data,) = site.datasets.all()
    assert client.submit(f"/data/{data.id}", RATINGS).url.path == f"/data/{data.id}/question"
    return site.datasets.get(data.id)


def test_what_was_stated_is_the_schema(site, people):
    schema = TableSchema.load(site.datasets.schema(people))
    schema.check_public()
    assert schema.columns["age"] == IntegerColumn(0, 120)
    assert schema.columns["sex"].categories == ("f", "m")
    assert DataSets(site.datasets.folder).get(people.id) == people  # a restart finds it


def test_a_schema_is_not_written_before_everything_is_answered(client, site, tmp_path):
    (tmp_path / "files" / "people.csv").write_text("age,sex\n31,f\n")
    client.submit("/data/pick", {"root": "0", "path": "people.csv"})
    (data,) = site.datasets.all()
    answer = client.submit(f"/data/{data.id}", {**PEOPLE, "how-1": ""})
    assert answer.status_code == 422
    assert not site.datasets.schema(data).exists()
    assert not site.datasets.get(data.id).ready
    assert client.get(f"/data/{data.id}/question").url.path == f"/data/{data.id}"


def test_two_data_sets_do_not_share_a_name(client, site, people, tmp_path):
    (tmp_path / "files" / "others.csv").write_text("age,sex\n31,f\n")
    client.submit("/data/pick", {"root": "0", "path": "others.csv"})
    answer = client.submit(f"/data/{site.datasets.all()[0].id}", PEOPLE)
    assert answer.status_code == 422
    assert "Another data set has this name" in answer.text


def test_a_data_set_with_charges_keeps_its_name(client, site, people):
    """Under another name the same people would have a second budget."""
    ledger = Ledger(site.ledger)
    ledger.open_account(people.name, epsilon=1.0, delta=1e-6)
    other = {**PEOPLE, "name": "other people"}
    assert client.submit(f"/data/{people.id}", other).status_code == 200, "nothing was charged yet"
    assert client.submit(f"/data/{people.id}", PEOPLE).status_code == 200
    plan = Guarantee.from_releases([GaussianRelease(noise_multiplier=10.0)], delta=1e-6)
    ledger.charge(people.name, plan, "a model")
    answer = client.submit(f"/data/{people.id}", other)
    assert answer.status_code == 422
    assert "has charges for these data" in answer.text
    assert site.datasets.get(people.id).name == people.name
    assert client.submit(f"/data/{people.id}", PEOPLE).status_code == 200


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind-0": ""}, "Choose a kind"),
        ({"high-0": "-1"}, "lesser one first"),
        ({"high-0": "nan"}, "lesser one first"),
        ({"high-0": "inf"}, "lesser one first"),
        ({"high-0": "1.5"}, "must be whole numbers"),
        ({"categories-1": "f"}, "separated by |"),
        ({"categories-1": "f | f"}, "once"),
        ({"how-1": "rows"}, "not public"),
        ({"unit": "several"}, "protect one row"),
        ({"unit": ""}, "Say what one row is"),
        ({"name": ""}, "name"),
    ],
)
def test_wrong_columns_are_explained(client, people, fields, told):
    answer = client.submit(f"/data/{people.id}", {**PEOPLE, **fields})
    assert answer.status_code == 422
    assert told in answer.text


def test_a_run_keeps_the_schema_that_it_was_asked_with(client, site, people):
    client.submit(f"/data/{people.id}/question/synthetic/account", {"total_epsilon": "3", "total_delta": "1e-6"})
    site.runner.slots = 0  # nothing starts
    client.submit(f"/data/{people.id}/question/synthetic/run", {"epsilon": "0.5", "delta": "1e-6"})
    client.submit(f"/data/{people.id}", {**PEOPLE, "high-0": "99"})
    (run,) = site.runner.runs()
    (schema,) = [part.partition("=")[2] for part in run.spec["command"] if part.startswith("--schema=")]
    assert TableSchema.load(schema).columns["age"] == IntegerColumn(0, 120)
    assert TableSchema.load(site.datasets.schema(people)).columns["age"] == IntegerColumn(0, 99)


def test_a_part_that_is_filled_in_loses_nothing_of_the_rest(client, site, tmp_path):
    (tmp_path / "files" / "films.csv").write_text("userId,movieId,rating,timestamp\n1,5,3,0\n1,12,4,0\n2,5,1,0\n")
    client.submit("/data/pick", {"root": "0", "path": "films.csv"})
    (data,) = site.datasets.all()
    assert data.kind == "ratings"  # by the names of its columns
    assert "<option selected>movieId</option>" in client.get(f"/data/{data.id}").text
    fields = {"name": "our films", "user": "userId", "item": "movieId", "rating": "rating", "how-range": "definition"}
    client.submit(f"/data/{data.id}/draft", {**fields, "how-items": "published"})
    answers = site.datasets.get(data.id).answers
    assert answers["items"].split() == ["5", "12"]
    assert answers["name"] == "our films"
    assert answers["how-range"] == "definition"
    assert "how-items" not in answers  # drafted items must be answered for again


def test_items_of_a_list():
    assert list(items_of("1-3\n 7\n7\nfilm x\n\n9-8")) == ["1", "2", "3", "7", "film x", "9-8"]


def spec_of(client, site, data, question, fields):
    client.submit(f"/data/{data.id}/question/{question}/simulate", fields)
    (run,) = [run for run in site.runner.runs() if run.kind == "simulation"]
    site.runner.cancel(run.id)
    return run, json.loads(run.spec["command"][-1])


@pytest.mark.slow
def test_a_simulation_is_given_nothing_of_the_data(client, site, people):
    run, spec = spec_of(client, site, people, "synthetic", {"rows": "400", "epsilon": "1", "delta": "1e-6"})
    assert people.path not in json.dumps(run.spec)
    assert spec == {
        "question": "synthetic",
        "epsilon": 1.0,
        "delta": 1e-6,
        "label": "",
        "rows": 400,
        "schema": TableSchema.load(site.datasets.schema(people)).to_dict(),
    }


@pytest.mark.slow
def test_more_budget_gives_less_error_in_a_simulation(site, people):
    schema = TableSchema.load(site.datasets.schema(people)).to_dict()
    found = simulate.simulate({"question": "synthetic", "epsilon": 1.0, "delta": 1e-6, "rows": 500, "schema": schema})
    assert list(found["errors"]) == ["0.1", "0.3", "1", "3", "10"]
    assert found["errors"]["0.1"] > 2 * found["errors"]["10"]
    assert found["references"]["a table of random cells"] > found["errors"]["10"]


def test_the_plan_is_what_the_ledger_would_charge(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.open_account("people", 3.0, 1e-6)
    plan = planned("1", "1e-6", "row", book, "people")
    assert plan.wrong == {}
    assert plan.sentence.startswith("Adding or removing any one row changes the probability")
    assert plan.after.spent == pytest.approx(1.0, rel=1e-6)
    assert "protects a row" in planned("1", "1e-6", "user", book, "people").wrong["account"]
    assert "still fits" in planned("3.1", "1e-6", "row", book, "people").wrong["epsilon"]
    assert set(planned("x", "2", "row", book, "people").wrong) == {"epsilon", "delta"}


def test_the_picture_climbs_with_the_charges(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    account = book.open_account("people", 3.0, 1e-6)
    for _ in range(3):
        book.charge("people", Guarantee.from_releases([GaussianRelease(noise_multiplier=8.0)], delta=1e-6), "a <fit>")
    drawn = picture(account, book.history("people"))
    heights = [y for _, y, _ in drawn.points]
    assert heights == sorted(heights, reverse=True)  # downwards is larger
    assert drawn.budget < min(heights)
    assert picture(account, []).points == []


def test_the_command_that_is_shown_is_the_command_that_runs(client, site, people):
    client.submit(f"/data/{people.id}/question/synthetic/account", {"total_epsilon": "3", "total_delta": "1e-6"})
    site.runner.slots = 0  # nothing starts
    answer = client.submit(f"/data/{people.id}/question/synthetic/run", {"epsilon": "0.5", "delta": "1e-6"})
    run = site.runner.get(answer.url.path.rpartition("/")[2])
    arguments = run.spec["command"][len(site.command) :]
    generic = [part.replace(str(run.output), "{output}") for part in arguments]
    assert run.spec["line"] == command_line(generic, "tacit-synthetic")
    assert f"--dataset={people.name}" in arguments
    assert not site.book().history(people.name)


@pytest.mark.slow
@pytest.mark.parametrize("question", ["synthetic", "recommender"])
@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
def test_the_code_that_is_shown_runs_and_charges(request, site, monkeypatch, tmp_path, capsys, question):
    data = request.getfixturevalue("people" if question == "synthetic" else "films")
    book = Ledger(site.ledger)
    book.open_account(data.name, 9.0, 1e-6, unit=data.unit)
    values = {**defaults(QUESTIONS[question]), "factors": "2"}
    code = QUESTIONS[question].code(Context(data, site.datasets, values, site.ledger))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "shown", "exec"), {})
    assert "changes the probability" in capsys.readouterr().out
    assert len(book.history(data.name)) == 1


def test_pages_are_quick(client, people):
    """A page costs a few milliseconds, so that it stays responsive beside a fit."""
    client.get("/data")
    times = []
    for _ in range(7):
        begun = time.process_time()  # of the processor: other work on the machine does not count
        assert client.get("/data").status_code == 200
        times.append(time.process_time() - begun)
    assert sorted(times)[3] < 0.1


def closure(names):
    """Return the distributions that these need, themselves included, without extras."""
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        parsed = [Requirement(text) for text in needs]
        waiting += [one.name for one in parsed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def test_the_app_needs_few_further_packages():
    declared = [Requirement(text) for text in metadata.requires("tacit") or []]
    base = {one.name for one in declared if one.marker is None or one.marker.evaluate({"extra": ""})}
    with_app = {one.name for one in declared if one.marker is None or one.marker.evaluate({"extra": "app"})}
    if with_app == base:
        pytest.skip("the installed tacit is older than its app")
    # uvicorn needs click for its own command
    assert closure(with_app) - closure(base) <= {"anyio", "click", "h11", "idna", "starlette", "uvicorn"}


def test_an_identity_is_made_and_its_key_stays(client, site):
    assert client.submit("/parties/identity", {"name": "hospital-a"}).status_code == 200
    fingerprint = Identity.read(site.folder / "identities" / "hospital-a").fingerprint
    assert fingerprint in client.get("/parties").text
    sent = client.get("/parties/certificate/hospital-a").text
    assert "BEGIN CERTIFICATE" in sent
    assert "PRIVATE KEY" not in sent
    for name in ("../x", "..", ".", "", "a/b"):
        assert client.submit("/parties/identity", {"name": name}).status_code == 422
    assert list(site.folder.rglob("key.pem")) == [site.folder / "identities" / "hospital-a" / "key.pem"]
    assert client.submit("/parties/identity", {"name": "hospital-a"}).status_code == 422  # it is not replaced
    assert client.get("/parties/certificate/hospital-b").status_code == 404


def test_a_damaged_identity_does_not_close_the_page(client, site):
    for name in ("hospital-a", "hospital-b", "hospital-c"):
        client.submit("/parties/identity", {"name": name})
    (site.folder / "identities" / "hospital-b" / "certificate.pem").write_text("-----BEGIN CERT")
    (site.folder / "identities" / "hospital-c" / "key.pem").unlink()
    page = client.get("/parties")
    assert page.status_code == 200
    assert "The files of hospital-b, hospital-c are damaged" in page.text
    assert client.get("/parties/certificate/hospital-a").status_code == 200
    assert client.get("/parties/certificate/hospital-b").status_code == 404


@pytest.fixture
def job(client, site, tmp_path):
    client.submit("/parties/identity", {"name": "hospital-a"})
    mine, other = Identity.read(site.folder / "identities" / "hospital-a"), Identity.create("hospital-b")
    parties = [Party(one.name, f"127.0.0.1:{7000 + place}", one.certificate) for place, one in enumerate((mine, other))]
    settings = {"n_components": 2, "epsilon": 1.0, "delta": 1e-6}
    return Job("study", "private-nmf", settings, ["a", "b"], parties).text()


def upload_job(client, text):
    return client.upload("job.toml", text.encode(), "/parties/job/upload", page="/parties")


@pytest.mark.slow
def test_a_job_is_reviewed_and_needs_consent(client, site, people, job):
    page = upload_job(client, job)
    assert page.status_code == 200
    assert "Planned guarantee" in page.text
    assert "hospital-b" in page.text
    site.runner.slots = 0  # nothing starts
    fields = {"party": "hospital-a", "data": people.id, "compared": "yes", "total_epsilon": "3", "total_delta": "1e-6"}
    refused = client.submit(f"{page.url.path}/join", fields)
    assert refused.status_code == 422
    assert "Nothing is sent without consent" in refused.text
    assert site.book() is None
    joined = client.submit(f"{page.url.path}/join", {**fields, "agreed": "yes"})
    (run,) = site.runner.runs()
    assert joined.url.path == f"/runs/{run.id}"
    assert run.spec["consent"]["digest"] == Job.parse(job).digest
    assert "--yes" in run.spec["command"]
    assert site.book().datasets() == [people.name]


def test_a_changed_job_is_refused(client, site, job):
    answer = upload_job(client, job.replace("n_components = 2", "n_components = 3"))
    assert answer.status_code == 422
    assert "as it was sealed" in answer.text
    assert upload_job(client, "\x00 no job").status_code == 422
    assert list((site.folder / "jobs").iterdir()) == []


def test_jobs_that_expired_or_are_damaged_do_not_close_the_page(client, site, job, monkeypatch):
    """A certificate of one old job expires some day; an upload may have been cut off by a crash."""
    kept = site.folder / "jobs" / "20260101-000000000000-00000000"
    kept.mkdir()
    (kept / "job.toml").write_text(job)
    (site.folder / "jobs" / "20260101-000000000001-00000000").mkdir()
    assert client.get("/parties").text.count("cannot be used any more") == 1
    assert f'href="/parties/job/{kept.name}"' in client.get("/parties").text
    expired = datetime.now(UTC) + timedelta(days=36500)
    monkeypatch.setattr("tacit.parties.job.check_valid", partial(check_valid, now=expired))
    page = client.get("/parties")
    assert page.status_code == 200
    assert "expired" in page.text
    assert client.get(f"/parties/job/{kept.name}").status_code == 422


def test_dates_and_empty_cells_can_be_declared(client, site, tmp_path):
    (tmp_path / "files" / "visits.csv").write_text("day,dose\n2024-01-05,\n2024-03-01,2\n")
    client.submit("/data/pick", {"root": "0", "path": "visits.csv"})
    (data,) = site.datasets.all()
    fields = {"name": "visits", "unit": "thing", "kind-0": "date", "low-0": "2024-01-01", "high-0": "2024-12-31"}
    fields |= {
        "how-0": "definition",
        "kind-1": "number",
        "low-1": "0",
        "high-1": "9",
        "missing-1": "yes",
        "how-1": "limit",
    }
    assert client.submit(f"/data/{data.id}", {**fields, "low-0": "soon"}).status_code == 422
    assert client.submit(f"/data/{data.id}", fields).status_code == 200
    schema = TableSchema.load(site.datasets.schema(data))
    assert schema.columns == {
        "day": DateColumn("2024-01-01", "2024-12-31"),
        "dose": NumberColumn(0.0, 9.0, missing=True),
    }
    assert answers_of(schema, data)["missing-1"] == "yes"
    assert (
        "at least two columns of numbers" in client.get(f"/data/{data.id}/question").text
    )  # for components and topics


@pytest.mark.slow
def test_a_finished_run_is_audited_at_no_cost(client, site, people):
    client.submit(f"/data/{people.id}/question/synthetic/account", {"total_epsilon": "3", "total_delta": "1e-6"})
    answer = client.submit(f"/data/{people.id}/question/synthetic/run", {"epsilon": "0.5", "delta": "1e-6"})
    name = answer.url.path.rpartition("/")[2]
    assert client.submit(f"/audits/{name}", {}).status_code == 404, "it has not ended"
    ended(site, name)
    page = client.get("/audits").text
    assert "Audit Make a synthetic table: people</button> epsilon 0.5, asked for 2" in page, (
        "runs of one data set are told apart"
    )
    assert "<td>0.5</td>" in client.get("/runs").text, "and in the list of runs"
    spent = site.book().history(people.name)
    audit = client.submit(f"/audits/{name}", {}).url.path.rpartition("/")[2]
    line = site.runner.get(audit).spec["line"]
    assert line.startswith("tacit audit --output=tacit-audit --ledger=")
    assert line.count("--dataset=") == line.count("--ledger=") == 1, "the audited command has no ledger"
    ended(site, audit)
    assert site.book().history(people.name) == spent
    assert "Nothing contradicts the claim" in client.get(f"/runs/{audit}").text
    assert "nothing contradicts the claim" in client.get("/audits").text


def test_what_a_cancelled_run_had_released_and_paid_for_can_be_downloaded(client, site):
    code = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); (p / 'model').mkdir(parents=True); "
    code += "(p / 'model' / 'nmf.tacit').write_text('paid'); (p / 'rows.npy').write_text('private'); sys.exit(1)"
    command = [sys.executable, "-c", code, "{output}"]
    for account, kept in (("people", True), ("", False)):
        name = site.runner.submit("topics", "Topics", command, account=account, released="model/nmf.tacit")
        over(site, name)
        page = client.get(f"/runs/{name}").text
        assert ("Download model/nmf.tacit" in page) == kept
        assert "rows.npy" not in page
        assert client.get(f"/runs/{name}/files/model/nmf.tacit").status_code == (200 if kept else 404)
        assert client.get(f"/runs/{name}/files/rows.npy").status_code == 404


def over(site, name, seconds=600.0):
    end = time.monotonic() + seconds
    while not site.runner.get(name).is_over:
        assert time.monotonic() < end, "the run takes too long"
        site.runner.tick()
        time.sleep(0.2)


def ended(site, name):
    over(site, name)
    assert site.runner.get(name).state == "done", site.runner.get(name).error()


def test_coupled_tables_are_asked_with_privacy(client, site, tmp_path):
    (tmp_path / "files" / "coupled.toml").write_text("ranks = 2\n")
    client.submit("/data/pick", {"root": "0", "path": "coupled.toml"})
    (data,) = site.datasets.all()
    client.submit(f"/data/{data.id}", {"name": "places", "unit": "person"})
    question = f"/data/{data.id}/question/private_coupled"
    client.submit(f"{question}/account", {"total_epsilon": "3", "total_delta": "1e-6"})
    assert site.book().account("places").unit == "user"
    site.runner.slots = 0  # nothing starts
    budget = {"epsilon": "1", "delta": "1e-6"}
    wrong = client.submit(f"{question}/run", {**budget, "private": "--x", "value_range": "much"})
    assert wrong.status_code == 422
    assert "Give two numbers" in wrong.text
    assert "name of a factor" in wrong.text
    asked = client.submit(f"{question}/run", {**budget, "private": "place", "value_range": "0:10"})
    run = site.runner.get(asked.url.path.rpartition("/")[2])
    assert "--private=place --value-range=0:10 --epsilon=1.0" in run.spec["line"]
    assert run.spec["released"] == "model/coupled.tacit"


def test_what_a_model_is_worth_stands_at_the_top_of_its_run(client, site):
    concern = {"what": "Biases <only>.", "advice": "Fit more users.", "basis": "from what was released"}
    run = site.runner.submit("test", "A run", [sys.executable, "-c", "pass"])
    written = site.runner.get(run).output / "result.json"
    written.parent.mkdir(exist_ok=True)
    written.write_text(json.dumps({"concerns": [concern]}))
    ended(site, run)
    page = client.get(f"/runs/{run}").text
    assert "<strong>Biases &lt;only&gt;.</strong> Fit more users." in page
    assert page.index("Before you use this") < page.index("For you only")


def test_usual_names_of_columns_are_recognised(tmp_path):
    (tmp_path / "books.csv").write_text("Reader;ISBN;Stars\n1;978;4\n")
    made = DataSets(tmp_path / "data").add(tmp_path / "books.csv")
    assert made.kind == "ratings"


def test_the_ledger_shows_the_largest_epsilon_that_still_fits(client, site):
    book = Ledger(site.ledger)
    book.open_account("people", 3.0, 1e-6)
    spent = Guarantee.from_releases([GaussianRelease("sum", noise_multiplier=5.0)], delta=1e-6)
    book.charge("people", spent, "a fit")
    page = client.get("/ledger").text
    fits = book.affordable("people")
    assert fits > book.remaining("people").epsilon  # charges compose to less than their sum
    assert f"<td>{rounded_down(fits)}</td>" in page


def test_counts_are_shown_in_full_and_measures_are_rounded():
    from tacit.app.pages_runs import _cell

    assert [_cell(value) for value in (10099, 0.902412, None, {"n_users": 1500, "rmse": 1.0})] == [
        "10,099",
        "0.9024",
        "",
        "users measured 1,500, error of a rating (RMSE) 1",
    ]
