"""State of `amap`: items taken from the source whose values were not yielded yet.

Laws:

1. At most `in_flight` items were taken from the source and not yielded.
2. The source is read only when there is room, by one reader: the consumer itself or, where reading may wait, one
   task.
3. The first failure ends it. What would be yielded after it is cancelled as soon as the failure is reported.
4. There is no task and no wait per item: an entry is a waiter of its job in the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Iterator
from functools import partial
from typing import Any

import anyio

from grainlike.engine import BaseResolver, ReaderWakeup, bring
from grainlike.errors import GraphError
from grainlike.executor import find
from grainlike.graph import DelayedFn, Function, Node, RunsIn, State, node_of
from grainlike.maps._batching import BatchSizer, unpacked

__all__ = ["MapState"]

_END = object()


class MapState:
    """The state behind one `amap`; not the iterator itself, so that jobs may hold it when that is dropped.

    `values` are ready to be yielded: `arrival` waits until there are some, `take` gives one.
    """

    def __init__(
        self, fn: DelayedFn[..., Any], source: Iterator[Any] | AsyncIterable[Any], most: int, *, ordered: bool
    ) -> None:
        self.values: deque[Any] = deque()
        self._fn = fn
        self._source: Iterator[Any] | AsyncIterable[Any] | None = source
        self._most = most
        self._ordered = ordered
        self._executor: BaseResolver | None = None
        self._chunks = BatchSizer(fn, most)
        self._taken = 0
        """Items that were taken and not yielded."""
        self._drawn: list[Any] = []
        """Items that were taken and not sent off."""
        self._running: dict[MapJob, None] = {}
        self._entries: deque[MapJob] = deque()
        """In the order of yielding: all that were sent off; without `ordered`, those that have finished."""
        self.failed: bool = False
        """A failure is among the entries, the last of them."""
        self._failure: MapJob | None = None
        """The failure, when all before it was handed on."""
        self._over = False
        self._bell = ReaderWakeup()
        self._feeder: Node | None = None
        self._room = ReaderWakeup()
        self._launching = False
        self._sent = 0

    # --- the consumer ------------------------------------------------------------------------------------------------

    async def arrival(self) -> None:
        """Wait until there are values. Raises the failure that is next, or StopAsyncIteration."""
        if self._bell.awaited:
            raise RuntimeError("another task waits for the next value of this amap")
        if self._executor is None and not self._over:
            self._begin()
        while not self._over:
            self._read()
            self._collect()
            if self.values:
                return
            if self._failure is not None:
                failure = self._failure
                self.stop()
                failure.reraise()
            if self._source is None and not (self._drawn or self._running or self._entries):
                self.stop()
            else:
                await self._next_ring()
        raise StopAsyncIteration

    def take(self) -> Any:
        """Return the next value. That makes room for another item."""
        self._taken -= 1
        value = self.values.popleft()
        if self._feeder is not None:
            self._room.set()
        elif self._most - self._taken >= self._chunks.batch:
            self._read()
        return value

    async def _next_ring(self) -> None:
        assert self._executor is not None
        await self._executor.pause(self._bell, self._under_way, self.stop)

    def _under_way(self) -> list[Node]:
        return [entry.node for entry in self._running if entry.node is not None]

    def _collect(self) -> None:
        """Unpack the jobs that have finished and are next."""
        while self._failure is None and self._entries and self._entries[0].done:
            entry = self._entries.popleft()
            entry.unpack(self.values)
            if entry.failed:
                self._cut(entry)
                self._failure = entry

    # --- its life ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._executor = executor = find()
        self._chunks.begin(executor)
        if isinstance(self._source, AsyncIterable):
            self._feeder = Node(Function(self._feed, name="amap"), None, RunsIn.LOCAL, (self._source,), None, ())
            executor.start([self._feeder])
            executor.watch(self._feeder, partial(self._fed, self._feeder))

    def stop(self) -> None:
        """Cancel what is left."""
        if self._over:
            return
        self._over = True
        self._source = None
        self.values.clear()
        self._drawn.clear()
        self._entries.clear()
        running, self._running = self._running, {}
        nodes = [entry.drop() for entry in running]
        if self._feeder is not None:
            nodes.append(self._feeder)
        if self._executor is not None:
            self._executor.end(nodes)
        self._bell.set()

    def stop_soon(self) -> None:
        """Cancel what is left in a later turn, from any thread, and in a destructor."""
        if self._executor is not None and not self._over:
            self._executor.later(self.stop)

    def _cut(self, failure: MapJob) -> None:
        """Cancel everything that would be yielded after this failure, and take no more items."""
        self.failed = True
        self._source = None
        self._drawn.clear()
        dropped = [entry for entry in self._running if not self._ordered or entry.number > failure.number]
        for entry in dropped:
            del self._running[entry]
        while self._ordered and self._entries and self._entries[-1].number > failure.number:
            self._entries.pop()
        nodes = [entry.drop() for entry in dropped]
        if self._feeder is not None:
            nodes.append(self._feeder)
        if self._executor is not None:
            self._executor.end(nodes)

    # --- the source --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Take items from a source that is read without waiting, as many as there is room for, and submit them."""
        source = self._source
        if self._feeder is not None or not isinstance(source, Iterator):
            return
        failure: Exception | None = None
        try:
            while self._taken < self._most:
                item = next(source, _END)
                if item is _END:
                    self._source = None
                    break
                self._taken += 1
                self._drawn.append(item)
        except Exception as error:  # noqa: BLE001 - the source's own: it is raised in its place
            failure = error
        self._launch()
        if failure is not None:
            self._add_failure(failure)

    async def _feed(self, source: AsyncIterable[Any]) -> None:
        """Take items from a source that has to be waited for: a call in the executor's care, without resources."""
        iterator = aiter(source)
        try:
            while True:
                while self._taken >= self._most:
                    await self._room.wait()
                try:
                    item = await anext(iterator)
                except StopAsyncIteration:
                    return
                self._taken += 1
                self._drawn.append(item)
                self._launch_soon(full=True)
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                # On trio, each `await` of its `finally` would be cancelled again.
                with anyio.CancelScope(shield=True):
                    await close()

    def _fed(self, feeder: Node) -> None:
        """The source that has to be waited for has ended."""
        error = feeder.error
        self._source = None
        if not self._over and not self.failed:
            self._launch()
            if error is not None:
                self._add_failure(error)
        self._bell.set()

    # --- sending off -------------------------------------------------------------------------------------------------

    def _launch_soon(self, *, full: bool) -> None:
        """Send off at the end of this turn: what a source gives without a pause goes together.

        With `full`, tiny calls wait for enough company as long as others run, whose ends send them off.
        """
        if self._launching or not self._drawn or (full and self._running and len(self._drawn) < self._chunks.size):
            return
        self._launching = True
        assert self._executor is not None
        self._executor.soon(self._launch)

    def _launch(self) -> None:
        """Send off the items that were drawn."""
        self._launching = False
        drawn, self._drawn = self._drawn, []
        if not drawn or self._over or self.failed:
            return  # the source may have given one more before it heard
        entries: list[MapJob] = []
        calls: list[bytes] = []
        failure: Exception | None = None
        for item in drawn:
            call = self._chunks.packed(item)
            if call is not None:
                calls.append(call)
                if len(calls) >= self._chunks.size:
                    self._close_chunk(calls, entries)
                continue
            self._close_chunk(calls, entries)
            try:
                entries.append(self._add(node_of(self._fn(item))))
            except Exception as error:  # noqa: BLE001 - what a call raises at once is its failure
                failure = error
                break
        self._close_chunk(calls, entries)
        self._start(entries)
        if failure is not None:
            self._add_failure(failure)

    def _close_chunk(self, calls: list[bytes], entries: list[MapJob]) -> None:
        if calls:
            entries.append(self._add(self._chunks.node(calls[:]), len(calls)))
            calls.clear()

    def _add(self, node: Node, calls: int = 0) -> MapJob:
        self._sent += 1
        entry = MapJob(self, self._sent, node, calls)
        self._running[entry] = None
        if self._ordered:
            self._entries.append(entry)
        return entry

    def _add_failure(self, error: BaseException) -> None:
        """Something failed before it was a job: it takes its place all the same."""
        self._sent += 1
        entry = MapJob(self, self._sent, None, 0)
        if self._ordered:
            self._entries.append(entry)
        entry.fail(error)

    def _start(self, entries: list[MapJob]) -> None:
        assert self._executor is not None
        try:
            self._executor.start([entry.node for entry in entries if entry.node is not None and not entry.node.deps])
        except RuntimeError as error:  # it has closed meanwhile
            for entry in entries:
                entry.fail(error)
        else:
            for entry in entries:
                entry.follow(self._executor)

    # --- ends --------------------------------------------------------------------------------------------------------

    def ended(self, entry: MapJob) -> None:
        """An entry has finished."""
        self._running.pop(entry, None)
        if self._over:
            return
        self._chunks.learn(entry.node, entry.calls)
        if not self._ordered and not self.failed:
            self._entries.append(entry)
        if entry.failed:
            self._cut(entry)
        self._launch_soon(full=False)
        self._bell.set()


class MapJob:
    """Job of the map: a call, or `calls` tiny calls together."""

    __slots__ = ("_error", "_flight", "calls", "done", "failed", "node", "number")

    def __init__(self, flight: MapState, number: int, node: Node | None, calls: int) -> None:
        self._flight: MapState | None = flight
        self._error: BaseException | None = None
        self.number: int = number
        self.node: Node | None = node
        self.calls: int = calls
        self.done: bool = False
        self.failed: bool = False

    def follow(self, executor: BaseResolver) -> None:
        """Wait for the end of the job without a task; start it unless it depends on others, which may belong to
        another executor.
        """
        node = self.node
        assert node is not None
        if node.deps:
            try:
                executor.start([node])
            except GraphError as error:
                self.fail(error)
                return
        if node.finished:
            self._job_ended()
        else:
            executor.watch(node, self._job_ended)

    def _job_ended(self) -> None:
        node = self.node
        if self._flight is not None and node is not None:
            if node.stays:
                bring(node, self._brought)
                return
            self.done = True
            self.failed = node.state is not State.SUCCEEDED or (self.calls > 0 and node.value[1] is not None)
            self._flight.ended(self)

    def _brought(self, error: BaseException | None) -> None:
        """The value is in the program now; `error`: it never will be."""
        if error is not None:
            self.fail(error)
        else:
            self._job_ended()

    def fail(self, error: BaseException) -> None:
        """Record a failure in place of a job."""
        self.done = self.failed = True
        self._error = error
        if self._flight is not None:
            self._flight.ended(self)

    def drop(self) -> Node:
        """Detach from the map, as the value will not be yielded; return the node to cancel."""
        assert self.node is not None
        self._flight = None
        return self.node

    def unpack(self, values: deque[Any]) -> None:
        """Yield the values before the failure, if it has one."""
        node = self.node
        if node is None or self._error is not None or node.error is not None:
            return
        if not self.calls:
            values.append(node.value)
            return
        self._error = unpacked(node, values)
        self.failed = self._error is not None

    def reraise(self) -> None:
        """Raise why it failed."""
        if self._error is not None:
            raise self._error
        assert self.node is not None
        self.node.result()
