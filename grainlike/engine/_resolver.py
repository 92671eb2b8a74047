"""Base of all resolvers of a graph: of an executor that users open, and of that of one job."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from grainlike.engine._fetches import bring
from grainlike.engine._streams import StreamReader
from grainlike.eventloop import EventLoopId, here, soon, soon_from_anywhere
from grainlike.graph import Delayed, Node, Stream, StreamNode

if TYPE_CHECKING:
    from grainlike.context import JobInfo
    from grainlike.engine._engine import Engine
    from grainlike.jobs import WorkerInfo

__all__ = ["BaseResolver", "Waitable"]

_HELD_BY_USERS = (Delayed, Stream)
"""Types that users hold in place of nodes: the names below are for code that runs graphs."""


class Waitable(Protocol):
    """Event that a task can wait for."""

    async def wait(self) -> object:
        """Wait until it comes."""


class BaseResolver(ABC):
    """Hands nodes on to its engine, from the event loop in which it lives alone."""

    enclosing: BaseResolver | None = None
    """The executor of the context in which this one was opened, in this loop or another; None for a job's own, which
    is found by its job.
    """

    opened_in: JobInfo | None = None
    """The job that opened it; jobs inherit the context of a task, which may refer to other executors."""

    _engine: Engine
    _loop_id: EventLoopId | None = None

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """True if an `await` may use it."""

    @abstractmethod
    def _check_loop(self, what: str) -> None:
        """Raise unless the resolver is open and belongs to the running event loop; `what` is the verb of the error."""

    @abstractmethod
    def wait(self, node: Node) -> Coroutine[Any, Any, Any]:
        """Start what is not started, wait for the node, and return its value or raise its error."""

    @abstractmethod
    async def pause(self, event: Waitable, nodes: Callable[[], Iterable[Node]], release: Callable[[], None]) -> None:
        """Wait for an event that comes with the end of one of `nodes`; call `release` if that is cancelled."""

    @abstractmethod
    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers, as far as they can be seen from here."""

    @property
    def loop_id(self) -> EventLoopId:
        """The event loop in which it lives, once it was opened."""
        assert self._loop_id is not None
        return self._loop_id

    def is_own_process(self) -> bool:
        """Return whether the running event loop is the one in which it lives; each await asks."""
        loop_id = self._loop_id
        if loop_id is None:
            return False
        return asyncio._get_running_loop() is loop_id.loop if loop_id.backend == "asyncio" else here() == loop_id

    def report_bound(self, call: Callable[[Sequence[Node]], object] | None) -> None:
        """Call with the nodes of each graph from now on, as they are bound; None ends that."""
        self._engine.bound = call

    def under_way(self) -> list[Node]:
        """Return nodes that were bound before and have not ended, as far as they are kept by name."""
        return []

    def report_found(self, call: Callable[[Node], object] | None) -> None:  # noqa: B027 - few keep any
        """Call with nodes that are kept by name and had ended before, once the program takes them; None ends that."""

    def start(self, nodes: Sequence[Node]) -> None:
        """Start the nodes and what they need, without waiting."""
        if isinstance(nodes, _HELD_BY_USERS):
            raise TypeError("a placeholder is started by a function: write start(r_)")
        self._check_loop("started")
        self._engine.start(nodes)

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Mark lazy nodes as started without running them: the adopter reports their outcomes to `settle`."""
        self._check_loop("started")
        self._engine.adopt(nodes)

    def settle(self, good: Mapping[Node, object], bad: Mapping[Node, BaseException], left: Iterable[Node] = ()) -> None:
        """The values of some adopted nodes, and the errors of others; operators that are `left` are applied here."""
        for node, value in good.items():
            self._engine.succeeded(node, value)
        for node, error in bad.items():
            self._engine.failed(node, error)
        self._engine.apply(left)
        self._engine.pump()

    def cancel(self, node: Node) -> None:
        """End the work of a node."""
        if isinstance(node, _HELD_BY_USERS):
            raise TypeError("a placeholder is cancelled by a function: write cancel(r_)")
        self._check_loop("cancelled")
        self._engine.cancel([node])

    def show_live(self, node: Node) -> bool:  # noqa: ARG002 - most are in no notebook
        """Show a node in a notebook, and keep that up to date; False where that is impossible."""
        return False

    def watch(self, node: Node, waiter: Callable[[], object]) -> None:
        """Call `waiter` when the node has finished."""
        self._engine.watch(node, waiter)

    def unwatch(self, node: Node, waiter: Callable[[], object]) -> None:
        """Call `waiter` no more; no-op if it was called."""
        self._engine.unwatch(node, waiter)

    def watch_value(self, node: Node, waiter: Callable[[BaseException | None], object]) -> None:
        """Call `waiter` when the node has finished and its value is in this process; with the error of bringing it."""
        if node.finished:
            bring(node, waiter)
        else:
            self.watch(node, partial(bring, node, waiter))

    def release(self, nodes: Sequence[Node], *, skipped: bool = False) -> None:
        """Take back the interest of `start`: nodes with none left are cancelled, or `skipped` (see `Jobs`)."""
        if self.is_open:
            self._engine.release(nodes, skipped=skipped)

    def read(self, node: StreamNode) -> AsyncIterator[Any]:
        """Return the reader of a stream."""
        self._check_loop("asked to read")
        return StreamReader(self, node)

    def end(self, nodes: Iterable[Node]) -> None:
        """Cancel nodes that can be wanted no more; closing has done so already."""
        if self.is_open:
            self._engine.cancel([node for node in nodes if node.owner is self])

    def drop(self, node: Node) -> None:
        """Release one node, as `release`, in a destructor."""
        self.later(lambda: self.end([node]))

    def soon(self, call: Callable[[], None]) -> None:
        """Call in a later turn of the event loop."""
        soon(self.loop_id, call)

    def later(self, call: Callable[[], None]) -> None:
        """Call `call` in a later turn, from any thread, in a destructor too: that may run anywhere."""
        if self.is_open:
            with suppress(RuntimeError):  # the loop is closed: nothing runs there any more
                soon_from_anywhere(self.loop_id, call)
