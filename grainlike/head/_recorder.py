"""`Recorder`: keeps when and where the last jobs of an executor ran, so that a trace can be drawn of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from grainlike.engine import LocalCall
from grainlike.graph import Record
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._nested import RelayedJob
from grainlike.head.values._copy_spans import CopySpans
from grainlike.jobs import Job, allocation_of, slots_of
from grainlike.observe import Depth, Stretch
from grainlike.resources import held_amounts
from grainlike.wire import Code

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.jobs import Lease, Worker
    from grainlike.wire import Completed, LeaseStart, Report

__all__ = ["HERE", "MOST", "Recorder"]

HERE = "this process"
"""Name of the row for calls without resources, in a trace."""

MOST = 100_000
"""Number of attempts that are kept by default."""

_MOST_SOURCES = 64
"""Most sources that are kept of one value: of a sum of thousands each partial sum would list all before it."""

_NEAR_S = 0.001
"""Changes of the queue's depth that lie nearer to each other are kept as one."""

_Attempt: TypeAlias = "tuple[int, int]"


class _RunningAttempt(NamedTuple):
    """An attempt that has not ended; `at` is on its worker's clock."""

    name: str
    job: int
    attempt: int
    slots: str
    at: float
    needs: tuple[Hashable, ...]


class _LeaseSpan:
    """Lease, with what runs on its slots one after another; `since` is when the last of that ended."""

    __slots__ = ("attempts", "since")

    def __init__(self, attempts: dict[_Attempt, _RunningAttempt], since: float) -> None:
        self.attempts = attempts
        self.since = since

    def runs(self) -> _RunningAttempt | None:
        """Return the attempt that runs now, if any: those behind it have not begun."""
        first = next(iter(self.attempts.values()), None)
        return None if first is None else first._replace(at=self.since)


class _Clock:
    """A worker's clock, and how far the head's is ahead: the least that reports suggested, for the others were late."""

    __slots__ = ("skew", "worker")

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.skew = float("inf")


class _EndedAttempt(NamedTuple):
    """An attempt that has; `ended` is on its worker's clock, too."""

    begun: _RunningAttempt
    clock: _Clock
    ended: float
    outcome: str


class _LocalCall(NamedTuple):
    """A call without resources."""

    name: str
    record: LocalCall
    needs: tuple[Hashable, ...]


class Recorder:
    """Implements `Observer`; `counted` receives how many jobs there are, and `applied` each operator.

    `live_job` returns a job by number and attempt, `assembles` whether it only waits with slots held. It keeps the
    last `most` attempts that ended and calls that began, and as many changes of the queue's depth. Times are kept as
    workers report them, and put on the head's clock `now` when they are read, by the difference of the clocks as
    measured until then: so attempts of one worker never seem to overlap because one report took longer than another.
    """

    def __init__(
        self,
        live_job: Callable[[int, int], Job | None],
        assembles: Callable[[int], bool],
        most: int,
        now: Callable[[], float],
    ) -> None:
        self._live_job, self._assembles, self._now = live_job, assembles, now
        self._ran: deque[_EndedAttempt | _LocalCall] = deque(maxlen=most)
        self._open: dict[Lease, _LeaseSpan] = {}
        self._clocks: dict[int, _Clock] = {}
        self._depths: deque[Depth] = deque(maxlen=most)
        self._reporting: Worker | None = None
        self.copies: CopySpans = CopySpans(most, now)
        """Copies of values between workers, and to programs."""

    # --- what is told ------------------------------------------------------------------------------------------------

    def joined(self, peer: Worker) -> None:
        """A worker is here."""
        self._clocks[peer.number] = _Clock(peer.name)

    def suspected(self, peer: Worker, why: str) -> None:
        """Do nothing: leases of a suspected worker continue."""

    def quarantined(self, peer: Worker, why: str) -> None:
        """Do nothing: leases of a quarantined worker continue."""

    def left(self, peer: Worker) -> None:
        """Remove a worker that has left, and end the attempts that it ran."""
        clock = self._clocks.pop(peer.number)
        at = self._now() - clock.skew
        for lease in [lease for lease in self._open if lease[0] == peer.number]:
            begun = self._open.pop(lease).runs()
            if begun is not None:
                self._end(clock, begun, at, "lost")

    def reported(self, peer: Worker, report: Report) -> None:
        """Attempts started and ended."""
        self._reporting = peer
        clock = self._clocks[peer.number]
        clock.skew = min(clock.skew, peer.skew)
        for start in report.started:
            self._started(peer, start)
        for completed in report.completed:
            self._completed(self._open.get((peer.number, completed.lease)), clock, completed)
        for number in report.ended:  # what else it was to run has not begun
            self._open.pop((peer.number, number), None)

    def linked(self, job: Job, *, good: bool) -> None:
        """A call has run in a chain; the first of it was begun as any job is."""
        peer = self._reporting
        if peer is None or job.node is None or job.slots is None or job.began is None or job.ended is None:
            return
        needs = dependencies_of(job.node)
        begun = _RunningAttempt(job.node.function.name, job.id, job.attempt, job.slots, job.began - peer.skew, needs)
        self._end(
            self._clocks[peer.number], begun, job.ended - peer.skew, _outcome(Code.SUCCEEDED if good else Code.FAILED)
        )

    def called(self, node: Node) -> None:
        """A call in this process has begun."""
        if isinstance(node.record, LocalCall):
            self._ran.append(_LocalCall(node.function.name, node.record, dependencies_of(node)))

    def closed(self) -> None:
        """Do nothing: the record stays readable."""

    def applied(self, node: Node) -> None:
        """An operator is about to be applied: its result goes back to what its inputs went back to."""
        node.record = OperatorRecord(dependencies_of(node))

    def counted(self, unended: int) -> None:
        """Record the queue's depth. `unended` jobs have not ended: those that hold slots run; the others wait, here
        or at workers.
        """
        running = len(self._open)
        now = Depth(self._now(), max(0, unended - running), running)
        last = self._depths[-1] if self._depths else None
        if last is not None and now.at - last.at < _NEAR_S:
            self._depths[-1] = now._replace(at=last.at)
        elif last is None or last[1:] != now[1:]:
            self._depths.append(now)

    # --- what it makes of that ---------------------------------------------------------------------------------------

    def _started(self, peer: Worker, start: LeaseStart) -> None:
        begun = {}
        for number, attempt, slots in slots_of(start):
            told = self._about(number, attempt)
            if told is not None:
                begun[number, attempt] = _RunningAttempt(told[0], number, attempt, slots, start.at, told[1])
        if begun:
            self._open[peer.number, start.lease] = _LeaseSpan(begun, start.at)

    def _about(self, number: int, attempt: int) -> tuple[str, tuple[Hashable, ...]] | None:
        """Return the name of a running job, and its slots; None of one that only waits with slots held."""
        job = self._live_job(number, attempt)
        if job is None or self._assembles(number):
            return None
        if job.node is not None:
            return job.node.function.name, dependencies_of(job.node)
        return (job.name, ()) if isinstance(job, RelayedJob | RevivedJob) else None

    def _completed(self, lease: _LeaseSpan | None, clock: _Clock, completed: Completed) -> None:
        if lease is None:
            return
        for row, key in enumerate(zip(completed.jobs, completed.attempts, strict=True)):
            begun = lease.attempts.pop(key, None)
            code = Code(completed.codes[row])
            at, wall = completed.begun[row], completed.wall[row]
            if begun is None or code in _NEVER_RAN or (code is Code.CANCELLED and not at):
                continue
            if not wall and code not in _OWN_WORD:  # who tells of it does not know when it began
                at, wall = lease.since, max(0.0, completed.sent_at - lease.since)
            lease.since = at + wall
            if not (code is Code.SUCCEEDED and self._is_chain(*key)):  # the calls of a chain are told one by one
                self._end(clock, begun._replace(at=at), at + wall, _outcome(code))

    def _is_chain(self, number: int, attempt: int) -> bool:
        job = self._live_job(number, attempt)
        return job is not None and bool(job.links)

    def _end(self, clock: _Clock, begun: _RunningAttempt, at: float, outcome: str) -> None:
        self._ran.append(_EndedAttempt(begun, clock, max(begun.at, at), outcome))

    # --- what there is to draw ---------------------------------------------------------------------------------------

    def depths(self) -> list[Depth]:
        """Return how many jobs waited and ran, and when that changed; the last is of this moment."""
        if not self._depths:
            return []
        return [*self._depths, self._depths[-1]._replace(at=self._now())]

    def stretches(self) -> Iterator[Stretch]:
        """Iterate over all that ran, and the bytes that went, on the head's clock. What has not ended extends to this
        moment.
        """
        now = self._now()
        for one in list(self._ran):
            yield _called(one, now) if isinstance(one, _LocalCall) else _ran(one)
        for (number, _), lease in list(self._open.items()):
            clock, begun = self._clocks[number], lease.runs()
            if begun is not None:
                yield _ran(_EndedAttempt(begun, clock, max(begun.at, now - clock.skew), "running"))
        yield from self.copies.stretches()


_NEVER_RAN = frozenset({Code.RETURNED, Code.UNFIT})
_OWN_WORD = frozenset({Code.SUCCEEDED, Code.FAILED})


def _ran(one: _EndedAttempt) -> Stretch:
    begun, clock, ended, outcome = one
    slots = allocation_of(begun.slots)
    details: dict[str, str | int | float] = {"status": outcome, "job": begun.job, "attempt": begun.attempt}
    details["slots"] = begun.slots
    began, ended = begun.at + clock.skew, ended + clock.skew
    held = held_amounts(slots.units)
    return Stretch(
        begun.name, clock.worker, slots.cores, began, ended, details, slots.gpus, begun.job, begun.needs, held
    )


def _called(one: _LocalCall, now: float) -> Stretch:
    record = one.record
    began = now if record.began is None else record.began
    ended = now if record.ended is None else record.ended
    details = {"status": "running" if record.ended is None else "ended", "attempt": record.attempt}
    return Stretch(one.name, HERE, (), began, ended, details, key=key_of(record), needs=one.needs)


def _outcome(code: Code) -> str:
    return code.name.lower()


# --- what the value of an operator was computed from -----------------------------------------------------------------


class OperatorRecord(Record):
    """Record of an operator while jobs are recorded: it ran nowhere."""

    __slots__ = ("sources",)

    def __init__(self, sources: tuple[Hashable, ...]) -> None:
        self.sources = sources


def dependencies_of(node: Node) -> tuple[Hashable, ...]:
    """Return the jobs and calls whose values are inputs of an unfinished node; the last 64 of more."""
    found: dict[Hashable, None] = {}
    for dep in node.deps:
        record = dep.record
        if isinstance(record, OperatorRecord):
            found.update(dict.fromkeys(record.sources))
        elif record is not None:
            found[key_of(record)] = None
    return tuple(found)[-_MOST_SOURCES:]


def key_of(record: object) -> Hashable:
    """Return the key of a job among others: its number; a call without resources has none, and is identified by its
    record.
    """
    return record.id if isinstance(record, Job) else ("call", id(record))
