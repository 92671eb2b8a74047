"""Copies of replicas through a worker's daemon: to the head, and from the head.

The head gives credit, so at most that many bytes wait here to be sent. Bytes to send are mapped, not read, and bytes
that arrive are written at once, each part in about a millisecond. Room for all bytes of a copy is made first; parts
that arrive meanwhile wait. A send belongs to one link: on the next link the head asks again, from the byte that it
needs. Bytes of a copy that have arrived stay, because the head goes on with them. Copies between data servers pass here
only as orders (`_pulls`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from anyio import to_thread

from grainlike.errors import ProtocolError, SerializationError
from grainlike.payload import ReplicaSource, crc_of_file, is_on_disk, open_room
from grainlike.wire import (
    GENERATION,
    Buffer,
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
from grainlike_worker.store._replicas import StoreFull, WorkerReplicas

if TYPE_CHECKING:  # an embedded worker has no sockets, and does not load this module
    from grainlike_worker.daemon._data_process import DataProcess

__all__ = ["ReplicaTransfers"]

PART_BYTES = 1024 * 1024
"""Most bytes that are sent in one message."""

Post = Callable[[Message, Sequence[Buffer]], object]


class ReplicaTransfers:
    """Transfers by number. Their messages go to `post`, and `data` pulls replicas from other workers.

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
        """Run a data server when one is needed, until cancelled."""
        if self._data is not None:
            await self._data.run(self.pulls)

    def hear(
        self,
        message: SendReplica | ReplicaCredit | ReplicaPart | PullReplica | StopTransfer,
        buffers: Sequence[Buffer] = (),
    ) -> None:
        """Take a message of the head about transfers."""
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
                self.pulls.fetched.stopped(transfer)

    def link_returned(self) -> None:
        """Forget bytes that were to be sent over the last link, because the head asks for them again if it needs them.
        Forget parts that wait for room, too: they come again, because the head was not told that they were written.
        """
        self._sends.clear()
        for receive in self._receives.values():
            receive.parts.clear()

    def close(self) -> None:
        """End all transfers."""
        self._sends.clear()
        for transfer in list(self._receives):
            self._give_up(transfer)

    # --- to the head -------------------------------------------------------------------------------------------------

    def _begin(self, message: SendReplica) -> None:
        try:
            send = _Send(message, self._open_source(message))
        except (OSError, ValueError) as error:  # `ValueError` for an empty file, from Python 3.13 on
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
        receive = self._receives.get(part.transfer)
        if receive is not None:
            receive.parts.append((part, memoryview(buffers[0])))
            if receive.fd >= 0:
                self._write(receive)
            return
        if part.transfer in self.pulls.fetched:
            return  # after a broken link, the head begins a transfer again whose end it does not know
        if not self._replicas.directory:
            self._refuse(part.transfer, "there is no shared memory")
            return
        left = self._replicas.left_off(part.value, part.attempt)
        if part.at > left:
            self._refuse(part.transfer, _missing(left, part.at))
            return
        receive = self._receives[part.transfer] = _Receive(part, memoryview(buffers[0]))
        self._replicas.start(self._begin_in_room, receive)

    async def _begin_in_room(self, receive: _Receive) -> None:
        """Make room for a copy, and write the parts that have arrived meanwhile: the head sends as far as its credit
        goes.

        A copy that is stopped gives its room back, and must not ask for room later.
        """
        first = receive.first
        if self._receives.get(first.transfer) is not receive:
            return
        try:
            room, _ = await self._replicas.room_for_copy(first.value, first.attempt, first.size)
            file = self._replicas.file(first.value, first.attempt)
            fd = open_room(room, file, os.O_RDWR)
            try:
                if first.at and is_on_disk(room, file):
                    receive.crc = await to_thread.run_sync(crc_of_file, fd, first.at)
            except BaseException:
                os.close(fd)
                raise
        except (StoreFull, OSError) as error:
            if self._receives.get(first.transfer) is receive:
                self._give_up(first.transfer)
                self._refuse(first.transfer, str(error))
            return
        if self._receives.get(first.transfer) is receive:
            receive.fd = fd
            self._write(receive)
        else:
            os.close(fd)

    def _write(self, receive: _Receive) -> None:
        """Write the parts that wait."""
        first = receive.first
        parts, receive.parts = receive.parts, []
        for part, data in parts:
            try:
                if part.at > receive.at:
                    raise OSError(_missing(receive.at, part.at))
                write_all(receive.fd, data, part.at)
                receive.take(data[receive.at - part.at :])
                if receive.at == first.size:
                    self._replicas.whole(first.value, first.attempt, first.size, receive.crc)
            except OSError as error:
                self._give_up(first.transfer)
                self._refuse(first.transfer, str(error))
                return
            self._post(ReplicaCredit(first.transfer, data.nbytes), ())
        if receive.at == first.size:
            os.close(self._receives.pop(first.transfer).fd)
            self.pulls.fetched.note(first.transfer, first.value, first.attempt)

    def _refuse(self, transfer: int, why: str) -> None:
        self._post(Unsent(transfer, f"it cannot be written: {why}"), ())

    def _give_up(self, transfer: int) -> None:
        receive = self._receives.pop(transfer, None)
        if receive is not None:
            if receive.fd >= 0:
                os.close(receive.fd)
            self._replicas.give_back(receive.first.value, receive.first.attempt)


def _missing(begin: int, end: int) -> str:
    return f"bytes {begin} to {end} have not come"


class _Send:
    __slots__ = ("at", "attempt", "size", "source", "transfer", "value")

    def __init__(self, message: SendReplica, source: ReplicaSource) -> None:
        self.transfer, self.value, self.attempt, self.at = message.transfer, message.value, message.attempt, message.at
        self.source = source
        self.size = source.size


class _Receive:
    __slots__ = ("at", "crc", "fd", "first", "parts")

    def __init__(self, first: ReplicaPart, data: memoryview) -> None:
        self.first = first
        """The part with which it has begun."""
        self.parts = [(first, data)]
        """Parts that have come and are not written."""
        self.fd = -1
        """File to which it is written; negative until there is one."""
        self.at = first.at
        """How many bytes have come without a gap."""
        self.crc = 0
        """CRC-32 of them."""

    def take(self, data: memoryview) -> None:
        """Bytes have come that follow those which are here."""
        self.at += data.nbytes
        self.crc = zlib.crc32(data, self.crc)
