"""The job that parties agree on: who takes part, what is fitted, and a digest that changes with every character."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter, words
from tacit.parties.identity import check_name, check_valid, fingerprint_of, name_in
from tacit.validation import check_count, check_positive

DIGEST_LINE = "digest = "
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
        For private models: how many parties may pool what they know without breaking the others' guarantee.
    word_bits : {64, 128}, default=64
    fraction_bits : int, default=40
    hide_norms : bool, default=True
        Hide the norms in a normalised sum, where three or more parties make that possible.
    timeout : float, default=60
        Seconds that a party may stay silent.
    """

    name: str
    model: str
    settings: Mapping[str, Any]
    features: Sequence[str]
    parties: Sequence[Party]
    target: str = ""
    colluding: int = 1
    word_bits: int = 64
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
                "At least one is honest.",
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

    def text(self) -> str:
        """Return the job as TOML, sealed with its digest."""
        lines = [HEADER]
        for key in ("name", "model", "target", "colluding", "word_bits", "fraction_bits", "hide_norms", "timeout"):
            lines.append(f"{key} = {_toml(getattr(self, key), key)}\n")
        lines.append(f"features = {_toml(list(self.features), 'features')}\n\n[settings]\n")
        lines += [f"{key} = {_toml(value, key)}\n" for key, value in self.settings.items() if value is not None]
        for party in self.parties:
            lines.append(f'\n[[parties]]\nname = "{party.name}"\naddress = "{party.address}"\n')
            lines.append(f'fingerprint = "{party.fingerprint}"\ncertificate = """\n{party.certificate.decode()}"""\n')
        return _sealed("".join(lines))

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the job; every party gets a copy."""
        place = Path(path)
        place.write_text(self.text(), encoding="utf-8")
        return place

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Job:
        """Read and check a job."""
        place = Path(path)
        if not place.is_file():
            raise InvalidInputError("a job file", words(f"{place}, which does not exist"), "Check the path.")
        return cls.parse(place.read_text(encoding="utf-8"), str(place))

    @classmethod
    def parse(cls, text: str, source: str = "the job") -> Job:
        """Read a job from its text."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInputError(f"{source} to be TOML", words(str(error)), "Get the file again.") from error
        stated, found = str(values.pop("digest", "")), _digest(text)
        if stated != found:
            raise InvalidInputError(
                f"{source} as it was sealed ({stated[:19] or 'no digest'})",
                words(f"another content ({found[:19]})"),
                "Get the file again; or, if the change is meant, seal it (`tacit parties seal`) and give it to all parties.",
            )
        try:
            parties = [_party(entry) for entry in values.pop("parties", [])]
            return cls(parties=parties, digest=found, **values)
        except (TypeError, KeyError) as error:
            raise InvalidInputError(
                f"{source} with the entries of a job", words(str(error)), "Compare docs/parties.md."
            ) from error


def reseal(path: str | os.PathLike[str]) -> Job:
    """Put the right digest into a job file that was changed on purpose, and return the job."""
    place = Path(path)
    place.write_text(_sealed(_unsealed(place.read_text(encoding="utf-8"))), encoding="utf-8")
    return Job.read(place)


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


def _unsealed(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(DIGEST_LINE))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(_unsealed(text).encode()).hexdigest()


def _sealed(text: str) -> str:
    line = f'{DIGEST_LINE}"{_digest(text)}"\n'
    return text.replace(HEADER, HEADER + line, 1) if HEADER in text else line + text


def _toml(value: Any, name: str) -> str:
    if isinstance(value, Mapping) and all(str(key).isalnum() for key in value):
        return "{ " + ", ".join(f"{key} = {_toml(item, name)}" for key, item in value.items()) + " }"
    if isinstance(value, bool | int | float | str) or (
        isinstance(value, list) and all(isinstance(item, bool | int | float | str | list) for item in value)
    ):
        return json.dumps(value, ensure_ascii=False) if value != float("inf") else "inf"
    raise InvalidInputError(
        f"{name} as a number, a text, or a list or table of these", parameter(value), "Give plain values."
    )
