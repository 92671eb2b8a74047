"""Queries about a head's workers and jobs. Nothing here changes anything."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping

from msgspec.structs import replace

from grainlike.engine import LocalCall
from grainlike.graph import Node, Place, State
from grainlike.head._errors import name_of, refusal
from grainlike.head._logs import EndedJob, LogLine, Logs, source_of
from grainlike.head._nested import Home, NestedJob
from grainlike.head._peers import Peer
from grainlike.head._state import HeadBooks
from grainlike.jobs import Job, WorkerInfo
from grainlike.resources import EMPTY, Allocation, Request
from grainlike.scheduler import Explanation, JobBook, JobState
from grainlike.wire import JobRow

__all__ = ["HeadView"]

_STATES = {
    JobState.QUEUED: "queued",
    JobState.PLANNED: "assigned",
    JobState.AHEAD: "assigned",
    JobState.LEASED: "running",
    JobState.BACKOFF: "backoff",
}


class HeadView:
    """Answers of one head, from its `books` and `logs`. `now` is its clock."""

    def __init__(self, books: HeadBooks, logs: Logs, now: Callable[[], float]) -> None:
        self._books = books
        self._logs = logs
        self._now = now

    # --- workers -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers, in the order in which they joined."""
        now, mind = time.monotonic(), self._books.mind
        peers = self._books.peers.values()
        offers = Counter((peer.hello.memory, core) for peer in peers for core in peer.real_cores())
        return [
            peer.info(now, mind.running(peer.number), mind.why_shut(peer.number), _shared(peer, offers))
            for peer in peers
        ]

    def wanted(self, offer: Allocation, most: int, within_s: float) -> int:
        """Return how many more workers with this offer would help now."""
        return self._books.mind.wanted(offer, most, within_s)

    def refusal(self, request: Request) -> str | None:
        """Return why no job with this request would ever run, with the workers that are here; None if one may."""
        mind = self._books.mind
        if not mind.closed or mind.fits_somebody(request):
            return None
        return refusal(mind.why_never(request), self._books.peers.values())

    # --- placeholders ------------------------------------------------------------------------------------------------

    def explain(self, node: Node) -> Explanation:
        """Return where a placeholder stands and what it waits for."""
        request = node.request if node.request is not None else EMPTY
        if node.finished or node.state is State.LAZY:
            return Explanation(0, node.state.label, 0, request)
        waiting = tuple(dep.function.name for dep in node.deps if not dep.finished)
        if waiting:
            return Explanation(0, "inputs", 0, request, inputs=waiting)
        job = node.record
        if isinstance(job, LocalCall) and job.again_at is not None:
            wait, most = max(0.0, job.again_at - time.monotonic()), 1 + node.function.options.retry.times
            return Explanation(0, "local", job.attempt + 1, request, "backoff", starts_in_s=wait, attempts=most)
        if not isinstance(job, Job):
            return Explanation(0, "opening" if node.place is Place.REMOTE else "local", 0, request)
        found = self.explain_job(job.job)
        placement = job.placement
        if found is not None and placement is not None and placement.blocks_since is not None:
            found = replace(found, blocked_s=self._now() - placement.blocks_since)
        return found if found is not None else Explanation(job.job, node.state.label, job.attempt, request)

    def node_of(self, number: int) -> Node | None:
        """Return the placeholder of this program whose job this is."""
        job = self._books.jobs.get(number)
        return None if job is None else job.node

    # --- jobs by number ----------------------------------------------------------------------------------------------

    @property
    def unended(self) -> int:
        """Number of jobs that have not ended, those too that were cancelled and still run."""
        return len(self._books.mind.jobs)

    @property
    def last_job(self) -> int:
        """The highest number that a job has had; 0 before the first."""
        return self._books.last_job

    def rows(self, most: int | None) -> list[JobRow]:
        """The oldest jobs that have not ended, at most so many."""
        now = self._now()
        return [self._row(book, now) for book in self._books.mind.oldest(most)]

    def running(self) -> dict[int, str]:
        """Return the names of the jobs that workers have, by number."""
        books = self._books.mind.jobs.values()
        return {book.job: self.name_of(book.job) for book in books if book.state is JobState.LEASED}

    def states(self) -> dict[str, int]:
        """Return the number of jobs in each state, of those that have not ended."""
        books = self._books.mind.jobs.values()
        cancelled = sum(book.cancelled for book in books)
        counts = Counter(book.state for book in books if not book.cancelled)
        named = Counter({"stopping": cancelled} if cancelled else {})
        for state, count in counts.items():
            named[_STATES[state]] += count
        return dict(sorted(named.items()))

    def _row(self, book: JobBook, now: float) -> JobRow:
        job = self._books.jobs.get(book.job)
        began = None if job is None else job.began
        peer = self._books.peers.get(book.worker)
        return JobRow(
            book.job,
            self.name_of(book.job),
            "stopping" if book.cancelled else _STATES[book.state],
            str(book.cls.request),
            book.cls.priority,
            book.cls.client,
            book.attempt,
            "" if peer is None else peer.name,
            "" if job is None else job.slots or "",
            None if began is None else now - began,
        )

    def name_of(self, number: int) -> str:
        """Return the display name of a job: its function's name; empty for one that was cancelled."""
        job = self._books.jobs.get(number)
        return "" if job is None else name_of(job)

    def home_of(self, number: int) -> tuple[Home | None, int]:
        """Return the submitter of a job that came over a link, and its number there; (None, 0) for others."""
        job = self._books.jobs.get(number)
        return (job.home, job.child) if isinstance(job, NestedJob) else (None, 0)

    def explain_job(self, number: int) -> Explanation | None:
        """Return where a job stands and what it waits for; None for one that has ended, or never was."""
        return self._books.mind.explain(number, self._now())

    def logs_of(self, number: int, *, follow: bool) -> AsyncGenerator[LogLine, None] | None:
        """Return an iterator over the output of a job, past and future; None for one that never was."""
        job = self._books.jobs.get(number)
        if job is None and not 0 < number <= self._books.last_job:
            return None
        peers = self._books.peers.values()
        return self._logs.lines(EndedJob(number, peers) if job is None else source_of(job), peers, follow=follow)

    def job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        job = self._books.jobs.get(number)
        return job if job is not None and job.attempt == attempt else None

    def assembles(self, number: int) -> bool:
        """Return True if slots are held for this job on several workers while it waits for more."""
        return self._books.mind.assembles(number)


def _shared(peer: Peer, offers: Mapping[tuple[str, int], int]) -> tuple[int, ...]:
    """Return the cores of a worker that others of its machine offer, too; none where the machine is not identified."""
    machine = peer.hello.memory
    return tuple(core for core in peer.real_cores() if offers[machine, core] > 1) if machine else ()
