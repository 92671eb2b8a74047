"""Watch for deadlocks: when to look for one, and which job is failed to break it.

`_deadlock` says what a deadlock is. It is looked for when nothing runs, and now and then while other jobs do.
"""

from __future__ import annotations

from grainlike.scheduler._deadlock import find_deadlock
from grainlike.scheduler._events import Deadlock, HeadAction, JobsDeadlocked
from grainlike.scheduler._job_tree import stands_still
from grainlike.scheduler._records import HeadJob
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._states import JobState

__all__ = ["DeadlockWatch"]

STUCK_S = 5.0
"""Seconds for which a deadlock is left alone, as a worker might join; also the time between two looks while other jobs
run.
"""

STRANDED_S = 20.0
"""Seconds after which a job that was sent to a worker where all jobs wait, and has not started, counts as unable to. A
silent worker is noticed after 15 s (`SUSPECT_S`), so this has to be longer.
"""


class DeadlockWatch:
    """Looks for deadlocks among the jobs of one head. `wake` is when to look again."""

    __slots__ = ("_closed", "_look_at", "_state", "_stuck_since", "wake")

    def __init__(self, state: SchedulerState, *, closed: bool) -> None:
        self._state = state
        self._closed = closed
        self._stuck_since: float | None = None
        self._look_at: float | None = None
        self.wake: float | None = None

    def look(self, now: float, out: list[HeadAction]) -> Deadlock | None:
        """Lend cores so that a waiting job can continue; return the deadlock for which a job is to be failed now, if
        any.

        Where a worker might join, a warning (`JobsDeadlocked` with `failed=False`) comes first.
        """
        self.wake = None
        job_tree, workers = self._state.job_tree, self._state.workers
        queued = job_tree.queued()
        if not (queued and job_tree.all_wait(workers.values())):
            if self._look_at is None:
                self._look_at = now + STUCK_S
            if now < self._look_at:
                self.wake = self._look_at
                return None
        self._look_at = None
        if queued:
            self._state.planner.plan(now, out, lend_to_all=True)
            if not self._state.planner.whole:
                self._look_at = self.wake = now
                return None
        stranded = self._stranded(now)
        deadlock = find_deadlock(list(workers.values()), job_tree.queued(), stranded, now)
        if deadlock is None:
            self._stuck_since = None
            self._wake_at(job_tree.next_stalled(now))
        elif self._closed or (self._stuck_since is not None and now >= self._stuck_since + STUCK_S):
            self._stuck_since = None
            return deadlock
        else:
            if self._stuck_since is None:
                self._stuck_since = now
                out.append(JobsDeadlocked(deadlock, failed=False))
            self._wake_at(self._stuck_since + STUCK_S)
        return None

    def _stranded(self, now: float) -> list[HeadJob]:
        """Return jobs that have long not started at workers where all jobs wait: amounts fit, the layout does not."""
        planned: list[HeadJob] = []
        for worker in self._state.workers.values():
            if worker.shut:  # assignments and reports may still be on the way
                continue
            started = [job for job in worker.held.values() if job.state is JobState.LEASED]
            if all(stands_still(job, now) for job in started):
                planned += [job for job in worker.held.values() if job.state is JobState.PLANNED and not job.cancelled]
        late = [job for job in planned if now >= job.sent + STRANDED_S]
        if len(late) < len(planned):
            self._look_at = now + STUCK_S
            self._wake_at(self._look_at)
        return late

    def _wake_at(self, at: float | None) -> None:
        if at is not None and (self.wake is None or at < self.wake):
            self.wake = at
