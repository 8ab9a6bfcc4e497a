"""Where the random bits of the noise come from.

The noise is only as private as its bits are unpredictable, so they are AES in counter mode under a key from the
operating system. `cryptography` and `randomgen` are imported on first use: importing tacit stays cheap.
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

_KEY_BITS = 128
STREAM_KEY_BYTES = 32


def secure_words() -> Callable[[int], NDArray[np.uint64]]:
    """Return a source of 64-bit words that nobody can predict or repeat, under a fresh key of its own.

    For much noise: many times faster than `secure_generator`, which has all laws of numpy.
    """
    import numpy as np

    stream = counter_stream(secrets.token_bytes(STREAM_KEY_BYTES), 0)

    def give(count: int) -> NDArray[np.uint64]:
        return np.frombuffer(stream.update(bytes(8 * count)), dtype=np.uint64)

    return give


def counter_stream(key: bytes, number: int) -> CipherContext:
    """Return AES-256 in counter mode; the upper half of the counter is `number`, so that streams of a key never overlap."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CTR(number.to_bytes(8, "big") + bytes(8))).encryptor()


def secure_generator() -> Generator:
    """Return a generator whose stream nobody can predict or repeat.

    Each call takes a fresh 128-bit key from the operating system, so two calls, in one process or on
    both sides of a fork, never share a stream. Make a new one after a fork instead of keeping an old one.

    Returns
    -------
    numpy.random.Generator
        A generator over AES-128 in counter mode.
    """
    return _aes_generator(secrets.randbits(_KEY_BITS))


def keyed_generator(key: bytes) -> Generator:
    """Return the generator of `secure_generator` under a given 16-byte key, which must be secret and used once."""
    return _aes_generator(int.from_bytes(key, "big"))


def insecure_generator(seed: int) -> Generator:
    """Return a generator that repeats itself, for tests only.

    Whoever knows or guesses the seed can subtract the noise: anything released with this generator has
    no privacy guarantee at all.

    Parameters
    ----------
    seed : int
        A whole number of at least 0; equal seeds give equal streams.

    Returns
    -------
    numpy.random.Generator
        The generator of `secure_generator`, with its key derived from `seed`.
    """
    digest = hashlib.sha256(b"tacit insecure generator %d" % check_count(seed, "seed", least=0)).digest()
    return _aes_generator(int.from_bytes(digest[: _KEY_BITS // 8], "big"))


def _aes_generator(key: int) -> Generator:
    from numpy.random import Generator
    from randomgen import AESCounter

    # `key=` is used as it is; `seed=` would first pass it through a generator that is not cryptographic.
    return Generator(AESCounter(key=key))
