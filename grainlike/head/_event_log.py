"""`EventLog`: events of a head as flat records, for a file of JSON lines. docs/monitoring.md has their schema.

It is one of the head's observers and is told of submissions and ends by the batch. Nothing is formatted then: what
comes together is kept as one entry, and `take` makes the records when they are to be written.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from grainlike.head._errors import name_of
from grainlike.head._nested import RelayedJob
from grainlike.history import row_of
from grainlike.jobs import slots_of
from grainlike.wire import Code

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.head._queries import HeadQueries
    from grainlike.history import Entry
    from grainlike.jobs import Job, Worker
    from grainlike.resources import Request
    from grainlike.scheduler import JobsSubmitted
    from grainlike.wire import BlockRow, EndedJob, LeaseStart, PoolRow, Report

__all__ = ["EventLog", "EventRecord"]

VERSION = 1
"""Version of the schema. New fields and new events leave it as it is; one that changes its meaning does not."""

MOST = 200_000
"""Records that wait to be written at most; those after them are dropped, and counted."""

_OF_POOL = ("kind", "min", "max", "wanted", "pending", "up", "paused")
_OF_BLOCK = ("state", "reason", "native", "nodes", "workers")
"""Fields of the rows of pools and blocks, as they stand in events."""

EventRecord = dict[str, Any]
"""An event: names of fields to text, numbers or None."""


class _Pending(NamedTuple):
    """Entry of `rows` records that came together; `records` makes them, each with its time on the head's clock."""

    rows: int
    records: Callable[[], Iterator[tuple[float, EventRecord]]]


class EventLog:
    """Events of the head that `view` looks at. `now` is its clock, `wall` that of the calendar. Implements `Observer`.

    `origin` returns number and name of the client that a job came from, and the job that submitted it. With more than
    `most` records that wait, new ones are dropped, and an `events_dropped` says how many.
    """

    def __init__(
        self,
        view: HeadQueries,
        origin: Callable[[Job], tuple[int, str, int]],
        now: Callable[[], float],
        *,
        wall: Callable[[], float] = time.time,
        most: int = MOST,
    ) -> None:
        self._view = view
        self._origin = origin
        self._now = now
        self._wall = wall
        self._most = most
        self._waiting: deque[_Pending] = deque()
        self._count = 0
        self._dropped = 0
        self._codes: dict[int, str] = {}
        """Outcomes of the attempts of the report that is being handled, of those that gave no value."""
        self._pools: dict[str, EventRecord] = {}
        self._blocks: dict[str, EventRecord] = {}

    def __len__(self) -> int:
        return self._count + bool(self._dropped)

    def take(self, most: int) -> list[EventRecord]:
        """Return the oldest records, some more than `most` if they belong together, and keep them no more."""
        taken: list[EventRecord] = []
        if self._dropped:
            taken.append(self.event("events_dropped", count=self._dropped))
            self._dropped = 0
        ahead = self._wall() - self._now()
        while self._waiting and len(taken) < most:
            pending = self._waiting.popleft()
            self._count -= pending.rows
            taken += (_timed(at, ahead, fields) for at, fields in pending.records())
        return taken

    def event(self, event: str, **fields: object) -> EventRecord:
        """Return the record of an event that happens now, and belongs to no other."""
        return _timed(self._now(), self._wall() - self._now(), {"event": event, **fields})

    # --- workers, as `Observer` --------------------------------------------------------------------------------------

    def joined(self, peer: Worker) -> None:
        """Add an event: a worker is here."""
        self._add_one({"event": "worker_joined", "worker": peer.name, "resources": str(peer.offer)})

    def suspected(self, peer: Worker, why: str) -> None:
        """Add an event: a worker gets no jobs for now, or does again."""
        self._of_worker(peer, "worker_suspected" if why else "worker_heard", why)

    def quarantined(self, peer: Worker, why: str) -> None:
        """Add an event: a worker fails again and again, and gets nothing new for a while; or that is over."""
        self._of_worker(peer, "worker_quarantined" if why else "worker_released", why)

    def left(self, peer: Worker) -> None:
        """Add an event: a worker has left."""
        self._of_worker(peer, "worker_left", "")

    def closed(self) -> None:
        """Do nothing: who takes the records learns of the end elsewhere."""

    def called(self, node: Node) -> None:
        """Do nothing: calls without resources are no jobs."""

    def _of_worker(self, peer: Worker, event: str, why: str) -> None:
        self._add_one({"event": event, "worker": peer.name, **({"reason": why} if why else {})})

    # --- jobs --------------------------------------------------------------------------------------------------------

    def submitted(self, event: JobsSubmitted, now: float) -> None:
        """Add the submission of jobs: a record for each function among them."""
        jobs = list(map(self._view.name_of, event.jobs))
        first = self._view.record(event.jobs[0])
        origin = (0, "", 0) if first is None else self._origin(first)
        records = [
            {
                "event": "job_submitted",
                "job": numbers[0],
                "last_job": numbers[-1],
                "count": len(numbers),
                "name": name,
                "request": event.request,
                "priority": event.priority,
                **_origin_fields(origin),
            }
            for name, numbers in _by_name(jobs, event.jobs)
        ]
        self._add(len(records), lambda: ((now, _with_text(record)) for record in records))

    def reported(self, peer: Worker, report: Report) -> None:
        """Add the attempts of a worker's report that began. Those that ended come with their jobs' ends."""
        self._codes = {
            job: Code(code).name.lower()
            for completed in report.completed
            if any(completed.codes)
            for job, code in zip(completed.jobs, completed.codes, strict=True)
            if code
        }
        for start in report.started:
            self._started(peer, start)

    def _started(self, peer: Worker, start: LeaseStart) -> None:
        if len(start.jobs) == 1 and self._view.assembles(start.jobs[0]):
            return
        began = [
            (number, attempt, slots, name_of(job), self._origin(job) if type(job) is RelayedJob else (0, "", 0))
            for number, attempt, slots in slots_of(start)
            if (job := self._view.job(number, attempt)) is not None
        ]
        at, worker = start.at + peer.skew, peer.name
        self._add(len(began), lambda: ((at, _started_record(worker, *row)) for row in began))

    def linked(self, job: Job, *, good: bool) -> None:  # noqa: ARG002 - its end comes with that of all jobs
        """Add the start of a call that has run in a chain: workers report only the first of a chain."""
        if job.links or job.began is None:
            return
        at = job.began
        row = _started_record(job.worker or "", job.id, job.attempt, job.slots or "", name_of(job), (0, "", 0))
        self._add(1, lambda: iter([(at, row)]))

    def requeued(self, jobs: Sequence[Job], seconds: float | None) -> None:
        """Add the end of attempts that had begun, of jobs that run again, `seconds` from now at the earliest."""
        for job in jobs:
            if job.slots is None:
                continue
            record = {
                "event": "job_requeued",
                "job": job.id,
                "name": name_of(job),
                "outcome": self._codes.get(job.id, "lost"),
                "worker": job.worker or "",
                "attempt": job.attempt,
                "again_in_s": seconds or 0.0,
            }
            self._add_one(record)

    def ended(self, entry: Entry) -> None:
        """Add the jobs of an entry of the history."""
        count = len(entry.jobs)
        rows = (row_of(entry, row, 0.0) for row in range(count))
        self._add(count, lambda: ((row.ended_at, _ended_record(row)) for row in rows))

    # --- pools -------------------------------------------------------------------------------------------------------

    def fleet(self, pools: Sequence[PoolRow], blocks: Sequence[BlockRow]) -> None:
        """Add pools and blocks that have changed since the last call, the ended ones too."""
        for pool in pools:
            is_so = {name: getattr(pool, name) for name in _OF_POOL}
            if self._pools.get(pool.pool) != is_so:
                self._add_one({"event": "pool_changed", "pool": pool.pool, **is_so})
                self._pools[pool.pool] = is_so
        for name in self._pools.keys() - {pool.pool for pool in pools}:
            self._add_one({"event": "pool_removed", "pool": name})
            del self._pools[name]
        known, self._blocks = self._blocks, {}
        for block in blocks:
            is_so = self._blocks[block.label] = {name: getattr(block, name) for name in _OF_BLOCK}
            if known.get(block.label) != is_so:
                self._add_one({"event": "block_changed", "block": block.label, "pool": block.pool, **is_so})

    # --- entries -----------------------------------------------------------------------------------------------------

    def _add_one(self, record: EventRecord) -> None:
        now = self._now()
        self._add(1, lambda: iter([(now, record)]))

    def _add(self, count: int, records: Callable[[], Iterator[tuple[float, EventRecord]]]) -> None:
        if self._count + count > self._most:
            self._dropped += count
        elif count:
            self._count += count
            self._waiting.append(_Pending(count, records))


def _by_name(names: Sequence[str], jobs: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """Iterate over the functions of a batch, each with the numbers of its jobs."""
    if len(Counter(names)) == 1:
        yield names[0], list(jobs)
        return
    for name, rows in groupby(sorted(zip(names, jobs, strict=True)), key=lambda row: row[0]):
        yield name, [number for _, number in rows]


def _origin_fields(origin: tuple[int, str, int]) -> EventRecord:
    return dict(zip(("client", "program", "parent"), origin, strict=True))


def _with_text(record: Mapping[str, Any]) -> EventRecord:
    request: Request = record["request"]
    return {**record, "request": str(request)}


def _started_record(
    worker: str, job: int, attempt: int, slots: str, name: str, origin: tuple[int, str, int]
) -> EventRecord:
    return {
        "event": "job_started",
        "job": job,
        "name": name,
        "worker": worker,
        "slots": slots,
        "attempt": attempt,
        **_origin_fields(origin),
    }


def _ended_record(row: EndedJob) -> EventRecord:
    return {
        "event": "job_ended",
        "job": row.job,
        "name": row.name,
        "outcome": row.outcome,
        "error": row.error,
        "worker": row.worker,
        "slots": row.slots,
        "attempt": row.attempts,
        "client": row.client,
        "program": row.program,
        "parent": row.parent,
        "queued_s": row.queued_s,
        "ran_s": row.ran_s,
        "cpu_s": row.cpu_s,
        "peak_memory_bytes": row.peak_memory,
    }


def _timed(at: float, ahead: float, fields: EventRecord) -> EventRecord:
    second, rest = divmod(at + ahead, 1)
    moment = f"{_second(second)}.{int(rest * 1e6):06d}+00:00"
    return {"v": VERSION, "at": moment, "monotonic_s": round(at, 6), **fields}


@lru_cache(maxsize=16)
def _second(at: float) -> str:
    """Return a whole second as ISO 8601 has it, in UTC: kept, as to write it takes longer than the rest of a record."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
