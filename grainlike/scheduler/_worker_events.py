"""Events of workers: they join, are silent, are heard again, and leave."""

from __future__ import annotations

from grainlike.scheduler._attempts import RetryPolicy
from grainlike.scheduler._events import (
    HeadAction,
    WorkerDrained,
    WorkerEvent,
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
    """Handles what workers do as a whole."""

    __slots__ = ("_attempts", "_state", "_values")

    def __init__(self, state: SchedulerState, attempts: RetryPolicy, values: Values) -> None:
        self._state = state
        self._attempts = attempts
        self._values = values

    def handle(self, event: WorkerEvent, now: float, out: list[HeadAction]) -> bool:
        """Handle an event of a worker; return True if fewer workers than before may run jobs, or other ones."""
        if isinstance(event, WorkerJoined):
            self._joined(event, now, out)
            return False
        worker = self._state.workers.get(event.worker)
        if worker is None:
            return False
        match event:
            case WorkerTimed():
                return self._timed(worker, event.left_s, now)
            case WorkerLeaving():
                return self._leave(worker, out, draining=False)
            case WorkerDrained():
                return not worker.leaving and self._leave(worker, out, draining=True)
            case WorkerStored():
                self._stored(worker, event, out)
            case WorkerSuspected():
                self._suspected(worker, now, out, broke=event.broke)
            case WorkerHeard():
                worker.heard_again(now)
                self._values.heard(out)
        return False

    def _joined(self, event: WorkerJoined, now: float, out: list[HeadAction]) -> None:
        state = self._state
        columns = event.worker, event.name, event.offer, now, state.planner.log, event.left_s
        store = None if event.store < 0 else (event.store, event.scratch)
        worker = state.workers[event.worker] = WorkerState(*columns, has_data=event.has_data, store=store)
        state.planner.reserving.joined(worker)
        self._attempts.isolate(worker, now, out)
        state.leaving.watch(worker, now)
        self._values.heard(out)
        self._values.misfits.joined(worker)

    def _timed(self, worker: WorkerState, left_s: float, now: float) -> bool:
        """Record how many seconds a worker has left."""
        if not worker.retime(left_s, now):
            return False
        self._state.leaving.retimed(worker, now)
        self._state.replication.look_at_all()
        self._state.lose_members()
        return True

    def _leave(self, worker: WorkerState, out: list[HeadAction], *, draining: bool) -> bool:
        """Give a worker nothing any more; it gives its values away while it may. One that drains ends its jobs first,
        and is released then.
        """
        worker.leave(draining=draining)
        self._values.leaving(worker, out, held=draining)
        self._state.lose_members()
        if draining:
            self._state.planner.ahead.recall_all(worker, out)
        return True

    def _stored(self, worker: WorkerState, event: WorkerStored, out: list[HeadAction]) -> None:
        """Record by how much what a worker keeps exceeds its store, and whether that is smaller from now on."""
        if worker.over or event.over:
            self._values.exceeded(worker, event.over, out)
        if not event.lost or worker.store is None or not worker.store[1]:
            return
        worker.store = worker.store[0], 0
        self._state.values.look_at_room(worker.id)
        self._state.replication.look_at_all()
        self._values.misfits.recheck()

    def _suspected(self, worker: WorkerState, now: float, out: list[HeadAction], *, broke: bool) -> None:
        """Give a suspected worker nothing new. Jobs sent ahead to it are taken back if others have room."""
        worker.shut_for("suspect", "its link has broken" if broke else "it is silent")
        self._state.replication.look_at_all()
        if broke:
            self._attempts.strike(worker, "links", now, out)
