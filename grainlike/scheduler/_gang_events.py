"""Gangs of the head: what their workers answer, and what follows when one of them is lost (`planning._gangs`)."""

from __future__ import annotations

from msgspec.structs import replace

from grainlike.scheduler._attempts import RetryPolicy
from grainlike.scheduler._events import AssignJobs, CancelJobs, HeadAction
from grainlike.scheduler._records import HeadJob
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._workers import GangHold, WorkerState
from grainlike.scheduler.planning._gangs import PlacedGang
from grainlike.wire import Code, Completed, LeaseStart

__all__ = ["GangEvents"]


class GangEvents:
    """Handles the answers of workers that hold slots for gangs. `state` and `attempts` are the scheduler's own."""

    __slots__ = ("_attempts", "_gangs", "_state")

    def __init__(self, state: SchedulerState, attempts: RetryPolicy) -> None:
        self._state = state
        self._attempts = attempts
        self._gangs = state.gangs

    def granted(
        self, worker: WorkerState, start: LeaseStart, now: float, out: list[HeadAction], *, paused: bool
    ) -> bool:
        """Record a lease that is a hold for a gang; return False if it is an ordinary lease."""
        hold = worker.holds.get((start.jobs[0], start.attempts[0]))
        if hold is None:
            return False
        worker.give(hold.shape)
        self._state.planner.shares.give(hold.job.cls.client, hold.shape)
        self._state.take_lease(worker, start.lease, hold.shape, hold.job, now)
        assignment = self._gangs.granted(hold, start.lease, start.allocation, paused=paused)
        if assignment is not None:
            out.append(self._with_needs(assignment))
        return True

    def withheld(self) -> list[HeadAction]:
        """Return what assigns the jobs whose workers have all answered while no job was to be assigned."""
        return [self._with_needs(assignment) for assignment in self._gangs.withheld()]

    def _with_needs(self, assignment: AssignJobs) -> AssignJobs:
        job = self._state.jobs[assignment.jobs[0]]
        return replace(assignment, needs=self._state.planner.near.needs([job])) if job.inputs else assignment

    def holds_ended(
        self, worker: WorkerState, completed: Completed, out: list[HeadAction], back: list[HeadJob]
    ) -> None:
        """Record which holds for gangs a worker has ended. A hold that ended without being released breaks its gang."""
        for named, code in zip(zip(completed.jobs, completed.attempts, strict=True), completed.codes, strict=True):
            hold = worker.holds.pop(named, None)
            if hold is None:
                continue
            unasked = not hold.released
            self._gangs.ended(hold)
            if code == Code.UNFIT:
                worker.refuse(hold.shape)
                self._state.lose_members()
            if unasked:
                self.break_up(hold, f"worker {worker.name} let go of its slots", out, back)

    def break_up(self, hold: GangHold, reason: str, out: list[HeadAction], back: list[HeadJob]) -> None:
        """Handle the loss of one node of a gang: it is queued again, once its job, if that was assigned, has ended."""
        job = hold.job
        gang = self._gangs.of(job)
        assert gang is not None
        if not gang.assembled:
            self.take_apart(job, out)
            job.attempt += 1
            back.append(job)
        elif gang.broken is None:
            gang.broken, gang.lost = reason, not hold.worker.stops
            if not job.cancelled:
                out.append(CancelJobs(job.worker, [job.id], [job.attempt]))

    def broke(
        self,
        job: HeadJob,
        gang: PlacedGang,
        worker: WorkerState,
        now: float,
        out: list[HeadAction],
        back: list[HeadJob],
    ) -> None:
        """Handle the end, without a value, of the job of a broken gang."""
        if gang.lost and gang.broken is not None:
            self._attempts.lost(job, worker, gang.broken, now, out, back, suspect=False)
        else:
            job.attempt += 1
            back.append(job)

    def take_apart(self, job: HeadJob, out: list[HeadAction]) -> None:
        """Release all holds of a gang whose job was not assigned yet; the caller queues or drops the job."""
        self._state.release(self._state.workers[job.worker], job, out)

    def hurry(self, now: float, out: list[HeadAction]) -> None:
        """Release half-assembled gangs that are overdue, so that the one that goes first gets its slots."""
        late = self._gangs.overdue(now)
        for job in late:
            self.take_apart(job, out)
            job.attempt += 1
        self._state.requeue(late, out)
