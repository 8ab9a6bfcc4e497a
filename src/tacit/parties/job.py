"""The job that parties agree on: who takes part, what is fitted, and a digest that covers every byte of the file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter, words
from tacit.parties.identity import check_name, check_valid, fingerprint_of, name_in
from tacit.validation import check_count, check_positive

DIGEST_LINE = re.compile(r'digest = "(sha256:[0-9a-f]{64})"\n')
ENTRIES = ("name", "model", "target", "colluding", "survive", "word_bits", "fraction_bits", "hide_norms")
HEADER = "# What these parties fit together. Every party must hold the same file, to the character.\n"


@dataclass(frozen=True)
class Party:
    """One organisation: its name, ``host:port`` where the others reach it, and its certificate (PEM)."""

    name: str
    address: str
    certificate: bytes

    def __post_init__(self) -> None:
        check_name(self.name)
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise InvalidInputError(
                f"host:port of {self.name}", parameter(self.address), "For instance hospital-a.example:7443."
            )
        made_for = name_in(self.certificate)
        if made_for != self.name:
            raise InvalidInputError(
                f"the certificate of {self.name}",
                words(f"that of {made_for}"),
                "Certificates were swapped, or the party has another name: ask it for its own.",
            )

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate."""
        return fingerprint_of(self.certificate)


@dataclass(frozen=True)
class Job:
    """What all parties of a run agree on.

    Parameters
    ----------
    name : str
    model : str
        One of `tacit.estimators.registry.JOBS`.
    settings : mapping
        The model's parameters.
    features : sequence of str
        The columns, in order.
    parties : sequence of Party
    target : str, default=""
        For regression: the column to predict, which is not among the features.
    colluding : int, default=1
        How many parties may pool what they know without breaking the others' guarantee: the noise of private models is sized
        for it, and where norms are hidden it chooses the protocol (`tacit.channel.directions`).
    survive : int, default=0
        How many parties may leave for good without ending the run; fewer than half. Noise is sized for `colluding` and these.
    word_bits : {64, 128}, default=128
        Size of the integers that are summed. 64 bits hold totals below 4 million over the number of parties at 40 fractional
        bits. With 128 bits long sums have nearly the same traffic as long as their totals fit 64, less if they fit 48, and
        twice as much from the first total on that does not fit 64 (`tacit.channel.lower_words`).
    fraction_bits : int, default=40
    hide_norms : bool, default=True
        Hide the norms in a normalised sum.
    timeout : float, default=60
        Seconds without a sign of life after which a party counts as gone. It is no part of the run's identity.
    """

    name: str
    model: str
    settings: Mapping[str, Any]
    features: Sequence[str]
    parties: Sequence[Party]
    target: str = ""
    colluding: int = 1
    survive: int = 0
    word_bits: int = 128
    fraction_bits: int = 40
    hide_norms: bool = True
    timeout: float = 60.0
    digest: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.word_bits not in (64, 128):
            raise InvalidInputError(
                "word_bits of 64 or 128", parameter(self.word_bits), "Use 128 where sums do not fit 64 bits."
            )
        check_count(self.fraction_bits, "fraction_bits")
        check_positive(self.timeout, "timeout")
        if len(self.parties) < 2:
            raise InvalidInputError("at least two parties", parameter(len(self.parties)), "Alone, use `tacit fit`.")
        check_count(self.colluding, "colluding", least=0)
        if self.colluding >= len(self.parties):
            raise InvalidInputError(
                f"fewer colluding parties than the {len(self.parties)} there are",
                parameter(self.colluding),
                "At least one party must be honest.",
            )
        check_count(self.survive, "survive", least=0)
        if 2 * self.survive >= len(self.parties) or self.colluding + self.survive >= len(self.parties):
            raise InvalidInputError(
                f"survive to be less than half of the {len(self.parties)} parties, and with colluding less than all",
                parameter((self.survive, self.colluding)),
                "Otherwise two halves could go on without each other, or no honest noise would be left.",
            )
        for what in ("name", "address", "fingerprint"):
            values = [getattr(party, what) for party in self.parties]
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise InvalidInputError(
                    f"a different {what} for every party", parameter(twice[0]), "Give each party its own."
                )
        if len(set(self.features)) != len(self.features):
            raise InvalidInputError("different names for all features", words("one twice"), "Rename it.")

    def place(self, name: str) -> int:
        """Return the index of the party called `name`."""
        names = [party.name for party in self.parties]
        if name not in names:
            raise InvalidInputError(
                f"one of the parties {', '.join(names)}", parameter(name), "Check `--as` and the job."
            )
        return names.index(name)

    @property
    def identity(self) -> str:
        """Digest of everything that a run depends on; the timeout, which may be raised when a run is resumed, is not in it."""
        return "sha256:" + hashlib.sha256(self._body(ENTRIES).encode()).hexdigest()

    def text(self) -> str:
        """Return the job as TOML, sealed with its digest."""
        return _sealed(HEADER, self._body((*ENTRIES, "timeout")))

    def _body(self, entries: Sequence[str]) -> str:
        lines = [f"{key} = {_toml(getattr(self, key), key)}\n" for key in entries]
        lines.append(f"features = {_toml(list(self.features), 'features')}\n\n[settings]\n")
        lines += [f"{key} = {_toml(value, key)}\n" for key, value in self.settings.items() if value is not None]
        for party in self.parties:
            lines.append(f'\n[[parties]]\nname = "{party.name}"\naddress = "{party.address}"\n')
            lines.append(f'fingerprint = "{party.fingerprint}"\ncertificate = """\n{party.certificate.decode()}"""\n')
        return "".join(lines)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the job; every party gets a copy. A file that is something else than a job is not replaced."""
        place = Path(path)
        if place.exists() and not _is_sealed(place):
            raise InvalidInputError(
                "a new file for the job, or an earlier job",
                words(f"{place}, which is something else"),
                "Name another one.",
            )
        place.write_bytes(self.text().encode())
        return place

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Job:
        """Read and check a job."""
        place = Path(path)
        if not place.is_file():
            raise InvalidInputError("a job file", words(f"{place}, which does not exist"), "Check the path.")
        return cls.parse(_decoded(place), str(place))

    @classmethod
    def parse(cls, text: str, source: str = "the job") -> Job:
        """Read a job from its text."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInputError(f"{source} to be TOML", words(str(error)), "Get the file again.") from error
        header, stated, body = _parts(text)
        values.pop("digest", None)
        computed = _digest(header + body)
        if stated != computed:
            raise InvalidInputError(
                f"{source} as it was sealed ({stated[:19] or 'no digest'})",
                words(f"another content ({computed[:19]})"),
                "Get the file again; or, if the change is meant, seal it (`tacit parties seal`) and give it to all parties.",
            )
        try:
            parties = [_party(entry) for entry in values.pop("parties", [])]
            return cls(parties=parties, digest=computed, **values)
        except (TypeError, KeyError) as error:
            raise InvalidInputError(
                f"{source} with the entries of a job", words(str(error)), "Compare docs/guide/parties.md."
            ) from error


def reseal(path: str | os.PathLike[str]) -> Job:
    """Put the right digest into a job file that was changed on purpose, and return the job."""
    place = Path(path)
    header, _, body = _parts(_decoded(place))
    job = Job.parse(_sealed(header, body), str(place))  # what is not a job stays as it is
    place.write_bytes(_sealed(header, body).encode())
    return job


def _party(entry: Mapping[str, Any]) -> Party:
    party = Party(entry["name"], entry["address"], entry["certificate"].strip().encode() + b"\n")
    if party.fingerprint != entry["fingerprint"]:
        raise InvalidInputError(
            f"the certificate of {party.name} with the fingerprint {entry['fingerprint']}",
            words(f"one with {party.fingerprint}"),
            "Certificates were swapped: ask that party for its own.",
        )
    check_valid(party.certificate, party.name)
    return party


def _decoded(place: Path) -> str:
    """Return a file's text with its line ends as they are: the seal covers them too."""
    try:
        return place.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{place} to be text in UTF-8", words("other bytes"), "Get the file again.") from error


def _is_sealed(place: Path) -> bool:
    """Whether a file has a digest where a job has it."""
    try:
        return bool(_parts(place.read_bytes().decode("utf-8"))[1])
    except (UnicodeDecodeError, OSError):
        return False


def _parts(text: str) -> tuple[str, str, str]:
    """Return header, stated digest and the rest of a job file.

    The digest stands in one place only, on the line after the header (on the first line if there is no header). Everything
    else is under the seal, also other lines that begin like it.
    """
    header = HEADER if text.startswith(HEADER) else ""
    rest = text[len(header) :]
    match = DIGEST_LINE.match(rest)
    return (header, match[1], rest[match.end() :]) if match else (header, "", rest)


def _digest(unsealed: str) -> str:
    return "sha256:" + hashlib.sha256(unsealed.encode()).hexdigest()


def _sealed(header: str, body: str) -> str:
    return f'{header}digest = "{_digest(header + body)}"\n{body}'


def _toml(value: Any, name: str) -> str:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item, name)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item, name) for item in value) + "]"
    if isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False) if value != float("inf") else "inf"
    raise InvalidInputError(
        f"{name} as a number, a text, or a list or table of these", parameter(value), "Give plain values."
    )


def _key(key: str) -> str:
    """Return a key of TOML, in quotes unless it is letters and digits."""
    return key if key.isascii() and key.isalnum() else json.dumps(key, ensure_ascii=False)
