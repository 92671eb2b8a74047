"""Jobs submitted by jobs and clients, at the head: they come over a link, and their outcomes go back, undecoded.

To the scheduler they are jobs like any other, with a parent or a client. Added here are their numbers, and where
their outcomes go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, Protocol

from grainlike.errors import GrainlikeError, ProtocolError, ValueLostError
from grainlike.head._functions import FunctionTable, Owner
from grainlike.head.values._owners import UNKNOWN, ValueOwner, ValueOwners
from grainlike.jobs import NO_PARCEL, Job, JobCounters, outcomes_message
from grainlike.payload import dump_error
from grainlike.resources import EMPTY, Request, parse
from grainlike.scheduler import HeadEvent, JobsCancelled, JobsSubmitted
from grainlike.wire import Buffer, Credit, Parcel, Submit, Window, Withdraw, split_by_bytes, unpack_parcels

__all__ = ["RelayedJob", "RelayedJobs", "ReplyTo"]

_Attempt = tuple[int, int, int]
"""The number of the worker, and the parent's job and attempt; the number of a client, and (0, 0)."""


class ReplyTo(ValueOwner, Protocol):
    """Submitter of jobs, to which their outcomes are posted: a worker, a client, or a named session."""


class RelayedJob(Job):
    """A job that came over a link. `child` is its number at the submitter: a job on worker `reply_to`, or a client."""

    __slots__ = ("attempt_of", "child", "finished", "name", "reply_to", "request", "timeout", "waiters", "window")

    def __init__(
        self, job: int, fn: int, parcel: Parcel, reply_to: ReplyTo, attempt_of: _Attempt, child: int, name: str
    ) -> None:
        super().__init__(job, fn, None, parcel)
        self.reply_to = reply_to
        self.attempt_of = attempt_of
        self.child = child
        self.name = name
        self.request = ""
        """Its request, in words, of a call whose value may stay at its worker."""
        self.timeout: float | None = None
        self.window: Window | None = None
        """Items that were passed on to the client and not taken by its reader; None for a call that is no stream."""
        self.finished = False
        self.waiters: list[Any] | None = None
        """Functions to call at its end; as of `Source`."""

    @property
    def record(self) -> RelayedJob:
        """State of the job, as of `Source`."""
        return self

    def close(self) -> None:
        """Drop the state that only a live job needs, and call the waiters."""
        super().close()
        self.finish()

    def finish(self) -> None:
        """Call the waiters: the job has ended."""
        self.finished = True
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            waiter()


class RelayedJobs:
    """Nested jobs of one head. `jobs` are all that it has, `tell` passes events to the scheduler, `number` gives new
    numbers.

    Those that end here, without a report of a worker, are counted in `counters`. `owners` are those of values.
    """

    def __init__(
        self,
        jobs: dict[int, Job],
        functions: FunctionTable,
        number: Callable[[], int],
        tell: Callable[[HeadEvent], object],
        counters: JobCounters,
        owners: ValueOwners,
    ) -> None:
        self._jobs = jobs
        self._functions = functions
        self._number = number
        self._tell = tell
        self._counters = counters
        self._owners = owners
        self._children: dict[_Attempt, dict[int, int]] = {}
        self.outbox: dict[_Attempt, tuple[ReplyTo, list[tuple[RelayedJob, bool, Parcel]]]] = {}
        """Outcomes that are to be sent, by `flush`."""

    # --- from a job --------------------------------------------------------------------------------------------------

    def submit(
        self,
        peer: ReplyTo,
        message: Submit,
        buffers: Sequence[Buffer],
        client: int = 0,
        paths: tuple[str, ...] = (),
        owner: int = 0,
    ) -> list[int]:
        """Submit the calls of a job on a worker, or of a client, as jobs; return their numbers.

        A client's jobs count as those of `client`, its own number or its session's, and `owner` is its own.
        """
        if message.parent and self._functions.lacks(message.functions, (0, message.parent)):
            for _ in message.children:  # that job has ended, and what it had sent is dropped: nobody waits for these
                self._counters.unwanted(skipped=False)
            return []
        if message.parent in self._jobs:  # its functions import from where its own does
            paths = self._functions.shipment(self._jobs[message.parent].fn)[0].paths
        request, error = _request_of(message)
        here = sum(spec.here for spec in message.functions)
        fns = self._adopt(message, buffers[:here], (owner, 0) if owner else (0, message.parent), paths)
        parcels = unpack_parcels(message.data, message.counts, buffers[here:])
        attempt_of = (peer.number, message.parent, message.attempt)
        made: list[RelayedJob] = []
        for child, at, parcel in zip(message.children, message.fns, parcels, strict=True):
            spec = message.functions[at]
            job = RelayedJob(self._number(), fns[at], parcel, peer, attempt_of, child, spec.name)
            job.timeout = spec.timeout
            if spec.stream and not message.parent:
                job.window = Window()
            if spec.stays:
                job.request = message.request
            made.append(job)
            self._jobs[job.id] = job
            self._children.setdefault(attempt_of, {})[child] = job.id
        numbers = [job.id for job in made]
        if error is None:
            self._submit(request, message, made, client)
        else:
            for job in made:
                del self._jobs[job.id]
                self._counters.failed += 1
                self.ended_by(job, error)
        return numbers

    def _submit(self, request: Request, message: Submit, made: list[RelayedJob], client: int) -> None:
        ages, sizes, inputs = message.ages, message.sizes, tuple(map(tuple, message.inputs))
        if inputs:
            known = [len(self._owners.owned(client, named)) == len(set(named)) for named in inputs]
            if not all(known):
                self._refuse_unknown([job for job, is_known in zip(made, known, strict=True) if not is_known])
                made, inputs = list(compress(made, known)), tuple(compress(inputs, known))
                ages, sizes = list(compress(ages, known)), list(compress(sizes, known))
        jobs, fns = [job.id for job in made], [job.fn for job in made]
        parent = (message.parent, message.attempt)
        columns = request, jobs, fns, message.priority, message.isolate, client, parent
        if made:
            self._tell(JobsSubmitted(*columns, ages=ages, sizes=sizes, inputs=inputs))

    def _refuse_unknown(self, jobs: Iterable[RelayedJob]) -> None:
        """End jobs of a client that refer to values which it does not own."""
        for job in jobs:
            del self._jobs[job.id]
            self._counters.failed += 1
            self.ended_by(job, ValueLostError(f"{job.name} needs a value, and {UNKNOWN}"))

    def _adopt(self, message: Submit, blobs: Sequence[Buffer], owner: Owner, paths: tuple[str, ...]) -> list[int]:
        """The numbers of the functions that are called."""
        shipped = iter(blobs)
        adopt = self._functions.adopt
        return [adopt(spec, next(shipped) if spec.here else None, owner, paths) for spec in message.functions]

    def refuse(
        self,
        reply_to: ReplyTo,
        message: Submit,
        buffers: Sequence[Buffer],
        paths: tuple[str, ...],
        owner: int,
        error: Exception,
    ) -> None:
        """A client's jobs are not to be. Their functions are kept, for they are not sent again."""
        self._adopt(message, buffers, (owner, 0), paths)
        for child, at in zip(message.children, message.fns, strict=True):
            name = message.functions[at].name
            self._counters.failed += 1
            self.ended_by(RelayedJob(0, 0, NO_PARCEL, reply_to, (reply_to.number, 0, 0), child, name), error)

    def withdraw_all(self, reply_to: ReplyTo) -> list[RelayedJob]:
        """Cancel all jobs of a client that has left, and return them."""
        numbers = list(self._children.get((reply_to.number, 0, 0), {}).values())
        gone = self.forget(numbers)
        self.outbox.pop((reply_to.number, 0, 0), None)
        if numbers:
            self._tell(JobsCancelled(numbers))
        return gone

    def withdraw_streams(self, reply_to: ReplyTo) -> list[RelayedJob]:
        """Cancel the streams of a session whose reader has left, and return them."""
        known = self._children.get((reply_to.number, 0, 0), {})
        numbers = [number for number in known.values() if self._window_of(number) is not None]
        gone = self.forget(numbers)
        if numbers:
            self._tell(JobsCancelled(numbers))
        return gone

    def credit(self, reply_to: ReplyTo, message: Credit) -> Credit | None:
        """Take the credit of a client's reader; return what to send to the worker, None where the attempt has ended.

        Raises:
            ProtocolError: it is for more than was sent.
        """
        number = self._children.get((reply_to.number, 0, 0), {}).get(message.job)
        window = None if number is None else self._window_of(number)
        if number is None or window is None or self._jobs[number].attempt != message.attempt:
            return None
        if not window.covers(message.items, message.size):
            raise ProtocolError(f"credit for {message.items} items of {message.size} bytes, which were never sent")
        window.credited(message.items, message.size)
        return Credit(number, message.attempt, message.items, message.size)

    def _window_of(self, number: int) -> Window | None:
        job = self._jobs.get(number)
        return job.window if isinstance(job, RelayedJob) else None

    def withdraw(self, peer: ReplyTo, message: Withdraw) -> list[RelayedJob]:
        """Cancel those of a job's own jobs that it does not want any more, and return them."""
        known = self._children.get((peer.number, message.parent, message.attempt), {})
        numbers = [known[child] for child in message.children if child in known]
        gone = self.forget(numbers, skipped=message.skipped)
        if numbers:
            self._tell(JobsCancelled(numbers))
        return gone

    def forget(self, numbers: Iterable[int], *, skipped: bool = False) -> list[RelayedJob]:
        """Drop jobs that are wanted no more, and return them; with `skipped`, those that had not started count as
        skipped.
        """
        gone = []
        for number in numbers:
            job = self._jobs.pop(number, None)
            if isinstance(job, RelayedJob):
                self._counters.unwanted(skipped=skipped and job.began is None)
                self._leave(job)
                job.close()
                gone.append(job)
        return gone

    # --- to it -------------------------------------------------------------------------------------------------------

    def ended(self, job: RelayedJob, parcel: Parcel, *, good: bool) -> None:
        """A job has its value or its exception: it goes with the next `flush`."""
        self._leave(job)
        job.close()
        self.outbox.setdefault(job.attempt_of, (job.reply_to, []))[1].append((job, good, parcel))

    def stayed(self, job: RelayedJob) -> None:
        """A job has a value that stays at its worker: word of it goes with the next `flush`."""
        self._leave(job)
        job.finish()
        self.outbox.setdefault(job.attempt_of, (job.reply_to, []))[1].append((job, True, NO_PARCEL))

    def ended_by(self, job: RelayedJob, error: BaseException) -> None:
        """End a job that will have no value, with the head's own error."""
        payload = dump_error(error)
        self.ended(job, (bytes(payload.data), payload.buffers), good=False)

    def flush(self) -> None:
        """Send the outcomes that are buffered."""
        outbox, self.outbox = self.outbox, {}
        for (_, parent, attempt), (peer, rows) in outbox.items():
            for first, last in split_by_bytes([parcel for _, _, parcel in rows]):
                told = [(job.child, job, good, parcel) for job, good, parcel in rows[first:last]]
                peer.post(*outcomes_message(parent, attempt, told))

    def _leave(self, job: RelayedJob) -> None:
        siblings = self._children.get(job.attempt_of)
        if siblings is not None:
            siblings.pop(job.child, None)
            if not siblings:
                del self._children[job.attempt_of]


def _request_of(message: Submit) -> tuple[Request, GrainlikeError | None]:
    """Parse the request of calls, before any job is made; the second item is the error of an invalid one."""
    try:
        return (parse(message.request) if message.request else EMPTY), None
    except GrainlikeError as error:
        return EMPTY, error
