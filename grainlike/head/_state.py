"""State of a head: its scheduler, its jobs, its workers and clients. All other parts are made from it."""

from __future__ import annotations

from collections.abc import Callable

from grainlike.head._functions import FunctionTable
from grainlike.head._kept_calls import KeptCalls
from grainlike.head._nested import RelayedJobs
from grainlike.head._peers import Connection, WorkerConnection
from grainlike.head.values._owners import ValueOwners
from grainlike.head.values._transfers import DirectTransfer, LinkTransfer
from grainlike.jobs import Job, JobCounters
from grainlike.scheduler import HeadEvent, HeadScheduler

__all__ = ["HeadState"]


class HeadState:
    """State of one head, which began at `opened` on its clock. `tell` passes events to the scheduler, `scheduler`.

    A snapshot of a head holds all of this, and the parts of a head share it.
    """

    def __init__(self, scheduler: HeadScheduler, tell: Callable[[HeadEvent], object], opened: float) -> None:
        self.scheduler = scheduler
        self.peers: dict[int, WorkerConnection] = {}
        self.jobs: dict[int, Job] = {}
        self.counters: JobCounters = JobCounters(opened)
        self.functions: FunctionTable = FunctionTable(tell)
        self.owners: ValueOwners = ValueOwners()
        self.nested: RelayedJobs = RelayedJobs(
            self.jobs, self.functions, self.next_job, tell, self.counters, self.owners
        )
        self.kept: KeptCalls = KeptCalls(self.functions)
        self.last_job: int = 0
        """The highest number that a job has had."""
        self.last_peer: int = 0
        """Number of the last worker or client that connected."""
        self.last_listener: int = 0
        """Number of the last reader of a job's output."""
        self.transfers: dict[int, LinkTransfer] = {}
        """Copies of replicas that pass this head, by number."""
        self.direct: dict[int, DirectTransfer] = {}
        """Copies between data servers, by numbers of the same series."""
        self.begun: dict[tuple[int, int, int], int] = {}
        """Bytes that a worker has of a value's attempt from direct copies that failed."""
        self.origins: dict[int, Connection] = {}
        """Clients that have values of their own, by value, until nothing needs them."""
        self.last_transfer = 0
        self.told_late = False
        """True if it was logged that late answers are dropped."""

    def next_job(self) -> int:
        """Return a number for a job."""
        self.last_job += 1
        return self.last_job

    def held_functions(self) -> set[int]:
        """Return the numbers of the functions of calls that may run again, or wait for others in graphs."""
        return self.kept.functions() | self.nested.waiting_functions()

    def workers_with(self, value: int, first: str | None = None) -> list[str]:
        """Return the names of the workers that have a whole replica of a value, sorted, `first` before all others."""
        names = [self.peers[worker].name for worker in self.scheduler.replicas_of(value) if worker in self.peers]
        return sorted(names, key=lambda name: (name != first, name))

    def next_listener(self) -> int:
        """Return a number for a reader of a job's output."""
        self.last_listener += 1
        return self.last_listener

    def next_peer(self) -> int:
        """Return a number for the next worker or client: both have them from one series."""
        self.last_peer += 1
        return self.last_peer
