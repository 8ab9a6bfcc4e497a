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
from contextlib import contextmanager, nullcontext
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import LibController, ThreadpoolController

RANGE = 2**16
"""Numbers of a range that a thread takes at a time (about 0.1 ms of work). Set by hand; it affects speed only."""
_LOCK = threading.Lock()
_busy: set[int] = set()
"""The threads that are doing pieces."""
_blocks = 0
"""How many blocks of `one_blas_thread` are being run."""
_before: list[int] = []
"""How many threads the BLAS libraries had before the first of them."""


@cache
def _blas() -> list[LibController]:
    """Find the BLAS of compiled loops and others, which takes a while."""
    import scipy.linalg.cython_blas  # noqa: F401  compiled loops load it with their first product

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep the products of compiled loops on their threads; afterwards BLAS has as many again as before the first such block."""
    global _before, _blocks  # noqa: PLW0603
    with _LOCK:
        if not _blocks:
            _before = [library.get_num_threads() for library in _blas()]
            for library in _blas():
                library.set_num_threads(1)
        _blocks += 1
    try:
        yield
    finally:
        with _LOCK:
            _blocks -= 1
            if not _blocks:
                for library, threads in zip(_blas(), _before, strict=True):
                    library.set_num_threads(threads)


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


def run_pieces(work: Callable[[int], object], count: int, *, compiled: bool = False) -> None:
    """Run ``work(0)`` to ``work(count - 1)``, on as many threads as torch may use (`torch.set_num_threads`).

    With several threads the calling one only waits: it may have settings of its own, such as automatic casts or what becomes of
    tiny numbers, and which pieces it would do depends on chance.

    `compiled` says that the pieces are compiled loops and products of BLAS, without operations of torch, which then need not be
    told to stay on their thread.
    """
    if not count:
        return
    pieces, threads = iter(range(count)), torch.get_num_threads()

    def run() -> None:
        with nullcontext() if compiled else _alone(threads):
            for piece in pieces:
                work(piece)

    with one_blas_thread() if compiled else nullcontext():
        if threads == 1:
            run()
            return
        running = [_pool(os.getpid(), threads).submit(run) for _ in range(min(threads, count))]
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
        run_pieces(lambda piece: work(slice(piece * rows, (piece + 1) * rows)), -(-size // rows), compiled=True)


def copy_rows(source: NDArray[np.floating], target: NDArray[np.floating]) -> None:
    """Copy an array into another one of the same shape."""
    if not source.ndim:
        target[...] = source
        return

    def copy(rows: slice) -> None:
        target[rows] = source[rows]

    run_ranges(copy, len(source), source[0].size if len(source) else 1)
