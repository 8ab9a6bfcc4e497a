"""The greeting: before a word about data is sent, all parties see that they run the same job, and agree on keys."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit import __version__
from tacit.errors import ProtocolError, words
from tacit.parties.job import Job
from tacit.parties.link import Link

PROTOCOL = 2
MOST_CLOCK_SKEW = 300.0


@dataclass(frozen=True)
class Agreement:
    """What the greeting settled: for every peer the key of the masks, and how many rounds it has."""

    mask_keys: dict[int, bytes]
    rounds: dict[int, int]


def greet(link: Link, job: Job, *, rounds: int, resumed: bool) -> Agreement:
    """Greet all parties, compare, and seal the link.

    Raises
    ------
    ProtocolError
        Naming the first party that runs another version or job, whose clock is off, or that starts anew while others resume.
    """
    private = X25519PrivateKey.generate()  # for this session only, so no mask is ever used again
    public = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    mine = {
        "protocol": PROTOCOL,
        "version": __version__,
        "job": job.digest,
        "party": link.names[link.index],
        "clock": time.time(),
        "resumed": resumed,
        "rounds": rounds,
        "key": public.hex(),
    }
    theirs = {peer: _parsed(hello, link.names[peer]) for peer, hello in link.greet(json.dumps(mine).encode()).items()}
    for peer, hello in theirs.items():
        _compare(mine, hello, link.names[peer])
    masks = {}
    for peer, hello in theirs.items():
        secret = private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(hello["key"])))
        ends = sorted([(link.index, public), (peer, bytes.fromhex(hello["key"]))])
        keys = _derived(secret, job.digest, b"".join(key for _, key in ends))
        lower_sends, upper_sends, masks[peer] = keys
        link.seal(peer, *((lower_sends, upper_sends) if link.index < peer else (upper_sends, lower_sends)))
    return Agreement(masks, {peer: int(hello["rounds"]) for peer, hello in theirs.items()})


def _parsed(hello: bytes, name: str) -> dict[str, Any]:
    try:
        values = json.loads(hello)
        assert isinstance(values, dict)
        assert len(bytes.fromhex(values["key"])) == 32
        return values
    except (ValueError, KeyError, AssertionError, TypeError):
        raise _refused(name, "a greeting", "something else") from None


def _compare(mine: dict[str, Any], theirs: dict[str, Any], name: str) -> None:
    for what, fix in (
        ("protocol", "Install the same version of tacit everywhere."),
        ("version", "Install the same version of tacit everywhere."),
        ("job", "Give all parties the same job file, to the character."),
        ("resumed", "Either all parties start anew, or all use --resume."),
    ):
        if theirs.get(what) != mine[what]:
            raise _refused(name, f"the {what} {mine[what]}", str(theirs.get(what)), fix)
    if theirs.get("party") != name:
        raise _refused(name, "its own name", str(theirs.get("party")))
    skew = float(theirs.get("clock", 0.0)) - float(mine["clock"])
    if abs(skew) > MOST_CLOCK_SKEW:
        raise _refused(
            name,
            f"a clock within {MOST_CLOCK_SKEW:.0f} s of this one",
            f"one that differs by {skew:.0f} s",
            "Set the clocks.",
        )


def _refused(name: str, expected: str, got: str, fix: str = "Check what that party runs.") -> ProtocolError:
    return ProtocolError(f"{expected} from {name}", words(got), f"{fix} Nothing about the data was sent.")


def _derived(secret: bytes, job: str, ends: bytes) -> tuple[bytes, bytes, bytes]:
    """Three keys of a pair: for the seals of each direction, and for the masks."""
    material = HKDF(hashes.SHA256(), length=96, salt=job.encode(), info=b"tacit parties 1" + ends).derive(secret)
    return material[:32], material[32:64], material[64:]
