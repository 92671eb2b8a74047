"""Queries about a head's workers and jobs. Nothing here changes anything, but for what is kept for answers alone: the
jobs that stand still, as workers say.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace as replaced
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from grainlike.head._errors import name_of, refusal
from grainlike.head._history import JobHistory
from grainlike.head._logs import EndedSource, LogRouter, source_of
from grainlike.head._nested import RelayedJob, ReplyTo
from grainlike.head._peers import WorkerConnection
from grainlike.head._state import HeadState
from grainlike.head.values._mover import ValueMover
from grainlike.history import matcher
from grainlike.jobs import CHAIN_MOST, Job, LogLine, WorkerInfo
from grainlike.resources import EMPTY, Allocation, Request
from grainlike.scheduler import Explanation, HeadJob, JobState
from grainlike.wire import AskJobs, Blocked, Halted, JobRow

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.head._stalled import StalledJobs

__all__ = ["HeadQueries", "StoreUse"]

_LOOKS = 20_000
"""Number of jobs that are looked at for one answer: the head does nothing else meanwhile."""

_STATES = {
    JobState.QUEUED: "queued",
    JobState.PLANNED: "assigned",
    JobState.AHEAD: "assigned",
    JobState.LEASED: "running",
    JobState.BACKOFF: "backoff",
    JobState.MOVING: "queued",
}


class StoreUse(NamedTuple):
    """Bytes of values that a worker keeps in memory and on its disk, and why that disk was given up, if it was."""

    stored: int
    spilled: int
    scratch_lost: str


class HeadQueries:
    """Answers of one head, from its `head_state`, `logs`, `history` and `values`. `now` is its clock."""

    def __init__(
        self,
        head_state: HeadState,
        logs: LogRouter,
        history: JobHistory,
        now: Callable[[], float],
        values: ValueMover,
    ) -> None:
        self._state = head_state
        self._logs = logs
        self._history = history
        self._now = now
        self._values = values
        self._stalled: StalledJobs | None = None

    # --- workers -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers, in the order in which they joined."""
        now, scheduler = time.monotonic(), self._state.scheduler
        peers = self._state.peers.values()
        offers = Counter((peer.hello.memory, core) for peer in peers for core in peer.real_cores())
        stored = scheduler.stored()
        return [self._worker(peer, now, _shared(peer, offers), stored.get(peer.number, 0)) for peer in peers]

    def _worker(self, peer: WorkerConnection, now: float, shared: tuple[int, ...], stored: int) -> WorkerInfo:
        scheduler = self._state.scheduler
        shut = scheduler.why_shut(peer.number)
        info = peer.info(now, scheduler.running(peer.number), shut, shared, stored)
        use = self._use(peer.number, stored)
        return replaced(info, **use._asdict(), scratch=0 if use.scratch_lost else info.scratch)

    def _use(self, worker: int, stored: int) -> StoreUse:
        said = self._values.stores.said.get(worker)
        return (
            StoreUse(stored, 0, "")
            if said is None
            else StoreUse(max(0, stored - said.spilled), said.spilled, said.lost)
        )

    def stores(self) -> dict[str, StoreUse]:
        """Return what each worker keeps, by its name; those that keep nothing are left out."""
        stored = self._state.scheduler.stored()
        uses = {peer.name: self._use(peer.number, stored.get(peer.number, 0)) for peer in self._state.peers.values()}
        return {name: use for name, use in uses.items() if any(use)}

    def spilled(self, worker: int) -> int:
        """Return the bytes of values that a worker has on its disk, as it said last."""
        said = self._values.stores.said.get(worker)
        return 0 if said is None else said.spilled

    def wanted(self, offer: Allocation, most: int, within_s: float) -> int:
        """Return how many more workers with this offer would help now."""
        from grainlike.scheduler import PoolOffer, wanted_in_pools  # until that is asked, a head does without

        return wanted_in_pools(self._state.scheduler, [PoolOffer(offer, most)], within_s)[0][0]

    def refusal(self, request: Request) -> str | None:
        """Return why no job with this request would ever run, with the workers that are here; None if one may."""
        scheduler = self._state.scheduler
        if not scheduler.closed or scheduler.fits_somebody(request):
            return None
        return refusal(scheduler.why_never(request), self._state.peers.values())

    # --- placeholders ------------------------------------------------------------------------------------------------

    def explain(self, node: Node) -> Explanation:
        """Return where a placeholder stands and what it waits for."""
        from grainlike.engine import explain_unsubmitted  # a head without a program has no placeholders

        unsubmitted = explain_unsubmitted(node)
        if unsubmitted is not None:
            return unsubmitted
        job = node.record
        assert isinstance(job, Job)
        found = self.explain_job(job.id)
        placement = job.placement
        if found is not None and placement is not None and placement.blocks_since is not None:
            found = replace(found, blocked_s=self._now() - placement.blocks_since)
        return found if found is not None else Explanation(job.id, node.state.label, job.attempt, node.request or EMPTY)

    def node_of(self, number: int) -> Node | None:
        """Return the placeholder of this program whose job this is."""
        job = self._state.jobs.get(number)
        return None if job is None else job.node

    def submitter(self, number: int) -> Node | ReplyTo | None:
        """Return who submitted a job, or the outermost of the jobs that led to it: a placeholder of this program, or a
        client. None for a job that has ended or was cancelled. From any thread.
        """
        job = self._state.jobs.get(number) or self._first_of(number)
        while isinstance(job, RelayedJob) and job.attempt_of[1]:
            job = self._state.jobs.get(job.attempt_of[1])
        if isinstance(job, RelayedJob):
            return job.reply_to
        return None if job is None else job.node

    def _first_of(self, link: int) -> Job | None:
        """Return the first of the chain that takes this job along: their numbers follow one another."""
        for number in range(link - 1, max(0, link - 1 - CHAIN_MOST), -1):
            first = self._state.jobs.get(number)
            if first is not None:
                return first if any(job.id == link for job in first.links) else None
        return None

    # --- jobs by number ----------------------------------------------------------------------------------------------

    @property
    def unended(self) -> int:
        """Number of jobs that have not ended, those too that were cancelled and still run."""
        return len(self._state.scheduler.jobs)

    @property
    def last_job(self) -> int:
        """The highest number that a job has had; 0 before the first."""
        return self._state.last_job

    def rows(self, most: int | None) -> list[JobRow]:
        """Return the oldest jobs that have not ended, at most so many."""
        now = self._now()
        return [self._row(worker_state, now) for worker_state in islice(self._state.scheduler.jobs.values(), most)]

    def row(self, number: int, now: float) -> JobRow | None:
        """Return the job of this number as of `now`, if it has not ended."""
        job = self._state.scheduler.jobs.get(number)
        return None if job is None else self._row(job, now)

    def ran_s(self, number: int) -> float:
        """Return for how many seconds the job of this number runs; 0 for one that does not."""
        job = self._state.jobs.get(number)
        return 0.0 if job is None or job.began is None else max(0.0, self._now() - job.began)

    def some_rows(self, asked: AskJobs, most: int) -> tuple[list[JobRow], int]:
        """Return the oldest jobs that a question means, at most `most`, and where the next answer begins: 0 where there
        are no more.
        """
        now, most, matches = self._now(), max(0, min(asked.most, most)), matcher(asked.name)
        live = (job for number, job in self._state.scheduler.jobs.items() if number > asked.after)
        rows: list[JobRow] = []
        last = asked.after
        for job in islice(live, _LOOKS):
            if len(rows) == most:
                return rows, last
            last = job.id
            if asked.parent and (job.parent is None or job.parent.id != asked.parent):
                continue
            if matches(self.name_of(job.id)):
                row = self._row(job, now)
                if not asked.state or row.state == asked.state:
                    rows.append(row)
        return rows, 0 if next(live, None) is None else last

    def running(self) -> dict[int, str]:
        """Return the names of the jobs that workers have, by number."""
        head_state = self._state.scheduler.jobs.values()
        return {
            worker_state.id: self.name_of(worker_state.id)
            for worker_state in head_state
            if worker_state.state is JobState.LEASED
        }

    def states(self) -> dict[str, int]:
        """Return the number of jobs in each state, of those that have not ended."""
        head_state = self._state.scheduler.jobs.values()
        cancelled = sum(worker_state.cancelled for worker_state in head_state)
        counts = Counter(worker_state.state for worker_state in head_state if not worker_state.cancelled)
        named = Counter({"stopping": cancelled} if cancelled else {})
        for state, count in counts.items():
            named[_STATES[state]] += count
        return dict(sorted(named.items()))

    def _row(self, worker_state: HeadJob, now: float) -> JobRow:
        job = self._state.jobs.get(worker_state.id)
        began = None if job is None else job.began
        peer = self._state.peers.get(worker_state.worker)
        return JobRow(
            worker_state.id,
            self.name_of(worker_state.id),
            "stopping" if worker_state.cancelled else _STATES[worker_state.state],
            str(worker_state.request),
            worker_state.cls.priority,
            worker_state.cls.client,
            worker_state.attempt,
            "" if peer is None else peer.name,
            "" if job is None else job.slots or "",
            None if began is None else now - began,
            parent=0 if worker_state.parent is None else worker_state.parent.id,
            halted="" if self._stalled is None else self._stalled.halt_of(worker_state.worker, worker_state.id),
        )

    def name_of(self, number: int) -> str:
        """Return the display name of a job: its function's name; empty for one that was cancelled."""
        job = self._state.jobs.get(number)
        return "" if job is None else name_of(job)

    def reply_to_of(self, number: int) -> tuple[ReplyTo | None, int]:
        """Return the submitter of a job that came over a link, and its number there; (None, 0) for others."""
        job = self._state.jobs.get(number)
        return (job.reply_to, job.child) if isinstance(job, RelayedJob) else (None, 0)

    def hear_stalled(self, peer: WorkerConnection, message: Blocked | Halted) -> None:
        """Take what a worker says of jobs that stand still, though they run as far as the scheduler knows."""
        if self._stalled is None:
            from grainlike.head._stalled import StalledJobs  # few heads hear of any

            self._stalled = StalledJobs(self._state, self._now)
        self._stalled.hear(peer, message)

    def explain_job(self, number: int) -> Explanation | None:
        """Return where a job stands and what it waits for; None for one that has ended, or never was."""
        found = self._state.scheduler.explain(number, self._now(), self._values.progress)
        if found is None or self._stalled is None:
            return found
        return replace(found, halted=self._stalled.sentence(self._state.scheduler.jobs[number].worker, number))

    def logs_of(self, number: int, *, follow: bool) -> AsyncGenerator[LogLine, None] | None:
        """Return an iterator over the output of a job, past and future; None for one that never was."""
        job = self._state.jobs.get(number)
        if job is not None:
            return self._logs.lines(source_of(job), self._state.peers.values(), follow=follow)
        if not 0 < number <= self._state.last_job:
            return None
        ended = self._history.find(number)
        peers = [
            peer for peer in self._state.peers.values() if ended is None or not self._history.outlived(ended, peer.name)
        ]
        return self._logs.lines(EndedSource(number, [peer.name for peer in peers], ended), peers, follow=False)

    def record(self, number: int) -> Job | None:
        """Return the job of this number, if it has not ended."""
        return self._state.jobs.get(number)

    def job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        job = self._state.jobs.get(number)
        return job if job is not None and job.attempt == attempt else None

    def assembles(self, number: int) -> bool:
        """Return True if slots are held for this job on several workers while it waits for more."""
        return self._state.scheduler.assembles(number)


def _shared(peer: WorkerConnection, offers: Mapping[tuple[str, int], int]) -> tuple[int, ...]:
    """Return the cores of a worker that others of its machine offer, too; none where the machine is not identified."""
    machine = peer.hello.memory
    return tuple(core for core in peer.real_cores() if offers[machine, core] > 1) if machine else ()
