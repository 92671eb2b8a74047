"""Calls whose values stay at workers, kept after their ends: they run again if a value is needed and lost.

A large call is not kept. If the kept calls take too many bytes, the oldest is given up: its value cannot be made again.
The scheduler says which call runs again, and which calls are not needed any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.head._functions import FunctionTable
from grainlike.jobs import Job, Placement
from grainlike.payload import is_stored

__all__ = ["CALL_MOST", "KEPT_MOST", "KeptCalls", "RevivedJob"]

CALL_MOST = 64 * 1024
"""Most bytes of arguments of a call that is kept."""

KEPT_MOST = 256 * 1024 * 1024
"""Most bytes of all kept calls."""

_OVERHEAD = 400
"""Bytes that each kept call takes besides its arguments, about."""


class RevivedJob(Job):
    """Call that runs again for the value of job `number`; no program awaits its outcome. `former` is the record of its
    first run: of that job, or of the job that read the value's durable copy.
    """

    __slots__ = ("former", "name", "request", "timeout")

    def __init__(self, number: int, former: Job, name: str, request: str, timeout: float | None) -> None:
        super().__init__(number, former.fn, None, former.parcel)
        self.former: Job = former
        self.name: str = name
        self.request: str = request
        self.timeout: float | None = timeout

    @property
    def reads_copy(self) -> bool:
        """True if the call reads a durable copy of the value, and makes nothing again."""
        return self.former.id != self.id

    def ends(self, *, good: bool) -> None:
        """Copy the facts of this run to the record of the first run."""
        placement, before = self.own_placement(), self.former.placement
        if good and not self.reads_copy and placement is not None and before is not None:
            placement.recomputed = before.recomputed + 1
            placement.size = before.size
            self.former.placement = placement


class KeptCalls:
    """Kept calls of one head, the oldest first."""

    def __init__(self, functions: FunctionTable) -> None:
        self._functions = functions
        self._calls: dict[int, tuple[Job, str]] = {}
        self._readers: dict[int, tuple[Job, str]] = {}
        """Calls that read durable copies, by value; they are small, and never given up for others."""
        self.nbytes: int = 0
        """Bytes of all kept calls."""

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, value: int) -> bool:
        return value in self._calls

    def keep(self, job: Job, request: str, *, again: bool) -> list[int]:
        """Keep the call of a job that has ended; return the calls that are given up for it, or the call itself.

        The call of a function that may not run `again` after a loss is not kept.
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
            self._take(oldest)[0].close()
            given_up.append(oldest)
        return given_up

    def remade(self, value: int) -> Placement | None:
        """Return the last assignment of a kept call whose value was made again; None if it was not."""
        job, _ = self._calls.get(value, (None, ""))
        return job.placement if job is not None and job.recomputed else None

    def revive(self, number: int, *, by_copy: bool = False) -> RevivedJob | None:
        """Return a job that makes a kept call again, or reads the copy; None if the call was given up."""
        job, request = (self._readers if by_copy else self._calls).get(number, (None, ""))
        if job is None:
            return None
        spec, _ = self._functions.shipment(job.fn)
        return RevivedJob(number, job, spec.name, request, spec.timeout)

    def read_by(self, value: int, reader: int) -> None:
        """Keep the call that made value `reader`, which may be released, to read the durable copy of `value`."""
        self.lose_copy(value)
        job, request = self._calls[reader]
        self._readers[value] = Job(job.id, job.fn, None, job.parcel), request

    def copy_url(self, value: int) -> str:
        """Return the URL of the durable copy of a value; empty for none, and for one that a call of an earlier release
        reads, whose arguments are not plain.
        """
        job, _ = self._readers.get(value, (None, ""))
        match None if job is None else job.arguments():
            case ((str(url), *_),), {}:
                return url
        return ""

    def lose_copy(self, value: int) -> None:
        """Drop the call that reads the durable copy of a value, if there is one."""
        job, _ = self._readers.pop(value, (None, ""))
        if job is not None:
            job.close()

    def release(self, values: Iterable[int]) -> None:
        """Drop the calls that made these values, and the calls that read copies of them."""
        for value in values:
            self.lose_copy(value)
            if value in self._calls:
                self._take(value)[0].close()

    def _take(self, value: int) -> tuple[Job, str]:
        job, request = self._calls.pop(value)
        data, buffers = job.parcel
        self.nbytes -= len(data) + sum(memoryview(buffer).nbytes for buffer in buffers) + _OVERHEAD
        return job, request

    def functions(self) -> set[int]:
        """Return the numbers of the functions of all kept calls."""
        return {job.fn for job, _ in (*self._calls.values(), *self._readers.values())}
