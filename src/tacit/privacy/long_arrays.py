"""Long arrays: memory that is used again, and work on all cores by compiled code that releases Python's global lock.

May be imported by whoever may import `privacy`.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Result = TypeVar("Result")
Number = TypeVar("Number", bound=np.generic)

LEAST_KEPT, MOST_KEPT = 2**20, 2**26
"""Memory of fewer bytes is not kept: the C library does that. Nor is memory kept beyond the second number. Set by hand."""


class _Lease:
    """Gives memory back when the last array that uses it is gone; all views of an array refer to it."""

    kept: ClassVar[list[NDArray[np.uint8]]] = []
    """Memory that no array uses, in the order in which it was given back."""

    def __init__(self, block: NDArray[np.uint8]) -> None:
        self.block = block
        self.__array_interface__ = block.__array_interface__

    @classmethod
    def of(cls, size: int) -> _Lease:
        """Take memory of a number of bytes, or up to twice as many; every step is one that threads cannot interrupt."""
        others, block = [], None
        while block is None:
            try:
                last = cls.kept.pop()
            except IndexError:
                block = np.empty(size, np.uint8)
            else:
                if size <= last.size <= 2 * size:
                    block = last
                else:
                    others.append(last)
        cls.kept.extend(reversed(others))
        return cls(block)

    def __del__(self) -> None:
        self.kept.append(self.block)
        with suppress(IndexError):  # another thread may do the same
            while sum(block.size for block in self.kept) > MOST_KEPT:
                del self.kept[0]


def empty(shape: tuple[int, ...], dtype: type[Number]) -> NDArray[Number]:
    """Return a new array of arbitrary numbers, if possible in the memory of an earlier one that nobody refers to any more.

    Fresh memory takes longer than writing to it several times: the operating system maps and clears it page by page.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LEAST_KEPT:
        return np.empty(shape, dtype)
    return np.asarray(_Lease.of(size))[:size].view(dtype).reshape(shape)


def in_parts(work: Callable[[slice], Result], count: int, least: int) -> list[Result]:
    """Call `work` for parts that cover ``range(count)``, one per core, each of at least `least`; return its results.

    The calling thread does the first part. No part is being worked on when this returns or raises.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = max(1, min(cores, count // least))
    own, *rest = [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]
    others = [_pool(os.getpid(), cores).submit(work, part) for part in rest]
    try:
        first = work(own)
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked child has another number, and so gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"tacit-cores-{process}")
