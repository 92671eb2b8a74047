"""The one door from the graph to whoever runs it.

The graph knows no executor. An executor registers a function that finds the resolver of the current context. In a job
on a worker nobody has had a reason to load one: there it is loaded, by name, when a placeholder is awaited.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from grainlike.graph._node import Node
    from grainlike.graph._stream import StreamNode

__all__ = ["Resolver", "current_resolver", "register"]


class Resolver(Protocol):
    """Interface of an executor, as far as the graph uses it."""

    async def wait(self, node: "Node") -> Any:
        """Start what is not started, wait for the node, and return its value or raise its error."""

    def start(self, nodes: "Sequence[Node]") -> None:
        """Start the nodes and what they need, without waiting."""

    def cancel(self, node: "Node") -> None:
        """End the work of a node that this resolver owns."""

    def read(self, node: "StreamNode") -> AsyncIterator[Any]:
        """Start a stream at the first step, and yield its items. Dropping the iterator ends the stream."""
        ...

    def drop(self, node: "Node") -> None:
        """Nobody holds a stream that this resolver owns any more: end it. From any thread, and in a destructor."""


_USUAL = "grainlike.executor"
"""What registers itself when it is imported."""

_finders: "list[Callable[[Node], Resolver]]" = []


def register(find: "Callable[[Node], Resolver]") -> None:
    """Let `find` say who resolves a node in the current context. The last one registered is asked."""
    _finders[:] = [find]


def current_resolver(node: "Node") -> Resolver:
    """The resolver of a node in the current context.

    Raises:
        RuntimeError: none is registered; or whatever `find` raises when it has none to give.
    """
    if not _finders:
        import_module(_USUAL)
    if not _finders:
        raise RuntimeError("nothing runs placeholders here: open an Executor, or call run(main)")
    return _finders[0](node)
