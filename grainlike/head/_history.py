"""`JobHistory`: what became of the last jobs of a head, in a ring that is bounded in jobs and in bytes.

Jobs are kept as they end, many together: a batch of them is one entry of columns, packed at once, so that a job costs
a tenth of a microsecond or two and some 50 bytes. Entries are joined to blocks, which are the unit of what is dropped,
skipped by a search, and written to disk.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from grainlike.head._errors import name_of
from grainlike.head._nested import RelayedJob
from grainlike.jobs import Job, Placement
from grainlike.wire import AskHistory, Completed, EndedJob, HistoryIs

__all__ = ["KEPT_BYTES", "KEPT_JOBS", "JobHistory", "first_line"]

T = TypeVar("T")

KEPT_JOBS = 100_000
"""Number of ended jobs that are kept."""

KEPT_BYTES = 20_000_000
"""Bytes that they take at most: with long names and errors fewer are kept."""

_BLOCK_JOBS = 1_024
_ENTRY_BYTES = 41
"""Bytes of an entry beside what it says: those of its object, and its place in a list."""

_PAGE_JOBS = 500
_PAGE_LOOKS = 2_048
"""The most jobs of one answer, and how many are looked at for it: the head does nothing else meanwhile."""

_NEAR_S = 0.01
"""Moments of submission that lie nearer to each other are kept as one."""

_MOST_MOMENTS = 20_000
"""Moments of submission that are kept; of the older ones then every second."""

_LONGEST_ERROR = 200


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Jobs that have ended alike, in columns; `names`, `slots` and `submitted` have one item for all, or one for each.

    `begun` is when they began on their worker's clock, which is `skew` behind the head's, and `submitted` is on the
    head's. `ran` is None for a job that did not run: it ended at `begun`.
    """

    outcome: str
    error: str
    worker: str
    client: int
    program: str
    parent: int
    skew: float
    names: list[str]
    slots: list[str | None]
    submitted: list[float | None]
    jobs: list[int]
    attempts: list[int]
    begun: list[float]
    ran: Sequence[float | None]
    cpu: list[float]
    rss: list[int]


class _Block(NamedTuple):
    """Entries that are packed together. `first` is the place of the first of its `rows` jobs among all that ended.

    `bad` of them did not succeed, their numbers lie from `lowest` to `highest`, and they had ended by `until`, as
    `time.time()` has it, which is `ahead` of the head's clock.
    """

    first: int
    rows: int
    bad: int
    lowest: int
    highest: int
    until: float
    ahead: float
    data: bytes


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[_Entry]).decode
_GOOD = "succeeded"
_FN, _NAME, _PLACEMENT, _SLOTS = map(attrgetter, ("fn", "node.function.name", "placement", "slots"))


_UNPACKABLE = (TypeError, UnicodeEncodeError)
"""Errors for text of a subclass of `str`, or with a lone surrogate: names are users' own, and errors quote anything."""


def _packed(entry: _Entry) -> bytes:
    """Return an entry that could not be packed as bytes, with plain text in place of its own."""
    return _pack(
        replace(
            entry,
            names=list(map(_plain_text, entry.names)),
            error=_plain_text(entry.error),
            worker=_plain_text(entry.worker),
            program=_plain_text(entry.program),
        )
    )


def _plain_text(text: str) -> str:
    return str.encode(text, "utf-8", "backslashreplace").decode()


def first_line(text: str) -> str:
    """Return the first line of an error's text that says something, shortened."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 3]}..."


class JobHistory:
    """The last jobs that have ended, of those in `live`. `now` is the head's clock, `wall` that of the calendar.

    It keeps at most `most` jobs and `most_bytes`.
    """

    def __init__(
        self,
        live: Callable[[], Mapping[int, Job]],
        now: Callable[[], float],
        *,
        most: int = KEPT_JOBS,
        most_bytes: int = KEPT_BYTES,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._live = live
        self._now = now
        self._wall = wall
        self._most = most
        self._most_bytes = most_bytes
        self._blocks: deque[_Block] = deque()
        self._bytes = 0
        self._end = 1
        """Place of the next job that ends, of all that have: 1 for the first."""
        self._jobs: list[int] = [0]
        self._moments: list[float | None] = [None, None]
        """Numbers of jobs, and when those from there on were submitted: one place further on, as `bisect` counts."""
        self._begin_block()

    def _begin_block(self) -> None:
        self._entries: list[bytes] = []
        self._numbers: list[int] = []
        self._first = self._end
        self._bad = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the jobs take."""
        return self._bytes + sum(map(len, self._entries)) + _ENTRY_BYTES * len(self._entries)

    def __len__(self) -> int:
        first = self._blocks[0].first if self._blocks else self._first
        return min(self._end - first, self._most)

    # --- what is told ------------------------------------------------------------------------------------------------

    def submitted(self, job: int, now: float) -> float:
        """Take note that jobs from this number on are submitted now; return when it is to be called again."""
        if job > self._jobs[-1]:
            self._jobs.append(job)
            self._moments.append(now)
            if len(self._jobs) > _MOST_MOMENTS:
                del self._jobs[2 : _MOST_MOMENTS // 2 : 2], self._moments[3 : _MOST_MOMENTS // 2 + 1 : 2]
        return now + _NEAR_S

    def succeeded(self, worker: str, skew: float, jobs: Sequence[Job], completed: Completed) -> None:
        """Keep a batch of this program's own jobs, all of which gave values: the first of a worker's message."""
        # Without a call of ours for each job, and with few for each batch: it may be of one.
        count, numbers = len(jobs), completed.jobs
        slots = set(map(_SLOTS, map(_PLACEMENT, jobs)))
        places = list(map(bisect_right, repeat(self._jobs), numbers[:count]))
        moments = places if len(set(places)) > 1 else places[:1]
        entry = _Entry(
            *(_GOOD, "", worker, 0, "", 0, skew),
            names=list(map(_NAME, jobs if len(set(map(_FN, jobs))) > 1 else jobs[:1])),
            slots=list(slots if len(slots) == 1 else map(_SLOTS, map(_PLACEMENT, jobs))),
            submitted=list(map(self._moments.__getitem__, moments)),
            jobs=numbers[:count],
            attempts=completed.attempts[:count],
            begun=completed.begun[:count],
            ran=completed.wall[:count],
            cpu=completed.cpu[:count],
            rss=completed.rss[:count],
        )
        try:  # here, as a function of ours would cost each job a call
            self._entries.append(_pack(entry))
        except _UNPACKABLE:
            self._entries.append(_packed(entry))
        self._numbers += entry.jobs
        self._end += count
        if self._end - self._first >= _BLOCK_JOBS:
            self._close_block()

    def ended(self, job: Job, outcome: str, error: str = "", name: str = "") -> None:
        """Keep one job that ends now, before what only a live job needs is dropped. `name` is its function's."""
        now, placement = self._now(), job.placement
        begun, ran = now, None
        if placement is not None and placement.began is not None:
            begun, ran = placement.began, max(0.0, now - placement.began)
        cpu, rss = 0.0, 0
        if placement is not None and placement.used is not None and ran is not None:
            ran, cpu, rss = placement.used
        client, program, parent = self._origin(job)
        entry = _Entry(
            *(outcome, first_line(error), job.worker or "", client, program, parent, 0.0),
            names=[name or name_of(job)],
            slots=[_slots(placement)],
            submitted=[self._submission_of(job.id)],
            jobs=[job.id],
            attempts=[job.attempt],
            begun=[begun],
            ran=[ran],
            cpu=[cpu],
            rss=[rss],
        )
        try:  # here, as a function of ours would cost each job a call
            self._entries.append(_pack(entry))
        except _UNPACKABLE:
            self._entries.append(_packed(entry))
        self._numbers.append(job.id)
        self._end += 1
        self._bad += outcome != _GOOD
        if self._end - self._first >= _BLOCK_JOBS:
            self._close_block()

    def unwanted(self, jobs: Collection[Job], *, skipped: bool = False) -> None:
        """Keep jobs that nobody wants any more; with `skipped`, as a graph has failed."""
        for job in jobs:
            self.ended(job, "skipped" if skipped and job.began is None else "cancelled")

    def _origin(self, job: Job) -> tuple[int, str, int]:
        """Return number and name of the client that a job came from, and the job that submitted it."""
        if not isinstance(job, RelayedJob):
            return 0, "", 0
        number, parent, _ = job.attempt_of
        if not parent:
            return number, job.reply_to.name, 0
        submitter = self._live().get(parent)
        client, program, _ = (0, "", 0) if submitter is None else self._origin(submitter)
        return client, program, parent

    def _submission_of(self, job: int) -> float | None:
        return self._moments[bisect_right(self._jobs, job)]

    def _close_block(self) -> None:
        self._add(self._recent())
        self._begin_block()

    def _recent(self) -> _Block:
        """Return what has ended since the last block as one."""
        until, ahead = self._wall(), self._wall() - self._now()
        data = _pack([msgspec.Raw(entry) for entry in self._entries])
        rows = self._end - self._first
        return _Block(self._first, rows, self._bad, min(self._numbers), max(self._numbers), until, ahead, data)

    def _add(self, block: _Block) -> None:
        self._blocks.append(block)
        self._bytes += len(block.data)
        while self._blocks and (
            self._blocks[0].first + self._blocks[0].rows <= self._end - self._most or self._bytes > self._most_bytes
        ):
            self._bytes -= len(self._blocks.popleft().data)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def page(self, asked: AskHistory) -> HistoryIs:
        """Return a page of the jobs that a question means, the latest first."""
        if asked.job:
            one = self.find(asked.job)
            return HistoryIs(asked.ask, [] if one is None else [one], 0, len(self))
        found: list[EndedJob] = []
        most = max(1, min(asked.most, _PAGE_JOBS))
        before = asked.before or self._end
        looked = 0
        for block in self._newest_first(before):
            if block.until < asked.since:
                break
            if looked >= _PAGE_LOOKS:
                return HistoryIs(asked.ask, found, before, len(self))
            if block.bad or not asked.outcomes or _GOOD in asked.outcomes:
                looked += block.rows
                for place, job in self._rows(block, asked, before):
                    found.append(job)
                    if len(found) == most:
                        return HistoryIs(asked.ask, found, place, len(self))
            before = block.first
        return HistoryIs(asked.ask, found, 0, len(self))

    def find(self, number: int) -> EndedJob | None:
        """Return the job of this number if it has ended, and is kept."""
        for block in self._newest_first(self._end):
            if block.lowest <= number <= block.highest:
                for _, job in self._rows(block, AskHistory(0, 1), self._end):
                    if job.job == number:
                        return job
        return None

    def _newest_first(self, before: int) -> Iterator[_Block]:
        if self._entries and self._first < before:
            yield self._recent()
        for block in reversed(self._blocks):
            if block.first < before:
                yield block

    def _rows(self, block: _Block, asked: AskHistory, before: int) -> Iterator[tuple[int, EndedJob]]:
        """Iterate over the jobs of a block that are meant, the latest first, each with its place, below `before`."""
        place, oldest = block.first + block.rows, max(block.first, self._end - self._most)
        for entry in reversed(_unpack(block.data)):
            place -= len(entry.jobs)
            if asked.outcomes and entry.outcome not in asked.outcomes:
                continue
            if asked.parent and entry.parent != asked.parent:
                continue
            if asked.name and not any(fnmatchcase(name, asked.name) for name in entry.names):
                continue
            for row in range(min(len(entry.jobs), before - place) - 1, max(0, oldest - place) - 1, -1):
                job = _row(entry, row, block.ahead)
                if job.ended_at >= asked.since and (not asked.name or fnmatchcase(job.name, asked.name)):
                    yield place + row, job


def _slots(placement: Placement | None) -> str:
    return "" if placement is None else placement.slots or ""


def _row(entry: _Entry, row: int, ahead: float) -> EndedJob:
    """Return one job of an entry; `ahead` is how far the calendar's clock is ahead of the head's."""
    began, ran = entry.begun[row] + entry.skew, entry.ran[row]
    submitted = _of(entry.submitted, row)
    return EndedJob(
        entry.jobs[row],
        _of(entry.names, row),
        entry.outcome,
        entry.error,
        entry.worker,
        _of(entry.slots, row) or "",
        entry.attempts[row],
        entry.client,
        entry.program,
        entry.parent,
        None if submitted is None else max(0.0, began - submitted),
        ran,
        entry.cpu[row],
        entry.rss[row],
        began + (ran or 0.0) + ahead,
    )


def _of(column: Sequence[T], row: int) -> T:
    return column[row] if len(column) > 1 else column[0]
