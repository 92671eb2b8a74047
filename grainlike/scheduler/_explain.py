"""Explanations of why a job does not run yet, from the state and rules by which the scheduler decides, at the moment of
asking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from grainlike._shown import bytes_text
from grainlike.resources import Missing, Nodes, Request, amount_texts, number, quantity
from grainlike.scheduler._job_tree import lent_by
from grainlike.scheduler._records import HeadJob, Shape
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._near_words import inputs_wait
from grainlike.scheduler.planning._planner import Planner
from grainlike.scheduler.planning._reservation import Reservation
from grainlike.scheduler.values._rooms import tries_text
from grainlike.wire import Wait

if TYPE_CHECKING:
    from grainlike.resources import Amount

__all__ = ["Explanation", "Shortage", "explain", "nothing_arrived"]

_HOLDERS = 5

_TIME_UNITS = (("h", 3600.0, 7200.0), ("min", 60.0, 120.0), ("s", 1.0, 0.1), ("ms", 0.001, 0.0))
"""Units of time: name, seconds, and the least seconds that are shown in it."""


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which the nearest worker has too little free; amounts in its own unit (cores, bytes, ...)."""

    name: str
    asked: object
    free: object
    capacity: object

    def __str__(self) -> str:
        amounts = (quantity(cast("Amount", one)) for one in (self.asked, self.free, self.capacity))
        asked, free, capacity = amount_texts(self.name, *amounts)
        return f"{self.name} (asked {asked}, free {free} of {capacity})"


class Explanation(msgspec.Struct, frozen=True):
    """State of a job and what it waits for. `str` gives it in a sentence or two.

    `state` is queued, moving, planned, ahead or leased; for a placeholder that is no job (yet) it is lazy, inputs,
    local, unsent, or the state in which it ended, and `job` is 0. `inputs` names what it still needs.

    `reason` is one word for what holds a queued job up: `"turn"` (others of its class are before it), `"room"`,
    `"reservation"` (the room is kept for an older wide job), `"walltime"` (no worker lives long enough), `"limit"` or
    `"rate"`, `"lent"` (what is free belongs to jobs that await jobs of their own), `"workers"` (none is here),
    `"never"` (no worker here could ever run it), `"suspect"` and `"quarantine"` (`nearest` gets no jobs for now, and
    `why`), `"moving"` (its inputs are on their way to `nearest`, or made again: `why`), `"preferred"` (`nearest` has
    most of its inputs and is full; elsewhere it may start in `starts_in_s`), `"store"` (there is no room for its
    inputs, now or at all, or little for what it may give: `why`), `"paused"` (the head starts nothing for now, and
    `why`), `"backoff"` (it is tried again in `starts_in_s`, as attempt `attempt` of `attempts` at most), and `""` for a
    job that waits for nothing. A leased job may wait, too: for `"jobs"` of its own, or for `"cores"` that it lent to
    others meanwhile. `holders`
    are the numbers of jobs that hold what is short on `nearest`, or of those that a job waits for. `starts_in_s` is an
    estimate from declared and learned run times, None where that is not known. `would_start_with` is a smaller request
    that would start now. `blocked_s` says of a coroutine for how long it has
    blocked the event loop that it shares with others.

    Of a gang (`Nodes`), `members` are the workers on which it has its slots, the leader first; while it waits for
    room, those that could take part now. `lacking` is how many more it needs, `nearest` the nearest of the others.

    `kept` says of a call with `cache=` whether its result was kept from another time, and why it runs if it does.
    `tried` says at which workers its value found no room when it ran there.
    `pools` says which pool of workers would help a job that waits, and what its blocks wait for.
    `words` is what a head elsewhere says of its job, instead of the words that the rest would give.
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
    members: tuple[str, ...] = ()
    lacking: int = 0
    inputs: tuple[str, ...] = ()
    words: str = ""
    attempts: int = 0
    why: str = ""
    blocked_s: float | None = None
    kept: str = ""
    pools: str = ""
    tried: str = ""

    def __str__(self) -> str:
        return self.words or " ".join([*_sentences(self), *([self.pools] if self.pools else [])])


def nothing_arrived(worker: int, value: int) -> int:  # noqa: ARG001 - as where bytes are counted
    """Return 0: where nobody copies bytes, none are there."""
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
    """Return the worker of a job that has left the queue; for a gang also the number of workers that have not
    answered.
    """
    name = next((worker.name for worker in workers if worker.id == job.worker), None)
    gang = planner.gangs.of(job)
    if gang is None:
        return replace(base, worker=name)
    members = tuple(hold.worker.name for hold in gang.holds)
    return replace(base, worker=name, members=members, lacking=sum(not hold.lease for hold in gang.holds))


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
    return tuple(job.family.children)[:_HOLDERS] if _awaits(job) == "jobs" and job.family is not None else ()


def _lenders(worker: WorkerState) -> tuple[int, ...]:
    """Return some jobs of the worker that have lent their cores."""
    lending = (job.id for job in worker.held.values() if job.family is not None and lent_by(job))
    return tuple(islice(lending, _HOLDERS))


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
    return tuple(holding[:_HOLDERS])


def _smaller(worker: WorkerState, shape: Shape) -> Request | None:
    """Return the request cut down to what is free on the worker; None if nothing is free of some resource."""
    cut = {name: number(min(amount, worker.free.get(name, 0))) for name, amount in shape.units}
    return Request(cut) if cut and all(cut.values()) else None


def _starts_in(job: HeadJob, workers: list[WorkerState], planner: Planner, now: float) -> float | None:
    """Return in how many seconds the job could start at the soonest; None where a run time on the way is unknown."""
    reserved = [found for held in planner.reserving.by_worker.values() for found in held if found.job is job]
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
    slots = sum(_most_at_once(worker, shape) for worker in serving)
    known = [run for run in runs if run is not None]
    if first is None or len(known) < len(runs) or shape.rationed or not slots:
        return None
    return first + (sum(known) + sum(worker.ahead_s for worker in serving)) / max(1, slots // shape.nodes)


def _most_at_once(worker: WorkerState, shape: Shape) -> int:
    return min((worker.capacity[name] // amount for name, amount in shape.units if amount), default=0)


def _run_time(job: HeadJob, shape: Shape) -> float | None:
    return job.fn.times.mean if job.fn.times.known else shape.soft_s


def _all_known(worker: WorkerState) -> bool:
    leases = worker.leases.values()
    return all(lease.shape.soft_s is not None or (lease.fn is not None and lease.fn.times.known) for lease in leases)


def _sentences(this: Explanation) -> list[str]:
    """Return the explanation in words."""
    said = [_SAY[this.reason](this) if this.reason else _placed(this)]
    if this.starts_in_s is not None and this.reason not in ("backoff", "preferred"):
        said.append(f"It can start in about {_about(this.starts_in_s)}.")
    if this.would_start_with is not None:
        said.append(f"It would start now with {this.would_start_with!r}.")
    if this.blocked_s is not None:
        said.append(f"It has blocked the event loop that it shares with others for {this.blocked_s:.3g} s.")
    if this.tried:
        said.append(f"It ran before: {this.tried}.")
    if this.kept:
        said.append(this.kept)
    return said


def _about(seconds: float) -> str:
    """Return an estimate of a time, with two digits: more are not known of it."""
    unit, size = next((unit, size) for unit, size, least in _TIME_UNITS if seconds >= least)
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


def _placed(this: Explanation) -> str:
    if this.lacking:
        return f"Job {this.job} waits for {this.lacking} of {', '.join(this.members)} to hold its slots there."
    if this.members and this.state == "leased":
        return f"Job {this.job} runs on {', '.join(this.members)}, attempt {this.attempt}."
    words = {"planned": "is on its way to", "ahead": "waits for its turn at", "leased": "runs on"}
    if this.state in words:
        return f"Job {this.job} {words[this.state]} {this.worker}, attempt {this.attempt}."
    if this.state == "inputs":
        shown = ", ".join(this.inputs[:_HOLDERS]) + (", ..." if len(this.inputs) > _HOLDERS else "")
        return f"It waits for {len(this.inputs)} inputs: {shown}."
    return _UNBOUND.get(this.state, f"It has {this.state}.")


def _no_room(this: Explanation) -> str:
    short = ", ".join(map(str, this.short))
    held = f", held by jobs {', '.join(map(str, this.holders))}" if this.holders else ""
    if this.lacking:
        ready = f"there is room on {', '.join(this.members)}" if this.members else "there is room on none"
        more = "1 worker" if this.lacking == 1 else f"{this.lacking} workers"
        return f"Job {this.job} waits for room on {more} more: {ready}; next is {this.nearest}, short of {short}{held}."
    return f"Job {this.job} waits for room: nearest is {this.nearest}, short of {short}{held}."


def _again(this: Explanation) -> str:
    who = f"Job {this.job}" if this.job else "It"
    return f"{who} tries again in {this.starts_in_s or 0.0:.1f} s, attempt {this.attempt} of {this.attempts}."


def _shut(this: Explanation) -> str:
    return f"Job {this.job} would fit on {this.nearest}, which gets no jobs for now: {this.why}."


_UNBOUND = {
    "lazy": "It has not been awaited or started.",
    "local": "It runs in the caller's process.",
    "unsent": "It is about to be sent: calls go to the head some at a time, once there is one.",
}

_SAY: dict[str, Callable[[Explanation], str]] = {
    "backoff": _again,
    "paused": lambda this: f"Job {this.job} is not started for now: {this.why}.",
    "moving": lambda this: (
        f"Job {this.job} waits for {this.why}{'' if this.nearest is None else f', on their way to {this.nearest}'}."
    ),
    "store": lambda this: f"Job {this.job} waits for room in a store: {this.why}.",
    "preferred": lambda this: f"Job {this.job} waits for {this.nearest}: {this.why}.",
    "suspect": _shut,
    "quarantine": _shut,
    "turn": lambda this: (
        f"Job {this.job} waits for its turn: {this.before} "
        f"{'job that asks for the same goes' if this.before == 1 else 'jobs that ask for the same go'} first."
    ),
    "room": _no_room,
    "reservation": lambda this: (
        f"Job {this.job} would fit on {this.nearest}, which is kept for job {', '.join(map(str, this.holders))}."
    ),
    "walltime": lambda this: f"Job {this.job} needs more time than any worker has left; {this.nearest} has most.",
    "lent": lambda this: (
        f"Job {this.job} would fit on {this.nearest}, on cores that jobs {', '.join(map(str, this.holders))} have "
        "lent: they go to jobs of their own, and to such as are known to end within a second."
    ),
    "jobs": lambda this: (
        f"Job {this.job} runs on {this.worker}, attempt {this.attempt}, and waits for its own jobs "
        f"{', '.join(map(str, this.holders))}."
    ),
    "cores": lambda this: f"Job {this.job} goes on as soon as {this.worker} has room for the cores that it lent.",
    "limit": lambda this: f"Job {this.job} waits for {this.ration}: as many run as it allows.",
    "rate": lambda this: f"Job {this.job} waits for {this.ration}: launches are spaced.",
    "workers": lambda this: f"Job {this.job} waits for a worker: none is connected.",
    "never": lambda this: (
        f"Job {this.job} waits for a worker that can give {this.request}: "
        f"{'none can lay it out as it is asked for (see pack=)' if this.missing is None else this.missing.why}."
    ),
}
