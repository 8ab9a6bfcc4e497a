"""Small files are fitted in this process: the same partitions, totals, guarantee and checkpoint as on a cluster, without Dask."""

import errno
import shutil
import sys
import time
import warnings

import numpy as np
import polars as pl
import pytest
import sklearn.base
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

import tacit
from tacit.channel.run import interpose
from tacit.cli.main import app
from tacit.cluster import recommend_on, run, transform_on, worker
from tacit.cluster.driver import ONE_PARTITION, _without_secrets
from tacit.cluster.here import Here
from tacit.cluster.partitions import Block, RatingReader, sources_of, users_by_range
from tacit.cluster.worker import FitSpec, LostStateError, PartitionFit, advance, forget
from tacit.data import make_images, make_ratings
from tacit.errors import BudgetError, InvalidInputError, LedgerError, PrivacyWarning, ProtocolError
from tacit.factor import kernels
from tacit.privacy import Ledger
from tacit.report.partitions import PartitionedFit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
IMAGES = make_images(120, side=6, n_parts=3).images
STARS = make_ratings(90, 12, ratings_per_user=6, random_state=1)
FRAME = pl.DataFrame({"user": STARS.users, "item": STARS.items, "rating": STARS.ratings}).sort("user")
CATALOGUE = list(range(12))


@pytest.fixture
def rows(tmp_path):
    for place, part in enumerate(np.array_split(IMAGES, 3)):
        np.save(tmp_path / f"rows{place}.npy", part)
    return str(tmp_path / "rows*.npy")


@pytest.fixture
def ratings(tmp_path):
    for place in range(3):
        FRAME.filter(pl.col("user") % 3 == place).write_parquet(tmp_path / f"ratings{place}.parquet")
    return str(tmp_path / "ratings*.parquet")


def moments(**settings):
    return tacit.PrivateMoments(epsilon=1.0, insecure_seed=3, **settings)


@pytest.mark.slow
def test_the_same_bits_as_on_a_cluster(client, rows):
    here, there = moments().fit(rows), run.run_on(client, moments(), rows)
    assert here.mean_.tobytes() == there.mean_.tobytes()
    plain, cluster = tacit.NMF(2, max_iter=4).fit(rows), run.run_on(client, tacit.NMF(2, max_iter=4), rows)
    assert plain.components_.tobytes() == cluster.components_.tobytes()


def test_no_cluster_is_started_for_small_files(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert tacit.PrivateMoments(epsilon=1.0).fit(rows).guarantee_.holds
    monkeypatch.setattr(run, "SMALL_BYTES", 100)
    with pytest.raises(run.MissingDaskError, match="Install it"):
        tacit.PrivateMoments(epsilon=1.0).fit(rows)


def test_this_process_keeps_its_threads_and_its_warnings(rows, monkeypatch):
    monkeypatch.setattr(kernels, "THREADS", 7)
    before = [one["num_threads"] for one in threadpool_info()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        moments().fit(rows)
        warnings.warn("later", PrivacyWarning, stacklevel=1)
    assert kernels.THREADS == 7
    assert [one["num_threads"] for one in threadpool_info()] == before
    assert str(caught[-1].message) == "later", "they are not ignored after the fit"
    assert sum("insecure_seed" in str(one.message) for one in caught) <= 1, "no partition repeats it"


# ------------------------------------------------------------------------------------------------------ the guarantee


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        tacit.PrivateRecommender(2, epsilon=5.0, catalogue=CATALOGUE),
        tacit.PrivateRatingNMF(2, epsilon=5.0, catalogue=CATALOGUE),
        tacit.PrivateImplicitRecommender(epsilon=5.0, catalogue=CATALOGUE),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_guarantee_assumes_what_that_of_one_fit_does(model, ratings):
    from sklearn.base import clone

    frame = FRAME.select("user", "item") if isinstance(model, tacit.PrivateImplicitRecommender) else FRAME
    found, whole = clone(model).fit(ratings).guarantee_, clone(model).fit(frame).guarantee_
    assert any("is public" in assumption for assumption in whole.assumptions)
    assert found.assumptions == (*whole.assumptions, ONE_PARTITION)
    assert found.epsilon == pytest.approx(whole.epsilon, rel=1e-3)
    assert (found.delta, found.unit) == (whole.delta, whole.unit)


def test_an_estimator_without_privacy_says_so_itself(ratings, rows):
    model = tacit.RatingNMF(2, sweeps=3, rating_range=(1, 5), catalogue=CATALOGUE).fit(ratings)
    assert model.guarantee_ == tacit.RatingNMF(2, sweeps=3).fit(FRAME).guarantee_
    assert tacit.NMF(2, max_iter=2).fit(rows).guarantee_ == tacit.NMF(2, max_iter=2).fit(IMAGES).guarantee_


# ------------------------------------------------------------------------------------------------------------ ratings


def test_non_negative_factors_of_ratings_in_partitions(ratings):
    settings = {"sweeps": 5, "rating_range": (1, 5), "catalogue": [*CATALOGUE, 99]}
    found, whole = tacit.RatingNMF(2, **settings).fit(ratings), tacit.RatingNMF(2, **settings).fit(FRAME)
    np.testing.assert_allclose(found.item_factors_, whole.item_factors_, atol=1e-6)
    assert found.rating_mean_ == pytest.approx(FRAME["rating"].mean()), "that of all partitions, not of the first"
    assert found.item_ids_.tolist() == [*CATALOGUE, 99]


def test_ratings_in_partitions_need_a_catalogue(ratings):
    for model in (tacit.PrivateRecommender(2, epsilon=1.0), tacit.RatingNMF(2)):
        with pytest.raises(InvalidInputError, match="catalogue of all items, for ratings in partitions"):
            model.fit(ratings)


def test_a_method_that_is_no_program_is_refused_as_such(ratings):
    model = tacit.PrivateRecommender(2, epsilon=1.0, method="published", unit="cell", catalogue=CATALOGUE)
    with pytest.raises(InvalidInputError, match="whose result follows from totals alone"):
        model.fit(ratings)


def test_workers_get_a_long_catalogue_as_an_array():
    """scikit-learn copies a list element by element, for every partition."""
    for listed in (CATALOGUE, ["b", "a"], [1, "a"]):
        sent = _without_secrets(tacit.PrivateRecommender(2, epsilon=1.0, catalogue=listed)).catalogue
        assert isinstance(sent, np.ndarray)
        assert sent.tolist() == listed


def test_a_long_catalogue_is_not_copied_item_by_item(monkeypatch):
    copies, deepcopy = [], sklearn.base.copy.deepcopy
    monkeypatch.setattr(sklearn.base.copy, "deepcopy", lambda value: copies.append(1) or deepcopy(value))
    _without_secrets(tacit.PrivateRecommender(2, epsilon=1.0, catalogue=list(range(1000))))
    assert len(copies) < 100  # one per setting


@pytest.mark.parametrize("model", [tacit.SVD, tacit.PCA])
def test_a_table_with_few_columns_needs_one_exchange_on_a_cluster_of_one_owner(model, rows):
    found, alone = model(4, hide_singular_values=False).fit(rows), model(4, hide_singular_values=False).fit(IMAGES)
    assert found.n_iter_ == 1
    np.testing.assert_allclose(found.singular_values_, alone.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(found.components_, alone.components_, atol=1e-6)
    hidden = model(4).fit(rows)
    assert hidden.n_iter_ == 1
    np.testing.assert_allclose(hidden.components_, alone.components_, atol=1e-6)


def test_a_cluster_among_parties_asks_about_a_few_directions_at_a_time(rows):
    """All products together are X'X of all parties' rows, which they agreed on asking a part of."""
    with interpose(lambda channel: channel):
        found = tacit.SVD(2, oversample=4, hide_singular_values=False).fit(rows)
    assert found.n_iter_ > 1


def test_a_compact_table_has_the_same_numbers(tmp_path):
    frame = pl.DataFrame(
        {"user": ["b", "a", "b", "c"], "item": [5, 2**40, -3, 5], "rating": [0.5, 0.1, 3.0, 4.0], "note": "x"}
    )
    frame.write_parquet(tmp_path / "r.parquet")
    (found,) = RatingReader(compact=True)(str(tmp_path / "r.parquet")).arguments
    assert found["user"].to_list() == [2, 1, 2, 3], "numbered in the order of their ids"
    assert found["item"].to_list() == frame["item"].to_list()
    assert found["rating"].to_list() == frame["rating"].to_list()
    frame.filter(pl.col("user") != "a").write_parquet(tmp_path / "s.parquet")
    (smaller,) = RatingReader(compact=True)(str(tmp_path / "s.parquet")).arguments
    assert smaller.schema == {"user": pl.Int32, "item": pl.Int32, "rating": pl.Float32}


def test_users_are_compared_without_reading_their_ratings(ratings, tmp_path, monkeypatch):
    reader, path = RatingReader(), str(tmp_path / "ratings0.parquet")
    whole = FRAME.filter(pl.col("user") % 3 == 0)
    assert sum(map(len, users_by_range(reader, path))) == whole["user"].n_unique()
    whole.write_csv(tmp_path / "r.csv")
    text = [part.tolist() for part in users_by_range(reader, str(tmp_path / "r.csv"))]
    assert [sorted(part) for part in text] == [sorted(part.tolist()) for part in users_by_range(reader, path)]
    blocks = [users_by_range(reader, Block(path, number, 2)) for number in range(2)]
    assert sum(len(part) for block in blocks for part in block) == whole["user"].n_unique()
    whole.rename({"rating": "stars"}).write_parquet(tmp_path / "odd.parquet")
    with pytest.raises(InvalidInputError, match=r"odd\.parquet; got no column rating"):
        users_by_range(reader, str(tmp_path / "odd.parquet"))


# ------------------------------------------------------------------------------------------- workers, runs, checkpoint


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_ratings_in_text_files_and_in_blocks_are_fitted(ending, ratings, tmp_path):
    """A fit numbers the users of each partition; the comparison of users among partitions is of their ids."""
    for place in range(3):
        part = FRAME.filter(pl.col("user") % 3 == place)
        part.write_csv(tmp_path / f"stars{place}.{ending}", separator="," if ending == "csv" else "\t")
    model = tacit.PrivateRecommender(2, epsilon=1.0, catalogue=CATALOGUE, insecure_seed=1)
    found = run.run_on(None, model, str(tmp_path / f"stars*.{ending}"), item_type="integer")
    whole = tacit.PrivateRecommender(2, epsilon=1.0, catalogue=CATALOGUE, insecure_seed=1).fit(ratings)
    assert found.item_biases_.tobytes() == whole.item_biases_.tobytes()
    blocks = run.run_on(None, model, ratings, blocks=2)
    np.testing.assert_allclose(blocks.item_biases_, whole.item_biases_, atol=1e-6)
    FRAME.filter(pl.col("user") == 0).write_csv(
        tmp_path / f"stars9.{ending}", separator="," if ending == "csv" else "\t"
    )
    with pytest.raises(InvalidInputError, match="a user in two"):
        run.run_on(None, model, str(tmp_path / f"stars*.{ending}"), item_type="integer")


def test_every_worker_has_the_version_of_the_driver():
    class Client:
        def run(self, function, **settings):
            assert function() == tacit.__version__, "it needs no tacit to be loaded"
            return {"a": tacit.__version__, "b": "0.0.9", "c": "none"}

    with pytest.raises(ProtocolError, match=r"got 0\.0\.9, none on some"):
        run.check_workers(Client())


def test_a_worker_that_hangs_does_not_stop_the_check_of_versions(monkeypatch):
    class Client:
        def run(self, function, **settings):
            time.sleep(60)

    monkeypatch.setattr(run, "PROBE_SECONDS", 0.01)
    run.check_workers(Client())


def test_a_data_frame_without_users_is_refused():
    class Frame:
        columns = ("customer", "item", "rating")

    Frame.__module__ = "dask.dataframe"
    with pytest.raises(InvalidInputError, match="a Dask data frame with a column 'user'"):
        sources_of(Frame(), None, by_user="user")


def test_what_a_worker_needs_is_sent_once(rows, monkeypatch):
    sent, submit = [], Here.submit

    def watch(self, function, *arguments, **settings):
        sent.extend(type(one) for one in arguments if isinstance(one, FitSpec))
        return submit(self, function, *arguments, **settings)

    monkeypatch.setattr(Here, "submit", watch)
    assert len(tacit.NMF(2, max_iter=3).fit(rows).loss_curve_)
    assert sent == [FitSpec]


def spec_of(name, rows):
    from tacit.cluster.partitions import RowReader

    return FitSpec(name, tacit.NMF(2, max_iter=3), RowReader(), b"", 1, tacit.__version__)


def test_runs_of_dead_drivers_are_dropped(rows, monkeypatch):
    monkeypatch.setattr(worker, "_RUNS", {})
    sources = {0: rows.replace("*", "0")}
    for name in ("one-first", "two-first"):
        advance(name, 0, 0, [], sources, spec_of(name, rows))
    advance("one-second", 0, 0, [], sources, spec_of("one-second", rows))
    assert set(worker._RUNS) == {"two-first", "one-second"}, "the same run, of a driver that was started again"
    with pytest.raises(LostStateError):
        advance("one-first", 1, 1, [], sources)
    worker._RUNS["two-first"].used = time.monotonic() - worker.IDLE_SECONDS - 1
    advance("three-first", 0, 0, [], sources, spec_of("three-first", rows))
    assert set(worker._RUNS) == {"one-second", "three-first"}
    for name in list(worker._RUNS):
        forget(name)


def test_a_task_that_waits_for_a_fit_ends_when_the_run_is_forgotten(rows):
    fit = PartitionFit(spec_of("one-first", rows), 0, rows.replace("*", "0"))
    fit.abandon()
    with pytest.raises(LostStateError):
        fit.at(2, [None, None])


class DriverDiedError(Exception):
    """Injected."""


def test_a_checkpoint_is_of_these_files(rows, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("images", epsilon=10.0, delta=1e-5)

    def fit(partitions, **settings):
        model = tacit.PrivateNMF(
            2, epsilon=1.0, method="rounds", rounds=2, ledger=tmp_path / "budget.db", dataset="images"
        )
        return run.run_on(None, model, partitions, checkpoint=tmp_path / "run", **settings)

    def die(progress):
        raise DriverDiedError

    with pytest.raises(DriverDiedError):
        fit(rows, on_round=die)
    np.save(tmp_path / "more.npy", IMAGES[:9])
    paths = sorted(tmp_path.glob("rows*.npy"))
    for partitions, settings in (([*paths[:2], tmp_path / "more.npy"], {}), (rows, {"unit_rows": True})):
        with pytest.raises(InvalidInputError, match="settings, threads and partitions; got that of another one"):
            fit(partitions, **settings)
    assert fit(rows).guarantee_.holds
    assert len(ledger.history("images")) == 1, "charged once"


def test_a_checkpoint_that_is_kept_gives_the_same_model_again(rows, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("images", epsilon=10.0, delta=1e-5)

    def fit():
        model = tacit.PrivateMoments(epsilon=1.0, ledger=tmp_path / "budget.db", dataset="images")
        return run.run_on(None, model, rows, checkpoint=tmp_path / "run", keep_checkpoint=True)

    first, again = fit(), fit()
    assert again.mean_.tobytes() == first.mean_.tobytes(), "no noise is drawn anew"
    assert again.guarantee_ == first.guarantee_
    assert len(ledger.history("images")) == 1
    run.end_checkpoint(tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())
    assert fit().mean_.tobytes() != first.mean_.tobytes()
    assert len(ledger.history("images")) == 2


@pytest.fixture
def paid(rows, tmp_path):
    """Return a function that fits with a checkpoint and a ledger, and the ledger."""
    ledger = Ledger(tmp_path / "budget.db")
    for name in ("images", "others"):
        ledger.open_account(name, epsilon=10.0, delta=1e-5)

    def fit(dataset="images", account=tmp_path / "budget.db", **settings):
        model = tacit.PrivateNMF(2, epsilon=1.0, method="rounds", rounds=3, ledger=account, dataset=dataset)
        return run.run_on(None, model, rows, checkpoint=tmp_path / "run", **settings)

    return fit, ledger


def test_two_drivers_do_not_use_one_checkpoint(paid):
    """Both would draw noise for the same totals, and one charge would pay for two models."""
    fit, ledger = paid
    refused = []

    def begin_another(progress):
        with pytest.raises(InvalidInputError, match="no other run uses now") as caught:
            fit()
        refused.append(caught)

    fit(on_round=begin_another)
    assert len(refused) == 3
    assert len(ledger.history("images")) == 1
    assert fit().guarantee_.holds, "the folder is free again"
    assert len(ledger.history("images")) == 2


def test_an_older_copy_of_a_checkpoint_is_refused(paid, tmp_path):
    """It lacks answers that were used: noise for them would be drawn again, which nobody paid for."""
    fit, ledger = paid
    checkpoint = tmp_path / "run"

    def copy(progress):
        shutil.copytree(checkpoint, tmp_path / f"copy{progress.rounds}")

    def restored(number):
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / f"copy{number}", checkpoint)

    with pytest.raises(DriverDiedError):
        fit(on_round=lambda progress: (copy(progress), _die(progress)))
    restored(1)
    fit(on_round=lambda progress: copy(progress) if progress.rounds == 2 else None)
    for number in (1, 2):  # of before the driver died, and of before the end
        restored(number)
        with pytest.raises(BudgetError, match="older copy"):
            fit()
    assert len(ledger.history("images")) == 1
    assert ledger.verify()


def test_a_checkpoint_goes_on_with_the_account_that_paid(paid, tmp_path):
    fit, ledger = paid
    with pytest.raises(DriverDiedError):
        fit(on_round=_die)
    elsewhere = Ledger(tmp_path / "elsewhere.db")
    elsewhere.open_account("images", epsilon=10.0, delta=1e-5)
    for account in ({"dataset": "others"}, {"account": tmp_path / "elsewhere.db"}, {"account": None}):
        with pytest.raises(LedgerError, match="the ledger and the account that the run of this checkpoint was charged"):
            fit(**account)
    assert fit().guarantee_.holds
    assert [len(ledger.history(name)) for name in ("images", "others")] == [1, 0]
    assert not elsewhere.history("images")


@pytest.mark.parametrize("after", [False, True])
def test_a_driver_that_dies_at_a_note_goes_on(paid, monkeypatch, after):
    fit, ledger = paid
    with pytest.raises(DriverDiedError):
        fit(on_round=_die)
    begin_later = Ledger.begin_later

    def dies(self, *arguments):
        if after:
            begin_later(self, *arguments)
        raise DriverDiedError

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "begin_later", dies)
        with pytest.raises(DriverDiedError):
            fit()
    assert fit().guarantee_.holds
    assert [charge.state for charge in ledger.history("images")] == ["charged in full, for 2 later parts too"]


def test_a_command_that_was_killed_goes_on_in_its_folder(rows, tmp_path):
    """A killed command cannot remove the empty folder that it made for its model."""
    out, checkpoint = tmp_path / "out", tmp_path / "run"
    arguments = ["fit", "nmf", rows, "-k", "2", "--epsilon", "1", "--output", str(out), "--checkpoint", str(checkpoint)]
    (out / "model").mkdir(parents=True)
    refused = CliRunner().invoke(app, arguments)
    assert "without an earlier result" in str(refused.exception), (
        "there is no checkpoint: another command may be at work there"
    )
    with pytest.raises(DriverDiedError):
        run.run_on(None, tacit.PrivateMoments(epsilon=1.0), rows, checkpoint=checkpoint, on_round=_die)
    assert "that of another one" in str(CliRunner().invoke(app, arguments).exception), (
        "it gets as far as the checkpoint"
    )
    (out / "model" / "earlier.tacit").touch()
    assert "without an earlier result" in str(CliRunner().invoke(app, arguments).exception)


def _die(progress):
    raise DriverDiedError


def test_a_command_whose_result_cannot_be_written_loses_nothing(rows, tmp_path, monkeypatch):
    """The disk is full when the model is written: the budget is spent, and the next call gets the model that it paid for."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("images", epsilon=10.0, delta=1e-5)
    arguments = [
        *("fit", "nmf", rows, "-k", "2", "--epsilon", "1", "--output", str(tmp_path / "out")),
        *("--ledger", str(tmp_path / "budget.db"), "--dataset", "images", "--checkpoint", str(tmp_path / "run")),
    ]

    def full(self, output):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionedFit, "write", full)
        assert CliRunner().invoke(app, arguments).exit_code
    assert len(ledger.history("images")) == 1
    assert not (tmp_path / "out" / "model").exists()
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert tacit.load(tmp_path / "out" / "model" / "nmf.tacit").guarantee_.holds
    assert len(ledger.history("images")) == 1, "charged once"
    assert not list((tmp_path / "run").iterdir())


def test_a_model_is_applied_without_a_cluster(rows, ratings, tmp_path):
    model = tacit.PrivatePCA(2, epsilon=50.0, row_norm=3.0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = transform_on(None, model, rows, tmp_path / "weights")
    found = np.vstack([pl.read_parquet(path).to_numpy() for path in written])
    np.testing.assert_allclose(found, model.transform(IMAGES), atol=1e-9)
    items = tacit.PrivateRecommender(2, epsilon=50.0, catalogue=CATALOGUE).fit(ratings)
    lists = recommend_on(None, items, ratings, tmp_path / "lists", n=3)
    users = pl.concat([pl.read_parquet(path) for path in lists])["user"]
    assert sorted(users.unique().to_list()) == sorted(FRAME["user"].unique().to_list())


def test_a_disk_that_is_full_in_the_middle_of_a_file_leaves_no_part_of_it(rows, tmp_path, monkeypatch):
    def full(frame, path):
        path.write_bytes(b"half")
        raise pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(InvalidInputError, match="a folder that can be written to, for rows0"):
        transform_on(None, tacit.NMF(2, max_iter=2).fit(IMAGES), rows, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
