r"""Sums among many clients and a server, where clients may leave at any time: SecAgg+.

Client i sends :math:`y_i = x_i + \mathrm{PRG}(b_i) + \sum_{j > i} \mathrm{PRG}(s_{ij}) - \sum_{j < i} \mathrm{PRG}(s_{ij})`
modulo 2^64 (or 2^128), over its *neighbours* j in a random graph. The key :math:`s_{ij}` comes from a key agreement, the
seed :math:`b_i` of the *self mask* from client i alone. Each client gives its neighbours Shamir shares of its seed and of its
private key. When the server has the vectors, it asks the neighbours of every client for one of the two: for the seed if the
vector came, so that the self mask can be taken off; for the private key if it did not, so that the masks that the others
have in common with it can. A vector that arrives after its client was given up still has its self mask.

The steps, each one message from every client to the server and back:

1. keys: two public keys (X25519), one for sealing shares and one for masks;
2. shares: the graph follows from the digest of all keys; shares for each neighbour, sealed (AES-GCM);
3. vectors, masked;
4. shares of seeds and keys, one for every neighbour; the server takes the masks off.

References
----------
J. Bell, K. Bonawitz, A. Gascón, T. Lepoint and M. Raykova, "Secure Single-Server Aggregation with (Poly)Logarithmic
Overhead", CCS 2020 (SecAgg+). K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
CCS 2017.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import ArrayLike, NDArray

from tacit.channel.directions.runtime import import_mpyc
from tacit.channel.fixedpoint import Elements, Grid, Ring
from tacit.channel.masked import Masks
from tacit.channel.noisy import LEAST_SHARE, SHARE_RESERVE, scales
from tacit.channel.plan import Plan
from tacit.errors import InvalidInputError, PartyError, ProtocolError, parameter, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise import with_discrete_gaussian
from tacit.privacy.releases import GaussianRelease
from tacit.validation import check_count, check_positive

EXPOSURE = 2.0**-40
"""Most probability, over the random graph, of a graph that does not protect (the sigma = 40 of Bell et al.)."""
FAILURE = 2.0**-20
"""Most probability, over the random graph, that the allowed dropouts leave a client with too few neighbours."""
SECRET_BYTES = 32
"""Length of seeds and of X25519 keys."""
PRIME = 2**256 + 297  # the least prime above all secrets of 32 bytes
SHARE_BYTES = 33
"""A number below `PRIME`, which has 257 bits."""
_SEALED_BYTES = 2 * SHARE_BYTES + 16
_KEYS_BYTES = 2 * SECRET_BYTES
_NUMBER = struct.Struct("<I")
ARRIVED, GONE = 0, 1
"""What a client reveals a share for: a neighbour whose vector arrived, or one that dropped out."""


@dataclass(frozen=True)
class SumSettings:
    r"""What clients and server agree on before the first message; all of it is public.

    Make it with `choose`, which finds the smallest graph and threshold that protect.

    Parameters
    ----------
    clients : int
        Number of clients, n. They are numbered from 0.
    length : int
        Numbers in a client's vector.
    dropouts : int
        At most this many clients may leave before they have sent their vector.
    colluding : int
        At most this many clients pool what they know with the server.
    neighbours : int
        Number of neighbours of a client, k: even, or n - 1.
    threshold : int
        Shares that recover a secret, t.
    word_count : {1, 2}, default=1
        Sums are taken modulo 2^64 or 2^128.
    session : bytes
        Different for each sum.

    Notes
    -----
    The graph is a ring of clients in random order, in which each is a neighbour of the k/2 before it and the k/2 after it
    (a Harary graph, as in Bell et al.). The neighbours of a client are then a uniform k-subset of the others. With d
    dropouts and c colluding clients, over the random order (all bounds by adding up over clients):

    *failure*: some client has fewer than t neighbours left; at most n P[Hyp(n - 1, d, k) > k - t].

    *both*: some client has c_i colluding neighbours with 2t <= k + c_i; at most
    n P[Hyp(n - 1, c, k) > 2t - k - 1].

    *split*: what is left of the graph without dropouts and colluding clients is not connected. Then k/2 clients in
    a row are dropped or colluding: at most n binom(d + c, k/2) / binom(n, k/2). In a complete graph it cannot happen.
    """

    clients: int
    length: int
    dropouts: int
    colluding: int
    neighbours: int
    threshold: int
    word_count: int = 1
    session: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def __post_init__(self) -> None:
        check_count(self.clients, "clients", least=3)
        check_count(self.length, "length")
        check_count(self.dropouts, "dropouts", least=0)
        check_count(self.colluding, "colluding", least=0)
        check_count(self.threshold, "threshold")
        complete = self.neighbours == self.clients - 1
        if not complete and (self.neighbours % 2 or not 2 <= self.neighbours < self.clients):
            raise InvalidInputError(
                f"an even number of neighbours below {self.clients - 1}, or {self.clients - 1}",
                parameter(self.neighbours),
                "Leave the choice to `SumSettings.choose`.",
            )
        for what, chance, most in (
            ("that the dropouts stop the sum", self.failure, FAILURE),
            ("that the server can get both secrets of a client", self.both, EXPOSURE),
            ("that the sum falls into parts", self.split, EXPOSURE),
        ):
            if chance > most:
                raise InvalidInputError(
                    f"neighbours and a threshold with a probability of at most {most:.1g} {what}",
                    words(f"{self.neighbours} neighbours and a threshold of {self.threshold}: {min(chance, 1):.1g}"),
                    "Leave the choice to `SumSettings.choose`, or allow fewer dropouts or colluding clients.",
                )

    @classmethod
    def choose(
        cls, clients: int, length: int, *, dropouts: int, colluding: int, word_count: int = 1, session: bytes = b""
    ) -> Self:
        """Return the settings with the fewest neighbours that protect against this many dropouts and colluders.

        Raises
        ------
        InvalidInputError
            If not even a complete graph protects: twice the dropouts and the colluding clients must be below n - 1.
        """
        check_count(clients, "clients", least=3)
        for neighbours in (*range(2, clients - 1, 2), clients - 1):
            # the least threshold that no server gets past, so that as many as possible may leave
            most = min(colluding, neighbours)
            while most and clients * _more_than(most - 1, neighbours, clients - 1, colluding) <= EXPOSURE:
                most -= 1
            threshold = (neighbours + most) // 2 + 1
            if threshold > neighbours:
                continue
            try:
                return cls(
                    clients,
                    length,
                    dropouts,
                    colluding,
                    neighbours,
                    threshold,
                    word_count,
                    session or secrets.token_bytes(16),
                )
            except InvalidInputError:
                continue
        raise InvalidInputError(
            f"twice the dropouts and the colluding clients to be below {clients - 1}",
            words(f"{dropouts} dropouts and {colluding} colluding clients"),
            "Allow fewer of them, or add clients.",
        )

    @property
    def failure(self) -> float:
        """Most probability that some client has fewer than `threshold` neighbours after the dropouts."""
        spare = self.neighbours - self.threshold
        return self.clients * _more_than(spare, self.neighbours, self.clients - 1, self.dropouts)

    @property
    def both(self) -> float:
        """Most probability that for some client the shares for both secrets could be collected."""
        spare = 2 * self.threshold - self.neighbours - 1
        return self.clients * _more_than(spare, self.neighbours, self.clients - 1, self.colluding)

    @property
    def split(self) -> float:
        """Most probability that the honest clients who stay are not connected."""
        if self.neighbours == self.clients - 1:
            return 0.0
        side = self.neighbours // 2
        return self.clients * math.comb(self.dropouts + self.colluding, side) / math.comb(self.clients, side)

    @property
    def least(self) -> int:
        """The fewest clients whose vectors make a total."""
        return self.clients - self.dropouts

    @cached_property
    def ring(self) -> Ring:
        """The integers modulo 2^64 or 2^128."""
        return Ring(self.word_count)

    @cached_property
    def digest(self) -> bytes:
        """What the settings are, in 32 bytes; it enters all keys."""
        public = (
            self.clients,
            self.length,
            self.dropouts,
            self.colluding,
            self.neighbours,
            self.threshold,
            self.word_count,
        )
        return hashlib.sha256(b"tacit secure sum 1" + repr(public).encode() + self.session).digest()


def _more_than(spare: int, draws: int, others: int, marked: int) -> float:
    """Return P[Hyp > spare]: that of `draws` clients among `others`, of whom some are marked, more than `spare` are marked."""
    from scipy.stats import hypergeom

    return 1.0 if spare < 0 else float(hypergeom.sf(spare, others, marked, draws))


class Roster:
    """The public keys of all clients that came, and the graph that follows from them."""

    def __init__(self, settings: SumSettings, message: bytes) -> None:
        self.settings = settings
        self.keys = dict(_entries(message, _KEYS_BYTES, settings, "keys"))
        if len(self.keys) < settings.least:
            raise PartyError(
                f"the keys of at least {settings.least} clients",
                words(f"{len(self.keys)}"),
                "Too many clients left. Start the sum again.",
            )
        self.digest = hashlib.sha256(settings.digest + message).digest()
        # every client sorts by the same hash, which nobody knows before all keys are there
        clients = range(settings.clients)
        order = sorted(clients, key=lambda one: hashlib.sha256(self.digest + _NUMBER.pack(one)).digest())
        self._places = {client: place for place, client in enumerate(order)}
        self._order = order

    def neighbours(self, client: int) -> list[int]:
        """Return all neighbours of a client in the graph, in order, those that did not come too."""
        total, side = self.settings.clients, self.settings.neighbours // 2
        if self.settings.neighbours == total - 1:
            return [other for other in range(total) if other != client]
        place = self._places[client]
        return sorted(self._order[(place + step) % total] for step in range(-side, side + 1) if step)

    def present(self, client: int) -> list[int]:
        """Return the neighbours that came."""
        return [other for other in self.neighbours(client) if other in self.keys]

    def key_of_pair(self, private: X25519PrivateKey, purpose: bytes, own: int, other: int) -> bytes:
        """Return the key that two clients have in common, of the first or the second of their key pairs."""
        public = self.keys[other][:SECRET_BYTES] if purpose == b"seal" else self.keys[other][SECRET_BYTES:]
        secret = private.exchange(X25519PublicKey.from_public_bytes(public))
        ends = _NUMBER.pack(min(own, other)) + _NUMBER.pack(max(own, other))
        return HKDF(hashes.SHA256(), length=32, salt=self.digest, info=purpose + ends).derive(secret)


class _InOrder:
    """Steps that are made once each, in one order."""

    _steps: Sequence[str] = ()

    def __init__(self) -> None:
        self._done = 0

    def _begin(self, step: str) -> None:
        if self._done >= len(self._steps) or self._steps[self._done] != step:
            raise ProtocolError(
                f"the steps {', '.join(self._steps)}, in this order and once each",
                words(f"{step!r} after {self._done} of them"),
                "Make new objects for every sum: a step that is repeated could give both secrets of a client away.",
            )
        self._done += 1


class SumClient(_InOrder):
    """One client of a sum; its methods are called once each, in the order below.

    Parameters
    ----------
    settings : SumSettings
    number : int
        Which client this is, from 0.

    Privacy
    -------
    *Against whom.* The server and up to `colluding` clients, who pool all they see, follow the protocol, and cannot
    break X25519, AES or SHA-256. Who leaves must not depend on the graph. Messages must reach the server from
    whom they claim to be, and the server must pass on keys as they were sent: one that puts keys of its own in their place
    reads everything, as in any protocol without a directory of keys.

    *What they learn.* The sum of the vectors of the honest clients that stayed, who these are, and nothing else, except
    with a probability of `EXPOSURE` over the random graph. An honest vector holds a self mask whose seed at least
    ``threshold`` neighbours must reveal, and they do so only if the vector arrived. Between two neighbours who
    both stay there is a mask whose key neither server nor colluders have. As the graph of honest clients who stay is connected,
    these masks make their vectors uniform except for the sum (Bell et al., Theorem 3.6).

    *A server that lies about who left* (and otherwise follows the protocol) cannot get both secrets of a client: an honest
    neighbour answers once, with one share per client. Of k neighbours, c_i colluding ones give both shares and k - c_i one: for
    both secrets t + t <= k + c_i shares are needed, and the settings have 2t > k + c_i (`SumSettings`). So no vector is
    unmasked that was declared lost. What such a server can do is choose over whom the sum is taken: it can declare clients
    lost whose vectors arrived, up to what every client's own check allows (at least ``threshold`` of its neighbours
    must have stayed), and tell different clients different things. In a complete graph (``neighbours == clients - 1``) at most
    n (k - t) / (t - c) honest clients can be declared lost, and what remains is one sum. In a sparser graph it can
    cut clients off from all their neighbours, and so learn the sum of few. Where the server is not trusted with that, use a
    complete graph, or noise (`NoiseShares`).
    """

    _steps = ("keys", "shares", "masked", "unmask")

    def __init__(self, settings: SumSettings, number: int) -> None:
        super().__init__()
        if not 0 <= number < settings.clients:
            raise InvalidInputError(f"a number below {settings.clients}", parameter(number), "Number clients from 0.")
        self.settings = settings
        self.number = number
        self._seal_key = X25519PrivateKey.generate()
        self._mask_key = X25519PrivateKey.generate()
        self._seed = secrets.token_bytes(SECRET_BYTES)

    def keys(self) -> bytes:
        """Return this client's public keys, for the server."""
        self._begin("keys")
        return self._seal_key.public_key().public_bytes_raw() + self._mask_key.public_key().public_bytes_raw()

    def shares(self, roster: bytes) -> bytes:
        """Take the public keys of all, and return the sealed shares of this client's secrets."""
        self._begin("shares")
        self._roster = Roster(self.settings, roster)
        own = self._seal_key.public_key().public_bytes_raw() + self._mask_key.public_key().public_bytes_raw()
        if self._roster.keys.get(self.number) != own:
            raise ProtocolError("this client's own keys in the roster", words("others, or none"), "Start again.")
        field_, thresha = _sharing()
        everyone = self._roster.neighbours(self.number)
        secret = [int.from_bytes(part, "big") for part in (self._seed, self._mask_key.private_bytes_raw())]
        parts = thresha.random_split(field_, secret, self.settings.threshold - 1, len(everyone))
        self._seals = {
            peer: AESGCM(self._roster.key_of_pair(self._seal_key, b"seal", self.number, peer))
            for peer in self._roster.present(self.number)
        }
        message = [hashlib.sha256(self._seed).digest()]
        for peer, pair in zip(everyone, parts, strict=True):
            if peer in self._seals:
                content = b"".join(part.to_bytes(SHARE_BYTES, "big") for part in pair)
                sealed = self._seals[peer].encrypt(_nonce(self.number), content, self._roster.digest)
                message.append(_NUMBER.pack(peer) + sealed)
        return b"".join(message)

    def masked(self, inbox: bytes, elements: Elements) -> bytes:
        """Take the neighbours' shares, and return this client's vector under its masks.

        Parameters
        ----------
        inbox : bytes
        elements : ndarray of uint64
            Of shape (word_count, length); see `tacit.channel.fixedpoint.Ring`.
        """
        self._begin("masked")
        shape = (self.settings.word_count, self.settings.length)
        if elements.shape != shape or elements.dtype != np.uint64:
            raise InvalidInputError(f"elements of shape {shape}", words("others"), "Encode the vector with a Ring.")
        self._held: dict[int, tuple[bytes, bytes]] = {}
        for peer, sealed in _entries(inbox, _SEALED_BYTES, self.settings, "shares"):
            if peer not in self._seals:
                raise ProtocolError("shares of neighbours only", words(f"some of client {peer}"), "Start again.")
            try:
                content = self._seals[peer].decrypt(_nonce(peer), sealed, self._roster.digest)
            except InvalidTag:
                raise ProtocolError(
                    f"shares that client {peer} sealed for this sum and this list of keys",
                    words("others"),
                    "The server gave different clients different keys, or changed a message. Start again.",
                ) from None
            self._held[peer] = (content[:SHARE_BYTES], content[SHARE_BYTES:])
        self._check_enough(len(self._held))
        pairs = {peer: self._roster.key_of_pair(self._mask_key, b"mask", self.number, peer) for peer in self._held}
        # the self mask has the place of a client after all others
        masks = Masks(self.number, {**pairs, self.settings.clients: self._seed})
        return masks.hide(elements, self.settings.ring, 0).tobytes()

    def unmask(self, request: bytes) -> bytes:
        """Take the list of who stayed and who left, and return one share of a secret of each neighbour.

        Of a neighbour whose vector arrived it is the share of its seed, of one that is gone that of its private key.
        """
        self._begin("unmask")
        asked = dict(_entries(request, 1, self.settings, "clients"))
        if set(asked) != set(self._held) or not set(asked.values()) <= {bytes([ARRIVED]), bytes([GONE])}:
            raise ProtocolError(
                "one answer per neighbour: whether its vector arrived", words("something else"), "Start again."
            )
        self._check_enough(sum(kind == bytes([ARRIVED]) for kind in asked.values()))
        return b"".join(_NUMBER.pack(peer) + self._held[peer][kind[0]] for peer, kind in asked.items())

    def _check_enough(self, count: int) -> None:
        if count < self.settings.threshold:
            raise PartyError(
                f"at least {self.settings.threshold} neighbours of client {self.number} that stay",
                words(f"{count}"),
                "Too many clients left. Start the sum again; nothing can be unmasked.",
            )


class SumServer(_InOrder):
    """The server of a sum; its methods are called once each, in the order below, with the messages that arrived in time.

    A message that comes late is left out: whoever is not in a step is gone. See `SumClient` for what a server learns.

    Parameters
    ----------
    settings : SumSettings
    """

    _steps = ("roster", "inboxes", "requests", "total")

    def __init__(self, settings: SumSettings) -> None:
        super().__init__()
        self.settings = settings
        self.survivors: tuple[int, ...] = ()

    def roster(self, messages: Mapping[int, bytes]) -> bytes:
        """Take the clients' keys, and return the list for all of them."""
        self._begin("roster")
        message = b"".join(_NUMBER.pack(client) + messages[client] for client in sorted(messages))
        self._roster = Roster(self.settings, message)
        return message

    def inboxes(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        """Take the clients' sealed shares, and return to each client those that are for it."""
        self._begin("inboxes")
        self._commitments: dict[int, bytes] = {}
        inboxes: dict[int, list[bytes]] = {client: [] for client in messages}
        for client in sorted(messages):
            message = messages[client]
            self._commitments[client] = message[:SECRET_BYTES]
            sealed = dict(_entries(message[SECRET_BYTES:], _SEALED_BYTES, self.settings, "shares"))
            if set(sealed) != set(self._roster.present(client)):
                raise PartyError(f"shares of client {client} for its neighbours", words("others"), "Start again.")
            for peer, content in sealed.items():
                if peer in inboxes:
                    inboxes[peer].append(_NUMBER.pack(client) + content)
        self._check_enough(messages, messages, "sent shares")
        return {client: b"".join(parts) for client, parts in inboxes.items()}

    def requests(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        """Take the masked vectors, and return to each client that sent one what it is asked for."""
        self._begin("requests")
        ring, shape = self.settings.ring, (self.settings.word_count, self.settings.length)
        self._check_enough(messages, self._commitments, "sent vectors")
        self._sum = np.zeros(shape, dtype=np.uint64)
        for client, message in messages.items():
            if client not in self._commitments or len(message) != self._sum.nbytes:
                raise PartyError(f"a vector of {shape[1]} numbers of client {client}", words("another"), "Start again.")
            ring.add_to(self._sum, np.frombuffer(message, dtype="<u8").astype(np.uint64, copy=False).reshape(shape))
        self.survivors = tuple(sorted(messages))
        return {client: b"".join(self._kinds(client)) for client in messages}

    def _kinds(self, client: int) -> Iterable[bytes]:
        for peer in self._roster.neighbours(client):
            if peer in self._commitments:
                yield _NUMBER.pack(peer) + bytes([ARRIVED if peer in self.survivors else GONE])

    def total(self, messages: Mapping[int, bytes]) -> Elements:
        """Take the shares of seeds and keys, and return the exact total of the vectors that arrived.

        Raises
        ------
        PartyError
            If fewer than `threshold` neighbours of some client answered, or if the shares do not give its secret: then
            there is no total, never a wrong one.
        """
        self._begin("total")
        answers = {
            client: dict(_entries(messages[client], SHARE_BYTES, self.settings, "shares")) for client in messages
        }
        secrets_ = self._recovered(answers)
        total = self._sum
        for client in sorted(set(self._commitments) - set(self.survivors)):
            total = self._without_pairs(total, client, secrets_[client])
        seeds = {client: secrets_[client] for client in self.survivors}
        return Masks(self.settings.clients, seeds).hide(total, self.settings.ring, 0)  # taken off: all places are lower

    def _without_pairs(self, total: Elements, client: int, secret: bytes) -> Elements:
        """Add the masks of a client that is gone, as it would have: they cancel those of the others."""
        private = X25519PrivateKey.from_private_bytes(secret)
        peers = [peer for peer in self._roster.neighbours(client) if peer in self.survivors]
        keys = {peer: self._roster.key_of_pair(private, b"mask", client, peer) for peer in peers}
        return Masks(client, keys).hide(total, self.settings.ring, 0)

    def _recovered(self, answers: Mapping[int, Mapping[int, bytes]]) -> dict[int, bytes]:
        """Return the seed or the private key of every client that sent shares."""
        field_, thresha = _sharing()
        recovered = {}
        for client in self._commitments:
            points = []
            for place, peer in enumerate(self._roster.neighbours(client), start=1):
                share = answers.get(peer, {}).get(client)
                if share is not None:
                    points.append((place, [int.from_bytes(share, "big")]))
            if len(points) < self.settings.threshold:
                raise PartyError(
                    f"shares of {self.settings.threshold} neighbours of client {client}",
                    words(f"{len(points)}"),
                    "Too many clients left. Start the sum again; nothing was unmasked.",
                )
            value = int(thresha.recombine(field_, points[: self.settings.threshold])[0]) % PRIME
            secret = value.to_bytes(SHARE_BYTES, "big")[1:]
            if value >> 256 or not self._is_secret(client, secret):
                raise PartyError(
                    f"shares that give the secret of client {client}",
                    words("others"),
                    "A client sent a wrong share. Start the sum again; there is no total.",
                )
            recovered[client] = secret
        return recovered

    def _is_secret(self, client: int, secret: bytes) -> bool:
        if client in self.survivors:
            return hashlib.sha256(secret).digest() == self._commitments[client]
        public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        return public == self._roster.keys[client][SECRET_BYTES:]

    def _check_enough(self, present: Collection[int], wanted: Collection[int], did: str) -> None:
        """Raise unless enough clients are there, and `threshold` of the neighbours of each client that is needed."""
        if len(present) < self.settings.least:
            raise PartyError(
                f"at least {self.settings.least} clients that {did}",
                words(f"{len(present)}"),
                "Too many clients left. Start the sum again; nothing was unmasked.",
            )
        for client in wanted:
            count = sum(peer in present for peer in self._roster.neighbours(client))
            if count < self.settings.threshold:
                raise PartyError(
                    f"at least {self.settings.threshold} neighbours of client {client} that {did}",
                    words(f"{count}"),
                    "Too many clients left. Start the sum again; nothing was unmasked.",
                )


@dataclass(frozen=True)
class NoiseShares:
    """Noise in a secure sum: each client clips its vector and adds a share of the noise before it masks.

    Parameters
    ----------
    settings : SumSettings
    bound : float
        Vectors are clipped to this L2 norm.
    epsilon, delta : float
        What the total costs if all `dropouts` happen.

    Privacy
    -------
    The unit is a client. What leaves: the total and who took part; that is public, so removing a client's data means that
    it sends zeros. The share of one client has 1 / (n - d - c) of the planned variance. So the noise of the honest
    clients who stayed is at least the planned one, whichever d clients left and whichever c colluding ones subtract
    theirs. `guarantee` counts the noise that is really there: if fewer left, epsilon is smaller. The sum of discrete
    Gaussians is one (see `tacit.channel.Noisy`).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.channel.secure_sum import NoiseShares, SumSettings, secure_sum
    >>> settings = SumSettings.choose(40, 3, dropouts=10, colluding=4)
    >>> noise = NoiseShares(settings, bound=1.0, epsilon=1.0, delta=1e-6)
    >>> vectors = [noise.encode([0.6, 0.0, 0.8]) for _ in range(40)]
    >>> total, stayed = secure_sum(settings, vectors, gone=range(5))
    >>> noise.decode(total).shape, len(stayed)
    ((3,), 35)
    >>> round(noise.guarantee(len(stayed)).epsilon, 2)  # 31 honest clients' noise, 26 were counted on
    0.91
    """

    settings: SumSettings
    bound: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_positive(self.bound, "bound")
        if self.settings.word_count != 1:
            raise InvalidInputError("words of 64 bits", parameter(self.settings.word_count), "Use word_count=1.")
        if self._honest(self.settings.least) < 1 or self.share < LEAST_SHARE:
            raise InvalidInputError(
                "an honest client that stays, and few enough clients to share the noise",
                parameter(self.settings.clients),
                "Allow fewer dropouts, or use fewer clients.",
            )

    @cached_property
    def _scales(self) -> tuple[Grid, float, float]:
        plan = Plan.for_budget(self.epsilon, self.delta, unit="user")
        return scales(self.bound, self.settings.length, plan.multiplier(1.0), 1)

    def _honest(self, survivors: int) -> int:
        return survivors - self.settings.colluding

    @property
    def share(self) -> float:
        """The standard deviation of one client's noise, in grid steps."""
        return self._scales[2] / math.sqrt(self._honest(self.settings.least)) * (1 + SHARE_RESERVE)

    def encode(self, vector: ArrayLike) -> Elements:
        """Return a client's vector, clipped, on the grid, with its share of the noise."""
        values = np.asarray(vector, dtype=np.float64)
        norm = float(np.linalg.norm(values))
        if values.shape != (self.settings.length,) or not math.isfinite(norm):
            raise InvalidInputError(
                f"{self.settings.length} finite numbers", words("something else"), "Check the client's vector."
            )
        clipped = values * min(1.0, self.bound / norm) if norm > 0 else values
        integers = with_discrete_gaussian(self._scales[0].encode(clipped), self.share)
        return self.settings.ring.of_integers(integers, parties=self.settings.clients)

    def decode(self, total: Elements) -> NDArray[np.float64]:
        """Return the noisy total."""
        decoded: NDArray[np.float64] = self._scales[0].decode(total[0].view(np.int64))
        return decoded

    def noise(self, survivors: int) -> float:
        """Return the standard deviation of the noise in every number of a total over this number of clients."""
        return self.share * math.sqrt(survivors) * float(self._scales[0].step)

    def guarantee(self, survivors: int) -> Guarantee:
        """Return the guarantee of a total over this number of clients, from the noise of the honest ones among them."""
        honest = self._honest(survivors)
        if survivors < self.settings.least:
            raise InvalidInputError(
                f"at least {self.settings.least} clients", parameter(survivors), "No such total is made."
            )
        _, sensitivity, _ = self._scales
        present = self.share * math.sqrt(honest) / (1 + SHARE_RESERVE)
        release = GaussianRelease(
            name="total",
            noise_multiplier=present / sensitivity,
            lattice_sigma=present,
            dimension=self.settings.length,
        )
        return Guarantee.from_releases(
            [release],
            delta=self.delta,
            unit="user",
            trust=f"Nobody is trusted with a client's data: noise is counted as if {self.settings.colluding} of the {survivors} "
            "clients pooled what they know with the server",
            assumptions=(
                "who took part is public: a client without data sends zeros",
                "clients and server follow the protocol",
            ),
        )


def secure_sum(
    settings: SumSettings, vectors: Sequence[Elements], *, gone: Collection[int] = ()
) -> tuple[Elements, tuple[int, ...]]:
    """Run a whole sum in this process: all clients and the server, every message as bytes.

    Parameters
    ----------
    settings : SumSettings
    vectors : sequence of ndarray of uint64
        One per client, of shape (word_count, length).
    gone : collection of int
        Clients that leave between their shares and their vectors.

    Returns
    -------
    total : ndarray of uint64
    survivors : tuple of int
        Whose vectors are in the total.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.channel import Grid
    >>> from tacit.channel.secure_sum import SumSettings, secure_sum
    >>> settings = SumSettings.choose(10, 2, dropouts=3, colluding=1)
    >>> ring, grid = settings.ring, Grid(-40)
    >>> vectors = [ring.encode([client, 0.5], grid, parties=10) for client in range(10)]
    >>> total, survivors = secure_sum(settings, vectors, gone=[0, 4, 9])
    >>> ring.decode(total, grid), len(survivors)
    (array([32. ,  3.5]), 7)
    """
    clients = {number: SumClient(settings, number) for number in range(settings.clients)}
    server = SumServer(settings)
    roster = server.roster({number: client.keys() for number, client in clients.items()})
    inboxes = server.inboxes({number: client.shares(roster) for number, client in clients.items()})
    requests = server.requests(
        {
            number: client.masked(inboxes[number], vectors[number])
            for number, client in clients.items()
            if number not in gone
        }
    )
    total = server.total({number: clients[number].unmask(request) for number, request in requests.items()})
    return total, server.survivors


def _sharing() -> tuple[Any, Any]:
    """Return the field of the shares and MPyC's functions for Shamir's scheme."""
    import_mpyc()
    from mpyc import finfields, thresha

    return finfields.GF(PRIME), thresha


def _nonce(sender: int) -> bytes:
    """Return the nonce of the one message that a client seals for a neighbour: the pair's key is of this sum alone."""
    return sender.to_bytes(12, "big")


def _entries(message: bytes, size: int, settings: SumSettings, what: str) -> Iterable[tuple[int, bytes]]:
    """Split a message into numbers of clients, in rising order, and what belongs to each."""
    width = _NUMBER.size + size
    last = -1
    if len(message) % width:
        raise ProtocolError(f"{what} of {size} bytes each", words("another length"), "Use the same version everywhere.")
    for start in range(0, len(message), width):
        (client,) = _NUMBER.unpack_from(message, start)
        if not last < client < settings.clients:
            raise ProtocolError(
                f"{what} of clients below {settings.clients}, in order and once each", words("others"), "Start again."
            )
        last = client
        yield client, message[start + _NUMBER.size : start + width]
