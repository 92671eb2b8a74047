"""A ledger of a node while cores are lent: what is free, and whose it is."""

from __future__ import annotations

from grainlike.resources import Cores, GPUs, offer_of
from grainlike.scheduler._records import LeaseState, Shape
from grainlike.scheduler._workers import ChangeLog, WorkerState


def lending_worker():
    """Two cores, both lent by one job and used by another; a GPU that is free."""
    worker = WorkerState(1, "n1", offer_of(Cores(2) & GPUs(1), own_cores=range(2)), 0.0, ChangeLog())
    both = Shape(1, Cores(2), None, isolate=False)
    worker.take(both)
    worker.lend(LeaseState(1, both, None, 0.0))
    worker.take(both)
    return worker


def test_a_job_that_asks_for_no_cores_is_not_held_up_by_cores_that_are_lent():
    worker = lending_worker()
    device = Shape(2, GPUs(1), None, isolate=False)
    assert worker.fits_now(device)
    assert worker.own_is_enough(device)


def test_one_that_asks_for_cores_is():
    assert not lending_worker().own_is_enough(Shape(3, Cores(1), None, isolate=False))
