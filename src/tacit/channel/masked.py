r"""The channel among parties: every number is put on a grid and masked; all learn the exact totals, and nothing else.

It is SecSum of Tsikhanovich et al. (2019), section 2.1 and appendix C, in the form with a pseudo-random function per
pair of parties.

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
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import COLUMNS_TOGETHER, Choose, Columnwise, NormedSum, Sample, Sum, Total, normalise_columns
from tacit.channel.clear import Clear
from tacit.channel.fixedpoint import MANY, Elements, Grid, Ring
from tacit.channel.lower_words import CHECK_BYTES, PRIME, check_of, public_weights, with_both_words
from tacit.channel.noisy import Noisy
from tacit.channel.peers import ONE_WORD, Peers
from tacit.channel.run import Channel, Transcript, lengths_of
from tacit.errors import ProtocolError, RangeError, parameter, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import STREAM_KEY_BYTES, TAG_BYTES, NumberedStreams

RESIDUE_BYTES = 32
"""Random bytes of which a mask modulo `PRIME` is made: 256 bits modulo a number of 89 are uniform up to 2^-167."""
CHUNK = 32768
"""Elements that are masked at a time: their masks, of 256 KB, stay in the cache."""
PART_NUMBERS = 2**16
"""Most numbers of a sum that one owner totals, as long as there are parties. A message costs a pair of processes about as much
as 0.2 MB (`bench_parties.py`); many owners divide the work and the traffic of one."""
BITS = 64
"""The bits that say which numbers are not zero come in words of this length."""
SHORT_FROM = 2000
"""Sums of at least this many numbers of two words are first made with the lower words; for shorter ones the messages decide."""
WORD_BYTES, NARROW_BYTES = 8, 6
"""What is sent of a number in a sum that is made with lower words; the latter if the totals of an earlier sum of its kind fitted
that. 48 bits hold totals below 128 at 40 fractional bits. Of a divided sum this is what is divided; the rest has words."""
NARROW, WIDE = b"\x01", b"\x00"
"""What the owners of the first long sum of a kind say after their answer: whether their totals fit `NARROW_BYTES`."""
FRACTION_BITS = 40
"""Default number of fractional bits of totals: 12 decimal digits after the point."""
DIGEST_BYTES = 16
"""Length of the digest by which parties compare what they received: 128 bits."""
DIRECTION_BITS, DIRECTION_FRACTION = 100, 66
"""The grid of normalised sums is so fine that even short totals keep their norm to themselves."""


Message = bytes | memoryview | Sequence[memoryview]
"""What is sent to a party: bytes, or pieces of a message that need not lie one after the other."""


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
        self._streams = {peer: NumberedStreams(key) for peer, key in sorted(keys.items())}
        self._next = 0
        self._zeros, self._buffer = b"", bytearray()  # what is encrypted, and the stream that comes out

    def hide(
        self,
        elements: Elements,
        ring: Ring,
        number: int,
        *,
        checks: dict[int, int] | None = None,
        in_place: bool = False,
    ) -> Elements:
        """Return the elements masked for sum number `number`; a number cannot be used twice.

        The values of `checks` are masked in place, modulo `PRIME`.
        """
        if number < self._next:
            raise ProtocolError(
                f"a sum numbered {self._next} or higher",
                parameter(number),
                "A mask used twice would reveal a difference.",
            )
        self._next = number + 1
        masked = elements if in_place else elements.copy()
        pieces = self._change(masked, ring, number, ring.add_to, ring.take_from)
        if checks:
            zeros = memoryview(bytes(RESIDUE_BYTES * len(checks)))
            drawn = bytearray(len(zeros) + TAG_BYTES)
            for peer, stream in self._streams.items():
                stream.put(number, pieces, zeros, drawn)
                for place, start in zip(checks, range(0, len(zeros), RESIDUE_BYTES), strict=True):
                    mask_of_check = int.from_bytes(drawn[start : start + RESIDUE_BYTES], "big")
                    checks[place] = (checks[place] + (mask_of_check if peer > self.index else -mask_of_check)) % PRIME
        return masked

    def show(self, masked: Elements, ring: Ring, number: int) -> None:
        """Take the masks of a sum off this party's own elements again, in place."""
        self._change(masked, ring, number, ring.take_from, ring.add_to)

    def _change(
        self,
        elements: Elements,
        ring: Ring,
        number: int,
        with_later: Callable[[Elements, Elements], None],
        with_earlier: Callable[[Elements, Elements], None],
    ) -> int:
        """Add or subtract the streams of a sum, in place; return their number of pieces."""
        most = 8 * min(CHUNK, elements.shape[1]) * len(elements)
        if len(self._zeros) < most:
            self._zeros, self._buffer = bytes(most), bytearray(most + TAG_BYTES)
        starts = range(0, elements.shape[1], CHUNK)
        for piece, start in enumerate(starts):  # so that all of a chunk's streams meet it in the cache
            part = elements[:, start : start + CHUNK]
            given = memoryview(self._zeros)[: 8 * part.size]
            words_of_mask = np.frombuffer(self._buffer, "<u8", part.size).reshape(part.shape)
            for peer, stream in self._streams.items():
                stream.put(number, piece, given, self._buffer)
                mask = words_of_mask.astype(np.uint64, copy=False)  # a copy on computers with another order of bytes
                (with_later if peer > self.index else with_earlier)(part, mask)
        return len(starts)


Kind = TypeVar("Kind", Sum, Choose)


class PartyLink(Protocol):
    """Messages to and from every other party, in steps: each sends one message to each, and waits for theirs."""

    @property
    def index(self) -> int:
        """The place of this party, from 0."""

    @property
    def names(self) -> Sequence[str]:
        """All parties, in the order of the job."""

    def swap(
        self,
        label: bytes,
        outgoing: Mapping[int, Message],
        *,
        expected: Collection[int] | None = None,
        most: int | None = None,
    ) -> Mapping[int, bytes | memoryview]:
        """Send peers their messages, and return those of the expected peers: by default of those that are sent one.

        A message may be given in pieces, which are sent one after the other as one. Parties whose label differs are named in a
        `ProtocolError`. `most` is the greatest length of an incoming message; by default a little more than that of an
        outgoing one.
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
    rest : int
        Words of the total of what follows.
    work : callable
        Called with a slice of columns, their total and the total of the rest; returns doubles of shape (columns, size).
    """

    columns: int
    rows: int
    size: int
    rest: int
    work: Callable[[slice, Elements, Elements], NDArray[np.float64]] = field(repr=False)

    @property
    def most_bytes(self) -> int:
        """The greatest length of the result as a message."""
        numbers = self.columns * self.size
        return _bit_bytes(numbers) + 8 * (numbers + self.rest)

    def read(self, message: bytes | memoryview, name: str) -> Elements:
        """Return the result that a message has (`MaskedSum.add_and_work`): the worked columns, then the total of the rest."""
        numbers = self.columns * self.size
        whole = np.empty((1, numbers + self.rest), dtype=np.uint64)
        end = len(message) - 8 * self.rest
        put_with_zeros(message, end, whole[0, :numbers], name)
        whole[0, numbers:] = np.frombuffer(message, dtype="<u8", offset=end)
        return whole


class MaskedSum:
    """Add up vectors over the parties of a link.

    Each party masks its vector and sends one part of it to each owner of the sum. The owners are some of the parties, by
    turns. An owner adds up its part, where the masks cancel, and sends the total of that part to all. However many owners
    there are, a party receives each number of the total once, and each masked number is received once. Few owners save
    messages, many divide work and traffic (`PART_NUMBERS`).

    Every message carries a digest of all totals so far. Owners have messages of all parties: parties that were told
    different totals stop at the next sum with an owner that did not tell them so.

    Privacy
    -------
    See `tacit.channel.masked`: any set of parties learns of the others' vectors their sum, and nothing else. With one
    other party, or if all others pool what they know, that sum is this party's own vector: no protocol can help there.
    """

    def __init__(self, link: PartyLink, masks: Masks) -> None:
        self.link = link
        self.masks = masks
        self._peers = [place for place in range(len(link.names)) if place != link.index]
        self._number = 0
        self._sizes: dict[str, int] = {}  # bytes of a number of long sums, by their label, from the second one on
        self._seed, self._weights = b"", np.zeros(0, dtype=np.uint64)
        self._seen = hashlib.sha256()  # processors have instructions for it

    def add(
        self,
        elements: Elements,
        ring: Ring,
        label: str,
        *,
        sending: Callable[[], None] = lambda: None,
        heard: Callable[[], None] = lambda: None,
    ) -> Elements:
        """Return the total; `label` says what is added. The elements may be overwritten.

        Elements of one word in a ring of two are signed numbers, and so is a total of one word.

        `sending` is called before anything is sent, when the masks are made. `heard` is called by owners, when the masked
        numbers of all parties are here, before they are added up: until then nobody can have learned anything. If a sum is made
        again with more bits, they are called again.
        """
        numbers = elements.shape[1]
        owners = self._how_many(numbers)
        parts, told, used = self._answers(
            elements,
            ring,
            label,
            owners,
            lambda owners: {owner: [part] for owner, part in _cut(numbers, owners).items()},
            lambda _, total: as_bytes(total),
            most=8 * ring.words * -(-numbers // owners),
            sending=sending,
            heard=heard,
        )
        whole = np.empty((used.words, numbers), dtype=np.uint64)
        for owner, (part,) in parts.items():
            whole[:, part] = elements_of(told[owner], whole[:, part].shape, self.link.names[owner])
        self.note(whole.data)
        return whole

    def add_and_work(
        self,
        elements: Elements,
        ring: Ring,
        label: str,
        division: Division,
        *,
        sending: Callable[[], None] = lambda: None,
        heard: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Return what the owners make of the total, each of its own columns, and the total of the rest, as a message.

        As `add`, but an owner tells the others the result of its columns instead of their total. The rest is short: all
        owners total it. `Division.read` reads the message, which does not depend on who the owners were.
        """
        start = division.columns * division.rows

        def parts_of(owners: Sequence[int]) -> dict[int, list[slice]]:
            return {
                owner: [slice(part.start * division.rows, part.stop * division.rows), slice(start, elements.shape[1])]
                for owner, part in _cut(division.columns, owners, step=COLUMNS_TOGETHER).items()
            }

        def work(part: Sequence[slice], total: Elements) -> bytes:
            columns, end = (
                slice(part[0].start // division.rows, part[0].stop // division.rows),
                part[0].stop - part[0].start,
            )
            rest = _widened(total[:, end:], ring)
            worked = division.work(columns, total[:, :end], rest)
            numbers = np.ascontiguousarray(worked, dtype="<f8").view(np.uint64).ravel()
            return without_zeros(numbers, as_bytes(rest))

        parts, told, _ = self._answers(
            elements,
            ring,
            label,
            self._how_many(elements.shape[1], columns=division.columns),
            parts_of,
            work,
            most=division.most_bytes,
            sending=sending,
            heard=heard,
        )
        places, values, rests = [], [], []
        for owner, (part, _) in parts.items():
            sent, name = memoryview(told[owner]), self.link.names[owner]
            numbers = (part.stop - part.start) // division.rows * division.size
            bits, end = _bit_bytes(numbers), len(sent) - 8 * division.rest
            if end < bits:
                raise _no_numbers(name, len(sent))
            places.append(sent[:bits])
            values.append(sent[bits:end])
            rests.append(sent[end:])
            if rests[-1] != rests[0] or len(values[-1]) != 8 * _kept(places[-1], numbers):
                raise _no_numbers(name, len(sent))
        whole = b"".join([*places, *values, rests[0]])
        self.note(whole)
        return whole

    def note(self, seen: bytes | memoryview) -> None:
        """Make `seen` a part of what all parties must have in common from now on."""
        self._seen.update(seen)

    def _how_many(self, numbers: int, *, columns: int | None = None) -> int:
        """Return how many owners a sum has; `columns` of a divided sum stay whole."""
        some = max(1, min(math.ceil(numbers / PART_NUMBERS), len(self.link.names)))
        return some if columns is None else max(1, min(some, columns // COLUMNS_TOGETHER))

    def _answers(
        self,
        elements: Elements,
        ring: Ring,
        label: str,
        owners: int,
        parts_of: Callable[[Sequence[int]], dict[int, list[slice]]],
        answer: Callable[[Sequence[slice], Elements], bytes | memoryview],
        *,
        most: int,
        sending: Callable[[], None],
        heard: Callable[[], None],
    ) -> tuple[dict[int, list[slice]], dict[int, bytes | memoryview], Ring]:
        """Have the next owners total their parts; return the parts, what every owner answers, and the ring of the totals.

        Long sums of two words are made with the lowest bits first (`tacit.channel.lower_words`). An owner whose totals do
        not fit them answers nothing, and the sum is made again with more.
        """
        own, parties = self.link.index, len(self.link.names)
        whole = WORD_BYTES * ring.words
        is_long = ring.words == 2 and elements.shape[1] >= SHORT_FROM
        while True:
            size = self._sizes.get(label, WORD_BYTES) if is_long else whole
            is_first = is_long and label not in self._sizes
            turn = sorted((self._number * owners + place) % parties for place in range(owners))
            parts = parts_of(turn)
            sent, used, weights, checks = elements[:1], ONE_WORD, None, None
            if size < whole:
                weights = self._public_weights(elements.shape[1])
                checks = {owner: check_of(elements, weights, part) for owner, part in parts.items()}
            else:
                sent, used = _widened(elements, ring), ring
            self.masks.hide(sent, used, self._number, checks=checks, in_place=True)
            self._number += 1
            self.note(hashlib.sha256(label.encode()).digest())
            sending()
            total, check = self._own_total(sent, parts, used, size, checks, heard)
            answered: list[bytes | memoryview] = []
            if total is not None:
                theirs = None if weights is None else np.concatenate([weights[part] for part in parts[own]])
                if theirs is None or check_of(total, theirs, [slice(None)]) == check:
                    answered = [answer(parts[own], total)]
                    if is_first:
                        answered.append(NARROW if fits_narrow(total[0, : _length(parts[own][0])]) else WIDE)
            told = self._told(turn, answered, most=most + len(WIDE))
            if size == whole:
                return parts, told, used
            if all(len(told[owner]) for owner in turn):
                if is_first:
                    said = [bytes(told[owner][-len(WIDE) :]) for owner in turn]
                    told = {owner: message[: -len(WIDE)] for owner, message in told.items()}
                    self.note(b"".join(said))
                    self._sizes[label] = NARROW_BYTES if all(word == NARROW for word in said) else WORD_BYTES
                return parts, told, used
            self.masks.show(sent, used, self._number - 1)
            self._sizes[label] = WORD_BYTES if size == NARROW_BYTES else whole

    def _public_weights(self, numbers: int) -> NDArray[np.uint64]:
        """Return what all parties of the session draw from what they have in common before its first long sum."""
        if not self._seed:
            self._seed = hashlib.sha256(b"weights" + self._seen.digest()).digest()
        if len(self._weights) < numbers:
            self._weights = public_weights(self._seed, numbers)
        return self._weights[:numbers]

    def _own_total(
        self,
        sent: Elements,
        parts: Mapping[int, Sequence[slice]],
        ring: Ring,
        size: int,
        checks: Mapping[int, int] | None,
        heard: Callable[[], None],
    ) -> tuple[Elements | None, int]:
        """Send each owner its part, and return the total of this party's own part and of its check, if it is an owner.

        Of each number `size` bytes are sent.
        """
        own, check_bytes, narrow = self.link.index, 0 if checks is None else CHECK_BYTES, size == NARROW_BYTES
        planes = lowest_bits(sent[0]) if narrow else []
        outgoing: dict[int, list[memoryview]] = {}
        for owner in parts.keys() - {own}:
            whole = parts[owner][1:] if narrow else parts[owner]
            outgoing[owner] = [
                *(as_bytes(sent[word, part]) for word in range(ring.words) for part in whole),
                *(as_bytes(plane[parts[owner][0]]) for plane in planes),
            ]
            if checks is not None:
                outgoing[owner].append(memoryview(checks[owner].to_bytes(CHECK_BYTES, "big")))
        if own not in parts:
            self.link.swap(self._digest(), outgoing, expected=())
            return None, 0
        total = np.concatenate([sent[:, part] for part in parts[own]], axis=1)
        shortened = total[0, : _length(parts[own][0]) if narrow else 0]
        most = total.nbytes - (WORD_BYTES - NARROW_BYTES) * shortened.size + check_bytes
        check = 0 if checks is None else checks[own]
        arrived = self.link.swap(self._digest(), outgoing, expected=self._peers, most=most)
        heard()
        for peer in self._peers:
            message, name = memoryview(arrived[peer]), self.link.names[peer]
            _check_length(message, most, name)
            end = most - check_bytes
            start = end - NARROW_BYTES * shortened.size
            rest = total[:, shortened.size :]
            ring.add_to(rest, elements_of(message[:start], rest.shape, name))
            if narrow:
                add_lowest_bits(shortened, message[start:end])
            check += int.from_bytes(message[end:], "big")
        extend_sign(shortened)
        return total, check % PRIME

    def _told(
        self, owners: Sequence[int], message: Sequence[bytes | memoryview], *, most: int
    ) -> dict[int, bytes | memoryview]:
        """Send all others what this party made of its own part, if it is an owner, and return what all owners made."""
        own = self.link.index
        pieces = [memoryview(piece) for piece in message]
        outgoing = dict.fromkeys(self._peers, pieces) if own in owners else {}
        others = [owner for owner in owners if owner != own]
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return {own: whole, **self.link.swap(self._digest(), outgoing, expected=others, most=most)}

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
        Sums are taken modulo 2^64 or 2^128. With 2 words, totals of long sums that fit into 64 or 48 bits are found from
        those alone (`tacit.channel.lower_words`).
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

    def conclude(self, public: Mapping[str, object]) -> None:
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
        elements = self._encoded(ask.arrays.values())
        decoded = self._ring.decode(self._peers.add(elements, self._ring, str(ask.signature())), self._grid)
        ends = np.cumsum([array.size for array in ask.arrays.values()])
        parts = zip(ask.arrays.items(), np.split(decoded, ends[:-1]), strict=True)
        return {name: part.reshape(array.shape, order=_order(array)) for (name, array), part in parts}

    def _encoded(self, arrays: Iterable[NDArray[np.float64]]) -> Elements:
        vectors = [array.ravel(_order(array)) for array in arrays]
        return self._ring.encode_all(vectors, self._grid, parties=self._peers.parties)

    def _worked(self, ask: Sum, columnwise: Columnwise) -> Total:
        """Total, and divide the work on one array's columns among the parties."""
        divided = ask.arrays[columnwise.of]
        others = {name: array for name, array in ask.arrays.items() if name != columnwise.of}
        elements = self._encoded((divided, *others.values()))

        def rest_of(total: Elements) -> dict[str, NDArray[np.float64]]:
            if not others:
                return {}
            decoded, ends = self._ring.decode(total, self._grid), np.cumsum([array.size for array in others.values()])
            parts = zip(others.items(), np.split(decoded, ends[:-1]), strict=True)
            return {name: part.reshape(array.shape, order=_order(array)) for (name, array), part in parts}

        def work(columns: slice, part: Elements, rest: Elements) -> NDArray[np.float64]:
            total = self._ring.decode(part, self._grid).reshape(-1, len(divided)).T
            return columnwise.work(columns, total, rest_of(rest))

        rest_words = self._ring.words * (elements.shape[1] - divided.size)
        division = Division(divided.shape[1], len(divided), columnwise.size, rest_words, work)
        total = self._peers.add(elements, self._ring, str(ask.signature()), division=division)[0]
        end = divided.shape[1] * columnwise.size
        worked = total[:end].view(np.float64).reshape(-1, columnwise.size)
        totals = rest_of(total[end:].reshape(self._ring.words, -1))
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


def _order(array: NDArray[np.generic]) -> Literal["C", "F"]:
    """Return the order in which an array's numbers are sent: by its shape alone, so that all parties have the same.

    Statistics are made with their short axis contiguous, whichever it is (W'X of few rows, X'V of few columns): in that order
    nothing is transposed.
    """
    return "F" if array.ndim == 2 and array.shape[0] < array.shape[1] else "C"


def _one(asks: Sequence[Kind]) -> Kind:
    if len(asks) != 1:
        raise ProtocolError("one holder in each party's process", words(f"{len(asks)}"), "Run one program per party.")
    return asks[0]


def _length(part: slice) -> int:
    return int(part.stop - part.start)


def _cut(columns: int, owners: Sequence[int], *, step: int = 1) -> dict[int, slice]:
    """Divide columns among owners, at multiples of `step`; their parts differ by at most that many columns."""
    cuts = [columns // step * place // len(owners) * step for place in range(len(owners))]
    return {owner: slice(*cut) for owner, cut in zip(owners, itertools.pairwise([*cuts, columns]), strict=True)}


def _bit_bytes(numbers: int) -> int:
    """Return the length of a bit for each number, in words of 64 bits."""
    return 8 * -(-numbers // BITS)


def _kept(places: memoryview, numbers: int) -> int:
    """Return how many bits are set, or -1 if there are some beyond those of the numbers."""
    beyond = np.unpackbits(np.frombuffer(places[-8:], dtype=np.uint8))[BITS - -numbers % BITS :]
    return -1 if beyond.any() else int(np.bitwise_count(np.frombuffer(places, dtype=np.uint64)).sum())


def without_zeros(numbers: Elements, rest: bytes | memoryview = b"") -> bytes:
    """Return numbers as a message: a bit for each, whether it is not zero, those that are not, and a rest."""
    if numbers.size >= MANY:
        from tacit.channel.word_loops import leave_out_zeros

        places = np.zeros(_bit_bytes(numbers.size), dtype=np.uint8)
        values = np.empty(numbers.size + 1, dtype=np.uint64)
        values = values[: leave_out_zeros(numbers, places, values)]
    else:
        kept = numbers != 0
        values = numbers[kept]
        places = np.packbits(np.concatenate([kept, np.zeros(-len(kept) % BITS, dtype=np.bool_)]))
    return b"".join([places.data, values.astype("<u8", copy=False).data, rest])


def put_with_zeros(message: bytes | memoryview, end: int, numbers: Elements, name: str) -> None:
    """Set the numbers that a message of `without_zeros` has before its rest, which begins at `end`."""
    bits = _bit_bytes(numbers.size)
    kept = _kept(memoryview(message)[:bits], numbers.size) if end >= bits else -1
    if kept < 0 or end != bits + 8 * kept:
        raise _no_numbers(name, len(message))
    places, values = np.frombuffer(message, np.uint8, bits), np.frombuffer(message, "<u8", offset=bits)
    if numbers.size >= MANY and len(values) > kept:
        from tacit.channel.word_loops import put_zeros_back

        put_zeros_back(places, values.astype(np.uint64, copy=False), numbers)
    else:
        numbers[:] = 0
        numbers[np.flatnonzero(np.unpackbits(places))] = values[:kept]


def _no_numbers(name: str, size: int) -> ProtocolError:
    return ProtocolError(
        f"the numbers of a sum from {name}, without their zeros",
        words(f"{size} bytes that are something else, or another total than that of other parties"),
        "All parties must run the same version.",
    )


def _widened(elements: Elements, ring: Ring) -> Elements:
    """Return elements with all words of the ring."""
    return elements if len(elements) == ring.words else with_both_words(elements)


def fits_narrow(total: NDArray[np.uint64]) -> bool:
    """Whether the lowest `NARROW_BYTES` of signed numbers say everything about them."""
    most, signed = 1 << (8 * NARROW_BYTES - 1), total.view(np.int64)
    least, largest = int(signed.min(initial=0)), int(signed.max(initial=0))
    return -most <= least <= largest < most


def lowest_bits(numbers: NDArray[np.uint64]) -> list[NDArray[np.unsignedinteger]]:
    """Return the lowest `NARROW_BYTES` of numbers: the lower halves of the words, and the lower quarters of the upper halves."""
    from tacit.channel.word_loops import take_lowest_bits

    lower, upper = np.empty(numbers.size, dtype=np.uint32), np.empty(numbers.size, dtype=np.uint16)
    take_lowest_bits(numbers, lower, upper)
    return [lower, upper]


def add_lowest_bits(total: NDArray[np.uint64], message: memoryview) -> None:
    """Add to words, in place, the numbers of which a message has the lowest bits, as `lowest_bits` gives them."""
    from tacit.channel.word_loops import add_lowest_bits as add

    lower, upper = np.frombuffer(message, "<u4", total.size), np.frombuffer(message, "<u2", offset=4 * total.size)
    add(total, lower.astype(np.uint32, copy=False), upper.astype(np.uint16, copy=False))


def extend_sign(numbers: NDArray[np.uint64]) -> None:
    """Make words, in place, the signed numbers that their lowest `NARROW_BYTES` are."""
    signed, beyond = numbers.view(np.int64), 8 * (WORD_BYTES - NARROW_BYTES)
    np.left_shift(signed, beyond, out=signed)
    np.right_shift(signed, beyond, out=signed)


def as_bytes(elements: NDArray[np.unsignedinteger]) -> memoryview:
    """Return the elements as a message, without a copy if they lie one after the other."""
    little = elements.dtype.newbyteorder("<")
    return np.ascontiguousarray(elements).astype(little, copy=False).reshape(-1).view(np.uint8).data


def _check_length(message: bytes | memoryview, size: int, name: str) -> None:
    if len(message) != size:
        raise ProtocolError(
            f"{size} bytes from {name}", words(f"{len(message)}"), "All parties must run the same version."
        )


def elements_of(message: bytes | memoryview, shape: tuple[int, ...], name: str) -> Elements:
    """Read the elements of a message, which must have this many."""
    _check_length(message, WORD_BYTES * math.prod(shape), name)
    return np.frombuffer(message, dtype="<u8").astype(np.uint64, copy=False).reshape(shape)
