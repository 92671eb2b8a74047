"""Invariants of state that several parts keep: counts of limits and shares, jobs asked back, and reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from grainlike.scheduler._records import Shape
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._planner import Planner
from grainlike.scheduler.planning._shares import Shares

__all__ = ["check_common_records", "counted"]


def counted(worker: WorkerState) -> list[tuple[int, Shape]]:
    """Return the shapes whose amounts count against a worker, each with the client for which they do."""
    found = [(lease.client, lease.shape) for lease in worker.leases.values()]
    found += [(hold.job.cls.client, hold.shape) for hold in worker.holds.values() if not hold.lease]
    for job in worker.held.values():
        if job.state is JobState.PLANNED and job.shape is not None and job.shape.nodes == 1:
            found.append((job.cls.client, job.shape))
    return found


def check_common_records(workers: Mapping[int, WorkerState], shapes: Mapping[int, Shape], planner: Planner) -> None:
    """Raise `AssertionError` unless the counts match what is planned, held and leased. For tests: walks over
    everything.
    """
    shares, running = Shares(), Counter[str]()
    clients = {0}
    for worker in workers.values():
        assert worker.recalled <= worker.ahead.keys(), "a job that was asked back is not there any more"
        for job in worker.held.values():
            assert job.shape is not None
            running.update(name for name, _ in job.shape.limits)
        for client, shape in counted(worker):
            shares.take(client, shape)
            clients.add(client)
    for kept in planner.reserving.by_worker.values():
        assert not any(reservation.worker.shut for reservation in kept), "a worker is reserved that gets no jobs"
    for name in {name for shape in shapes.values() for name, _ in shape.limits}:
        assert planner.start_limits.running(name) == running[name], f"{running[name]} jobs run under limit {name!r}"
    for client in clients:
        assert planner.shares.used(client) == shares.used(client), f"program {client} holds {shares.used(client)}"
