"""Marks on the records that jobs in this very process make: coroutines of the embedded worker.

Their records are the program's own already, and go to its handlers without help. What they lack is the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from grainlike.context import logging_job

__all__ = ["marked_records"]


class _MarkingFactory:
    """Factory of records that adds the job in which a record is made; `inner` makes the record."""

    def __init__(self, inner: Callable[..., logging.LogRecord]) -> None:
        self._inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._inner(*args, **kwargs)
        found = logging_job()
        if found is not None:
            record.job, record.job_name, record.attempt = found.job.id, found.job.name, found.job.attempt
            record.worker = found.worker
        return record


class _Users:
    """Executors that want marks, and the factory that is there for them all."""

    def __init__(self) -> None:
        self.count = 0
        self.marking: _MarkingFactory | None = None
        self.before: Callable[..., logging.LogRecord] = logging.LogRecord


_users = _Users()


@contextmanager
def marked_records() -> Iterator[None]:
    """Context manager: records that jobs in this process make have `job`, `job_name`, `worker` and `attempt`.

    The factory of records is changed once, however many ask for it at a time. One that the program sets meanwhile
    stays, and has to call the one before it for the marks to be there.
    """
    if _users.count == 0:
        _users.before = logging.getLogRecordFactory()
        _users.marking = _MarkingFactory(_users.before)
        logging.setLogRecordFactory(_users.marking)
    _users.count += 1
    try:
        yield
    finally:
        _users.count -= 1
        if _users.count == 0 and logging.getLogRecordFactory() is _users.marking:
            logging.setLogRecordFactory(_users.before)
