"""Log of errors that were never retrieved, and of calls that end unawaited: both would otherwise be silent."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from traceback import TracebackException

from grainlike.errors import JobCancelledError
from grainlike.graph import Node, StreamNode

__all__ = ["log_if_unretrieved", "log_left_calls", "retrieved_elsewhere"]

logger = logging.getLogger("grainlike")

_MOST_NAMES = 3
"""Most names of functions in the log of calls that end unawaited."""


def log_if_unretrieved(node: Node, error: BaseException) -> None:
    """Log the error of a node that has just failed if the node is collected before its error was retrieved.

    Awaiters and dependents of the node receive the error, so it is not logged then. Cancellation is no error.
    """
    if node.waiters or node.dependents or isinstance(error, JobCancelledError):
        return
    if isinstance(node, StreamNode) and node.read:
        return
    node.witness(_Unretrieved(node.label(), error))


class _Unretrieved:
    """Lives as long as the error's node. It is made for failures alone: nodes have no destructor to pay for."""

    __slots__ = ("_error", "_name")

    def __init__(self, name: str, error: BaseException) -> None:
        self._name = name
        self._error: BaseException | None = error

    def seen(self) -> None:
        self._error = None

    def __del__(self) -> None:
        error = self._error
        if error is not None and logger.isEnabledFor(logging.ERROR):
            words = "%s failed with %s, and nobody has seen it: await what you start, or ask info() of it"
            what = type(error), error, error.__traceback__
            record = logger.makeRecord(
                logger.name, logging.ERROR, __file__, 0, words, (self._name, type(error).__name__), what
            )
            record.exc_text = _formatted(error)
            logger.handle(record)


def _formatted(error: BaseException) -> str:
    """Return the traceback without marks under the columns.

    Python finds those with its parser, which may be what runs: a collector calls destructors in the middle of anything,
    and the parser of CPython 3.11 cannot be entered twice (python/cpython#106905).
    """
    whole = TracebackException.from_exception(error)
    for part in _parts(whole):
        for frame in part.stack:
            frame.colno = frame.end_colno = None
    return "".join(whole.format()).rstrip("\n")


def _parts(whole: TracebackException) -> Iterator[TracebackException]:
    """Give an exception, those that it stands for or follows from, and so on."""
    waiting, seen = [whole], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            others = (part.__cause__, part.__context__, *(part.exceptions or ()))
            waiting += [other for other in others if other is not None]


def retrieved_elsewhere() -> None:
    """Do nothing. As a waiter it marks a node's error as retrieved: its outcome is kept elsewhere, so it is not logged
    when the node is dropped.
    """


def log_left_calls(unfinished: Iterable[Node]) -> None:
    """Log which of these calls were started and never awaited: they end now, with the block of their executor.

    Not those that were awaited once (their awaiters have given up), and no streams, which end with their readers.
    """
    left = [node for node in unfinished if node.waiters is None and not _is_needed(node)]
    if not left:
        return
    names = list(dict.fromkeys(node.function.name for node in left))
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    words = "%d started calls were cancelled as the block ended (%s): await them before it ends"
    if len(left) == 1:
        words = "%d started call was cancelled as the block ended (%s): await it before it ends"
    logger.warning(words, len(left), shown)


def _is_needed(node: Node) -> bool:
    return isinstance(node, StreamNode) or any(not dependent.finished for dependent in node.dependents or ())
