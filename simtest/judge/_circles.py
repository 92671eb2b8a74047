"""Judge's records of jobs that wait for each other, to check that a job failed for a deadlock could indeed never
start.
"""

from __future__ import annotations

from collections.abc import Callable

from grainlike.resources import Allocation
from grainlike.simulation import JobPlan
from simtest.judge._loans import Waiting
from simtest.judge._records import NodeRecords

__all__ = ["Circles"]


class Circles:
    """Children of jobs, and jobs at workers. `plans`, `outcome` and `nodes` are the judge's own mappings."""

    def __init__(self, plans: dict[int, JobPlan], outcome: dict[int, str], nodes: dict[int, NodeRecords]) -> None:
        self._plans = plans
        self._outcome = outcome
        self._nodes = nodes
        self._children: dict[int, list[int]] = {}
        self._at_workers: set[int] = set()

    def submitted(self, parent: int, job: int) -> None:
        """Record that a job has submitted another."""
        self._children.setdefault(parent, []).append(job)

    def assigned(self, job: int) -> None:
        """Record that a job is at a worker."""
        self._at_workers.add(job)

    def told(self, job: int) -> None:
        """Record that a worker has reported how a job ended."""
        self._at_workers.discard(job)

    def check(
        self, failed: int, waiting: set[Waiting], running: set[int], held: Callable[[Waiting], Allocation]
    ) -> None:
        """Raise `AssertionError` if the `failed` job could start once all jobs have ended that can.

        A waiting job can end when any of its own jobs can. `held` returns what a waiting job holds.
        """
        stranded = self._at_workers - running  # some may wait there for a layout of devices
        if any("gpus" in self._plans[job].request for job in stranded):
            return
        left = set(waiting)
        while helped := {key for key in left if self._has_help(key[1], left, held)}:
            left -= helped
        assert not self._could_start(failed, left, held), f"job {failed} was failed, and could start, or could soon"

    def _has_help(self, job: int, left: set[Waiting], held: Callable[[Waiting], Allocation]) -> bool:
        stuck = {number for _, number in left}
        own = [child for child in self._children.get(job, ()) if child not in self._outcome and child not in stuck]
        return any(child in self._at_workers or self._could_start(child, left, held) for child in own)

    def _could_start(self, job: int, left: set[Waiting], held: Callable[[Waiting], Allocation]) -> bool:
        wanted = self._plans[job].request
        for worker, records in self._nodes.items():
            taken = [held(key) for key in left if key[0] == worker]
            # Shares may be spread over devices so that no whole one is left, which amounts do not show.
            hidden = "gpus" in wanted and any("gpus" in allocation for allocation in taken)
            if not hidden and records.fits_beside(taken, wanted):
                return True
        return False
