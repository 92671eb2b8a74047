"""Lending: while a job awaits jobs of its own, others may use its cores; it continues once it has cores again.

The rules:

1. Only cores are lent; memory, devices and named resources stay held. A function with `keep=True` lends nothing.
2. Cores that come free go to the jobs that want theirs back, in the order of asking, before any queued job gets them.
   Jobs that ask for no cores are not delayed by that.
3. Jobs sent ahead get no lent cores: the head decides who gets those, as it knows which job descends from which.
4. Where no job runs, because all wait, the first that fits continues, even if another asked before: insisting on the
   order would block everything.

A job may get other cores than it lent: `ResumeJob` says which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from grainlike.resources import Ledger, Request, with_memory_text
from grainlike.scheduler.node._events import NodeAction, ResumeJob, TellWaits
from grainlike.scheduler.node._records import NodeJob, NodeLease
from grainlike.wire import LeaseWait, Wait

__all__ = ["Lending"]

_CORES = "cores"


class Lending:
    """Leases of one node that wait, and those that want their cores back. `leases` is the scheduler's own mapping."""

    __slots__ = ("_leases", "_ledger", "_lent", "wanting")

    def __init__(self, ledger: Ledger, leases: Mapping[int, NodeLease]) -> None:
        self._ledger = ledger
        self._leases = leases
        self._lent = 0
        self.wanting: deque[tuple[NodeLease, NodeJob]] = deque()
        """Leases and jobs that want cores back; read-only for callers."""

    def awaits(self, lease: NodeLease, job: NodeJob, heard: int, out: list[NodeAction]) -> None:
        """Record that the job waits for children; when repeated, that it has received more of their outcomes."""
        if lease.waits is Wait.CORES:
            return
        if lease.waits is Wait.NOTHING and not (job.fn.keep or lease.keeps) and _CORES in lease.grant.allocation:
            self._lent += lease.grant.allocation.units[_CORES]
            self._ledger.lend(lease.grant)
        self._tell(lease, job, Wait.CHILDREN, heard, out)

    def goes_on(self, lease: NodeLease, job: NodeJob, heard: int, out: list[NodeAction]) -> None:
        """Handle the arrival of an awaited outcome: the job continues now, or when it has its cores again."""
        if lease.waits is not Wait.CHILDREN:
            return
        lease.heard = heard
        if (self.wanting and self._anybody_runs()) or not self._regain(lease, job, out):
            self.wanting.append((lease, job))
            self._tell(lease, job, Wait.CORES, heard, out)

    def resume(self, out: list[NodeAction]) -> None:
        """Give cores back to the jobs that can have them."""
        while self.wanting and self._regain(*self.wanting[0], out):
            self.wanting.popleft()
        if self.wanting and not self._anybody_runs():
            fits = next((pair for pair in self.wanting if self._regain(*pair, out)), None)
            if fits is not None:
                self.wanting.remove(fits)

    @property
    def wanted(self) -> bool:
        """True if a job wants cores back, and queued jobs are to wait for it."""
        return bool(self.wanting) and self._anybody_runs()

    def holds_back(self, request: Request, *, ahead: bool) -> bool:
        """Return True if a queued job with this request has to wait for jobs that want cores back."""
        if not (self.wanting or (ahead and self._lent)) or _CORES not in request:
            return False
        if ahead and self._ledger.free[_CORES] - self._lent < request.units[_CORES]:
            return True
        return self.wanted

    def ends(self, lease: NodeLease) -> None:
        """Record the end of a lease, with what it lent."""
        self.forget(lease)
        if lease.grant.lent:
            self._lent -= lease.grant.lent[_CORES].units[_CORES]

    def forget(self, lease: NodeLease) -> None:
        """Drop a lease whose process is about to end from those that want cores back."""
        if lease.waits is Wait.CORES:
            self.wanting = deque(pair for pair in self.wanting if pair[0] is not lease)

    def _anybody_runs(self) -> bool:
        return any(lease.waits is Wait.NOTHING for lease in self._leases.values())

    def _regain(self, lease: NodeLease, job: NodeJob, out: list[NodeAction]) -> bool:
        if lease.grant.lent:
            if not self._ledger.reclaim(lease.grant):
                return False
            self._lent -= lease.grant.allocation.units[_CORES]
        self._tell(lease, job, Wait.NOTHING, lease.heard, out)
        out.append(ResumeJob(lease.runner.id, job.id, job.attempt, _slots(lease, job)))
        return True

    def _tell(self, lease: NodeLease, job: NodeJob, waits: Wait, heard: int, out: list[NodeAction]) -> None:
        lease.waits, lease.heard = waits, heard
        held, lent = _slots(lease, job), bool(lease.grant.lent)
        out.append(TellWaits(LeaseWait(lease.id, job.id, job.attempt, waits, heard, lent, held)))

    def check(self) -> None:
        """Raise `AssertionError` unless running jobs have what they were granted, and those that wait for it lend."""
        wanting = [lease for lease, _ in self.wanting]
        lent = [lease.grant.lent[_CORES].units[_CORES] for lease in self._leases.values() if lease.grant.lent]
        assert sum(lent) == self._lent, "what is lent does not add up"
        for lease in self._leases.values():
            assert lease.waits is not Wait.NOTHING or not lease.grant.lent, "a job runs on cores that it has lent"
            assert (lease in wanting) == (lease.waits is Wait.CORES and not lease.runner.terminating)
        assert all(self._leases.get(lease.id) is lease for lease in wanting), "a lease that ended wants cores back"


def _slots(lease: NodeLease, job: NodeJob) -> str:
    """Return what a job holds, as text."""
    allocation = str(lease.grant.allocation)
    return with_memory_text(allocation, job.memory) if job.memory else allocation
