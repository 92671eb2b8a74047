"""Workers and explanations as rows of messages, and back: what a head answers its clients, and what they make of it."""

from __future__ import annotations

from grainlike.executor._workers import WorkerInfo
from grainlike.resources import EMPTY, parse, parse_allocation
from grainlike.scheduler import Explanation
from grainlike.wire import JobIs, WorkerRow

__all__ = ["explanation_of", "job_is", "worker_info", "worker_row"]


def worker_row(worker: WorkerInfo) -> WorkerRow:
    """A worker, to be sent."""
    return WorkerRow(
        worker.name,
        str(worker.resources),
        list(worker.logical),
        worker.pid,
        worker.running,
        worker.beats,
        worker.silent_s,
        worker.memory_tier,
        worker.shut,
    )


def worker_info(row: WorkerRow) -> WorkerInfo:
    """The worker that was sent."""
    return WorkerInfo(
        row.name,
        parse_allocation(row.resources),
        tuple(row.logical),
        row.pid,
        row.running,
        row.beats,
        row.silent_s,
        row.memory_tier,
        row.shut,
    )


def job_is(ask: int, name: str, found: Explanation) -> JobIs:
    """Why a job waits, or where it is, as the answer to a question."""
    smaller = found.would_start_with
    return JobIs(
        ask,
        found.job,
        name,
        found.state,
        found.attempt,
        str(found.request),
        found.reason,
        str(found),
        found.worker,
        found.before,
        found.nearest,
        list(found.holders),
        found.starts_in_s,
        None if smaller is None else str(smaller),
        list(found.members),
        found.lacking,
    )


def explanation_of(told: JobIs) -> Explanation:
    """What was answered; the head's own words come along."""
    return Explanation(
        told.job,
        told.state,
        told.attempt,
        parse(told.request) if told.request else EMPTY,
        told.reason,
        worker=told.worker,
        before=told.before,
        nearest=told.nearest,
        holders=tuple(told.holders),
        starts_in_s=told.starts_in_s,
        would_start_with=None if told.would_start_with is None else parse(told.would_start_with),
        members=tuple(told.members),
        lacking=told.lacking,
        words=told.words,
    )
