"""Report to the head at the end of a turn of the daemon's loop: many small things, in one message.

Streams on their way through the daemon: items up to the head, credit down to the runner that works for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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


class ReportDraft:
    """A `Report` that is not sent yet. False while there is nothing to tell."""

    __slots__ = ("_completed", "_size", "buffers", "ended", "started", "waits")

    def __init__(self) -> None:
        self.started: list[LeaseStart] = []
        self.ended: list[int] = []
        self.waits: list[LeaseWait] = []
        self.buffers: list[Buffer] = []
        self._completed: list[Completed] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self.started or self._completed or self.ended or self.waits)

    def add_started(self, start: LeaseStart) -> None:
        """A lease began."""
        self.started.append(start)
        self._size += ROW_BYTES * len(start.jobs) + len(start.allocation)

    def add_completed(self, completed: Completed, buffers: Sequence[Buffer]) -> None:
        """Attempts ended; `buffers` are those of their payloads."""
        self._completed.append(completed)
        self.buffers.extend(buffers)
        rows = completed.data
        self._size += sum(map(len, rows)) + ROW_BYTES * (1 + len(rows))
        if buffers:
            self._size += weight_of(buffers)

    @property
    def full(self) -> bool:
        """Return True if the report has as much in it as goes well into one frame."""
        return self._size > BATCH_BYTES

    def message(self, now: float) -> Report:
        """Return the message to send at this moment, along with `buffers`."""
        return Report(now, self.started, self._completed, self.ended, self.waits)


class StreamRelay:
    """Knows which runner a stream comes from, from its first item to its end. False while no stream runs."""

    __slots__ = ("_post", "_runners")

    def __init__(self, post: Callable[[Items, Sequence[Buffer]], None]) -> None:
        self._post = post
        self._runners: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._runners)

    def up(self, runner: int, message: Items, buffers: Sequence[Buffer]) -> None:
        """Send items on at once: at most a window of them is on its way, so nothing piles up here."""
        self._runners[message.job] = runner
        self._post(message, buffers)

    def runner(self, message: Credit) -> int | None:
        """The runner that the credit is for; None when the stream has ended."""
        return self._runners.get(message.job)

    def forget(self, jobs: Iterable[int]) -> None:
        """These have ended."""
        for job in jobs:
            self._runners.pop(job, None)
