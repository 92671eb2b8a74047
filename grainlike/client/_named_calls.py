"""Named calls of a session, as a program sees them that need not have the session."""

from __future__ import annotations

from grainlike.errors import JobCancelledError, RemoteError
from grainlike.graph import Info
from grainlike.jobs import allocation_of
from grainlike.resources import Receipt, Usage
from grainlike.wire import EndedJob, JobRow, NamedRow

__all__ = ["info_of"]


def info_of(row: NamedRow, now: float) -> Info:
    """Return what `info` tells of a placeholder, of a named call; `now` is our clock as the head's answer came."""
    if row.live is not None:
        return _live(row, row.live, now)
    size = None if row.size < 0 else row.size
    error = _error(row, "" if row.ended is None else row.ended.error)
    if row.ended is None:
        return Info(row.function, row.state, error=error, job=row.job, size=size, where=tuple(row.where))
    job, ended = row.ended, now - row.ended_s
    return Info(
        row.function,
        row.state,
        worker=job.worker or None,
        allocation=allocation_of(job.slots) if job.slots else None,
        attempt=job.attempts,
        error=error,
        receipt=_receipt(job),
        usage=_usage(job),
        began=None if job.ran_s is None else ended - job.ran_s,
        ended=None if job.ran_s is None else ended,
        job=job.job,
        size=size,
        where=tuple(row.where),
    )


def _live(row: NamedRow, job: JobRow, now: float) -> Info:
    """Return what is told of a call whose job has not ended."""
    return Info(
        row.function,
        row.state,
        worker=job.worker or None,
        allocation=allocation_of(job.allocation) if job.allocation else None,
        attempt=job.attempt,
        began=None if job.running_s is None else now - job.running_s,
        job=job.job,
    )


def _error(row: NamedRow, words: str) -> Exception | None:
    """Return an error with what the head knows of that of a call: type and first line."""
    if row.state == "cancelled":
        return JobCancelledError(f"{row.function} was cancelled")
    if row.state != "failed":
        return None
    if not words:
        return RemoteError("unknown", "the program of the session has the error")
    kind, _, message = words.partition(": ")
    return RemoteError(kind, message)


def _receipt(job: EndedJob) -> Receipt | None:
    told = job.receipt
    if told is None:
        return None
    return Receipt(tuple(told.affinity), dict(told.threads), tuple(told.devices), told.memory_tier)


def _usage(job: EndedJob) -> Usage | None:
    if job.ran_s is None:
        return None
    return Usage(job.ran_s, job.cpu_s, job.peak_memory, job.cpu_s / job.ran_s if job.ran_s > 0 else 0.0)
