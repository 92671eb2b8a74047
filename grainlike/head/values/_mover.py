"""Driver of values that stay at workers: copies replicas between them, brings some to this process, has them dropped.

The head's scheduler decides what is copied where. Here it is done: by the file system where files of workers are in
memory that this process shares, else by their data servers (`_direct`) or through the links of both workers. Which
transfers there are is a
function of the head's inputs, so a head that is made again from its journal has the same; bytes are in no journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grainlike._memory import mapped_memory
from grainlike.errors import ProtocolError, SerializationError
from grainlike.head._peers import Connection
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._state import HeadState
from grainlike.head.values._credit import CreditPool
from grainlike.head.values._direct import DirectCopies
from grainlike.head.values._owners import ValueOwner
from grainlike.head.values._stores import WorkerStores
from grainlike.head.values._transfers import LinkTransfer, number_of
from grainlike.payload import Payload, is_shared_directory, map_replica, replica_file, replica_payload, stand_in
from grainlike.scheduler import (
    FetchReplicas,
    GiveValues,
    HeadEvent,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
    ValuesGiven,
)
from grainlike.wire import (
    Buffer,
    DropReplicas,
    Evicted,
    Fetched,
    Pulled,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Stored,
    Unsent,
    ValueComes,
)

__all__ = ["ValueMover"]

_HERE = 0
"""This process, as a transfer's target; workers have numbers from 1 on."""


class _Gift(NamedTuple):
    """Value that has come to this process."""

    value: int
    payload: Payload


class _ReplicaFile(NamedTuple):
    """Value in a file of a worker's, which this process reads when it hands it over: one at a time is twice there."""

    value: int
    attempt: int
    worker: int
    path: str


class ValueMover:
    """Performs what the scheduler says about replicas, and tells it by `tell` what came of it: at the end of a turn of
    the head (`flush`), never while it acts.

    `given(value, payload)` is called once for each wanted value that has come. `object_store` knows with which workers
    this process shares memory.

    Example::

        mover.given = lambda value, payload: print(value, load_value(payload))
        mover.act(GiveValues(worker=1, values=[7], attempts=[1], sizes=[200_064]))
        mover.flush()
    """

    def __init__(self, state: HeadState, object_store: ObjectStore, tell: Callable[[HeadEvent], object]) -> None:
        self.given: Callable[[int, Payload], object] = _nobody_waits
        self.owner_of: Callable[[int], ValueOwner | None] = _nobody_owns
        """Function that returns the client which owns a value; None for this program's own."""
        self.told: Callable[[HeadEvent], object] = _nobody_listens
        """Called with each event of which the scheduler was told."""
        self.relayed = self.fetched = 0
        """Bytes copied between workers through this process; and brought to it, or to clients, over links."""
        self.answers: list[HeadEvent | _Gift | _ReplicaFile] = []
        """Events for the scheduler, and values for this process, that the next `flush` passes on, in order."""
        self._state = state
        self._object_store = object_store
        self._tell = tell
        self.stores = WorkerStores(self._answer)
        self._credit = CreditPool(self._ask)
        self._by_target: dict[tuple[int, int], LinkTransfer] = {}
        """Transfers by target and value."""
        self._away: set[int] = set()
        """Workers to which there is no link at the moment."""
        self.direct = DirectCopies(state, self._answer, self._start)

    @property
    def moved(self) -> int:
        """Bytes copied between workers."""
        return self.relayed + self.direct.moved

    # --- what the scheduler says -------------------------------------------------------------------------------------

    def act(self, action: FetchReplicas | GiveValues | ReplicasDropped) -> None:
        """Perform an action."""
        match action:
            case FetchReplicas():
                relayed = action.relayed or [True] * len(action.values)
                rows = zip(action.values, action.attempts, action.sizes, action.sources, relayed, strict=True)
                for value, attempt, size, source, passes in rows:
                    if self._is_linked(value, attempt, source, action.worker):
                        continue
                    if passes or not self.direct.can(source, action.worker):
                        self._start(value, attempt, size, source, action.worker)
                    else:
                        self._end_other(value, action.worker)
                        self.direct.start(value, attempt, size, source, action.worker)
            case GiveValues():
                for value, attempt, size in zip(action.values, action.attempts, action.sizes, strict=True):
                    owner = self.owner_of(value)
                    if owner is not None:
                        self._give_to(owner.taker, value, attempt, size, action.worker)
                    elif not self._is_mapped(value, attempt, action.worker):
                        self._start(value, attempt, size, action.worker, _HERE)
            case ReplicasDropped():
                self._drop(action)

    def unwant(self, values: Iterable[int]) -> None:
        """Nobody in this process, or their client, waits for these values any more: stop what is under way of them."""
        values = list(values)
        for value in values:
            owner = self.owner_of(value)
            target = _HERE if owner is None or owner.taker is None else owner.taker.number
            self._stop(self._by_target.get((target, value)))
        unwanted = set(values)
        self.answers = [
            one for one in self.answers if not (isinstance(one, _Gift | _ReplicaFile) and one.value in unwanted)
        ]
        self.answers.append(ValuesGiven(values))
        self.flush()

    def progress(self, worker: int, value: int) -> int:
        """Return how many bytes of a value's copy to a worker are there; 0 where none is under way."""
        transfer = self._by_target.get((worker, value)) or self.direct.find(worker, value)
        return 0 if transfer is None else transfer.written

    def forget(self, values: Iterable[int]) -> None:
        """Nobody needs these values: have what has come of their copies removed."""
        if self._state.begun:
            self.direct.forget(values)

    def flush(self) -> None:
        """Tell the scheduler what has come of its actions, and hand over the values that have come."""
        while self.answers:
            answers, self.answers = self.answers, []
            given: list[int] = []
            for answer in answers:
                gift = self._read(answer) if isinstance(answer, _ReplicaFile) else answer
                if isinstance(gift, _Gift):
                    self.given(*gift)
                    given.append(gift.value)
                    continue
                if given:
                    self._tell(ValuesGiven(given))  # of all that came together at once: each event is a pass
                    given = []
                self._tell(gift)
                self.told(gift)
            if given:
                self._tell(ValuesGiven(given))

    def _drop(self, action: ReplicasDropped) -> None:
        for value, attempt in zip(action.values, action.attempts, strict=True):
            transfer = self._by_target.get((action.worker, value))
            if transfer is not None and transfer.attempt == attempt:
                self._fail(transfer, "nobody needs it any more")
            copy = self.direct.find(action.worker, value)
            if copy is not None and copy.attempt == attempt:
                self.direct.stop(copy)
                self._answer(ReplicasFailed(action.worker, [value], [attempt], "nobody needs it any more"))
        self.direct.dropped(action.values, action.attempts, action.worker)
        peer = self._state.peers.get(action.worker)
        if peer is not None:
            peer.post(DropReplicas(action.values, action.attempts))

    # --- in shared memory --------------------------------------------------------------------------------------------

    def _is_mapped(self, value: int, attempt: int, worker: int) -> bool:
        """Have a wanted value read from its worker's file, if this process can; return False if it cannot."""
        directory = self._directory(worker)
        if directory is not None:
            self._answer(_ReplicaFile(value, attempt, worker, replica_file(directory, value, attempt)))
        return directory is not None

    def _read(self, file: _ReplicaFile) -> _Gift | ReplicasGone:
        try:
            return _Gift(file.value, map_replica(file.path))
        except SerializationError:
            with suppress(OSError):
                Path(file.path).unlink()
            return ReplicasGone(file.worker, [file.value], [file.attempt])

    def _is_linked(self, value: int, attempt: int, source: int, target: int) -> bool:
        """Give a worker a name of another's file, if both share memory with this process; return False if not."""
        there, here = self._directory(source), self._directory(target)
        if there is None or here is None:
            return False
        file = replica_file(there, value, attempt)
        if os.path.islink(file):  # noqa: PTH114 - a text
            return False  # it is on that worker's disk, and goes with it
        try:
            with suppress(FileExistsError):
                os.link(file, replica_file(here, value, attempt))
        except OSError:
            if os.path.lexists(file):
                return False  # its directory is not there: what can be done its daemon will say
            self._answer(ReplicasGone(source, [value], [attempt]))
            self._answer(ReplicasFailed(target, [value], [attempt], f"{Path(file).name} is gone"))
        else:
            self._answer(ReplicasArrived(target, [value], [attempt]))
        return True

    def _directory(self, worker: int) -> str | None:
        """Return the directory where a worker has its replicas, if this process can read it."""
        hello = self._state.peers[worker].hello
        ours = is_shared_directory(hello.replicas) and self._object_store.maps(hello)
        return hello.replicas if ours else None

    def _give_to(self, client: Connection | None, value: int, attempt: int, size: int, source: int) -> None:
        """Give a value to a client, which maps the worker's file if it has the same memory."""
        if client is None:
            self._answer(ValuesGiven([value]))
            return
        transfer = self._new(value, attempt, size, source, client.number)
        # By what both have said, not by a look at the directory: a replay of the journal has to find the same.
        hello, memory = self._state.peers[source].hello, client.hello.memory
        directory = hello.replicas if memory and hello.memory == memory else ""
        transfer.client, transfer.mapped, transfer.paused = client, bool(directory), True
        client.post(ValueComes(transfer.number, value, attempt, size, directory))
        self._begin(transfer)

    # --- through links -----------------------------------------------------------------------------------------------

    def _new(self, value: int, attempt: int, size: int, source: int, target: int) -> LinkTransfer:
        """Make a transfer. It takes the place of one of the same value to the same target."""
        self._end_other(value, target)
        self._state.last_transfer += 1
        transfer = LinkTransfer(self._state.last_transfer, value, attempt, size, source, target)
        transfer.granted = transfer.received = transfer.written = self.direct.left_off(value, attempt, size, target)
        self._state.transfers[transfer.number] = self._by_target[target, value] = transfer
        return transfer

    def _start(self, value: int, attempt: int, size: int, source: int, target: int) -> None:
        """Begin a transfer to a worker, or to this process."""
        transfer = self._new(value, attempt, size, source, target)
        if target == _HERE:
            try:
                transfer.memory = mapped_memory(size) or bytearray(size)
            except (MemoryError, OverflowError):
                self._end(transfer)
                self._answer(_Gift(value, Payload(stand_in(size, 0))))
                return
        self._begin(transfer)

    def _end_other(self, value: int, target: int) -> None:
        """End the copy of a value to a worker that is under way, if there is one: another takes its place."""
        self._stop(self._by_target.get((target, value)))
        self.direct.stop(self.direct.find(target, value))

    def _ask(self, transfer: LinkTransfer, message: SendReplica | ReplicaCredit) -> None:
        self._state.peers[transfer.source].post(message)

    def _end(self, transfer: LinkTransfer) -> None:
        del self._state.transfers[transfer.number], self._by_target[transfer.target, transfer.value]
        self._credit.rewind(transfer, transfer.written)

    def _stop(self, transfer: LinkTransfer | None) -> None:
        """End a transfer before its end, and let those ends of it know that are there."""
        if transfer is not None:
            self._end(transfer)
            self.direct.broke_off(transfer.value, transfer.attempt, transfer.target, 0)
            for worker, number in ((transfer.source, transfer.leg), (transfer.target, transfer.number)):
                peer = self._state.peers.get(worker)
                if peer is not None:
                    peer.post(StopTransfer(number))

    def _fail(self, transfer: LinkTransfer, why: str) -> None:
        """End a transfer before its end; a worker was to have it, as a wanted value stays wanted."""
        self._stop(transfer)
        if transfer.target != _HERE and transfer.client is None:
            self._answer(ReplicasFailed(transfer.target, [transfer.value], [transfer.attempt], why))

    def _answer(self, answer: HeadEvent | _Gift | _ReplicaFile) -> None:
        self.answers.append(answer)

    # --- what workers say --------------------------------------------------------------------------------------------

    def hear(
        self,
        peer: Connection,
        message: ReplicaPart | ReplicaCredit | Fetched | Unsent | Pulled | Stored | Evicted,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take what a worker says of its store, or it or a client of a transfer; of one that is over, nothing follows.

        Raises:
            ProtocolError: it was never asked for that, or sends other bytes than it was asked for.
        """
        if isinstance(message, Stored | Evicted):
            self.stores.hear(peer.number, message)
            self.flush()
            return
        if isinstance(message, Pulled):
            self.direct.hear_progress(peer, message)
            return
        number, generation = number_of(message.transfer)
        if not 0 < number <= self._state.last_transfer:
            raise ProtocolError(f"there was no transfer {number}")
        transfer = self._state.transfers.get(number)
        if transfer is None:
            copy = self._state.direct.get(number)
            if copy is not None:
                self.direct.hear(peer, copy, message)
                self.flush()
            return
        match message:
            case ReplicaPart():
                if generation > transfer.generation:
                    raise ProtocolError(f"transfer {number} was not asked for so often")
                if self._is_of(peer, transfer.source, transfer) and generation == transfer.generation:
                    self._take(transfer, message, buffers)
            case ReplicaCredit():
                if self._is_of(peer, transfer.target, transfer):
                    self._written(transfer, message.credit)
            case Fetched():
                if self._is_of(peer, transfer.target, transfer):
                    self._end(transfer)
                    if transfer.client is None:
                        self._answer(ReplicasArrived(peer.number, [transfer.value], [transfer.attempt]))
                    else:
                        self._answer(ValuesGiven([transfer.value]))
            case Unsent():
                self._unsent(peer, transfer, message)
        self.flush()

    def _is_of(self, peer: Connection, number: int, transfer: LinkTransfer) -> bool:
        if peer.number != number:
            raise ProtocolError(f"transfer {transfer.number} is another's")
        return True

    def _unsent(self, peer: Connection, transfer: LinkTransfer, message: Unsent) -> None:
        if peer.number not in (transfer.source, transfer.target):
            raise ProtocolError(f"transfer {transfer.number} is another's")
        if transfer.client is not None:
            self._unsent_to_client(peer, transfer, message)
            return
        if peer.number == transfer.source and (message.gone or transfer.target == _HERE):
            self._gone(transfer)
        self._fail(transfer, f"{peer.name}: {message.why}")

    def _unsent_to_client(self, peer: Connection, transfer: LinkTransfer, message: Unsent) -> None:
        """Have a client that cannot map a file get the bytes; a replica that is missing or damaged is gone."""
        if transfer.mapped and peer is transfer.client and not message.gone:
            transfer.mapped = False
            peer.post(ValueComes(transfer.number, transfer.value, transfer.attempt, transfer.size))
            self._begin(transfer)
            return
        self._stop(transfer)
        self._gone(transfer)

    def _gone(self, transfer: LinkTransfer) -> None:
        """A transfer's source has no whole replica, as it turns out: what is left of the file goes, too."""
        self._state.peers[transfer.source].post(DropReplicas([transfer.value], [transfer.attempt]))
        self._answer(ReplicasGone(transfer.source, [transfer.value], [transfer.attempt]))

    def _take(self, transfer: LinkTransfer, part: ReplicaPart, buffers: Sequence[Buffer]) -> None:
        """Pass on bytes of a replica, or keep them."""
        if transfer.paused:
            return
        count = memoryview(buffers[0]).nbytes if len(buffers) == 1 else 0
        asked = (transfer.value, transfer.attempt, transfer.received, transfer.size)
        if (part.value, part.attempt, part.at, part.size) != asked or not 0 < count <= transfer.granted - part.at:
            raise ProtocolError(
                f"transfer {transfer.number} is to go on with byte {transfer.received} of {transfer.size}, up to "
                f"{transfer.granted}; {count} bytes came from byte {part.at} on, of {part.size}"
            )
        transfer.received += count
        if transfer.memory is not None:
            self.fetched += count
            transfer.memory[part.at : part.at + count] = memoryview(buffers[0]).cast("B")
            self._written(transfer, count)
            return
        onward = ReplicaPart(transfer.number, part.value, part.attempt, part.at, part.size)
        if transfer.client is not None:
            self.fetched += count
            transfer.client.post(onward, buffers)
            return
        self.relayed += count
        self._state.peers[transfer.target].post(onward, buffers)

    def _written(self, transfer: LinkTransfer, count: int) -> None:
        if not 0 < count <= transfer.received - transfer.written:
            raise ProtocolError(f"{count} bytes of transfer {transfer.number} were written, which were not sent")
        self._credit.written(transfer, count)
        if transfer.memory is not None and transfer.written == transfer.size:
            self._end(transfer)
            try:
                self._answer(_Gift(transfer.value, replica_payload(transfer.memory)))
            except SerializationError:
                self._gone(transfer)

    def restore(self) -> None:
        """The state is that of an image: none of its transfers has begun, and each does when its workers return."""
        self._credit = CreditPool(self._ask)
        self._by_target = {(one.target, one.value): one for one in self._state.transfers.values()}
        for transfer in self._state.transfers.values():
            transfer.begun = transfer.waits = False
            transfer.granted = transfer.received = transfer.written = 0
            transfer.paused = True
        self.direct.restore()

    # --- workers that come and go ------------------------------------------------------------------------------------

    def broke(self, peer: Connection) -> None:
        """The link to a worker or client has broken: what was under way there is lost, and holds up nobody else."""
        self._away.add(peer.number)
        for transfer in self._of(peer):
            self._credit.rewind(transfer, transfer.received if transfer.source == peer.number else transfer.written)

    def returned(self, peer: Connection) -> None:
        """There is another link to a worker or client: go on with its transfers, where the other end can be reached."""
        self.broke(peer)
        self._away.discard(peer.number)
        for transfer in self._of(peer):
            self._begin(transfer)

    def _begin(self, transfer: LinkTransfer) -> None:
        if not transfer.mapped and self._away.isdisjoint((transfer.source, transfer.target)):
            self._credit.start(transfer)

    def left(self, peer: Connection) -> None:
        """A worker is lost, as the scheduler knows, or a client: so are its transfers."""
        self._away.discard(peer.number)
        for transfer in self._of(peer):
            self._stop(transfer)
        self.direct.left(peer.number)

    def _of(self, peer: Connection) -> list[LinkTransfer]:
        return [one for one in self._state.transfers.values() if peer.number in (one.source, one.target)]


def _nobody_waits(value: int, payload: Payload) -> None:
    """Values come to a program alone."""


def _nobody_owns(value: int) -> None:  # noqa: ARG001 - as where there are clients
    return None


def _nobody_listens(event: HeadEvent) -> None:
    """Who listens has clients."""
