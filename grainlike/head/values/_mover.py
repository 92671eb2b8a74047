"""Driver of values that stay at workers: copies replicas between them, brings some to this process, has them dropped.

The head's scheduler decides what is copied where. Here it is done: by the file system where files of workers are in
memory that this process shares, else through the links of both workers. Which transfers there are is a
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
from grainlike.head._peers import WorkerConnection
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._state import HeadState
from grainlike.head.values._credit import CreditPool
from grainlike.head.values._stores import WorkerStores
from grainlike.head.values._transfers import LinkTransfer, number_of
from grainlike.payload import Payload, is_shared_directory, map_replica, replica_path, replica_payload, stand_in
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
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Stored,
    Unsent,
)

__all__ = ["ValueMover"]

_HERE = 0
"""This process, as a transfer's target; workers have numbers from 1 on."""


class _Gift(NamedTuple):
    value: int
    payload: Payload


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
        self.moved = self.relayed = self.fetched = 0
        """Bytes copied between workers; of these, through this process; and brought to it over links."""
        self.answers: list[HeadEvent | _Gift] = []
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

    # --- what the scheduler says -------------------------------------------------------------------------------------

    def act(self, action: FetchReplicas | GiveValues | ReplicasDropped) -> None:
        """Perform an action."""
        match action:
            case FetchReplicas():
                rows = zip(action.values, action.attempts, action.sizes, action.sources, strict=True)
                for value, attempt, size, source in rows:
                    if not self._is_linked(value, attempt, source, action.worker):
                        self._start(value, attempt, size, source, action.worker)
            case GiveValues():
                for value, attempt, size in zip(action.values, action.attempts, action.sizes, strict=True):
                    if not self._is_mapped(value, attempt, action.worker):
                        self._start(value, attempt, size, action.worker, _HERE)
            case ReplicasDropped():
                self._drop(action)

    def unwant(self, values: Iterable[int]) -> None:
        """Nobody in this process waits for these values any more: stop what is under way of them."""
        values = list(values)
        for value in values:
            self._stop(self._by_target.get((_HERE, value)))
        unwanted = set(values)
        self.answers = [one for one in self.answers if not (isinstance(one, _Gift) and one.value in unwanted)]
        self.answers.append(ValuesGiven(values))
        self.flush()

    def flush(self) -> None:
        """Tell the scheduler what has come of its actions, and hand over the values that have come."""
        while self.answers:
            answers, self.answers = self.answers, []
            for answer in answers:
                if isinstance(answer, _Gift):
                    self.given(*answer)
                    self._tell(ValuesGiven([answer.value]))
                else:
                    self._tell(answer)

    def _drop(self, action: ReplicasDropped) -> None:
        for value, attempt in zip(action.values, action.attempts, strict=True):
            transfer = self._by_target.get((action.worker, value))
            if transfer is not None and transfer.attempt == attempt:
                self._fail(transfer, "nobody needs it any more")
        peer = self._state.peers.get(action.worker)
        if peer is not None:
            peer.post(DropReplicas(action.values, action.attempts))

    # --- in shared memory --------------------------------------------------------------------------------------------

    def _is_mapped(self, value: int, attempt: int, worker: int) -> bool:
        """Map a wanted value from its worker's file, if this process can; return False if it cannot."""
        directory = self._directory(worker)
        if directory is None:
            return False
        file = replica_path(directory, value, attempt)
        try:
            self._answer(_Gift(value, map_replica(file)))
        except SerializationError:
            with suppress(OSError):
                file.unlink()  # now, as another name of it may be made here in this turn
            self._answer(ReplicasGone(worker, [value], [attempt]))
        return True

    def _is_linked(self, value: int, attempt: int, source: int, target: int) -> bool:
        """Give a worker a name of another's file, if both share memory with this process; return False if not."""
        there, here = self._directory(source), self._directory(target)
        if there is None or here is None:
            return False
        file = replica_path(there, value, attempt)
        if file.is_symlink():
            return False  # it is on that worker's disk, and goes with it
        try:
            with suppress(FileExistsError):
                os.link(file, replica_path(here, value, attempt))
        except OSError:
            if file.exists():
                return False  # its directory is not there: what can be done its daemon will say
            self._answer(ReplicasGone(source, [value], [attempt]))
            self._answer(ReplicasFailed(target, [value], [attempt], f"{file.name} is gone"))
        else:
            self._answer(ReplicasArrived(target, [value], [attempt]))
        return True

    def _directory(self, worker: int) -> Path | None:
        """Return the directory where a worker has its replicas, if this process can read it."""
        hello = self._state.peers[worker].hello
        ours = is_shared_directory(hello.replicas) and self._object_store.maps(hello)
        return Path(hello.replicas) if ours else None

    # --- through links -----------------------------------------------------------------------------------------------

    def _start(self, value: int, attempt: int, size: int, source: int, target: int) -> None:
        """Begin a transfer. It takes the place of one of the same value to the same target."""
        self._stop(self._by_target.get((target, value)))
        self._state.last_transfer += 1
        transfer = LinkTransfer(self._state.last_transfer, value, attempt, size, source, target)
        if target == _HERE:
            try:
                transfer.memory = mapped_memory(size) or bytearray(size)
            except (MemoryError, OverflowError):
                self._answer(_Gift(value, Payload(stand_in(size, 0))))
                return
        self._state.transfers[transfer.number] = self._by_target[target, value] = transfer
        self._begin(transfer)

    def _ask(self, transfer: LinkTransfer, message: SendReplica | ReplicaCredit) -> None:
        self._state.peers[transfer.source].post(message)

    def _end(self, transfer: LinkTransfer) -> None:
        del self._state.transfers[transfer.number], self._by_target[transfer.target, transfer.value]
        self._credit.rewind(transfer, transfer.written)

    def _stop(self, transfer: LinkTransfer | None) -> None:
        """End a transfer before its end, and let those ends of it know that are there."""
        if transfer is not None:
            self._end(transfer)
            for worker, number in ((transfer.source, transfer.leg), (transfer.target, transfer.number)):
                peer = self._state.peers.get(worker)
                if peer is not None:
                    peer.post(StopTransfer(number))

    def _fail(self, transfer: LinkTransfer, why: str) -> None:
        """End a transfer before its end; a worker was to have it, as a wanted value stays wanted."""
        self._stop(transfer)
        if transfer.target != _HERE:
            self._answer(ReplicasFailed(transfer.target, [transfer.value], [transfer.attempt], why))

    def _answer(self, answer: HeadEvent | _Gift) -> None:
        self.answers.append(answer)

    # --- what workers say --------------------------------------------------------------------------------------------

    def hear(
        self,
        peer: WorkerConnection,
        message: ReplicaPart | ReplicaCredit | Fetched | Unsent | Stored | Evicted,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take what a worker says of its store, or of a transfer; of one that is over, nothing follows.

        Raises:
            ProtocolError: it was never asked for that, or sends other bytes than it was asked for.
        """
        if isinstance(message, Stored | Evicted):
            self.stores.hear(peer.number, message)
            self.flush()
            return
        number, generation = number_of(message.transfer)
        if not 0 < number <= self._state.last_transfer:
            raise ProtocolError(f"there was no transfer {number}")
        transfer = self._state.transfers.get(number)
        if transfer is None:
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
                    self._answer(ReplicasArrived(peer.number, [transfer.value], [transfer.attempt]))
            case Unsent():
                self._unsent(peer, transfer, message)
        self.flush()

    def _is_of(self, peer: WorkerConnection, number: int, transfer: LinkTransfer) -> bool:
        if peer.number != number:
            raise ProtocolError(f"transfer {transfer.number} is another worker's")
        return True

    def _unsent(self, peer: WorkerConnection, transfer: LinkTransfer, message: Unsent) -> None:
        if peer.number not in (transfer.source, transfer.target):
            raise ProtocolError(f"transfer {transfer.number} is another worker's")
        if peer.number == transfer.source and (message.gone or transfer.target == _HERE):
            self._gone(transfer)
        self._fail(transfer, f"{peer.name}: {message.why}")

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
        self.moved += count
        self.relayed += count
        onward = ReplicaPart(transfer.number, part.value, part.attempt, part.at, part.size)
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

    # --- workers that come and go ------------------------------------------------------------------------------------

    def broke(self, peer: WorkerConnection) -> None:
        """The link to a worker has broken: what was under way there is lost, and holds up nobody else."""
        self._away.add(peer.number)
        for transfer in self._of(peer):
            self._credit.rewind(transfer, transfer.received if transfer.source == peer.number else transfer.written)

    def returned(self, peer: WorkerConnection) -> None:
        """There is another link to a worker: go on with its transfers, as far as their other end can be reached."""
        self.broke(peer)
        self._away.discard(peer.number)
        for transfer in self._of(peer):
            self._begin(transfer)

    def _begin(self, transfer: LinkTransfer) -> None:
        if self._away.isdisjoint((transfer.source, transfer.target)):
            self._credit.start(transfer)

    def left(self, peer: WorkerConnection) -> None:
        """A worker is lost, as the scheduler knows: so are its transfers."""
        self._away.discard(peer.number)
        for transfer in self._of(peer):
            self._stop(transfer)

    def _of(self, peer: WorkerConnection) -> list[LinkTransfer]:
        return [one for one in self._state.transfers.values() if peer.number in (one.source, one.target)]


def _nobody_waits(value: int, payload: Payload) -> None:
    """Values come to a program alone."""
