"""`tacit parties`: identities, jobs, and real processes that fit one model."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tacit import load
from tacit.cli.main import app
from tacit.parties import Job


def tacit(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def write_table(path, seed=0):
    table = np.random.default_rng(seed).gamma(1.0, size=(40, 4))
    pl.DataFrame({name: table[:, place] for place, name in enumerate("abcd")}).write_csv(path)
    return table


def test_an_identity_and_a_job(tmp_path):
    table = tmp_path / "data.csv"
    write_table(table)
    parties = []
    for place, name in enumerate(("north", "south")):
        shown = json.loads(tacit("parties", "init", name, "--folder", tmp_path / name, "--json"))
        parties += ["--party", f"{name}={shown['certificate']}@127.0.0.1:{9000 + place}"]
    job = tmp_path / "job.toml"
    made = ["--model", "nmf", *parties, "--features", table, "--set", "n_components=2", "-o", job]
    assert "sha256:" in tacit("parties", "job", "study", *made)
    assert Job.read(job).features == ["a", "b", "c", "d"]
    assert Job.read(job).settings == {"n_components": 2}
    job.write_text(job.read_text().replace("n_components = 2", "n_components = 3"))
    assert tacit("parties", "seal", job).strip() == Job.read(job).digest
    from tacit.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="settings of NMF"):
        tacit("parties", "job", "study", *made[:-4], "--set", "rank=2", "-o", job)
    with pytest.raises(InvalidInputError, match="NAME=certificate"):
        tacit("parties", "job", "study", "--model", "nmf", "--party", "x", "--features", table)


@pytest.mark.slow
def test_simulated_parties_leave_what_real_ones_would(tmp_path):
    table = tmp_path / "data.csv"
    X = write_table(table)
    words = ["parties", "simulate", table, "--parties", "3", "--model", "nmf", "--set", "n_components=2"]
    code = "from tacit.cli.main import main; main()"
    words += ["--survive", "1", "--held-out", "0"]
    command = [sys.executable, "-c", code, *words, "--set", "max_iter=5", "-o", tmp_path / "out", "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=300)
    results = json.loads(done.stdout)["parties"]
    assert Job.read(tmp_path / "out" / "job.toml").survive == 1
    assert all(result["payoff"] is None for result in results)
    assert sum(result["records"] for result in results) == len(X)
    models = [load(tmp_path / "out" / result["party"] / "model" / "nmf.tacit") for result in results]
    for result, model in zip(results, models, strict=True):
        folder = tmp_path / "out" / result["party"]
        np.testing.assert_array_equal(model.components_, models[0].components_)
        assert np.load(folder / "rows.npy").shape == (result["records"], 2)
        page = (folder / "report.html").read_text()
        assert "bytes sent" in page
        assert f"<dt>records of this party</dt><dd>{result['records']}</dd>" in page
        assert "<dt>data</dt><dd>data.npz</dd>" in page
        for file in ("rows.npy", "result.json", "report.html", "checkpoint.db", "data.npz", "model/nmf.tacit"):
            assert (folder / file).stat().st_mode & 0o077 == 0, file
        assert result["traffic"]["sent"] > 0
        assert (
            json.loads((folder / "result.json").read_text())["job"]["digest"]
            == Job.read(tmp_path / "out" / "job.toml").digest
        )


@pytest.mark.slow
def test_a_simulated_party_with_other_columns_is_named(tmp_path):
    write_table(tmp_path / "one.csv")
    pl.read_csv(tmp_path / "one.csv").select("b", "a", "c", "d").write_csv(tmp_path / "two.csv")
    code = "from tacit.cli.main import main; main()"
    words = [
        "parties",
        "simulate",
        tmp_path / "one.csv",
        tmp_path / "two.csv",
        "--set",
        "n_components=2",
        "--timeout",
        "2",
    ]
    command = [sys.executable, "-c", code, *words, "-o", tmp_path / "out", "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 8
    message = json.loads(done.stdout)["error"]["message"]
    assert "party-2" in message
    assert "another order" in message


def job_file(folder, model, *settings, features="abcd", names=("north", "south", "west"), **more):
    """Write identities and a job with the commands; return the job's path."""
    folder.mkdir(parents=True, exist_ok=True)
    words = []
    for place, name in enumerate(names):
        tacit("parties", "init", name, "--folder", folder / name)
        words += ["--party", f"{name}={folder / name / 'certificate.pem'}@127.0.0.1:{9100 + place}"]
    listed = folder / "columns.list"  # whatever the file is called
    listed.write_text("\n".join(features))
    for setting in settings:
        words += ["--set", setting]
    for name, value in more.items():
        words += [f"--{name}", value]
    tacit("parties", "job", "study", "--model", model, *words, "--features", listed, "-o", folder / "job.toml")
    return folder / "job.toml"


@pytest.mark.slow
def test_a_review_says_what_leaves_what_is_guaranteed_and_who_could_collude(tmp_path):
    shown = tacit("parties", "review", job_file(tmp_path / "one", "moments", "epsilon=2.0", "delta=1e-6"))
    assert "epsilon 2" in shown
    assert "1 x sum of count (1), total (4)," in shown
    assert "second (10): 15 numbers" in shown  # the upper triangle of a 4 x 4 matrix
    assert "holds against up to 1 of the 3 parties" in shown
    shown = tacit("parties", "review", job_file(tmp_path / "two", "svd", "n_components=2"))
    assert "no differential privacy" in shown
    assert "normalised sum of" in shown
    assert "at most 1 parties pool what they know" in shown
    values = json.loads(tacit("parties", "review", tmp_path / "one" / "job.toml", "--json"))
    assert "CONSIDER" not in shown
    weak = tacit("parties", "review", job_file(tmp_path / "weak", "moments", "epsilon=30.0", "delta=1e-6"))
    assert "CONSIDER: An epsilon of 30 is a weak guarantee" in weak
    assert values["epsilon"] == 2.0
    assert values["has_guarantee"]
    assert [party["name"] for party in values["parties"]] == ["north", "south", "west"]


def test_a_review_of_four_parties_claims_no_more_than_fewer_than_half(tmp_path):
    names = ("north", "south", "west", "east")
    shown = tacit("parties", "review", job_file(tmp_path, "svd", "n_components=2", names=names))
    assert "stay hidden while at most 1 parties pool" in shown  # two of four recover the norm


@pytest.mark.slow
def test_a_review_says_who_learns_the_sums_after_a_party_has_left(tmp_path):
    shown = tacit("parties", "review", job_file(tmp_path / "three", "nmf", "n_components=2", survive="1"))
    assert "the one other that may be left learns your sums exactly, without pooling" in shown
    names = ("north", "south", "west", "east")
    shown = tacit("parties", "review", job_file(tmp_path / "four", "nmf", "n_components=2", names=names, survive="1"))
    assert "the 2 others that may be left are enough to learn your sums exactly" in shown
    shown = tacit("parties", "review", job_file(tmp_path / "private", "moments", "epsilon=2.0", survive="1"))
    assert "learn your sums" not in shown


def test_a_review_says_that_singular_values_are_not_hidden(tmp_path):
    shown = tacit("parties", "review", job_file(tmp_path, "svd", "n_components=2", "hide_singular_values=false"))
    assert "All parties learn the singular values" in shown
    assert "stay hidden" not in shown


def joining(folder, job, *words):
    write_table(folder / "data.csv")
    given = ["parties", "join", job, "--as", "north", "--data", folder / "data.csv", "--identity", folder / "north"]
    return tacit(*given, "--output", folder / "out", "--wait", "0.3", *words)


@pytest.mark.slow
def test_joining_asks_before_the_first_connection(tmp_path):
    from tacit.errors import InvalidInputError, PartyError

    job = job_file(tmp_path, "moments", "epsilon=2.0")
    with pytest.raises(InvalidInputError, match="a person who confirms what the job releases, or --yes"):
        joining(tmp_path, job)
    assert not (tmp_path / "out" / "checkpoint.db").exists()
    with pytest.raises(PartyError, match="south, west to come"):
        joining(tmp_path, job, "--yes")


@pytest.mark.slow
def test_a_checkpoint_of_which_nothing_was_sent_is_no_consent(tmp_path):
    """The others did not come to a first job; a second one in the same folder is shown and asked about too."""
    from tacit.cli.parties_consent import RunsOfIdentity
    from tacit.errors import InvalidInputError, PartyError

    job = job_file(tmp_path, "moments", "epsilon=2.0")
    with pytest.raises(PartyError, match="south, west to come"):
        joining(tmp_path, job, "--yes")
    assert (tmp_path / "out" / "checkpoint.db").exists()
    job.write_text(job.read_text().replace("epsilon = 2.0", "epsilon = 90.0"))
    tacit("parties", "seal", job)
    for again in (["--retry", "1s"], ["--resume"]):
        with pytest.raises(InvalidInputError, match="a person who confirms what the job releases, or --yes"):
            joining(tmp_path, job, *again)
    RunsOfIdentity(tmp_path / "north", Job.read(job).identity).note()  # begun in another folder
    for again in (["--retry", "1s"], ["--resume"]):
        with pytest.raises(InvalidInputError, match="the first run of this job"):
            joining(tmp_path, job, "--yes", *again)


def test_a_review_of_what_cannot_be_tried_denies_no_privacy(tmp_path):
    shown = tacit("parties", "review", job_file(tmp_path / "one", "private-pca", "n_components=5", "epsilon=2.0"))
    assert "A trial here failed, and so may the run: expected n_components <= 4" in shown
    assert "differential privacy with epsilon 2 and delta" in shown
    assert "no differential privacy" not in shown
    assert "holds against up to 1 of the 3 parties" in shown
    shown = tacit("parties", "review", job_file(tmp_path / "two", "nmf", "n_components=5"))
    assert "A trial here failed, and so may the run: expected n_components <= 4" in shown
    assert "no differential privacy" in shown


def test_earlier_results_that_are_replaced_are_for_their_owner_too(tmp_path):
    from tacit.cli.parties_consent import private_files

    (tmp_path / "model").mkdir(mode=0o755)
    (tmp_path / "rows.npy").write_text("old")
    (tmp_path / "rows.npy").chmod(0o644)
    with private_files(tmp_path / "model", tmp_path / "rows.npy", tmp_path / "none"):
        (tmp_path / "rows.npy").write_text("new")
        (tmp_path / "result.json").write_text("{}")
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path.name


@pytest.mark.slow
def test_a_job_that_voids_the_guarantee_is_refused_unless_this_party_accepts_it(tmp_path):
    from tacit.errors import InvalidInputError, PartyError

    with pytest.raises(InvalidInputError, match="epsilon=inf"):
        job_file(tmp_path / "made", "moments", "epsilon=inf")
    job = job_file(tmp_path, "moments", "epsilon=2.0")
    job.write_text(job.read_text().replace("epsilon = 2.0", "epsilon = inf"))
    tacit("parties", "seal", job)
    with pytest.raises(InvalidInputError, match=r"epsilon=inf.*--accept-no-guarantee"):
        joining(tmp_path, job, "--yes")
    with pytest.raises(PartyError, match="to come"):
        joining(tmp_path, job, "--yes", "--accept-no-guarantee")
    tacit("budget", "open", "mine", "--epsilon", "5", "--delta", "1e-5", "--ledger", tmp_path / "ledger.db")
    charged = ["--ledger", tmp_path / "ledger.db", "--dataset", "mine", "--yes"]
    with pytest.raises(InvalidInputError, match="a fit that a ledger can account for"):
        joining(tmp_path, job, *charged, "--accept-no-guarantee")
    plain = job_file(tmp_path / "plain", "nmf", "n_components=2")
    with pytest.raises(InvalidInputError, match="a private fit"):
        joining(tmp_path / "plain", plain, *charged)
    assert "THERE IS NO GUARANTEE" in tacit("parties", "review", job)


def test_the_ledger_is_named_in_the_review_that_a_party_confirms(tmp_path):
    from tacit.parties.consent import review
    from tacit.privacy import Ledger

    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("mine", 1.5, 1e-5)
    job = Job.read(job_file(tmp_path, "moments", "epsilon=1.0", "delta=1e-6"))
    assert "charged with epsilon 1" in str(review(job, account=(ledger, "mine")))
    dear = Job.read(job_file(tmp_path / "dear", "moments", "epsilon=3.0", "delta=1e-6"))
    assert "THE BUDGET IS NOT ENOUGH" in str(review(dear, account=(ledger, "mine")))
    assert ledger.remaining("mine").spent == 0


@pytest.mark.slow
def test_a_second_run_of_a_job_in_another_folder_must_be_asked_for(tmp_path):
    from tacit.cli.parties_consent import RunsOfIdentity
    from tacit.errors import InvalidInputError, PartyError

    job = job_file(tmp_path, "moments", "epsilon=2.0")
    RunsOfIdentity(tmp_path / "north", Job.read(job).identity).note()
    assert (tmp_path / "north" / "runs.txt").stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInputError, match="the first run of this job"):
        joining(tmp_path, job, "--yes")
    with pytest.raises(PartyError, match="to come"):
        joining(tmp_path, job, "--yes", "--new-run")


def test_a_run_that_could_not_be_noted_is_found_before_it_begins(tmp_path):
    from tacit.cli.parties_consent import RunsOfIdentity
    from tacit.errors import InvalidInputError

    RunsOfIdentity(tmp_path, "job").check_first(allowed=False)
    (tmp_path / "runs.txt").unlink()
    (tmp_path / "runs.txt").mkdir()
    with pytest.raises(InvalidInputError, match=r"runs\.txt can be written; got IsADirectoryError"):
        RunsOfIdentity(tmp_path, "job").check_first(allowed=False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("90s", 90), ("1.5m", 90), ("1h", 3600), ("2d", 172800)]
)
def test_times_are_read(text, seconds):
    from tacit.cli.parties_consent import seconds_of

    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1s", "soon", "nan", "infh"])
def test_times_that_are_none_are_refused(text):
    from tacit.cli.parties_consent import seconds_of
    from tacit.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="a time as in"):
        seconds_of(text)


def test_a_simulation_does_not_overwrite_another_and_finds_what_cannot_be_first(tmp_path):
    from tacit.errors import InvalidInputError

    write_table(tmp_path / "data.csv")
    out = tmp_path / "out"
    with pytest.raises(InvalidInputError, match="at most 11 parties"):
        tacit("parties", "simulate", tmp_path / "data.csv", "--parties", "12", "--model", "svd", "-o", out)
    assert not out.exists()
    out.mkdir()
    (out / "job.toml").write_text("precious")
    with pytest.raises(InvalidInputError, match="without an earlier simulation"):
        tacit("parties", "simulate", tmp_path / "data.csv", "--set", "n_components=2", "-o", out)
    assert [path.name for path in out.iterdir()] == ["job.toml"]
    assert (out / "job.toml").read_text() == "precious"


def write_ratings(path, users=60, items=8):
    generator = np.random.default_rng(3)
    pairs = [(user, item) for user in range(users) for item in range(items) if generator.random() < 0.5]
    frame = {"user": [f"u{user}" for user, _ in pairs], "item": [f"i{item}" for _, item in pairs]}
    pl.DataFrame({**frame, "rating": generator.integers(1, 6, len(pairs)).astype(float)}).write_csv(path)


@pytest.mark.parametrize("private", [False, True])
def test_a_simulation_splits_ratings_by_user(tmp_path, private):
    from tacit.cli.parties_simulate import _split

    write_ratings(tmp_path / "ratings.csv")
    model = "private-recommender" if private else "rating-nmf"
    found = _split(tmp_path / "ratings.csv", 3, 0, model, private=private)
    users = [set(part["user"].to_list()) for part in found.parts]
    assert sum(map(len, users)) == len(set.union(*users)) == 60
    assert min(map(len, users)) > 5
    assert found.features == [f"i{item}" for item in range(8)]
    whole = pl.read_csv(tmp_path / "ratings.csv")
    assert sum(len(part) for part in found.parts) == len(whole)


@pytest.mark.slow
def test_jobs_made_from_neighbouring_tables_are_the_same_bytes(tmp_path):
    """Whatever file names the features, the job says nothing about the records in it."""
    table = write_table(tmp_path / "data.csv")
    frame = pl.read_csv(tmp_path / "data.csv")
    tacit("parties", "init", "north", "--folder", tmp_path / "north")
    tacit("parties", "init", "south", "--folder", tmp_path / "south")
    parties = [
        word
        for place, name in enumerate(("north", "south"))
        for word in ("--party", f"{name}={tmp_path / name / 'certificate.pem'}@127.0.0.1:{9200 + place}")
    ]
    odd = frame.select(pl.col("a").cast(pl.String), "b", "c", "d").vstack(
        pl.DataFrame({"a": ["x"], "b": [1e300], "c": [0.0], "d": [-1.0]})
    )
    neighbours = [frame[1:], frame[:-1], pl.concat([frame[:7], frame[8:]]), frame[:0], odd]

    def made(data, suffix):
        path = tmp_path / f"features{suffix}"
        if suffix == ".csv":
            data.write_csv(path)
        elif suffix == ".parquet":
            data.write_parquet(path)
        else:
            np.savez(path, X=data.to_numpy(), terms=np.array(data.columns))
        for model in ("private-nmf", "moments"):
            tacit(
                "parties", "job", "study", "--model", model, *parties, "--features", path, "-o", tmp_path / "job.toml"
            )
            yield (tmp_path / "job.toml").read_bytes()

    for suffix in (".csv", ".parquet", ".npz"):
        reference = list(made(frame, suffix))
        for neighbour in neighbours if suffix == ".csv" else neighbours[:3]:
            assert list(made(neighbour, suffix)) == reference, suffix
    assert len(table) == 40


def test_the_items_of_a_job_are_given_and_not_read_off_ratings(tmp_path):
    from tacit.errors import InvalidInputError

    write_ratings(tmp_path / "ratings.csv")
    job = job_file(tmp_path / "good", "private-recommender", features=["i0", "i1"])
    assert Job.read(job).features == ["i0", "i1"]
    with pytest.raises(InvalidInputError, match="one item per line"):
        tacit(
            *("parties", "job", "study", "--model", "private-recommender"),
            *("--party", f"north={tmp_path / 'good' / 'north' / 'certificate.pem'}@127.0.0.1:9300"),
            *("--party", f"south={tmp_path / 'good' / 'south' / 'certificate.pem'}@127.0.0.1:9301"),
            *("--features", tmp_path / "ratings.csv", "-o", tmp_path / "job.toml"),
        )


def test_outlines_may_be_in_a_file_of_any_name(tmp_path):
    from tacit.errors import InvalidInputError

    np.save(tmp_path / "table.npy", np.random.default_rng(0).random((5, 3)))
    lines = ""
    for name in ("north", "south"):
        (tmp_path / f"{name}.toml").write_text(
            f"ranks = {{ r = 2 }}\n[[relation]]\nname = 'visits'\nfile = 'table.npy'\neinsum = 'ir,jr->ij'\n"
            f"factors = ['user {name}', 'film']\ndivergence = 'euclid'\n"
        )
        lines += tacit("parties", "outline", tmp_path / f"{name}.toml", "--as", name, "--shared", "film")
        tacit("parties", "init", name, "--folder", tmp_path / name)
    for file in ("outlines.lines", "outlines", "outlines.csv", "outlines.parquet", "outlines.npz", "with a mark"):
        (tmp_path / file).write_text(lines, encoding="utf-8-sig" if file == "with a mark" else "utf-8")
        words = ["--model", "coupled", "--set", "ranks={ r = 2 }", "--features", tmp_path / file]
        for place, name in enumerate(("north", "south")):
            words += ["--party", f"{name}={tmp_path / name / 'certificate.pem'}@127.0.0.1:{9400 + place}"]
        tacit("parties", "job", "study", *words, "--survive", "0", "-o", tmp_path / "job.toml")
        assert len(Job.read(tmp_path / "job.toml").features) == 2
    inputs = ["outlines", "north.toml", "table.npy", "north/key.pem"]
    for place in inputs:  # a job replaces a job, and nothing else
        kept = (tmp_path / place).read_bytes()
        with pytest.raises(InvalidInputError, match="a new file for the job, or an earlier job"):
            tacit("parties", "job", "study", *words, "-o", tmp_path / place)
        assert (tmp_path / place).read_bytes() == kept
    for bad in (lines[: len(lines) // 2], "", lines + "# a comment"):
        (tmp_path / "bad").write_text(bad)
        kept = (tmp_path / "job.toml").read_bytes()
        with pytest.raises(InvalidInputError):
            tacit("parties", "job", "study", *words[:-5], tmp_path / "bad", *words[-4:], "-o", tmp_path / "job.toml")
        assert (tmp_path / "job.toml").read_bytes() == kept
