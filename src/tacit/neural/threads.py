"""Pieces of work on several threads, such that the results have the same bits on any number of them.

Torch divides an operation among threads, which hardly helps with small operations and may change the order of additions.
Here a thread does whole pieces instead, by operations that stay on it. What a piece is must not depend on the number of
threads, and no two pieces may write to the same place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

RANGE = 2**16
"""Numbers of a range that a thread takes at a time (about 0.1 ms of work). Set by hand; it affects speed only."""
_LOCK = threading.Lock()
_busy: set[int] = set()
"""The threads that are doing pieces."""


@contextmanager
def _alone(after: int) -> Iterator[None]:
    """Let torch's operations stay on this thread; afterwards it has `after` threads again, once no thread does pieces.

    Torch keeps one number of threads per thread, and one of the whole process for its matrix products.
    """
    with _LOCK:
        _busy.add(threading.get_ident())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _busy.remove(threading.get_ident())
            if not _busy:
                torch.set_num_threads(after)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked child has another number, and so gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"tacit-network-{process}")


def run_pieces(work: Callable[[int], object], count: int) -> None:
    """Run ``work(0)`` to ``work(count - 1)``, on as many threads as torch may use (`torch.set_num_threads`).

    With several threads the calling one only waits: it may have settings of its own, such as automatic casts or what becomes of
    tiny numbers, and which pieces it would do depends on chance.
    """
    if not count:
        return
    pieces, threads = iter(range(count)), torch.get_num_threads()

    def run() -> None:
        with _alone(threads):
            for piece in pieces:
                work(piece)

    if threads == 1:
        run()
        return
    running = [_pool(os.getpid(), threads).submit(run) for _ in range(threads)]
    try:
        for done in running:
            done.result()
    finally:
        for _ in pieces:  # after a failure or an interruption no further piece is begun
            pass
        wait(running)


def run_ranges(work: Callable[[slice], object], size: int, width: int = 1) -> None:
    """Run ``work`` for ranges that cover ``size`` rows of `width` numbers; little work is done at once.

    This is for loops over single numbers that torch takes no part in: they would have the same bits in any ranges. After an
    operation of torch on several threads, those go on spinning for a while, on the cores that `run_pieces` wants.
    """
    rows = max(1, RANGE // width)
    if size * width < 2 * RANGE or torch.get_num_threads() == 1:
        work(slice(0, size))
    else:
        run_pieces(lambda piece: work(slice(piece * rows, (piece + 1) * rows)), -(-size // rows))


def copy_rows(source: NDArray[np.floating], target: NDArray[np.floating]) -> None:
    """Copy an array into another one of the same shape."""
    if not source.ndim:
        target[...] = source
        return

    def copy(rows: slice) -> None:
        target[rows] = source[rows]

    run_ranges(copy, len(source), source[0].size if len(source) else 1)
