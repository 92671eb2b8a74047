"""Interface of that on which the jobs of an executor run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from anyio.abc import TaskGroup

from grainlike.engine import JobRunner
from grainlike.graph import Node
from grainlike.jobs import Events, Job, LogLine, Observer, WorkerInfo
from grainlike.resources import Request
from grainlike.scheduler import Explanation
from grainlike.wire import AskHistory, HistoryIs, Totals

if TYPE_CHECKING:
    from grainlike.head import Recorder
    from grainlike.jobs import Fleet
    from grainlike.observe import Stretch

__all__ = ["JobService"]


class JobService(Protocol):
    """Workers, or an engine of another kind, on which an executor's jobs run: `LocalHead`, `RemoteHead` or
    `BackendRunner`.

    It is used in this order: `held` around all, `open`; then `detach`, the executor cancels its jobs, `close`; and at
    last `closed`.
    """

    observers: list[Observer]
    """Receivers of the events of jobs."""

    @property
    def name(self) -> str:
        """Name for reports: `"grainlike"`, or the backend's."""
        ...

    @property
    def runner(self) -> JobRunner:
        """Receiver of the engine's calls with resources."""
        ...

    @property
    def address(self) -> str | None:
        """Address at which workers connect, or of the head; None without one."""
        ...

    # --- from the first moment to the last ---------------------------------------------------------------------------

    def held(self) -> AbstractContextManager[None]:
        """Return the context manager that holds addresses and files."""
        ...

    async def open(self, tasks: TaskGroup) -> None:
        """Serve in `tasks` from now on; return when jobs may be submitted."""

    def detach(self) -> Collection[Node]:
        """Prepare for the end: the executor's own jobs are cancelled next. Return the calls that go on all the same."""
        ...

    async def close(self) -> None:
        """Wait until all jobs have ended, and close all connections."""

    def closed(self) -> None:
        """Release what is left, and tell observers that nothing follows."""

    # --- questions ---------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers."""
        ...

    def has_workers(self, n: int) -> bool:
        """Return True if `n` workers are connected, or none is needed; raise if they never will be."""
        ...

    def refusal(self, request: Request) -> str | None:
        """Return why no call with this request could ever run; None if it may."""
        ...

    def refusal_of(self, node: Node) -> str | None:
        """Return why this call could never run; None if it may."""
        ...

    async def explain(self, node: Node) -> Explanation:
        """Return where a call stands and what it waits for."""
        ...

    def logs(self, node: Node) -> AsyncGenerator[LogLine, None]:
        """Iterate over the lines that a job prints."""
        ...

    def events(self) -> Events:
        """Iterate over events of workers and jobs from now on."""
        ...

    def report(self) -> Totals:
        """Return how many jobs of the executor ended how."""
        ...

    async def history(self, asked: AskHistory) -> HistoryIs:
        """Return a page of the jobs that have ended; raise `RuntimeError` where they are not kept."""
        ...

    def fleet(self) -> Fleet:
        """Return the pools of workers; raise `ValueError` where there can be none."""
        ...

    # --- observers ---------------------------------------------------------------------------------------------------

    def introduce(self, observer: Observer) -> None:
        """Tell a new observer of the workers that are connected."""

    def record(self, recorder: Recorder) -> None:
        """Have a recorder told of all that runs."""

    def copies(self) -> Callable[[], Iterator[Stretch]] | None:
        """Return what gives the copies of large values, of which a record is kept from now on; None where the head is
        elsewhere, or there is none.
        """
        ...

    def now(self) -> float:
        """Return the time on the clock of the jobs' records, in seconds."""
        ...

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        ...

    def assembles(self, number: int) -> bool:
        """Return True if slots are held for this job on several workers while it waits for more."""
        ...
