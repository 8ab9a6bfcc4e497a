r"""The channel among parties: every number is put on a grid and masked; all learn the exact totals, and nothing else.

Every pair of parties adds and subtracts the same stream of masks. Party m sends
:math:`x_m + \sum_{j>m} s_{mj} - \sum_{j<m} s_{mj}`, where :math:`s_{mj}` is the stream that only m and j can compute. Added
up over the parties, the streams cancel. To anyone without the key of at least one pair in it, a masked vector is uniform. So
any set of parties learns the sum of the others' vectors and nothing else about them.

References
----------
K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017 (section 4.0.1).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Choose, Columnwise, NormedSum, Sample, Sum, Total, normalise_columns
from tacit.channel.clear import Clear
from tacit.channel.fixedpoint import Elements, Grid, Ring
from tacit.channel.noisy import Noisy
from tacit.channel.peers import Peers
from tacit.channel.run import Channel, Transcript, lengths_of
from tacit.errors import ProtocolError, RangeError, parameter, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import STREAM_KEY_BYTES, counter_stream

BLOCK_BYTES = 16
"""A block of AES."""
CHUNK = 16384
"""Elements that are masked at a time."""
FRACTION_BITS = 40
"""Default number of fractional bits of totals: 12 decimal digits after the point."""
DIGEST_BYTES = 16
"""Length of the digest by which parties compare what they received: 128 bits."""
DIRECTION_BITS, DIRECTION_FRACTION = 100, 66
"""The grid of normalised sums is so fine that even short totals keep their norm to themselves."""


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
                "A mask used twice would reveal a difference.",
            )
        self._next = number + 1
        streams = {peer: counter_stream(key, number) for peer, key in sorted(self._keys.items())}
        most = 8 * min(CHUNK, elements.shape[1]) * len(elements)
        zeros, buffer = bytes(most), bytearray(most + BLOCK_BYTES)
        masked = elements.copy()
        for start in range(0, elements.shape[1], CHUNK):  # so that all of a chunk's streams meet it in the cache
            part = masked[:, start : start + CHUNK]
            given = memoryview(zeros)[: 8 * part.size]
            for peer, stream in streams.items():
                stream.update_into(given, buffer)
                mask = np.frombuffer(buffer, "<u8", part.size).astype(np.uint64, copy=False).reshape(part.shape)
                (ring.add_to if peer > self.index else ring.take_from)(part, mask)
        return masked


class PartyLink(Protocol):
    """Messages to and from every other party, in steps: each sends one message to each, and waits for theirs."""

    @property
    def index(self) -> int:
        """The place of this party, from 0."""

    @property
    def names(self) -> Sequence[str]:
        """All parties, in the order of the job."""

    def swap(self, label: bytes, outgoing: Mapping[int, bytes], *, most: int | None = None) -> dict[int, bytes]:
        """Send each peer its message, and return theirs; parties whose label differs are named in a `ProtocolError`.

        `most` is the greatest length of an incoming message; by default a little more than that of an outgoing one.
        """


@dataclass(frozen=True)
class Division:
    """How parties divide work on a total: each has the total of its own columns, and tells the others what came out.

    Parameters
    ----------
    columns, rows : int
        The elements begin with `columns` columns of `rows` numbers each; what follows is totalled by every party.
    size : int
        Numbers of the result for each column.
    work : callable
        Called with a slice of columns, their total and the total of the rest; returns doubles of shape (columns, size).
    """

    columns: int
    rows: int
    size: int
    work: Callable[[slice, Elements, Elements], NDArray[np.float64]] = field(repr=False)

    def shape(self, elements: Elements) -> tuple[int, int]:
        """Return the shape of the result: the worked columns, then the total of the rest, in words of 64 bits."""
        return 1, self.columns * self.size + elements[:, self.columns * self.rows :].size


class MaskedSum:
    """Add up vectors over the parties of a link.

    Each party masks its vector and sends one part of it to each party; each adds up the part that is its own, where the
    masks cancel, and sends the total of that part to all. So a party sends each number at most once masked and once as a
    part of the total, whatever the number of parties.

    Every message carries a digest of all totals so far: parties who were told different totals stop at the next sum.

    Privacy
    -------
    See `tacit.channel.masked`: any set of parties learns of the others' vectors their sum, and nothing else. With one
    other party, or if all others pool what they know, that sum is this party's own vector: no protocol can help there.
    """

    def __init__(self, link: PartyLink, masks: Masks) -> None:
        self.link = link
        self.masks = masks
        self._number = 0
        self._seen = hashlib.sha256()  # processors have instructions for it

    def add(self, elements: Elements, ring: Ring, label: str, *, heard: Callable[[], None] = lambda: None) -> Elements:
        """Return the total; `label` says what is added.

        `heard` is called when the masked numbers of all parties are here, before this party adds them up: until then nobody
        can have learned anything.
        """
        parties, own = len(self.link.names), self.link.index
        masked = self.masks.hide(elements, ring, self._number)
        self._number += 1
        self.note(hashlib.sha256(label.encode()).digest())
        cuts = [elements.shape[1] * place // parties for place in range(parties + 1)]
        parts = [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
        peers = [place for place in range(parties) if place != own]
        arrived = self.link.swap(self._digest(), {peer: masked[:, parts[peer]].tobytes() for peer in peers})
        heard()
        total = masked[:, parts[own]]
        for peer in peers:
            total = ring.plus(total, elements_of(arrived[peer], total.shape, self.link.names[peer]))
        arrived = self.link.swap(self._digest(), dict.fromkeys(peers, total.tobytes()))
        whole = np.empty_like(elements)
        whole[:, parts[own]] = total
        for peer in peers:
            whole[:, parts[peer]] = elements_of(arrived[peer], whole[:, parts[peer]].shape, self.link.names[peer])
        self.note(whole.data)
        return whole

    def add_and_work(
        self,
        elements: Elements,
        ring: Ring,
        label: str,
        division: Division,
        *,
        heard: Callable[[], None] = lambda: None,
    ) -> Elements:
        """Return what the parties make of the total, each of its own columns, and the total of the rest (`Division`).

        As `add`, but a party tells the others the result of its columns instead of their total. The rest is short: all get
        everybody's.
        """
        parties, own = len(self.link.names), self.link.index
        masked = self.masks.hide(elements, ring, self._number)
        self._number += 1
        self.note(hashlib.sha256(label.encode()).digest())
        cuts = [division.columns * place // parties for place in range(parties + 1)]
        columns = [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
        rest = masked[:, division.columns * division.rows :]

        def with_rest(place: int) -> Elements:
            part = masked[:, columns[place].start * division.rows : columns[place].stop * division.rows]
            return np.concatenate([part, rest], axis=1)

        peers = [place for place in range(parties) if place != own]
        total = with_rest(own)
        most = 8 * len(elements) * (division.rows + rest.shape[1]) + total.nbytes  # parts differ by one column
        arrived = self.link.swap(self._digest(), {peer: with_rest(peer).tobytes() for peer in peers}, most=most)
        heard()
        for peer in peers:
            ring.add_to(total, elements_of(arrived[peer], total.shape, self.link.names[peer]))
        end = total.shape[1] - rest.shape[1]
        worked = division.work(columns[own], total[:, :end], total[:, end:])
        message = without_zeros(np.ascontiguousarray(worked, dtype="<f8").view(np.uint64).ravel())
        longest = max(part.stop - part.start for part in columns) * division.size
        arrived = self.link.swap(self._digest(), dict.fromkeys(peers, message), most=8 * longest + -(-longest // 8))
        whole = np.zeros(division.shape(elements), dtype=np.uint64)
        for place in range(parties):
            part = whole[0, columns[place].start * division.size : columns[place].stop * division.size]
            found = message if place == own else arrived[place]
            put_with_zeros(found, part, self.link.names[place])
            self.note(found)
        whole[0, division.columns * division.size :] = total[:, end:].ravel()
        self.note(whole[0, division.columns * division.size :].data)
        return whole

    def note(self, seen: bytes | memoryview) -> None:
        """Make `seen` a part of what all parties must have in common from now on."""
        self._seen.update(seen)

    def _digest(self) -> bytes:
        return self._seen.digest()[:DIGEST_BYTES]


class Masked:
    """Totals on a grid, masked among parties.

    Parameters
    ----------
    peers : Peers
        The way to the other parties.
    fraction_bits : int, default=40
        The grid: numbers are rounded to multiples of ``2**-fraction_bits``.
    words : {1, 2}, default=2
        Sums are taken modulo 2^64 or 2^128.
    keep_values : bool, default=False

    Privacy
    -------
    No differential privacy: the totals are exact. What leaves: the totals (`NormedSum`: their directions, if the parties
    hide the norms), and nothing else of any party's terms.
    """

    def __init__(
        self, peers: Peers, *, fraction_bits: int = FRACTION_BITS, words: int = 2, keep_values: bool = False
    ) -> None:
        self.transcript = Transcript(keep_values)
        self._peers = peers
        self._grid = Grid(-fraction_bits)
        self._ring = Ring(words)
        self._norms_seen = False

    def open(self) -> None:
        """There is nothing to begin."""

    def exchange(self, asks: Sequence[Sum]) -> Total:
        """Return the totals of all parties: the exact sum of the terms on the grid, the same bits everywhere."""
        ask = _one(asks)
        if ask.divisible is not None and self._peers.divides:
            return self._worked(ask, ask.divisible)
        if isinstance(ask, NormedSum) and self._peers.hides_norms:
            totals = {name: self._direction(array, ask) for name, array in ask.arrays.items()}
        else:
            totals = self._added(ask)
        if isinstance(ask, NormedSum) and not self._peers.hides_norms:
            self._norms_seen = True
            totals = {name: normalise_columns(array) for name, array in totals.items()}
        self.transcript.add(ask.kind, totals)
        return Total(totals)

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        """Draw this party's own sample."""
        return [self._peers.sampler().random(ask.units) < ask.rate for ask in asks]

    def choose(self, asks: Sequence[Choose]) -> int:
        """Return the candidate with the highest total score, from the totals."""
        ask = _one(asks)
        scores = self._added(Sum(scores=ask.scores))["scores"]
        self.transcript.add("sum", {"scores": scores})
        return int(np.argmax(scores))

    def conclude(self, public: Mapping[str, Any]) -> None:
        """See that all parties ended with the same."""
        self._peers.agree(lengths_of(public))

    def close(self) -> None:
        """The link belongs to whoever opened it."""

    @property
    def guarantee(self) -> Guarantee:
        """What the parties may rely on, in words; it is not differential privacy."""
        reason = f"the totals are exact. {self._peers.trust}"
        if self._norms_seen:
            reason += ". The lengths of the normalised columns (the singular values) are revealed to the parties"
        return Guarantee.none(reason)

    def _added(self, ask: Sum) -> dict[str, NDArray[np.float64]]:
        flat = np.concatenate([array.ravel(_order(array)) for array in ask.arrays.values()])
        elements = self._ring.encode(flat, self._grid, parties=self._peers.parties)
        decoded = self._ring.decode(self._peers.add(elements, self._ring, str(ask.signature())), self._grid)
        ends = np.cumsum([array.size for array in ask.arrays.values()])
        parts = zip(ask.arrays.items(), np.split(decoded, ends[:-1]), strict=True)
        return {name: part.reshape(array.shape, order=_order(array)) for (name, array), part in parts}

    def _worked(self, ask: Sum, columnwise: Columnwise) -> Total:
        """Total, and divide the work on one array's columns among the parties."""
        divided = ask.arrays[columnwise.of]
        others = {name: array for name, array in ask.arrays.items() if name != columnwise.of}
        flat = np.concatenate([array.ravel(_order(array)) for array in (divided, *others.values())])
        elements = self._ring.encode(flat, self._grid, parties=self._peers.parties)

        def rest_of(total: Elements) -> dict[str, NDArray[np.float64]]:
            if not others:
                return {}
            decoded, ends = self._ring.decode(total, self._grid), np.cumsum([array.size for array in others.values()])
            parts = zip(others.items(), np.split(decoded, ends[:-1]), strict=True)
            return {name: part.reshape(array.shape, order=_order(array)) for (name, array), part in parts}

        def work(columns: slice, part: Elements, rest: Elements) -> NDArray[np.float64]:
            total = self._ring.decode(part, self._grid).reshape(-1, len(divided)).T
            return columnwise.work(columns, total, rest_of(rest))

        division = Division(divided.shape[1], len(divided), columnwise.size, work)
        total = self._peers.add(elements, self._ring, str(ask.signature()), division=division)[0]
        end = divided.shape[1] * columnwise.size
        worked = total[:end].view(np.float64).reshape(-1, columnwise.size)
        totals = rest_of(total[end:].reshape(len(elements), -1))
        self.transcript.add(ask.kind, {**totals, "worked": worked})
        return Total(totals, worked=worked)

    def _direction(self, array: NDArray[np.float64], ask: Sum) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):  # an overflow becomes infinity, which is refused below
            scaled = np.rint(np.ldexp(array.reshape(len(array), -1), DIRECTION_FRACTION))
        if not np.all(np.abs(scaled) < 2.0**DIRECTION_BITS):
            raise RangeError(
                f"numbers below {2.0 ** (DIRECTION_BITS - DIRECTION_FRACTION):.3g} in magnitude",
                words("a number beyond that, or NaN or infinity"),
                "Scale the data down. Nothing was sent.",
            )
        integers: NDArray[np.object_] = np.asarray(np.frompyfunc(int, 1, 1)(scaled), dtype=object)
        return self._peers.direction(integers, str(ask.signature())).reshape(array.shape)


def among(channel: Channel, peers: Peers, **settings: Any) -> Channel:
    """Return the channel that does among parties what `channel` does alone; `settings` are those of `Masked`."""
    if isinstance(channel, Noisy):
        return channel.joined(peers)
    if isinstance(channel, Clear):
        return Masked(peers, **settings)
    raise ProtocolError("a clear or a noisy channel", words(type(channel).__name__), "Run the estimator's own fit.")


def _order(array: NDArray[Any]) -> Literal["C", "F"]:
    """Return the order in which an array's numbers are sent: by its shape alone, so that all parties have the same.

    Statistics are made with their short axis contiguous, whichever it is (W'X of few rows, X'V of few columns): in that order
    nothing is transposed.
    """
    return "F" if array.ndim == 2 and array.shape[0] < array.shape[1] else "C"


def _one(asks: Sequence[Any]) -> Any:
    if len(asks) != 1:
        raise ProtocolError("one holder in each party's process", words(f"{len(asks)}"), "Run one program per party.")
    return asks[0]


def without_zeros(numbers: Elements) -> bytes:
    """Return numbers as a message: a bit for each, whether it is not zero, and those that are not."""
    kept = numbers != 0
    places, values = np.packbits(kept), numbers[kept].astype("<u8", copy=False)
    return bytes(places.tobytes() + values.tobytes())


def put_with_zeros(message: bytes, numbers: Elements, name: str) -> None:
    """Set the numbers that a message of `without_zeros` has, in an array of zeros."""
    bits = -(-numbers.size // 8)
    kept = np.unpackbits(np.frombuffer(message[:bits], dtype=np.uint8))
    places = np.flatnonzero(kept)
    if (
        len(kept) < numbers.size
        or len(message) != bits + 8 * len(places)
        or (len(places) and places[-1] >= numbers.size)
    ):
        raise ProtocolError(
            f"{numbers.size} numbers from {name}, without their zeros",
            words(f"{len(message)} bytes that are something else"),
            "All parties must run the same version.",
        )
    numbers[places] = np.frombuffer(message, dtype="<u8", offset=bits)


def elements_of(message: bytes, shape: tuple[int, ...], name: str) -> Elements:
    """Read the elements of a message, which must have this many."""
    if len(message) != 8 * int(np.prod(shape)):
        raise ProtocolError(
            f"{8 * int(np.prod(shape))} bytes from {name}",
            words(f"{len(message)}"),
            "All parties must run the same version.",
        )
    return np.frombuffer(message, dtype="<u8").astype(np.uint64, copy=False).reshape(shape)
