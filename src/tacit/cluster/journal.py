"""The driver's checkpoint: the answers so far, in a folder that only the holder can read."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tacit.channel.asks import Total
from tacit.errors import InvalidInputError, LedgerError, words
from tacit.estimators.base import Estimator
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Charge
from tacit.privacy.ledger.spending import OpenCharge, Spending

STATE = "run.json"
CHOICE, NOISE = "the choice", "noise of "
CANNOT_WRITE = (
    "the checkpoint could not be written, and its last total was not used. Free space, then run again with the same "
    "checkpoint: the run continues where it stopped and is charged once"
)
FORMAT = 2
"""Version of the folder; one of another version is refused as that of another run."""


class ClusterJournal:
    """Keeps the answers of one run; without a folder it keeps nothing, and a run that stops begins anew.

    An answer is written before any worker sees it. So a restarted driver either finds it, or nothing of it was used; noise
    is never drawn twice for a total that left the driver. One driver at a time uses a folder: two would both draw noise for
    the same totals, and one charge would pay for both.

    An older copy of a folder lacks answers that were used. The ledger that was charged finds this: it notes every driver that
    goes on from the folder, and the end of the run, and the folder has the number of these notes. Without a ledger nothing
    finds it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: int | None = None
        self.identity = secrets.token_hex(8)
        self.secret = secrets.token_bytes(32)
        self._purpose = ""
        self._charge: str | None = None
        """Hash of the charge that pays for this run."""
        self._notes = 0
        self._noting = self._concluded = self._taken_up = False

    @classmethod
    def at(cls, folder: str | os.PathLike[str] | None) -> ClusterJournal:
        """Return the journal in a folder, or one that keeps nothing."""
        return cls(None if folder is None else Path(folder))

    @property
    def is_begun(self) -> bool:
        """Whether the folder holds a run that did not end."""
        return self._folder is not None and (self._folder / STATE).exists()

    @property
    def keeps(self) -> bool:
        """Whether a run can be resumed."""
        return self._folder is not None

    @property
    def charged(self) -> bool:
        """Whether a ledger was charged for this run."""
        return self._charge is not None

    def begin(self, estimator: Estimator, data: str, spending: Spending | None = None) -> None:
        """Begin a run, or take up the one in the folder if it is the same; `data` says what is read, and how."""
        if self._folder is None:
            return
        # noise from a seed can be subtracted: a run without one must not go on from its answers
        settings = {**estimator._public_parameters(), "insecure_seed": getattr(estimator, "insecure_seed", None)}
        shown = repr(sorted((name, repr(value)) for name, value in settings.items()))
        self._purpose = hashlib.sha256(f"{FORMAT} {type(estimator).__name__} {shown} {data}".encode()).hexdigest()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._hold():
            raise InvalidInputError(
                "a checkpoint that no other run uses now",
                words("one that another process goes on from"),
                "Wait until it has ended, or give each run a folder of its own. Nothing was released.",
            )
        state = self._folder / STATE
        if not state.exists():
            self._write()
            return
        kept = json.loads(state.read_text(encoding="utf-8"))
        if kept["purpose"] != self._purpose:
            raise InvalidInputError(
                "the checkpoint of a run with the same estimator, settings, threads and partitions",
                words("that of another one"),
                "Use another folder for each run, or delete this one, whose answers stay charged.",
            )
        self.identity, self.secret = kept["identity"], bytes.fromhex(kept["secret"])
        self._charge, self._notes = kept["charge"], kept["notes"]
        self._noting, self._concluded = kept["noting"], kept["concluded"]
        self._taken_up = True
        if self.charged:
            self._paid(spending)

    def answer(self, number: int) -> Total | int | None:
        """Return an answer that was kept, or None."""
        path = self._path(number)
        if path is None or not path.exists():
            return None
        with np.load(path, allow_pickle=False) as file:
            if CHOICE in file:
                return int(file[CHOICE])
            names = [name.removeprefix(NOISE) for name in file.files if name.startswith(NOISE)]
            return Total({name: file[name] for name in names}, {name: float(file[NOISE + name]) for name in names})

    def keep(self, number: int, answer: Total | int) -> None:
        """Write an answer; when this returns, it survives a crash."""
        path = self._path(number)
        if path is None:
            return
        content, arrays = io.BytesIO(), dict[str, Any]()
        if isinstance(answer, Total):
            arrays |= {**answer, **{NOISE + name: np.float64(value) for name, value in answer.noise.items()}}
        else:
            arrays[CHOICE] = np.int64(answer)
        np.savez(content, **arrays)
        _replace(path, content.getvalue())

    def note_charge(self, charge: Charge) -> None:
        """Remember the charge that pays for this run."""
        self._charge = charge.hash
        self._write()

    def go_on(self, spending: Spending | None) -> None:
        """Note in the ledger that this driver releases what an earlier one did not; an older copy of the folder is refused."""
        if self._taken_up:
            self._note(spending)
            self._taken_up = False

    def conclude(self, spending: Spending | None) -> None:
        """Note in the ledger that all was released: no copy of the folder goes on from here."""
        if not self._concluded:
            self._note(spending, concludes=True)

    def end(self) -> None:
        """Delete the answers, unless another driver uses them: the model holds what they led to."""
        if self._folder is not None and self._folder.exists() and self._hold():
            for path in [*self._folder.glob("answer-*"), self._folder / STATE]:
                path.unlink(missing_ok=True)
            self.release()

    def release(self) -> None:
        """Let other drivers use the folder."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _hold(self) -> bool:
        """Keep other drivers from the folder, until `release` or the end of the process; return whether that is possible."""
        if self._held is None:
            assert self._folder is not None
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(folder)
                return False
            self._held = folder
        return True

    def _paid(self, spending: Spending | None) -> Charge:
        """Return the charge that pays for this run, which must be in the given account."""
        charges = [] if spending is None else spending.ledger.history(spending.dataset)
        known = next((charge for charge in charges if charge.hash == self._charge), None)
        if known is None:
            raise LedgerError(
                "the ledger and the account that the run of this checkpoint was charged to",
                words("none" if spending is None else "another one"),
                "Give `ledger` and `dataset` as at first. Nothing was released.",
            )
        return known

    def _note(self, spending: Spending | None, *, concludes: bool = False) -> None:
        if self._folder is None or self._charge is None:
            return
        charge, number = self._paid(spending), self._notes + 1
        assert spending is not None
        if not (self._noting and charge.later == number):  # otherwise a driver died right after the ledger's note
            self._noting = True
            self._write()
            spending.ledger.begin_later(spending.dataset, charge.hash, number)
        self._notes, self._noting, self._concluded = number, False, concludes
        self._write()

    def _path(self, number: int) -> Path | None:
        return None if self._folder is None else self._folder / f"answer-{number:06}"

    def _write(self) -> None:
        if self._folder is None:
            return
        state = {
            "purpose": self._purpose,
            "identity": self.identity,
            "secret": self.secret.hex(),
            "charge": self._charge,
            "notes": self._notes,
            "noting": self._noting,
            "concluded": self._concluded,
        }
        _replace(self._folder / STATE, json.dumps(state).encode())


class JournalledAccount:
    """The account of a run with a checkpoint, which remembers the charge.

    Parameters
    ----------
    spending : Spending
    journal : ClusterJournal
    """

    def __init__(self, spending: Spending, journal: ClusterJournal) -> None:
        self._spending, self._journal = spending, journal

    def charge(self, guarantee: Guarantee) -> OpenCharge:
        """Charge the run; a driver that dies before the charge is in the checkpoint charges again."""
        paid = self._spending.charge(guarantee)
        self._journal.note_charge(paid.charge)
        return paid


def _replace(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; a crash leaves the old one or the new one."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise OSError(error.errno, f"{error.strerror}: {CANNOT_WRITE}") from None
