"""Time of the command line's first answer, compared with Python's start and the import of its argument parser."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from harness import Part, main

ROUNDS = 7
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import typer'": [sys.executable, "-c", "import typer"],
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    "tacit --help": [str(Path(sys.executable).parent / "tacit"), "--help"],
}


def seconds(command: list[str], rounds: int) -> float:
    """Return the fastest of several runs, which other work on the machine affects least."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    return min(taken)


def start(rounds: int = ROUNDS) -> None:
    times = {name: seconds(command, rounds) for name, command in COMMANDS.items()}
    base = times["python -c pass"]
    print(f"{'command':<26} {'seconds':>8} {'times bare Python':>18}")
    for name, taken in times.items():
        print(f"{name:<26} {taken:>8.3f} {taken / base:>18.1f}")


PARTS = {"start": Part(start, quick={"rounds": 1})}

if __name__ == "__main__":
    main(__doc__, PARTS)
