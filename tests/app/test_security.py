"""Who is let in, and what is refused: each header, cookie, token, path and size by itself."""

import asyncio
import gzip
import io
import logging
import os
import re
import socket
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from app_client import ADDRESS, Client
from starlette.requests import ClientDisconnect

from tacit.app import security, supervise
from tacit.app.files import Roots, safe_name
from tacit.app.security import Sessions
from tacit.app.server import _listen, build
from tacit.app.uploads import STALE_SECONDS, Uploads
from tacit.errors import InvalidInputError


def test_the_token_opens_one_session(site, stranger):
    token = site.sessions.new_token()
    assert stranger.get("/").status_code == 401
    assert stranger.get("/enter?token=wrong").status_code == 403
    assert stranger.get(f"/enter?token={token}").status_code == 200
    assert stranger.get("/").status_code == 200
    other = Client(stranger.app, base_url=ADDRESS)
    assert other.get(f"/enter?token={token}").status_code == 403
    assert other.get("/").status_code == 401


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(site, stranger):
    answer = stranger.get(f"/enter?token={site.sessions.new_token()}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "token" not in answer.text


def test_sessions_outlive_a_restart_and_expire(tmp_path, monkeypatch):
    sessions = Sessions(tmp_path / "sessions.json")
    token = sessions.new_token()
    session = sessions.enter(token)
    again = Sessions(tmp_path / "sessions.json")
    assert again.holds(session)
    assert again.form_token(session) == sessions.form_token(session)
    assert again.enter(token) is None  # used up
    assert session not in (tmp_path / "sessions.json").read_text()
    now = security.time.time()
    monkeypatch.setattr(security.time, "time", lambda: now + security.SESSION_SECONDS + 1)
    assert not again.holds(session)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1:80", "localhost", "127.0.0.1.evil:8765", ""]
)
def test_a_hostile_host_is_refused(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:8765", "http://localhost:8765"]
)
def test_a_form_of_another_origin_is_refused(client, site, origin):
    headers = {} if origin is None else {"Origin": origin}
    fields = {"form_token": client.form_token("/ledger"), "name": "x", "total_epsilon": "1", "total_delta": "1e-6"}
    assert client.post("/ledger/open", data=fields, headers=headers).status_code == 403
    assert site.book() is None


def test_a_form_without_the_right_token_is_refused(client, site):
    fields = {"name": "x", "total_epsilon": "1", "total_delta": "1e-6", "unit": "row"}
    for token in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
        assert client.post("/ledger/open", data={**fields, **token}, headers={"Origin": ADDRESS}).status_code == 403
    assert site.book() is None
    other = Client(build(site), base_url=ADDRESS)
    other.get(f"/enter?token={site.sessions.new_token()}")
    stolen = {"form_token": other.form_token("/ledger")}
    assert client.post("/ledger/open", data={**fields, **stolen}, headers={"Origin": ADDRESS}).status_code == 403
    assert client.submit("/ledger/open", fields, page="/ledger").status_code == 200
    assert site.book().datasets() == ["x"]


def test_requests_from_other_sites_are_refused(client):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/ledger", headers=headers).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", ["/", "/data", "/runs", "/ledger", "/static/app.css", "/nothing", "/enter?token=x"])
def test_every_response_has_the_headers(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_no_page_has_inline_script_or_style():
    from tacit.app.site import HERE

    for template in (HERE / "templates").glob("*.html"):
        text = template.read_text()
        assert not re.search(r"<script(?! src=)|<style|\son\w+=|style=|javascript:", text), template.name
        assert not re.search(r"https?://", text), template.name  # nothing is fetched from elsewhere
    assert not re.search(r"https?://|@import", (HERE / "static" / "app.css").read_text())


@pytest.mark.parametrize(
    "path", ["../secret.csv", "/etc/passwd", "a/../../secret.csv", "link.csv", "inside/../../secret.csv", "x\0y"]
)
def test_no_path_leads_out_of_the_folders(client, site, tmp_path, path):
    (tmp_path / "secret.csv").write_text("name\nAda\n")
    (tmp_path / "files" / "link.csv").symlink_to(tmp_path / "secret.csv")
    answer = client.submit("/data/pick", {"root": "0", "path": path})
    assert answer.status_code == 422
    assert not site.datasets.all()
    assert "link.csv" not in client.get("/data").text
    assert client.get("/data", params={"root": "0", "at": path}).status_code == 422


@pytest.mark.parametrize("root", ["1", "-1", "x", ""])
def test_no_other_root_can_be_named(tmp_path, root):
    with pytest.raises(InvalidInputError):
        Roots.of([tmp_path], tmp_path / "own").find(root, "")


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../../etc",
        "/runs/%2e%2e/x",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/data/..%2f..",
        "/runs/x",
    ],
)
def test_addresses_name_nothing_outside(client, path):
    assert client.get(path).status_code in (404, 405)


def test_uploads_are_private_and_named_safely(client, site):
    answer = client.upload("../../..\\evil\nname.csv", b"a,b\n1,2\n")
    assert answer.status_code == 200
    (data,) = site.datasets.all()
    kept = site.folder / "uploads"
    assert data.path.startswith(str(kept))
    for path in [site.folder, *site.folder.rglob("*")]:
        if path != site.folder and path.name != "lock":
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    with pytest.raises(InvalidInputError):
        safe_name("run.sh")


def test_a_large_upload_is_refused_and_not_kept(client, site):
    assert client.upload("a.csv", b"x" * (6 << 20)).status_code == 413
    assert list((site.folder / "received").iterdir()) == []
    assert not (site.folder / "uploads").exists()


def test_a_large_form_is_refused(client):
    answer = client.post(
        "/ledger/open",
        content=b"x" * (5 << 20),
        headers={"Origin": ADDRESS, "Content-Type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 413


def test_an_unforeseen_error_shows_and_logs_no_value(client, site, monkeypatch, caplog):
    def broken(self):
        raise ValueError("Ada Lovelace, 1815")

    monkeypatch.setattr(type(site.datasets), "all", broken)
    with caplog.at_level(logging.DEBUG):
        answer = client.get("/data")
    assert answer.status_code == 500
    assert "ValueError in test_security.py" in answer.text
    assert "Ada" not in answer.text
    assert "Ada" not in caplog.text


def test_a_report_is_shown_without_scripts(client, site):
    run = site.runner.submit("test", "", ["true"])
    folder = site.runner.folder / run
    (folder / "output").mkdir()
    (folder / "output" / "report.html").write_text("<script>alert(1)</script>")
    answer = client.get(f"/runs/{run}/report")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]


def test_text_of_a_person_is_escaped(client, site):
    site.ledger.parent.mkdir(exist_ok=True)
    client.submit(
        "/ledger/open", {"name": "<b>x</b>", "total_epsilon": "1", "total_delta": "1e-6", "unit": "row"}, page="/ledger"
    )
    page = client.get("/ledger").text
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page


def pick(client, site, path):
    client.submit("/data/pick", {"root": "0", "path": path})
    return site.datasets.all()[0]


@pytest.mark.parametrize(
    "path", ["/runs/%252e%252e/x", "/static/..%2fserver.py", "/static/%252e%252e%252fserver.py", "/data/..%2f..%2fx"]
)
def test_addresses_that_are_encoded_twice_name_nothing(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["..%2fsecret.csv", "%2e%2e/secret.csv", "..%252fsecret.csv"])
def test_paths_of_forms_are_not_decoded_again(client, site, tmp_path, path):
    (tmp_path / "secret.csv").write_text("name\nAda\n")
    assert client.submit("/data/pick", {"root": "0", "path": path}).status_code == 422
    assert not site.datasets.all()


def test_the_apps_own_files_cannot_be_picked(client, site, tmp_path):
    """The state folder is in the current folder by default, which is also where files are picked by default."""
    site.roots.__dict__["folders"] = (tmp_path,)
    (site.folder / "uploads" / "x").mkdir(parents=True)
    (site.folder / "uploads" / "x" / "a.csv").write_text("name\nAda\n")
    assert ">state/<" not in client.get("/data").text
    assert client.submit("/data/pick", {"root": "0", "path": "state/uploads/x/a.csv"}).status_code == 422
    assert client.get("/data", params={"root": "0", "at": "state"}).status_code == 422


PEOPLE = {"name": "people", "unit": "person", "kind-0": "integer", "low-0": "0", "high-0": "9", "how-0": "limit"}
BUDGET = {"epsilon": "0.5", "delta": "1e-6"}
ACCOUNT = {"total_epsilon": "3", "total_delta": "1e-6"}


@pytest.fixture
def asked(client, site, tmp_path):
    """The address of a question about a table with an account."""
    (tmp_path / "files" / "people.csv").write_text("age\n" + "3\n" * 50)
    data = pick(client, site, "people.csv")
    client.submit(f"/data/{data.id}", PEOPLE)
    address = f"/data/{data.id}/question/synthetic"
    client.submit(f"{address}/account", ACCOUNT)
    return address


def test_a_file_that_became_a_link_is_not_read(client, site, tmp_path, asked):
    site.runner.slots = 0  # it waits
    answer = client.submit(f"{asked}/run", BUDGET)
    run = site.runner.get(answer.url.path.rpartition("/")[2])
    (tmp_path / "secret.csv").write_text("age\n7\n")
    (tmp_path / "files" / "people.csv").unlink()
    (tmp_path / "files" / "people.csv").symlink_to(tmp_path / "secret.csv")
    again = client.submit(f"{asked}/run", {**BUDGET, "epsilon": "0.6"})
    assert again.status_code == 422
    assert "not in the folders" in again.text
    supervise.main(run.folder)
    ended = site.runner.get(run.id)
    assert ended.state == "failed"
    assert "Nothing was read or charged" in ended.error()
    assert not ended.output.exists()
    assert site.book().history("people") == []


def test_a_link_in_a_folder_of_texts_is_not_followed(client, site, tmp_path):
    (tmp_path / "secret.txt").write_text("Ada Lovelace")
    texts = tmp_path / "files" / "texts"
    (texts / "inner").mkdir(parents=True)
    (texts / "inner" / "a.txt").write_text("one text")
    data = pick(client, site, "texts")
    client.submit(f"/data/{data.id}", {"name": "texts", "unit": "thing"})
    address = f"/data/{data.id}/question/topics"
    client.submit(f"{address}/account", ACCOUNT)
    (texts / "inner" / "b.txt").symlink_to(tmp_path / "secret.txt")
    refused = client.submit(f"{address}/run", BUDGET)
    assert refused.status_code == 422
    assert "not in the folders" in refused.text
    assert site.runner.runs() == []


def test_a_word_list_is_read_from_the_folders_only(client, site, tmp_path):
    (tmp_path / "secret.txt").write_text("Ada\nLovelace\n")
    folder = tmp_path / "files"
    (folder / "letters.csv").write_text("letter\nDear moon\n")
    (folder / "english.txt").write_text("moon\nstar\n")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    data = pick(client, site, "letters.csv")
    described = {"kind": "text-column", "name": "letters", "unit": "person", "text": "letter"}
    client.submit(f"/data/{data.id}", described | {"change": "kind"})
    client.submit(f"/data/{data.id}", described)
    address = f"/data/{data.id}/question/topics"
    client.submit(f"{address}/account", ACCOUNT)
    for outside in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "missing.txt", "."):
        refused = client.submit(f"{address}/run", BUDGET | {"words": outside})
        assert refused.status_code == 422
        assert "Give a file below a folder" in refused.text
    assert site.runner.runs() == []
    client.submit(f"{address}/run", BUDGET | {"words": "english.txt"})
    (run,) = site.runner.runs()
    assert f"--vocabulary={folder / 'english.txt'}" in run.spec["command"]
    assert str(folder / "english.txt") in run.spec["reads"]


@pytest.mark.parametrize("named", ["../secret.csv", "/etc/passwd"])
@pytest.mark.parametrize("place", ["relation", "names"])
def test_a_description_names_no_file_outside(client, site, tmp_path, named, place):
    (tmp_path / "secret.csv").write_text("a,b,c\n1,2,3\n")
    content = f'[[relation]]\nfile = "{named}"\n' if place == "relation" else f'[names]\nuser = "{named}"\n'
    (tmp_path / "files" / "coupled.toml").write_text("ranks = 2\n" + content)
    data = pick(client, site, "coupled.toml")
    client.submit(f"/data/{data.id}", {"name": "coupled", "unit": "person"})
    refused = client.submit(f"/data/{data.id}/question/coupled/run", {})
    assert refused.status_code == 422
    assert "not in the folders" in refused.text
    assert site.runner.runs() == []


def test_an_upload_that_cannot_be_used_is_not_kept(client, site):
    assert client.upload("letter.csv", b"17,3.5\n18,4.5\n").status_code == 422
    assert client.upload("run.sh", b"rm").status_code == 422
    assert list((site.folder / "uploads").iterdir()) == []


def test_a_file_without_the_token_of_a_page_is_not_received(client, stranger, site):
    token = client.form_token()
    for headers in ({"Origin": ADDRESS}, {"Origin": ADDRESS, "X-Form-Token": "0" * 64}, {"X-Form-Token": token}):
        assert client.post("/upload", content=b"a\n1\n", headers=headers).status_code == 403
    client.cookies.clear()
    assert client.post("/upload", content=b"a\n", headers={"Origin": ADDRESS, "X-Form-Token": token}).status_code == 401
    assert list((site.folder / "received").iterdir()) == []


def test_a_received_file_is_used_once_and_never_outlives_its_form(client, site, tmp_path):
    headers = {"Origin": ADDRESS, "X-Form-Token": client.form_token()}
    received = client.post("/upload", content=b"age\n1\n", headers=headers).text
    assert stat.S_IMODE((site.folder / "received" / received).stat().st_mode) == 0o600
    assert client.submit("/data/upload", {"file": "run.sh", "upload": received}).status_code == 422
    assert list((site.folder / "received").iterdir()) == []
    assert "Choose it again" in client.submit("/data/upload", {"file": "a.csv", "upload": received}).text
    assert site.datasets.all() == []


@pytest.mark.parametrize("named", ["", "../sessions.json", "20260101-000000000000-00000000"])
def test_a_form_names_no_file_that_was_not_received(client, site, named):
    assert client.submit("/data/upload", {"file": "a.csv", "upload": named}).status_code == 422
    assert (site.folder / "sessions.json").exists()
    assert site.datasets.all() == []


def test_a_file_that_no_form_names_is_deleted(client, site):
    headers = {"Origin": ADDRESS, "X-Form-Token": client.form_token()}
    left = site.folder / "received" / client.post("/upload", content=b"Ada\n", headers=headers).text
    os.utime(left, (time.time() - 2 * STALE_SECONDS,) * 2)
    new = site.folder / "received" / client.post("/upload", content=b"x\n", headers=headers).text
    assert not left.exists()
    assert new.exists()
    Uploads(site.folder / "received")  # the app is started again
    assert list((site.folder / "received").iterdir()) == []


def test_a_file_that_breaks_off_is_not_kept(site):
    async def body():
        yield b"age\n"
        raise ClientDisconnect

    with ThreadPoolExecutor(1) as other, pytest.raises(ClientDisconnect):  # this thread may have a running event loop
        other.submit(lambda: asyncio.run(site.uploads.receive(body()))).result()
    assert list((site.folder / "received").iterdir()) == []


@pytest.mark.parametrize("body", [b"\xff=1", b"%ff=1", b"a", b"&".join([b"a=1"] * 20_002)])
def test_a_body_that_is_no_form_is_refused(client, body):
    headers = {"Origin": ADDRESS, "Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/ledger/open", content=body, headers=headers).status_code == 400


def test_two_uploads_of_one_name_are_two_files(client, site):
    for cell in (b"1", b"2"):
        assert client.upload("a.csv", b"age\n" + cell).status_code == 200
    assert {Path(data.path).read_text() for data in site.datasets.all()} == {"age\n1", "age\n2"}


def test_a_first_line_that_unpacks_to_gigabytes_is_refused(client, site):
    packed = gzip.compress(b"abcdefg," * (8 << 20), 6)
    assert len(packed) < 1 << 20
    refused = client.upload("bomb.csv.gz", packed)
    assert refused.status_code == 422
    assert "first line with the names of the columns" in refused.text
    assert site.datasets.all() == []


@pytest.mark.slow
def test_a_list_of_items_that_unpacks_to_gigabytes_is_refused(client, site, tmp_path):
    (tmp_path / "files" / "clicks.csv").write_text("user,item\n1,2\n")
    data = pick(client, site, "clicks.csv")
    site.runner.memory = 384 << 20  # enough for a small list
    address, fields = f"/data/{data.id}/items/upload", {"kind": "clicks", "user": "user", "item": "item"}
    assert client.upload("items.csv.gz", gzip.compress(b"item\nx\ny\n"), address, **fields).status_code == 200
    assert site.datasets.get(data.id).answers["items"] == "x\ny"
    packed = gzip.compress(b"item\n" + b"x" * (512 << 20), 1)
    assert len(packed) < 4 << 20
    refused = client.upload("items.csv.gz", packed, address, **fields)
    assert refused.status_code == 422
    assert "cannot be read" in refused.text or "more memory" in refused.text


@pytest.mark.slow
def test_a_matrix_that_unpacks_to_gigabytes_fails_in_words(client, site, tmp_path):
    made = io.BytesIO()
    np.savez_compressed(made, X=np.zeros((1 << 15, 1 << 12), dtype=np.uint8))  # 128 MB, packed to 130 kB
    (tmp_path / "files" / "bomb.npz").write_bytes(made.getvalue())
    data = pick(client, site, "bomb.npz")
    client.submit(f"/data/{data.id}", {"name": "bomb", "unit": "person"})
    address = f"/data/{data.id}/question/components"
    client.submit(f"{address}/account", ACCOUNT)
    site.runner.memory = 320 << 20  # tacit itself needs about 200
    name = client.submit(f"{address}/run", BUDGET).url.path.rpartition("/")[2]
    end = time.monotonic() + 120
    while not site.runner.get(name).is_over:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert site.runner.get(name).state == "failed"
    assert "more memory than its limit" in client.get(f"/runs/{name}").text
    assert site.book().history("bomb") == []


HOSTILE = "<script>x</script>\"'><b onmouseover=alert(1)>"


def test_names_of_columns_are_text(client, site, tmp_path):
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    (tmp_path / "files" / "hostile.csv").write_text(f"{quoted},sex\n31,f\n")
    data = pick(client, site, "hostile.csv")
    fields = {**PEOPLE, "kind-1": "category", "categories-1": f"f | {HOSTILE}", "how-1": "limit"}
    pages = [
        client.get(f"/data/{data.id}"),
        client.submit(f"/data/{data.id}", {**fields, "how-0": ""}),
        client.submit(f"/data/{data.id}", fields),
        client.get(f"/data/{data.id}/question/synthetic"),
    ]
    assert any(name.startswith("<script>") for name in site.datasets.get(data.id).columns)
    for page in pages:
        assert "<script>x" not in page.text
        assert "<b onmouseover" not in page.text
    assert "&lt;script&gt;" in pages[0].text


def test_a_form_that_is_sent_twice_is_one_run(client, site, asked):
    """A double click, or a form that is sent again after going back, is charged once."""
    site.runner.slots = 0  # nothing starts
    ticket = re.search('name="ticket" value="([^"]+)"', client.get(asked).text)[1]
    first, second = (client.submit(f"{asked}/run", {**BUDGET, "ticket": ticket}) for _ in range(2))
    assert first.url == second.url
    assert len(site.runner.runs()) == 1
    client.submit(f"{asked}/run", {**BUDGET, "epsilon": "0.25", "ticket": ticket})  # another question
    assert len(site.runner.runs()) == 2
    other = re.search('name="ticket" value="([^"]+)"', client.get(asked).text)[1]
    assert other != ticket
    client.submit(f"{asked}/run", {**BUDGET, "ticket": other})
    assert len(site.runner.runs()) == 3


def test_a_ticket_is_no_path(client, site, asked):
    site.runner.slots = 0
    for ticket in ("../../x", "", "a" * 500):
        assert client.submit(f"{asked}/run", {**BUDGET, "ticket": ticket}).status_code == 200
    assert len(site.runner.runs()) == 3
    assert not (site.folder / "runs" / "tickets").exists()


def test_a_locked_ledger_is_explained_and_costs_nothing(client, site, asked, monkeypatch):
    monkeypatch.setattr("tacit.app.site.LEDGER_SECONDS", 0.05)
    other = sqlite3.connect(site.ledger, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    fields = {"name": "more", "unit": "row", **ACCOUNT}
    answer = client.submit("/ledger/open", fields)
    assert answer.status_code == 422
    assert "locked by another process" in answer.text
    other.execute("ROLLBACK")
    other.close()
    assert site.book().datasets() == ["people"]
    assert client.submit("/ledger/open", fields).status_code == 200


def test_a_browser_that_is_quicker_than_the_server_waits():
    """The address is printed before the server answers."""
    with _listen(0) as listening, socket.create_connection(listening.getsockname(), timeout=5):
        assert listening.getsockname()[0] == "127.0.0.1"
