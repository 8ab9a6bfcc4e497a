"""Checks of records that are read back: guarantees, releases and entries of a ledger.

A record with a field missing must not be completed by a default, because a default may claim more than was earned. So
every field is required, unknown fields are refused and types are exact.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tacit.errors import InvalidInputError, kind_of, words

OTHER_VERSION = "The record is incomplete, was changed, or comes from another version of tacit. Do not rely on it."

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def is_text(value: object) -> bool:
    """Return whether `value` is a string."""
    return isinstance(value, str)


def is_integer(value: object) -> bool:
    """Return whether `value` is an integer; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether `value` is a finite number that a float can hold; True and False are not."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_number_or_none(value: object) -> bool:
    """Return whether `value` is a finite number or None."""
    return value is None or is_number(value)


def is_record(value: object) -> bool:
    """Return whether `value` is a dict."""
    return isinstance(value, dict)


def is_list_of_texts(value: object) -> bool:
    """Return whether `value` is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def is_list_of_records(value: object) -> bool:
    """Return whether `value` is a list of dicts."""
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def digest_of(record: Mapping[str, object]) -> str:
    """Return a SHA-256 digest of the fields of a record: it shows that a field was changed, not who wrote the record."""
    return hashlib.sha256(json.dumps(dict(record), sort_keys=True).encode()).hexdigest()


def numbers_in(text: str) -> set[float]:
    """Return the numbers that a text states."""
    return {float(number) for number in _NUMBER.findall(text)}


def checked_record(values: object, what: str, fields: Mapping[str, Callable[[object], bool]]) -> dict[str, Any]:
    """Return `values` if it is a dict with exactly these fields, each of the type that its check accepts.

    Parameters
    ----------
    values : object
        The record that was read.
    what : str
        The kind of record, for the error message ("a guarantee").
    fields : mapping of str to function
        The name of each field, and a check of its value.
    """
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"{what} as a dict", kind_of(values), OTHER_VERSION)
    missing = [name for name in fields if name not in values]
    unknown = len(set(values) - set(fields))
    mistyped = [name for name, check in fields.items() if name in values and not check(values[name])]
    problems = [
        f"{problem} {', '.join(names)}"
        for problem, names in (("no field", missing), ("a wrong type in", mistyped))
        if names
    ]
    if unknown:
        problems.append(f"{unknown} unknown field{'s' if unknown > 1 else ''}")
    if problems:
        raise InvalidInputError(
            f"{what} with exactly the fields {', '.join(fields)}", words("; ".join(problems)), OTHER_VERSION
        )
    return dict(values)
