"""A stream: the placeholder of an asynchronous generator, read with `async for`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar, final

from grainlike.errors import SerializationError
from grainlike.graph._delayed import Delayed, node_of
from grainlike.graph._node import Node, StreamNode, current_resolver
from grainlike.graph._shown import shown_call

__all__ = ["Stream", "node_behind"]

T_co = TypeVar("T_co", covariant=True)


@final
class Stream(Generic[T_co]):
    """Items that a delayed asynchronous generator will yield. Calls of delayed `async def` functions with `yield` make
    them.

    Nothing runs until somebody reads it, with `async for`, or `start`s it. It runs once and is read once: items go to
    their reader and are kept nowhere else. The generator runs ahead of its reader by a bounded window (16 items, or
    4 MiB of them), and holds its slots until it has ended. It ends early, and its `finally` runs, when the reader goes
    away: by `break`, by an exception, by cancellation, or when the iterator has no reference any more.

    What the generator raises is raised after the items before it. A stream is tried again, by `retries` or because its
    worker was lost, only as long as none of its items has come; after that the loss of its worker is a
    `WorkerLostError`. `info`, `start`, `cancel` and `graph` take it as they take a placeholder.

    Example::

        async for line in (follow @ Cores(1))("server.log"):
            print(line)
    """

    __slots__ = ("__weakref__", "_node")

    _node: StreamNode

    def __init__(self, node: StreamNode) -> None:
        self._node = node

    def __aiter__(self) -> AsyncIterator[T_co]:
        """Return the one reader of this stream.

        Raises:
            RuntimeError: it has been read before; or there is no executor here.
        """
        if self._node.read:
            raise RuntimeError(
                f"the stream of {self._node.function.name} has a reader, or had one: it can be read once; keep the "
                "iterator to go on reading, or call the function again"
            )
        reader = current_resolver(self._node).read(self._node)
        self._node.read = True
        return reader

    if not TYPE_CHECKING:  # to a type checker, awaiting a stream is wrong

        def __await__(self) -> NoReturn:
            raise TypeError(
                f"{self._node.function.name} is a stream, which has no one value: write `async for item in ...`, or "
                "`[item async for item in ...]`"
            )

    def __del__(self) -> None:
        node = self._node
        if node.owner is not None and not node.read and not node.finished:
            node.owner.drop(node)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SerializationError(
            f"the stream of {self._node.function.name} cannot travel, for its items come here: read it here, and pass "
            "what it yields"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        node = self._node
        request = f", {node.request}" if node.request else ""
        return f"<Stream {shown_call(node)}: {node.state.label}{request}>"


def node_behind(placeholder: Delayed[object] | Stream[object]) -> Node:
    """Return the node of a placeholder or of a stream.

    Raises:
        TypeError: it is neither.
    """
    return placeholder._node if isinstance(placeholder, Stream) else node_of(placeholder)
