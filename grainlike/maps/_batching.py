"""Batch size of an `amap`: how many tiny calls are sent in one job.

A job costs some ten microseconds at each end, so a function that takes three is mostly waited for. Calls that were
measured to be tiny are put together, so that a job has about a millisecond of work. Slow ones never are: nothing
would be gained, and a value would wait for its neighbours.
"""

from __future__ import annotations

from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

from grainlike.engine import BaseResolver
from grainlike.graph import DelayedFn, Function, Node, Options, Retry, RunsIn, node_of
from grainlike.jobs import Job
from grainlike.payload import Payload, dump_arguments, dump_plain_arguments, load_error, load_values
from grainlike.resources import EMPTY, Request
from grainlike.scheduler import RunTimes

__all__ = ["BatchSizer", "unpacked"]

WORK_S = 0.001
"""The work that one job shall have."""

TRIP_S = 0.0003
"""Overhead of a job that does nothing, in seconds, from here to its runner and back."""

TINY_S = 0.0005
"""A call that may take longer than this (mean and two standard deviations) goes alone."""

LONG_S = 0.010
"""Seconds of one job after which batching ends: the function is measured again, call by call."""

SAMPLES = 16
"""Number of jobs to measure before their times count."""

SMALL = 4096
"""The most bytes that the arguments of a call have that goes with others."""

_ONCE = Retry(0)
"""The default: no retries."""

MEMORY = 10
"""Number of the latest measurements that count: later items of a source may differ."""

_PLAIN = frozenset({int, float, str, bytes, bool, complex, type(None)})
"""Types of items in which no placeholder can be: most items, for which no node has to be made to find out."""


class BatchSizer:
    """The learned size for one `amap`: `size` calls in a job. `begin` before the first."""

    def __init__(self, fn: DelayedFn[..., Any], most: int) -> None:
        self.size = 1
        self.batch = max(1, most // 8)
        """Room for this many items is worth reading the source for, while there are values to yield."""
        self._fn = fn
        self._most = most
        self._executor: BaseResolver | None = None
        self._first: tuple[Any, ...] = ()
        """Object to which the function is bound, as the first argument; empty if it is no method."""
        self._times = RunTimes(MEMORY)

    def begin(self, executor: BaseResolver) -> None:
        """Learn from now on, if calls of this function may share a job."""
        if _may_share(self._fn.function, self._fn.request):
            self._executor = executor
            args, _ = node_of(self._fn(None)).arguments()
            self._first = args[:-1]

    def packed(self, item: Any) -> bytes | None:
        """Return the arguments of a call that goes with others; None for one that goes alone."""
        if self.size == 1:
            return None
        if type(item) in _PLAIN and not self._first:
            data = dump_plain_arguments((item,))
            if data is not None:
                return data if len(data) <= SMALL else None
        try:
            args, kwargs = self._arguments(item)
            payload = dump_arguments(args, kwargs, what=self._fn.function.name)
        except Exception:  # noqa: BLE001 - alone it fails with just this, in its place
            return None
        return bytes(payload.data) if len(payload.data) <= SMALL and not payload.buffers else None

    def _arguments(self, item: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the call's arguments. Raises `LookupError` if it depends on placeholders."""
        if type(item) in _PLAIN:
            return (*self._first, item), {}
        node = node_of(self._fn(item))
        if node.deps:
            raise LookupError("their values are not there yet")
        return node.arguments()

    def node(self, calls: list[bytes]) -> Node:
        """Return the job of several calls."""
        return Node(_many(self._fn.function), self._fn.request, RunsIn.REMOTE, (calls,), None, ())

    def learn(self, node: Node | None, calls: int) -> None:
        """A job has ended, of so many calls (0 for a call on its own)."""
        job = node.record if node is not None else None
        if self._executor is None or not isinstance(job, Job):
            return
        used = None if job.placement is None else job.placement.used
        if used is None:
            return
        wall = used[0]
        if wall >= LONG_S:
            self._times = RunTimes(MEMORY)
            self._resize(1)
            return
        times = self._times
        times.add([wall / max(1, calls)])
        if times.count % SAMPLES == 0:
            self._resize(self._best(self._executor) if times.upper <= TINY_S else 1)

    def _best(self, executor: BaseResolver) -> int:
        """Enough calls for a millisecond, but two jobs for each place where one could run, if they are worth a trip."""
        assert self._fn.request is not None
        cores = sum(len(worker.resources.cores) for worker in executor.workers())
        places = max(1, cores // max(1, self._fn.request.N))
        mean = max(self._times.mean, 1e-9)
        # Of work that takes less than a trip does, more places have no profit: two jobs, so that one is under way.
        trips = min(2 * places, max(2, int(self._most * mean / TRIP_S)))
        return max(1, min(int(WORK_S / mean), self._most // trips))

    def _resize(self, size: int) -> None:
        self.size = size
        self.batch = max(1, self._most // 8, size)


def _may_share(function: Function, request: Request | None) -> bool:
    """Return True if calls may share a job: plain functions without retries, timeout, cache, GPUs or other terms."""
    if request is None or function.is_async or len(request.options) > 1:
        return False
    options = function.options
    if options.retry != _ONCE or options.timeout is not None or options.cache is not None:
        return False
    return "gpus" not in request and request.terms == EMPTY.terms


def unpacked(node: Node, values: deque[Any]) -> BaseException | None:
    """Put the values of several calls out in order; the error of the call after them, if one failed."""
    parcels, failure = node.value
    try:
        load_values(parcels, values.append, f"the value of {node.function.name}")
    except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this call's error
        return error
    if failure is None:
        return None
    note = node.record.note(node.function.name) if isinstance(node.record, Job) else None
    return load_error(Payload(failure[0], tuple(failure[1])), note)


_known: WeakKeyDictionary[Function, Function] = WeakKeyDictionary()


def _many(function: Function) -> Function:
    """Return the function of which one call makes many calls of `function`."""
    found = _known.get(function)
    if found is None:
        options = Options(name=function.name, priority=function.options.priority)
        found = _known[function] = Function(function.callable, options, many=True)
    return found
