"""Calls whose values stay at workers, kept after their ends: they run again where a value is needed and lost.

A call that is large is not kept, and when all that are kept are too large, the oldest is given up: its value cannot be
made again. The scheduler says which call runs again, and from when on one is needed no more.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.head._functions import FunctionTable
from grainlike.jobs import Job
from grainlike.payload import is_stored
from grainlike.wire import Parcel

__all__ = ["CALL_MOST", "KEPT_MOST", "KeptCalls", "RevivedJob"]

CALL_MOST = 64 * 1024
"""Bytes of the arguments of one call that is kept, at most."""

KEPT_MOST = 256 * 1024 * 1024
"""Bytes of all that are kept."""

_OVERHEAD = 400
"""Bytes that each takes besides, about."""


class RevivedJob(Job):
    """Call that runs again for its value: nobody waits for its outcome. `former` is the record of the first run."""

    __slots__ = ("former", "name", "request", "timeout")

    def __init__(self, former: Job, parcel: Parcel, name: str, request: str, timeout: float | None) -> None:
        super().__init__(former.id, former.fn, None, parcel)
        self.former = former
        self.name = name
        self.request = request
        self.timeout = timeout

    def ends(self, *, good: bool) -> None:
        """Let the record of the first run tell of this one."""
        placement, before = self.placement, self.former.placement
        if good and placement is not None and before is not None:
            placement.recomputed = before.recomputed + 1
            placement.size = before.size
            self.former.placement = placement


class KeptCalls:
    """The kept calls of one head, oldest first."""

    def __init__(self, functions: FunctionTable) -> None:
        self._functions = functions
        self._calls: dict[int, tuple[Job, str]] = {}
        self.nbytes = 0
        """Bytes of all that are kept."""

    def __len__(self) -> int:
        return len(self._calls)

    def keep(self, job: Job, request: str, *, again: bool) -> list[int]:
        """Keep the call of a job that has ended; return those that are given up for it, or itself.

        Not kept is the call of a function that may not run `again` after a loss.
        """
        data, buffers = job.parcel
        nbytes = len(data) + sum(memoryview(buffer).nbytes for buffer in buffers)
        if nbytes > CALL_MOST or is_stored(data) or not again:
            job.close()
            return [job.id]
        job.node = None
        self._calls[job.id] = job, request
        self.nbytes += nbytes + _OVERHEAD
        given_up: list[int] = []
        while self.nbytes > KEPT_MOST:
            oldest = next(iter(self._calls))
            self.release([oldest])
            given_up.append(oldest)
        return given_up

    def revive(self, number: int) -> RevivedJob | None:
        """Return a job that makes a kept call again; None if that was given up."""
        job, request = self._calls.get(number, (None, ""))
        if job is None:
            return None
        spec, _ = self._functions.shipment(job.fn)
        return RevivedJob(job, job.parcel, spec.name, request, spec.timeout)

    def release(self, values: Iterable[int]) -> None:
        """Drop the calls that made these values."""
        for value in values:
            job, _ = self._calls.pop(value, (None, ""))
            if job is not None:
                data, buffers = job.parcel
                self.nbytes -= len(data) + sum(memoryview(buffer).nbytes for buffer in buffers) + _OVERHEAD
                job.close()

    def functions(self) -> set[int]:
        """Return the numbers of the functions that are called by what is kept."""
        return {job.fn for job, _ in self._calls.values()}
