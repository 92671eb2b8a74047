"""Arrival of jobs' records in their program: each goes to the logger of its name, if that lets it pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from grainlike.joblogging._entry import LogEntry, record_of, unpack
from grainlike.joblogging._levels import PROGRAM_LEVELS

__all__ = ["JobLogging"]

_own = logging.getLogger("grainlike")


class JobLogging:
    """Logging of one executor's jobs: the levels that go with their functions, and the records that come back.

    With `quiet`, `logging`'s handler of last resort does not show them: as `Executor(echo=False)` has it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.levels = PROGRAM_LEVELS
        self._quiet = quiet
        self._told_of_invalid = False

    def take(self, worker: str, records: Iterable[bytes]) -> None:
        """Hand packed records of jobs on `worker` to this program's loggers. Whatever its filters raise is reported as
        `logging` reports errors of handlers.
        """
        for packed in records:
            entry = unpack(packed)
            if entry is None:
                self._tell_of_invalid(worker)
            elif entry.dropped:
                self._tell_dropped(worker, entry)
            else:
                self._log(worker, entry)

    def lost(self, count: int, why: str) -> None:
        """Warn that records were lost on the way, of jobs that nobody knows any more."""
        if self._may_show(_own):
            _own.warning("%s records of jobs were dropped: %s", f"{count:,}", why)

    def _log(self, worker: str, entry: LogEntry) -> None:
        logger = _nearest_logger(entry.name)
        if logger.isEnabledFor(entry.level) and self._may_show(logger):
            record = record_of(entry, worker)
            try:
                logger.handle(record)
            except Exception:  # noqa: BLE001 - a filter of the program's: it must not end the connection
                logging.Handler().handleError(record)

    def _may_show(self, logger: logging.Logger) -> bool:
        return not self._quiet or logger.hasHandlers()

    def _tell_dropped(self, worker: str, entry: LogEntry) -> None:
        if self._may_show(_own):
            job = {"job": entry.job, "job_name": entry.job_name, "worker": worker, "attempt": entry.attempt}
            words = "%s records of job %d, %s, on worker %s were dropped: it logs faster than they are passed on"
            _own.warning(words, f"{entry.dropped:,}", entry.job, entry.job_name, worker, extra=job)

    def _tell_of_invalid(self, worker: str) -> None:
        if not self._told_of_invalid and self._may_show(_own):
            self._told_of_invalid = True
            _own.warning("worker %s sent records of logging that are none; they are passed over", worker)


def _nearest_logger(name: str) -> logging.Logger:
    """Return the logger of this name, or the nearest above it: names that come from jobs make no loggers, which would
    stay for ever.
    """
    known = logging.root.manager.loggerDict
    while name:
        logger = known.get(name)
        if isinstance(logger, logging.Logger):
            return logger
        name = name.rpartition(".")[0]
    return logging.root
