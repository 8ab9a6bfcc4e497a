"""The greeting: before anything about the data is sent, all parties compare job and run, and agree on keys."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit import __version__
from tacit.channel.fixedpoint import Ring
from tacit.channel.surviving import MASKED_TOTAL, MAY_ARRIVE, UNCONFIRMED, UNKNOWN, opened
from tacit.errors import ProtocolError, words
from tacit.parties.job import Job
from tacit.parties.journal import RoundJournal, chained
from tacit.parties.link import LABEL_BYTES, Link
from tacit.privacy.noise.entropy import STREAM_KEY_BYTES

PROTOCOL = 7
"""Version of the greeting and of the frames; parties with another one are refused."""
MOST_CLOCK_SKEW = 300.0
"""Seconds by which the clocks of two parties may differ. Set by hand."""
ROUND_HEADER = 24
"""Bytes before a total that is given to a party that lacks it: its label and its length."""


@dataclass(frozen=True)
class Agreement:
    """What the greeting settled.

    Attributes
    ----------
    mask_keys : dict
        For every peer the key of the masks.
    run : bytes
        The identity of the run.
    all_concluded : bool
        Whether all parties have come to the end of the run before.
    """

    mask_keys: dict[int, bytes]
    run: bytes
    all_concluded: bool


class GoOnError(Exception):
    """Raised when others go on without parties that this one misses too; `without` are their places."""

    def __init__(self, without: frozenset[int]) -> None:
        super().__init__()
        self.without = without


def greet(
    link: Link, job: Job, journal: RoundJournal, deadline: float, without: frozenset[int] = frozenset()
) -> Agreement:
    """Greet all parties but those that the run goes on `without`, compare, seal the link, and bring all to the same round.

    Nothing is written to the journal before all comparisons have passed.

    Raises
    ------
    PartyError
        If a party does not come or is lost: trying again may help.
    ProtocolError
        Naming the first party that runs another version, job or run, whose clock is off, whose checkpoint is older than what
        it has sent, or that claims what cannot be.
    """
    private = X25519PrivateKey.generate()  # for this session only, so no mask is ever used again
    public = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    mine = {
        "protocol": PROTOCOL,
        "version": __version__,
        "job": job.identity,
        "party": link.names[link.index],
        "clock": time.time(),
        "run": journal.run.hex(),
        "begun": journal.begun,
        "heard": journal.heard,
        "complete": journal.complete,
        "history": _history(journal, journal.complete).hex(),
        "without": sorted(without),
        "concluded": journal.concluded,
        "nonce": secrets.token_hex(16),
        "key": public.hex(),
    }
    link.leave_out(without)

    def same_members(peer: int, hello: bytes) -> bool:
        theirs = frozenset(_parsed(hello, link.names[peer])["without"])
        if theirs > without and len(theirs) <= job.survive and link.index not in theirs:
            if any(link.has_greeted(one) for one in theirs - without):
                raise _refused(
                    link.names[peer],
                    "to go on with all who are there",
                    f"a wish to go on without {', '.join(link.names[one] for one in sorted(theirs))}",
                    "Check the network between the parties.",
                )
            raise GoOnError(theirs)
        return theirs == without

    hellos = link.greet(json.dumps(mine).encode(), deadline, same_members)
    theirs = {peer: _parsed(hello, link.names[peer]) for peer, hello in hellos.items()}
    for peer, hello in theirs.items():
        _compare(mine, hello, link.names[peer])
    fresh = not any(hello["begun"] for hello in (mine, *theirs.values()))
    for peer, hello in theirs.items():
        _compare_runs(mine, hello, link.names[peer], journal, fresh=fresh)
    masks = {}
    for peer, hello in theirs.items():
        secret = private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(hello["key"])))
        ends = sorted([(link.index, public), (peer, bytes.fromhex(hello["key"]))])
        keys = _derived(secret, job.identity, b"".join(key for _, key in ends))
        lower_sends, upper_sends, masks[peer] = keys
        link.seal(peer, *((lower_sends, upper_sends) if link.index < peer else (upper_sends, lower_sends)))
    run = journal.run
    if fresh:  # every party contributes, so that no two runs have the same identity
        nonces = [hello["nonce"] for _, hello in sorted([(link.index, mine), *theirs.items()])]
        run = hashlib.sha256(f"{job.identity} {' '.join(nonces)}".encode()).digest()
        journal.name_run(run)
    # the label depends on the run, so no party begins a round before all have stored the same identity
    _catch_up(link, journal, theirs, label=_label("catch up", run))
    if job.survive:
        everybody = set(range(len(job.parties))) - set(journal.left)
        _open_or_discard(link, journal, run, everybody, missing=sorted(without & everybody))
        left = {**dict.fromkeys(without, journal.complete), **journal.left}
        if left != journal.left:
            journal.leave_out(left)
    return Agreement(masks, run, all(hello["concluded"] for hello in (mine, *theirs.values())))


def _label(what: str, run: bytes) -> bytes:
    return hashlib.sha256(what.encode() + run).digest()[:LABEL_BYTES]


def _open_or_discard(link: Link, journal: RoundJournal, run: bytes, everybody: set[int], missing: list[int]) -> None:
    """Open the round that was broken off, if the parties that are there have everybody's seed of it; else discard it.

    `tacit.channel.surviving` says why this gives nothing away about the parties that are `missing` now.
    """
    known = journal.opening()
    held = {party for party in known if party >= 0}
    mine = known.get(MAY_ARRIVE, UNCONFIRMED) + bytes(sorted(held))
    arrived = link.swap(_label("seeds held", run), dict.fromkeys(link.peers, mine), most=1 + len(link.names))
    told = {peer: bytes(message) for peer, message in arrived.items()}
    if set().union(held, *(set(message[1:]) for message in told.values())) == everybody:
        content = b"".join(bytes([party]) + known[party] for party in sorted(held))
        most = len(link.names) * (1 + STREAM_KEY_BYTES)
        messages = [content, *link.swap(_label("seeds", run), dict.fromkeys(link.peers, content), most=most).values()]
        size = 1 + STREAM_KEY_BYTES
        seeds = {
            message[at]: bytes(message[at + 1 : at + size])
            for message in messages
            for at in range(0, len(message), size)
        }
        number = journal.complete
        begun = journal.round(number)
        if begun is None or MASKED_TOTAL not in known or set(seeds) != everybody:
            raise ProtocolError(
                f"the masked numbers of round {number + 1} in this party's checkpoint",
                words("none, although others can open the round"),
                "The checkpoint is incomplete: start a new run. Nothing about the data was sent.",
            )
        words_, masked = known[MASKED_TOTAL][0], np.frombuffer(known[MASKED_TOTAL][1:], dtype="<u8").astype(np.uint64)
        total = opened(masked.reshape(words_, -1), Ring(words_), seeds)
        journal.keep_total(number, np.ascontiguousarray(total).astype("<u8").tobytes())
    elif missing and (killed := _may_have_forgotten({link.index: mine, **told})):
        names, absent = (", ".join(link.names[one] for one in sorted(places)) for places in (killed, missing))
        raise ProtocolError(
            f"{absent} to come back, or all others to know that they have not seen its last sum",
            words(f"{names} was killed while the sum was opened"),
            f"Ask {absent} to come back, all with --resume; or start a new run. Without it, two sums that differ by its "
            "numbers could be known to a party. Nothing about the data was sent.",
        )
    journal.discard_opening()


def _may_have_forgotten(told: Mapping[int, bytes]) -> list[int]:
    """Return the parties that were killed while the seed of a missing one might have come: not if somebody had not confirmed."""
    states = {party: message[:1] for party, message in told.items()}
    return [] if UNCONFIRMED in states.values() else [party for party, state in states.items() if state == UNKNOWN]


def _history(journal: RoundJournal, rounds: int) -> bytes:
    """Return the digest of the run's identity and its first totals."""
    history = journal.run
    for _, (label, total) in zip(range(rounds), journal.totals(), strict=False):
        history = chained(history, label, total)
    return history


def _parsed(hello: bytes, name: str) -> dict[str, Any]:
    try:
        values = json.loads(hello)
        assert isinstance(values, dict)
        assert len(bytes.fromhex(values["key"])) == 32
        assert len(bytes.fromhex(values["nonce"])) == 16
        bytes.fromhex(values["run"])
        bytes.fromhex(values["history"])
        counts = [values[what] for what in ("begun", "heard", "complete")]
        assert all(type(count) is int for count in counts)
        assert 0 <= values["complete"] <= values["heard"] <= values["begun"]
        assert all(type(party) is int for party in values["without"])
        assert type(values["concluded"]) is bool
        return values
    except (ValueError, KeyError, AssertionError, TypeError):
        raise _refused(name, "a greeting", "something else") from None


def _compare(mine: Mapping[str, Any], theirs: Mapping[str, Any], name: str) -> None:
    for what, fix in (
        ("protocol", "Install the same version of tacit everywhere."),
        ("version", "Install the same version of tacit everywhere."),
        ("job", "Give all parties the same job file, to the character."),
    ):
        if theirs.get(what) != mine[what]:
            raise _refused(name, f"the {what} {mine[what]}", str(theirs.get(what)), fix)
    if theirs.get("party") != name:
        raise _refused(name, "its own name", str(theirs.get("party")))
    skew = float(theirs.get("clock", 0.0)) - float(mine["clock"])
    if not abs(skew) <= MOST_CLOCK_SKEW:
        raise _refused(
            name,
            f"a clock within {MOST_CLOCK_SKEW:.0f} s of this one",
            f"one that differs by {skew:.0f} s",
            "Set the clocks.",
        )


def _compare_runs(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], name: str, journal: RoundJournal, *, fresh: bool
) -> None:
    """Refuse a checkpoint of another run, one that is older than what was sent from it, and claims that cannot be true."""
    if not fresh and theirs["run"] != mine["run"]:
        raise _refused(
            name,
            f"a checkpoint of the run {mine['run'][:12] or '(none: this party starts anew)'}",
            f"one of the run {theirs['run'][:12]}" if theirs["run"] else "none: it starts anew",
            "Each party gives the output folder of the same run with --resume, or all start anew in other folders.",
        )
    if theirs["begun"] < mine["heard"]:
        raise _refused(
            name,
            f"a checkpoint with at least the {mine['heard']} rounds that it has begun with this party",
            f"one with {theirs['begun']}",
            f"The checkpoint of {name} was replaced by an older copy. Noise would be drawn again for what was sent: start a "
            "new run.",
        )
    if theirs["heard"] > mine["begun"]:
        raise ProtocolError(
            f"the checkpoint of this party to have at least the {theirs['heard']} rounds that {name} has heard of it",
            words(f"{mine['begun']}"),
            "The checkpoint here was replaced by an older copy, or the other party is wrong. Noise would be drawn again for "
            "what was sent: restore the newest checkpoint, or start a new run. Nothing about the data was sent.",
        )
    both = min(theirs["complete"], mine["complete"])
    if both == theirs["complete"] and not fresh and bytes.fromhex(theirs["history"]) != _history(journal, both):
        raise _other_history(name)


def _catch_up(link: Link, journal: RoundJournal, theirs: Mapping[int, Mapping[str, Any]], label: bytes) -> None:
    """Give each party the totals that it lacks; all parties may know every total.

    A total contains the numbers of all parties. So there is none of a round that this party has not begun, which bounds what
    it can be given.
    """
    mine = journal.complete
    counts = {peer: int(hello["complete"]) for peer, hello in theirs.items()}
    most = max(mine, *counts.values())
    if most > journal.begun:
        ahead = next(peer for peer, count in counts.items() if count > journal.begun)
        raise _refused(
            link.names[ahead], f"at most the {journal.begun} totals that there can be", f"a claim of {counts[ahead]}"
        )
    giver = min([peer for peer, count in counts.items() if count == most] + ([link.index] if mine == most else []))
    outgoing = dict.fromkeys(counts, b"")
    if giver == link.index:
        known = list(journal.totals())
        for peer, count in counts.items():
            outgoing[peer] = b"".join(each + len(total).to_bytes(8, "big") + total for each, total in known[count:most])
    missing = [journal.round(number) for number in range(mine, most)]
    room = sum(ROUND_HEADER + begun.size for begun in missing if begun is not None)
    rest = bytes(link.swap(label, outgoing, most=room).get(giver, b""))
    history, missed = _history(journal, mine), []
    for begun in missing:
        assert begun is not None
        each, size = rest[:LABEL_BYTES], int.from_bytes(rest[LABEL_BYTES:ROUND_HEADER], "big")
        total, rest = rest[ROUND_HEADER : ROUND_HEADER + size], rest[ROUND_HEADER + size :]
        if each != begun.label or len(total) != size or size > begun.size:
            raise _other_history(link.names[giver])
        missed.append(total)
        history = chained(history, each, total)
        for peer, count in counts.items():
            if count == mine + len(missed) and history.hex() != theirs[peer]["history"]:
                raise _other_history(link.names[peer])
    for number, total in enumerate(missed, start=mine):
        journal.keep_total(number, total)


def _other_history(name: str) -> ProtocolError:
    return _refused(
        name, "the same totals as this party has", "others", "Start a new run: the checkpoints do not agree."
    )


def _refused(name: str, expected: str, got: str, fix: str = "Check what that party runs.") -> ProtocolError:
    return ProtocolError(f"{expected} from {name}", words(got), f"{fix} Nothing about the data was sent.")


def _derived(secret: bytes, job: str, ends: bytes) -> tuple[bytes, bytes, bytes]:
    """Three keys of a pair: for the seals of each direction, and for the masks."""
    material = HKDF(hashes.SHA256(), length=96, salt=job.encode(), info=b"tacit parties 1" + ends).derive(secret)
    return material[:32], material[32:64], material[64:]
