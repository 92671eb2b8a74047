"""Gangs: jobs that have slots on several workers at once, all of them or none.

A gang goes through these steps:

1. *Placed.* One pass finds as many workers as it has nodes, and counts the amounts against all of them at once, so no
   two gangs ever wait for each other's amounts. Each of the workers is asked to hold its slots
   (`GangHold`).
2. *Assembled.* Each answers with ids. When the last has, the job is assigned to the first, its leader, where it runs on
   the slots that are held there; it receives the allocations of all the others.
3. *Disbanded.* When the job has ended, in whatever way, every other worker is asked to release its slots.

If a worker cannot hold the slots, or is lost before the job was assigned, the others release theirs and the gang is
queued again. If one is lost later, the leader's job is stopped; when that has ended the gang is queued again, as after
the loss of its own worker.

A node counts ids where the head counts amounts, so holds may wait there for a layout (`pack=`, shares of devices) that
another half-assembled gang has. Therefore only the one that goes first may wait without a limit: any other that has not
been assembled for `ASSEMBLE_S` releases its slots and is queued again. So the first is always assembled in the end, and
then the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grainlike.scheduler._events import AssembleGang, AssignJobs, CancelJobs, HeadAction
from grainlike.scheduler._records import HeadJob, Shape, order
from grainlike.scheduler._workers import GangHold, WorkerState
from grainlike.scheduler.planning._shares import Shares

__all__ = ["ASSEMBLE_S", "Gangs", "PlacedGang"]

ASSEMBLE_S = 5.0
"""Seconds for which a gang may hold some slots while it waits for the others, if a gang that goes first does so too."""


class PlacedGang:
    """Record of a gang that is placed. `holds`: one for each node, the leader's first."""

    __slots__ = ("assembled", "broken", "holds", "job", "lost", "since")

    def __init__(self, job: HeadJob, holds: list[GangHold], since: float) -> None:
        self.job = job
        self.holds = holds
        self.since = since
        self.assembled = False
        """True once its job was assigned, and may run."""
        self.broken: str | None = None
        """The reason why one of its nodes was lost after its job was assigned; the job is being stopped."""
        self.lost = False
        """True if that counts as a loss; False if the worker stops in good order."""


class Gangs:
    """The gangs that are placed, by the number of their job, until the job is taken from its workers."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._gangs: dict[int, PlacedGang] = {}
        self.assembling: dict[int, PlacedGang] = {}
        """Those of them of which not all workers have answered."""

    def of(self, job: HeadJob) -> PlacedGang | None:
        """Return the gang of a job; None for one that is no gang, or not placed."""
        return self._gangs.get(job.id)

    def assemble(self, job: HeadJob, shape: Shape, workers: Sequence[WorkerState], now: float) -> AssembleGang:
        """Count slots of the shape as held on all these workers; return the action that asks for them."""
        holds = [GangHold(job, worker, shape, now) for worker in workers]
        for hold in holds:
            hold.worker.take(shape)
            self._shares.take(job.cls.client, shape)
            hold.worker.holds[job.id, job.attempt] = hold
        self._gangs[job.id] = self.assembling[job.id] = PlacedGang(job, holds, now)
        return AssembleGang(shape.id, job.id, job.attempt, [worker.id for worker in workers])

    def granted(self, hold: GangHold, lease: int, allocation: str, *, paused: bool = False) -> AssignJobs | None:
        """Record the slots that a worker has granted. Return the job's assignment to its leader if it was the last
        worker; None while assignments are `paused`, see `withheld`.
        """
        hold.lease, hold.allocation = lease, allocation
        gang = self._gangs.get(hold.job.id)
        return None if paused or hold.released or gang is None else self._assignment(gang)

    def withheld(self) -> list[AssignJobs]:
        """Assign the gangs of which all workers have answered while assignments were paused."""
        found = map(self._assignment, list(self.assembling.values()))
        return [assignment for assignment in found if assignment is not None]

    def _assignment(self, gang: PlacedGang) -> AssignJobs | None:
        """Return the assignment of a gang's job to its leader; None while not all workers have answered."""
        if not all(held.lease for held in gang.holds):
            return None
        gang.assembled = True
        del self.assembling[gang.job.id]
        job, leader = gang.job, gang.holds[0]
        # From here on its slots are an ordinary lease of the job, whose end is reported as any other.
        del leader.worker.holds[job.id, job.attempt]
        where = tuple((held.worker.id, held.allocation) for held in gang.holds)
        worker, shape = leader.worker.id, leader.shape
        return AssignJobs(worker, shape.id, False, [job.id], [job.attempt], [job.fn.id], shape.hard_s, where)

    def ended(self, hold: GangHold) -> None:
        """Record that a worker holds the slots no more; if they were granted, the end of their lease frees them."""
        hold.released = True
        if not hold.lease:
            hold.worker.give(hold.shape)
            self._shares.give(hold.job.cls.client, hold.shape)

    def disband(self, job: HeadJob, out: list[HeadAction]) -> None:
        """Ask all workers that hold slots for a job, except the one that runs it, to release them."""
        gang = self._gangs.pop(job.id)
        self.assembling.pop(job.id, None)
        for hold in gang.holds[1:] if gang.assembled else gang.holds:
            if not hold.released and not hold.worker.gone:
                out.append(CancelJobs(hold.worker.id, [job.id], [job.attempt]))
            hold.released = True

    def overdue(self, now: float) -> list[HeadJob]:
        """Return the jobs of half-assembled gangs that must release their slots now."""
        return [gang.job for gang in self._hurried() if now >= gang.since + ASSEMBLE_S]

    @property
    def due(self) -> float | None:
        """Time at which the next gang must release its slots, if nothing happens before."""
        return min((gang.since + ASSEMBLE_S for gang in self._hurried()), default=None)

    def _hurried(self) -> list[PlacedGang]:
        """Return all gangs that are being assembled except the one that goes first."""
        return sorted(self.assembling.values(), key=lambda gang: order(gang.job))[1:]

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self, jobs: Iterable[HeadJob], workers: Iterable[WorkerState]) -> None:
        """Raise `AssertionError` unless the workers' holds match the gangs. For tests."""
        placed = {job.id for job in jobs if job.shape is not None and job.shape.nodes > 1}
        assert placed == set(self._gangs), "a gang is known while its job is placed"
        assert set(self.assembling) == {number for number, gang in self._gangs.items() if not gang.assembled}
        for gang in self._gangs.values():
            members = [hold.worker.id for hold in gang.holds]
            assert len(members) == gang.holds[0].shape.nodes == len(set(members)), "a gang has slots on all its workers"
            assert gang.job.worker == members[0], "the first worker leads"
            assert gang.broken is not None or not any(hold.released for hold in gang.holds), "all of it or nothing"
        asked = {hold for gang in self._gangs.values() for hold in gang.holds if not hold.released}
        held = [hold for worker in workers for hold in worker.holds.values() if not hold.released]
        assert asked.issuperset(held), "slots are held for a gang that is not placed"
