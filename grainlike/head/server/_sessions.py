"""Named sessions: jobs that belong to a name rather than to a program, and outcomes kept for a program that
reconnects.

All of it follows from the messages that come and go: what a program submits, withdraws and forgets, and what it would
receive of its jobs. Nothing here waits, or reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from grainlike.errors import ProtocolError
from grainlike.head.server._client import ClientConnection
from grainlike.jobs import CallGraph, outcome_alone, value_of
from grainlike.wire import (
    MOST_NAMES,
    Began,
    Buffer,
    Message,
    Numbered,
    Outcomes,
    Parcel,
    SessionIs,
    SessionRow,
    Submit,
    unpack_parcels,
)

__all__ = ["KEPT_BYTES", "KeptFile", "NamedCall", "NamedSession", "Sessions"]

KEPT_BYTES = 128 * 1024 * 1024
"""Bytes of outcomes that one session keeps in memory, and sends to a program that attaches: half of what may be
unacknowledged on a link. The rest goes to disk, and is sent on request.
"""

_ROWS = 500
"""Number of names in one message."""


class KeptFile(msgspec.Struct, frozen=True):
    """An outcome on disk, by the name of its file: so many bytes, with this CRC-32."""

    name: str
    size: int
    checksum: int


class Spill:
    """Pending disk work: `fresh` outcomes are to be written to files of these names, `gone` ones removed."""

    __slots__ = ("fresh", "gone")

    def __init__(self) -> None:
        self.fresh: list[tuple[NamedCall, str]] = []
        self.gone: list[str] = []


class NamedCall:
    """Call with a name: `child` is its number at the program that submitted it, `job` at the head once it is there."""

    __slots__ = ("apart", "began", "child", "function", "job", "name", "outcome", "request", "size")

    def __init__(self, name: str, child: int, function: str, request: str) -> None:
        self.name: str = name
        self.child: int = child
        self.function: str = function
        self.request: str = request
        self.job: int = 0
        self.began: tuple[int, str, str] | None = None
        """Attempt, worker and slots of the last `Began`."""
        self.outcome: tuple[Outcomes, Sequence[Buffer]] | KeptFile | None = None
        self.apart: bool = False
        """True if its outcome is beyond what is kept in memory: on disk, or about to be."""
        self.size: int = 0


class NamedSession:
    """Named session, the `Home` of its jobs: their messages are sent to the program that is attached, if one is.

    `number` is what shares are counted by, `since` when it was opened.
    """

    __slots__ = (
        "_by_child",
        "_calls",
        "_held",
        "_last_child",
        "_spill",
        "connection",
        "graph",
        "jobs",
        "name",
        "number",
        "since",
        "size",
    )

    def __init__(self, number: int, name: str, since: float, spill: Spill) -> None:
        self.number: int = number
        self.name: str = name
        self.since: float = since
        self.connection: ClientConnection | None = None
        """The program that is attached."""
        self.jobs: dict[int, int] = {}
        """Jobs that have not ended, by their numbers at the program."""
        self.size: int = 0
        """Bytes of outcomes that are kept under names."""
        self.graph: CallGraph = CallGraph()
        """Calls of its graphs: of named calls, and of all that these need."""
        self._held = 0
        """Bytes of them that stay in memory."""
        self._spill = spill
        self._calls: dict[str, NamedCall] = {}
        self._by_child: dict[int, NamedCall] = {}
        self._last_child = 0

    @property
    def empty(self) -> bool:
        """True if nothing is left of it."""
        return self.connection is None and not self.holds

    @property
    def holds(self) -> bool:
        """True if it has names, or jobs that have not ended."""
        return bool(self.jobs or self._calls)

    @property
    def nbytes(self) -> int:
        """Bytes of outcomes that are kept: of its names, and for calls that wait."""
        return self.size + self.graph.nbytes

    @property
    def receiver(self) -> ClientConnection | None:
        """Connection that receives the bytes of its values: the program that is attached."""
        return self.connection

    def row(self, now: float, limit: int = 0) -> SessionRow:
        """Return its row in the list of sessions; `limit` is how many bytes all sessions of the head may keep."""
        outcomes = sum(call.outcome is not None for call in self._calls.values())
        attached = "" if self.connection is None else self.connection.name
        names, since = len(self._calls), now - self.since
        return SessionRow(self.name, self.number, len(self.jobs), names, outcomes, self.nbytes, since, attached, limit)

    def keeps(self, child: int) -> int:
        """Return how many of its names and graphs keep the value of a call."""
        return (child in self._by_child) + (child in self.graph.calls)

    def values(self) -> list[int]:
        """Return the values of named calls that stay at workers."""
        return [value for call in self._calls.values() if (value := _value_of(call))]

    def name_of(self, child: int) -> str:
        """Return the name of a call; empty for none."""
        call = self._by_child.get(child)
        return "" if call is None else call.name

    # --- programs come and go ----------------------------------------------------------------------------------------

    def attach(self, connection: ClientConnection, ran_s: Callable[[int], float]) -> None:
        """Attach a program, and send it the state of the calls; `ran_s` gives the seconds that a job has run by now."""
        self.connection = connection
        self.graph.attach()
        for message in self._told():
            connection.post(message)
        running = [
            (call.child, *call.began, ran_s(call.job)) for call in self._calls.values() if call.began is not None
        ]
        if running:
            connection.post(Began(*map(list, zip(*running, strict=True))))
        for call in self._calls.values():
            if call.outcome is not None and not call.apart:
                assert not isinstance(call.outcome, KeptFile)
                connection.post(*call.outcome)

    def calls(self, names: Collection[str] = ()) -> list[NamedCall]:
        """Return the calls with these names, or all that have one, in the order of their numbers."""
        wanted = filter(None, map(self._calls.get, set(names))) if names else self._calls.values()
        return sorted(wanted, key=lambda call: call.child)

    def _told(self) -> Iterator[SessionIs]:
        calls = list(self._calls.values())
        for first in range(0, max(1, len(calls)), _ROWS):
            part = calls[first : first + _ROWS]
            yield SessionIs(
                self._last_child,
                [call.name for call in part],
                [call.child for call in part],
                [call.job for call in part],
                [call.function for call in part],
                [call.request for call in part],
                [call.size if call.apart else -1 for call in part],
            )

    def kept_apart(self, child: int) -> NamedCall | None:
        """Return the call of this number, if its outcome is kept and was not sent when the program attached; else
        None.
        """
        call = self._by_child.get(child)
        return call if call is not None and call.apart else None

    def files(self) -> Iterator[KeptFile]:
        """Iterate over the outcomes that are on disk."""
        for call in self._calls.values():
            if isinstance(call.outcome, KeptFile):
                yield call.outcome

    def detach(self, connection: ClientConnection) -> None:
        """Detach a program that has left; its jobs continue."""
        if self.connection is connection:
            self.connection = None

    # --- what a program says -----------------------------------------------------------------------------------------

    def submits(self, message: Submit) -> None:
        """Take calls that a program submits. Raises `ProtocolError` for invalid ones."""
        names = message.names or [""] * len(message.children)
        self._check(message, names)
        for child, at, name in zip(message.children, message.fns, names, strict=True):
            self._last_child = max(self._last_child, child)
            self.jobs[child] = 0
            if name:
                call = NamedCall(name, child, message.functions[at].name, message.request)
                self._calls[name] = self._by_child[child] = call

    def _check(self, message: Submit, names: Sequence[str]) -> None:
        children, given = message.children, [name for name in names if name]
        if message.parent or not len(names) == len(children) == len(message.fns):
            raise ProtocolError(f"a submission to session {self.name!r} is malformed")
        if any(child in self.jobs or child in self._by_child for child in children):
            raise ProtocolError(f"session {self.name!r} has had calls of these numbers")
        if len(set(given)) < len(given) or not self._calls.keys().isdisjoint(given):
            raise ProtocolError(f"session {self.name!r} has some of these names")
        if given and len(self._calls) + len(given) > MOST_NAMES:
            raise ProtocolError(f"session {self.name!r} has no room for {len(given)} names more")

    def withdraws(self, children: Iterable[int]) -> None:
        """Drop calls that the program withdraws: nothing is kept of them."""
        for child in children:
            self.jobs.pop(child, None)
            if child in self._by_child:
                self._drop(self._by_child[child].name)

    def forgets(self, names: Iterable[str]) -> None:
        """Drop what is kept under these names."""
        for name in names:
            if name in self._calls:
                self._drop(name)

    def forget_all(self) -> None:
        """Drop everything that is kept."""
        self.forgets(list(self._calls))

    def _drop(self, name: str) -> None:
        call = self._calls.pop(name)
        del self._by_child[call.child]
        self.size -= call.size
        if isinstance(call.outcome, KeptFile):
            self._spill.gone.append(call.outcome.name)
        elif not call.apart:
            self._held -= call.size
        value = _value_of(call)
        if value:
            self.graph.unpinned.append(value)
        call.outcome = None

    # --- what its jobs say -------------------------------------------------------------------------------------------

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Record the progress of its jobs, and send it to the program that is attached. As `Home.post`."""
        if isinstance(message, Numbered):
            self._numbered(message)
        elif isinstance(message, Began):
            self._began(message)
        elif isinstance(message, Outcomes):
            self._ended(message, buffers)
        if self.connection is not None:
            self.connection.post(message, buffers)

    def _numbered(self, message: Numbered) -> None:
        for child, job in zip(message.children, message.jobs, strict=True):
            if child in self.jobs:  # else it has ended by being submitted
                self.jobs[child] = job
            if child in self._by_child:
                self._by_child[child].job = job

    def _began(self, message: Began) -> None:
        rows = zip(message.attempts, message.workers, message.slots, strict=True)
        for child, began in zip(message.children, rows, strict=True):
            if child in self._by_child:
                self._by_child[child].began = began

    def _ended(self, message: Outcomes, buffers: Sequence[Buffer]) -> None:
        for child in message.children:
            self.jobs.pop(child, None)
        if self._by_child.keys().isdisjoint(message.children):
            return
        for row, parcel in enumerate(unpack_parcels(message.data, message.counts, buffers)):
            call = self._by_child.get(message.children[row])
            if call is not None:
                self._keep(call, message, row, parcel)

    def _keep(self, call: NamedCall, message: Outcomes, row: int, parcel: Parcel) -> None:
        size = _size(parcel)
        call.began, call.outcome, call.size = None, outcome_alone(message, row, parcel), size
        call.apart = self._held + size > KEPT_BYTES
        self.size += size
        if call.apart:
            self._spill.fresh.append((call, f"{self.number}-{call.child}"))
        else:
            self._held += size


class Sessions:
    """The named sessions of one head. One of which nothing is left is none."""

    __slots__ = ("_named", "spill")

    def __init__(self) -> None:
        self._named: dict[str, NamedSession] = {}
        self.spill: Spill = Spill()

    def __bool__(self) -> bool:
        return bool(self._named) and any(not session.empty for session in self._named.values())

    def __iter__(self) -> Iterator[NamedSession]:
        return iter([session for session in self._named.values() if not session.empty])

    @property
    def size(self) -> int:
        """Bytes of outcomes that all sessions keep."""
        return sum(session.nbytes for session in self._named.values())

    def files(self) -> Iterator[KeptFile]:
        """Iterate over all outcomes that are on disk."""
        for session in self:
            yield from session.files()

    def find(self, name: str) -> NamedSession | None:
        """Return the session of this name, if there is one."""
        session = self._named.get(name)
        return None if session is None or session.empty else session

    def open(self, name: str, number: int, now: float) -> NamedSession:
        """Return a new session with this number."""
        self._named = {session.name: session for session in self}
        session = self._named[name] = NamedSession(number, name, now, self.spill)
        return session


def _value_of(call: NamedCall) -> int:
    """Return the number of the value of a call that stays at workers; 0 for none."""
    return value_of(call.outcome[0], 0) if isinstance(call.outcome, tuple) else 0


def _size(parcel: Parcel) -> int:
    return len(parcel[0]) + sum(memoryview(buffer).nbytes for buffer in parcel[1])
