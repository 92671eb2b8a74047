"""Creation of jobs from a program's own calls: packs arguments, and joins calls that may be sent as a chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from grainlike.graph import positional_arguments
from grainlike.head._kept_calls import CALL_MOST
from grainlike.head._shared_memory import ObjectStore, size_of
from grainlike.head._state import HeadState
from grainlike.jobs import (
    BIG,
    LARGE,
    NO_PARCEL,
    FirstOfChain,
    Job,
    OutcomeListener,
    RepeatedArguments,
    chained_after,
    follower_of,
    is_big,
)
from grainlike.payload import (
    MARK,
    SHARED_LEAST,
    Payload,
    SharedCopies,
    collecting,
    dump_arguments,
    dump_plain_arguments,
    dump_plain_columns,
    is_stored,
)
from grainlike.wire import Parcel

if TYPE_CHECKING:
    from grainlike.engine import Fetcher
    from grainlike.graph import Function, Node
    from grainlike.jobs import OwnArguments

__all__ = ["JobFactory"]


_FIRST_MOST = CALL_MOST - 4096
"""Most bytes of function and arguments of a chain's first call: with its name they are kept as arguments are."""

_FEW = 8
"""Of so many calls at the least one may take others along while the rest is made as a batch; it is told apart then."""

_MARKED = MARK[:1]
_FINISHED = attrgetter("finished")  # for `map`, without a Python call for each node
_new = object.__new__


class JobFactory:
    """Enters new jobs into `state`; large arguments go to `object_store`, and `outcomes` hears of calls that cannot be
    sent.
    """

    def __init__(self, state: HeadState, object_store: ObjectStore, outcomes: OutcomeListener) -> None:
        self._state = state
        self._outcomes = outcomes
        self._object_store = object_store
        self.sizes: dict[int, int] = {}
        """Bytes of the large arguments of jobs that were not submitted to the scheduler yet."""
        self.holds = False
        """True if there is something for `end_batch` to let go of."""
        self.fetcher: Fetcher | None = None
        """Fetcher of the values that jobs of this program refer to; None where there are none."""
        self.own: OwnArguments | None = None
        """Maker of values of large arguments; None where all travel."""
        self.shares = False
        """True if buffers that several calls have are such values: where workers may share no memory with this process;
        else the object store has each once.
        """
        self.unshared: dict[int, Payload] = {}
        """Arguments with large buffers of jobs that were made, and not submitted yet."""
        self.inputs: dict[int, tuple[int, ...]] = {}
        """Values that jobs refer to which were made, and not submitted yet."""

    def make(self, node: Node, numbers: dict[Function, int], repeated: list[RepeatedArguments]) -> Job | None:
        """Make the job of a call whose arguments are there. Raises what the user's objects raise when they are
        pickled; returns None where they cancelled it.

        `numbers` are those of functions in this batch: that they have not changed is asked once for all its jobs.
        `repeated` gets one that looks out for the same big argument in many of them, once there is a big one.
        """
        state = self._state
        fn = numbers.get(node.function)
        if fn is None:
            fn = numbers[node.function] = state.functions.number(node.function)
        if node.finished:
            return None
        if self.own is not None and node.deps:
            self.own.refer(node)
        fetcher = self.fetcher if self.fetcher is not None and self.fetcher.used else None
        args, kwargs = node.take_arguments(fetcher)
        data = None if kwargs else dump_plain_arguments(args)
        values: Sequence[int] = ()
        if data is not None:
            parcel: Parcel = data, ()
        elif fetcher is None:
            parcel = self._packed(node, args, kwargs)
        else:
            with collecting() as values:
                parcel = self._packed(node, args, kwargs)
        if len(parcel[0]) > BIG or (parcel[1] and not self.shares):
            _see(repeated, node, args, kwargs, parcel)
        state.last_job = number = state.last_job + 1
        if parcel[1] or len(parcel[0]) > LARGE or parcel[0][:1] == _MARKED:
            self.sizes[number] = size_of(parcel)
            self.holds = True
        if values:
            self.inputs[number] = tuple(values)
        follower = None if node.dependents is None or values or fn in state.functions.large else follower_of(node)
        first = None if follower is None else self._first_of_chain(number, fn, node, follower, parcel, numbers)
        if node.finished:
            Job(number, fn, node, parcel).close()
            self.inputs.pop(number, None)
            return None
        job = state.jobs[number] = node.record = Job(number, fn, node, parcel) if first is None else first
        if not node.age:
            node.age = number
        return job

    def refuse(self, node: Node, error: Exception) -> None:
        """Fail a call that cannot be sent."""
        self._outcomes.failed(node, error)
        self._state.counters.failed += 1
        # It was never a job, and is told from one that was never to be made.
        node.record = Job(0, 0, None, NO_PARCEL)

    def share(self) -> None:
        """Let buffers that several of the jobs made have be values, and keep the others."""
        unshared, self.unshared = self.unshared, {}
        assert self.own is not None, "what shares makes values"
        shared = self.own.share(list(unshared.values()))
        copies = SharedCopies()
        for number, (payload, values) in zip(unshared, shared, strict=True):
            job = self._state.jobs.get(number)
            if job is None or job.node is None:
                continue
            try:
                parcel = self._kept(payload, number, copies)
            except MemoryError as error:
                del self._state.jobs[number]
                self.refuse(job.node, error)
                continue
            job.travels = parcel if parcel[1] else parcel[0]
            self.sizes[number] = size_of(parcel)
            if values:
                self.inputs[number] = (*self.inputs.get(number, ()), *values)

    def take_inputs(self, jobs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the values that each of these jobs refers to, once; nothing if none refers to any."""
        found = tuple([self.inputs.pop(job, ()) for job in jobs])
        return found if any(found) else ()

    def make_alike(self, nodes: Sequence[Node]) -> tuple[list[Job], list[int], list[Node]] | None:
        """Return the jobs of calls of one function with one request, all at once, and the numbers of the oldest jobs
        that these need, if they need any. Calls that may take along who waits for them are left: they come third.
        None where each had better be looked at by itself: functions or requests differ, more than a few may take others
        along, or some have other arguments than numbers, text and bytes.
        """
        # Columns and built-in functions in place of `make` for each node: see `Head._submit_alike`.
        function, request = nodes[0].function, nodes[0].request
        dependents, has_inputs = None, False
        leading: list[Node] = []
        for node in nodes:
            if node.function is not function or node.request is not request:
                return None
            if node.dependents is not dependents:  # those that one call waits for have the same
                dependents = node.dependents
                if follower_of(node) is not None:
                    leading.append(node)
            if node.deps:
                has_inputs = True
        if leading:
            if len(nodes) < _FEW * len(leading):
                return None
            left = set(leading)
            nodes = [node for node in nodes if node not in left]
        if has_inputs:
            if self.own is not None:
                for node in nodes:
                    self.own.refer(node)
            if self.fetcher is not None and self.fetcher.used:
                return None  # some may be sent references
        calls = positional_arguments(nodes)
        data = None if calls is None else dump_plain_columns(calls)
        if data is None:
            return None
        state = self._state
        try:
            fn = state.functions.number(nodes[0].function)
        except Exception:  # noqa: BLE001 - whatever it is, each call has it for an error when it is made by itself
            return None
        if any(map(_FINISHED, nodes)):
            return None  # what the function holds has cancelled some
        first = state.last_job + 1
        state.last_job += len(nodes)
        largest = max(map(len, data))
        if largest > LARGE:
            self.sizes.update(enumerate(map(len, data), first))
        if largest > BIG:
            seen = RepeatedArguments()
            for node, args, stream in zip(nodes, calls or (), data, strict=True):
                if len(stream) > BIG:
                    seen.see(node, args, {})
        numbers = list(range(first, first + len(nodes)))  # one object for each, wherever it stands
        jobs: list[Job] = []
        for number, node, stream in zip(numbers, nodes, data, strict=True):
            # As the class makes one, in fewer steps; and arguments go as jobs come, so that the collector, which counts
            # what is new, has no reason to look.
            job = _new(Job)
            job.id, job.fn, job.node, job.travels, job.placement = number, fn, node, stream, None
            node.drop_arguments()
            node.record = job
            if not node.age:
                node.age = number
            jobs.append(job)
        state.jobs.update(zip(numbers, jobs, strict=True))
        ages = [node.age for node in nodes] if has_inputs else numbers
        return jobs, [] if ages == numbers else ages, leading

    def end_batch(self) -> None:
        """Let go of what was kept for a batch of calls."""
        self.sizes.clear()  # of calls that were cancelled, or could not be packed, meanwhile
        self._object_store.end_batch()
        self.unshared.clear()
        if self.own is not None:
            self.own.end_batch()
        self.holds = False

    def live(self, jobs: list[int], fns: list[int]) -> tuple[list[int], list[int]]:
        """Return those of the jobs that were not cancelled while the others were packed, with their functions."""
        rows = [row for row, job in enumerate(jobs) if job in self._state.jobs]
        return [jobs[row] for row in rows], [fns[row] for row in rows]

    def ages(self, jobs: list[int]) -> list[int]:
        """Return the numbers of the oldest jobs that these need, or their own."""
        nodes = [self._state.jobs[number].node for number in jobs]
        return [0 if node is None else node.age for node in nodes]

    def take_sizes(self, jobs: Sequence[int]) -> list[int]:
        """Return the bytes of the arguments of jobs, 0 where they are small; empty if all are, as they mostly are."""
        sizes = [self.sizes.pop(job, 0) for job in jobs]
        return [size if size > LARGE else 0 for size in sizes] if max(sizes, default=0) > LARGE else []

    def _packed(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Parcel:
        payload = dump_arguments(args, kwargs, what=node.function.name)
        number = self._state.last_job + 1
        if self.shares and any(memoryview(buffer).nbytes >= SHARED_LEAST for buffer in payload.buffers):
            self.unshared[number] = payload
            self.holds = True
            return bytes(payload.data), payload.buffers
        return self._kept(payload, number)

    def _kept(self, payload: Payload, number: int, copies: SharedCopies | None = None) -> Parcel:
        if payload.buffers and copies is not None and not self._object_store.open:
            payload = copies.detached(payload)
        elif payload.buffers:
            payload = self._object_store.keep(payload, f"a{number}")
        return bytes(payload.data), payload.buffers

    def _first_of_chain(
        self, job: int, fn: int, node: Node, follower: Node, parcel: Parcel, numbers: dict[Function, int]
    ) -> FirstOfChain | None:
        """A job that takes along the calls that wait for its value alone, `follower` first; None where none may."""
        data, buffers = parcel
        if buffers or is_stored(data):
            return None
        functions = self._state.functions
        code = functions.shipment(fn)[1]
        if len(code) + len(data) > _FIRST_MOST:
            return None  # if its value were large, its call could not be kept

        def number(function: Function) -> int:
            known = numbers.get(function)
            if known is None:
                known = numbers[function] = functions.number(function)
            return known

        behind = chained_after(node, follower, self._state.scheduler.pace, number, fn, functions.large)
        if not behind:
            return None
        followers: list[Job] = []
        shipped = {fn: code}
        links = [(fn, job, node.function.name, data)]
        for number_of_link, (follower, its, data) in enumerate(behind, self._state.last_job + 1):
            link = follower.record = Job(number_of_link, its, follower, NO_PARCEL)
            followers.append(link)
            if its not in shipped:
                shipped[its] = functions.shipment(its)[1]
            links.append((its, number_of_link, follower.function.name, data))
        self._state.last_job += len(behind)
        payload = dump_arguments((shipped, links), {}, what="a chain")
        runs = functions.chain(is_async=node.function.is_async)
        return FirstOfChain(job, fn, node, (bytes(payload.data), payload.buffers), runs, followers)


def _see(
    repeated: list[RepeatedArguments], node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], parcel: Parcel
) -> None:
    """Look for big arguments of a call that many calls have, but for those that are in shared memory, once for all."""
    if is_big(*parcel):
        if not repeated:
            repeated.append(RepeatedArguments())
        repeated[0].see(node, args, kwargs)
