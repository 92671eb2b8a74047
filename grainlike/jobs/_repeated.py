"""Hint at big arguments that are packed and sent again and again, where the function could hold them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grainlike.payload import Payload, dump_value

if TYPE_CHECKING:
    from grainlike.graph import Node

__all__ = ["BIG", "LARGE", "RepeatedArguments", "is_big"]

logger = logging.getLogger("grainlike")

BIG = 1024 * 1024
"""Bytes from which an argument is big."""

LARGE = 64 * 1024
"""Bytes of a call's arguments from which it is told how many they are."""

MANY = 10
"""Calls of one batch in which an argument has to be."""

_WORDS = (
    "%s is given the same argument of %.1f MiB in many calls, and it is packed and sent with each: make it a "
    "`delayed_value(argument)`, which leaves the program once; or let the function hold it, and it is sent to each "
    "worker once: `delayed(functools.partial(%s, argument))`; or load it in the job (docs/calls.md, Large arguments)"
)

_said: set[str] = set()
"""Names of functions of which the hint was given in this process; there is one hint at most."""


class RepeatedArguments:
    """Counts of the calls of one batch in which the same big argument is sent. They keep it alive, so they are for one
    batch. Only calls whose packed arguments are big need be passed to `see`.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._alive: list[object] = []

    def see(self, node: Node, args: Iterable[object], kwargs: Mapping[str, object]) -> None:
        """Count the arguments of a call, but for values of other calls, which the program does not have."""
        if _said:
            return
        computed = {id(dep.value) for dep in node.deps}
        for item in {id(item): item for item in (*args, *kwargs.values())}.values():
            if id(item) in computed or type(item) in (int, float, bool, complex, type(None)):
                continue
            count = self._counts[id(item)] = self._counts.get(id(item), 0) + 1
            if count == 1:
                self._alive.append(item)
            elif count == MANY and (size := _size(item)) > BIG:
                _said.add(node.function.name)
                logger.warning(_WORDS, node.function.name, size / BIG, node.function.name)
                return


def is_big(data: bytes | bytearray | memoryview, buffers: Sequence[Any] = ()) -> bool:
    """Return True if packed arguments are so large that one of them may be big."""
    return len(data) + sum(memoryview(buffer).nbytes for buffer in buffers) > BIG


def _size(item: object) -> int:
    """Return the bytes of an argument when it is packed; those of buffers are counted, not copied."""
    payload: Payload = dump_value(item)
    return len(payload.data) + sum(memoryview(buffer).nbytes for buffer in payload.buffers)
