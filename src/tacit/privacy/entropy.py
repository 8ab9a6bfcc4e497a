"""Where the random bits of the noise come from.

The noise is only as private as its bits are unpredictable, so the default is AES-128 in counter mode
under a key from the operating system. `randomgen` is imported on first use: importing tacit stays cheap.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from tacit.validation import check_count

if TYPE_CHECKING:
    from numpy.random import Generator

_KEY_BITS = 128


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
