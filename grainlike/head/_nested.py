"""Jobs submitted by jobs and clients, at the head: they come over a link, and their outcomes go back, undecoded.

To the scheduler they are jobs like any other, with a parent or a client. Added here are their numbers, and where
their outcomes go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, Protocol

from grainlike.errors import GrainlikeError, GraphError, JobCancelledError, ProtocolError, ValueLostError
from grainlike.head._functions import FunctionTable, Owner
from grainlike.head.values._owners import UNKNOWN, ValueOwner, ValueOwners
from grainlike.jobs import LARGE, NO_PARCEL, CallGraph, GraphCall, Job, JobCounters, outcomes_message
from grainlike.payload import dump_error, fill_arguments, noted_error
from grainlike.resources import EMPTY, Request, parse
from grainlike.scheduler import HeadEvent, JobsCancelled, JobsSubmitted, ValuesReleased
from grainlike.wire import Buffer, Credit, Numbered, Parcel, Submit, Window, Withdraw, split_by_bytes, unpack_parcels

__all__ = ["RelayedJob", "RelayedJobs", "ReplyTo"]

_Attempt = tuple[int, int, int]
"""The number of the worker, and the parent's job and attempt; the number of a client, and (0, 0)."""


class ReplyTo(ValueOwner, Protocol):
    """Submitter of jobs, to which their outcomes are posted: a worker, a client, or a named session."""

    def name_of(self, child: int) -> str:
        """Return the name that a call has there, by its number; empty for none."""
        ...


class RelayedJob(Job):
    """A job that came over a link. `child` is its number at the submitter: a job on worker `reply_to`, or a client."""

    __slots__ = ("attempt_of", "child", "finished", "name", "reply_to", "request", "timeout", "waiters", "window")

    def __init__(
        self, job: int, fn: int, parcel: Parcel, reply_to: ReplyTo, attempt_of: _Attempt, child: int, name: str
    ) -> None:
        super().__init__(job, fn, None, parcel)
        self.reply_to: ReplyTo = reply_to
        self.attempt_of: _Attempt = attempt_of
        self.child: int = child
        self.name: str = name
        self.request: str = ""
        """Its request, in words, of a call whose value may stay at its worker."""
        self.timeout: float | None = None
        self.window: Window | None = None
        """Items that were passed on to the client and not taken by its reader; None for a call that is no stream."""
        self.finished: bool = False
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


_Ended = tuple[RelayedJob, bool, Parcel]
"""A job, whether it has a value, and its value or exception."""


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
        self._graphs: dict[int, CallGraph] = {}
        """Graphs of sessions in which there are calls, by the numbers of the sessions."""
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
            for _ in message.children:  # that job has ended, and what it had sent is dropped: no job waits for these
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
            number = 0 if message.needs else self._number()
            job = RelayedJob(number, fns[at], parcel, peer, attempt_of, child, spec.name)
            job.timeout = spec.timeout
            if spec.stream and not message.parent:
                job.window = Window()
            if spec.stays:
                job.request = message.request
            made.append(job)
            if not message.needs:
                self._jobs[job.id] = job
                self._children.setdefault(attempt_of, {})[child] = job.id
        if message.needs:
            self._enter(peer, message, made, error)
            return [job.id for job in made]
        numbers = [job.id for job in made]
        if error is None:
            self._submit(request, message, made, client)
        else:
            for job in made:
                del self._jobs[job.id]
                self._counters.failed += job.fn not in self._functions.internal
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
            self._counters.failed += job.fn not in self._functions.internal
            self.ended_by(job, ValueLostError(f"{job.name} needs a value, and {UNKNOWN}"))

    # --- graphs ------------------------------------------------------------------------------------------------------

    def _enter(self, peer: ReplyTo, message: Submit, made: list[RelayedJob], error: Exception | None) -> None:
        """Take calls of a graph: those that need no other begin, and all that can never run fail."""
        graph, owners = peer.graph, self._owners
        assert graph is not None, "whoever has none was refused"
        self._graphs = {number: known for number, known in self._graphs.items() if known.calls}
        self._graphs[peer.number] = graph
        ready: list[GraphCall] = []
        for row, job in enumerate(made):
            call = GraphCall(job.child, job, message.names[row] if message.names else "", message, row)
            owned = len(owners.owned(peer.number, call.inputs)) == len(set(call.inputs))
            call.inputs = call.inputs if owned else ()
            for value in call.inputs:
                owners.pin(value)
            try:
                failed = graph.enter(call)
            except LookupError as unknown:
                self._fail(graph, call, GraphError(f"{job.name} cannot run: {unknown}"))
                continue
            if error is not None:
                self._fail(graph, call, error)
            elif not owned:
                self._fail(graph, call, ValueLostError(f"{job.name} needs a value, and {UNKNOWN}"))
            elif failed is not None:
                self._fail(graph, call, failed)
            elif not call.missing:
                ready.append(call)
        self._begin(peer, graph, ready)

    def _begin(self, peer: ReplyTo, graph: CallGraph, calls: list[GraphCall]) -> None:
        """Submit calls of a graph that have all that they need, as jobs."""
        batches: dict[tuple[str, int, bool], list[GraphCall]] = {}
        for call in calls:
            batches.setdefault((call.request, call.priority, call.isolate), []).append(call)
        for (words, priority, isolate), batch in batches.items():
            jobs: list[RelayedJob] = []
            ages: list[int] = []
            sizes: list[int] = []
            inputs: list[tuple[int, ...]] = []
            for call in batch:
                job = call.job
                assert isinstance(job, RelayedJob)
                given, needs = graph.given(call), graph.ages(call)
                if given:
                    filled = fill_arguments(job.parcel, given)
                    job.travels = (bytes(filled.data), filled.buffers) if filled.buffers else bytes(filled.data)
                    call.size = max(call.size, filled.nbytes)
                job.id = self._number()
                self._jobs[job.id] = job
                self._children.setdefault(job.attempt_of, {})[job.child] = job.id
                jobs.append(job)
                ages.append(min(needs, default=0))
                sizes.append(call.size if call.size > LARGE else 0)
                inputs.append((*call.inputs, *(value for value in given.values() if isinstance(value, int))))
                call.age = ages[-1] or job.id
                graph.begun(call)
            numbers = [job.id for job in jobs]
            peer.post(Numbered([job.child for job in jobs], numbers))
            columns = (
                parse(words) if words else EMPTY,
                numbers,
                [job.fn for job in jobs],
                priority,
                isolate,
                peer.number,
            )
            self._tell(
                JobsSubmitted(
                    *columns,
                    ages=ages if any(ages) else [],
                    sizes=sizes if any(sizes) else [],
                    inputs=tuple(inputs) if any(inputs) else (),
                )
            )
        self.unpin(peer)

    def _fail(self, graph: CallGraph, call: GraphCall, why: Exception | Parcel) -> list[RelayedJob]:
        """Fail a call that waits; return jobs that are cancelled, as nothing needs them now."""
        job = call.job
        assert isinstance(job, RelayedJob)
        if isinstance(why, Exception):
            self._counters.failed += 1
            self.ended_by(job, why)
        else:
            self._counters.unwanted(skipped=True)
            self.ended(job, why, good=False)
        return self._drop(graph, graph.fail(call))

    def _drop(self, graph: CallGraph, calls: list[GraphCall]) -> list[RelayedJob]:
        """Cancel calls that nothing needs, and what only they need; return those that were jobs."""
        gone: list[RelayedJob] = []
        while calls:
            call = calls.pop()
            job = call.job
            if not isinstance(job, RelayedJob) or job.finished:
                continue
            if call.waits:
                calls += graph.fail(call)
            elif self._jobs.pop(job.id, None) is not None:
                gone.append(job)
            self._counters.unwanted(skipped=True)
            self.ended_by(job, JobCancelledError(f"{job.name} was cancelled"))
        if gone:
            self._tell(JobsCancelled([job.id for job in gone]))
        return gone

    def _settle(self, peer: ReplyTo, graph: CallGraph, rows: list[_Ended]) -> list[RelayedJob]:
        """Pass on how calls of a graph have ended; return jobs that are cancelled, as nothing needs them now."""
        ready: list[GraphCall] = []
        gone: list[RelayedJob] = []
        for job, good, parcel in rows:
            call = graph.calls.get(job.child)
            if call is None or call.outcome is not None:
                continue
            if good:
                ready += graph.end(call, job.id if parcel == NO_PARCEL else parcel, good=True)
                continue
            why: Parcel = (noted_error(parcel[0], job.note(job.name)), ()) if job.attempt else parcel
            for user in graph.end(call, why, good=False):
                gone += self._fail(graph, user, why)
        self._begin(peer, graph, ready)
        return gone

    def _withdraw_calls(self, peer: ReplyTo, graph: CallGraph, children: Sequence[int]) -> list[RelayedJob]:
        """Remove calls of a graph; what needs them fails, and what only they needed is cancelled."""
        names = {call.child: call.job for child in children if (call := graph.calls.get(child)) is not None}
        words = next((job.name for job in names.values() if isinstance(job, RelayedJob)), "")
        users, idle = graph.withdraw(children)
        for job in names.values():
            if isinstance(job, RelayedJob) and not job.finished:
                self._counters.unwanted(skipped=False)
                job.close()
        gone: list[RelayedJob] = []
        for user in users:
            payload = dump_error(JobCancelledError(f"{words} was cancelled"))
            gone += self._fail(graph, user, (bytes(payload.data), payload.buffers))
        gone += self._drop(graph, idle)
        self.unpin(peer)
        return gone

    def heard(self, peer: ReplyTo, children: Iterable[int]) -> None:
        """Record that a program has heard how calls of its graphs ended."""
        if peer.graph is not None:
            peer.graph.heard(children)
            self.unpin(peer)

    def detach(self, peer: ReplyTo) -> None:
        """Record that the program of a session has gone: its graphs go on."""
        if peer.graph is not None:
            peer.graph.detach()
            self.unpin(peer)

    def waiting_functions(self) -> set[int]:
        """Return the numbers of the functions of calls that wait for others."""
        return set[int]().union(*(graph.functions() for graph in self._graphs.values()))

    def end_graphs(self, peer: ReplyTo) -> None:
        """Cancel all calls of a session's graphs that wait."""
        if peer.graph is not None:
            for call in [call for call in peer.graph.calls.values() if call.waits]:
                job = call.job
                assert isinstance(job, RelayedJob)
                if not job.finished:
                    self._fail(peer.graph, call, JobCancelledError(f"{job.name} was cancelled by an operator"))

    def unpin(self, peer: ReplyTo) -> None:
        """Release values of a session that nothing keeps any more."""
        unpinned = () if peer.graph is None else peer.graph.take_unpinned()
        released = [value for value in unpinned if self._owners.unpin(value)]
        if released:
            self._owners.release(peer.number, released)
            self._tell(ValuesReleased(released))

    # --- functions ---------------------------------------------------------------------------------------------------

    def _adopt(self, message: Submit, blobs: Sequence[Buffer], owner: Owner, paths: tuple[str, ...]) -> list[int]:
        """Return the numbers of the functions that are called."""
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
            function = message.functions[at]
            self._counters.failed += not function.internal
            attempt_of = reply_to.number, 0, 0
            self.ended_by(RelayedJob(0, 0, NO_PARCEL, reply_to, attempt_of, child, function.name), error)

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
        if peer.graph is not None and peer.graph.calls:
            gone += self._withdraw_calls(peer, peer.graph, message.children)
            gone += self.flush()
        self.unpin(peer)
        return gone

    def forget(self, numbers: Iterable[int], *, skipped: bool = False) -> list[RelayedJob]:
        """Drop jobs that are wanted no more, and return them; with `skipped`, those that had not started count as
        skipped.
        """
        gone = []
        for number in numbers:
            job = self._jobs.get(number)
            if isinstance(job, RelayedJob):
                internal = job.fn in self._functions.internal
                self._counters.unwanted(skipped=skipped and job.began is None, internal=internal)
                self.hand_back(job)
                gone.append(job)
        return gone

    def hand_back(self, job: RelayedJob) -> None:
        """Drop a job of which nothing is counted, as its submitter drops it, or submits it again."""
        del self._jobs[job.id]
        self._leave(job)
        job.close()

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

    def flush(self) -> list[RelayedJob]:
        """Send the outcomes that are buffered, and begin what waited for them; return jobs that were cancelled, as
        nothing needs them now.
        """
        gone: list[RelayedJob] = []
        while self.outbox:
            outbox, self.outbox = self.outbox, {}
            for (_, parent, attempt), (peer, rows) in outbox.items():
                for first, last in split_by_bytes([parcel for _, _, parcel in rows]):
                    told = [(job.child, job, good, parcel) for job, good, parcel in rows[first:last]]
                    peer.post(*outcomes_message(parent, attempt, told))
                if peer.graph is not None and peer.graph.calls:
                    gone += self._settle(peer, peer.graph, rows)
        return gone

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
