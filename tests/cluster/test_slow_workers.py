"""A worker that hangs, or is much slower than the others, loses its partitions to them: the same bits, and an end."""

from concurrent.futures import CancelledError

import numpy as np
import pytest

import tacit
from tacit.data import make_images
from tacit.errors import PartyError

distributed = pytest.importorskip("distributed", reason="Dask is not installed")

from tacit.cluster import driver  # noqa: E402
from tacit.cluster.driver import _ClusterRun  # noqa: E402
from tacit.cluster.journal import ClusterJournal  # noqa: E402
from tacit.cluster.partitions import RowReader  # noqa: E402


class Future:
    def __init__(self, status, value=None):
        self.status, self.value = status, value


class Workers:
    """A client whose workers are this process; tasks of those that hang, from some total on, never end."""

    status, dashboard_link = "running", None

    def __init__(self, names, hanging=(), since=0):
        self.names, self.hanging, self.since, self.tasks, self.cancelled = names, hanging, since, [], 0

    def scheduler_info(self, n_workers=-1):
        return {"workers": dict.fromkeys(self.names), "services": {}}

    def submit(self, function, *arguments, workers=None, **settings):
        (worker,) = workers
        self.tasks.append(worker)
        if worker in self.hanging and arguments[1] >= self.since:
            return Future("pending")
        return Future("finished", function(*arguments))

    def gather(self, futures):
        return [future.value for future in futures]

    def cancel(self, futures):
        self.cancelled += len(futures)

    def run(self, function, *arguments, **settings):
        function(*arguments)


@pytest.fixture
def rows(tmp_path):
    images = make_images(60, side=6, n_parts=2).images
    for place, part in enumerate(np.array_split(images, 5)):
        np.save(tmp_path / f"rows{place}.npy", part)
    return sorted(map(str, tmp_path.glob("rows*.npy")))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(driver, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(distributed, "wait", lambda futures, timeout=None: None)


def fitted(client, rows):
    model = tacit.NMF(2, max_iter=4)
    run = _ClusterRun(client, model, rows, RowReader(), ClusterJournal.at(None))
    try:
        run.fit(lambda progress: None)
        return model.components_
    finally:
        run.close()


@pytest.mark.slow
def test_others_take_the_partitions_of_a_worker_that_hangs(rows):
    undisturbed = fitted(Workers(["a"]), rows)
    client = Workers(["a", "b", "c"], hanging={"b"}, since=2)
    assert fitted(client, rows).tobytes() == undisturbed.tobytes()
    assert client.cancelled == 1
    assert "b" not in client.tasks[-2:], "it gets no further partitions"


def test_the_last_worker_is_waited_for(rows, monkeypatch):
    """There is nobody else: with one worker, slowness is no reason to take its partitions away."""
    client, looks = Workers(["a"], hanging={"a"}), []

    def look(futures, timeout=None):
        looks.append(len(futures))
        if len(looks) > 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(distributed, "wait", look)
    with pytest.raises(KeyboardInterrupt):
        fitted(client, rows)
    assert client.cancelled == 0


def test_patience_grows_with_what_would_be_repeated(rows):
    run = _ClusterRun(Workers(["a"]), tacit.NMF(2), rows, RowReader(), ClusterJournal.at(None))
    assert run._patience_with(1.0) == driver.SLOWER
    run._computed = 30.0
    assert run._patience_with(1.0) == 1.0 + 2 * 31.0


def test_tasks_that_dask_cancelled_mean_a_lost_scheduler(rows, monkeypatch):
    """Dask cancels the tasks of a client whose scheduler is gone before it says so."""
    client = Workers(["a"])

    def cancelled(run, futures):
        client.status = "connecting"
        raise CancelledError

    monkeypatch.setattr(driver._ClusterRun, "_wait", cancelled)
    with pytest.raises(PartyError, match="scheduler that answers"):
        fitted(client, rows)
