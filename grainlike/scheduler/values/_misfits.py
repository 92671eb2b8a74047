"""Misfits: jobs whose inputs fit into no store of a worker that could run them.

If own values of the program are too large, they travel in the arguments of the job, because no store has to hold them
then; also with a job that nothing could make room for (`Overdrafts`). Other misfits wait for a worker with a larger
store, or fail if no worker can join.
"""

from __future__ import annotations

from collections.abc import Container

from grainlike.scheduler._events import HeadAction
from grainlike.scheduler._records import HeadJob, note_sizes
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._value_events import PROGRAM, InputsTravel, InputsUnfit
from grainlike.scheduler._workers import WorkerState

__all__ = ["Misfits"]


class Misfits:
    """Misfits of one head. `state` is the scheduler's state."""

    __slots__ = ("_rooms", "_state", "_table")

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._table = state.values
        self._rooms = state.transfers.rooms

    def joined(self, worker: WorkerState) -> None:
        """Look at the jobs that only a new worker could run: before, they were misfits of no worker's store."""
        if worker.store is None or not self._table.values:
            return
        others = [other for other in self._state.workers.values() if other is not worker]
        shapes = [shape for shape in self._state.catalogue.shapes.values() if worker.fits_ever(shape)]
        alone = {shape.id for shape in shapes if not any(other.fits_ever(shape) for other in others)}
        if alone:
            self.recheck(alone)

    def recheck(self, shapes: Container[int] | None = None) -> None:
        """Look at jobs, of these shapes, whose inputs may fit into no store because workers or disks have gone."""
        rooms = self._rooms
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        for value in self._table.values.values():
            for job in (value.users or {}).values():
                if job.worker or self._state.jobs.get(job.id) is not job:
                    continue
                if shapes is not None and not any(shape.id in shapes for shape in job.cls.shapes):
                    continue
                alike = tuple(shape.id for shape in job.cls.shapes), job.inputs
                if alike not in known:
                    known[alike] = rooms.is_misfit(job)
                if known[alike]:
                    rooms.note_misfit(job)

    def resolve(self, out: list[HeadAction], *, closed: bool) -> None:
        """Let own values travel with the noted jobs, if that helps. If workers may join, warn about the other jobs, and
        let them wait; otherwise drop them.
        """
        rooms = self._rooms
        misfits, rooms.misfits = rooms.misfits, {}
        travels: list[HeadJob] = []
        for job in misfits.values():
            if self._state.jobs.get(job.id) is not job or job.worker or not rooms.is_misfit(job):
                continue
            if self.travelling(job):
                travels.append(job)
            elif closed:
                out.append(InputsUnfit([job.id], rooms.why_misfit(job), failed=True))
                self._state.withdraw(job)
            elif job.fn.id not in rooms.warned:
                rooms.warned.add(job.fn.id)
                out.append(InputsUnfit([job.id], rooms.why_misfit(job), failed=False))
        if travels:
            self.let_travel(travels, out)

    def travelling(self, job: HeadJob) -> list[int]:
        """Return the own values that travel with a job. A client's job that has failed or was lost before gets none,
        because its attempts would be counted from zero again. A job of a session gets none, because other calls know it
        by its number, and a job that makes a value again, because it is submitted by no program.
        """
        own = self._rooms.travelling(job)
        is_first = not (job.failures or job.losses or (job.data is not None and job.data.remakes))
        givers = {PROGRAM, job.cls.client} if is_first else {PROGRAM}
        return own if givers.issuperset(self._table.values[number].origin for number in own) else []

    def let_travel(self, jobs: list[HeadJob], out: list[HeadAction]) -> None:
        """Remove own values that travel with jobs from their inputs. Queue jobs of this process's program; drop others:
        clients submit them again.
        """
        values = [self.travelling(job) for job in jobs]
        others = [[number for number in job.inputs if number not in own] for job, own in zip(jobs, values, strict=True)]
        out.append(InputsTravel([job.id for job in jobs], values, others))
        stay: list[HeadJob] = []
        for job, own in zip(jobs, values, strict=True):
            if self._table.values[own[0]].origin != PROGRAM:
                self._state.withdraw(job)
                continue
            note_sizes([job], [job.size + self._table.total(own)])
            self._state.transfers.unclaim(job)
            self._rooms.parked.pop(job.id, None)
            self._table.needs_less(job, own)
            stay.append(job)
        self._state.queue_anew(stay, out)
