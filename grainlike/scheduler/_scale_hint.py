"""Scale hint: how many more workers of a kind would help, for whoever can start some, by hand or from a batch
system.

Jobs are counted that wait and could run on an empty worker of that kind. Jobs known to be short do not each want a
worker: those that the present workers are expected to finish within `within_s` count for nothing, and the rest for as
many slots as finish them by then. Jobs that take longer, or whose run time is unknown, each want slots of their own.
The number depends on the queue alone, so jobs that die early and are in backoff do not raise it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

from grainlike.resources import Allocation
from grainlike.scheduler._records import HeadFunction, RequestClass, Shape, order
from grainlike.scheduler._workers import ChangeLog, WorkerState
from grainlike.scheduler.planning._start_limits import StartLimits

__all__ = ["wanted"]


def wanted(
    classes: Iterable[RequestClass],
    workers: Sequence[WorkerState],
    start_limits: StartLimits,
    offer: Allocation,
    most: int,
    within_s: float,
) -> int:
    """Return how many more workers with this offer would be of use now; at most `most`."""
    empty = WorkerState(0, "", offer, 0.0, ChangeLog())
    waiting = [(first, cls) for cls in classes if (first := cls.head()) is not None]
    started = Counter[str]()
    new: list[dict[str, int]] = []
    for first, cls in sorted(waiting, key=lambda pair: order(pair[0])):
        shape = next((shape for shape in cls.shapes if empty.fits_ever(shape)), None)
        if shape is not None:
            count = _slots(len(cls.live()), first.fn, shape, workers, within_s)
            count = min([count, *(left - started[name] for name, left in start_limits.left(shape))])
            started.update({name: max(0, count) for name, _ in shape.limits})
            _fill(new, shape, count, offer, most)
    return len(new)


def _slots(count: int, fn: HeadFunction, shape: Shape, workers: Sequence[WorkerState], within_s: float) -> int:
    """Return how many of `count` jobs should run at once on new workers."""
    times = fn.times
    if not times.known or times.mean >= within_s:
        return count
    here = sum(_times(worker.capacity, shape) for worker in workers if worker.fits_ever(shape) and not worker.shut)
    return min(count, ceil(count * times.mean / within_s) - here // shape.nodes)


def _fill(new: list[dict[str, int]], shape: Shape, count: int, offer: Allocation, most: int) -> None:
    """Give `count` jobs room on the new workers in `new`, and append more of those while there may be more."""
    left = count * shape.nodes if shape.nodes <= most else 0
    at = 0
    while left > 0 and (at < len(new) or len(new) < most):
        if at == len(new):
            new.append(dict(offer.units))
        room = min(left, count, _times(new[at], shape))  # of a gang, each worker has at most one part
        for name, amount in shape.units:
            new[at][name] -= room * amount
        left -= room
        at += 1


def _times(amounts: dict[str, int], shape: Shape) -> int:
    """Return how often the shape fits into amounts."""
    return min((amounts.get(name, 0) // amount for name, amount in shape.units if amount), default=0)
