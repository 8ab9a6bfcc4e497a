"""One hierarchy of errors; every message says what was expected, what was got, and what to do.

No message holds a value of the data. The part of a message that says what was got is one of three things, and the call
says which: `words` (prose that tacit composed), `parameter` (a public choice of the caller, shown by its `repr`) or
`kind_of` (anything else, of which only the type is shown). A bare value is treated as data: its type is shown.

The command line turns a `TacitError` into its message and `exit_code`, without a traceback.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

LONGEST_SHOWN, MOST_ENTRIES = 200, 20
"""Most characters of a parameter in a message, and most entries of a list that is shown. Set by hand."""


class Words(str):
    """A phrase that may stand in a message as it is; made by `words`, `parameter` or `kind_of`."""

    __slots__ = ()


def words(text: str) -> Words:
    """Return prose for a message. Nothing that comes from the data may be in it: no value, id, label or line of a file.

    Counts and row numbers are data too where a private fit may raise the error. Names of columns, relations and factors
    are public.
    """
    return Words(text)


def parameter(value: object) -> Words:
    """Return the `repr` of a public choice of the caller: a parameter, an option, a path, the name of a column.

    Only plain values are shown, alone or in short lists, so that a table given as a parameter by mistake does not appear
    in the message; of everything else, the type is.
    """
    if not _is_plain(value):
        return kind_of(value)
    shown = repr(_without_numpy(value))
    return Words(shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 3] + "...")


def _without_numpy(value: object) -> object:
    """Return plain values in place of numpy's scalars, whose `repr` is np.str_('x')."""
    if isinstance(value, tuple | list | set | frozenset) and not hasattr(value, "_fields"):
        return type(value)(_without_numpy(one) for one in value)
    if isinstance(value, Mapping):
        return {_without_numpy(key): _without_numpy(one) for key, one in value.items()}
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def kind_of(value: object) -> Words:
    """Return the type of a value in words, and the number of dimensions of an array; never a value."""
    if value is None:
        return Words("None")
    kind = f"a value of type {type(value).__name__}"
    dimensions = getattr(value, "ndim", 0)
    if isinstance(dimensions, int) and dimensions > 0:
        # the dtype of texts holds the length of the longest, that of categories their names: numbers only
        dtype = getattr(value, "dtype", None)
        numeric = f" of {dtype}" if getattr(dtype, "kind", "") in tuple("biufc") and hasattr(dtype, "itemsize") else ""
        kind += f" with {dimensions} dimension{'s' if dimensions > 1 else ''}{numeric}"
    return Words(kind)


def listed(names: Sequence[str]) -> str:
    """Return the first names, for a message, and how many more there are."""
    shown = ", ".join(str(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


class Undisclosed:
    """Mixin for what holds data (a dataclass with ``repr=False``): its `repr` has the types of its parts, and no value."""

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {type(value).__name__}" for name, value in vars(self).items())
        return f"{type(self).__name__}({parts})"


def _is_plain(value: object) -> bool:
    if value is None or isinstance(value, numbers.Number | str | os.PathLike | type):
        return True
    if isinstance(value, Mapping):
        return len(value) <= MOST_ENTRIES and all(map(_is_plain, [*value.keys(), *value.values()]))
    if isinstance(value, tuple | list | set | frozenset):
        return len(value) <= MOST_ENTRIES and all(map(_is_plain, value))
    return False


class PrivacyWarning(UserWarning):
    """Something that costs privacy or weakens what a guarantee means, and that the caller may not have meant."""


class ConcernWarning(PrivacyWarning):
    """A concern about a fitted model, with advice; commands and reports show it as a note."""


class TacitError(Exception):
    """Base of everything tacit raises on purpose.

    Parameters
    ----------
    expected : str
        What the caller should have given, as a phrase ("epsilon to be a positive number").
    got : Words
        What was given instead: `words(...)`, `parameter(...)` or `kind_of(...)`. Of anything else only the type is shown
        and kept, because it may be data.
    fix : str
        What to do about it, as a sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, expected: str, got: Words, fix: str) -> None:
        self.expected = expected
        self.got = got if isinstance(got, Words) else kind_of(got)
        self.fix = fix
        super().__init__(f"expected {expected}; got {self.got}. {fix}")

    def __reduce__(self) -> tuple[type[TacitError], tuple[str, Words, str]]:
        return type(self), (self.expected, self.got, self.fix)


class InvalidInputError(TacitError, ValueError):
    """A parameter or a data set that cannot be used; nothing was charged, nothing was written."""

    exit_code = 2


class RangeError(InvalidInputError):
    """A number does not fit the fixed-point grid; raised before anything leaves the holder."""


class UnaccountableError(TacitError):
    """A release of a kind that no accountant here can bound."""

    exit_code = 2


class BudgetError(TacitError):
    """A release would overspend the budget; refused before the data was touched."""

    exit_code = 3


class LedgerError(TacitError):
    """A ledger file that cannot be used: not a ledger, locked, or without the data set named."""

    exit_code = 4


class TamperedLedgerError(LedgerError):
    """A ledger whose hash chain does not verify."""

    exit_code = 5


class ProtocolError(TacitError):
    """Holders of one run asked for different things, or a program broke the rules of its channel."""

    exit_code = 6


class PrivacyViolationError(TacitError):
    """A private program that does on a neighbouring data set what its bound does not allow."""

    exit_code = 7


class PartyError(TacitError):
    """Other parties, or the way to them, failed; `parties` holds their places in the job, as far as known."""

    exit_code = 8

    def __init__(self, expected: str, got: Words, fix: str, parties: tuple[int, ...] = ()) -> None:
        super().__init__(expected, got, fix)
        self.parties = parties

    def __reduce__(self) -> tuple[type[PartyError], tuple[str, Words, str, tuple[int, ...]]]:  # type: ignore[override]
        return type(self), (self.expected, self.got, self.fix, self.parties)
