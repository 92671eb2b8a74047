"""Why does this job not run yet? Answered by the very books and rules that decide, at the moment of asking."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from grainlike.resources import Missing, Request, number
from grainlike.scheduler._books import Job, Shape, WorkerBook
from grainlike.scheduler._planning import Planner
from grainlike.scheduler._reservation import Reservation
from grainlike.scheduler._states import JobState

__all__ = ["Explanation", "Shortage", "explain"]

_HOLDERS = 5


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which the nearest worker has too little free now; amounts in its own unit (cores, bytes, ...)."""

    name: str
    asked: object
    free: object
    capacity: object


class Explanation(msgspec.Struct, frozen=True):
    """Where a job stands and what it waits for. `str` says it in a sentence or two.

    `state` is queued, planned, ahead or leased; for a placeholder that is no job (yet) it is lazy, inputs, local, or
    the state in which it ended, and `job` is 0. `inputs` names what it still needs.

    `reason` is one word for what holds a queued job up: `"turn"` (others of its class are before it), `"room"`,
    `"reservation"` (the room is kept for an older wide job), `"walltime"` (no worker lives long enough), `"limit"` or
    `"rate"`, `"workers"` (none is here), `"never"` (no worker here could ever run it), and `""` for a job that waits
    for nothing. `holders` are the numbers of jobs that hold what is short on `nearest`. `starts_in_s` is an estimate
    from declared and learned run times, None where nobody can tell. `would_start_with` is a smaller request that would
    start now.
    """

    job: int
    state: str
    attempt: int
    request: Request
    reason: str = ""
    worker: str | None = None
    before: int = 0
    nearest: str | None = None
    short: tuple[Shortage, ...] = ()
    holders: tuple[int, ...] = ()
    ration: str | None = None
    starts_in_s: float | None = None
    would_start_with: Request | None = None
    missing: Missing | None = None
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(_sentences(self))


def explain(
    job: Job, workers: Iterable[WorkerBook], planner: Planner, why_never: Callable[[], Missing | None], now: float
) -> Explanation:
    """Say where `job` stands. `why_never` tells why no worker could ever run it, None if one could."""
    base = Explanation(job.job, job.state.name.lower(), job.attempt, job.cls.request)
    here = list(workers)
    if job.state is not JobState.QUEUED:
        return replace(base, worker=next((worker.name for worker in here if worker.worker == job.worker), None))
    if not here:
        return replace(base, reason="workers")
    missing = why_never()
    if missing is not None or not any(worker.fits_ever(shape) for worker in here for shape in job.cls.shapes):
        nearest = None if missing is None else missing.nearest
        return replace(base, reason="never", missing=missing, nearest=nearest)
    before = _before(job)
    if before:
        return replace(base, reason="turn", before=before, starts_in_s=_starts_in(job, here, planner, now))
    for shape in job.cls.shapes:
        block = planner.rations.blocks(shape, now)
        if block is not None:
            wait = None if block[1] is None else max(0.0, block[1] - now)
            return replace(base, reason=block[0].partition(":")[0], ration=block[0], starts_in_s=wait)
    return _room(base, job, here, planner, now)


def _before(job: Job) -> int:
    """How many jobs of its class go first."""
    count = 0
    for other in job.cls.queue:
        if other is job:
            return count
        count += not other.cancelled
    return count


def _room(base: Explanation, job: Job, workers: list[WorkerBook], planner: Planner, now: float) -> Explanation:
    """What keeps the oldest job of a class from the worker that comes nearest."""
    shape = job.cls.shapes[0]
    fitting = [worker for worker in workers if worker.fits_now(shape)]
    soft = shape.soft_s
    if fitting and soft is not None and all(now + soft > worker.until for worker in fitting):
        return replace(base, reason="walltime", nearest=max(fitting, key=lambda worker: worker.until).name)
    if fitting:
        holders = tuple(held.job.job for held in planner.reservations.get(fitting[0].worker, ()) if held.job is not job)
        return replace(base, reason="reservation", nearest=fitting[0].name, holders=holders)
    able = [worker for worker in workers if worker.fits_ever(shape)]
    nearest = min(able or workers, key=lambda worker: _lack(worker, shape))
    names = [name for name, amount in shape.units if nearest.free.get(name, 0) < amount]
    return replace(
        base,
        reason="room",
        nearest=nearest.name,
        short=tuple(_shortage(nearest, shape, name) for name in names),
        holders=_holders(nearest, names),
        would_start_with=_smaller(nearest, shape),
        starts_in_s=_starts_in(job, workers, planner, now),
    )


def _lack(worker: WorkerBook, shape: Shape) -> float:
    return sum(max(0.0, 1 - worker.free.get(name, 0) / amount) for name, amount in shape.units)


def _shortage(worker: WorkerBook, shape: Shape, name: str) -> Shortage:
    asked = next(amount for other, amount in shape.units if other == name)
    return Shortage(name, number(asked), number(worker.free.get(name, 0)), number(worker.capacity.get(name, 0)))


def _holders(worker: WorkerBook, names: list[str]) -> tuple[int, ...]:
    """Some jobs that hold a share of what is short."""
    holding = [
        job.job
        for job in worker.held.values()
        if job.shape is not None and job.job not in worker.ahead and any(name in names for name, _ in job.shape.units)
    ]
    return tuple(holding[:_HOLDERS])


def _smaller(worker: WorkerBook, shape: Shape) -> Request | None:
    """The request cut down to what is free on the worker; None when nothing of something is."""
    cut = {name: number(min(amount, worker.free.get(name, 0))) for name, amount in shape.units}
    return Request(cut) if cut and all(cut.values()) else None


def _starts_in(job: Job, workers: list[WorkerBook], planner: Planner, now: float) -> float | None:
    """In how many seconds it could start at the soonest, by what runs; None where a run time on the way is unknown."""
    reserved = [found for held in planner.reservations.values() for found in held if found.job is job]
    shape = job.cls.shapes[0]
    starts = reserved or [Reservation(job, shape, w, now) for w in workers if w.fits_ever(shape)]
    known = [found.start for found in starts if _all_known(found.worker)]
    return max(0.0, min(known) - now) if known else None


def _all_known(worker: WorkerBook) -> bool:
    leases = worker.leases.values()
    return all(lease.shape.soft_s is not None or (lease.fn is not None and lease.fn.times.known) for lease in leases)


def _sentences(this: Explanation) -> list[str]:
    """The explanation in words."""
    said = [_SAY[this.reason](this) if this.reason else _placed(this)]
    if this.starts_in_s is not None:
        said.append(f"It can start in about {this.starts_in_s:.3g} s.")
    if this.would_start_with is not None:
        said.append(f"It would start now with {this.would_start_with!r}.")
    return said


def _placed(this: Explanation) -> str:
    words = {"planned": "is on its way to", "ahead": "waits for its turn at", "leased": "runs on"}
    if this.state in words:
        return f"Job {this.job} {words[this.state]} {this.worker}, attempt {this.attempt}."
    if this.state == "inputs":
        shown = ", ".join(this.inputs[:_HOLDERS]) + (", ..." if len(this.inputs) > _HOLDERS else "")
        return f"It waits for {len(this.inputs)} inputs: {shown}."
    return _UNBOUND.get(this.state, f"It has {this.state}.")


def _no_room(this: Explanation) -> str:
    short = ", ".join(f"{s.name} (asked {s.asked}, free {s.free} of {s.capacity})" for s in this.short)
    held = f", held by jobs {', '.join(map(str, this.holders))}" if this.holders else ""
    return f"Job {this.job} waits for room: nearest is {this.nearest}, short of {short}{held}."


_UNBOUND = {
    "lazy": "Nobody has awaited or started it.",
    "local": "It runs in the caller's process.",
    "opening": "It waits for the executor to open.",
}

_SAY: dict[str, Callable[[Explanation], str]] = {
    "turn": lambda this: f"Job {this.job} waits for its turn: {this.before} jobs that ask for the same go first.",
    "room": _no_room,
    "reservation": lambda this: (
        f"Job {this.job} would fit on {this.nearest}, which is kept for job {', '.join(map(str, this.holders))}."
    ),
    "walltime": lambda this: f"Job {this.job} needs more time than any worker has left; {this.nearest} has most.",
    "limit": lambda this: f"Job {this.job} waits for {this.ration}: as many run as it allows.",
    "rate": lambda this: f"Job {this.job} waits for {this.ration}: launches are spaced.",
    "workers": lambda this: f"Job {this.job} waits for a worker: none is connected.",
    "never": lambda this: (
        f"Job {this.job}: {this.missing or 'no worker can lay it out as it is asked for (see pack=)'}."
    ),
}
