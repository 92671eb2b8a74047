"""Scale hint: how many more workers of a kind would help, for whoever can start some, by hand or from a batch
system.

Jobs are counted that wait and could run on an empty worker of that kind. Jobs known to be short do not each want a
worker: those that the present workers are expected to finish within `within_s` count for nothing, and the rest for as
many slots as finish them by then. Jobs that take longer, or whose run time is unknown, each want slots of their own.
The number depends on the queue alone, so jobs that die early and are in backoff do not raise it.

For several kinds at a time each job counts once: for the first kind that could run it and may have more workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from grainlike.resources import Allocation, WallTime, amount_texts
from grainlike.scheduler._records import HeadFunction, RequestClass, Shape, order
from grainlike.scheduler._workers import ChangeLog, WorkerState
from grainlike.scheduler.planning._start_limits import StartLimits

__all__ = ["PoolOffer", "lacks", "wanted_in_pools"]


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """Kind of workers that could be started.

    Attributes:
        offer: what each offers, for as long as jobs may use it; None: not known before the first is here.
        most: how many more of them there may be.
    """

    offer: Allocation | None
    most: int


def wanted_in_pools(
    classes: Iterable[RequestClass],
    workers: Sequence[WorkerState],
    start_limits: StartLimits,
    pools: Sequence[PoolOffer],
    within_s: float,
) -> tuple[list[int], frozenset[int]]:
    """Return how many more workers of each kind would be of use now, and which idle ones the first gang waits for.

    Of a gang that waits, the workers that are free for it count as there. A kind whose offer is not known yet is taken
    for one that could run anything, with one worker.
    """
    new = [_NewWorkers(pool) for pool in pools]
    waiting = [(first, cls) for cls in classes if (first := cls.head()) is not None]
    started = Counter[str]()
    kept: frozenset[int] = frozenset()
    for first, cls in sorted(waiting, key=lambda pair: order(pair[0])):
        counted: int | None = None
        for kind in new:
            shape = kind.shape_of(cls)
            if shape is None:
                continue
            if counted is None:
                count = _slots(len(cls.live()), first.fn, shape, workers, within_s)
                count = min([count, *(left - started[name] for name, left in start_limits.left(shape))])
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
            room = min(left - placed, ceil(parts / shape.nodes), _times(self.workers[at], shape))
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


def _slots(count: int, fn: HeadFunction, shape: Shape, workers: Sequence[WorkerState], within_s: float) -> int:
    """Return how many of `count` jobs should run at once on new workers."""
    times = fn.times
    if not times.known or times.mean >= within_s:
        return count
    here = sum(_times(worker.capacity, shape) for worker in workers if worker.fits_ever(shape) and not worker.shut)
    return min(count, ceil(count * times.mean / within_s) - here // shape.nodes)


def _times(amounts: dict[str, int], shape: Shape) -> int:
    """Return how often the shape fits into amounts."""
    return min((amounts.get(name, 0) // amount for name, amount in shape.units if amount), default=0)
