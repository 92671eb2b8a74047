"""State of one job at the head, and what `info` shows of it; counts of how jobs ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from grainlike.graph import Record, RunsIn, State
from grainlike.jobs._slots import allocation_of
from grainlike.payload import MARK, drop, dump_arguments, load_arguments, plain_arguments
from grainlike.resources import shown_amounts
from grainlike.wire import Completed, Parcel, ReceiptSpec, Totals

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.resources import Allocation, Receipt, Usage

__all__ = [
    "NO_PARCEL",
    "FirstOfChain",
    "Job",
    "JobCounters",
    "Placement",
    "close_all",
    "note_of",
]

NO_PARCEL: Parcel = (b"", ())
"""An empty payload."""

_MARKED = MARK[:1]


def note_of(name: str, job: int, worker: str | None, slots: object, attempt: int) -> str:
    """Return one line on where an exception came from: the job if it has a number, worker, slots, attempt, and the name
    of the function.
    """
    number = f"job {job}, " if job else ""
    shown = shown_amounts(str(slots)) if slots else "none"
    return f"grainlike: {number}on worker {worker}, slots {shown}, attempt {attempt} of {name}"


class Placement(msgspec.Struct, eq=False, gc=False):
    """State of a job since it was assigned to a worker: a queued one has none, for many jobs may queue.

    It refers to nothing that could refer to it, so the collector does not look at it. Jobs that were assigned together,
    or began in one lease, share one until they end: who changes what is said of one job takes `Job.own_placement`.
    """

    worker: str | None
    attempt: int
    earlier: tuple[tuple[str, int], ...] = ()
    """Workers that it was sent to before, with the attempt."""
    slots: str | None = None
    began: float | None = None
    ended: float | None = None
    used: tuple[float, float, int] | None = None
    """Seconds of wall and CPU time, and bytes of memory at the most."""
    receipt: ReceiptSpec | None = None
    last_words: str | None = None
    """Note with the last output of its process before that died."""
    blocks_since: float | None = None
    """Since when it has blocked the event loop that it shares with others."""
    streamed: bool = False
    """True if it has sent items."""
    again_at: float | None = None
    """Monotonic time at which its next attempt may begin, while it waits for that."""
    size: int | None = None
    """Bytes of its value, once it has one."""
    recomputed: int = 0
    """Number of times that it ran again because its value was lost."""

    def own(self) -> Placement:
        """Return a copy, to be changed for one job."""
        return replace(self)


class Job(Record):
    """Job: a call on its way through the cluster.

    Times are on this process's monotonic clock. The worker's reports are kept as they came and decoded on demand:
    most jobs are never queried. `travels` is the payload for its worker, until the job is closed: bytes alone where
    no buffers go with them, for very many may wait.
    """

    # Five slots, and the rest in `Placement` once it is assigned: very many jobs may wait. See `test_memory`.
    __slots__ = ("fn", "id", "node", "placement", "travels")

    def __init__(self, job: int, fn: int, node: Node | None, parcel: Parcel) -> None:
        self.id: int = job
        self.fn: int = fn
        self.node: Node | None = node
        self.travels: bytes | Parcel = parcel if parcel[1] else parcel[0]
        self.placement: Placement | None = None

    def send_with(self, parcel: Parcel) -> None:
        """Let this payload be sent with it."""
        self.travels = parcel if parcel[1] else parcel[0]

    @property
    def parcel(self) -> Parcel:
        """Payload that is sent with it."""
        return (self.travels, ()) if isinstance(self.travels, bytes) else self.travels

    @property
    def job(self) -> int:
        """Its number at the head; 0 while that is not known here."""
        return self.id

    @property
    def runs(self) -> int:
        """The number of the function that its worker calls."""
        return self.fn

    @property
    def links(self) -> Sequence[Job]:
        """The calls that it takes along."""
        return ()

    def assigned(self, worker: str, attempt: int) -> Placement:
        """Record its assignment to a worker; state of an earlier attempt is reset."""
        earlier = () if self.placement is None else tuple(self.places())
        placement = self.placement = Placement(worker, attempt, earlier)
        self._pend()
        return placement

    def own_placement(self) -> Placement | None:
        """Return its placement, to be changed: a copy takes the place of one that other jobs may share."""
        placement = self.placement
        if placement is not None:
            self.placement = placement.own()
        return self.placement

    def ended_in(self, completed: Completed, row: int, skew: float, receipt: ReceiptSpec | None) -> None:
        """Record an end that a row of a message from its worker tells of, whose clock is `skew` behind ours."""
        assert self.placement is not None
        began, wall = completed.begun[row] + skew, completed.wall[row]
        used, size = (wall, completed.cpu[row], completed.rss[row]), len(completed.data[row])
        self.placement = replace(self.placement, began=began, ended=began + wall, used=used, size=size, receipt=receipt)

    def made_again(self, times: int, attempt: int, worker: str | None) -> None:
        """Record that its value was made again; what this attempt was given, and used, is not known here."""
        placement = self.own_placement()
        if placement is not None:
            again = worker or placement.worker, attempt
            if again != (placement.worker, placement.attempt):
                placement.slots = placement.receipt = None
            placement.recomputed = times
            placement.worker, placement.attempt = again

    def waits_again(self, seconds: float | None = None) -> None:
        """Record that its attempt is over, and it is back in the queue; or will be in so many seconds, and may begin
        then.
        """
        placement = self.own_placement()
        if placement is not None:
            placement.slots = placement.began = placement.ended = placement.blocks_since = None
            placement.again_at = None if seconds is None else time.monotonic() + seconds
        self._pend()

    def _pend(self) -> None:
        if self.node is not None and not self.node.finished:  # one that was cancelled may not have been stopped yet
            self.node.state = State.PENDING

    def begin(self, worker: str, attempt: int, slots: str, ran_s: float = 0.0) -> None:
        """Record the start of an attempt that another component assigned, and that runs for so many seconds already."""
        placement = self.assigned(worker, attempt)
        placement.slots, placement.began = slots, time.monotonic() - ran_s
        if self.node is not None:
            self.node.state = State.RUNNING

    def stopped(self, now: float) -> None:
        """Record an end that its worker did not report: of its usage only the wall time is known."""
        placement = self.own_placement()
        if placement is not None and placement.began is not None and placement.used is None:
            placement.ended, placement.used = now, (max(0.0, now - placement.began), 0.0, 0)

    def places(self) -> list[tuple[str, int]]:
        """Return the workers that it was sent to, in order, with the first attempt for which it was."""
        placement = self.placement
        if placement is None:
            return []
        places = dict(placement.earlier)
        if placement.worker is not None:
            places.setdefault(placement.worker, placement.attempt)
        return list(places.items())

    def close(self) -> None:
        """Drop the state that only a live job needs."""
        close_all((self,))

    @property
    def worker(self) -> str | None:
        """The worker that has it, or had it last."""
        return None if self.placement is None else self.placement.worker

    @property
    def attempt(self) -> int:
        """1 for the first attempt, 0 before it."""
        return 0 if self.placement is None else self.placement.attempt

    @property
    def slots(self) -> str | None:
        """Slots of the job, in the worker's notation."""
        return None if self.placement is None else self.placement.slots

    @property
    def began(self) -> float | None:
        """Monotonic time at which it started."""
        return None if self.placement is None else self.placement.began

    @property
    def ended(self) -> float | None:
        """Monotonic time at which it ended."""
        return None if self.placement is None else self.placement.ended

    @property
    def last_words(self) -> str | None:
        """Note with the last output of its process before that died."""
        return None if self.placement is None else self.placement.last_words

    @property
    def streamed(self) -> bool:
        """True if it has sent items."""
        return self.placement is not None and self.placement.streamed

    @property
    def again_at(self) -> float | None:
        """Monotonic time at which its next attempt may begin, while it waits for that."""
        return None if self.placement is None else self.placement.again_at

    @property
    def size(self) -> int | None:
        """Bytes of its value; None before it has one."""
        return None if self.placement is None else self.placement.size

    @property
    def recomputed(self) -> int:
        """Number of times that it ran again because its value was lost."""
        return 0 if self.placement is None else self.placement.recomputed

    @property
    def allocation(self) -> Allocation | None:
        """Slots that the job was given, with ids."""
        slots = self.slots
        return None if slots is None else allocation_of(slots)

    @property
    def receipt(self) -> Receipt | None:
        """Limits that were enforced, read back in the job's process."""
        spec = None if self.placement is None else self.placement.receipt
        if spec is None:
            return None
        from grainlike.resources import Receipt  # few look at one, and a program that runs its jobs loads less

        return Receipt(tuple(spec.affinity), dict(spec.threads), tuple(spec.devices), spec.memory_tier)

    @property
    def usage(self) -> Usage | None:
        """Usage of the job: wall and CPU seconds, memory in bytes, and cores."""
        used = None if self.placement is None else self.placement.used
        if used is None:
            return None
        from grainlike.resources import Usage  # as above

        wall, cpu, rss = used
        return Usage(wall, cpu, rss, cpu / wall if wall > 0 else 0.0)

    def note(self, name: str) -> str:
        """Return the one line that an exception of this job, a call of the function `name`, carries."""
        return note_of(name, self.job, self.worker, self.slots, self.attempt)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments that travel to its worker, if they are plain and small; None if not, or at its end."""
        return plain_arguments(self.travels) if isinstance(self.travels, bytes) else None

    def elapsed_s(self) -> float | None:
        """Return the seconds that the job has run, or ran."""
        placement = self.placement
        if placement is None or placement.began is None:
            return None
        return (time.monotonic() if placement.ended is None else placement.ended) - placement.began

    def why_pending(self) -> str | None:
        """Return one sentence on what a pending job waits for; None if it is not pending."""
        if self.began is not None or self.node is None:
            return None
        if self.again_at is not None:
            return f"tries again in {max(0.0, self.again_at - time.monotonic()):.1f} s"
        return "waits for its turn at the head" if self.worker is None else f"assigned to {self.worker}"


def close_all(jobs: Iterable[Job]) -> None:
    """Close each of them."""
    for job in jobs:
        # `parcel` only where there are buffers: its call and its tuple are saved for most jobs.
        data = job.travels if type(job.travels) is bytes else job.parcel[0]
        if data[:1] == _MARKED:
            drop(data)
        job.node = None
        job.travels = b""


class FirstOfChain(Job):
    """A call that takes others along, its `links`: to its worker it is a call of the function that runs them all."""

    __slots__ = ("_links", "_runs")

    def __init__(self, job: int, fn: int, node: Node, parcel: Parcel, runs: int, links: list[Job]) -> None:
        super().__init__(job, fn, node, parcel)
        self._runs = runs
        self._links = links

    @property
    def runs(self) -> int:
        """Number of the function that its worker calls."""
        return self._runs

    @property
    def links(self) -> Sequence[Job]:
        """Calls of the chain, which are sent along."""
        return self._links

    def leave_links(self) -> None:
        """Drop the links, which did not run: of what travels to a worker, the call itself is left."""
        (functions, links), _ = load_arguments(self.parcel)
        own = dump_arguments(({self.fn: functions[self.fn]}, links[:1]), {}, what="a chain")
        self._links = []
        self.send_with((bytes(own.data), own.buffers))


class JobCounters:
    """Counts jobs as they end, but no internal ones. Successes, the most frequent, are counted by the batch.

    `opened` is when that began, on the head's clock. Where it has a journal, the next head continues count and clock.
    """

    def __init__(self, opened: float) -> None:
        self.succeeded: int = 0
        self.failed: int = 0
        self.skipped: int = 0
        self.timed_out: int = 0
        self.cancelled: int = 0
        self.recomputed = 0
        self.sent = 0
        """Bytes of arguments that went to workers."""
        self.run_seconds: float = 0.0
        self.opened = opened

    @property
    def bad(self) -> int:
        """Number of jobs that failed or timed out."""
        return self.failed + self.timed_out

    def unwanted(self, *, skipped: bool, internal: bool = False) -> None:
        """Count a job that is wanted no more, unless it is internal: skipped because of a failure, or cancelled."""
        if internal:
            return
        if skipped:
            self.skipped += 1
        else:
            self.cancelled += 1

    def internal_failed(self, node: Node) -> None:
        """Count the calls with resources that need a failed internal job as failed, in its place: they never start."""
        waiting = list(node.dependents or ())
        while waiting:
            call = waiting.pop()
            if call.finished or call.function.accepts_errors:
                continue
            if call.place is RunsIn.INLINE:
                waiting += call.dependents or ()
            elif call.place is RunsIn.REMOTE and call.record is None:
                self.failed += 1
                call.record = Job(0, 0, None, NO_PARCEL)  # tells it from calls that are skipped

    def totals(self, now: float) -> Totals:
        """Return the figures at this moment."""
        return Totals(
            succeeded=self.succeeded,
            failed=self.failed,
            skipped=self.skipped,
            timed_out=self.timed_out,
            cancelled=self.cancelled,
            total_seconds=now - self.opened,
            run_seconds=self.run_seconds,
            sent=self.sent,
            recomputed=self.recomputed,
        )
