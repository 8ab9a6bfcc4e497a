"""Fits on a cluster: the same as in memory, the same bits for any workers and deaths, charged once."""

import os
import signal

import numpy as np
import polars as pl
import pytest

import tacit
from tacit.data import make_images, make_ratings
from tacit.errors import BudgetError, InvalidInputError, TacitError
from tacit.privacy import Ledger

distributed = pytest.importorskip("distributed", reason="Dask is not installed")

import dask  # noqa: E402

from tacit.cluster import run, run_on, transform_on  # noqa: E402
from tacit.cluster.driver import _ClusterRun  # noqa: E402
from tacit.cluster.journal import ClusterJournal  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
IMAGES = make_images(300, side=6, n_parts=3).images
RATINGS = make_ratings(90, 12, ratings_per_user=6, random_state=1)
FRAME = pl.DataFrame({"user": RATINGS.users, "item": RATINGS.items, "rating": RATINGS.ratings}).sort("user")


@pytest.mark.slow
def test_a_fit_is_that_of_all_rows_in_memory(client, rows):
    found = run_on(client, tacit.NMF(3, max_iter=8), rows)
    whole = tacit.NMF(3, max_iter=8).fit(IMAGES)
    np.testing.assert_allclose(found.components_, whole.components_, atol=1e-7)
    np.testing.assert_allclose(found.loss_curve_, whole.loss_curve_, rtol=1e-4)
    assert not found.guarantee_.holds
    assert found.transform(IMAGES[:2]).shape == (2, 3)


def test_noise_is_drawn_once_and_is_that_of_one_holder(client, rows):
    """With the same seed the noise is the same number for number, so that results differ by rounding to the grid only."""
    model = tacit.PrivateMoments(epsilon=1.0, insecure_seed=3)
    found, whole = (
        run_on(client, model, rows),
        tacit.PrivateMoments(epsilon=1.0, insecure_seed=3).fit(IMAGES),
    )
    np.testing.assert_allclose(found.mean_, whole.mean_, atol=1e-6)
    assert found.guarantee_.releases == whole.guarantee_.releases


@pytest.mark.slow
def test_sampled_rounds_and_the_real_guarantee(client, rows):
    model = tacit.PrivateNMF(2, epsilon=2.0, method="rounds", rounds=2, sampling_rate=0.5)
    found = run_on(client, model, rows)
    assert found.guarantee_.holds
    assert found.guarantee_.epsilon == pytest.approx(2.0, rel=1e-2)
    assert {release.sampling_rate for release in found.guarantee_.releases} == {0.5}


@pytest.mark.slow
def test_a_recommender_of_files_and_of_a_dask_frame(client, ratings):
    settings = {"epsilon": 5.0, "catalogue": list(range(12)), "insecure_seed": 1}
    found = run_on(client, tacit.PrivateRecommender(2, **settings), ratings)
    whole = tacit.PrivateRecommender(2, **settings).fit(FRAME)
    np.testing.assert_allclose(found.item_biases_, whole.item_biases_, atol=1e-4)
    assert found.recommend_for([0, 1], [5.0, 1.0], n=3)
    dask = pytest.importorskip("dask.dataframe", reason="needs pandas")
    frame = dask.from_pandas(FRAME.to_pandas(), npartitions=3)
    shuffled = run_on(client, tacit.PrivateRecommender(2, **settings), frame)
    np.testing.assert_allclose(shuffled.item_biases_, whole.item_biases_, atol=1e-4)
    named = {"columns": ("customer", "item", "rating")}
    renamed = frame.rename(columns={"user": "customer"})
    again = run_on(client, tacit.PrivateRecommender(2, **settings), renamed, **named)
    np.testing.assert_allclose(again.item_biases_, whole.item_biases_, atol=1e-4)
    with pytest.raises(InvalidInputError, match="a Dask data frame with a column 'user'"):
        run_on(client, tacit.PrivateRecommender(2, **settings), renamed)


def test_a_dask_array_is_cut_into_whole_rows(client):
    array = pytest.importorskip("dask.array", reason="needs Dask's arrays").from_array(IMAGES, chunks=(70, 20))
    found = run_on(client, tacit.PrivateMoments(epsilon=1.0, insecure_seed=3), array)
    whole = tacit.PrivateMoments(epsilon=1.0, insecure_seed=3).fit(IMAGES)
    np.testing.assert_allclose(found.mean_, whole.mean_, atol=1e-6)
    assert found.n_features_in_ == IMAGES.shape[1]


@pytest.mark.slow
def test_the_same_bits_when_workers_die(client, rows):
    undisturbed = run_on(client, tacit.NMF(3, max_iter=6), rows)
    before = set(client.run(os.getpid).values())

    def kill(progress):
        alive = sorted(client.run(os.getpid).values())
        if (
            progress.rounds in (2, 4) and len(alive) == 2
        ):  # one is left, in case that the other takes long to start again
            os.kill(alive[0], signal.SIGKILL)

    disturbed = run_on(client, tacit.NMF(3, max_iter=6), rows, on_round=kill)
    client.wait_for_workers(2, timeout=300)
    assert set(client.run(os.getpid).values()) != before
    assert disturbed.components_.tobytes() == undisturbed.components_.tobytes()
    assert disturbed.loss_curve_.tobytes() == undisturbed.loss_curve_.tobytes()


def account(tmp_path, epsilon=10.0):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("images", epsilon=epsilon, delta=1e-5)
    return ledger


def private(tmp_path, **settings):
    return tacit.PrivateNMF(
        2, epsilon=1.0, method="rounds", rounds=4, ledger=tmp_path / "budget.db", dataset="images", **settings
    )


class DriverDiedError(Exception):
    """Injected."""


def test_a_driver_that_dies_goes_on_from_its_checkpoint_and_is_charged_once(client, rows, tmp_path):
    ledger, answers = account(tmp_path), []
    kept = ClusterJournal.keep

    def die(progress):
        if progress.rounds == 2:
            raise DriverDiedError

    with pytest.raises(DriverDiedError):
        run_on(client, private(tmp_path), rows, checkpoint=tmp_path / "run", on_round=die)
    assert len(ledger.history("images")) == 1
    assert ledger.history("images")[0].settled is None, "what may still be released stays charged"
    files = sorted((tmp_path / "run").iterdir())
    assert [path.name for path in files] == ["answer-000000", "answer-000001", "run.json"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ClusterJournal, "keep", lambda self, number, answer: (answers.append(number), kept(self, number, answer))
        )
        found = run_on(client, private(tmp_path), rows, checkpoint=tmp_path / "run")
    assert answers == [2, 3], "answers that were kept are not drawn again"
    (charge,) = ledger.history("images")
    assert sum(release.count for release in charge.releases) == 4
    assert found.guarantee_.epsilon <= 1.0
    assert not list((tmp_path / "run").glob("*"))


def test_a_checkpoint_with_seeded_noise_is_not_gone_on_from_without_the_seed(client, rows, tmp_path):
    """The noise of its answers can be subtracted, and the result would claim a guarantee."""
    settings = {"epsilon": 1.0, "method": "rounds", "rounds": 4}
    seeded = tacit.PrivateNMF(2, insecure_seed=1, **settings)
    with pytest.raises(DriverDiedError):
        run_on(client, seeded, rows, checkpoint=tmp_path / "run", on_round=_die)
    with pytest.raises(InvalidInputError, match="that of another one"):
        run_on(client, tacit.PrivateNMF(2, **settings), rows, checkpoint=tmp_path / "run")


def test_a_checkpoint_of_another_run_is_refused(client, rows, tmp_path):
    account(tmp_path)
    with pytest.raises(DriverDiedError):
        run_on(client, private(tmp_path), rows, checkpoint=tmp_path / "run", on_round=_die)
    with pytest.raises(InvalidInputError, match="that of another one"):
        run_on(client, private(tmp_path, row_norm=2.0), rows, checkpoint=tmp_path / "run")


def _die(progress):
    raise DriverDiedError


def test_the_ledger_is_charged_before_the_first_total_and_settled_without_a_checkpoint(client, rows, tmp_path):
    ledger = account(tmp_path)
    with pytest.raises(DriverDiedError):
        run_on(client, private(tmp_path), rows, on_round=_die)
    (charge,) = ledger.history("images")
    assert sum(release.count for release in charge.settled) == 1
    with pytest.raises(BudgetError):
        run_on(client, private(tmp_path).set_params(epsilon=50.0), rows)
    assert len(ledger.history("images")) == 1
    with pytest.raises(InvalidInputError, match="dataset"):
        run_on(client, private(tmp_path).set_params(dataset=None), rows)


def test_workers_get_no_ledger_and_no_seed(client, tmp_path):
    account(tmp_path)
    run = _ClusterRun(client, private(tmp_path), ["a.npy"], tuple, ClusterJournal.at(None))
    sent = run._spec.estimator
    assert (sent.ledger, sent.dataset, sent.insecure_seed) == (None, None, None)


@pytest.mark.slow
def test_a_task_that_runs_twice_counts_once(client, rows, monkeypatch):
    submit = _ClusterRun._advance

    def twice(self, worker, numbers, place):
        submit(self, worker, numbers, place)  # its result is ignored, as that of a task that Dask ran twice
        return submit(self, worker, numbers, place)

    once = run_on(client, tacit.NMF(2, max_iter=4), rows)
    monkeypatch.setattr(_ClusterRun, "_advance", twice)
    again = run_on(client, tacit.NMF(2, max_iter=4), rows)
    assert again.components_.tobytes() == once.components_.tobytes()


@pytest.mark.slow
def test_partitions_that_do_not_fit_are_named(client, rows, ratings, tmp_path):
    settings = {"epsilon": 5.0, "catalogue": list(range(12))}
    FRAME.head(3).write_parquet(tmp_path / "more.parquet")
    with pytest.raises(InvalidInputError, match="all ratings of a user in one partition"):
        run_on(client, tacit.PrivateRecommender(2, **settings), [*ratings, tmp_path / "more.parquet"])
    FRAME.rename({"item": "film"}).write_parquet(tmp_path / "films.parquet")
    with pytest.raises(InvalidInputError, match=r"films\.parquet"):
        run_on(client, tacit.PrivateRecommender(2, **settings), [tmp_path / "films.parquet"])
    (tmp_path / "text.csv").write_text("a,b\n1,2\nxylophone,2\n")
    with pytest.raises(TacitError, match=r"text\.csv") as caught:
        run_on(client, tacit.NMF(2), [tmp_path / "text.csv"])
    assert "xylophone" not in str(caught.value)  # the file is named, its values are not
    np.save(tmp_path / "wide.npy", np.ones((4, 7)))
    with pytest.raises(TacitError, match=r"wide\.npy"):
        run_on(client, tacit.NMF(2), [*sorted(tmp_path.glob("rows*.npy")), tmp_path / "wide.npy"])
    with pytest.raises(InvalidInputError, match="do not exist"):
        run_on(client, tacit.NMF(2), [tmp_path / "no.npy"])
    with pytest.raises(InvalidInputError, match="relations"):
        run_on(client, tacit.CoupledFactorization(2), rows)


def test_rows_are_transformed_where_they_are(client, rows, tmp_path):
    model = tacit.NMF(3).fit(IMAGES)
    paths = sorted(tmp_path.glob("rows*.npy"))
    written = transform_on(client, model, paths, tmp_path / "weights")
    found = np.vstack([pl.read_parquet(path).to_numpy() for path in written])
    np.testing.assert_allclose(found, model.transform(IMAGES), atol=1e-9)


@pytest.mark.slow
def test_fit_takes_files_and_starts_a_cluster_of_its_own(rows, monkeypatch):
    monkeypatch.setattr(run, "SMALL_BYTES", 0)  # smaller files are fitted in this process
    found = tacit.PrivateMoments(epsilon=1.0).fit(rows)
    assert found.guarantee_.holds
    assert found._result.guarantee == found.guarantee_


@pytest.mark.slow
def test_a_cluster_of_its_own_does_not_sample_its_workers_for_a_dashboard_that_is_not_there():
    before = dask.config.get("distributed.worker.profile.enabled", True)
    with run.cluster_of(None, 1) as own:
        settings = own.run(lambda: (dask.config.get("distributed.worker.profile.enabled"),))
    assert list(settings.values()) == [(False,)]
    assert dask.config.get("distributed.worker.profile.enabled", True) == before  # those of this process stay
