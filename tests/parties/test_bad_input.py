"""Wrong input end to end, with real sockets: refused before a word about data is sent, by an error that names the party."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import replace

import numpy as np
import pytest
from light import DATA, Mixer, Scene, expired

from tacit.errors import InvalidInputError, PartyError, ProtocolError
from tacit.parties import Identity, Job, Party, join
from tacit.parties.job import reseal
from tacit.parties.join import CHECKPOINT
from tacit.parties.link import Link
from tacit.parties.models import PartyData
from tacit.parties.wire import Wire


def alone(scene, X, place=1, **settings):
    """Join as one party, with the others not there: what is wrong here is found without them."""
    identity = settings.pop("identity", scene.identities[place])
    job = settings.pop("job", scene.job)
    return join(job, identity, PartyData(X), scene.folder / "alone", estimator=Mixer(), connect_seconds=0.5, **settings)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (DATA[:, :3], r"4 columns from party-1; got 3"),
        (DATA[:0], r"at least one record from party-1"),
        (np.where(np.eye(30, 4) > 0, np.nan, DATA), r"finite numbers from party-1"),
        (np.full((2, 4), np.inf), r"finite numbers from party-1"),
    ],
)
def test_data_that_does_not_fit_is_found_before_a_port_is_opened(tmp_path, X, message):
    scene = Scene(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        alone(scene, X)
    assert not (tmp_path / "alone" / CHECKPOINT).exists()


def test_an_expired_certificate_is_named_by_whoever_reads_joins_or_connects(tmp_path):
    scene = Scene(tmp_path)
    old = expired("party-2")
    parties = [*scene.job.parties[:2], replace(scene.job.parties[2], certificate=old.certificate)]
    made = replace(scene.job, parties=parties)
    with pytest.raises(InvalidInputError, match=r"certificate of party-2; got one that expired"):
        Job.parse(made.text())
    with pytest.raises(InvalidInputError, match=r"certificate of party-2; got one that expired"):
        alone(scene, DATA, job=made)
    links = [Link(made, place) for place in (1, 2)]
    links[1].wire = Wire(made, old, 2, links[1])
    links[0].wire = Wire(made, scene.identities[1], 1, links[0])
    try:  # and TLS would not have it either
        with pytest.raises(PartyError, match=r"party-2 at .*has expired"):
            links[0].greet(b"hello", time.monotonic() + 10.0)
    finally:
        links[0].wire.close()
        links[1].wire.close()


def test_swapped_certificates_are_found_in_the_job_and_at_the_address(tmp_path):
    scene = Scene(tmp_path)
    first, second, _ = scene.job.parties
    with pytest.raises(InvalidInputError, match=r"the certificate of party-0; got that of party-1"):
        Party(first.name, first.address, second.certificate)
    text = scene.job.text()
    for old, new in ((first, "FIRST"), (second, "SECOND")):
        text = text.replace(old.certificate.decode(), new).replace(old.fingerprint, f"{new} PRINT")
    for old, new in ((second, "FIRST"), (first, "SECOND")):
        text = text.replace(f"{new} PRINT", old.fingerprint).replace(new, old.certificate.decode())
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=r"the certificate of party-0; got that of party-1"):
        reseal(tmp_path / "job.toml")
    with pytest.raises(InvalidInputError, match=r"the identity of party-1 that the job names"):
        alone(scene, DATA, identity=Identity.create("party-1"))


def test_a_job_file_with_one_name_twice_is_refused(tmp_path):
    scene = Scene(tmp_path)
    parties = [*scene.job.parties[:2], Party("party-1", "127.0.0.1:9999", Identity.create("party-1").certificate)]
    with pytest.raises(InvalidInputError, match=r"a different name for every party.*'party-1'"):
        replace(scene.job, parties=parties)


@pytest.mark.slow
def test_a_port_in_use_leaves_nothing_behind_that_stops_the_next_try(tmp_path):
    scene = Scene(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(scene.job.parties[1].address.rpartition(":")[2])))
        taken.listen()
        with pytest.raises(InvalidInputError, match=r"the address of party-1, to be free"):
            alone(scene, DATA)
        assert not (tmp_path / "alone" / CHECKPOINT).exists()  # it may be that of a run that has the port
    for _ in range(2):  # nobody came; and no word of --resume
        with pytest.raises(PartyError, match=r"party-0, party-2 to come .*Nothing was sent"):
            alone(scene, DATA)


def reasons(results):
    """Return why the parties stopped; all must have, and in round 0."""
    assert all(isinstance(error, ProtocolError | PartyError) for error in results), results
    assert not any("reach round 1" in str(error) for error in results)
    return " | ".join(map(str, results))


@pytest.mark.slow
def test_a_clock_that_is_off_is_found_in_the_greeting(tmp_path):
    results = Scene(tmp_path).run(clock={2: 3600.0})
    assert "a clock within 300 s of this one from party-2; got one that differs by 3" in reasons(results)


@pytest.mark.slow
def test_jobs_that_differ_in_one_character_are_found_in_the_greeting(tmp_path):
    scene = Scene(tmp_path)
    path = scene.job.write(tmp_path / "job.toml")
    path.write_text(path.read_text().replace('name = "test"', 'name = "tent"'))
    with pytest.raises(InvalidInputError, match="as it was sealed"):
        Job.read(path)
    results = scene.run(job={0: scene.job, 1: reseal(path), 2: scene.job}, wait=5.0)
    assert f"the job {scene.job.identity} from party-1" in reasons(results)


@pytest.mark.slow
def test_parties_at_each_others_addresses_are_not_spoken_to(tmp_path):
    scene = Scene(tmp_path)
    first, second, _ = (party.address for party in scene.job.parties)
    results = scene.run(listen={0: second, 1: first}, wait=5.0)
    assert f"party-0 at {first}, with its certificate of this job; got another certificate there" in reasons(results)


@pytest.mark.slow
def test_a_port_in_use_at_one_party_stops_the_others_by_its_name(tmp_path):
    scene = Scene(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(scene.job.parties[1].address.rpartition(":")[2])))
        taken.listen()
        results = scene.run(wait=3.0)
        assert "the address of party-1, to be free" in str(results[1])
        # of the other two, the one that gives up first is missed by the last one, too
        assert all(re.search(r"party-1(, party-2)? to come", str(results[place])) for place in (0, 2)), results
    results = scene.run()  # once it is free, all start as if nothing had been
    for result, traffic, _ in results:
        np.testing.assert_array_equal(result, results[0][0])
        assert traffic["rounds"] == Mixer.rounds


def test_an_identity_of_nobody_in_the_job_is_refused(tmp_path):
    scene = Scene(tmp_path)
    with pytest.raises(InvalidInputError, match=r"one of the parties party-0, party-1, party-2"):
        alone(scene, DATA, identity=Identity.create("party-9"))
