"""Explanations of why a job does not run yet, from the state and rules by which the scheduler decides, at the moment of
asking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from msgspec.structs import replace

from grainlike._shown import bytes_text
from grainlike.resources import Missing, Nodes, Request, number
from grainlike.scheduler._explanation import MOST_NAMED, Explanation, Shortage
from grainlike.scheduler._job_tree import lent_by
from grainlike.scheduler._records import HeadJob, Shape
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState, times_in
from grainlike.scheduler.planning._near_words import inputs_wait
from grainlike.scheduler.planning._planner import Planner
from grainlike.scheduler.planning._reservation import Reservation
from grainlike.scheduler.values._rooms import tries_text
from grainlike.wire import Wait

__all__ = ["explain", "nothing_arrived"]


def nothing_arrived(worker: int, value: int) -> int:  # noqa: ARG001 - as where bytes are counted
    """Return 0: where no bytes are copied, none are there."""
    return 0


def explain(
    job: HeadJob,
    workers: Iterable[WorkerState],
    planner: Planner,
    why_never: Callable[[Request], Missing | None],
    now: float,
    paused: str = "",
    arrived: Callable[[int, int], int] = nothing_arrived,
) -> Explanation:
    """Return the state of `job` and what it waits for.

    Args:
        why_never: returns why no worker could ever run what a request asks for; None if one could, or only the layout
            is in the way.
        paused: why no job is started for now; empty while jobs are.
        arrived: returns how many bytes of a value's copy to a worker are there.
    """
    tried = "" if job.tried is None else tries_text(job.tried)
    base = Explanation(job.id, job.state.name.lower(), job.attempt, job.request, tried=tried)
    here = list(workers)
    if job.state is JobState.BACKOFF:
        most = job.attempt + job.retries
        return replace(base, reason="backoff", attempts=most, starts_in_s=max(0.0, job.again_at - now))
    waits = inputs_wait(job, planner.near, {worker.id: worker for worker in here}, now, arrived)
    if waits is not None and not paused:
        reason, nearest, why, starts_in_s = waits
        return replace(base, reason=reason, nearest=nearest, why=why, starts_in_s=starts_in_s)
    if job.state not in (JobState.QUEUED, JobState.MOVING):
        return replace(_where(base, job, here, planner), reason=_awaits(job), holders=_own_jobs(job))
    if paused:
        return replace(base, reason="paused", why=paused)
    if not here:
        return replace(base, reason="workers")
    missing = why_never(job.request)
    if missing is not None or not any(_fits_ever(shape, here) for shape in job.cls.shapes):
        nearest = None if missing is None else missing.nearest
        return replace(base, reason="never", missing=missing, nearest=nearest)
    before = _before(job)
    if before:
        return replace(base, reason="turn", before=before, starts_in_s=_turn_in(job, before, here, planner, now))
    for shape in job.cls.shapes:
        block = planner.start_limits.blocks(shape, now)
        if block is not None:
            wait = None if block[1] is None else max(0.0, block[1] - now)
            return replace(base, reason=block[0].partition(":")[0], ration=block[0], starts_in_s=wait)
    return _room(base, job, here, planner, now)


def _fits_ever(shape: Shape, workers: list[WorkerState]) -> bool:
    return sum(worker.fits_ever(shape) for worker in workers) >= shape.nodes


def _where(base: Explanation, job: HeadJob, workers: list[WorkerState], planner: Planner) -> Explanation:
    """Return the worker of a job that has left the queue, and how many workers of a gang have not answered."""
    name = next((worker.name for worker in workers if worker.id == job.worker), None)
    gang = planner.gangs.of(job)
    if gang is None:
        return replace(base, worker=name, why=_wait_there(job))
    members = tuple(hold.worker.name for hold in gang.holds)
    return replace(base, worker=name, members=members, lacking=sum(not hold.lease for hold in gang.holds))


def _wait_there(job: HeadJob) -> str:
    """Return for what a job may wait at its worker before it starts: whether it does, the worker alone knows."""
    has_devices = job.shape is not None and any(name == "gpus" for name, _ in job.shape.units)
    return "where it may wait for the memory of its devices" if has_devices and job.state is JobState.PLANNED else ""


def _before(job: HeadJob) -> int:
    """Return how many jobs of its class go first."""
    jobs = job.cls.live()
    return jobs.index(job) if job in jobs else len(jobs)


def _where_room_is(worker: WorkerState, job: HeadJob, planner: Planner) -> str:
    """Return that what a job gives has no room at a worker, and where it has, or may have."""
    other = planner.consumers.where_room_is(worker, job)
    assert other is not None, "there is another with room"
    if job.tried is not None and worker.id in job.tried.workers:
        return f"{worker.name} had none for its value, {other.name} may have"
    return f"its function gave {bytes_text(job.fn.gives)}, for which {worker.name} has no room; {other.name} has"


def _room(base: Explanation, job: HeadJob, workers: list[WorkerState], planner: Planner, now: float) -> Explanation:
    """Return what keeps the oldest job of a class from the worker that comes nearest."""
    shape = job.cls.shapes[0]
    fitting = [worker for worker in workers if worker.fits_now(shape)]
    if shape.nodes == 1:  # a job starts where all its inputs are
        fitting = [worker for worker in fitting if planner.near.has_inputs(job, worker)] or fitting
    shut = [worker for worker in workers if worker.shut and worker.has_room(shape)]
    if len(fitting) < shape.nodes <= len(fitting) + len(shut):
        kind, why = next(iter(shut[0].shut.items()))
        return replace(base, reason=kind, nearest=shut[0].name, why=why)
    in_time = [worker for worker in fitting if worker.in_time(job.fn, shape, now)]
    if len(in_time) < shape.nodes <= len(fitting):
        return replace(base, reason="walltime", nearest=max(fitting, key=lambda worker: worker.until).name)
    crowded = [worker for worker in in_time if worker.crowded]
    if len(in_time) >= shape.nodes > len(in_time) - len(crowded) and planner.consumers.holds_back(job, now):
        why = f"{crowded[0].name} has little left for values, and jobs go first whose ends free some"
        return replace(base, reason="store", nearest=crowded[0].name, why=why)
    lacking = [worker for worker in in_time if planner.consumers.where_room_is(worker, job) is not None]
    if len(in_time) >= shape.nodes > len(in_time) - len(lacking):
        return replace(base, reason="store", nearest=lacking[0].name, why=_where_room_is(lacking[0], job, planner))
    lent = [worker for worker in in_time if not planner.may_borrow(worker, job, shape)]
    if len(in_time) >= shape.nodes > len(in_time) - len(lent):
        return replace(base, reason="lent", nearest=lent[0].name, holders=_lenders(lent[0]))
    if len(in_time) >= shape.nodes:
        kept = next((worker for worker in in_time if not planner.admits(worker, job, shape, now)), in_time[0])
        holders = tuple(held.job.id for held in planner.reserving.by_worker.get(kept.id, ()) if held.job is not job)
        return replace(base, reason="reservation", nearest=kept.name, holders=holders)
    if shape.nodes > 1:
        base = _too_few(base, shape, [worker for worker in in_time if planner.admits(worker, job, shape, now)])
    full = [worker for worker in workers if worker not in fitting]
    able = [worker for worker in full if worker.fits_ever(shape)]
    nearest = min(able or full, key=lambda worker: _lack(worker, shape))
    names = [name for name, amount in shape.units if nearest.free.get(name, 0) < amount]
    return replace(
        base,
        reason="room",
        nearest=nearest.name,
        short=tuple(_shortage(nearest, shape, name) for name in names),
        holders=_holders(nearest, names),
        would_start_with=_smaller(nearest, shape) if shape.nodes == 1 else base.would_start_with,
        starts_in_s=_starts_in(job, workers, planner, now),
    )


def _awaits(job: HeadJob) -> str:
    """Return in a word what a job at a worker waits for."""
    waits = Wait.NOTHING if job.family is None else job.family.waits
    return {Wait.NOTHING: "", Wait.CHILDREN: "jobs", Wait.CORES: "cores"}[waits]


def _own_jobs(job: HeadJob) -> tuple[int, ...]:
    return tuple(job.family.children)[:MOST_NAMED] if _awaits(job) == "jobs" and job.family is not None else ()


def _lenders(worker: WorkerState) -> tuple[int, ...]:
    """Return some jobs of the worker that have lent their cores."""
    lending = (job.id for job in worker.held.values() if job.family is not None and lent_by(job))
    return tuple(islice(lending, MOST_NAMED))


def _too_few(base: Explanation, shape: Shape, ready: list[WorkerState]) -> Explanation:
    """Add for a gang with room on too few workers: on which, and with how many it would start."""
    return replace(
        base,
        members=tuple(worker.name for worker in ready),
        lacking=shape.nodes - len(ready),
        would_start_with=Nodes(len(ready), each=Request({name: number(amount) for name, amount in shape.units}))
        if ready
        else None,
    )


def _lack(worker: WorkerState, shape: Shape) -> float:
    return sum(max(0.0, 1 - worker.free.get(name, 0) / amount) for name, amount in shape.units)


def _shortage(worker: WorkerState, shape: Shape, name: str) -> Shortage:
    asked = next(amount for other, amount in shape.units if other == name)
    return Shortage(name, number(asked), number(worker.free.get(name, 0)), number(worker.capacity.get(name, 0)))


def _holders(worker: WorkerState, names: list[str]) -> tuple[int, ...]:
    """Return some jobs that hold a share of what is short."""
    holding = [
        job.id
        for job in worker.held.values()
        if job.shape is not None and job.id not in worker.ahead and any(name in names for name, _ in job.shape.units)
    ]
    holding += [number for number, _ in worker.holds if number not in holding]
    return tuple(holding[:MOST_NAMED])


def _smaller(worker: WorkerState, shape: Shape) -> Request | None:
    """Return the request cut down to what is free on the worker; None if nothing is free of some resource."""
    cut = {name: number(min(amount, worker.free.get(name, 0))) for name, amount in shape.units}
    return Request(cut) if cut and all(cut.values()) else None


def _starts_in(job: HeadJob, workers: list[WorkerState], planner: Planner, now: float) -> float | None:
    """Return in how many seconds the job could start at the soonest; None where a run time on the way is unknown."""
    reserved = [found.as_of(now) for held in planner.reserving.by_worker.values() for found in held if found.job is job]
    shape = job.cls.shapes[0]
    starts = reserved or [Reservation(job, shape, w, now) for w in workers if w.fits_ever(shape) and not w.shut]
    known = sorted(found.start for found in starts if _all_known(found.worker))
    return max(0.0, known[shape.nodes - 1] - now) if len(known) >= shape.nodes else None


def _turn_in(job: HeadJob, before: int, workers: list[WorkerState], planner: Planner, now: float) -> float | None:
    """Return in how many seconds the job could start after `before` others of its class, if all workers that can serve
    the class serve it alone; None where a run time is unknown, or a limit or rate holds the class up.
    """
    shape = job.cls.shapes[0]
    first = _starts_in(job, workers, planner, now)
    others = islice(job.cls.live(), before)
    runs = [_run_time(other, shape) for other in others]
    serving = [worker for worker in workers if worker.fits_ever(shape) and not worker.shut]
    slots = sum(times_in(worker.capacity, shape) for worker in serving)
    known = [run for run in runs if run is not None]
    if first is None or len(known) < len(runs) or shape.rationed or not slots:
        return None
    return first + (sum(known) + sum(worker.ahead_s for worker in serving)) / max(1, slots // shape.nodes)


def _run_time(job: HeadJob, shape: Shape) -> float | None:
    return job.fn.times.mean if job.fn.times.known else shape.soft_s


def _all_known(worker: WorkerState) -> bool:
    leases = worker.leases.values()
    return all(lease.shape.soft_s is not None or (lease.fn is not None and lease.fn.times.known) for lease in leases)
