"""Live view of a head for one viewer: what has changed since its last update, what waits and why, which limits hold.

Everything is read from the head's state when an update is due. Nothing is recorded meanwhile, so a head without viewers
pays nothing, and one with viewers pays for the jobs that hold slots, not for those that ran or wait.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from heapq import nlargest
from itertools import islice

from grainlike.head._queries import HeadQueries
from grainlike.head._state import HeadState
from grainlike.jobs import worker_row
from grainlike.scheduler import JobState, WorkerState
from grainlike.wire import (
    AskLimits,
    AskQueue,
    LimitRow,
    LimitsAre,
    LiveIs,
    QueueIs,
    QueueRow,
    RunningRow,
    WorkerRow,
)

__all__ = ["LiveView", "limits_are", "queue_is"]

_ROWS = 1_000
"""The most workers, and jobs, of one message."""

_UNIT = 10**9

_LEASED, _BACKOFF = JobState.LEASED, JobState.BACKOFF


class LiveView:
    """Live view of a head for one viewer, which is told of changes alone. `programs` gives the names of clients and
    sessions by number.

    `up_s` gives the seconds for which the head has been up, and `clients` the number of connected clients.
    """

    def __init__(
        self,
        state: HeadState,
        view: HeadQueries,
        now: Callable[[], float],
        programs: Callable[[], Mapping[int, str]],
        up_s: Callable[[], float],
        clients: Callable[[], int],
    ) -> None:
        self._state = state
        self._view = view
        self._now = now
        self._programs = programs
        self._up_s = up_s
        self._clients = clients
        self._first = True
        self._workers: dict[int, tuple[str, str, int, int]] = {}
        """Name, reason why it gets no jobs, and bytes of values, all and on disk, of each worker that the viewer knows,
        by number.
        """
        self._running: dict[tuple[int, int], tuple[str, int]] = {}
        """Slots and attempt of each job on each worker that the viewer knows, by the numbers of job and worker."""
        self._figures: tuple[dict[str, int], tuple[int, ...], int] | None = None

    def updates(self, ask: int) -> list[LiveIs]:
        """Return the messages of an update, in order: none where nothing has changed, several for a large change."""
        full, self._first = self._first, False
        states, running = self._look()
        began = [(key, place) for key, place in running.items() if self._running.get(key) != place]
        names = {number: name for number, (name, *_) in self._workers.items()}
        ended = [(job, names[worker]) for job, worker in self._running if (job, worker) not in running]
        self._running = running
        workers, left = self._changed_workers()
        totals = self._state.counters.totals(self._now())
        figures = states, totals.counts, self._clients()
        if not (full or began or ended or workers or left or figures != self._figures):
            return []
        self._figures = figures
        messages: list[LiveIs] = []
        rows = self._rows(began)
        while True:
            more_workers, workers = workers[_ROWS:], workers[:_ROWS]
            part = list(islice(rows, _ROWS))
            more = bool(more_workers) or len(part) == _ROWS
            messages.append(
                LiveIs(
                    *(ask, time.time(), self._up_s(), full and not messages, more, states, totals, figures[2]),
                    *(workers, left, part, ([job for job, _ in ended], [worker for _, worker in ended])),
                )
            )
            if not more:
                return messages
            workers, left, ended = more_workers, [], []

    def counts(self) -> tuple[dict[str, int], Counter[int]]:
        """Return how many jobs are in each state, and how many hold slots on each worker."""
        states, running = self._look()
        return states, Counter(worker for _, worker in running)

    def _look(self) -> tuple[dict[str, int], dict[tuple[int, int], tuple[str, int]]]:
        """Return how many jobs are in each state, and slots and attempt of those that hold some, by job and worker."""
        scheduler = self._state.scheduler
        running: dict[tuple[int, int], tuple[str, int]] = {}
        counts: Counter[str] = Counter()
        held = 0
        for worker in scheduler.workers.values():
            held += len(worker.held)
            self._look_at(worker, running, counts)
        backoff = scheduler.in_backoff
        counts.update(queued=max(0, len(scheduler.jobs) - held - backoff), backoff=backoff)
        return {state: count for state, count in sorted(counts.items()) if count}, running

    def _look_at(
        self, worker: WorkerState, running: dict[tuple[int, int], tuple[str, int]], counts: Counter[str]
    ) -> None:
        taken: set[tuple[str, float | None]] = set()
        for number, job in worker.held.items():
            if job.state is not _LEASED:
                counts["assigned"] += 1
                continue
            record = self._state.jobs.get(number)
            placement = None if record is None else record.placement
            # A cancelled job has no record any more, and keeps its slots until its process is gone.
            known = self._running.get((number, worker.id), ("", 0))[0]
            slots = known if placement is None else placement.slots or ""
            if placement is not None:
                lease = slots, placement.began
                if lease in taken:  # jobs of a run-list begin with their lease, and run one after another
                    counts["assigned"] += 1
                    continue
                taken.add(lease)
            counts["stopping" if job.cancelled else "running"] += 1
            running[number, worker.id] = slots, job.attempt
        for hold in worker.holds.values():
            if hold.allocation and not hold.released:
                running[hold.job.id, worker.id] = hold.allocation, hold.job.attempt

    def _changed_workers(self) -> tuple[list[WorkerRow], list[str]]:
        scheduler = self._state.scheduler
        before, here = self._workers, {}
        stored = scheduler.stored()
        for number, peer in self._state.peers.items():
            kept = stored.get(number, 0), self._view.spilled(number)
            here[number] = (peer.name, scheduler.why_shut(number), *kept)
        if here == before:
            return [], []
        self._workers = here
        changed = {told[0] for number, told in here.items() if before.get(number) != told}
        left = [name for number, (name, *_) in before.items() if number not in here]
        return [worker_row(worker) for worker in self._view.workers() if worker.name in changed], left

    def _rows(self, began: list[tuple[tuple[int, int], tuple[str, int]]]) -> Iterator[RunningRow]:
        ahead = time.time() - self._now()
        programs = self._programs() if began else {}
        for (number, worker), (slots, attempt) in began:
            record = self._state.jobs.get(number)
            job = self._state.scheduler.jobs[number]
            at = None if record is None else record.began
            client = job.cls.client
            yield RunningRow(
                number,
                self._workers[worker][0],
                slots,
                self._view.name_of(number),
                attempt,
                None if at is None else at + ahead,
                client,
                programs.get(client, ""),
            )


def queue_is(question: AskQueue, state: HeadState, view: HeadQueries, programs: Mapping[int, str]) -> QueueIs:
    """Return the largest groups of jobs that wait, each with the reason for which its next one does."""
    waiting = [cls for cls in state.scheduler.classes.values() if cls.queued]
    rows = []
    for cls in nlargest(question.most, waiting, key=lambda cls: cls.queued):
        job = cls.head()
        found = None if job is None else view.explain_job(job.id)
        if job is None or found is None:
            continue
        name, request, program = view.name_of(job.id), str(cls.request), programs.get(cls.client, "")
        rows.append(
            QueueRow(
                *(job.id, name, cls.queued, request, cls.priority, cls.client, program),
                *(found.reason, str(found)),
            )
        )
    return QueueIs(question.ask, rows, len(waiting), sum(cls.queued for cls in waiting))


def limits_are(question: AskLimits, state: HeadState, now: float) -> LimitsAre:
    """Return the limits and rates in the requests of all jobs that have not ended."""
    waiting: Counter[tuple[str, str, int]] = Counter()
    for cls in state.scheduler.classes.values():
        for shape in cls.shapes:
            terms = [("limit", *pair) for pair in shape.limits] + [("rate", *pair) for pair in shape.rates]
            waiting.update(dict.fromkeys(terms, cls.queued))
    starts = state.scheduler.start_limits
    rows = [
        LimitRow(
            *(kind, name, units / _UNIT, starts.running(name) if kind == "limit" else 0, count),
            max(0.0, starts.next_start(name) - now) if kind == "rate" else 0.0,
        )
        for (kind, name, units), count in sorted(waiting.items())
    ]
    return LimitsAre(question.ask, rows)
