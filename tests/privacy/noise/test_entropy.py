"""Where random bits come from, and that SECURITY.md says what the code does."""

import secrets
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacit.privacy import discrete_gaussian, discrete_laplace, secure_generator
from tacit.privacy.noise import _LEAST_PART
from tacit.privacy.noise.entropy import GENERATOR_KEY_BITS, STREAM_KEY_BYTES, secure_words

SECURITY = " ".join((Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8").split())


def test_security_md_names_the_ciphers_that_are_used():
    assert f"Its bits are AES-{8 * STREAM_KEY_BYTES} in counter mode." in SECURITY
    assert f"Poisson samples and synthetic rows come from AES-{GENERATOR_KEY_BITS} in counter mode" in SECURITY


def test_noise_bits_are_aes_in_counter_mode_under_a_key_of_the_operating_system(monkeypatch):
    keys = []
    system = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda size: keys.append(system(size)) or keys[-1])
    source = secure_words()
    pieces = [source(count).copy() for count in (1000, 3, 2000)]
    (key,) = keys
    assert len(key) == STREAM_KEY_BYTES
    for number, words in enumerate(pieces):
        counter = number.to_bytes(12, "big") + (2).to_bytes(4, "big")  # GCM keeps counter 1 of a nonce for its tag
        stream = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(bytes(8 * len(words)))
        np.testing.assert_array_equal(words, np.frombuffer(stream, dtype=np.uint64))


@pytest.mark.parametrize("size", [1, 1000, 2 * _LEAST_PART])
def test_every_draw_has_keys_of_its_own(monkeypatch, size):
    keys = []
    system = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda size: keys.append(system(size)) or keys[-1])
    for draw in (discrete_gaussian, discrete_laplace, discrete_gaussian):
        before = len(keys)
        draw(10.0, size)
        assert len(keys) > before
    assert len(set(keys)) == len(keys)


def test_every_generator_has_a_key_of_its_own(monkeypatch):
    keys = []
    system = secrets.randbits
    monkeypatch.setattr(secrets, "randbits", lambda bits: keys.append((bits, system(bits))) or keys[-1][1])
    first, second = secure_generator().integers(0, 2**62, size=(2, 50)), secure_generator().integers(0, 2**62, size=50)
    assert [bits for bits, _ in keys] == [GENERATOR_KEY_BITS] * 2
    assert len({*first.ravel().tolist(), *second.tolist()}) == 150
