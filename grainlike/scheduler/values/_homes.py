"""Homes of jobs that need values: the class in which each job queues, near the worker with most of its inputs."""

from __future__ import annotations

from grainlike.scheduler._catalogue import Catalogue
from grainlike.scheduler._records import ANYWHERE, HeadJob, RequestClass
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["NEAR_BYTES", "Homes"]

NEAR_BYTES = 1 << 20
"""Most bytes of inputs for which a job may run anywhere, because copying so few bytes costs almost nothing."""


class Homes:
    """Chooses the class in which a job queues. The arguments are the scheduler's own objects, not copies."""

    __slots__ = ("_catalogue", "_table", "_transfers", "_workers")

    def __init__(
        self, workers: dict[int, WorkerState], catalogue: Catalogue, table: ValueTable, transfers: Transfers
    ) -> None:
        self._workers = workers
        self._catalogue = catalogue
        self._table = table
        self._transfers = transfers

    def find(self, job: HeadJob) -> bool:
        """Set the class of a job that is about to queue, and return True; False if the job cannot queue: no worker
        can give its inputs for now, or they fit into no store. The job is then parked, or a misfit.
        """
        data, inputs = job.data, job.inputs
        if data is None:
            return True
        near = data.target
        if near and self._table.missing(inputs, near):
            near = 0
        if near:
            self._transfers.wait_no_more(job)
        else:
            self._transfers.unclaim(job)
        if not inputs:  # the job makes a value again, and needs no other value for that
            return True
        if not near and not self._table.all_can_be_had(inputs):
            if job.state is not JobState.QUEUED:
                job.state, job.worker, job.shape = JobState.QUEUED, 0, None
            job.state = JobState.MOVING
            self._table.park(job)
            return False
        if self._transfers.rooms.is_misfit(job):
            self._transfers.rooms.note_misfit(job)
            job.state, job.worker, job.shape = JobState.QUEUED, 0, None
            self._transfers.unclaim(job)
            self._transfers.rooms.park(job)
            return False
        job.cls = self._catalogue.near(job.cls, near or self.preferred(inputs, job.cls))
        return True

    def preferred(self, inputs: tuple[int, ...], cls: RequestClass) -> int:
        """Return the worker with the most bytes of these inputs that could run such jobs and hold all inputs; of equal
        ones, the one near which the fewest jobs queue. Return `ANYWHERE` if the inputs are small, or no worker can.
        """
        table = self._table
        if table.total(inputs) <= NEAR_BYTES:
            return ANYWHERE
        best: tuple[bool, int, int, int] | None = None
        for number, size in table.bytes_at(inputs).items():
            worker = self._workers[number]
            if any(map(worker.fits_ever, cls.shapes)) and self._transfers.rooms.could_hold(worker, inputs):
                queued = self._catalogue.queued_near(cls, number)
                rank = (bool(worker.shut), -size, queued, number)
                if best is None or rank < best:
                    best = rank
        return ANYWHERE if best is None else best[3]
