"""Warning of calls that were started and never awaited, and that end with the block of their executor."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from grainlike.graph import Node, StreamNode

__all__ = ["warn_of_left_calls"]

logger = logging.getLogger("grainlike")

_MOST_NAMES = 3


def warn_of_left_calls(wanted: Iterable[Node]) -> None:
    """Log which calls end now that were started, as nothing else wants them: their program forgot to await them.

    Not those that were awaited once (their awaiters have given up), and no streams, which end with their readers.
    """
    left = [node for node in wanted if _is_started_alone(node)]
    if not left:
        return
    names = list(dict.fromkeys(node.function.name for node in left))
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    words = "%d started calls were cancelled as the block ended (%s): await them before it ends"
    if len(left) == 1:
        words = "%d started call was cancelled as the block ended (%s): await it before it ends"
    logger.warning(words, len(left), shown)


def _is_started_alone(node: Node) -> bool:
    """Return True if it has not finished, and neither it nor what needs it was ever awaited."""
    above, seen = [node], {node}
    while above:
        one = above.pop()
        if one.finished or one.waiters is not None or isinstance(one, StreamNode):
            return False
        found = [dependent for dependent in one.dependents or () if not dependent.finished and dependent not in seen]
        seen.update(found)
        above += found
    return True
