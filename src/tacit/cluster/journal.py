"""The driver's checkpoint: the answers so far, in a folder that only the holder can read."""

from __future__ import annotations

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
from tacit.errors import InvalidInputError, words

STATE = "run.json"
CHOICE, NOISE = "the choice", "noise of "
CANNOT_WRITE = (
    "the checkpoint could not be written, and its last total was not used. Free space, then run again with the same "
    "checkpoint: the run continues where it stopped and is charged once"
)


class ClusterJournal:
    """Keeps the answers of one run; without a folder it keeps nothing, and a run that stops begins anew.

    An answer is written before any worker sees it. So a restarted driver either finds it, or nothing of it was used; noise
    is never drawn twice for a total that left the driver.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.identity = secrets.token_hex(8)
        self.secret = secrets.token_bytes(32)
        self.charged = False

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

    def begin(self, estimator: Any, data: str) -> None:
        """Begin a run, or take up the one in the folder if it is the same; `data` says what is read, and how."""
        if self._folder is None:
            return
        # noise from a seed can be subtracted: a run without one must not go on from its answers
        settings = {**estimator._public_parameters(), "insecure_seed": getattr(estimator, "insecure_seed", None)}
        shown = repr(sorted((name, repr(value)) for name, value in settings.items()))
        purpose = hashlib.sha256(f"{type(estimator).__name__} {shown} {data}".encode()).hexdigest()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = self._folder / STATE
        if not state.exists():
            self._write(state, {"purpose": purpose})
            return
        kept = json.loads(state.read_text(encoding="utf-8"))
        if kept["purpose"] != purpose:
            raise InvalidInputError(
                "the checkpoint of a run with the same estimator, settings, threads and partitions",
                words("that of another one"),
                "Use another folder for each run, or delete this one, whose answers stay charged.",
            )
        self.identity, self.secret = kept["identity"], bytes.fromhex(kept["secret"])
        self.charged = kept["charged"]

    def answer(self, number: int) -> Any:
        """Return an answer that was kept, or None."""
        path = self._path(number)
        if path is None or not path.exists():
            return None
        with np.load(path, allow_pickle=False) as file:
            if CHOICE in file:
                return int(file[CHOICE])
            names = [name.removeprefix(NOISE) for name in file.files if name.startswith(NOISE)]
            return Total({name: file[name] for name in names}, {name: float(file[NOISE + name]) for name in names})

    def keep(self, number: int, answer: Any) -> None:
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

    def note_charge(self) -> None:
        """Remember that the ledger was charged for this run."""
        self.charged = True
        if self._folder is not None:
            state = self._folder / STATE
            self._write(state, json.loads(state.read_text(encoding="utf-8")))

    def end(self) -> None:
        """Delete the answers: the model holds what they led to."""
        if self._folder is not None:
            for path in [*self._folder.glob("answer-*"), self._folder / STATE]:
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path | None:
        return None if self._folder is None else self._folder / f"answer-{number:06}"

    def _write(self, path: Path, state: dict[str, Any]) -> None:
        known = {"identity": self.identity, "secret": self.secret.hex(), "charged": self.charged}
        _replace(path, json.dumps({**state, **known}).encode())


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
