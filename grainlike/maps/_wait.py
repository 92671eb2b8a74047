"""`wait`: until placeholders have ended, wherever their values are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeVar, overload

import anyio

from grainlike.executor import find
from grainlike.graph import Delayed, Node, node_of

__all__ = ["listed", "wait"]

T = TypeVar("T")


@overload
async def wait(*placeholders: Delayed[T]) -> list[Delayed[T]]: ...
@overload
async def wait(placeholders: Iterable[Delayed[T]], /) -> list[Delayed[T]]: ...
async def wait(*placeholders: Any) -> list[Delayed[Any]]:
    """Start placeholders, given as arguments or as one iterable, and return them in a list when all have ended.

    It fetches nothing: large values stay at the workers that made them, and `await r_` brings one here. It raises
    nothing of what the calls raise: `info(r_).state` and `.error` tell how each has ended. Being cancelled in it
    cancels what nothing else awaits, as with `gather`.

    Raises:
        TypeError: one of them is not a placeholder.
        RuntimeError: there is no executor here.
        GraphError: one was started by another executor, and has not finished.

    Example::

        parts = await wait((load @ Cores(1))(path) for path in paths)  # their values stay where they are
        total = await (combine @ Cores(1))(parts)                      # and are used there
    """
    items = list(placeholders)
    if len(items) == 1 and not isinstance(items[0], Delayed):
        items = listed(items[0], "wait")
    left: set[Node] = {node for node in map(node_of, items) if not node.finished}
    if left:
        await _until_ended(left)
    return items


async def _until_ended(left: set[Node]) -> None:
    executor = find()
    ended = anyio.Event()

    def arrive(node: Node) -> None:
        left.discard(node)
        if not left:
            ended.set()

    def release() -> None:
        for node, waiter in waiters.items():
            if node in left:
                executor.unwatch(node, waiter)
        executor.release(list(left))

    waiters = {node: partial(arrive, node) for node in left}
    executor.start(list(left))
    for node in list(left):
        if node.finished:
            arrive(node)
        else:
            executor.watch(node, waiters[node])
    if left:
        await executor.pause(ended, lambda: left, release)


def listed(items: Any, taker: str) -> list[Any]:
    """Return the placeholders of an iterable that the function called `taker` was given.

    Raises:
        TypeError: it is none.
    """
    if isinstance(items, Mapping | str | bytes) or not isinstance(items, Iterable):
        raise TypeError(
            f"{taker} takes placeholders, or one iterable of them, not {type(items).__name__}; "
            f"for a mapping write `{taker}(d.values())`"
        )
    return list(items)
