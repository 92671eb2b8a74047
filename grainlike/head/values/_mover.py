"""Driver of values that stay at workers: copies replicas between workers, brings some to this process, and drops
others.

The head's scheduler decides which copies are made. If the files of workers are in memory that this process shares, the
file system makes a copy. Otherwise it goes between the workers' data servers (`_direct`), or through the links of both
workers (`_links`). The head's inputs alone decide which transfers there are, so a replay of the journal gives the same
transfers; bytes are in no journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grainlike.errors import ProtocolError, SerializationError
from grainlike.head._peers import Connection
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._state import HeadState
from grainlike.head.values._direct import DirectCopies
from grainlike.head.values._links import HERE, GivenValue, LinkCopies
from grainlike.head.values._owners import ValueOwner
from grainlike.head.values._stores import WorkerStores
from grainlike.head.values._transfers import number_of
from grainlike.jobs import OwnValueStore
from grainlike.payload import Payload, is_shared_directory, map_replica, replica_file
from grainlike.scheduler import (
    PROGRAM,
    FetchReplicas,
    GiveValues,
    HeadEvent,
    OwnValuesLost,
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
    SpareReplicas,
    Stored,
    Unsent,
)

if TYPE_CHECKING:  # few programs record
    from grainlike.head.values._copy_spans import CopySpans, Way

__all__ = ["ValueMover"]

_PROGRAM = "this process"
"""Name of this process in traces, like for calls without resources."""


class _ReplicaFile(NamedTuple):
    """Value in a worker's file, which this process reads when it hands the value over: one at a time is twice there."""

    value: int
    attempt: int
    worker: int
    path: str


class ValueMover:
    """Performs the scheduler's actions about replicas. It reports the results by `tell` at the end of a turn of the
    head (`flush`), never during an action.

    `given(value, payload)` is called once for each wanted value that has arrived. `object_store` knows the workers that
    share memory with this process.

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
        """Called with each event that the scheduler was given."""
        self.spans: CopySpans | None = None
        """Record of copies for traces; None if there is no recorder."""
        self.answers: list[HeadEvent | GivenValue | _ReplicaFile] = []
        """Events for the scheduler, and values for this process, that the next `flush` passes on, in order."""
        self.failures: dict[int, str] = {}
        """Why the last copy of a value between workers failed, by value; nothing where it did not."""
        self._state = state
        self._object_store = object_store
        self._tell = tell
        self.stores: WorkerStores = WorkerStores(self._answer)
        self.own: OwnValueStore = OwnValueStore(lambda: object_store.directory)
        self._own_files: dict[int, str] = {}
        """Directories in which clients of this machine keep own values, by value."""
        self.links: LinkCopies = LinkCopies(state, self.own, self._answer)
        self.direct: DirectCopies = DirectCopies(state, self._answer, self._relay)

    @property
    def moved(self) -> int:
        """Bytes copied between workers."""
        return self.links.relayed + self.direct.moved

    @property
    def relayed(self) -> int:
        """Bytes copied between workers through this process."""
        return self.links.relayed

    @property
    def fetched(self) -> int:
        """Bytes brought to this process, or to clients, over links."""
        return self.links.fetched

    # --- actions of the scheduler ------------------------------------------------------------------------------------

    def act(self, action: FetchReplicas | GiveValues | ReplicasDropped) -> None:
        """Perform an action."""
        match action:
            case FetchReplicas():
                self._copy(action)
            case GiveValues():
                self._give(action)
            case ReplicasDropped():
                self._drop(action)

    def _copy(self, action: FetchReplicas) -> None:
        relayed = action.relayed or [True] * len(action.values)
        rows = zip(action.values, action.attempts, action.sizes, action.sources, relayed, strict=True)
        for value, attempt, size, source, passes in rows:
            if source not in self._state.peers:
                self._copy_own(value, attempt, size, source, action.worker)
                continue
            if self._is_linked(value, attempt, source, action.worker):
                self._note(value, size, source, action.worker, "mapped")
                continue
            if passes or not self.direct.can(source, action.worker):
                self._relay(value, attempt, size, source, action.worker)
            else:
                self._stop(value, action.worker)
                self._note(value, size, source, action.worker, "direct")
                self.direct.start(value, attempt, size, source, action.worker)

    def _copy_own(self, value: int, attempt: int, size: int, source: int, target: int) -> None:
        """Copy an own value from its program to a worker."""
        self._stop(value, target)
        there = self.own.place(value) if source == PROGRAM else self._own_files.get(value, "")
        here = self._directory(target)
        if there and here is not None and _link(there, here, value, attempt):
            self._answer(ReplicasArrived(target, [value], [attempt]))
        else:
            at = self.direct.left_off(value, attempt, size, target)
            self.links.start_own(value, attempt, size, source, target, at)

    def shares_own(self, client: Connection, values: Iterable[int], directory: str) -> None:
        """Record the directory in which a client has files of own values; it is used if this process can read it."""
        if is_shared_directory(directory) and self._object_store.maps(client.hello):
            self._own_files.update(dict.fromkeys(values, directory))

    def _relay(self, value: int, attempt: int, size: int, source: int, target: int) -> None:
        """Begin a copy to a worker through the links, from the byte at which the last copy stopped."""
        self._stop(value, target)
        self._note(value, size, source, target, "relayed")
        self.links.start(value, attempt, size, source, target, self.direct.left_off(value, attempt, size, target))

    def _stop(self, value: int, target: int) -> None:
        """Stop the copy of a value to a worker that is under way, if there is one, because another takes its place."""
        self.links.stop(self.links.find(target, value))
        self.direct.stop(self.direct.find(target, value))

    def _give(self, action: GiveValues) -> None:
        """Bring values to this process, or to the clients that own them."""
        for value, attempt, size in zip(action.values, action.attempts, action.sizes, strict=True):
            owner = self.owner_of(value)
            if owner is None:
                is_mapped = self._is_mapped(value, attempt, action.worker)
                self._note(value, size, action.worker, HERE, "mapped" if is_mapped else "fetched")
                if not is_mapped:
                    self.links.start(value, attempt, size, action.worker, HERE)
            elif owner.receiver is None:
                self._answer(ValuesGiven([value]))
            else:
                shared = self._shared_with(owner.receiver, action.worker)
                self._note(
                    value, size, action.worker, owner.receiver.number, "mapped" if shared else "fetched", owner.name
                )
                self.links.give(owner.receiver, value, attempt, size, action.worker, shared)

    def _note(self, value: int, size: int, source: int, target: int, way: Way, client: str = _PROGRAM) -> None:
        """Record for traces that a copy begins: to a worker, to this process, or to the client of that name."""
        if self.spans is not None:
            peers = self._state.peers
            name = peers[target].name if target in peers else client
            self.spans.begun(value, size, (source, peers[source].name), (target, name), way)

    def _told(self, event: HeadEvent) -> None:
        self._tell(event)
        if self.spans is not None:
            self.spans.answered(event)

    def unwant(self, values: Iterable[int]) -> None:
        """Stop the transfers of values for which no part of this process, or of their client, waits any more."""
        values = list(values)
        for value in values:
            owner = self.owner_of(value)
            target = HERE if owner is None or owner.receiver is None else owner.receiver.number
            self.links.stop(self.links.find(target, value))
        unwanted = set(values)
        self.answers = [
            one for one in self.answers if not (isinstance(one, GivenValue | _ReplicaFile) and one.value in unwanted)
        ]
        self.answers.append(ValuesGiven(values))
        self.flush()

    def progress(self, worker: int, value: int) -> int:
        """Return how many bytes of a value's copy to a worker have arrived; 0 if no copy is under way."""
        transfer = self.links.find(worker, value) or self.direct.find(worker, value)
        return 0 if transfer is None else transfer.written

    def forget(self, values: Sequence[int]) -> None:
        """Let workers remove the bytes of unfinished copies of values that nothing needs."""
        for value in values if self.failures else ():
            self.failures.pop(value, None)
        if self._state.begun:
            self.direct.forget(values)

    def freed(self, values: Sequence[int]) -> None:
        """Give up transfers of own values that nothing needs."""
        for value in values:
            self._own_files.pop(value, None)
        self.links.freed(values)

    def flush(self) -> None:
        """Tell the scheduler the results of its actions, and hand over the values that have arrived."""
        while self.answers:
            answers, self.answers = self.answers, []
            given: list[int] = []
            for answer in answers:
                gift = self._read(answer) if isinstance(answer, _ReplicaFile) else answer
                if isinstance(gift, GivenValue):
                    self.given(*gift)
                    given.append(gift.value)
                    continue
                if given:
                    self._told(ValuesGiven(given))  # one event for all values, because each event costs a pass
                    given = []
                self._told(gift)
                self.told(gift)
                if isinstance(gift, ReplicasFailed | ReplicasArrived):
                    self._remember(gift)
            if given:
                self._told(ValuesGiven(given))

    def _remember(self, event: ReplicasFailed | ReplicasArrived) -> None:
        for value in event.values:
            self.failures.pop(value, None)
            if isinstance(event, ReplicasFailed) and self._state.workers_with(value):
                self.failures[value] = event.why

    def _drop(self, action: ReplicasDropped) -> None:
        for value, attempt in zip(action.values, action.attempts, strict=True):
            transfer = self.links.find(action.worker, value)
            if transfer is not None and transfer.attempt == attempt:
                self.links.fail(transfer, "nobody needs it any more")
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
        """Let a wanted value be read from its worker's file, if this process can read it; return False if it cannot."""
        directory = self._directory(worker)
        if directory is not None:
            self._answer(_ReplicaFile(value, attempt, worker, replica_file(directory, value, attempt)))
        return directory is not None

    def _read(self, file: _ReplicaFile) -> GivenValue | ReplicasGone:
        try:
            return GivenValue(file.value, map_replica(file.path))
        except SerializationError:
            peer = self._state.peers.get(file.worker)
            if peer is not None:  # it counts the file, and knows where on its disk that is
                peer.post(DropReplicas([file.value], [file.attempt]))
            return ReplicasGone(file.worker, [file.value], [file.attempt])

    def _is_linked(self, value: int, attempt: int, source: int, target: int) -> bool:
        """Link a worker's file into another worker's directory, if both share memory with us; return False if not."""
        there, here = self._directory(source), self._directory(target)
        if there is None or here is None:
            return False
        file = replica_file(there, value, attempt)
        if os.path.islink(file):  # noqa: PTH114 - a text
            return False  # the replica is on the source's disk, and is removed with that worker
        try:
            os.link(file, replica_file(here, value, attempt))
        except FileExistsError:  # of a copy that was whole as it was stopped: it could make way, and counts from now on
            self._state.peers[target].post(SpareReplicas([value], [attempt], is_spare=False))
        except OSError:
            if os.path.lexists(file):
                return False  # the target's directory is gone; its daemon will report that
            self._answer(ReplicasGone(source, [value], [attempt]))
            self._answer(ReplicasFailed(target, [value], [attempt], f"{Path(file).name} is gone"))
            return True
        self._answer(ReplicasArrived(target, [value], [attempt]))
        return True

    def _directory(self, worker: int) -> str | None:
        """Return the directory of a worker's replicas, if this process can read it."""
        hello = self._state.peers[worker].hello
        ours = is_shared_directory(hello.replicas) and self._object_store.maps(hello)
        return hello.replicas if ours else None

    def _shared_with(self, client: Connection, worker: int) -> str:
        """Return the directory of a worker's replicas, if a client can read it; otherwise an empty text."""
        # What both have reported decides, and not a look at the directory: a replay of the journal must find the same.
        hello, memory = self._state.peers[worker].hello, client.hello.memory
        return hello.replicas if memory and hello.memory == memory else ""

    def _answer(self, answer: HeadEvent | GivenValue | _ReplicaFile) -> None:
        self.answers.append(answer)

    # --- messages of workers and clients -----------------------------------------------------------------------------

    def hear(
        self,
        peer: Connection,
        message: ReplicaPart | ReplicaCredit | Fetched | Unsent | Pulled | Stored | Evicted,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take a worker's message about its store, or a worker's or client's message about a transfer. Messages about
        transfers that have ended are ignored.

        Raises:
            ProtocolError: the peer was never asked for that, or sends other bytes than it was asked for.
        """
        if isinstance(message, Stored | Evicted):
            if self.spans is not None and isinstance(message, Stored):
                self.spans.stored(peer.number, peer.name, message)
            self.stores.hear(peer.number, message)
            self.flush()
            return
        if isinstance(message, Pulled):
            self.direct.hear_progress(peer, message)
            return
        number, _ = number_of(message.transfer)
        if not 0 < number <= self._state.last_transfer:
            raise ProtocolError(f"there was no transfer {number}")
        transfer, copy = self._state.transfers.get(number), self._state.direct.get(number)
        if transfer is not None:
            self.links.hear(peer, transfer, message, buffers)
        elif copy is not None:
            self.direct.hear(peer, copy, message)
        else:  # The transfer has ended. If a `Fetched` crosses its stop, the target has a file, and `begun` knows it:
            return  # the file is dropped with the value, or replaced by the next copy to that worker.
        self.flush()

    # --- workers that come and go ------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Take the transfers from an image."""
        self.links.restore()
        self.direct.restore()

    def broke(self, peer: Connection) -> None:
        """Pause the transfers over a link to a worker or client that has broken, so that they delay no others."""
        self.links.broke(peer)

    def returned(self, peer: Connection) -> None:
        """Go on with the transfers of a worker or client that has a new link."""
        self.links.returned(peer)

    def left(self, peer: Connection) -> None:
        """End the transfers of a lost worker, which the scheduler knows to be lost, or of a client that has left."""
        self.links.left(peer)
        self.direct.left(peer.number)
        lost = [value for value, origin in self._state.origins.items() if origin is peer]
        if lost:
            for value in lost:
                del self._state.origins[value]
            self._answer(OwnValuesLost(lost))
            self.flush()


def _link(there: str, here: str, value: int, attempt: int) -> bool:
    """Link the file of a replica from one directory into another; return False if that is not possible."""
    try:
        with suppress(FileExistsError):
            os.link(replica_file(there, value, attempt), replica_file(here, value, attempt))
    except OSError:
        return False
    return True


def _nobody_waits(value: int, payload: Payload) -> None:
    """Do nothing: values come only to a program."""


def _nobody_owns(value: int) -> None:  # noqa: ARG001 - as where there are clients
    return None


def _nobody_listens(event: HeadEvent) -> None:
    """Ignore an event, because there are no clients."""
