"""A client whose one worker is this process: for data too small to be worth the start of a cluster. It needs no Dask.

It has the part of the interface of Dask's client that the driver uses. Tasks run when they are submitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from tacit.errors import PrivacyWarning


class ClusterTask(Protocol):
    """The part of a future of Dask's that the driver uses."""

    @property
    def status(self) -> str:
        """One of "pending", "finished", "error", "cancelled" and "lost"."""

    def exception(self) -> BaseException | None:
        """Return what the task raised."""

    def result(self) -> Any:
        """Return the result, or raise what the task raised."""


class Cluster(Protocol):
    """The part of Dask's client that the driver uses; results are of the type that the submitted function returns."""

    @property
    def status(self) -> str:
        """Whether it is "running"."""

    @property
    def dashboard_link(self) -> str | None:
        """The address of the dashboard."""

    def scheduler_info(self, n_workers: int = -1) -> dict[str, Any]:
        """Return the workers and the services."""

    def submit(self, function: Callable[..., object], /, *arguments: object, **settings: object) -> ClusterTask:
        """Run a function on a worker."""

    def scatter(self, value: object, /, **settings: object) -> ClusterTask:
        """Send a value to the workers."""

    def gather(self, futures: Sequence[ClusterTask]) -> list[Any]:
        """Return the results."""

    def cancel(self, futures: Sequence[ClusterTask]) -> None:
        """Do not run what has not run yet."""

    def run(self, function: Callable[..., object], /, *arguments: object, **settings: object) -> dict[str, Any]:
        """Run a function on every worker."""


class Done:
    """The result of a task, or what it raised."""

    def __init__(self, value: object = None, error: Exception | None = None) -> None:
        self._value, self._error = value, error
        self.status = "finished" if error is None else "error"

    def exception(self) -> Exception | None:
        """Return what the task raised."""
        return self._error

    def result(self) -> Any:
        """Return the result, or raise what the task raised."""
        if self._error is not None:
            raise self._error
        return self._value


class Here:
    """A client whose one worker is this process; use it within `working_here`."""

    status: str = "running"
    dashboard_link: str | None = None

    def scheduler_info(self, n_workers: int = -1) -> dict[str, Any]:
        """Return the one worker."""
        return {"workers": {"here": {}}, "services": {}}

    def submit(self, function: Callable[..., object], /, *arguments: object, **settings: object) -> Done:
        """Run a task now."""
        try:
            given = [one.result() if isinstance(one, Done) else one for one in arguments]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)  # each partition would repeat those of the driver
                return Done(function(*given))
        except Exception as error:
            return Done(error=error)

    def scatter(self, value: object, /, **settings: object) -> Done:
        """Return the value as the result of a task."""
        return Done(value)

    def gather(self, futures: Sequence[ClusterTask]) -> list[Any]:
        """Return the results."""
        return [future.result() for future in futures]

    def cancel(self, futures: Sequence[ClusterTask]) -> None:
        """Do nothing: all tasks have run."""

    def run(self, function: Callable[..., object], /, *arguments: object, **settings: object) -> dict[str, Any]:
        """Run a function on the one worker."""
        return {"here": function(*arguments)}


@contextmanager
def working_here() -> Iterator[Here]:
    """Yield the client; afterwards this process has the threads that it had."""
    from threadpoolctl import threadpool_limits

    from tacit.factor import kernels

    threads = kernels.THREADS
    try:
        with threadpool_limits():
            yield Here()
    finally:
        kernels.THREADS = threads
