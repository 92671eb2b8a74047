"""Slots that a node holds for gangs: leases without a runner.

A gang's job runs on one worker, its leader, and has slots on others too, so that what it starts there (an MPI rank,
say) has them to itself. The head asks each of these workers to hold slots. The node grants ids as soon as it can, and
says so; where the job is then assigned, it starts on what is held (`pop`). Elsewhere nothing runs on them; they are
free again when the head cancels the hold, or when the node stops.

By the head's counts all that it asked for fits, so a hold waits only for jobs that the node itself started ahead, for
a layout, or for the end of idle processes that may hold memory of its devices. Nothing else starts while one waits, or
a stream of jobs could take each slot that comes free. But all waiting holds are tried: one that waits for a layout must
not keep other gangs half-assembled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grainlike.resources import Allocation, Grant, Ledger
from grainlike.scheduler.node._events import NodeAction, TellCompleted, TellEnded, TellHeld
from grainlike.scheduler.node._records import NodeClass
from grainlike.scheduler.node._runners import Runners
from grainlike.wire import Assign, Cancel, Code, Completed, LeaseStart
from grainlike.wire import Hold as HoldSlots

__all__ = ["NodeHold", "NodeHolds"]


class NodeHold:
    """Slots for one attempt of one gang. `lease` is 0 and `grant` None until they are granted."""

    __slots__ = ("attempt", "cls", "grant", "id", "lease")

    def __init__(self, job: int, attempt: int, cls: NodeClass) -> None:
        self.id = job
        self.attempt = attempt
        self.cls = cls
        self.lease = 0
        self.grant: Grant | None = None


class NodeHolds:
    """All holds of one node, by job, in the order in which they came. `next_lease` numbers its leases."""

    def __init__(self, ledger: Ledger, next_lease: Callable[[], int]) -> None:
        self._ledger = ledger
        self._next_lease = next_lease
        self.by_job: dict[int, NodeHold] = {}
        """Read-only for callers."""

    def ask(self, event: HoldSlots, cls: NodeClass, now: float, out: list[NodeAction]) -> None:
        """Add holds. One that this node could not even grant when idle is refused at once."""
        for job, attempt in zip(event.jobs, event.attempts, strict=True):
            hold = self.by_job[job] = NodeHold(job, attempt, cls)
            if not cls.fits:
                self._end(hold, Code.UNFIT, now, out)

    def grant_all(self, now: float, out: list[NodeAction], runners: Runners) -> bool:
        """Grant what can be granted; return False while some hold still waits."""
        waiting = [hold for hold in self.by_job.values() if hold.grant is None]
        for hold in waiting:
            grant = self._ledger.grant(hold.cls.request)
            if grant is not None and hold.cls.devices and not runners.make_room(grant, now, out, starts=False):
                self._ledger.release(grant)
                grant = None
            hold.grant = grant
            if hold.grant is not None:
                hold.lease = self._next_lease()
                allocation = str(hold.grant.allocation)
                out.append(TellHeld(LeaseStart(hold.lease, hold.cls.id, allocation, [hold.id], [hold.attempt], now)))
        return all(hold.grant is not None for hold in waiting)

    def pop(self, event: Assign) -> NodeHold | None:
        """Remove and return the hold on whose slots an assigned job is to run; None for any other job."""
        hold = self.by_job.get(event.jobs[0])
        if hold is None or hold.attempt != event.attempts[0] or hold.grant is None:
            return None
        return self.by_job.pop(hold.id)

    def cancel(self, event: Cancel, now: float, out: list[NodeAction]) -> None:
        """End holds that the head cancels."""
        for job, attempt in zip(event.jobs, event.attempts, strict=True):
            hold = self.by_job.get(job)
            if hold is not None and hold.attempt == attempt:
                self._end(hold, Code.CANCELLED, now, out)

    def release(self, now: float, out: list[NodeAction]) -> None:
        """End all holds: the node stops."""
        for hold in list(self.by_job.values()):
            self._end(hold, Code.RETURNED, now, out)

    def _end(self, hold: NodeHold, code: Code, now: float, out: list[NodeAction]) -> None:
        del self.by_job[hold.id]
        out.append(TellCompleted(Completed.without_payloads(hold.lease, [hold], [code], now, {}), forwarded=False))
        if hold.grant is not None:
            self._ledger.release(hold.grant)
            out.append(TellEnded(hold.lease))

    def allocations(self) -> Iterator[Allocation]:
        """Return what is granted; for the invariants."""
        return (hold.grant.allocation for hold in self.by_job.values() if hold.grant is not None)
