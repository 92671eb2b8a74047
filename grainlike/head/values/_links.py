"""Copies of replicas through the links of this process: from worker to worker, to this process, to clients, and of own
values from programs to workers.

The source sends by credit (`_credit`); parts are passed on, or kept, when they arrive. After a link has broken, the
source is asked again for the bytes that have not arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from grainlike.errors import ProtocolError, SerializationError
from grainlike.head._peers import Connection
from grainlike.head._state import HeadState
from grainlike.head.values._credit import CreditPool
from grainlike.head.values._transfers import LinkTransfer, number_of
from grainlike.jobs import OwnValueStore
from grainlike.payload import Payload, arriving_replica
from grainlike.scheduler import (
    PROGRAM,
    HeadEvent,
    OwnValuesLost,
    ReplicasArrived,
    ReplicasFailed,
    ReplicasGone,
    ValuesGiven,
)
from grainlike.wire import (
    Buffer,
    DropReplicas,
    Fetched,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Unsent,
    ValueComes,
)

__all__ = ["HERE", "GivenValue", "LinkCopies"]

HERE = 0
"""This process as a transfer's target; workers have numbers from 1 on."""


class GivenValue(NamedTuple):
    """Value that has arrived in this process."""

    value: int
    payload: Payload


_Answer = HeadEvent | GivenValue


class LinkCopies:
    """Copies under way through links. `answer` takes events for the scheduler, and values for this process; `own` has
    the own values of this process's program.

    Example::

        links.start(7, 1, 200_064, source=1, target=2)
        links.hear(peer, transfer, ReplicaPart(...), buffers)
    """

    def __init__(
        self, state: HeadState, own: OwnValueStore, answer: Callable[[HeadEvent | GivenValue], object]
    ) -> None:
        self.relayed: int = 0
        self.fetched: int = 0
        """`relayed`: bytes copied between workers through this process; `fetched`: bytes for it, or for clients."""
        self._state = state
        self._own = own
        self._answer = answer
        self._credit = CreditPool(self._ask)
        self._by_target: dict[tuple[int, int], LinkTransfer] = {}
        """Transfers by target and value."""
        self._away: set[int] = set()
        """Workers and clients that have no link at the moment."""

    # --- what the scheduler says -------------------------------------------------------------------------------------

    def start(self, value: int, attempt: int, size: int, source: int, target: int, at: int = 0) -> None:
        """Begin a transfer to a worker that has the first `at` bytes, or to this process."""
        transfer = self._new(value, attempt, size, source, target, at)
        if target == HERE:
            arriving = arriving_replica(size)
            if isinstance(arriving, Payload):
                self._end(transfer)
                self._answer(GivenValue(value, arriving))
                return
            transfer.memory = arriving
        self._begin(transfer)

    def start_own(self, value: int, attempt: int, size: int, source: int, target: int, at: int = 0) -> None:
        """Begin a transfer of an own value from its program, `source`."""
        sender = self._state.origins.get(value)
        if sender is None and source != PROGRAM:
            self._state.begun[target, value, attempt] = at  # no more bytes have arrived
            self._answer(ReplicasFailed(target, [value], [attempt], "its program has left"))
            return
        transfer = self._new(value, attempt, size, source, target, at)
        transfer.sender = sender
        self._begin(transfer)

    def give(self, client: Connection, value: int, attempt: int, size: int, source: int, directory: str) -> None:
        """Give a value to a client, which maps the worker's file in `directory`, if that is not empty."""
        transfer = self._new(value, attempt, size, source, client.number)
        transfer.client, transfer.mapped, transfer.paused = client, bool(directory), True
        client.post(ValueComes(transfer.number, value, attempt, size, directory))
        self._begin(transfer)

    def find(self, target: int, value: int) -> LinkTransfer | None:
        """Return the transfer of a value to a worker, a client or this process that is under way."""
        return self._by_target.get((target, value))

    def stop(self, transfer: LinkTransfer | None) -> None:
        """Stop a transfer that is under way, and tell its source and target; nothing happens with None."""
        if transfer is not None:
            self._end(transfer)
            if transfer.target in self._state.peers:  # the target may have a file with bytes of the replica
                self._state.begun[transfer.target, transfer.value, transfer.attempt] = 0
            if transfer.sender is not None:
                transfer.sender.post(StopTransfer(transfer.leg))
            for worker, number in ((transfer.source, transfer.leg), (transfer.target, transfer.number)):
                peer = self._state.peers.get(worker)
                if peer is not None:
                    peer.post(StopTransfer(number))

    def fail(self, transfer: LinkTransfer, why: str, *, refused: bool = False) -> None:
        """Stop a transfer, and tell the scheduler if its target is a worker. Values that are wanted outside stay
        wanted.
        """
        self.stop(transfer)
        if transfer.target != HERE and transfer.client is None:
            failed = ReplicasFailed(transfer.target, [transfer.value], [transfer.attempt], why, refused=refused)
            self._answer(failed)

    def freed(self, values: Iterable[int]) -> None:
        """Give up transfers of own values that nothing needs."""
        gone = set(values)
        for transfer in [one for one in self._state.transfers.values() if one.value in gone]:
            if transfer.sender is not None or transfer.source == PROGRAM:
                self.fail(transfer, "nobody needs it any more")

    def restore(self) -> None:
        """Pause the transfers of an image: none has begun, and each begins when its workers return."""
        self._credit = CreditPool(self._ask)
        self._by_target = {(one.target, one.value): one for one in self._state.transfers.values()}
        for transfer in self._state.transfers.values():
            transfer.begun = transfer.waits = False
            transfer.granted = transfer.received = transfer.written = 0
            transfer.paused = True

    def _new(self, value: int, attempt: int, size: int, source: int, target: int, at: int = 0) -> LinkTransfer:
        """Make a transfer, in place of the transfer of the same value to the same target, if there is one."""
        self.stop(self.find(target, value))
        self._state.last_transfer += 1
        transfer = LinkTransfer(self._state.last_transfer, value, attempt, size, source, target)
        transfer.granted = transfer.received = transfer.written = at
        self._state.transfers[transfer.number] = self._by_target[target, value] = transfer
        return transfer

    def _begin(self, transfer: LinkTransfer) -> None:
        if not transfer.mapped and self._away.isdisjoint((transfer.source, transfer.target)):
            self._credit.start(transfer)

    def _ask(self, transfer: LinkTransfer, message: SendReplica | ReplicaCredit) -> None:
        if transfer.source == PROGRAM:
            self._send_own(transfer, message.credit)
        else:
            (transfer.sender or self._state.peers[transfer.source]).post(message)

    def _send_own(self, transfer: LinkTransfer, count: int) -> None:
        """Send bytes of an own value of this process's program."""
        at = transfer.received
        try:
            data = self._own.read(transfer.value, at, at + count)
        except (KeyError, OSError):
            self._answer(OwnValuesLost([transfer.value]))
            self.fail(transfer, "the program has it no more")
            return
        transfer.received += count
        self._state.counters.sent += count
        part = ReplicaPart(transfer.number, transfer.value, transfer.attempt, at, transfer.size)
        self._state.peers[transfer.target].post(part, [data])

    def _end(self, transfer: LinkTransfer) -> None:
        del self._state.transfers[transfer.number], self._by_target[transfer.target, transfer.value]
        self._credit.rewind(transfer, transfer.written)

    # --- what workers and clients say --------------------------------------------------------------------------------

    def hear(
        self,
        peer: Connection,
        transfer: LinkTransfer,
        message: ReplicaPart | ReplicaCredit | Fetched | Unsent,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take a message of a worker or a client about a transfer.

        Raises:
            ProtocolError: the peer may not send this message, or sends other bytes than it was asked for.
        """
        match message:
            case ReplicaPart():
                _check_end(peer, transfer, transfer.source)
                generation = number_of(message.transfer)[1]
                if generation > transfer.generation:
                    raise ProtocolError(f"transfer {transfer.number} was not asked for so often")
                if generation == transfer.generation:
                    self._take(transfer, message, buffers)
            case ReplicaCredit():
                _check_end(peer, transfer, transfer.target)
                self._written(transfer, message.credit)
            case Fetched():
                _check_end(peer, transfer, transfer.target)
                self._end(transfer)
                if transfer.sender is not None:  # counted here, because a replay of the journal has no parts
                    self._state.counters.sent += transfer.size
                if transfer.client is None:
                    self._answer(ReplicasArrived(peer.number, [transfer.value], [transfer.attempt]))
                else:
                    self._answer(ValuesGiven([transfer.value]))
            case Unsent():
                _check_end(peer, transfer, transfer.source, transfer.target)
                self._unsent(peer, transfer, message)

    def _unsent(self, peer: Connection, transfer: LinkTransfer, message: Unsent) -> None:
        if transfer.client is not None:
            self._unsent_to_client(peer, transfer, message)
            return
        if peer.number == transfer.source and (message.gone or transfer.target == HERE):
            self._gone(transfer)
        self.fail(transfer, f"{peer.name}: {message.why}", refused=peer.number == transfer.target)

    def _unsent_to_client(self, peer: Connection, transfer: LinkTransfer, message: Unsent) -> None:
        """Send bytes to a client that cannot map a file; record that a missing or damaged replica is gone."""
        if transfer.mapped and peer is transfer.client and not message.gone:
            transfer.mapped = False
            peer.post(ValueComes(transfer.number, transfer.value, transfer.attempt, transfer.size))
            self._begin(transfer)
            return
        self.stop(transfer)
        self._gone(transfer)

    def _gone(self, transfer: LinkTransfer) -> None:
        """Record that a transfer's source has no whole replica, and let it remove the rest of the file."""
        if transfer.sender is not None:
            self._answer(OwnValuesLost([transfer.value]))
            return
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
            self.fetched += transfer.memory.take(part.at, buffers)
            self._written(transfer, count)
            return
        onward = ReplicaPart(transfer.number, part.value, part.attempt, part.at, part.size)
        if transfer.client is not None:
            self.fetched += count
            transfer.client.post(onward, buffers)
            return
        if transfer.sender is None:
            self.relayed += count
        self._state.peers[transfer.target].post(onward, buffers)

    def _written(self, transfer: LinkTransfer, count: int) -> None:
        if not 0 < count <= transfer.received - transfer.written:
            raise ProtocolError(f"{count} bytes of transfer {transfer.number} were written, which were not sent")
        self._credit.written(transfer, count)
        if transfer.memory is not None and transfer.written == transfer.size:
            self._end(transfer)
            try:
                self._answer(GivenValue(transfer.value, transfer.memory.payload()))
            except SerializationError:
                self._gone(transfer)

    # --- links that come and go --------------------------------------------------------------------------------------

    def broke(self, peer: Connection) -> None:
        """Rewind the transfers over a broken link to a worker or client, so that they delay no others."""
        self._away.add(peer.number)
        theirs = self._of(peer)
        self._credit.rewind_all((one, one.received if one.source == peer.number else one.written) for one in theirs)

    def returned(self, peer: Connection) -> None:
        """Go on with transfers over a new link to a worker or client, if their other end has a link, too."""
        self.broke(peer)
        self._away.discard(peer.number)
        for transfer in self._of(peer):
            self._begin(transfer)

    def left(self, peer: Connection) -> None:
        """Stop the transfers of a worker or client that is lost."""
        self._away.discard(peer.number)
        theirs = self._of(peer)
        self._credit.rewind_all((one, one.written) for one in theirs)
        for transfer in theirs:
            if transfer.sender is peer:
                self.fail(transfer, "its program has left")
            else:
                self.stop(transfer)

    def _of(self, peer: Connection) -> list[LinkTransfer]:
        return [one for one in self._state.transfers.values() if peer.number in (one.source, one.target)]


def _check_end(peer: Connection, transfer: LinkTransfer, *ends: int) -> None:
    """Raise `ProtocolError` if a peer is none of these ends of a transfer."""
    if peer.number not in ends:
        raise ProtocolError(f"transfer {transfer.number} is another's")
