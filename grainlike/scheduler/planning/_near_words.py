"""Words for why a job that needs values does not run yet: what it waits for on its way, and near which worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from grainlike._shown import bytes_text
from grainlike.scheduler._records import HeadJob
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._near import NearPlacing

__all__ = ["InputsWait", "inputs_wait"]


class InputsWait(NamedTuple):
    """Reason in one word, the worker that it is about, the reason in words, and when it ends at the latest."""

    reason: str
    worker: str | None
    why: str
    starts_in_s: float | None


def inputs_wait(
    job: HeadJob, near: NearPlacing, workers: Mapping[int, WorkerState], now: float, arrived: Callable[[int, int], int]
) -> InputsWait | None:
    """Return why a job that needs values waits, if that is because of them.

    `arrived(worker, value)` returns how many bytes of a copy to a worker are there.
    """
    if job.data is None:
        return None
    target = workers.get(job.data.target)
    if target is not None and job.data.lacks:
        return InputsWait("moving", target.name, _on_its_way(job, target, near, workers, arrived), None)
    if job.id in near.table.parked:
        return InputsWait("moving", None, _nowhere(job, near, workers), None)
    if job.id in near.rooms.parked:
        store = _store(job, near)
        return _rest(job, near, workers, now) if store is None else store
    preferred, since = workers.get(job.cls.near), job.cls.could_since
    if job.state is JobState.QUEUED and since is None and job.cls.head() is job:
        return _rest(job, near, workers, now)
    if preferred is None or since is None or job.cls.head() is not job:
        return None
    size = bytes_text(near.table.bytes_at(job.inputs).get(preferred.id, 0))
    left = max(0.0, near.due(job, now) - now)
    why = f"{preferred.name} has {size} of its inputs and is full; from {left:.1f} s on it may start elsewhere"
    return InputsWait("preferred", preferred.name, why, left)


def _store(job: HeadJob, near: NearPlacing) -> InputsWait | None:
    """Return that there is no room for a job's inputs, now or at all, if that keeps it."""
    if near.rooms.is_misfit(job):
        return InputsWait("store", near.rooms.widest(job).name, near.rooms.why_misfit(job), None)
    found = near.rooms.why_not_now(job)
    return None if found is None else InputsWait("store", found[0].name, found[1], None)


def _on_its_way(
    job: HeadJob,
    target: WorkerState,
    near: NearPlacing,
    workers: Mapping[int, WorkerState],
    arrived: Callable[[int, int], int],
) -> str:
    values = [near.table.values[number] for number in job.inputs]
    lacking = [value for value in values if target.id not in value.replicas]
    holders = {number for value in lacking for number in value.replicas[:1] if number in workers}
    givers = sorted(workers[number].name for number in holders)
    if any(value.origin and not value.replicas for value in lacking):
        givers.append("the program")
    names = ", ".join(givers) or "nobody yet"
    size, there = sum(value.size for value in lacking), sum(arrived(target.id, value.id) for value in lacking)
    return f"{bytes_text(size)} from {names}{f', {100 * there // size} % there' if there else ''}"


def _rest(job: HeadJob, near: NearPlacing, workers: Mapping[int, WorkerState], now: float) -> InputsWait | None:
    """Return when inputs are sent again to the workers with room, if that failed for each of them."""
    able = [worker for worker in workers.values() if any(map(worker.fits_now, job.cls.shapes))]
    ends = {worker.name: near.transfers.input_rests(job, worker.id, now) for worker in able}
    if not ends or not all(ends.values()):
        return None
    name = min(ends, key=lambda name: ends[name])
    left = ends[name] - now
    return InputsWait("moving", None, f"inputs that could not be copied to {name}: tried again in {left:.1f} s", None)


def _nowhere(job: HeadJob, near: NearPlacing, workers: Mapping[int, WorkerState]) -> str:
    values = [near.table.values[number] for number in job.inputs]
    again = [value for value in values if not (value.replicas or value.origin)]
    if again:
        made = ", ".join(str(value.id) for value in again[:5])
        return f"{len(again)} of its inputs, which {'is' if len(again) == 1 else 'are'} made again (job {made})"
    away = {workers[number].name for value in values for number in value.replicas if workers[number].shut}
    return f"inputs that only {', '.join(sorted(away))} has, which is not heard of for now"
