"""Values of clients' jobs that stay at workers: requests of clients, and answers of the scheduler.

The state follows from messages of clients and workers alone, so a replay of the journal gives the same state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType

from grainlike.errors import ProtocolError, ValueLostError
from grainlike.head._errors import name_of
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._nested import RelayedJob
from grainlike.head._peers import Connection
from grainlike.head._state import HeadState
from grainlike.head.values._mover import ValueMover
from grainlike.head.values._owners import UNKNOWN, ValueOwner
from grainlike.jobs import Placement
from grainlike.scheduler import (
    CopyMade,
    HeadEvent,
    OwnValuesAdded,
    ReplicasArrived,
    ReplicasGone,
    ReplicationAsked,
    ValuesReleased,
    ValuesWanted,
)
from grainlike.wire import (
    OWN_VALUES,
    Buffer,
    DropOwnValues,
    DurableCopy,
    EncloseValues,
    Fetched,
    Notice,
    OwnValues,
    ReplicaCredit,
    ReplicaPart,
    Unsent,
    ValueInterest,
    ValuesAt,
    ValuesGone,
    Warned,
    pack_parcels,
    split_by_count,
)

__all__ = ["ClientValues"]

logger = logging.getLogger("grainlike")

_NONE_MADE: Mapping[int, Placement] = MappingProxyType({})


class ClientValues:
    """Source of the values of clients. `mover` copies values, `tell` passes events to the scheduler, and `error`
    returns the exception for a value that is lost for a reason.
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
        return self._state.owners.of(value)  # `owners` is read each time, because an image replaces it

    # --- from clients ------------------------------------------------------------------------------------------------

    def take(self, owner: ValueOwner, message: ValueInterest) -> None:
        """Take a client's message about its values. Values that the client does not own are lost for it, or ignored."""
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

    def copied(self, owner: ValueOwner, message: DurableCopy) -> None:
        """Record a copy outside the workers, from which a client's value is read if the value is lost. Nothing happens
        if the client does not own both values.
        """
        both = [message.value, message.reader]
        if self._state.owners.owned(owner.number, both) == both and message.reader in self._state.kept:
            self._state.kept.read_by(*both)
            self._tell(CopyMade(*both))

    def add(self, connection: Connection, owner: ValueOwner, message: OwnValues) -> None:
        """Record own values of a client, which stay there until its jobs need them.

        Raises:
            ProtocolError: a number is not the client's, or is another value's.
        """
        origins = self._state.origins
        for value in message.values:
            if value // OWN_VALUES != connection.number or value in origins or self._owner_of(value) is not None:
                raise ProtocolError(f"a client cannot have {value} for the number of a value")
            origins[value] = connection
            self._state.owners.add(value, owner)
        self._mover.shares_own(connection, message.values, message.directory)
        self._tell(OwnValuesAdded(connection.number, message.values, message.sizes))

    def hand_back(self, job: RelayedJob, values: list[int], inputs: list[int]) -> None:
        """Let a client submit a job again with own values in its arguments; the job still needs `inputs` besides."""
        data, counts, buffers = pack_parcels([job.parcel])
        job.reply_to.post(EncloseValues(job.child, values, inputs, data, counts), buffers)
        self._state.nested.hand_back(job)

    def freed(self, values: Iterable[int]) -> list[int]:
        """Let clients drop own values that nothing needs; return the values that belong to no client."""
        others: list[int] = []
        theirs: dict[Connection, list[int]] = {}
        for value in values:
            origin = self._state.origins.pop(value, None)
            if origin is None:
                others.append(value)
            else:
                theirs.setdefault(origin, []).append(value)
        for origin, mine in theirs.items():
            origin.post(DropOwnValues(mine))
        return others

    def hear(
        self,
        connection: Connection,
        message: ReplicaPart | ReplicaCredit | Fetched | Unsent,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take a client's message about a transfer to it, or from it.

        Raises:
            ProtocolError: there was no such transfer, or the transfer is not this client's.
        """
        transfer = self._state.transfers.get(message.transfer)
        if isinstance(message, Fetched) and transfer is not None and transfer.target == connection.number:
            self._state.owners.end_wait(transfer.value)
        self._mover.hear(connection, message, buffers)

    def leave(self, owner: ValueOwner) -> None:
        """Release all values of a client that has left, or of a session that no program can enter again."""
        self._release(owner, self._state.owners.all_of(owner.number))

    def _unwant(self, values: Iterable[int]) -> None:
        unwanted = [value for value in values if self._state.owners.end_wait(value)]
        if unwanted:
            self._mover.unwant(unwanted)

    def _release(self, owner: ValueOwner, values: list[int]) -> None:
        if values:
            self._unwant(values)
            values = self._state.owners.unrefer(values)
        if values:
            self._state.owners.release(owner.number, values)
            self._tell(ValuesReleased(values))

    # --- from the head -----------------------------------------------------------------------------------------------

    def stayed(self, job: RelayedJob, owner: ValueOwner) -> None:
        """Record that the value of a client's job stays at its worker. Release the value if its session has no program
        and keeps it under no name, because no client could ask for it.
        """
        owners, pins = self._state.owners, owner.keeps(job.child)
        if owner.receiver is None and not pins:
            self._tell(ValuesReleased([job.id]))
            return
        owners.add(job.id, owner)
        for _ in range(pins):
            owners.pin(job.id)
        if owner.receiver is None:
            owners.unrefer([job.id])

    def lost(self, values: Sequence[int], why: str) -> list[int]:
        """Tell clients that values are gone and cannot be made again; return the values that no client owns."""
        owners = self._state.owners
        owned, others = owners.split(values)
        for value, owner in owned:
            was_wanted, was_replicating = owners.end_wait(value), owners.end_replication(value)
            if was_wanted or was_replicating:
                owner.post(ValuesGone([value], [str(self._error(value, why))]))
        return others

    def replicated(self, values: Sequence[int]) -> list[int]:
        """Tell clients that values have as many replicas as they asked for; return the values that no client owns."""
        owned, others = self._state.owners.split(values)
        for value, owner in owned:
            if self._state.owners.end_replication(value):
                owner.post(ValuesAt([value], [self._state.workers_with(value)], [], reached=[value]))
        return others

    def remade(self, job: RevivedJob) -> None:
        """Tell the client which owns a value that the value was made again, or read from its copy, and where it is."""
        owner = self._state.owners.of(job.id)
        if job.reads_copy or owner is None:
            self.tell_where([job.id])
        else:
            workers = self._state.workers_with(job.id, first=job.worker)
            owner.post(ValuesAt([job.id], [workers], [job.recomputed], attempts=[job.attempt]))

    def _moved(self, event: HeadEvent) -> None:
        """Tell clients that other workers have their values now."""
        if isinstance(event, ReplicasArrived | ReplicasGone):
            self.tell_where(event.values)

    def warn(self, value: int, words: str) -> None:
        """Warn the client that owns a value; nothing happens if no client owns it."""
        owner = self._state.owners.of(value)
        if owner is not None:
            owner.post(Warned(words))

    def warn_of_revived(self, jobs: Sequence[RevivedJob]) -> None:
        """Warn of calls that run again for their values: in the log, and each client that owns some of the values."""
        logger.warning("%s", _words_of_revived(jobs))
        owned: dict[ValueOwner, list[RevivedJob]] = {}
        for job in jobs:
            owner = self._state.owners.of(job.id)
            if owner is not None:
                owned.setdefault(owner, []).append(job)
        for owner, mine in owned.items():
            owner.post(Notice(_words_of_revived(mine)))

    def at(self, worker: int) -> list[int]:
        """Return the clients' values of which a worker has a replica."""
        scheduler = self._state.scheduler
        return [value for value in self._state.owners.known() if worker in scheduler.replicas_of(value)]

    def tell_anew(self, values: Iterable[int]) -> None:
        """Tell a client that has come which workers have its values, and which values were made again before."""
        found = {value: self._state.kept.remade(value) for value in values}
        made = {value: placement for value, placement in found.items() if placement is not None}
        self.tell_where([*made, *(value for value in found if value not in made)], made)

    def tell_where(self, values: Iterable[int], made: Mapping[int, Placement] = _NONE_MADE) -> None:
        """Tell clients which workers have their values now; values that no client owns are ignored. Those that were
        `made` again come first, with the assignment by which they were.
        """
        owned: dict[ValueOwner, list[int]] = {}
        for value, owner in self._state.owners.split(values)[0]:
            owned.setdefault(owner, []).append(value)
        for owner, mine in owned.items():
            for part in split_by_count(mine):
                again = [made[value] for value in part if value in made]
                firsts = (*(placement.worker for placement in again), *repeat(None, len(part) - len(again)))
                workers = list(map(self._state.workers_with, part, firsts))
                times, attempts = [one.recomputed for one in again], [one.attempt for one in again]
                owner.post(ValuesAt(part, workers, times, attempts=attempts))


_SHOWN = 3
"""Most lost values that a warning names."""


def _words_of_revived(jobs: Sequence[RevivedJob]) -> str:
    if len(jobs) == 1:
        made = jobs[0].former.placement
        at = f", made at worker {made.worker}," if made is not None and made.worker else ""
        return f"the value of {name_of(jobs[0])} (job {jobs[0].id}){at} was lost, and is made again"
    shown = ", ".join(f"{name_of(job)} (job {job.id})" for job in jobs[:_SHOWN])
    more = " ..." if len(jobs) > _SHOWN else ""
    return f"the values of {len(jobs)} calls were lost, and are made again: {shown}{more}"
