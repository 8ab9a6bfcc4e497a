"""A site on disk, and a client of it. Without tacit[app] the tests of this folder are skipped."""

import pytest

pytest.importorskip("starlette", reason="tacit[app] is not installed")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from app_client import ADDRESS, COMMAND, PORT, Client

from tacit.app.datasets import DataSets
from tacit.app.files import Roots
from tacit.app.runner import Runner
from tacit.app.security import Sessions
from tacit.app.server import build
from tacit.app.site import AppSite
from tacit.app.uploads import Uploads


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    (tmp_path / "files").mkdir()
    runner = Runner(folder / "runs")
    made = AppSite(
        folder=folder,
        ledger=folder / "ledger.db",
        roots=Roots.of([tmp_path / "files"], folder),
        datasets=DataSets(folder / "data"),
        runner=runner,
        sessions=Sessions(folder / "sessions.json"),
        uploads=Uploads(folder / "received"),
        command=COMMAND,
        port=PORT,
        most_uploaded=5 << 20,
    )
    yield made
    for run in runner.runs():
        runner.cancel(run.id)


@pytest.fixture
def stranger(site):
    """A client without a session."""
    return Client(build(site), base_url=ADDRESS)


@pytest.fixture
def client(site, stranger):
    assert stranger.get(f"/enter?token={site.sessions.new_token()}").status_code == 200
    return stranger
