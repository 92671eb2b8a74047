"""Arrival of jobs' records in their program: each goes to the logger of its name, if that lets it pass."""

from __future__ import annotations

import _thread
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from grainlike.joblogging._entry import LogEntry, record_of, unpack
from grainlike.joblogging._levels import PROGRAM_LEVELS

__all__ = ["JobLogging", "log_entry"]

_own = logging.getLogger("grainlike")

_LEVEL_MOST = 1000
"""Level up to which a logger may remember its answers."""


class JobLogging:
    """Logging of one executor's jobs: the levels that go with their functions, and the records that come back.

    With `quiet`, `logging`'s handler of last resort does not show them: as `Executor(echo=False)` has it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.levels = PROGRAM_LEVELS
        self._quiet = quiet
        self._told_of_invalid = False

    def take(self, worker: str, records: Iterable[bytes]) -> None:
        """Hand packed records of jobs on `worker` to this program's loggers.

        Whatever the program's factory of records, filters and handlers raise is reported as `logging` reports errors of
        handlers, `SystemExit` too; a `KeyboardInterrupt` interrupts the program, as Ctrl-C does. Nothing is raised.
        """
        for packed in records:
            entry = unpack(packed)
            if entry is None:
                _reporting(self._tell_of_invalid, worker)
            elif entry.dropped:
                _reporting(self._tell_dropped, worker, entry)
            else:
                _reporting(self._log, worker, entry)

    def lost(self, count: int, why: str) -> None:
        """Warn that records were lost on the way, of jobs that are not known any more."""
        _reporting(self._tell_lost, count, why)

    def _log(self, worker: str, entry: LogEntry) -> None:
        logger = _nearest_logger(entry.name)
        if _is_enabled(logger, entry.level) and self._may_show(logger):
            logger.handle(record_of(entry, worker))

    def _tell_lost(self, count: int, why: str) -> None:
        if self._may_show(_own):
            _own.warning("%s records of jobs were dropped: %s", f"{count:,}", why)

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


def log_entry(logger: logging.Logger, entry: LogEntry, worker: str) -> None:
    """Hand a record about a job on `worker` to this logger. Errors of the program's handlers are only reported."""
    _reporting(lambda: logger.handle(record_of(entry, worker)))


def _reporting(call: Callable[..., None], *arguments: object) -> None:
    """Call what runs code of the program's: no error of that may end the connection whose turn this is."""
    try:
        call(*arguments)
    except KeyboardInterrupt:
        _thread.interrupt_main()  # a true one, perhaps: it is for the program's main thread, not for this task
    except BaseException:  # noqa: BLE001 - of a handler, even a CancelledError: nothing is awaited here
        words = " ".join(
            argument.message if isinstance(argument, LogEntry) else str(argument) for argument in arguments
        )
        about = logging.LogRecord(_own.name, logging.WARNING, __file__, 0, words, (), None)
        with suppress(Exception):  # the program's standard error may be anything
            logging.Handler().handleError(about)


def _is_enabled(logger: logging.Logger, level: int) -> bool:
    """Return True if a logger lets this level pass. It remembers each level that it is asked about itself: so it is
    asked about ordinary ones alone, for jobs choose them.
    """
    if 0 <= level <= _LEVEL_MOST:
        return logger.isEnabledFor(level)
    return not logger.disabled and level > logger.manager.disable and level >= logger.getEffectiveLevel()


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
