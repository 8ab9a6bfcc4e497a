"""Before any word about data is sent: identities, the sealed job, the greeting, strangers, and wrong input."""

from __future__ import annotations

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import numpy as np
import polars as pl
import pytest
from light import DATA, Mixer, Scene, parts

from tacit.errors import InvalidInputError, PartyError, ProtocolError
from tacit.parties import Identity, Job, Party, handshake
from tacit.parties.identity import HOST, check_valid
from tacit.parties.job import reseal
from tacit.parties.link import LABEL_BYTES, STEP, Link
from tacit.parties.local import free_ports
from tacit.parties.models import check_job, check_same_columns, estimator_of, read_party_data
from tacit.parties.wire import SERVICE, Wire


@pytest.fixture(scope="module")
def identities():
    return [Identity.create(name) for name in ("a", "b", "c")]


def job_of(identities, **changes):
    parties = [Party(one.name, f"127.0.0.1:{7000 + place}", one.certificate) for place, one in enumerate(identities)]
    return Job(
        **{
            "name": "study",
            "model": "nmf",
            "settings": {"n_components": 2},
            "features": ["x", "y"],
            "parties": parties,
            **changes,
        }
    )


def test_an_identity_is_kept_private_and_never_replaced(tmp_path, identities):
    certificate = identities[0].write(tmp_path)
    assert os.stat(tmp_path / "key.pem").st_mode & 0o077 == 0
    assert Identity.read(tmp_path) == identities[0]
    assert b"PRIVATE" not in certificate.read_bytes()
    with pytest.raises(InvalidInputError, match="without an identity"):
        identities[1].write(tmp_path)
    with pytest.raises(InvalidInputError, match="init"):
        Identity.read(tmp_path / "nowhere")


def test_certificates_out_of_their_time_are_refused_by_name():
    certificate, now = Identity.create("old", days=3).certificate, datetime.now(UTC)
    check_valid(certificate, "old", now)
    with pytest.raises(InvalidInputError, match=r"certificate of old.*expired"):
        check_valid(certificate, "old", now + timedelta(days=4))
    with pytest.raises(InvalidInputError, match=r"certificate of old.*starts on.*clock"):
        check_valid(certificate, "old", now - timedelta(days=1))


def test_a_job_survives_its_file(tmp_path, identities):
    job = job_of(identities, settings={"n_components": 2, "tol": 1e-4, "init": "random"}, target="z", colluding=2)
    path = job.write(tmp_path / "job.toml")
    assert Job.read(path) == job


@pytest.mark.parametrize("place", [0.05, 0.2, 0.5, 0.9])
def test_one_changed_character_is_refused(tmp_path, identities, place):
    path = job_of(identities).write(tmp_path / "job.toml")
    text = path.read_text()
    at = int(len(text) * place)
    path.write_text(text[:at] + ("#" if text[at] != "#" else "%") + text[at + 1 :])
    with pytest.raises(InvalidInputError):
        Job.read(path)


def test_a_change_that_is_meant_is_sealed_again(tmp_path, identities):
    path = job_of(identities).write(tmp_path / "job.toml")
    before = Job.read(path).digest
    path.write_text(path.read_text().replace("n_components = 2", "n_components = 3"))
    with pytest.raises(InvalidInputError, match="seal"):
        Job.read(path)
    assert reseal(path).settings["n_components"] == 3
    assert Job.read(path).digest != before


@pytest.mark.parametrize("content", ["ranks = { r = 2 }\n", "user,item\na,b\n", "name = 'study'\n"])
def test_what_is_no_job_is_neither_sealed_nor_replaced(tmp_path, identities, content):
    path = tmp_path / "site.toml"
    path.write_text(content)
    with pytest.raises(InvalidInputError):
        reseal(path)
    with pytest.raises(InvalidInputError, match="a new file for the job, or an earlier job"):
        job_of(identities).write(path)
    assert path.read_text() == content


def test_swapped_certificates_are_refused(tmp_path, identities):
    job = job_of(identities)
    text = job.text().replace(identities[0].certificate.decode(), "SWAP")
    text = text.replace(identities[1].certificate.decode(), identities[0].certificate.decode())
    path = tmp_path / "job.toml"
    path.write_text(text.replace("SWAP", identities[1].certificate.decode()))
    with pytest.raises(InvalidInputError, match="swapped"):
        reseal(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": ["x", "x"]}, "different names"),
        ({"colluding": 3}, "fewer colluding"),
        ({"word_bits": 32}, "64 or 128"),
        ({"timeout": -1.0}, "timeout"),
        ({"name": "a b"}, "letters, digits"),
    ],
)
def test_wrong_jobs_are_refused(identities, changes, message):
    with pytest.raises(InvalidInputError, match=message):
        job_of(identities, **changes)


def test_two_parties_with_one_name_or_address_are_refused(identities):
    twice = [identities[0], Identity.create("a")]
    with pytest.raises(InvalidInputError, match="different name"):
        job_of(twice)
    one = job_of(identities)
    with pytest.raises(InvalidInputError, match="different address"):
        replace(one, parties=[one.parties[0], replace(one.parties[1], address=one.parties[0].address)])
    with pytest.raises(InvalidInputError, match="at least two"):
        job_of(identities[:1])


def test_settings_that_the_model_does_not_have_are_refused(identities):
    with pytest.raises(InvalidInputError, match="settings of NMF"):
        estimator_of(job_of(identities, settings={"components": 2}))
    with pytest.raises(InvalidInputError, match="rating_range"):
        estimator_of(job_of(identities, model="rating-nmf", settings={}))
    with pytest.raises(InvalidInputError, match="model"):
        estimator_of(job_of(identities, model="oracle"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [1.0], "x": [1.0]}, "column 1 from hospital to be 'x'.*another order"),
        ({"x": [1.0]}, "no 'y'"),
        ({"x": [1.0], "y": [1.0], "z": [2.0]}, "also 'z'"),
        ({"x": [1.0, None], "y": [1.0, 2.0]}, "missing|empty|null|gap"),
    ],
)
def test_tables_that_do_not_fit_the_job_are_refused(tmp_path, identities, columns, message):
    pl.DataFrame(columns).write_csv(tmp_path / "data.csv")
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        read_party_data(tmp_path / "data.csv", job_of(identities), "hospital")


def test_arrays_that_do_not_fit_the_job_are_refused(tmp_path, identities):
    np.save(tmp_path / "wide.npy", np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match=r"2 columns from hospital.*3"):
        read_party_data(tmp_path / "wide.npy", job_of(identities), "hospital")
    np.save(tmp_path / "empty.npy", np.ones((0, 2)))
    with pytest.raises(InvalidInputError):
        read_party_data(tmp_path / "empty.npy", job_of(identities), "hospital")
    check_same_columns(["x", "y"], ["x", "y"], "hospital")


def test_ratings_of_a_party_are_put_into_the_columns_of_the_job(tmp_path, identities):
    frame = pl.DataFrame({"user": ["u2", "u1", "u2"], "item": ["y", "x", "x"], "rating": [1.0, 2.0, 3.0]})
    frame.write_csv(tmp_path / "ratings.csv")
    job = job_of(identities, model="private-recommender")
    found = read_party_data(tmp_path / "ratings.csv", job, "hospital").X
    np.testing.assert_array_equal(found.toarray(), [[2.0, 0.0], [3.0, 1.0]])
    with pytest.raises(InvalidInputError, match="items of the job"):
        read_party_data(tmp_path / "ratings.csv", replace(job, features=["x", "w"]), "hospital")


@pytest.mark.parametrize(
    ("model", "column", "expected"),
    [
        ("private-recommender", "rating", [[2.0, 0.0], [4.0, 1.0]]),  # the last one counts
        ("private-implicit", None, [[1.0, 0.0], [1.0, 1.0]]),  # counted once
        ("private-implicit", "weight", [[2.0, 0.0], [7.0, 1.0]]),  # added up
        ("private-implicit", "count", [[2.0, 0.0], [7.0, 1.0]]),
    ],
)
def test_repeated_rows_of_a_party_count_as_in_a_fit_of_one_holder(model, column, expected, tmp_path, identities):
    frame = pl.DataFrame({"user": ["u2", "u1", "u2", "u2"], "item": ["y", "x", "x", "x"]})
    if column:
        frame = frame.with_columns(pl.Series(column, [1.0, 2.0, 3.0, 4.0]))
    frame.write_csv(tmp_path / "rows.csv")
    found = read_party_data(tmp_path / "rows.csv", job_of(identities, model=model), "hospital").X
    np.testing.assert_array_equal(found.toarray(), expected)


class Wires:
    """Two links joined by hand, so that frames can be changed on the way."""

    def __init__(self, identities):
        job = job_of(identities[:2])
        self.links = [Link(job, place, timeout=0.5) for place in (0, 1)]
        self.held = [[], []]
        for place, link in enumerate(self.links):
            link.wire = self.Hand(self.held[place])
            link._peers[1 - place].heard = time.monotonic()
            keys = (b"k" * 32, b"l" * 32)
            link.seal(1 - place, *(keys if place == 0 else keys[::-1]))

    class Hand:
        def __init__(self, frames):
            self.frames = frames

        def send(self, frames):
            self.frames += frames.values()

        def has_room(self, peer):
            pass


def step(label, message):
    """The one frame of a short message."""
    return (STEP, label, len(message).to_bytes(8, "big"), message)


@pytest.mark.slow
def test_frames_arrive_and_tampered_replayed_or_reordered_ones_stop_the_run(identities):
    label = b"l" * LABEL_BYTES

    def frames(harm):
        wires = Wires(identities)
        for message in (b"one", b"two"):
            wires.links[0]._sealed({1: step(label, message)})
        for frame in harm(list(wires.held[0])):
            wires.links[1].arrived(0, frame)
        return [wires.links[1].swap(label, {0: b""})[0] for _ in range(2)]

    assert frames(lambda sent: sent) == [b"one", b"two"]
    for harm in (
        lambda sent: [sent[1], sent[0]],
        lambda sent: [sent[0], sent[0]],
        lambda sent: [sent[0], sent[1][:20] + b"X" + sent[1][21:]],
        lambda sent: [b"f" + sent[0][1:], sent[1]],
        lambda sent: sent[1:],
    ):
        with pytest.raises(PartyError, match=r"a sent a message that was tampered with, repeated, or out of order"):
            frames(harm)


def test_threads_never_seal_two_frames_under_one_number(identities):
    """The same content under the same number would have the same seal; GMAC must not see a number twice."""
    wires = Wires(identities)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(wires.links[0].send, 1, b"same") for _ in range(4000)]:
            done.result()
    assert len(set(wires.held[0])) == 4000


def test_another_label_is_refused(identities):
    wires = Wires(identities)
    wires.links[0]._sealed({1: step(b"x" * LABEL_BYTES, b"one")})
    wires.links[1].arrived(0, wires.held[0][0])
    with pytest.raises(ProtocolError, match="a to ask for the same"):
        wires.links[1].swap(b"y" * LABEL_BYTES, {0: b""})


def hello(**changes):
    mine = {"protocol": 1, "version": "1", "job": "j", "party": "b", "clock": time.time()}
    return {**mine, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "2"}, "the version 1 from b"),
        ({"job": "k"}, "the job j from b.*to the character"),
        ({"clock": time.time() + 7200}, "clock"),
        ({"clock": float("nan")}, "clock"),
        ({"party": "c"}, "its own name"),
    ],
)
def test_greetings_that_differ_are_refused_by_name(changes, message):
    with pytest.raises(ProtocolError, match=message):
        handshake._compare(hello(), hello(**changes), "b")
    handshake._compare(hello(), hello(), "b")
    with pytest.raises(ProtocolError, match="a greeting from b"):
        handshake._parsed(json.dumps({"key": "00"}).encode(), "b")


class Silent:
    """A receiver that accepts streams and keeps what arrives."""

    def __init__(self, arrived=None):
        self.kept = [] if arrived is None else arrived

    def opened(self, peer, hello):
        self.kept.append((peer, hello))
        return ""

    def is_left_out(self, peer):
        return False

    def gathered(self, peer, digest):
        self.kept.append((peer, digest))

    def may_read(self, peer):
        return True

    def arrived(self, peer, frame):
        self.kept.append((peer, frame))

    def ended(self, peer, how):
        pass

    def beat(self):
        pass


@pytest.fixture
def listening(identities):
    """Party a of a job, listening; yields the job and its address."""
    ports = free_ports(3)
    parties = [
        Party(one.name, f"127.0.0.1:{port}", one.certificate) for one, port in zip(identities, ports, strict=True)
    ]
    job = Job.parse(job_of(identities, parties=parties).text())
    arrived = []
    wire = Wire(job, identities[0], 0, Silent(arrived))
    yield job, arrived
    wire.close()


def call(job, identity, trusted=None):
    party = job.parties[0]
    if identity is None:
        credentials = grpc.ssl_channel_credentials(party.certificate)
    else:
        credentials = grpc.ssl_channel_credentials(trusted or party.certificate, identity.key, identity.certificate)
    options = (("grpc.ssl_target_name_override", HOST),)
    with grpc.secure_channel(party.address, credentials, options=options) as channel:
        return channel.unary_unary(f"/{SERVICE}/Ready")(b"", timeout=5)


def test_strangers_cannot_even_speak(listening, identities):
    job, arrived = listening
    assert call(job, identities[1]) == b"ready"
    stranger = Identity.create("b")  # the right name, another key
    for identity in (None, stranger):
        with pytest.raises(grpc.RpcError):
            call(job, identity)
    with pytest.raises(grpc.RpcError):  # and a party would not talk to a stranger who listens in its place
        call(job, identities[1], trusted=stranger.certificate)
    with grpc.insecure_channel(job.parties[0].address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{SERVICE}/Ready")(b"", timeout=2)
    assert arrived == []


def test_a_stranger_at_the_address_of_a_party_is_found_at_once(listening, identities):
    job, _ = listening
    other = replace(job.parties[0], certificate=Identity.create("a").certificate)
    mine = replace(job, parties=[other, *job.parties[1:]])
    link = Link(mine, 1)
    wire = link.wire = Wire(mine, identities[1], 1, link)
    try:
        with pytest.raises(PartyError, match=r"a at .*another certificate"):
            link.greet(b"hello", time.monotonic() + 10.0)
    finally:
        wire.close()


def test_a_port_in_use_is_named(identities):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        job = job_of(identities)
        parties = [replace(job.parties[0], address=address), *job.parties[1:]]
        with pytest.raises(InvalidInputError, match="the address of a, to be free"):
            Wire(replace(job, parties=parties), identities[0], 0, Silent())


@pytest.mark.slow
def test_the_right_certificate_for_another_job_is_refused(tmp_path):
    scene = Scene(tmp_path)
    other = Job.parse(replace(scene.job, name="another").text())
    results = scene.run(job={0: scene.job, 1: scene.job, 2: other})
    assert all(isinstance(error, ProtocolError | PartyError) for error in results)
    assert any("the same job file" in str(error) for error in results)


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_parties_sum_exactly_and_say_what_they_rely_on(tmp_path, parties):
    results = Scene(tmp_path, parties).run()
    alone = Mixer()
    terms = parts(parties)
    v = np.ones(DATA.shape[1])
    for _ in range(alone.rounds):
        total = np.zeros(DATA.shape[1], dtype=np.int64)
        for X in terms:
            term = np.tanh(X @ v) @ X
            total += np.rint(np.ldexp(term / max(np.linalg.norm(term), 1.0), 40)).astype(np.int64)
        v = np.ldexp(total.astype(float), -40)
    for result, traffic, guarantee in results:
        np.testing.assert_array_equal(result, v)
        assert traffic["rounds"] == alone.rounds
        assert "Nobody is trusted" in guarantee
        assert ("each can subtract its own term" in guarantee) == (parties == 2)


@pytest.mark.slow
def test_a_checkpoint_is_not_started_over_nor_made_up(tmp_path):
    scene = Scene(tmp_path)
    scene.run()
    again = scene.run(wait=3.0)
    assert all(isinstance(error, InvalidInputError) and "resume" in str(error) for error in again)
    fresh = Scene(tmp_path / "fresh")
    assert all(isinstance(error, InvalidInputError) for error in fresh.run(resume=True, wait=3.0))


def moved_seal(text):
    lines = text.split("\n")
    lines.insert(5, lines.pop(1))
    return "\n".join(lines)


def sealed_text(identities):
    return job_of(identities, settings={"n_components": 2, "init": "random"}).text()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("[settings]\n", '[settings]\ndigest = "sha256:0"\n'),
        lambda text: text.replace('init = "random"\n', 'init = """random\u2028digest = more"""\n'),
        lambda text: text.replace('init = "random"\n', 'init = """random\ndigest = "more"\n"""\n'),
        lambda text: text.replace("[settings]\n", "[settings]\n# a note\x0c\ndigest = 1\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text + "# more",
        lambda text: text + " ",
        moved_seal,
    ],
    ids=["line", "U+2028", "in a text", "form feed", "line ends", "comment", "space", "place of the seal"],
)
def test_the_seal_covers_every_byte(tmp_path, identities, change):
    path = tmp_path / "job.toml"
    text = sealed_text(identities)
    path.write_bytes(text.encode())
    Job.read(path)
    changed = change(text)
    assert changed != text
    path.write_bytes(changed.encode())
    with pytest.raises(InvalidInputError):
        Job.read(path)


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("moments", {"insecure_seed": 7}, "insecure_seed"),
        ("moments", {"epsilon": float("inf")}, "epsilon=inf"),
        ("moments", {"epsilon": 1e6}, r"epsilon=1e\+06"),
        ("private-nmf", {"method": "published"}, "published"),
        ("private-recommender", {"epsilon": {"ann": 1.0, "bob": float("inf")}}, "epsilon=inf"),
        ("private-recommender", {"epsilon": {"ann": 1.0, "bob": 1e4}}, "epsilon=10000 for some users"),
        ("moments", {"ledger": "mine.db"}, "ledger"),
        ("moments", {"dataset": "yours"}, "dataset"),
    ],
)
def test_a_job_cannot_switch_off_the_noise_of_others(identities, model, settings, message):
    job = Job.parse(job_of(identities, model=model, settings=settings).text())
    for check in (estimator_of, check_job):
        with pytest.raises(InvalidInputError, match=message):
            check(job)
        if message in ("ledger", "dataset"):  # nobody but the party itself says what its ledger is
            with pytest.raises(InvalidInputError, match=message):
                check(job, accept_no_guarantee=True)
        else:
            check(job, accept_no_guarantee=True)


def test_more_parties_than_the_normalised_sum_takes_are_found_when_the_job_is_made():
    many = [Identity.create(f"p{place}") for place in range(12)]
    with pytest.raises(InvalidInputError, match="at most 11 parties where singular values are hidden"):
        check_job(job_of(many, model="svd"))
    check_job(job_of(many, model="svd", settings={"n_components": 2, "hide_singular_values": False}))
    check_job(job_of(many, model="svd", hide_norms=False))
