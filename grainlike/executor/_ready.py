"""Operators on available values need no executor: they are applied where they are awaited or started."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from grainlike.engine import Engine
from grainlike.graph import Node, RunsIn, StreamNode, pending_nodes

__all__ = ["ReadyResolver", "is_ready"]


def is_ready(node: Node) -> bool:
    """Return True if `node` needs nothing but operators applied, none of which has started."""
    if node.place is not RunsIn.INLINE:
        return False
    lazy, bound = pending_nodes([node])
    return not bound and all(each.place is RunsIn.INLINE and not _fetches(each) for each in lazy)


def _fetches(node: Node) -> bool:
    """Return True if an operator needs values that stay at workers, and can be fetched."""
    return any(dep.stays and dep.reference is not None and not dep.reference.fetched for dep in node.deps)


class ReadyResolver:
    """The resolver of nodes that are ready, outside of any executor. It has finished them when `start` returns.

    Errors, of operators and of what they are applied to, are the nodes', as with an executor.
    """

    def __init__(self) -> None:
        self._later: deque[Callable[[], None]] = deque()
        self._engine = Engine(self, self._later.append, fail_fast=True)

    def __repr__(self) -> str:
        return "<what applies operators without an executor>"

    def start(self, nodes: Sequence[Node]) -> None:
        """Apply the nodes and all operators that they need."""
        self._engine.start(nodes)
        while self._later:
            self._later.popleft()()

    async def wait(self, node: Node) -> Any:
        """Apply the node, and return its value or raise its error."""
        self.start([node])
        node.unwrap()  # an item of a `gather` whose values were fetched
        return node.result()

    def cancel(self, node: Node) -> None:
        """Cancel a node that an operator ends while it is applied."""
        self._engine.cancel([node])

    def read(self, node: StreamNode) -> AsyncIterator[Any]:
        """Streams are calls, and never ready."""
        raise NotImplementedError(node)

    def show_live(self, node: Node) -> bool:  # noqa: ARG002 - it has finished
        """Show nothing that changes: a node is finished before other code could look at it."""
        return False

    def drop(self, node: Node) -> None:
        """Streams are calls, and never ready."""
        raise NotImplementedError(node)
