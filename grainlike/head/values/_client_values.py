"""Values of clients' jobs that stay at workers: what clients ask, and what the scheduler answers.

All of it follows from messages of clients and workers, so a head that is made again from its journal has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from grainlike.errors import ValueLostError
from grainlike.head._peers import Connection
from grainlike.head._state import HeadState
from grainlike.head.values._mover import ValueMover
from grainlike.head.values._owners import UNKNOWN, ValueOwner
from grainlike.jobs import Job
from grainlike.scheduler import HeadEvent, ReplicasArrived, ReplicasGone, ReplicationAsked, ValuesReleased, ValuesWanted
from grainlike.wire import Fetched, ReplicaCredit, Unsent, ValueInterest, ValuesAt, ValuesGone

__all__ = ["ClientValues"]


class ClientValues:
    """Source of the values of clients. `mover` brings them, `tell` passes events to the scheduler, and `error` gives
    the exception of a value that is lost because of a reason.
    """

    def __init__(
        self,
        state: HeadState,
        mover: ValueMover,
        tell: Callable[[HeadEvent], object],
        error: Callable[[int, str], ValueLostError],
    ) -> None:
        self._state = state
        self._mover = mover
        self._tell = tell
        self._error = error
        mover.owner_of = self._owner_of
        mover.told = self._moved

    def _owner_of(self, value: int) -> ValueOwner | None:
        return self._state.owners.of(value)  # of the present ones: an image brings others

    # --- from clients ------------------------------------------------------------------------------------------------

    def take(self, owner: ValueOwner, message: ValueInterest) -> None:
        """Take what a client says of its values; those that it does not own are lost to it, or passed over."""
        owners = self._state.owners
        self._unwant(owners.owned(owner.number, message.unwanted))
        self._release(owner, owners.owned(owner.number, message.released))
        wanted = owners.owned(owner.number, message.wanted)
        kept = owners.owned(owner.number, message.replicated)
        known = {*wanted, *kept}
        unknown = [value for value in dict.fromkeys([*message.wanted, *message.replicated]) if value not in known]
        if unknown:
            owner.post(ValuesGone(unknown, [UNKNOWN] * len(unknown)))
        fresh = [value for value in wanted if value not in owners.wanted]
        if fresh:
            owners.wanted.update(dict.fromkeys(fresh))
            self._tell(ValuesWanted(fresh))
        if kept:
            owners.replicating.update(dict.fromkeys(kept))
            self._tell(ReplicationAsked(kept, message.copies))

    def hear(self, connection: Connection, message: ReplicaCredit | Fetched | Unsent) -> None:
        """Take what a client says of a transfer to it.

        Raises:
            ProtocolError: there was no such transfer, or it is another's.
        """
        transfer = self._state.transfers.get(message.transfer)
        if isinstance(message, Fetched) and transfer is not None and transfer.target == connection.number:
            self._state.owners.end_wait(transfer.value)
        self._mover.hear(connection, message)

    def leave(self, owner: ValueOwner) -> None:
        """Release all values of a client that has left, or of a session that no program has any more."""
        self._release(owner, self._state.owners.all_of(owner.number))

    def _unwant(self, values: Iterable[int]) -> None:
        unwanted = [value for value in values if self._state.owners.end_wait(value)]
        if unwanted:
            self._mover.unwant(unwanted)

    def _release(self, owner: ValueOwner, values: list[int]) -> None:
        if values:
            self._unwant(values)
            self._state.owners.release(owner.number, values)
            self._tell(ValuesReleased(values))

    # --- from the head -----------------------------------------------------------------------------------------------

    def stayed(self, job: Job, owner: ValueOwner) -> None:
        """Record that the value of a client's job stays at its worker. That of a session without a program is released,
        as nobody could ask for it.
        """
        if owner.receiver is None:
            self._tell(ValuesReleased([job.id]))
        else:
            self._state.owners.add(job.id, owner)

    def lost(self, values: Sequence[int], why: str) -> list[int]:
        """Tell clients of values that are gone, and cannot be made again; return those that no client owns."""
        owners = self._state.owners
        owned, others = owners.split(values)
        for value, owner in owned:
            was_wanted, was_replicating = owners.end_wait(value), owners.end_replication(value)
            if was_wanted or was_replicating:
                owner.post(ValuesGone([value], [str(self._error(value, why))]))
        return others

    def replicated(self, values: Sequence[int]) -> list[int]:
        """Tell clients of values that have as many replicas as they asked for; return those that no client owns."""
        owned, others = self._state.owners.split(values)
        for value, owner in owned:
            if self._state.owners.end_replication(value):
                owner.post(ValuesAt([], [], [], reached=[value]))
        return others

    def remade(self, job: Job) -> None:
        """Tell the client of a value that it was made again, and where."""
        owner = self._state.owners.of(job.id)
        if owner is not None and owner.receiver is not None:
            workers = self._state.workers_with(job.id)
            owner.post(ValuesAt([job.id], [workers], [job.recomputed], attempts=[job.attempt]))

    def _moved(self, event: HeadEvent) -> None:
        """Tell clients of values that other workers have now."""
        if isinstance(event, ReplicasArrived | ReplicasGone):
            for value in event.values:
                owner = self._state.owners.of(value)
                if owner is not None and owner.receiver is not None:
                    owner.post(ValuesAt([value], [self._state.workers_with(value)], []))
