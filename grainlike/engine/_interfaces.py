"""Interfaces of what an engine hands its nodes to: jobs to workers, calls to this process, results to a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from typing import Any, Protocol

from grainlike.graph import Node

__all__ = ["QUIET_S", "CallCache", "CallRunner", "JobRunner"]

QUIET_S = 12.0
"""Seconds for which closing waits for cancelled calls before it logs them: enough for a grace, a signal, and another.
"""


class JobRunner(Protocol):
    """Receiver of calls with resources."""

    def submit(self, nodes: Sequence[Node]) -> None:
        """Submit these calls to workers."""

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Cancel calls that are wanted no more; with `skipped`, those that had not started count as skipped, not
        cancelled.
        """


class CallRunner(Protocol):
    """Receiver of calls without resources."""

    def begin(self, node: Node, context: Context) -> None:
        """Run it in this process, in a copy of `context`."""

    def cancel(self, node: Node) -> None:
        """Cancel a call that is wanted no more."""


class CallCache(Protocol):
    """Result cache of calls. A call passes here twice at most: before it runs, and when it has succeeded."""

    def wants_to_look(self, node: Node) -> bool:
        """Return True if the result is to be looked up before the call runs."""
        ...

    def look(self, node: Node, go_on: Callable[[], None]) -> None:
        """Look up the result: report the call's outcome on a hit, else call `go_on`."""

    def wants_to_keep(self, node: Node) -> bool:
        """Return True if the call's value is to be stored before awaiters get it."""
        ...

    def keep(self, node: Node, value: Any) -> None:
        """Store the value, then report the call's outcome again."""

    def forget(self, node: Node) -> None:
        """Drop the state of a call that has finished."""
