"""What the head is to be told at the end of a turn of the daemon's loop: many small things, in one message."""

from __future__ import annotations

from collections.abc import Sequence

from grainlike.wire import BATCH_BYTES, ROW_BYTES, Buffer, Completed, LeaseStart, LeaseWait, Report, weight_of

__all__ = ["ReportDraft"]


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
        """Whether it has as much in it as goes well into one frame."""
        return self._size > BATCH_BYTES

    def message(self, now: float) -> Report:
        """What to send, at this moment, along with `buffers`."""
        return Report(now, self.started, self._completed, self.ended, self.waits)
