"""Retry policy of the head scheduler: which attempts that ended without a value are followed by another, and which
count against their worker.
"""

from __future__ import annotations

from grainlike._retrying import tries_again
from grainlike.scheduler._events import (
    MAX_LOSSES,
    HeadAction,
    JobsBackedOff,
    JobsLost,
    WorkerQuarantined,
    WorkerReleased,
)
from grainlike.scheduler._quarantine import Quarantine, Strike
from grainlike.scheduler._records import HeadJob, Shape
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._states import JobState
from grainlike.scheduler._value_events import OutputsUnfit
from grainlike.scheduler._workers import WorkerState
from grainlike.wire import Code, Completed

__all__ = ["RetryPolicy"]


class RetryPolicy:
    """Decides which jobs are tried again. Jobs to queue again at once are appended to `back`; those that back off first
    go to the state's `backoffs`.

    Attributes:
        quarantine: failures of workers, and which workers are in quarantine for them.
        isolated: the connected workers that get nothing new for that reason.
    """

    def __init__(self, state: SchedulerState, *, closed: bool) -> None:
        self.quarantine = Quarantine()
        self.isolated: dict[int, WorkerState] = {}
        self._state = state
        self._closed = closed

    def runs_again(
        self,
        job: HeadJob,
        shape: Shape | None,
        code: int,
        worker: WorkerState,
        completed: Completed,
        now: float,
        out: list[HeadAction],
        back: list[HeadJob],
    ) -> bool:
        """Return True if this end of an attempt is not the job's outcome: the job is in `back`, backs off, or was given
        up as lost.
        """
        if code in (Code.RETURNED, Code.UNFIT):
            if code == Code.UNFIT and shape is not None:
                worker.refuse(shape)
                self._state.lose_members()
            back.append(job)
        elif code == Code.UNSTARTED:
            how = completed.details.get(job.id, "no process could be started")
            self.strike(worker, "starts", now, out, f"a job could not be started there: {how}")
            if self._closed:  # no other worker will join that could start it
                self.lost(job, worker, how, now, out, back, suspect=False, most=max(job.fn.losses, MAX_LOSSES - 1))
            else:
                job.attempt += 1
                back.append(job)
        elif code in (Code.CRASHED, Code.UNBEGUN):
            if completed.never_ran:
                self.strike(worker, "starts", now, out, "a process died there before it had begun anything")
            # One that has not begun may run whatever `losses` says, but not for ever: it may be what ends processes.
            most = MAX_LOSSES - 1 if code == Code.UNBEGUN and not job.fn.losses else None
            self.lost(job, worker, completed.details.get(job.id, "its runner died"), now, out, back, most=most)
        else:
            return self._ended(job, code, worker, completed, now, out, back)
        return True

    def _ended(
        self,
        job: HeadJob,
        code: int,
        worker: WorkerState,
        completed: Completed,
        now: float,
        out: list[HeadAction],
        back: list[HeadJob],
    ) -> bool:
        """Handle an attempt that has ended by itself, or was ended; return as `runs_again`."""
        rooms = self._state.transfers.rooms
        wanted = completed.wanted.get(job.id, 0) if code == Code.FAILED else 0
        goes_elsewhere = wanted > 0 and rooms.lacked(worker, job, wanted)
        if job.committed:
            return False
        if code == Code.STOPPED and not job.fn.losses:
            self.lost(job, worker, "it was stopped", now, out, back)
            return True
        unfinished = code in (Code.STOPPED, Code.INPUT_GONE)  # with an input gone it had not begun
        if unfinished or goes_elsewhere or (code == Code.OUT_OF_MEMORY and self._grows(job)):
            job.attempt += 1
            back.append(job)
            return True
        if tries_again(job.failures + 1, job.fn.retries, covered=_is_covered(job, code, completed)):
            job.remembered().failures += 1
            job.attempt += 1
            self._back_off(job, now, out, back)
            return True
        why = rooms.why_nowhere(job) if wanted else ""
        if why:
            self._state.drop(job)
            out.append(OutputsUnfit([job.id], why))
        return bool(why)

    def lost(
        self,
        job: HeadJob,
        worker: WorkerState,
        reason: str,
        now: float,
        out: list[HeadAction],
        back: list[HeadJob],
        *,
        suspect: bool = True,
        most: int | None = None,
    ) -> None:
        """Handle the death of a running job's worker or runner; a `suspect` has a process of its own from now on."""
        job.remembered().losses += 1
        job.attempt += 1
        if job.committed or job.losses > (job.fn.losses if most is None else most):
            self._state.drop(job)
            out.append(JobsLost([job.id], worker.id, reason, job.losses))
            return
        if suspect:
            job.cls = self._state.catalogue.like(job.cls, job.request, isolate=True)
            job.own = None
        self._back_off(job, now, out, back)

    def _back_off(self, job: HeadJob, now: float, out: list[HeadAction], back: list[HeadJob]) -> None:
        """Queue a job for its next attempt: after a wait if its function has a backoff, else at once."""
        seconds = self._state.backoffs.wait(job, now) if job.state is JobState.LEASED else None
        if seconds is None:
            back.append(job)
        else:
            out.append(JobsBackedOff([job.id], seconds))

    def _grows(self, job: HeadJob) -> bool:
        """Give a job that ran out of memory the next larger request, if it has one that a worker here could grant."""
        grown = job.request.grown()
        if grown is None:
            return False
        catalogue = self._state.catalogue
        cls = catalogue.like(job.cls, grown, isolate=job.cls.isolate)
        if self._closed and not catalogue.anybody_fits(cls):
            return False
        job.cls, job.own = cls, None
        return True

    # --- workers -----------------------------------------------------------------------------------------------------

    def strike(self, worker: WorkerState, kind: Strike, now: float, out: list[HeadAction], why: str = "") -> None:
        """Count a failure against a worker, which may put it in quarantine."""
        if self.quarantine.strike(worker.name, kind, now, why):
            self.isolate(worker, now, out)

    def isolate(self, worker: WorkerState, now: float, out: list[HeadAction]) -> None:
        """Give a worker nothing new if its name is in quarantine."""
        why = self.quarantine.why(worker.name, now)
        if why and not worker.gone:
            worker.shut_for("quarantine", why)
            self.isolated[worker.id] = worker
            out.append(WorkerQuarantined(worker.id, why))

    def release(self, now: float, out: list[HeadAction]) -> float | None:
        """Give new jobs again to workers whose quarantine is over; return when the next one's is."""
        due: float | None = None
        for number, worker in sorted(self.isolated.items()):
            until = self.quarantine.until(worker.name) if not worker.gone else now
            if now >= until:
                del self.isolated[number]
                if not worker.gone:
                    worker.open_again("quarantine")
                    out.append(WorkerReleased(number))
            elif due is None or until < due:
                due = until
        if due is None:
            self.quarantine.forget_old(now)
        return due


def _is_covered(job: HeadJob, code: int, completed: Completed) -> bool:
    """Return True if the job's `Retry` covers this end; for exceptions its runner has decided that."""
    if code == Code.TIMED_OUT:
        return job.fn.on_timeout
    return code in (Code.FAILED, Code.OUT_OF_MEMORY) and job.id not in completed.final
