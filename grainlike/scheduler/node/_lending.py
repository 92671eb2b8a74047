"""Lending: while a job awaits jobs of its own, others have its cores; it goes on when it has them again.

The rules:

1. Only cores are lent; memory, devices and named resources stay held. A function with `keep=True` lends nothing.
2. Cores that come free go to who wants its own back, in the order of asking, before any queued job gets them. Jobs that
   ask for no cores are not held up by that.
3. What was sent ahead gets no cores that are lent: whose they shall be is for the head to say, which knows who descends
   from whom, and plans for it.
4. Where nobody runs, because all wait, the first that fits goes on, whoever asked before: to insist on the order would
   keep what is there from everybody.

It may get other cores than it lent: it says which when it goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from grainlike.resources import Ledger, Request
from grainlike.scheduler._events import NodeAction, ResumeJob, TellWaits
from grainlike.scheduler.node._records import NodeJob, NodeLease
from grainlike.wire import LeaseWait, Wait

__all__ = ["Lending"]

_CORES = "cores"


class Lending:
    """Which leases of one node wait, and which of them want their cores back. `leases` are the mind's own, live."""

    __slots__ = ("_leases", "_ledger", "_lent", "wanting")

    def __init__(self, ledger: Ledger, leases: Mapping[int, NodeLease]) -> None:
        self._ledger = ledger
        self._leases = leases
        self._lent = 0
        self.wanting: deque[tuple[NodeLease, NodeJob]] = deque()
        """Who wants cores back; to look at, and not to change."""

    def awaits(self, lease: NodeLease, job: NodeJob, heard: int, out: list[NodeAction]) -> None:
        """The job waits for children; said again, it has heard of more of them."""
        if lease.waits is Wait.CORES:
            return
        if lease.waits is Wait.NOTHING and not (job.fn.keep or lease.keeps) and _CORES in lease.grant.allocation:
            self._lent += lease.grant.allocation.units[_CORES]
            self._ledger.lend(lease.grant)
        self._tell(lease, job, Wait.CHILDREN, heard, out)

    def goes_on(self, lease: NodeLease, job: NodeJob, heard: int, out: list[NodeAction]) -> None:
        """What the job awaited is there. It goes on now, or when it has its cores again."""
        if lease.waits is not Wait.CHILDREN:
            return
        lease.heard = heard
        if (self.wanting and self._anybody_runs()) or not self._regain(lease, job, out):
            self.wanting.append((lease, job))
            self._tell(lease, job, Wait.CORES, heard, out)

    def resume(self, out: list[NodeAction]) -> None:
        """Give cores back to those who can have them."""
        while self.wanting and self._regain(*self.wanting[0], out):
            self.wanting.popleft()
        if self.wanting and not self._anybody_runs():
            fits = next((pair for pair in self.wanting if self._regain(*pair, out)), None)
            if fits is not None:
                self.wanting.remove(fits)

    @property
    def wanted(self) -> bool:
        """Whether somebody wants cores back, and others are to wait."""
        return bool(self.wanting) and self._anybody_runs()

    def holds_back(self, request: Request, *, ahead: bool) -> bool:
        """Whether a queued job that asks for this has to wait for those who lent cores."""
        if not (self.wanting or (ahead and self._lent)) or _CORES not in request:
            return False
        if ahead and self._ledger.free[_CORES] - self._lent < request.units[_CORES]:
            return True
        return self.wanted

    def ends(self, lease: NodeLease) -> None:
        """The lease ends: what it lent is nobody's now."""
        self.forget(lease)
        if lease.grant.lent:
            self._lent -= lease.grant.lent[_CORES].units[_CORES]

    def forget(self, lease: NodeLease) -> None:
        """Its process is about to end: it wants nothing any more."""
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
        out.append(ResumeJob(lease.runner.id, job.id, job.attempt, str(lease.grant.allocation)))
        return True

    def _tell(self, lease: NodeLease, job: NodeJob, waits: Wait, heard: int, out: list[NodeAction]) -> None:
        lease.waits, lease.heard = waits, heard
        held, lent = str(lease.grant.allocation), bool(lease.grant.lent)
        out.append(TellWaits(LeaseWait(lease.id, job.id, job.attempt, waits, heard, lent, held)))

    def check(self) -> None:
        """Raise `AssertionError` unless who runs has what it was granted, and who wants something back lends it."""
        wanting = [lease for lease, _ in self.wanting]
        lent = [lease.grant.lent[_CORES].units[_CORES] for lease in self._leases.values() if lease.grant.lent]
        assert sum(lent) == self._lent, "what is lent does not add up"
        for lease in self._leases.values():
            assert lease.waits is not Wait.NOTHING or not lease.grant.lent, "a job runs on cores that it has lent"
            assert (lease in wanting) == (lease.waits is Wait.CORES and not lease.runner.terminating)
        assert all(self._leases.get(lease.id) is lease for lease in wanting), "a lease that ended wants cores back"
