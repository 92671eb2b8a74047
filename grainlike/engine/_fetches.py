"""Bring values that stay at workers into the program: the one way to get their bytes there.
Replicas are waited for likewise.

Each value is fetched once at a time, for all who wait for it, and given up when none is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from typing import Any, Protocol

from grainlike.errors import GraphError, ResourceError, ValueLostError
from grainlike.eventloop import new_wakeup
from grainlike.graph import Node, RemoteValue
from grainlike.payload import Payload, Reference, applied, load_value

__all__ = [
    "Fetch",
    "Fetcher",
    "InputFetches",
    "ValueSource",
    "bring",
    "copy_made",
    "fetch",
    "replicate_values",
    "staying_values",
]

_CLOSED = "its executor has closed: a value that stays at workers goes with that, unless it was awaited before"


class ValueSource(Protocol):
    """Interface of what knows where values are: the head."""

    def want(self, values: Sequence[int]) -> None:
        """Get the bytes of these values: each is answered by `Fetcher.given` or `Fetcher.lost`."""

    def unwant(self, values: Sequence[int]) -> None:
        """Give these up: no reader waits for them any more."""

    def release(self, values: Sequence[int]) -> None:
        """Give up the program's references to these."""

    def replicate(self, values: Sequence[int], copies: int) -> None:
        """Keep at least so many replicas of each of these, 0 for one at every worker; each is answered by
        `Fetcher.replicated` or `Fetcher.lost`.
        """

    def copied(self, value: int, reader: int) -> None:
        """Have the call that made value `reader` read the durable copy of `value`, where that is lost."""

    @property
    def own_most(self) -> int:
        """Bytes of the largest argument that may be a value of the program's own: the store of some worker could hold
        it. 0 where none may, as a worker has no place for any.
        """
        ...

    def add_own(self, payload: Payload) -> tuple[int, int]:
        """Keep a copy of a payload as a value of the program's own until it was released and no job needs it; return
        its number, and the size of its replicas.
        """
        ...

    def own_payload(self, value: int) -> Payload | None:
        """Return the payload of a value of the program's own; None for one that is kept no more."""
        ...

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica, sorted."""
        ...

    def why_lost(self, value: int) -> str:
        """Return why a value is at no worker and can never be made again; empty where it is, or can be."""
        ...

    def why_few(self, value: int) -> str:
        """Return for which replicas of a value there is no room; empty where it has those that it is to have, or where
        that is told by a warning alone.
        """
        ...


class Fetch:
    """Wait for the bytes of some values, or for replicas of them. `done` is called once, when all are here or one is
    lost (`error`), unless that is so before it has `begun`. Then it is forgotten: who waits may refer to its `Fetch`,
    and the two would keep the value until the collector runs.
    """

    __slots__ = ("_done", "begun", "error", "missing")

    def __init__(self, done: Callable[[], object]) -> None:
        self._done: Callable[[], object] | None = done
        self.begun: bool = False
        self.missing: set[RemoteValue] = set()
        self.error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """True if nothing is missing any more, or never will be there."""
        return not self.missing

    def begin(self) -> None:
        """Tell `done` from now on, unless this has ended already."""
        self.begun = True
        if self.ended:
            self._done = None

    def arrived(self, value: RemoteValue, error: BaseException | None = None) -> None:
        """Record that one value is here, or that it never will be."""
        self.missing.discard(value)
        if error is not None:
            self.error = error
            self.cancel()
        if self.begun and self.ended and self._done is not None:
            done, self._done = self._done, None
            done()

    def cancel(self) -> None:
        """Give up what is missing."""
        missing, self.missing = self.missing, set()
        for fetcher, values in _by_fetcher(missing).items():
            fetcher.leave(values, self)


def fetch(nodes: Iterable[Node], done: Callable[[], object]) -> Fetch:
    """Begin to fetch the values of nodes that have finished. `done` is called when they are here, unless they are: then
    the `Fetch` has ended already.

    Raises:
        ResourceError: together they are more than a program may hold.
        ValueLostError: the executor of one has closed.
        RuntimeError: one belongs to another event loop.
    """
    leaves = _leaves(node for node in nodes if node.stays)
    size = sum(leaf.size for leaf in leaves)
    missing = [leaf for leaf in leaves if not leaf.fetched]
    return _begin(missing, size, done, lambda fetcher, values, waiting: fetcher.join(values, waiting))


def replicate_values(nodes: Iterable[Node], copies: int, done: Callable[[], object]) -> Fetch:
    """Begin to keep so many replicas, 0 for one at every worker, of the values of nodes that have finished. `done` is
    called when there are as many, unless there are: then the `Fetch` has ended already. Nothing is done about values
    that only the program has.

    Raises:
        ValueLostError: the executor of one has closed.
        RuntimeError: one belongs to another event loop.
    """
    return _begin(
        staying_values(nodes), 0, done, lambda fetcher, values, waiting: fetcher.replicate(values, copies, waiting)
    )


def staying_values(nodes: Iterable[Node]) -> list[RemoteValue]:
    """Return the values at workers of nodes that have finished, each once; those that only the program has are left
    out.

    Raises:
        ValueLostError: the executor of one has closed.
        RuntimeError: one belongs to another event loop.
    """
    leaves = [leaf for leaf in _leaves(nodes) if leaf.fetcher.is_open or not leaf.fetched]
    for fetcher in _by_fetcher(leaves):
        fetcher.check(0)
    return leaves


def copy_made(value: RemoteValue, reader: RemoteValue, url: str) -> None:
    """Have the call that made `reader` read the durable copy of `value`, at `url`, whenever that is needed and lost.

    Raises:
        GraphError: they are values of two executors.
        ValueLostError: their executor has closed.
    """
    fetcher = value.fetcher
    if fetcher is not reader.fetcher or not isinstance(fetcher, Fetcher):
        raise GraphError(
            "a copy is made by the executor that has the value: call `replicate` where that is the innermost"
        )
    fetcher.check(0)
    assert fetcher.source is not None
    fetcher.source.copied(value.id, reader.id)
    value.copy = url


def _leaves(nodes: Iterable[Node]) -> list[RemoteValue]:
    """Return the values at workers that outcomes of nodes consist of, each once."""
    leaves = {id(leaf): leaf for node in nodes if node.reference for leaf in node.reference.leaves()}
    return list(leaves.values())


def _by_fetcher(values: Iterable[RemoteValue]) -> dict[Any, list[RemoteValue]]:
    found: dict[Any, list[RemoteValue]] = {}
    for value in values:
        found.setdefault(value.fetcher, []).append(value)
    return found


def _begin(
    values: Iterable[RemoteValue],
    size: int,
    done: Callable[[], object],
    join: Callable[[Fetcher, list[RemoteValue], Fetch], object],
) -> Fetch:
    """Begin a wait for values at all their fetchers, if each of them allows `size` bytes; else at none."""
    waiting = Fetch(done)
    by_fetcher = _by_fetcher(values)
    for fetcher in by_fetcher:
        fetcher.check(size)
    waiting.missing = set().union(*by_fetcher.values())
    for fetcher, values in by_fetcher.items():
        join(fetcher, values, waiting)
    waiting.begin()
    return waiting


class Fetcher:
    """Fetches the values of one executor's jobs, from `source` once there is one.

    `check_loop` raises where an await is none of this executor's loop, `later` calls something in a later turn of that
    loop, from any thread, and `limit` is how many bytes may be awaited at once; 0 if that is unknown.
    """

    def __init__(
        self, check_loop: Callable[[], object], later: Callable[[Callable[[], None]], None], limit: Callable[[], int]
    ) -> None:
        self.source: ValueSource | None = None
        self.used: bool = False
        """True once a value has stayed at workers."""
        self._check_loop = check_loop
        self._later = later
        self._limit = limit
        self._waiting: dict[int, tuple[RemoteValue, list[Fetch]]] = {}
        self._replicating: dict[int, list[tuple[RemoteValue, Fetch]]] = {}
        """Values of which more replicas are to come, and who waits for that."""
        self._unreached: set[int] = set()
        """Values for which the source has not answered, with waiters or without."""
        self._released: deque[int] = deque()
        self._drains = False
        self._closed = _CLOSED

    def renewed(self) -> Fetcher:
        """Return a fetcher for values of another head: those of this one have nothing to do with it."""
        return Fetcher(self._check_loop, self._later, self._limit)

    @property
    def is_open(self) -> bool:
        """True until its executor has closed."""
        return self.source is not None

    def stayed(self, job: int, size: int) -> RemoteValue:
        """Return the reference to a value that stays at workers."""
        self.used = True
        return RemoteValue(self, job, size)

    @property
    def own_most(self) -> int:
        """Bytes of the largest argument that may be a value of the program's own; 0 where none may."""
        return 0 if self.source is None else self.source.own_most

    def own(self, payload: Payload, value: object) -> RemoteValue:
        """Keep a copy of a payload as a value of the program's own, and return the reference to it, with `value`.

        Raises:
            ValueLostError: the executor has closed.
            MemoryError: there is no room for it.
        """
        if self.source is None:
            raise ValueLostError(self._closed)
        reference = self.stayed(*self.source.add_own(payload))
        reference.value, reference.fetched = value, True
        return reference

    def own_payload(self, value: int) -> Payload | None:
        """Return the payload of a value of the program's own; None where it is kept no more."""
        return None if self.source is None else self.source.own_payload(value)

    # --- from the graph ----------------------------------------------------------------------------------------------

    def reference(self, value: int) -> tuple[Any, ...]:
        """Return what a value is pickled to."""
        return Reference(value).__reduce__()

    def applied(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what an operator on values is pickled to."""
        return applied, (function, tuple(args), dict(kwargs))

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica, sorted; none once the executor has closed."""
        return () if self.source is None else self.source.where(value)

    def why_lost(self, value: int) -> str:
        """Return why a value is at no worker and can never be made again; empty where it is, or can be."""
        return _CLOSED if self.source is None else self.source.why_lost(value)

    def why_few(self, value: int) -> str:
        """Return for which replicas of a value there is no room; empty where it has those that it is to have."""
        return "" if self.source is None else self.source.why_few(value)

    async def wait(self, node: Node) -> Any:
        """Fetch the outcome of a node that has finished, and return it; see `fetch`.

        Being cancelled in it gives that up for this waiter alone.
        """
        if node.stays:
            arrived = new_wakeup()()
            waiting = fetch([node], arrived.set)
            if not waiting.ended:
                try:
                    await arrived.wait()
                finally:
                    waiting.cancel()
            if waiting.error is not None:
                raise BaseException.with_traceback(waiting.error, None)  # each awaiter has one of its own
            node.unwrap()
        return node.result()

    def release(self, value: int) -> None:
        """Record that the program refers to a value no more. From any thread, and in a destructor."""
        # A collector may run in the middle of anything: what follows is done in a turn of the loop, once for all.
        self._released.append(value)
        if not self._drains:
            self._drains = True
            self._later(self._drain)

    def _drain(self) -> None:
        self._drains = False
        released = [self._released.popleft() for _ in range(len(self._released))]
        if released and self.source is not None:
            self.source.release(released)

    # --- fetches -----------------------------------------------------------------------------------------------------

    def check(self, size: int) -> None:
        """Raise unless values of so many bytes may be fetched from here, now."""
        if self.source is None:
            raise ValueLostError(self._closed)
        self._check_loop()
        limit = self._limit()
        if limit and size > limit:
            raise ResourceError(
                f"{size:,} bytes were awaited at once, and half of this program's memory is {limit:,}: take values one "
                "by one (as_completed), or let a job make smaller ones of them. The values stay at their workers"
            )

    def join(self, values: Iterable[RemoteValue], waiting: Fetch) -> None:
        """Have `waiting` told of these values; those that no other reader waits for are fetched."""
        wanted: list[int] = []
        for value in values:
            known = self._waiting.get(value.id)
            if known is None:
                self._waiting[value.id] = value, [waiting]
                wanted.append(value.id)
            else:
                known[1].append(waiting)
        if wanted and self.source is not None:
            self.source.want(wanted)

    def leave(self, values: Iterable[RemoteValue], waiting: Fetch) -> None:
        """Have `waiting` told of these no more; those that no other reader waits for are given up."""
        unwanted: list[int] = []
        for value in values:
            known = self._waiting.get(value.id)
            if known is not None and waiting in known[1]:
                known[1].remove(waiting)
                if not known[1]:
                    del self._waiting[value.id]
                    unwanted.append(value.id)
            self._replicate_no_more(value.id, waiting)
        if unwanted and self.source is not None:
            self.source.unwant(unwanted)

    # --- replicas ----------------------------------------------------------------------------------------------------

    def replicate(self, values: Sequence[RemoteValue], copies: int, waiting: Fetch) -> None:
        """Have `waiting` told when there are so many replicas of each of these values; 0: one at every worker."""
        assert self.source is not None, "whoever asks has checked that it is open"
        for value in values:
            self._replicating.setdefault(value.id, []).append((value, waiting))
            self._unreached.add(value.id)
        self.source.replicate([value.id for value in values], copies)

    def _replicate_no_more(self, value: int, waiting: Fetch) -> None:
        others = [one for one in self._replicating.pop(value, ()) if one[1] is not waiting]
        if others:
            self._replicating[value] = others

    # --- from the source ---------------------------------------------------------------------------------------------

    def given(self, value: int, payload: Payload) -> None:
        """Pass the bytes of a wanted value to its waiters."""
        known = self._waiting.pop(value, None)
        if known is None:
            return
        reference, waiting = known
        error: BaseException | None = None
        try:
            reference.value = load_value(payload)
            reference.fetched = True
        except Exception as refused:  # noqa: BLE001 - whatever unpickling raises is the awaiters' error
            error = refused
        for one in waiting:
            one.arrived(reference, error)

    def replicated(self, value: int) -> None:
        """Record that there are as many replicas of a value as were asked for, or as there can be now."""
        self._unreached.discard(value)
        for reference, waiting in self._replicating.pop(value, ()):
            waiting.arrived(reference)

    def lost(self, value: int, error: BaseException) -> None:
        """Record that a wanted value is gone, and cannot be made again."""
        self._unreached.discard(value)
        for reference, replicating in self._replicating.pop(value, ()):
            replicating.arrived(reference, error)
        if value in self._waiting:
            reference, waiting = self._waiting.pop(value)
            for one in waiting:
                one.arrived(reference, error)

    def close(self, error: Exception | None = None) -> None:
        """End all fetches: who waits gets an error, as does who comes later; `error` is why the head is lost, where it
        was not the executor that ended.
        """
        source, self.source = self.source, None
        if source is None:
            return
        if error is not None:
            self._closed = f"only workers had it when the head was lost: {error}"
        else:  # else values that are lost would be made again, and the end wait for that
            source.unwant(list(self._waiting))
            source.release(list(self._unreached))
        for value in [*self._waiting, *self._replicating]:
            self.lost(value, ValueLostError(self._closed) if error is None else error)


class InputFetches:
    """Nodes of one engine whose inputs are on their way."""

    def __init__(self) -> None:
        self._fetching: dict[Node, Fetch] = {}

    def fetch(
        self,
        node: Node,
        context: Context,
        fetcher: Fetcher | None,
        go_on: Callable[[Node, Context, BaseException | None], object],
    ) -> bool:
        """Fetch what a node needs in this process, and `go_on`; return False if it needs nothing."""
        inputs = node.unfetched_inputs(fetcher)
        if not inputs:
            return False

        def arrived() -> None:
            waiting = self._fetching.pop(node)
            for each in inputs if waiting.error is None else ():
                each.unwrap()
            go_on(node, context, waiting.error or next(filter(None, (each.error for each in inputs)), None))

        try:
            waiting = self._fetching[node] = fetch(inputs, arrived)
        except Exception as error:  # noqa: BLE001 - the node's awaiters get it
            go_on(node, context, error)
            return True
        if waiting.ended:
            arrived()
        return True

    def cancel(self, nodes: Iterable[Node]) -> None:
        """Give up the inputs of nodes that are wanted no more."""
        for node in nodes if self._fetching else ():
            waiting = self._fetching.pop(node, None)
            if waiting is not None:
                waiting.cancel()


def bring(node: Node, waiter: Callable[[BaseException | None], object]) -> None:
    """Fetch the value of a node that has finished, if it is at workers; then call `waiter`."""

    def arrived() -> None:
        if waiting.error is None:
            node.unwrap()
        waiter(waiting.error or node.error)

    if not node.stays:
        waiter(None)
        return
    try:
        waiting = fetch([node], arrived)
    except Exception as error:  # noqa: BLE001 - it is for who waits
        waiter(error)
        return
    if waiting.ended:
        arrived()
