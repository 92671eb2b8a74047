"""`replicate`: more than one replica of values that stay at workers, so that none is lost with its worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import anyio

from grainlike.engine import replicate_values
from grainlike.graph import Delayed, node_of
from grainlike.maps._wait import listed, wait

__all__ = ["replicate"]

_EVERYWHERE = 0


async def replicate(placeholders: Delayed[Any] | Iterable[Delayed[Any]], copies: int | Literal["all"], /) -> None:
    """Keep at least so many replicas of the value of a placeholder, or of each of several in one iterable.

    It starts what has not been started, and returns when all have ended and there are as many replicas as were asked
    for, or as there are workers that may have one. From then on they are made good when a worker goes, as long as
    something needs the value. The larger of two numbers that were asked for one value counts. Of a small value, and of
    one that only the program has, nothing is done: no worker can lose it. Of `gather`, the values in it are meant.

    Being cancelled in it cancels calls that nothing else awaits, as with `wait`; values that are there stay as they
    are, and replicas that were asked for are made.

    Args:
        placeholders: a placeholder, or an iterable of them.
        copies: how many replicas, at least 1; `"all"` for one at every worker, also at those that come later.

    Raises:
        TypeError: one of them is not a placeholder, or `copies` not a number.
        ValueError: `copies` is less than 1, or another text than `"all"`.
        ValueLostError: the value of one is lost, and cannot be made again; or its executor has closed.
        RuntimeError: there is no executor here.
        GraphError: one was started by another executor, and has not finished.
        Whatever a call raised, as it is: of the first that failed.

    Example::

        model_ = (train @ Cores(8))(data)
        await replicate(model_, 2)               # one worker may go, and nothing runs again
        await replicate([left_, right_], "all")
    """
    count = _count(copies)
    items = [placeholders] if isinstance(placeholders, Delayed) else listed(placeholders, "replicate")
    nodes = [node_of(item) for item in items]
    await wait(items)
    for node in nodes:
        if node.error is not None:
            node.result()
    reached = anyio.Event()
    waiting = replicate_values(nodes, count, reached.set)
    if not waiting.ended:
        try:
            await reached.wait()
        finally:
            waiting.cancel()
    if waiting.error is not None:
        raise waiting.error


def _count(copies: object) -> int:
    """Return the number of replicas that is meant; 0 for one at every worker."""
    if not isinstance(copies, int | str) or isinstance(copies, bool):
        hint = ": several placeholders go in a list" if isinstance(copies, Delayed) else ""
        raise TypeError(f'replicate takes a number of replicas, or "all", not {type(copies).__name__}{hint}')
    if copies == "all":
        return _EVERYWHERE
    if isinstance(copies, str) or copies < 1:
        raise ValueError(f'replicate takes a number of replicas from 1 on, or "all", not {copies!r}')
    return copies
