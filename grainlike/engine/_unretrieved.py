"""Errors that nobody ever saw are logged: a started call that fails would otherwise do so without a word."""

from __future__ import annotations

import logging

from grainlike.errors import JobCancelledError
from grainlike.graph import Node, StreamNode

__all__ = ["SEEN_ELSEWHERE", "watch_over"]

logger = logging.getLogger("grainlike")


def watch_over(node: Node, error: BaseException) -> None:
    """See that the error of a node, which has failed just now, is logged if it is let go of before anybody saw it.

    Whoever waits for the node, or depends on it, is told of the error. That a call was cancelled is no error.
    """
    if node.waiters or node.dependents or isinstance(error, JobCancelledError):
        return
    if isinstance(node, StreamNode) and node.read:
        return
    node.witness(_Unseen(node.label(), error))


class _Unseen:
    """Lives as long as the error's node. It is made for failures alone: nodes have no destructor to pay for."""

    __slots__ = ("_error", "_name")

    def __init__(self, name: str, error: BaseException) -> None:
        self._name = name
        self._error: BaseException | None = error

    def seen(self) -> None:
        self._error = None

    def __del__(self) -> None:
        error = self._error
        if error is not None:
            logger.error(
                "%s failed with %s, and nobody has seen it: await what you start, or ask info() of it",
                self._name,
                type(error).__name__,
                exc_info=error,
            )


class _SeenElsewhere:
    def set(self) -> None:
        """It has finished."""


SEEN_ELSEWHERE = _SeenElsewhere()
"""Waits for a node whose outcome is kept elsewhere, where somebody may look: nothing is lost when it is let go of."""
