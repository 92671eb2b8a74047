"""A small resolver, so that placeholders are really evaluated here, on asyncio and without an executor."""

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from grainlike.errors import GraphError
from grainlike.graph import Node, RunsIn, State, _node, pending_nodes, register


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class LoopResolver:
    """Runs nodes in the order of their dependencies: operations at once, calls as tasks of the loop."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.most_at_once = 0
        self._running: dict[Node, asyncio.Task[None]] = {}

    async def wait(self, node: Node) -> Any:
        self.start([node])
        if not node.finished:
            waiter = asyncio.get_running_loop().create_future()
            node.waiters = [*(node.waiters or []), partial(_set, waiter)]
            await waiter
        return node.result()

    def start(self, nodes: Sequence[Node]) -> None:
        new, bound = pending_nodes(nodes)
        if any(node.owner is not self for node in bound):
            raise GraphError("a placeholder of another executor")
        ready = []
        for node in new:
            node.owner = self
            node.state = State.PENDING
            for dep in node.deps:
                if not dep.finished:
                    node.missing += 1
                    dep.dependents = dep.dependents or []
                    dep.dependents.append(node)
            if not node.missing:
                ready.append(node)
        self._run(ready)

    def cancel(self, node: Node) -> None:
        node.cancel()
        if node in self._running:
            self._running[node].cancel()
        self._run(self._settled(node))

    def _run(self, ready: list[Node]) -> None:
        while ready:
            node = ready.pop()
            error = next((dep.error for dep in node.deps if dep.error), None)
            if error:
                node.fail(error)
            elif node.place == RunsIn.INLINE:
                self._apply(node)
            else:
                self._begin(node)
                continue
            ready += self._settled(node)

    def _apply(self, node: Node) -> None:
        try:
            node.succeed(node.apply())
        except Exception as error:  # noqa: BLE001
            node.fail(error)

    def _begin(self, node: Node) -> None:
        self.calls.append(node.function.name)
        node.state = State.RUNNING
        self._running[node] = asyncio.get_running_loop().create_task(self._call(node))
        self.most_at_once = max(self.most_at_once, len(self._running))

    async def _call(self, node: Node) -> None:
        try:
            args, kwargs = node.arguments()
            value = node.function.callable(*args, **kwargs)
            assert inspect.iscoroutine(value) == node.function.is_async
            node.succeed(await value if node.function.is_async else value)
        except Exception as error:  # noqa: BLE001
            node.fail(error)
        finally:
            del self._running[node]
        self._run(self._settled(node))

    def _settled(self, node: Node) -> list[Node]:
        for waiter in node.waiters or ():
            waiter()
        dependents, node.dependents, node.waiters = node.dependents or [], None, None
        for dependent in dependents:
            dependent.missing -= 1
        return [dependent for dependent in dependents if not dependent.missing]


@pytest.fixture
def resolver() -> Iterator[LoopResolver]:
    """The resolver of this test; what was registered before is back afterwards."""
    before = _node._finders[:]
    resolver = LoopResolver()
    register(lambda _: resolver)
    yield resolver
    _node._finders[:] = before


@pytest.fixture
def nobody() -> Iterator[None]:
    """No executor at all."""
    before = _node._finders[:]
    _node._finders.clear()
    yield
    _node._finders[:] = before
