"""The way of a running job to the head, for the jobs that it awaits: what its runner offers, and what uses it.

The two ends live in one process and know nothing of each other's packages: the worker's runner puts an `Uplink` into
the job's view, and the executor finds it there when the job awaits its first placeholder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from grainlike.wire import Buffer, Message, Outcomes, Resumed

__all__ = ["Nesting", "Uplink"]


class Nesting(Protocol):
    """Who submits for one job, and hears of it. All calls come in the job's own event loop."""

    def outcomes(self, message: Outcomes, buffers: Sequence[Buffer]) -> None:
        """Jobs that it submitted have ended."""

    def resumed(self, message: Resumed) -> None:
        """The job, which awaited, may go on."""

    def stop(self) -> None:
        """Somebody cancelled the job: its cancellation is about to arrive in it."""

    def close(self) -> None:
        """The job has ended. Its event loop may be gone."""


class Uplink(Protocol):
    """What a runner offers to its jobs."""

    def attach(self, job: int, nesting: Nesting) -> bool:
        """Let `nesting` hear of what concerns a running job. False where nothing could reach it here."""
        ...

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send to the worker. The buffers are not copied: they must not change."""
