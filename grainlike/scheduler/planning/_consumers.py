"""Consumers first: at workers whose stores are nearly full, jobs that free nothing wait for those that do.

A consumer is the last unfinished job that needs some value, so that its end may free that. Other jobs start at a
crowded worker only while no consumer runs, is on its way to its inputs, or could start now. So nothing waits for what
waits itself, and what holds something is never held up: jobs of jobs go on, and so does what makes a lost value again.

Nor do jobs start at any worker whose function gave more, so far, than that has room for, while another one that could
run them has room: they would fail, or exceed the store. One whose own value found no room at a worker runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grainlike.scheduler._records import HeadJob, Shape
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._reservation import Reservation
from grainlike.scheduler.values._rooms import Rooms
from grainlike.scheduler.values._table import ValueTable
from grainlike.wire import Wait

__all__ = ["Consumers"]

_StartOn = Callable[[HeadJob, Shape, float], WorkerState | None]
"""Returns a worker on which a job with inputs could start now."""


class Consumers:
    """Says which jobs may start at workers that are crowded, or lack room for their values. `table` and `rooms` are the
    scheduler's own, not copies.
    """

    __slots__ = ("_active", "_rooms", "_start_on", "_table")

    def __init__(self, table: ValueTable, rooms: Rooms, start_on: _StartOn) -> None:
        self._table = table
        self._rooms = rooms
        self._start_on = start_on
        self._active: bool | None = None

    def begin_pass(self) -> None:
        """Look again, when that is first asked for, whether a consumer runs or could start."""
        self._active = None

    def may_start(self, worker: WorkerState, job: HeadJob, now: float) -> bool:
        """Return True if a job may start at a worker that is crowded, or may have no room for what the job gives."""
        if self.where_room_is(worker, job) is not None:
            self._table.tight[worker.id] = worker
            return False
        if not worker.crowded or self._goes_on(job):
            return True
        if self._active is None:
            self._active = self._is_any_active(now)
        return not self._active

    def binding(self, job: HeadJob, reservations: Iterable[Reservation]) -> list[Reservation]:
        """Return the reservations of a crowded worker that bind a job: a consumer is bound by those of consumers."""
        return [held for held in reservations if self._goes_on(held.job) or not self._goes_on(job)]

    def where_room_is(self, worker: WorkerState, job: HeadJob) -> WorkerState | None:
        """Return the worker for which a job waits, as this one has no room for what it gives."""
        return None if job.tried is None and self._goes_on(job) else self._rooms.has_more_elsewhere(worker, job)

    def holds_back(self, job: HeadJob, now: float) -> bool:
        """Return True if a job may not start at a crowded worker, as `may_start` would say, and remember nothing."""
        return not self._goes_on(job) and self._is_any_active(now)

    def _goes_on(self, job: HeadJob) -> bool:
        return job.parent is not None or self._frees(job)

    def _is_any_active(self, now: float) -> bool:
        return any(self._is_active(user, now) for user in self._table.last_users())

    def _frees(self, job: HeadJob) -> bool:
        """Return True for the last job that needs some value, and for one that makes a value again."""
        if job.data is None:
            return False
        return job.data.remakes or any(self._table.last_user(number) is job for number in job.inputs)

    def _is_active(self, job: HeadJob, now: float) -> bool:
        """Return True if a consumer runs, is on its way, or could start now."""
        if job.cancelled:
            return False
        if job.worker:
            return job.family is None or job.family.waits == Wait.NOTHING
        if job.state is JobState.MOVING:
            return job.data is not None and bool(job.data.lacks)
        if job.state is not JobState.QUEUED or job.cls.head() is not job:
            return False
        shapes = (shape for shape in job.cls.shapes if shape.nodes == 1 and not shape.rationed)
        return any(self._start_on(job, shape, now) is not None for shape in shapes)
