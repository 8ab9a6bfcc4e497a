"""MPyC without its sockets, its command line and its logging: one runtime, over wires that we are given."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import math
import os
import secrets
import sys
import threading
from typing import Any

from tacit.channel.directions.link import HELLO, FieldBytes, PartyStreams, PeerMessages
from tacit.errors import PartyError, ProtocolError, words

SECURITY = 64
"""Whatever is opened under a mask is hidden up to a statistical distance of 2**-64."""
_KEY = 16
"""Bytes of the key of a pair of parties: 128 bits."""

_open = threading.Lock()


def import_mpyc() -> Any:
    """Import MPyC and return its runtime module, without side effects on the host program.

    On import MPyC reads `sys.argv` and removes what it takes for its own options, sends the root logger to standard
    output, sets an event loop policy and makes a runtime. It does none of that where it believes that only its
    documentation is being built; but it logs, which gives the root logger a handler.
    """
    if "mpyc.runtime" not in sys.modules:
        before = os.environ.get("READTHEDOCS")
        handlers = list(logging.root.handlers)
        os.environ["READTHEDOCS"] = "True"
        try:
            importlib.import_module("mpyc.runtime")
        finally:
            logging.root.handlers[:] = handlers
            if before is None:
                del os.environ["READTHEDOCS"]
            else:
                os.environ["READTHEDOCS"] = before
    os.environ.setdefault("MPYC_MAXWORKERS", "0")  # MPyC sets it too; its square roots read it
    return sys.modules["mpyc.runtime"]


class MpycRuntime:
    """One job's runtime of MPyC; there can be one per process, because MPyC keeps it in global variables.

    Made, used and closed in one thread, whose event loop it gets.

    Attributes
    ----------
    mpc : mpyc.runtime.Runtime
        The runtime.
    field : type
        The prime field of the shares.
    links : dict
        The `PeerMessages` of each peer.
    pair_keys : dict
        A secret key shared with each peer.
    terms : int
        How many pseudo-random terms MPyC adds up for one number that no coalition knows.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wire: PartyStreams, size: int) -> None:
        if not _open.acquire(blocking=False):
            raise ProtocolError(
                "one normalised sum per process",
                words("a second one while the first is open"),
                "Close the first, or run the parties in processes of their own.",
            )
        try:
            self._module = import_mpyc()
            self._set_up(loop, wire, size)
        except BaseException:
            _open.release()
            raise

    def _set_up(self, loop: asyncio.AbstractEventLoop, wire: PartyStreams, size: int) -> None:
        import mpyc
        from mpyc import asyncoro, finfields, mpctools, random, secgroups, seclists, secpols, sectypes, statistics

        self.index, self.parties = wire.index, wire.parties
        self.threshold = (wire.parties - 1) // 2
        self.terms = math.comb(wire.parties, self.threshold)
        # a mask has `size + SECURITY` bits a term; one bit more for the sign, one for what is masked
        bits = size + SECURITY + self.terms.bit_length() + 2
        self.field = finfields.GF(finfields.find_prime_root(bits)[0])
        self.prime: int = int(self.field.modulus)
        self.codec = FieldBytes(self.field.byte_length)
        self.version: str = mpyc.__version__
        options = mpyc._get_arg_parser().parse_args([])
        options.threshold, options.sec_param, options.no_log = self.threshold, SECURITY, True
        self.links = {
            peer: PeerMessages(loop, wire, peer, self.codec.width) for peer in range(self.parties) if peer != self.index
        }
        parties = [self._module.Party(party) for party in range(self.parties)]
        self.mpc = self._module.Runtime(self.index, parties, options)
        for peer, link in self.links.items():
            parties[peer].protocol = link
        self.pair_keys = {peer: secrets.token_bytes(_KEY) for peer in self.links if peer > self.index}
        holders = (asyncoro, mpctools, random, secgroups, seclists, secpols, sectypes, statistics)
        self._before = [(holder, "runtime", getattr(holder, "runtime", None)) for holder in holders]
        self._before.append((self._module, "pickle", self._module.pickle))
        for holder in holders:
            holder.runtime = self.mpc
        self._module.pickle = self.codec

    async def agree(self, settings: str) -> None:
        """Exchange keys with all peers, and check that they have the same settings.

        The lower index of a pair draws its key; the lowest of a group draws the group's key, as in MPyC.
        """
        mine = hashlib.sha256(f"{settings} {self.version} {self.prime} {self.parties}".encode()).digest()
        for peer, link in self.links.items():
            keys = b"".join([self.pair_keys[peer], *self.mpc._prss_keys_to_peer(peer)]) if peer > self.index else b""
            link.send(0, mine + keys, HELLO)
        for peer, link in self.links.items():
            hello = await link.wait_for(0, HELLO)
            keys = hello[len(mine) :]
            expected = _KEY + self.mpc._prss_keys_from_peer(peer) if peer < self.index else 0
            if hello[: len(mine)] != mine or len(keys) != expected:
                raise PartyError(
                    f"party {peer} to have the same settings: {settings}, {self.parties} parties, MPyC {self.version}",
                    words("others"),
                    "Give all parties the same job and the same versions.",
                    (peer,),
                )
            if peer < self.index:
                self.pair_keys[peer] = keys[:_KEY]
                self.mpc._prss_keys_from_peer(peer, keys[_KEY:])
        self.mpc.prfs.cache_clear()

    def close(self) -> None:
        """Give MPyC's global variables back."""
        for holder, name, value in self._before:
            setattr(holder, name, value)
        self.mpc.prfs.cache_clear()
        _open.release()
