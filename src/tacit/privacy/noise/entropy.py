"""Random bits for noise, sampling and masks: AES in counter mode, with keys from the operating system.

* `secure_words` (AES-256, by `cryptography`) gives the bits of the noise; every call has a key of its own.
* `secure_generator` (AES-128, by `randomgen`) is a NumPy generator, for Poisson samples and synthetic rows.
* `NumberedStreams` (AES-256, counter mode as GCM runs it) has the streams of `secure_words` and the masks of a sum among parties.
* `counter_stream` (AES-256) gives the masks of normalised sums.

Privacy depends on these bits being unpredictable. `cryptography` and `randomgen` are imported on first use, so that
importing tacit stays fast.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from tacit.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from cryptography.hazmat.primitives.ciphers import CipherContext
    from numpy.random import Generator
    from numpy.typing import NDArray

GENERATOR_KEY_BITS = 128
"""Key of `secure_generator`: AES-128, the only AES that randomgen has."""
STREAM_KEY_BYTES = 32
"""Key of `secure_words`, `counter_stream` and `NumberedStreams`: AES-256."""
TAG_BYTES = 16
"""AES-GCM appends a tag of 128 bits."""
_zeros = b""
"""The longest run of zeros that was needed so far."""


def secure_words() -> Callable[[int], NDArray[np.uint64]]:
    """Return a source of 64-bit words that nobody can predict or repeat: AES-256 in counter mode with a new key.

    Many times faster than `secure_generator`, but it has none of NumPy's distributions. The words are in memory that the next
    call overwrites.
    """
    import numpy as np

    from tacit.privacy.long_arrays import empty

    stream = NumberedStreams(secrets.token_bytes(STREAM_KEY_BYTES))
    buffer, pieces = np.empty(0, np.uint8), 0

    def give(count: int) -> NDArray[np.uint64]:
        nonlocal buffer, pieces
        if buffer.size < 8 * count + TAG_BYTES:
            buffer = empty((8 * count + TAG_BYTES,), np.uint8)
        stream.put(0, pieces, _some_zeros(8 * count), buffer.data)
        pieces += 1
        return buffer[: 8 * count].view(np.uint64)

    return give


def _some_zeros(count: int) -> memoryview:
    global _zeros  # noqa: PLW0603
    if len(_zeros) < count:
        _zeros = bytes(count)
    return memoryview(_zeros)[:count]


def counter_stream(key: bytes, number: int) -> CipherContext:
    """Return AES-256 in counter mode. The upper half of the counter is `number`, so that streams of a key never overlap."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CTR(number.to_bytes(8, "big") + bytes(8))).encryptor()


class NumberedStreams:
    """Numbered streams of one key, each in numbered pieces: AES-256 in counter mode as GCM runs it.

    For long pieces this is about twice as fast as `counter_stream`. The nonce is the number of the stream (8 bytes) and of the
    piece (4 bytes), so that no two pieces of a key overlap. The tags of GCM are not used.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)

    def put(self, stream: int, piece: int, zeros: memoryview, buffer: bytearray | memoryview) -> None:
        """Put a piece of a stream, as long as the zeros, at the beginning of a buffer that is `TAG_BYTES` longer."""
        nonce = stream.to_bytes(8, "big") + piece.to_bytes(4, "big")
        self._cipher.encrypt_into(nonce, zeros, None, memoryview(buffer)[: len(zeros) + TAG_BYTES])


def secure_generator() -> Generator:
    """Return a generator whose stream nobody can predict or repeat.

    Each call takes a new 128-bit key from the operating system, so two calls never share a stream. A generator that was
    made before a fork gives the same stream on both sides: make a new one after a fork.

    Returns
    -------
    numpy.random.Generator
        A generator over AES-128 in counter mode.
    """
    return _aes_generator(secrets.randbits(GENERATOR_KEY_BITS))


def keyed_generator(key: bytes) -> Generator:
    """Return the generator of `secure_generator` with a given 16-byte key, which must be secret and used only once."""
    return _aes_generator(int.from_bytes(key, "big"))


def insecure_generator(seed: int) -> Generator:
    """Return a generator with a fixed seed, for tests only.

    Whoever knows or guesses the seed can subtract the noise. Anything released with this generator has no privacy
    guarantee.

    Parameters
    ----------
    seed : int
        An integer of at least 0; equal seeds give equal streams.

    Returns
    -------
    numpy.random.Generator
        The generator of `secure_generator`, with its key derived from `seed`.
    """
    digest = hashlib.sha256(b"tacit insecure generator %d" % check_count(seed, "seed", least=0)).digest()
    return _aes_generator(int.from_bytes(digest[: GENERATOR_KEY_BITS // 8], "big"))


def _aes_generator(key: int) -> Generator:
    from numpy.random import Generator
    from randomgen import AESCounter

    # `key=` is used as it is; `seed=` would be expanded by a generator that is not cryptographic
    return Generator(AESCounter(key=key))
