"""Connection of a running job to the head, for the jobs that it awaits: interface between its runner and its
executor.

The two ends live in one process and do not depend on each other's packages: the worker's runner puts an `Uplink` into
the job's view, and the executor finds it there when the job awaits its first placeholder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from grainlike.wire import Buffer, Message, Outcomes, Resumed

__all__ = ["NestedSubmitter", "Uplink"]


class NestedSubmitter(Protocol):
    """Submitter of one job's nested jobs, which receives their outcomes. All calls come in the job's own event loop."""

    def outcomes(self, message: Outcomes, buffers: Sequence[Buffer]) -> None:
        """Jobs that it submitted have ended."""

    def resumed(self, message: Resumed) -> None:
        """Resume the job, which awaited."""

    def stop(self) -> None:
        """Note that the job was cancelled: its cancellation is about to arrive in it."""

    def close(self) -> None:
        """Close, as the job has ended. Its event loop may have closed."""


class Uplink(Protocol):
    """Interface of a runner for its jobs."""

    def attach(self, job: int, nesting: NestedSubmitter) -> bool:
        """Register `nesting` for messages about a running job. Return False where nothing could reach it here."""
        ...

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send to the worker. The buffers are not copied: they must not change."""
