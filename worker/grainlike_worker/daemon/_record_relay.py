"""Records of `logging` that jobs made, on the worker's side: from the runners' pipes to the head."""

from __future__ import annotations

import time
from collections.abc import Callable

from grainlike.joblogging import WORKER_RATE, LogEntry, RateGate, line_of, pack_dropped, unpack
from grainlike.wire import Completed, LoggedRecords, OutputStream
from grainlike_worker.daemon._output import Tap
from grainlike_worker.ipc._record_frames import CARRIER

__all__ = ["RecordRelay"]

UNSENT_BYTES = 8 << 20
"""Bytes that the head has not acknowledged, from which on records are dropped."""


class RecordRelay:
    """Passes on the records of all jobs of one worker: to the head by `post`, and to the jobs' output.

    Beyond the worker's rate, and while `backlog()` is large, they are dropped and counted. In the program itself
    (`in_program`) they are not shown, as the program's own handlers do so.
    """

    def __init__(
        self, post: Callable[[LoggedRecords], object], backlog: Callable[[], int], *, in_program: bool
    ) -> None:
        self.dropped: dict[int, tuple[int, str, int]] = {}
        """Attempt, name and number of dropped records of jobs, by their numbers."""
        self._post = post
        self._backlog = backlog
        self._in_program = in_program
        self._gate = RateGate(WORKER_RATE)

    def take(self, tap: Tap, records: list[bytes]) -> None:
        """Take what a runner sent, each with its `CARRIER`; what is no record is passed over."""
        now, is_full = time.monotonic(), self._backlog() > UNSENT_BYTES
        told = LoggedRecords([], [], [])
        for record in records:
            job, attempt = CARRIER.unpack_from(record)
            packed = record[CARRIER.size :]
            entry = unpack(packed)
            if entry is None:
                continue
            if entry.dropped:
                self._drop(job, attempt, entry, entry.dropped)
            elif is_full or not self._gate.allows(len(packed), now):
                self._drop(job, attempt, entry, 1)
            else:
                told.jobs.append(job)
                told.attempts.append(attempt)
                told.records.append(packed)
                line = f"{line_of(entry)}\n".encode(errors="backslashreplace")
                tap.told(entry.job, entry.attempt, OutputStream.LOG, line, shown=self._in_program)
        if told.records:
            self._post(told)

    def _drop(self, job: int, attempt: int, entry: LogEntry, count: int) -> None:
        _, _, before = self.dropped.get(job, (0, "", 0))
        self.dropped[job] = attempt, entry.job_name, before + count

    def completed(self, completed: Completed) -> None:
        """Tell the head how many records were dropped of jobs that have ended, before it is told of their ends."""
        for job in completed.jobs:
            attempt, name, count = self.dropped.pop(job, (0, "", 0))
            if count:
                self._post(LoggedRecords([job], [attempt], [pack_dropped(job, name, attempt, count)]))
