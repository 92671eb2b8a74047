"""A `Run` message taken apart: the jobs of one lease, and how far it has come."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat

from grainlike.context import JobFacts, JobInfo, JobNode
from grainlike.payload import Payload
from grainlike.resources import Allocation, parse_allocation, with_memory
from grainlike.wire import Buffer, Code, Gang, Parcel, Run, unpack_parcels
from grainlike_worker.runner.common._failures import NO_VALUE, InputGoneError, NoRoomError, failed
from grainlike_worker.runner.common._job_directories import JobDirectories
from grainlike_worker.runner.common._outcomes import OutcomeBatch, Stays

__all__ = ["RunnerLease"]

_GONE: Parcel = (b"", ())


class RunnerLease:
    """Jobs to run one after another on one allocation: those from `index`, the next or running one, to before `end`.

    `gang` tells of the other nodes of a job that has some; it is the only one of its lease. In `scratch` jobs find
    directories of their own, if they ask for one; leases that run one after another may have it together.
    """

    __slots__ = (
        "_late", "_nodes", "_run", "apart", "columns", "end", "fns", "fresh", "gang", "index", "jobs", "limit",
        "memory", "needs", "parcels", "place", "scratch", "shared", "stopped", "whole",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        buffers: Sequence[Buffer],
        now: float,
        scratch: JobDirectories,
        gang: Gang | None = None,
    ) -> None:
        self._run = run
        self._late: float | None = None
        self.limit = run.limit
        """Seconds that each of its jobs may run: the shortest limit of them; None if none has one."""
        self.apart = run.apart
        """True if each job is to find the process as the first one does."""
        self.fresh = run.fresh
        """True if a process that may hold memory of devices is not to begin it."""
        self.place = run.place
        """Places at which a shared runner notes which of them it has called."""
        self.gang = gang
        self._nodes = () if gang is None else _nodes(gang)
        self.parcels = unpack_parcels(run.data, run.counts, buffers)
        """The arguments of each job, until `arguments` has given them out or the job has ended."""
        self.jobs = run.jobs
        self.fns = run.fns
        """The numbers of their functions."""
        self.shared = len(run.jobs) > 1
        """True if several jobs were to run on it."""
        self.whole = _allocation(run.allocation)
        """The slots of the lease; `allocation` is the part of the job at `index`."""
        self.memory = run.memory
        """Bytes that each job asked for, where they differ."""
        self.needs = run.needs
        """The values that the arguments of each job refer to; empty if none do."""
        self.columns = OutcomeBatch(run.lease, now)
        self.index = 0
        self.end = len(run.jobs)
        self.stopped: set[int] = set()
        self.scratch = scratch

    @property
    def fn(self) -> int:
        """The number of the function of the job at `index`."""
        return self.fns[self.index]

    @property
    def used(self) -> set[int]:
        """The numbers of the functions of those jobs that have not ended."""
        return set(self.fns[self.index : self.end])

    def may_begin(self, at: float) -> None:
        """The process was ready at that moment: if that is after the grant, the job's time is reckoned from then."""
        if self.limit is not None:
            self._late = at + self.limit

    @property
    def allocation(self) -> Allocation:
        """The slots of the job at `index`: those of the lease, with the memory that it asked for."""
        memory = self.memory[self.index] if self.memory else 0
        return with_memory(self.whole, memory) if memory else self.whole

    @property
    def last(self) -> tuple[int, int]:
        """Job and attempt in front of the one at `index`."""
        return self.jobs[self.index - 1], self._run.attempts[self.index - 1]

    @property
    def current(self) -> tuple[int, int]:
        """Job and attempt at `index`."""
        return self.jobs[self.index], self._run.attempts[self.index]

    @property
    def job(self) -> int:
        """The job at `index`."""
        return self.jobs[self.index]

    @property
    def current_is_stopped(self) -> bool:
        """Return True if the job at `index` was cancelled by the worker."""
        return self.index < self.end and self.jobs[self.index] in self.stopped

    def arguments(self) -> Parcel:
        """Return the arguments of the job at `index`; given out once, so that they can be freed when the job ends."""
        parcel = self.parcels[self.index]
        self.parcels[self.index] = _GONE
        return parcel

    def info(self, name: str) -> JobInfo:
        """Return the description that the job at `index`, a call of the function `name`, sees of itself."""
        return JobInfo(*self.facts(name))

    def facts(self, name: str) -> JobFacts:
        """Return the arguments of `info`, which few jobs ask for: making one takes longer."""
        run, index = self._run, self.index
        deadline = run.deadlines[index]
        if self.limit is not None and self.shared:
            limit = run.limit_of(index)
            deadline = None if limit is None else time.monotonic() + limit
        elif deadline is not None and self._late is not None:
            deadline = max(deadline, self._late)
        return run.jobs[index], name, run.attempts[index], deadline, self._nodes, self.scratch.make

    def upcoming(self, name: str) -> Iterator[tuple[JobInfo, Parcel | None]]:
        """Return the descriptions that the job at `index`, and those behind it that call the same function, `name`, see
        of themselves, and their arguments.

        It is the first alone where some are stopped, or it has a limit, or a memory of its own, or inputs, or
        arguments are large: those are None here, for `arguments` to give out.
        """
        run, index = self._run, self.index
        if self.stopped or self._late is not None or run.counts or run.memory or run.needs:
            return iter([(self.info(name), None)])
        if index + 1 == len(self.jobs) or self.fns[index + 1] != self.fns[index]:
            return iter([(self.info(name), self.parcels[index])])
        fns = self.fns[index:]
        alike = fns.count(fns[0])
        if alike < len(fns):
            alike = next((at for at, fn in enumerate(fns) if fn != fns[0]), alike)
        part = slice(index, index + alike)
        infos = map(
            JobInfo,
            run.jobs[part],
            repeat(name),
            run.attempts[part],
            run.deadlines[part],
            repeat(self._nodes),
            repeat(self.scratch.make),
        )
        return zip(infos, self.parcels[part], strict=False)

    def ran_well(self, values: list[bytes], begun: float, ends: list[float], busy: float) -> None:
        """The jobs from `index` on have given these values; see `OutcomeBatch.succeeded`. The one behind them is up."""
        run, part = self._run, slice(self.index, self.index + len(values))
        self.columns.succeeded(run.jobs[part], run.attempts[part], values, begun, ends, busy)
        self.parcels[part] = [_GONE] * len(values)
        self.index += len(values)

    def stop(self, jobs: Iterable[int]) -> None:
        """Mark those of `jobs` that are of this lease and have not ended."""
        self.stopped.update(set(jobs).intersection(self.jobs[self.index : self.end]))

    def ran(
        self,
        code: Code,
        payload: bytes | Payload | Stays,
        begun: float,
        wall: float,
        cpu: float,
        *,
        final: bool = False,
    ) -> None:
        """The job at `index` has ended so, for good if `final`; the next one is up."""
        run, index = self._run, self.index
        self.columns.ran(run.jobs[index], run.attempts[index], code, payload, begun, wall, cpu)
        if final:
            self.columns.is_final(run.jobs[index])
        self.parcels[index] = _GONE
        self.index = index + 1

    def failed(self, error: BaseException, behind: int = 0) -> tuple[Code, Payload]:
        """Return the outcome of the job at `index`, or of one so many `behind` it, which raised `error`; see to its
        scratch directory. One whose inputs are gone has not begun.
        """
        if self.scratch.made:
            index = self.index + behind
            self.scratch.keep(f"{self.jobs[index]}-{self._run.attempts[index]}", error)
        if type(error) is InputGoneError:
            self.columns.gone += error.values
            return Code.INPUT_GONE, NO_VALUE
        if type(error) is NoRoomError:
            self.columns.wanted[error.job] = error.size
            return failed(error.told())
        return failed(error)

    def skip(self) -> None:
        """The job at `index` was cancelled before it began; the next one is up."""
        self._never_ran(self.index, Code.CANCELLED)
        self.index += 1

    def refuse(self, code: Code, payload: Payload, now: float) -> None:
        """None of them can run: those that were not cancelled have failed."""
        while self.index < self.end:
            if self.current_is_stopped:
                self.skip()
            else:
                self.ran(code, payload, now, 0.0, 0.0)

    def hand_back(self, first: int) -> None:
        """None from `first` on will run here: those cancelled are cancelled, the others may run elsewhere."""
        for position in range(first, self.end):
            stopped = self.jobs[position] in self.stopped
            self._never_ran(position, Code.CANCELLED if stopped else Code.RETURNED)
        self.end = first

    def _never_ran(self, position: int, code: Code) -> None:
        self.parcels[position] = _GONE
        self.columns.never_ran(self.jobs[position], self._run.attempts[position], code)


def _nodes(gang: Gang) -> tuple[JobNode, ...]:
    return tuple(JobNode(node.name, node.host, _allocation(node.allocation)) for node in gang.nodes)


# The same few allocations come again and again, and they are immutable.
_allocation = lru_cache(maxsize=256)(parse_allocation)
