"""`JobHistory`: what became of the last jobs of a head, in a ring that is bounded in jobs and in bytes.

Jobs are kept as they end, many together: a batch of them is one entry of columns, packed at once, so that a job costs
a tenth of a microsecond or two and some 50 bytes. Entries are joined to segments, which are the unit of what is
dropped, skipped by a search, and written to disk.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from grainlike.head._attempts import EarlierAttempts
from grainlike.head._errors import name_of
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._nested import RelayedJob
from grainlike.history import (
    UNPACKABLE,
    Entry,
    HistoryFilter,
    KeptHistory,
    ReceiptTable,
    Segment,
    first_line,
    kept_from,
    limits_of,
    pack,
    packed_plainly,
    row_of,
    unpack,
)
from grainlike.jobs import Job, Placement
from grainlike.resources import MEMORY, Request
from grainlike.scheduler import JobsSubmitted
from grainlike.wire import KEPT_JOBS, AskHistory, Completed, EndedAttempt, EndedJob, HistoryIs, ReceiptSpec

if TYPE_CHECKING:
    from grainlike.graph import Node

__all__ = ["KEPT_BYTES", "JobHistory", "JobListener", "calendar_ahead", "first_line"]

KEPT_BYTES = 20_000_000
"""Bytes that they take at most: with long names and errors fewer are kept."""

_SEGMENT_JOBS = 1_024
_ENTRY_BYTES = 41
"""Bytes of an entry beside what it says: those of its object, and its place in a list."""

_PAGE_JOBS = 500
_PAGE_LOOKS = 2_048
"""The most jobs of one answer, and how many are looked at for it: the head does nothing else meanwhile."""

_NEAR_S = 0.01
"""Moments of submission that lie nearer to each other are kept as one."""

_MOST_MOMENTS = 20_000
"""Moments of submission that are kept; of the older ones then every second."""

_MOST_REQUESTS = 10_000
"""Requests of jobs of clients that are kept, where those of one submission are not those of the one before."""

_MOST_TEXTS = 1_000
"""Requests of the program's own jobs whose text is kept."""

_MOST_REBUILT = 2
"""Segments that are kept rebuilt for searches by number: some 2 MB each, where each entry has one job."""

_Places = dict[int, tuple[int, Entry, int]]
"""By the number of a job: its place among all that ended, its entry, and its row there."""

_GOOD = "succeeded"
_FN, _NAME, _SLOTS = map(attrgetter, ("fn", "function.name", "placement.slots"))


def calendar_ahead() -> float:
    """Return how many seconds `time.time()` is ahead of `time.monotonic()`."""
    return time.time() - time.monotonic()


def _no_coroutine(fn: int) -> bool:  # noqa: ARG001 - as where there are some
    return False


class JobListener(Protocol):
    """Receiver of what becomes of jobs, as it happens: by the batch, where they come so."""

    def submitted(self, event: JobsSubmitted, now: float) -> None:
        """Take note of new jobs."""

    def requeued(self, jobs: Sequence[Job], seconds: float | None) -> None:
        """Take note of jobs whose attempts are over, and that run again, `seconds` from now at the earliest."""

    def ended(self, entry: Entry) -> None:
        """Take note of jobs that have ended."""


class JobHistory:
    """The last jobs that have ended, of those in `live`. `now` is the head's clock, and `time.time()` is `ahead` of it.

    It keeps at most `most` jobs and `most_bytes`. `is_coroutine` tells whether a function of a client's or a job's, by
    its number, is a coroutine function.
    """

    def __init__(
        self,
        live: Callable[[], Mapping[int, Job]],
        now: Callable[[], float],
        *,
        most: int = KEPT_JOBS,
        most_bytes: int = KEPT_BYTES,
        ahead: Callable[[], float] = calendar_ahead,
        is_coroutine: Callable[[int], bool] = _no_coroutine,
    ) -> None:
        self._live = live
        self._now = now
        self._ahead = ahead
        self._is_coroutine = is_coroutine
        self._most = most
        self._most_bytes = most_bytes
        self._segments: deque[Segment] = deque()
        self._bytes = 0
        self._end = 1
        """Place of the next job that ends, of all that have: 1 for the first."""
        self._joined: dict[str, float] = {}
        """When the workers that are here joined, by name, on the calendar."""
        self._jobs: list[int] = [0]
        self._moments: list[float | None] = [None, None]
        """Numbers of jobs, and when those from there on were submitted: one place further on, as `bisect` counts."""
        self._relayed: list[int] = [0]
        self._requests: list[str] = ["", ""]
        """Numbers of jobs of clients and of jobs, and what those from there on ask for; as `_moments`."""
        self._texts: dict[int, tuple[Request | None, str]] = {}
        """Requests of batches, with their text, by identity: a hash would cost a call."""
        self._receipts = ReceiptTable()
        self._earlier = EarlierAttempts()
        self._found: dict[int, _Places] = {}
        """Places of the jobs of the segments that were searched last, by `Segment.first`; the last searched is last."""
        self.listener: JobListener | None = None
        """Listener that is told of all jobs, if there is one."""
        self._begin_segment()

    def _begin_segment(self) -> None:
        self._entries: list[bytes] = []
        self._lowest, self._highest = sys.maxsize, 0
        self._first = self._next_place = self._end
        self._rebuilt = 0
        self._recent_found: _Places = {}
        self._bad = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the jobs take."""
        return self._bytes + sum(map(len, self._entries)) + _ENTRY_BYTES * len(self._entries)

    def __len__(self) -> int:
        first = self._segments[0].first if self._segments else self._first
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

    def requested(self, job: int, request: Request) -> None:
        """Take note that jobs of a client or of a job, from this number on, ask for this."""
        text = str(request)
        if text != self._requests[-1]:
            self._relayed.append(job)
            self._requests.append(text)
            if len(self._relayed) > _MOST_REQUESTS:
                del self._relayed[1 : _MOST_REQUESTS // 2], self._requests[2 : _MOST_REQUESTS // 2 + 1]

    def moment(self) -> tuple[float, float]:
        """Return the head's clock, and how far `time.time()` is ahead of it."""
        return self._now(), self._ahead()

    def joined(self, worker: str) -> None:
        """Take note that a worker of this name joins now."""
        self._joined[worker] = self._now() + self._ahead()

    def left(self, worker: str) -> None:
        """Take note that the worker of this name leaves."""
        self._joined.pop(worker, None)

    def succeeded(
        self,
        worker: str,
        skew: float,
        jobs: Sequence[Job],
        nodes: Sequence[Node],
        completed: Completed,
        receipt: ReceiptSpec | None,
    ) -> None:
        """Keep a batch of this program's own jobs, all of which gave values: the first of a worker's message. `nodes`
        and `receipt` are theirs.
        """
        # Without a call of ours for each job, and with few for each batch: it may be of one.
        count = len(jobs)
        numbers = completed.jobs[:count]
        lowest, highest = min(numbers), max(numbers)
        moments = [bisect_right(self._jobs, lowest)]
        if moments[0] != bisect_right(self._jobs, highest):
            moments = list(map(bisect_right, repeat(self._jobs), numbers))
        # Of a lease, which is one allocation, but for jobs that waited for others, or asked for less memory.
        slots = [_SLOTS(jobs[0])]
        if completed.awaited or slots[0] != _SLOTS(jobs[-1]) or MEMORY in (slots[0] or ""):
            slots = list(map(_SLOTS, jobs))
        request = nodes[0].request
        told = self._texts.get(id(request))
        if told is None or told[0] is not request:
            told = self._text_of(request)
        known = 0
        if receipt is not None:
            known = self._receipts.numbers.get(pack(limits_of(receipt))) or self._receipts.add(receipt)
        entry = Entry(
            *(_GOOD, "", worker, told[1], 0, "", 0, skew, nodes[0].function.is_async),
            names=list(map(_NAME, nodes if len(set(map(_FN, jobs))) > 1 else nodes[:1])),
            slots=slots if len(set(slots)) > 1 else slots[:1],
            submitted=list(map(self._moments.__getitem__, moments)),
            jobs=numbers,
            attempts=completed.attempts[:count],
            begun=completed.begun[:count],
            ran=completed.wall[:count],
            cpu=completed.cpu[:count],
            rss=completed.rss[:count],
            receipt=known,
            earlier=self._taken(numbers) if self._earlier.jobs else {},
        )
        try:  # here, as a function of ours would cost each job a call
            self._entries.append(pack(entry))
        except UNPACKABLE:
            self._entries.append(packed_plainly(entry))
        if self.listener is not None:
            self.listener.ended(entry)
        if lowest < self._lowest:
            self._lowest = lowest
        if highest > self._highest:
            self._highest = highest
        self._end += count
        if self._end - self._first >= _SEGMENT_JOBS:
            self.close_segment()

    def ended(self, job: Job, outcome: str, error: str = "", node: Node | None = None) -> None:
        """Keep one job that ends now. `node` is that of a call of this program, for what only a live job needs may have
        been dropped.
        """
        now, placement = self._now(), job.placement
        node = job.node if node is None else node
        begun, ran = now, None
        if placement is not None and placement.began is not None:
            begun, ran = placement.began, max(0.0, now - placement.began)
        cpu, rss, known = 0.0, 0, 0
        receipt = None if placement is None else placement.receipt
        if receipt is not None:
            known = self._receipts.numbers.get(pack(limits_of(receipt))) or self._receipts.add(receipt)
        if placement is not None and placement.used is not None and ran is not None:
            ran, cpu, rss = placement.used
        client, program, parent = self.origin(job)
        if node is None:
            name, is_coroutine = name_of(job), self._is_coroutine(job.fn)
            relayed = isinstance(job, RelayedJob)
            request = self._requests[bisect_right(self._relayed, job.id)] if relayed else getattr(job, "request", "")
        else:
            name, is_coroutine, request = node.function.name, node.function.is_async, str(node.request or "")
        entry = Entry(
            *(
                outcome,
                error and first_line(error),
                job.worker or "",
                request,
                client,
                program,
                parent,
                0.0,
                is_coroutine,
            ),
            names=[name],
            slots=[_slots(placement)],
            submitted=[self._submission_of(job.id)],
            jobs=[job.id],
            attempts=[job.attempt],
            begun=[begun],
            ran=[ran],
            cpu=[cpu],
            rss=[rss],
            receipt=known,
            earlier=self._taken([job.id]) if self._earlier.jobs else {},
            named=named_in_session(job),
        )
        try:  # here, as a function of ours would cost each job a call
            self._entries.append(pack(entry))
        except UNPACKABLE:
            self._entries.append(packed_plainly(entry))
        if self.listener is not None:
            self.listener.ended(entry)
        if job.id < self._lowest:
            self._lowest = job.id
        if job.id > self._highest:
            self._highest = job.id
        self._end += 1
        self._bad += outcome != _GOOD
        if self._end - self._first >= _SEGMENT_JOBS:
            self.close_segment()

    def tried(self, job: int, ended: EndedAttempt) -> None:
        """Keep an attempt of a job that runs again."""
        self._earlier.add(job, replace(ended, error=first_line(ended.error)))

    def dropped(self, job: int) -> None:
        """Forget the attempts of a job that is not to run again after all."""
        self._earlier.take(job)

    def _taken(self, numbers: Sequence[int]) -> dict[int, list[EndedAttempt]]:
        """Return the earlier attempts of those of these jobs that had any, and keep them no more."""
        return {number: self._earlier.take(number) for number in self._earlier.jobs.keys() & set(numbers)}

    def unwanted(self, jobs: Collection[Job], *, skipped: bool = False) -> None:
        """Keep jobs that are wanted no more; with `skipped`, as a graph has failed."""
        for job in jobs:
            self.ended(job, "skipped" if skipped and job.began is None else "cancelled")

    def origin(self, job: Job) -> tuple[int, str, int]:
        """Return number and name of the client that a job came from, and the job that submitted it."""
        if type(job) is RevivedJob:
            job = job.former
        if not isinstance(job, RelayedJob):
            return 0, "", 0
        number, parent, _ = job.attempt_of
        if not parent:
            return number, job.reply_to.name, 0
        submitter = self._live().get(parent)
        client, program, _ = (0, "", 0) if submitter is None else self.origin(submitter)
        return client, program, parent

    def _text_of(self, request: Request | None) -> tuple[Request | None, str]:
        if len(self._texts) >= _MOST_TEXTS:
            self._texts.clear()
        told = self._texts[id(request)] = request, str(request or "")
        return told

    def _submission_of(self, job: int) -> float | None:
        return self._moments[bisect_right(self._jobs, job)]

    def close_segment(self) -> None:
        """Pack what has ended since the last segment."""
        if self._entries:
            self._add(self._recent())
            self._begin_segment()

    def _recent(self) -> Segment:
        """Return what has ended since the last segment as one."""
        ahead = self._ahead()
        data = pack([msgspec.Raw(entry) for entry in self._entries])
        rows = self._end - self._first
        until, bounds = self._now() + ahead, (self._lowest, self._highest)
        return Segment(self._first, rows, self._bad, *bounds, until, ahead, data)

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bytes += len(segment.data)
        while self._segments and (
            self._segments[0].first + self._segments[0].rows <= self._end - self._most or self._bytes > self._most_bytes
        ):
            gone = self._segments.popleft()
            self._bytes -= len(gone.data)
            self._found.pop(gone.first, None)

    # --- for the next head -------------------------------------------------------------------------------------------

    def packed(self) -> bytes:
        """Return all that is kept, for `restore`: at most some `most_bytes`."""
        segments = [*self._segments, self._recent()] if self._entries else list(self._segments)
        moments = self._jobs, self._moments, self._relayed, self._requests
        kept = KeptHistory(
            *(self._end, segments, *moments, self._joined),
            receipts=self._receipts.rows,
            first_receipt=self._receipts.first,
            earlier=self._earlier.jobs,
        )
        return pack(kept)

    def restore(self, data: bytes) -> bool:
        """Go on with what the history of another head has packed; return False if that is of another format."""
        kept = kept_from(data)
        if kept is None:
            return False
        self._end = kept.end
        self._jobs, self._moments, self._relayed, self._requests = kept.jobs, kept.moments, kept.relayed, kept.requests
        self._joined = kept.joined
        self._receipts = ReceiptTable(kept.receipts, kept.first_receipt)
        self._earlier = EarlierAttempts(kept.earlier)
        self._found.clear()
        for segment in kept.segments:
            self._add(segment)
        self._begin_segment()
        return True

    # --- what is asked -----------------------------------------------------------------------------------------------

    def page(self, asked: AskHistory) -> HistoryIs:
        """Return a page of the jobs that a question means, the latest first."""
        if asked.job:
            job = self.find(asked.job)
            earlier = self._earlier.jobs.get(asked.job, [])
            return HistoryIs(asked.ask, [] if job is None else [job], 0, len(self), earlier)
        found: list[EndedJob] = []
        most = max(1, min(asked.most, _PAGE_JOBS))
        before = asked.before or self._end
        meant = HistoryFilter(asked)
        looked = 0
        for segment in self._newest_first(before):
            if segment.until < asked.since:
                break
            if looked >= _PAGE_LOOKS:
                return HistoryIs(asked.ask, found, before, len(self))
            if segment.bad or meant.good:
                looked += segment.rows
                for place, job in self._rows(segment, meant, before):
                    found.append(job)
                    if len(found) == most:
                        return HistoryIs(asked.ask, found, place, len(self))
            before = segment.first
        return HistoryIs(asked.ask, found, 0, len(self))

    def find(self, number: int) -> EndedJob | None:
        """Return the job of this number if it has ended, and is kept."""
        return self.find_all([number]).get(number)

    def find_all(self, numbers: Iterable[int]) -> dict[int, EndedJob]:
        """Return those of the jobs of these numbers that have ended, and are kept, by number."""
        left = {number: pack(number) for number in numbers}
        found: dict[int, EndedJob] = {}
        for places, ahead in self._places_near(left):
            for number in left.keys() & places.keys():
                del left[number]
                place, entry, row = places[number]
                if place >= self._end - self._most:
                    found[number] = row_of(entry, row, ahead, self._receipts.of(entry.receipt))
            if not left:
                break
        return found

    def _places_near(self, left: Mapping[int, bytes]) -> Iterator[tuple[_Places, float]]:
        """Iterate over the places of jobs in whatever may have some of those that are `left`, the latest first; each
        with how far the calendar's clock is ahead of the head's.
        """
        if any(self._lowest <= number <= self._highest for number in left):
            yield self._recent_places(), self._ahead()
        for segment in reversed(self._segments):
            # To search for bytes takes a hundredth of the time that rebuilding a segment does.
            if any(
                segment.lowest <= number <= segment.highest and digits in segment.data
                for number, digits in left.items()
            ):
                yield self._places_in(segment), segment.ahead

    def _recent_places(self) -> _Places:
        """Return the places of what has ended since the last segment; each entry is rebuilt once."""
        if self._rebuilt < len(self._entries):
            fresh = unpack(pack([msgspec.Raw(entry) for entry in self._entries[self._rebuilt :]]))
            self._rebuilt = len(self._entries)
            self._next_place = _note_places(self._recent_found, self._next_place, fresh)
        return self._recent_found

    def _places_in(self, segment: Segment) -> _Places:
        """Return the places of a segment's jobs: those who ask for one job after the other ask for near ones."""
        places = self._found.pop(segment.first, None)
        if places is None:
            places = {}
            _note_places(places, segment.first, unpack(segment.data))
            if len(self._found) >= _MOST_REBUILT:
                del self._found[next(iter(self._found))]
        self._found[segment.first] = places
        return places

    def outlived(self, job: EndedJob, worker: str) -> bool:
        """Return True if the worker that has this name now joined after the job had ended: it never had the job."""
        return self._joined.get(worker, 0.0) > job.ended_at

    def _newest_first(self, before: int) -> Iterator[Segment]:
        if self._entries and self._first < before:
            yield self._recent()
        for segment in reversed(self._segments):
            if segment.first < before:
                yield segment

    def _rows(self, segment: Segment, meant: HistoryFilter, before: int) -> Iterator[tuple[int, EndedJob]]:
        """Iterate over the jobs of a segment that are meant, the latest first, each with its place, below `before`."""
        place, oldest = segment.first + segment.rows, max(segment.first, self._end - self._most)
        for entry in reversed(unpack(segment.data)):
            place -= len(entry.jobs)
            if not meant.has_any_of(entry):
                continue
            receipt = self._receipts.of(entry.receipt)
            for row in range(min(len(entry.jobs), before - place) - 1, max(0, oldest - place) - 1, -1):
                job = row_of(entry, row, segment.ahead, receipt)
                if meant.has(job):
                    yield place + row, job


def _note_places(places: _Places, place: int, entries: Iterable[Entry]) -> int:
    """Add the jobs of entries, the first of which has this place; return the place of the next job. A job that ended
    twice is found where it ended last.
    """
    for entry in entries:
        for row, number in enumerate(entry.jobs):
            places[number] = place + row, entry, row
        place += len(entry.jobs)
    return place


def named_in_session(job: Job) -> str:
    """Return the name that a job has in its session; empty for one without."""
    if type(job) is RevivedJob:
        job = job.former
    return job.reply_to.name_of(job.child) if isinstance(job, RelayedJob) and not job.attempt_of[1] else ""


def _slots(placement: Placement | None) -> str:
    return "" if placement is None else placement.slots or ""
