"""One hierarchy of errors; every message says what was expected, what was got, and what to do.

The command line turns a `TacitError` into its message and `exit_code`, without a traceback.
"""

from __future__ import annotations

from typing import ClassVar


class TacitError(Exception):
    """Base of everything tacit raises on purpose.

    Parameters
    ----------
    expected : str
        What the caller should have given, as a phrase ("epsilon to be a positive number").
    got : object
        What was given instead; shown by its `repr`, cut to a readable length.
    fix : str
        What to do about it, as a sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, expected: str, got: object, fix: str) -> None:
        self.expected = expected
        self.got = got
        self.fix = fix
        shown = got if isinstance(got, _Words) else repr(got)
        if len(shown) > 200:
            shown = shown[:197] + "..."
        super().__init__(f"expected {expected}; got {shown}. {fix}")

    def __reduce__(self) -> tuple[type[TacitError], tuple[str, object, str]]:
        return type(self), (self.expected, self.got, self.fix)


class _Words(str):
    """A phrase shown as it is, without quotes, in an error message."""

    __slots__ = ()


def words(text: str) -> str:
    """Mark `text` as prose, so that an error shows it without quotes."""
    return _Words(text)


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

    def __init__(self, expected: str, got: object, fix: str, parties: tuple[int, ...] = ()) -> None:
        super().__init__(expected, got, fix)
        self.parties = parties

    def __reduce__(self) -> tuple[type[PartyError], tuple[str, object, str, tuple[int, ...]]]:  # type: ignore[override]
        return type(self), (self.expected, self.got, self.fix, self.parties)
