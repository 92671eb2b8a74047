"""Copies of replicas on their way through a worker's daemon: to the head, and from it.

The head gives credit, so no more than that waits to be sent here; parts are mapped, not read, and written as they come,
each in about a millisecond. Sends belong to one link: on the next one the head asks anew, from where it wants. What has
come so far stays, as the head goes on with it. Copies between data servers pass here as orders alone (`_pulls`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grainlike.errors import ProtocolError, SerializationError
from grainlike.payload import ReplicaSource, replica_room
from grainlike.wire import (
    GENERATION,
    Buffer,
    Fetched,
    Message,
    PullReplica,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Unsent,
)
from grainlike_worker.daemon._pulls import ReplicaPulls
from grainlike_worker.data._part_files import write_all
from grainlike_worker.store._replicas import WorkerReplicas

if TYPE_CHECKING:  # it needs what waits on sockets, of which an embedded worker has none
    from grainlike_worker.daemon._data_process import DataProcess

__all__ = ["ReplicaTransfers"]

PART_BYTES = 1024 * 1024
"""The most bytes that are sent in one message."""

Post = Callable[[Message, Sequence[Buffer]], object]


class ReplicaTransfers:
    """Transfers by their numbers. What they have to say goes to `post`, and `data` gets replicas from other workers.

    Example::

        transfers = ReplicaTransfers(replicas, link.post)
        transfers.hear(SendReplica(1, value=7, attempt=1, at=0, credit=1 << 20))    # posts a ReplicaPart
        transfers.close()
    """

    def __init__(self, replicas: WorkerReplicas, post: Post, data: DataProcess | None = None) -> None:
        self._replicas = replicas
        self._post = post
        self._data = data
        self.pulls = ReplicaPulls(replicas, post, data)
        self._sends: dict[int, _Send] = {}
        self._receives: dict[int, _Receive] = {}

    async def run(self) -> None:
        """Have a data server when one is called for, until cancelled."""
        if self._data is not None:
            await self._data.run(self.pulls)

    def hear(
        self,
        message: SendReplica | ReplicaCredit | ReplicaPart | PullReplica | StopTransfer,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take one of the head's messages about transfers."""
        match message:
            case SendReplica():
                self._begin(message)
            case ReplicaCredit(transfer=transfer, credit=credit):
                send = self._sends.get(transfer % GENERATION)
                if send is not None and send.transfer == transfer:
                    self._send(send, credit)
            case ReplicaPart():
                self._receive(message, buffers)
            case PullReplica():
                self.pulls.begin(message)
            case StopTransfer(transfer=transfer):
                self.pulls.stop(transfer)
                self._sends.pop(transfer % GENERATION, None)
                self._give_up(transfer)

    def link_returned(self) -> None:
        """Forget what was to be sent over the last link: it is asked for anew, if it is wanted."""
        self._sends.clear()

    def close(self) -> None:
        """End all of them."""
        self._sends.clear()
        for transfer in list(self._receives):
            self._give_up(transfer)

    # --- to the head -------------------------------------------------------------------------------------------------

    def _begin(self, message: SendReplica) -> None:
        try:
            send = _Send(message, self._open_source(message))
        except (OSError, ValueError) as error:  # `ValueError` if nothing is in it, from Python 3.13 on
            self._post(Unsent(message.transfer, f"it is not here: {error}", gone=True), ())
            return
        noted = self._replicas.sizes.get((message.value, message.attempt), send.size)
        if noted != send.size or not 0 <= message.at < send.size:
            self._post(Unsent(message.transfer, f"it is damaged: it has {send.size} bytes", gone=True), ())
            return
        self._sends[message.transfer % GENERATION] = send
        self._send(send, message.credit)

    def _open_source(self, message: SendReplica) -> ReplicaSource:
        if self._replicas.path is None:
            raise FileNotFoundError("there is no shared memory")
        return ReplicaSource(self._replicas.file(message.value, message.attempt), message.at)

    def _send(self, send: _Send, credit: int) -> None:
        until = min(send.at + credit, send.size)
        while send.at < until:
            end = min(send.at + PART_BYTES, until)
            part = ReplicaPart(send.transfer, send.value, send.attempt, send.at, send.size)
            try:
                data = send.source.read(send.at, end)
            except (OSError, SerializationError) as error:
                del self._sends[send.transfer % GENERATION]
                self._post(Unsent(send.transfer, str(error), gone=True), ())
                return
            self._post(part, [data])
            send.at = end
        if send.at == send.size:
            del self._sends[send.transfer % GENERATION]

    # --- from the head -----------------------------------------------------------------------------------------------

    def _receive(self, part: ReplicaPart, buffers: Sequence[Buffer]) -> None:
        if len(buffers) != 1:
            raise ProtocolError(f"a part of value {part.value} came in {len(buffers)} buffers")
        data = memoryview(buffers[0])
        try:
            receive = self._receives.get(part.transfer) or self._open(part)
            if part.at > receive.at:
                raise OSError(f"bytes {receive.at} to {part.at} have not come")
            write_all(receive.fd, data, part.at)
            receive.take(data[receive.at - part.at :])
            if receive.at == part.size:
                self._replicas.whole(part.value, part.attempt, part.size, receive.crc, receive.room)
        except OSError as error:
            self._give_up(part.transfer)
            self._post(Unsent(part.transfer, f"it cannot be written: {error}"), ())
            return
        self._post(ReplicaCredit(part.transfer, data.nbytes), ())
        if receive.at == part.size:
            os.close(self._receives.pop(part.transfer).fd)
            self._post(Fetched(part.transfer, part.value, part.attempt), ())

    def _open(self, part: ReplicaPart) -> _Receive:
        if self._replicas.path is None:
            raise FileNotFoundError("there is no shared memory")
        room: Path | None
        replica = (part.value, part.attempt)
        at = part.at if 0 < part.at <= self._replicas.begun.pop(replica, 0) else 0
        if at:  # it goes on where a data server has begun, in shared memory
            room = replica_room(self._replicas.path, self._replicas.file(*replica))
        else:
            room = self._replicas.room_for(*replica, part.size)
        if room is None:
            raise OSError(f"there is no room for {part.size} bytes")
        try:
            how = 0 if at else os.O_CREAT | os.O_TRUNC
            fd = os.open(room, os.O_WRONLY | how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            self._replicas.give_back(*replica)
            raise
        receive = self._receives[part.transfer] = _Receive(replica, room, fd, at)
        return receive

    def _give_up(self, transfer: int) -> None:
        receive = self._receives.pop(transfer, None)
        if receive is not None:
            os.close(receive.fd)
            self._replicas.give_back(*receive.replica)
            receive.room.unlink(missing_ok=True)


class _Send:
    __slots__ = ("at", "attempt", "size", "source", "transfer", "value")

    def __init__(self, message: SendReplica, source: ReplicaSource) -> None:
        self.transfer, self.value, self.attempt, self.at = message.transfer, message.value, message.attempt, message.at
        self.source = source
        self.size = source.size


class _Receive:
    __slots__ = ("at", "crc", "fd", "replica", "room")

    def __init__(self, replica: tuple[int, int], room: Path, fd: int, at: int) -> None:
        self.replica = replica
        self.room = room
        self.fd = fd
        self.at = at
        """How many bytes have come without a gap."""
        self.crc = 0
        """CRC-32 of them, for a file on disk, of which none have come before."""

    def take(self, data: memoryview) -> None:
        """Bytes have come that follow those which are here."""
        self.at += data.nbytes
        self.crc = zlib.crc32(data, self.crc)
