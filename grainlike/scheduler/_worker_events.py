"""Events of workers: they join, are silent, are heard again, and leave."""

from __future__ import annotations

from grainlike.scheduler._attempts import RetryPolicy
from grainlike.scheduler._events import (
    HeadAction,
    WorkerDrained,
    WorkerHeard,
    WorkerJoined,
    WorkerLeaving,
    WorkerStored,
    WorkerSuspected,
    WorkerTimed,
)
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._values import Values

__all__ = ["WorkerEvents"]


class WorkerEvents:
    """Handles what workers do as a whole. Those methods that return True leave fewer workers than before to run jobs,
    or other ones.
    """

    __slots__ = ("_attempts", "_state", "_values")

    def __init__(self, state: SchedulerState, attempts: RetryPolicy, values: Values) -> None:
        self._state = state
        self._attempts = attempts
        self._values = values

    def joined(self, event: WorkerJoined, now: float, out: list[HeadAction]) -> None:
        """Accept a worker."""
        state = self._state
        columns = event.worker, event.name, event.offer, now, state.planner.log, event.left_s
        store = None if event.store < 0 else (event.store, event.scratch)
        worker = state.workers[event.worker] = WorkerState(*columns, has_data=event.has_data, store=store)
        state.planner.reserving.joined(worker)
        self._attempts.isolate(worker, now, out)
        state.leaving.watch(worker, now)
        self._values.heard(out)
        self._values.misfits.joined(worker)

    def timed(self, event: WorkerTimed, now: float) -> bool:
        """Record how many seconds a worker has left."""
        worker = self._state.workers.get(event.worker)
        if worker is None or not worker.retime(event.left_s, now):
            return False
        self._state.leaving.retimed(worker, now)
        self._state.replication.look_at_all()
        self._state.lose_members()
        return True

    def leaving(self, event: WorkerLeaving, out: list[HeadAction]) -> bool:
        """Give a worker that stops nothing any more; it gives its values away while it may."""
        worker = self._state.workers.get(event.worker)
        if worker is None:
            return False
        self._leave(worker, out, draining=False)
        return True

    def drained(self, event: WorkerDrained, out: list[HeadAction]) -> bool:
        """Let a worker end its jobs and give its values away, and release it then."""
        worker = self._state.workers.get(event.worker)
        if worker is None or worker.leaving:
            return False
        self._leave(worker, out, draining=True)
        self._state.planner.ahead.recall_all(worker, out)
        return True

    def _leave(self, worker: WorkerState, out: list[HeadAction], *, draining: bool) -> None:
        worker.leave(draining=draining)
        self._values.leaving(worker, out, held=draining)
        self._state.lose_members()

    def stored(self, event: WorkerStored, out: list[HeadAction]) -> None:
        """Record by how much what a worker keeps exceeds its store, and whether that is smaller from now on."""
        worker = self._state.workers.get(event.worker)
        if worker is None:
            return
        if worker.over or event.over:
            self._values.exceeded(worker, event.over, out)
        if not event.lost or worker.store is None or not worker.store[1]:
            return
        worker.store = worker.store[0], 0
        self._state.values.look_at_room(worker.id)
        self._state.replication.look_at_all()
        self._values.misfits.recheck()

    def suspected(self, event: WorkerSuspected, now: float, out: list[HeadAction]) -> None:
        """Give a suspected worker nothing new. Jobs sent ahead to it are taken back if others have room."""
        worker = self._state.workers.get(event.worker)
        if worker is not None:
            worker.shut_for("suspect", "its link has broken" if event.broke else "it is silent")
            self._state.replication.look_at_all()
            if event.broke:
                self._attempts.strike(worker, "links", now, out)

    def heard(self, event: WorkerHeard, now: float, out: list[HeadAction]) -> None:
        """Let a suspected worker go on."""
        worker = self._state.workers.get(event.worker)
        if worker is not None:
            worker.heard_again(now)
            self._values.heard(out)
