"""The identity of a party: a private key, which never leaves it, and a certificate, which the others pin."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.errors import InvalidInputError, parameter, words
from tacit.validation import check_count

HOST = "party.tacit"
"""The host name in every certificate. A party is identified by its certificate, not by its address."""
KEY_FILE, CERTIFICATE_FILE = "key.pem", "certificate.pem"
VALID_DAYS = 825
"""A certificate is valid for this many days: two years and a quarter."""


@dataclass(frozen=True)
class Identity:
    """A party's key and certificate, both PEM.

    Examples
    --------
    >>> import tempfile
    >>> from tacit.parties import Identity
    >>> identity = Identity.create("hospital-a")
    >>> identity.fingerprint.startswith("sha256:")
    True
    """

    name: str
    key: bytes = field(repr=False)
    certificate: bytes

    @classmethod
    def create(cls, name: str, *, days: int = VALID_DAYS) -> Identity:
        """Make a new key (P-256) and a certificate for it, signed by itself."""
        check_name(name)
        check_count(days, "days")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        certificate = builder.sign(key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(name, pem, certificate.public_bytes(serialization.Encoding.PEM))

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write key (readable by its owner only) and certificate; an identity that is there is not replaced."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name in (KEY_FILE, CERTIFICATE_FILE):
            if (place / name).exists():
                raise InvalidInputError(
                    f"{place} without an identity",
                    words(f"{name} in it"),
                    "Use another folder, or delete the old identity.",
                )
        descriptor = os.open(place / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self.key)
        (place / CERTIFICATE_FILE).write_bytes(self.certificate)
        return place / CERTIFICATE_FILE

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Identity:
        """Read what `write` wrote."""
        place = Path(folder)
        missing = [name for name in (KEY_FILE, CERTIFICATE_FILE) if not (place / name).is_file()]
        if missing:
            raise InvalidInputError(
                f"an identity in {place}",
                words(f"no {' and no '.join(missing)}"),
                "Make one with `tacit parties init`.",
            )
        certificate = (place / CERTIFICATE_FILE).read_bytes()
        return cls(name_in(certificate), (place / KEY_FILE).read_bytes(), certificate)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate, which the others compare, for instance by telephone."""
        return fingerprint_of(self.certificate)


def check_name(name: str) -> str:
    """Return `name` if it can name a party: letters, digits, dashes, dots and underscores."""
    if not name or len(name) > 64 or not all(char.isalnum() or char in "-_." for char in name):
        raise InvalidInputError(
            "a name of letters, digits, '-', '_' and '.', at most 64", parameter(name), "Choose another name."
        )
    return name


def fingerprint_of(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate."""
    return "sha256:" + _parsed(certificate).fingerprint(hashes.SHA256()).hex()


def name_in(certificate: bytes) -> str:
    """Return the name that a certificate was made for."""
    return str(_parsed(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def check_valid(certificate: bytes, party: str, now: datetime | None = None) -> None:
    """Raise unless the certificate is valid `now`, by default at this computer's time."""
    parsed, now = _parsed(certificate), now or datetime.now(UTC)
    if now > parsed.not_valid_after_utc:
        raise InvalidInputError(
            f"a valid certificate of {party}",
            words(f"one that expired on {parsed.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"),
            "Ask that party for a new certificate, and make the job again with it.",
        )
    if now < parsed.not_valid_before_utc:
        raise InvalidInputError(
            f"a valid certificate of {party}",
            words(
                f"one that starts on {parsed.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, while it is {now:%Y-%m-%d %H:%M} here"
            ),
            "Check this computer's clock.",
        )


def _parsed(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise InvalidInputError(
            "a certificate in PEM form", words(str(error)), "Send the file certificate.pem unchanged."
        ) from error
