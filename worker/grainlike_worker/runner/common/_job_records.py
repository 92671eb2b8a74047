"""Records of `logging` in a process that runs jobs: what a job logs is sent to the job's program.

The process's loggers have the levels of the program. Above the root logger stands one more, with a handler that sends
records off: `logging` walks up to it as to any parent. The root itself has no handler then, so that `basicConfig` in a
job does what it does anywhere, and a job that configures the root itself keeps its records.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import Any

from grainlike.context import JobInfo, LoggingJob, logging_job
from grainlike.joblogging import JOB_RATE, LogLevels, RateGate, pack_dropped, pack_record
from grainlike_worker.ipc._record_frames import CARRIER, enlarge, send_record

__all__ = ["JobRecords"]

_MOST_JOBS = 1000
"""Jobs whose rates are known; what a job leaves behind may log after its end."""

_TELL_S = 0.5
"""Seconds for which the number of dropped records waits at most for room in the pipe, once the job has ended: a worker
that reads nothing for so long takes no outcome either.
"""


class JobRecords:
    """Way of records from the jobs of this process to their programs, through the pipe `fd`. There is one a process."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.levels: LogLevels | None = None
        """The levels that this process's loggers were given last."""
        self.admitted: set[LogLevels | None] = {None}
        """Levels that have been given to `admit`; None needs nothing."""
        self._handler = _JobHandler(fd)
        self._top = logging.Logger("grainlike jobs")
        self._top.addHandler(self._handler)
        logging.__dict__["basicConfig"] = _explicit(logging.basicConfig)
        self._given: dict[str, tuple[int, int]] = {}
        """Loggers that were given a level: the one they had, and the one they got."""
        self._changed: set[str] = set()
        """Loggers whose levels jobs have changed: theirs are respected."""
        self._disabled = 0

    @property
    def logged(self) -> bool:
        """Return True if a job has logged anything since its rate was forgotten, in `ended`."""
        return bool(self._handler.gates)

    def hold(self, levels: LogLevels | None) -> None:
        """Give the loggers of this process these levels; with None, leave records to the process, as in any other."""
        for name, (before, given) in self._given.items():
            logger = logging.getLogger(name or None)
            if logger.level == given:
                logger.setLevel(before)
            else:
                self._changed.add(name)
        self._given.clear()
        for name in () if levels is None else ("", *levels.names()):
            logger = logging.getLogger(name or None)
            level = levels.effective(name) if levels is not None else 0
            if name not in self._changed and logger.level != level:
                self._given[name] = logger.level, level
                logger.setLevel(level)
        disabled = 0 if levels is None else levels.disable
        if disabled != self._disabled:
            self._disabled = disabled
            logging.disable(disabled)
        logging.root.parent = None if levels is None else self._top
        self.levels = levels

    def admit(self, levels: LogLevels | None) -> None:
        """Let pass what these levels do, besides what may pass already: jobs of several programs run here at once."""
        self.admitted.add(levels)
        if self.levels is None or levels is None:
            self.hold(levels)
        else:
            lowest = self.levels.lowest(levels)
            if not lowest.is_like(self.levels):
                self.hold(lowest)

    def ended(self, jobs: Iterable[int]) -> None:
        """Tell how many records of these jobs were dropped, before their ends are told, and forget their rates."""
        for job in jobs:
            self._handler.gates.pop(job, None)
            dropped = self._handler.dropped.pop(job, None)
            if dropped is not None:
                self._handler.tell_dropped(*dropped)


class _JobHandler(logging.Handler):
    """Handler that sends records of jobs through a pipe. It has its lock, so that one thread at a time is in `emit`."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.gates: dict[int, RateGate] = {}
        """Rates of the jobs that have logged, by number."""
        self.dropped: dict[int, tuple[JobInfo, int]] = {}
        self._fd = fd
        self._is_large = False

    def emit(self, record: logging.LogRecord) -> None:
        found = logging_job()
        try:
            if found is None:
                _show_as_ever(record)
            elif found.levels.allows(record.name, record.levelno) and not _is_handled(record):
                self._send(record, found)
        except Exception:  # noqa: BLE001 - formatting asks objects of the job's, which may raise anything
            self.handleError(record)

    def _send(self, record: logging.LogRecord, found: LoggingJob) -> None:
        carrier = found.carrier
        gate = self.gates.get(carrier.id)
        if gate is None:
            if len(self.gates) >= _MOST_JOBS:
                self.gates.clear()
            gate = self.gates[carrier.id] = RateGate(JOB_RATE)
        # The rate is asked first, as formatting costs more; then the pipe is, for what is not read.
        now = time.monotonic()
        if gate.allows(0, now):
            packed = pack_record(record, found.job)
            if gate.charges(len(packed)) and self._sends(CARRIER.pack(carrier.id, carrier.attempt) + packed):
                return
        _, count = self.dropped.get(carrier.id, (carrier, 0))
        self.dropped[carrier.id] = carrier, count + 1

    def _sends(self, record: bytes) -> bool:
        if send_record(self._fd, record):
            return True
        if self._is_large:
            return False
        self._is_large = True
        enlarge(self._fd)
        return send_record(self._fd, record)

    def tell_dropped(self, job: JobInfo, count: int) -> None:
        """Send the number of records of a job that were dropped; wait a moment for room."""
        note = CARRIER.pack(job.id, job.attempt) + pack_dropped(job.id, job.name, job.attempt, count)
        if not send_record(self._fd, note):
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            poll.poll(_TELL_S * 1000)
            send_record(self._fd, note)


def _explicit(basic_config: Callable[..., None]) -> Callable[..., None]:
    """Wrap `logging.basicConfig`: in jobs whose records are passed on it does nothing where `logging` itself calls it.

    `logging.warning(...)` and its like do so, since the root logger has no handler; it would keep all that comes then.
    """

    @wraps(basic_config)
    def configure(**options: Any) -> None:
        if sys._getframe(1).f_globals is not vars(logging) or logging_job() is None:
            basic_config(**options)

    return configure


def _show_as_ever(record: logging.LogRecord) -> None:
    """Handle a record that is of no job, or of one that keeps its records, as `logging` does without handlers."""
    last = logging.lastResort
    if last is not None and record.levelno >= last.level and not any(_handlers_of(record)):
        last.handle(record)


def _handlers_of(record: logging.LogRecord) -> list[tuple[logging.Logger, logging.Handler]]:
    """Return the handlers that this process's code has given to the loggers that this record passes."""
    known = logging.root.manager.loggerDict.get(record.name)
    logger: logging.Logger | None = known if isinstance(known, logging.Logger) else logging.root
    found: list[tuple[logging.Logger, logging.Handler]] = []
    while logger is not None:
        found += [(logger, handler) for handler in logger.handlers]
        logger = logger.parent if logger is not logging.root and logger.propagate else None
    return found


def _is_handled(record: logging.LogRecord) -> bool:
    """Return True if the job sees to a record by itself: it has configured the root logger, or a handler of its own
    writes the record to the job's output, where it would be shown a second time.
    """
    for logger, handler in _handlers_of(record):
        if isinstance(handler, logging.NullHandler):
            continue
        if logger is logging.root or _writes_to_output(handler):
            return True
    return False


def _writes_to_output(handler: logging.Handler) -> bool:
    if isinstance(handler, logging.StreamHandler):
        with suppress(Exception):  # a stream of the job's: it may have no descriptor, or raise anything
            return handler.stream.fileno() in (1, 2)
    return False
