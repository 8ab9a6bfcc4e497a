"""Bad partitions and faults on a cluster: named, resumed, charged once; texts, blocks, several organisations."""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from links import in_threads

import tacit
from tacit.channel.masked import among
from tacit.channel.run import interpose
from tacit.data import CategoryColumn, NumberColumn, term_counts, tfidf
from tacit.errors import InvalidInputError, PartyError, ProtocolError
from tacit.privacy import Ledger
from tacit.testing import check_neighbours

distributed = pytest.importorskip("distributed", reason="Dask is not installed")

from tacit.cluster import predict_on, recommend_on, run_on, transform_on  # noqa: E402
from tacit.cluster.driver import _ClusterRun  # noqa: E402
from tacit.cluster.partitions import Block, RatingReader, RowReader, in_block  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


def moments(**settings):
    return tacit.PrivateMoments(epsilon=1.0, insecure_seed=3, **settings)


# ------------------------------------------------------------------------------------------------------- what goes in


def test_the_file_that_differs_is_named(client, tmp_path, images):
    names = [f"c{place}" for place in range(4)]
    for place, columns in enumerate((names, names, names[::-1])):
        pl.DataFrame(images[:9, :4], schema=columns).write_parquet(tmp_path / f"p{place}.parquet")
    with pytest.raises(InvalidInputError, match=r"p2\.parquet, which differs from p0\.parquet in its columns"):
        run_on(client, moments(), str(tmp_path / "p*.parquet"))
    text = pl.DataFrame(images[:9, :4], schema=names).with_columns(pl.lit("x").alias("c1"))
    text.write_parquet(tmp_path / "p2.parquet")
    with pytest.raises(InvalidInputError, match=r"p2\.parquet"):
        run_on(client, moments(), str(tmp_path / "p*.parquet"))


def test_an_empty_partition_adds_nothing(client, rows, tmp_path, frame, ratings):
    whole = run_on(client, moments(), rows)
    np.save(tmp_path / "empty.npy", np.zeros((0, 36)))
    paths = [tmp_path / "empty.npy", *sorted(tmp_path.glob("rows*.npy"))]
    found = run_on(client, moments(), paths)
    assert found.mean_.tobytes() == whole.mean_.tobytes()
    with pytest.raises(InvalidInputError, match="rows in at least one partition"):
        run_on(client, moments(), [tmp_path / "empty.npy"])
    frame.head(0).write_parquet(tmp_path / "nobody.parquet")
    settings = {"epsilon": 5.0, "catalogue": list(range(12)), "insecure_seed": 1}
    with_empty = run_on(client, tacit.PrivateRecommender(2, **settings), [tmp_path / "nobody.parquet", *ratings])
    without = run_on(client, tacit.PrivateRecommender(2, **settings), ratings)
    assert with_empty.item_biases_.tobytes() == without.item_biases_.tobytes()


def test_estimators_that_are_no_programs_are_refused(client, ratings):
    with pytest.raises(InvalidInputError, match="that is a program"):
        run_on(client, tacit.Recommender(2), ratings)


def test_texts_are_lines_of_json(client, tmp_path):
    vocabulary = ["moon", "star", "goal"]
    texts = ["moon star", "goal goal", "star", "moon goal"]
    for place in range(2):
        lines = [json.dumps({"text": text} if place else text) for text in texts[2 * place : 2 * place + 2]]
        (tmp_path / f"t{place}.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    found = run_on(client, moments(), str(tmp_path / "t*.jsonl"), vocabulary=vocabulary)
    X = tfidf(term_counts(texts, vocabulary=vocabulary)).X
    np.testing.assert_allclose(found.mean_, moments().fit(X).mean_, atol=1e-6)
    with pytest.raises(InvalidInputError, match="vocabulary"):
        run_on(client, moments(), str(tmp_path / "t*.jsonl"))
    (tmp_path / "t1.jsonl").write_text('{"title": "no text"}\n', encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"t1\.jsonl") as error:
        run_on(client, moments(), str(tmp_path / "t*.jsonl"), vocabulary=vocabulary)
    assert "title" not in str(error.value)


def test_targets_are_a_column(client, tmp_path, images):
    y = images[:, :3].sum(axis=1)
    table = pl.DataFrame({**{f"c{place}": images[:, place] for place in range(5)}, "y": y})
    for place in range(2):
        table[place * 150 : (place + 1) * 150].write_parquet(tmp_path / f"p{place}.parquet")
    settings = {"epsilon": 5.0, "target_range": (0.0, 3.0), "insecure_seed": 2}
    found = run_on(client, tacit.PrivatePCR(2, **settings), str(tmp_path / "p*.parquet"), target="y")
    whole = tacit.PrivatePCR(2, **settings).fit(table.drop("y").to_numpy(), y)
    np.testing.assert_allclose(found.intercept_, whole.intercept_, atol=1e-3)
    written = predict_on(client, found, [tmp_path / "p0.parquet"], tmp_path / "out", target="y")
    predicted = pl.read_parquet(written[0])["prediction"].to_numpy()
    np.testing.assert_allclose(predicted, found.predict(table.drop("y").to_numpy()[:150]))


def test_synthetic_tables_from_partitions(client, tmp_path):
    schema = {"job": CategoryColumn(("a", "b")), "age": NumberColumn(0, 90)}
    for place in range(2):
        frame = pl.DataFrame({"job": ["a", "b"] * 50, "age": [20.0 + place, 60.0] * 50})
        frame.write_parquet(tmp_path / f"p{place}.parquet")
    found = run_on(client, tacit.PrivateTable(epsilon=5.0, schema=schema), str(tmp_path / "p*.parquet"))
    assert set(found.sample(20)["job"]) <= {"a", "b"}
    assert found.guarantee_.holds


# ------------------------------------------------------------------------------------------- blocks and limited memory


def test_blocks_divide_the_rows_by_their_values(tmp_path, images):
    """Every row is in one block, and a row more or less, in any place, moves no other row to another one."""
    np.save(tmp_path / "rows.npy", images)
    read = RowReader()
    blocks = [read(Block(str(tmp_path / "rows.npy"), number, 3)).arguments[0] for number in range(3)]
    assert sorted(map(bytes, np.vstack(blocks))) == sorted(map(bytes, images))
    assert all(len(block) > 60 for block in blocks)
    without = np.delete(images, 7, axis=0)
    np.save(tmp_path / "rows.npy", without)
    again = [read(Block(str(tmp_path / "rows.npy"), number, 3)).arguments[0] for number in range(3)]
    assert sum(len(one) != len(other) for one, other in zip(blocks, again, strict=True)) == 1
    from scipy.sparse import csr_array

    sparse = images * (images > 0.5)
    for number in range(3):
        block = Block("", number, 3)
        assert np.array_equal(in_block(sparse, block, start=0), in_block(csr_array(sparse), block, start=0))
    by_place = in_block(images, Block("", 1, 3, by_place=True), start=2)
    assert list(np.flatnonzero(by_place)[:2]) == [2, 5]


def test_blocks_and_few_resident_partitions_give_the_same(client, rows, tmp_path, images):
    whole = run_on(client, moments(), rows)
    np.save(tmp_path / "all.npy", images)
    found = run_on(client, moments(), [tmp_path / "all.npy"], blocks=4, resident=1)
    np.testing.assert_allclose(found.mean_, whole.mean_, atol=1e-6)
    kept = run_on(client, tacit.NMF(2, max_iter=3), rows)
    dropped = run_on(client, tacit.NMF(2, max_iter=3), rows, resident=1)
    assert dropped.components_.tobytes() == kept.components_.tobytes(), "fits that are run again are the same"


def test_blocks_of_ratings_keep_users_together(tmp_path, frame):
    frame.write_parquet(tmp_path / "all.parquet")
    parts = [RatingReader()(Block(str(tmp_path / "all.parquet"), number, 3)).arguments[0] for number in range(3)]
    assert sum(part.height for part in parts) == frame.height
    users = [set(part["user"]) for part in parts]
    assert not users[0] & users[1] | users[0] & users[2] | users[1] & users[2]


# -------------------------------------------------------------------------------------------------- the way out


def test_lists_of_items_are_written_where_the_ratings_are(client, ratings, tmp_path):
    model = tacit.PrivateRecommender(2, epsilon=5.0, catalogue=list(range(12)), insecure_seed=1)
    run_on(client, model, ratings)
    written = recommend_on(client, model, ratings, tmp_path / "lists", n=2)
    assert [path.name for path in written] == ["ratings0.parquet", "ratings1.parquet", "ratings2.parquet"]
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    lists, own = pl.read_parquet(written[0]), pl.read_parquet(ratings[0])
    user = own["user"][0]
    mine = own.filter(pl.col("user") == user)
    expected = model.recommend_for(mine["item"].to_list(), mine["rating"].to_numpy(), n=2)
    assert lists.filter(pl.col("user") == user)["item"].to_list() == [item for item, _ in expected]


def test_a_full_disk_leaves_no_half_file(client, rows, tmp_path, images):
    model = tacit.NMF(2, max_iter=3).fit(images)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows0.parquet").mkdir()  # cannot be replaced by a file
    with pytest.raises(InvalidInputError, match=r"rows0\.parquet"):
        transform_on(client, model, rows, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.partial"))


# ------------------------------------------------------------------------------------------------------- faults


def private(tmp_path):
    settings = {"method": "rounds", "rounds": 3, "ledger": tmp_path / "budget.db", "dataset": "images"}
    return tacit.PrivateNMF(2, epsilon=1.0, **settings)


def account(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("images", epsilon=10.0, delta=1e-5)
    return ledger


def test_a_worker_with_another_version_is_refused(client, rows, monkeypatch):
    made = _ClusterRun.__init__

    def older(self, *arguments, **settings):
        made(self, *arguments, **settings)
        self._spec = replace(self._spec, version="0.0.1")

    monkeypatch.setattr(_ClusterRun, "__init__", older)
    with pytest.raises(ProtocolError, match=r"tacit 0\.0\.1 on every worker"):
        run_on(client, moments(), rows)


def test_a_disk_that_is_full_stops_the_run_before_a_total_is_used(client, rows, tmp_path, monkeypatch):
    ledger, move = account(tmp_path), os.replace

    def full(partial, path):
        if Path(path).name == "answer-000001":
            raise OSError(errno.ENOSPC, "No space left on device")
        move(partial, path)

    monkeypatch.setattr(os, "replace", full)
    seen = []
    with pytest.raises(OSError, match=r"No space.*run again with the same checkpoint"):
        run_on(
            client, private(tmp_path), rows, checkpoint=tmp_path / "run", on_round=lambda now: seen.append(now.rounds)
        )
    assert seen == [1], "nothing went on with a total that was not kept"
    assert not list((tmp_path / "run").glob("*.partial"))
    monkeypatch.setattr(os, "replace", move)
    found = run_on(client, private(tmp_path), rows, checkpoint=tmp_path / "run")
    (charge,) = ledger.history("images")
    assert found.guarantee_.epsilon <= 1.0
    assert charge.settled is None


def test_a_scheduler_that_goes_away(client, rows, tmp_path):
    """The run ends with an error that says what to do; on another cluster it goes on, and is charged once."""
    ledger = account(tmp_path)
    settings = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    lost = distributed.LocalCluster(n_workers=1, threads_per_worker=2, **settings)

    def leave(progress):
        if progress.rounds == 1:
            lost.close()

    with lost, distributed.Client(lost) as other, pytest.raises(PartyError, match="scheduler that answers"):
        run_on(other, private(tmp_path), rows, checkpoint=tmp_path / "run", on_round=leave)
    assert [path.name for path in sorted((tmp_path / "run").iterdir())] == ["answer-000000", "run.json"]
    found = run_on(client, private(tmp_path), rows, checkpoint=tmp_path / "run")
    assert len(ledger.history("images")) == 1
    assert sum(release.count for release in found.guarantee_.releases) == 3


DRIVER = """
import os, signal, sys
import tacit
from distributed import Client
from tacit.cluster import run_on

def die(progress):
    if progress.rounds == 2:
        os.kill(os.getpid(), signal.SIGKILL)

with Client(sys.argv[1]) as client:
    model = tacit.PrivateNMF(2, epsilon=1.0, method="rounds", rounds=3, ledger=sys.argv[3] + "/budget.db", dataset="images")
    run_on(client, model, sys.argv[2], checkpoint=sys.argv[3] + "/run", on_round=die)
"""


def test_a_killed_driver(client, rows, tmp_path):
    ledger = account(tmp_path)
    arguments = [sys.executable, "-c", DRIVER, client.scheduler.address, rows, str(tmp_path)]
    ended = subprocess.run(
        arguments, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False, timeout=120
    )
    assert ended.returncode == -signal.SIGKILL
    found = run_on(client, private(tmp_path), rows, checkpoint=tmp_path / "run")
    assert len(ledger.history("images")) == 1
    assert sum(release.count for release in found.guarantee_.releases) == 3


def test_a_model_of_a_cluster_can_be_saved_and_says_where_it_is(client, rows, tmp_path):
    seen = []
    model = run_on(client, tacit.PrivateMoments(epsilon=1.0), rows, on_round=seen.append)
    model.save(tmp_path / "moments.tacit")
    assert tacit.load(tmp_path / "moments.tacit").guarantee_ == model.guarantee_
    assert str(seen[-1]) == f"total {len(seen)} of {len(seen)}, 5 partitions on 2 workers"
    assert seen[-1].dashboard is None


# -------------------------------------------------------------------------- the shared check, and several organisations


def test_the_shared_check_covers_fits_on_a_cluster(client, tmp_path, images):
    """A row less in one partition: the integers of that partition move by no more than the noise was sized for."""
    for place, part in enumerate(np.array_split(images, 3)):
        np.save(tmp_path / f"rows{place}.npy", part)

    def fit(last):
        np.save(tmp_path / "rows2.npy", last)
        model = tacit.PrivateMoments(epsilon=1.0)
        run_on(client, model, [tmp_path / f"rows{place}.npy" for place in range(3)])
        return {"mean": model.mean_}

    last = np.array_split(images, 3)[2] * 9  # clipped to the bound
    assert 0.3 < check_neighbours(fit, last, last[:-1]).largest <= 1


def test_a_party_may_be_a_cluster(client, rows, images):
    """Two organisations, one with a cluster and one with a single machine: both get the model of all rows."""
    other = images[:50]

    def work(peers):
        model = tacit.PrivateMoments(epsilon=50.0)
        with interpose(lambda channel: among(channel, peers)):
            return run_on(client, model, rows) if peers.index == 0 else model.fit(other)

    cluster, machine = in_threads(2, work, honest=1)
    assert cluster.mean_.tobytes() == machine.mean_.tobytes()
    assert cluster.guarantee_.epsilon == machine.guarantee_.epsilon
    together = tacit.PrivateMoments(epsilon=50.0).fit(np.vstack([images, other]))
    np.testing.assert_allclose(cluster.mean_, together.mean_, atol=0.1)
    with interpose(lambda channel: channel), pytest.raises(InvalidInputError, match="no checkpoint"):
        run_on(client, moments(), rows, checkpoint="run")


def test_records_are_read_as_text_so_that_no_row_changes_how_another_is_read(tmp_path):
    """Inferred types depend on the rows: one row of text would turn 01 from 1 into 01 in all others."""
    (tmp_path / "one.csv").write_text("code\n01\n02\n")
    (tmp_path / "more.csv").write_text("code\n01\n02\nx\n")
    read = RowReader(as_table=True)
    few, more = (read(str(tmp_path / name)).arguments[0]["code"].to_list() for name in ("one.csv", "more.csv"))
    assert few == more[:2] == ["01", "02"]


def test_whether_two_ids_are_one_user_does_not_depend_on_other_users(tmp_path):
    lines = "user,item,rating\n07,1,3\n7,2,4\n"
    (tmp_path / "numbers.csv").write_text(lines)
    (tmp_path / "text.csv").write_text(lines + "ann,1,5\n")
    for item_type in (None, "integer"):
        read = RatingReader(item_type=item_type)
        for name in ("numbers.csv", "text.csv"):
            found = read(str(tmp_path / name)).arguments[0]
            assert found["user"].to_list()[:2] == ["07", "7"]
            assert found["item"].to_list()[:2] == [1, 2]
        blocks = [read(Block(str(tmp_path / "numbers.csv"), number, 2)).arguments[0] for number in range(2)]
        assert sorted(user for part in blocks for user in part["user"].to_list()) == ["07", "7"]
