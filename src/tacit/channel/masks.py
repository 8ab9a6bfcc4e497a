r"""Masks that cancel: every pair of parties adds and subtracts the same stream.

Party m sends :math:`x_m + \sum_{j>m} s_{mj} - \sum_{j<m} s_{mj}`, where :math:`s_{mj}` is the stream that m and j alone
can compute. Added up over the parties, the streams cancel. To anyone without the key of at least one pair in it, a masked
vector is uniform and says nothing; so any set of parties learns of the others' vectors their sum and nothing else.

References
----------
K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017 (section 4.0.1).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.channel.ring import Elements, Ring
from tacit.errors import ProtocolError, parameter, words
from tacit.privacy.entropy import STREAM_KEY_BYTES, counter_stream

BLOCK_BYTES = 16
CHUNK = 16384
"""Elements that are masked at a time."""


class Masks:
    """The masks of one party for one session.

    Parameters
    ----------
    index : int
        This party's place.
    keys : mapping of int to bytes
        For every other party, the 32-byte key shared with it, made for this session alone.
    """

    def __init__(self, index: int, keys: Mapping[int, bytes]) -> None:
        if index in keys or any(len(key) != STREAM_KEY_BYTES for key in keys.values()):
            raise ProtocolError(
                f"one key of {STREAM_KEY_BYTES} bytes for every other party",
                words(f"keys for {sorted(keys)}"),
                "Agree on keys again.",
            )
        self.index = index
        self._keys = dict(keys)
        self._next = 0

    def hide(self, elements: Elements, ring: Ring, number: int) -> Elements:
        """Return the elements masked for sum number `number`; a number cannot be used twice."""
        if number < self._next:
            raise ProtocolError(
                f"a sum numbered {self._next} or higher",
                parameter(number),
                "A mask used twice would give away a difference.",
            )
        self._next = number + 1
        streams = {peer: counter_stream(key, number) for peer, key in sorted(self._keys.items())}
        most = 8 * min(CHUNK, elements.shape[1]) * len(elements)
        zeros, buffer = bytes(most), bytearray(most + BLOCK_BYTES)
        masked = np.empty_like(elements)
        for start in range(0, elements.shape[1], CHUNK):  # so that all of a chunk's streams meet it in the cache
            part = elements[:, start : start + CHUNK]
            for peer, stream in streams.items():
                stream.update_into(memoryview(zeros)[: 8 * part.size], buffer)
                mask = np.frombuffer(buffer, "<u8", part.size).astype(np.uint64, copy=False).reshape(part.shape)
                part = ring.plus(part, mask) if peer > self.index else ring.minus(part, mask)
            masked[:, start : start + CHUNK] = part
        return masked
