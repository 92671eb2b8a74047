"""Scale hint: how many more workers of a kind would help, for those who can start some, by hand or from a batch
system.

Jobs are counted that wait and could run on an empty worker of that kind. Jobs known to be short do not each want a
worker: those that the present workers are expected to finish within `within_s` count for nothing, and the rest for as
many slots as finish them by then. Jobs that take longer, or whose run time is unknown, each want slots of their own.
The number depends on the queue alone, so jobs that die early and are in backoff do not raise it.

A function of which hardly a job has ended may be quick: for a few seconds all its jobs together want one worker, on
which it shows (`Trials`).

For several kinds at a time each job counts once: for the first kind that could run it and may have more workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import ceil

from grainlike.resources import Allocation, WallTime, amount_texts
from grainlike.scheduler._head import HeadScheduler
from grainlike.scheduler._records import HeadFunction, HeadJob, RequestClass, Shape, order
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import ChangeLog, WorkerState, times_in

__all__ = ["PoolOffer", "Trials", "lacks", "wanted_in_pools"]

TRIAL_S = 10.0
"""Seconds for which jobs wait at most until each wants slots of its own, although none like it has ended yet."""

LONG_S = 3.0
"""Seconds after which a job that runs is known not to be quick: its process has imported its modules by then."""


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """Kind of workers that could be started.

    Attributes:
        offer: what each offers, for as long as jobs may use it; None: not known before the first is here.
        most: how many more of them there may be.
    """

    offer: Allocation | None
    most: int


class Trials:
    """Functions that are being tried: too few of their jobs have ended to know how long these take, and none was long.

    A job that has run for `LONG_S` was long. Jobs that have waited for `TRIAL_S` are not held up any more.
    """

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        """Time since which jobs of a function wait, by its number, while it is not known how long they take."""

    def look(self, scheduler: HeadScheduler, now: float) -> frozenset[HeadFunction]:
        """Take notice of what waits and runs at a moment; return the functions that are being tried then."""
        queued = {job.fn for cls in scheduler.classes.values() for job in cls.live()}
        unknown = {fn for fn in queued if not fn.times.known}
        self._since = {fn.id: self._since.get(fn.id, now) for fn in unknown}
        if not unknown:
            return frozenset()
        held = (job for worker in scheduler.workers.values() for job in worker.held.values())
        long = {job.fn for job in held if job.state is JobState.LEASED and now - job.sent >= LONG_S}
        quick = {fn for fn in unknown - long if fn.times.mean < LONG_S}
        return frozenset(fn for fn in quick if now - self._since[fn.id] < TRIAL_S)


def wanted_in_pools(
    scheduler: HeadScheduler,
    pools: Sequence[PoolOffer],
    within_s: float,
    tried: AbstractSet[HeadFunction] = frozenset(),
) -> tuple[list[int], frozenset[int]]:
    """Return how many more workers of each kind would be of use now, and which idle ones the first gang waits for.

    Of a gang that waits, the workers that are free for it count as there. A kind whose offer is not known yet is taken
    for one that could run anything, with one worker. The jobs of a class whose functions are being `tried` want the
    slots of one worker, and nothing where a worker is here that could run them.
    """
    workers = list(scheduler.workers.values())
    new = [_NewWorkers(pool) for pool in pools]
    waiting = [(order(first), cls) for cls in scheduler.classes.values() if (first := cls.head()) is not None]
    started = Counter[str]()
    kept: frozenset[int] = frozenset()
    for _, cls in sorted(waiting, key=lambda pair: pair[0]):
        counted: int | None = None
        for kind in new:
            shape = kind.shape_of(cls)
            if shape is None:
                continue
            if counted is None:
                room = kind.room_on_one(shape)
                count = _slots(cls.live(), shape, workers, within_s, tried, room)
                count = min([count, *(left - started[name] for name, left in scheduler.start_limits.left(shape))])
                started.update({name: max(0, count) for name, _ in shape.limits})
                counted = count * shape.nodes
                if shape.nodes > 1 and not kept and counted > 0:
                    free = [worker.id for worker in workers if worker.fits_now(shape)]
                    kept = frozenset(free[: shape.nodes])
                    counted -= len(kept)
            counted -= kind.fill(shape, counted)
            if counted <= 0:
                break
    return [len(kind.workers) for kind in new], kept


def lacks(cls: RequestClass, offer: Allocation, most: int) -> tuple[str, ...]:
    """Return what `most` workers with this offer are short of for the jobs of a class, as text; empty if they could
    run them.

    Of a request with a choice, that is what it is short of for the shape that lacks least.
    """
    empty = WorkerState(0, "", offer, 0.0, ChangeLog())
    return min((tuple(_short(shape, empty, most)) for shape in cls.shapes), key=len)


def _short(shape: Shape, worker: WorkerState, most: int) -> Iterator[str]:
    if shape.nodes > most:
        yield f"nodes (asked {shape.nodes}, at most {most})"
    for name, asked in shape.units:
        there = worker.capacity.get(name, 0)
        if asked > there:
            wanted, offered = amount_texts(name, asked, there)
            yield f"{name} (asked {wanted}, offers {offered})"
    if shape.walltime_soft is not None and shape.walltime_soft > worker.lasts:
        asked_time, left = (
            str(WallTime(max(1, int(seconds)))).partition("=")[2] for seconds in (shape.walltime_soft, worker.lasts)
        )
        yield f"walltime (asked {asked_time}, leaves {left})"
    yield from (f"token {token}" for token in sorted(shape.tokens - worker.tokens))


class _NewWorkers:
    """Workers of one kind that would be started, and what is free on each."""

    def __init__(self, pool: PoolOffer) -> None:
        self._pool = pool
        self._empty = None if pool.offer is None else WorkerState(0, "", pool.offer, 0.0, ChangeLog())
        self.workers: list[dict[str, int]] = []

    def shape_of(self, cls: RequestClass) -> Shape | None:
        """Return the first shape of a class that could run here."""
        empty = self._empty
        return next((shape for shape in cls.shapes if empty is None or empty.fits_ever(shape)), None)

    def room_on_one(self, shape: Shape) -> int:
        """Return how many jobs, or gangs, an empty worker has room for, or as many workers as a gang has."""
        return 1 if self._pool.offer is None else times_in(self._pool.offer.units, shape)

    def fill(self, shape: Shape, parts: int) -> int:
        """Give so many parts of jobs room, on more workers while there may be more; return how many have some."""
        if self._pool.offer is None:
            return self._fill_unknown(parts)
        left = parts if min(shape.nodes, parts) <= self._pool.most else 0
        placed = at = 0
        while left > placed and (at < len(self.workers) or len(self.workers) < self._pool.most):
            if at == len(self.workers):
                self.workers.append(dict(self._pool.offer.units))
            # Of a gang, each worker has at most one part.
            room = min(left - placed, ceil(parts / shape.nodes), times_in(self.workers[at], shape))
            for name, amount in shape.units:
                self.workers[at][name] -= room * amount
            placed += room
            at += 1
        return placed

    def _fill_unknown(self, parts: int) -> int:
        if parts <= 0 or not self._pool.most:
            return 0
        if not self.workers:
            self.workers.append({})
        return parts


def _slots(
    jobs: Sequence[HeadJob],
    shape: Shape,
    workers: Sequence[WorkerState],
    within_s: float,
    tried: AbstractSet[HeadFunction],
    room: int,
) -> int:
    """Return how many jobs should run at once on new workers, of which each has `room` for so many."""
    long = short = trials = 0
    short_s = 0.0
    for fn, count in Counter(job.fn for job in jobs).items():
        times = fn.times
        if fn in tried:
            trials += count
        elif not times.known or times.mean >= within_s:
            long += count
        else:
            short += count
            short_s += count * times.mean
    if not short and not trials:
        return long
    usable = [worker for worker in workers if worker.fits_ever(shape) and not worker.shut]
    here = sum(times_in(worker.capacity, shape) for worker in usable)
    gangs = here // shape.nodes
    wanted = long + max(0, min(short, ceil(short_s / within_s) - gangs))
    return wanted if gangs else max(wanted, min(trials, room))
