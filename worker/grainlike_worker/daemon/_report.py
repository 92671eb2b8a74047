"""Report to the head at the end of a turn of the daemon's loop: many small things, in one message.

Streams on their way through the daemon: items up to the head, credit down to the runner that works for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from grainlike.wire import (
    BATCH_BYTES,
    ROW_BYTES,
    Buffer,
    Completed,
    Credit,
    Items,
    LeaseStart,
    LeaseWait,
    Report,
    weight_of,
)

__all__ = ["ReportDraft", "StreamRelay"]


class ReportDraft(msgspec.Struct):
    """A `Report` that is not sent yet."""

    started: list[LeaseStart] = msgspec.field(default_factory=list)
    completed: list[Completed] = msgspec.field(default_factory=list)
    ended: list[int] = msgspec.field(default_factory=list)
    waits: list[LeaseWait] = msgspec.field(default_factory=list)
    buffers: list[Buffer] = msgspec.field(default_factory=list)
    size: int = 0
    """About how many bytes it will have."""
    full: bool = False
    """True if it has as much in it as goes well into one frame. No property, as every lease asks for it."""

    def add_started(self, start: LeaseStart) -> None:
        """Add the start of a lease."""
        self.started.append(start)
        self.size += ROW_BYTES * len(start.jobs) + len(start.allocation)
        self.full = self.size > BATCH_BYTES

    def add_completed(self, completed: Completed, buffers: Sequence[Buffer]) -> None:
        """Add the ends of attempts; `buffers` are those of their payloads."""
        self.completed.append(completed)
        self.buffers.extend(buffers)
        rows = completed.data
        self.size += sum(map(len, rows)) + ROW_BYTES * (1 + len(rows))
        if buffers:
            self.size += weight_of(buffers)
        self.full = self.size > BATCH_BYTES

    def message(self, now: float) -> Report:
        """Return the message to send at this moment, along with `buffers`."""
        return Report(now, self.started, self.completed, self.ended, self.waits)


class StreamRelay:
    """Knows which runner a stream comes from, from its first item to its end."""

    __slots__ = ("_post", "runners")

    def __init__(self, post: Callable[[Items, Sequence[Buffer]], None]) -> None:
        self._post = post
        self.runners: dict[int, int] = {}
        """By the job whose stream it is; read-only for callers."""

    def up(self, runner: int, message: Items, buffers: Sequence[Buffer]) -> None:
        """Send items on at once: at most a window of them is on its way, so nothing piles up here."""
        self.runners[message.job] = runner
        self._post(message, buffers)

    def runner(self, message: Credit) -> int | None:
        """Return the runner that the credit is for; None when the stream has ended."""
        return self.runners.get(message.job)

    def forget(self, jobs: Iterable[int]) -> None:
        """Drop the streams of jobs that have ended."""
        for job in jobs:
            self.runners.pop(job, None)
