"""Values of this program's own jobs that stay at workers: what its fetcher asks, and what the scheduler answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from grainlike.errors import ValueLostError
from grainlike.head._errors import value_lost
from grainlike.head._history import JobHistory
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._nested import RelayedJob
from grainlike.head._shared_memory import ObjectStore, with_buffers
from grainlike.head._state import HeadState
from grainlike.head.values._client_values import ClientValues
from grainlike.head.values._mover import ValueMover
from grainlike.payload import Payload, drop, enclose_values
from grainlike.scheduler import (
    PROGRAM,
    CopyMade,
    HeadEvent,
    InputsTravel,
    OwnValuesAdded,
    ReplicationAsked,
    ValuesReleased,
    ValuesWanted,
)
from grainlike.wire import OWN_VALUES

if TYPE_CHECKING:
    from grainlike.engine import Fetcher
    from grainlike.jobs import OwnValueStore

__all__ = ["ProgramValues"]


class ProgramValues:
    """Source of a program's `Fetcher`, at its head. `mover` brings values; `tell` passes events to the scheduler.
    `clients` is that of the values of other programs, and `own` has the bytes of this program's own values.
    """

    def __init__(
        self, state: HeadState, history: JobHistory, mover: ValueMover, tell: Callable[[HeadEvent], object]
    ) -> None:
        self._state = state
        self._history = history
        self._mover = mover
        mover.given = self.given
        self._tell = tell
        self.fetcher: Fetcher | None = None
        self.own: OwnValueStore = mover.own
        self._last_own = OWN_VALUES << 22  # clients have the numbers below
        self.clients: ClientValues = ClientValues(state, mover, tell, self.error)

    # --- from the fetcher --------------------------------------------------------------------------------------------

    def want(self, values: Sequence[int]) -> None:
        """Get the bytes of these values; each is answered by `given` or `lost`."""
        self._tell(ValuesWanted(list(values)))

    def unwant(self, values: Sequence[int]) -> None:
        """Give these up: no reader waits for them any more."""
        self._mover.unwant(values)

    def release(self, values: Sequence[int]) -> None:
        """Give up the program's references to these."""
        self._tell(ValuesReleased(list(values)))

    def replicate(self, values: Sequence[int], copies: int) -> None:
        """Keep at least so many replicas of each of these, 0 for one at every worker; each is answered by `replicated`
        or `lost`.
        """
        self._tell(ReplicationAsked(list(values), copies))

    def copied(self, value: int, reader: int) -> None:
        """Have the call that made value `reader` read the durable copy of `value`, where that is lost."""
        if reader in self._state.kept:
            self._state.kept.read_by(value, reader)
            self._tell(CopyMade(value, reader))

    @property
    def own_most(self) -> int:
        """Bytes of the largest argument that may be a value of the program's own: the store of some worker could hold
        it. 0 where none may, as a worker has no place for any.
        """
        may_have = all(peer.hello.replicas for peer in self._state.peers.values())
        return self._state.scheduler.largest_value if may_have else 0

    def add_own(self, payload: Payload) -> tuple[int, int]:
        """Keep a copy of a payload as a value of the program's own; return its number, and the size of its replicas."""
        value = self._last_own + 1
        size = self.own.add(value, payload)
        self._last_own = value
        self._tell(OwnValuesAdded(PROGRAM, [value], [size]))
        return value, size

    def own_payload(self, value: int) -> Payload | None:
        """Return the payload of a value of the program's own; None for one that is kept no more."""
        return self.own.payload(value)

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica, sorted."""
        return tuple(self._state.workers_with(value))

    def why_lost(self, value: int) -> str:
        """Return why a value is at no worker and can never be made again; empty where it is, or can be."""
        return self._state.scheduler.why_lost(value)

    def why_few(self, value: int) -> str:
        """Return why a value has fewer replicas than it is to have; empty where it has those."""
        return self._state.scheduler.why_few(value, self._mover.failures.get(value, ""))

    # --- from the head -----------------------------------------------------------------------------------------------

    def given(self, value: int, payload: Payload) -> None:
        """Pass the bytes of a wanted value to the fetcher."""
        if self.fetcher is not None:
            self.fetcher.given(value, payload)

    def replicated(self, values: Sequence[int]) -> None:
        """Record that there are as many replicas of these values as were asked for, or as there can be."""
        mine = self.clients.replicated(values)
        if self.fetcher is not None:
            for value in mine:
                self.fetcher.replicated(value)

    def freed(self, values: Sequence[int]) -> None:
        """Let programs drop values of their own that nothing needs."""
        self._mover.freed(values)
        self.own.free(self.clients.freed(values))

    def travel(self, action: InputsTravel, store: ObjectStore) -> None:
        """Put values of programs' own into the arguments of jobs; have clients submit theirs again with them."""
        mine = [number for number in action.jobs if not isinstance(self._state.jobs[number], RelayedJob)]
        known = self.own.payloads({value for values in action.values for value in values} if mine else ())
        for number, values, others in zip(action.jobs, action.values, action.others, strict=True):
            job = self._state.jobs[number]
            if isinstance(job, RelayedJob):
                self.clients.hand_back(job, values, others)
                self._history.unwanted([job])
                continue
            stored, _ = job.parcel
            data, buffers = with_buffers(job.parcel)
            enclosed = enclose_values(Payload(data, tuple(buffers)), {value: known[value] for value in values})
            kept = enclosed if isinstance(job, RevivedJob) else store.put(enclosed, f"e{number}")
            drop(stored)
            job.travels = (bytes(kept.data), kept.buffers) if kept.buffers else bytes(kept.data)
        store.end_batch()

    def lost(self, values: Sequence[int], why: str) -> None:
        """Record that wanted values are gone, and cannot be made again."""
        mine = self.clients.lost(values, why)
        if self.fetcher is not None:
            for value in mine:
                self.fetcher.lost(value, self.error(value, why))

    def error(self, value: int, why: str) -> ValueLostError:
        """Return the error of who needs a value that is lost."""
        return value_lost(self._history.find(value), value, why)
