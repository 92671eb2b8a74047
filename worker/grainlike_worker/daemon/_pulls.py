"""Replicas that the data server gets from other workers: what the head asked for, and how far each has come.

Room for all its bytes is made before a pull begins, and the replica gets its name here when they have come. These books
outlive a data server that is killed: the next one goes on where that had come. What a failed pull has brought stays,
too, until the next attempt goes on with it, the replica is dropped, or its room is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grainlike.errors import ProtocolError
from grainlike.wire import (
    Buffer,
    Fetched,
    Frame,
    Message,
    Pulled,
    PullInto,
    PullReplica,
    Received,
    StopTransfer,
    Unsent,
)
from grainlike_worker.store._replicas import StoreFull, WorkerReplicas

if TYPE_CHECKING:  # it needs what waits on sockets, of which an embedded worker has none
    from grainlike_worker.daemon._data_process import DataProcess

__all__ = ["ReplicaPulls"]

MOST_STARTS = 3
"""Data servers that one pull is given to, should each of them end: it may be what ends them."""


class _PullOrder:
    """Pull that is under way; `order` says how far it has come."""

    __slots__ = ("order", "room", "starts")

    def __init__(self, order: PullReplica) -> None:
        self.order = order
        self.room: Path | None = None
        """File to which it is written; None until there is one."""
        self.starts = 0
        """Data servers that have begun with it, since it last came on."""


class ReplicaPulls:
    """Pulls by their numbers, between the head, to which `post` sends, and the data server, if there is one.

    Example::

        pulls = ReplicaPulls(replicas, link.post, data)
        tasks.start_soon(data.run, pulls)
        pulls.begin(PullReplica(...))
    """

    def __init__(
        self,
        replicas: WorkerReplicas,
        post: Callable[[Message, Sequence[Buffer]], object],
        data: DataProcess | None = None,
    ) -> None:
        self._replicas = replicas
        self._post = post
        self._data = data
        self._pulls: dict[int, _PullOrder] = {}

    def begin(self, order: PullReplica) -> None:
        """Have a replica got."""
        if self._data is None:
            self._post(Unsent(order.transfer, "this worker has no data server", unreachable=True), ())
            return
        if not self._replicas.directory:
            self._post(Unsent(order.transfer, "it cannot be written: there is no shared memory"), ())
            return
        pull = self._pulls[order.transfer] = _PullOrder(order)
        self._replicas.start(self._begin_in_room, pull, self._data)

    async def _begin_in_room(self, pull: _PullOrder, data: DataProcess) -> None:
        """Have room made for a pull, and let the data server begin.

        A pull that is stopped gives back room that was asked for, and nothing may be asked for it later.
        """
        order = pull.order
        if self._pulls.get(order.transfer) is not pull:
            return
        try:
            room, at = await self._replicas.room_for_copy(order.value, order.attempt, order.size)
        except StoreFull as error:
            if self._pulls.get(order.transfer) is pull:
                del self._pulls[order.transfer]
                self._post(Unsent(order.transfer, str(error)), ())
            return
        if self._pulls.get(order.transfer) is not pull:
            return  # its room was given back as it came
        pull.room, pull.order = room, replace(order, at=at)
        data.post(PullInto(pull.order, str(pull.room)))

    def stop(self, transfer: int) -> None:
        """Have no more got of it. What has come of it stays until the replica is dropped, or its room is needed."""
        pull = self._end(transfer)
        if pull is not None and pull.room is not None and self._data is not None:
            self._data.post(StopTransfer(transfer))

    @property
    def busy(self) -> bool:
        """True while anything is under way."""
        return bool(self._pulls)

    def pending(self) -> list[PullInto]:
        """Return what a data server that begins is to get, and give up what has seen several of them end."""
        for transfer, pull in list(self._pulls.items()):
            pull.starts += pull.room is not None
            if pull.starts > MOST_STARTS:
                self._end(transfer)
                self._post(Unsent(transfer, "data servers ended with it", at=pull.order.at, unreachable=True), ())
        return [PullInto(pull.order, str(pull.room)) for pull in self._pulls.values() if pull.room is not None]

    def hear(self, frames: list[Frame]) -> None:
        """Take what the data server says."""
        for message, _ in frames:
            match message:
                case Pulled():
                    self._came(message)
                case Received():
                    self._received(message)
                case Unsent():
                    if self._end(message.transfer, message.at) is not None:
                        self._post(message, ())
                case _:
                    raise ProtocolError(f"{type(message).__name__} is nothing that a data server says")

    def _came(self, message: Pulled) -> None:
        for transfer, at in zip(message.transfers, message.at, strict=True):
            pull = self._pulls.get(transfer)
            if pull is not None:
                pull.order = replace(pull.order, at=at)
                pull.starts = 0
        self._post(message, ())

    def _received(self, message: Received) -> None:
        pull = self._pulls.pop(message.transfer, None)
        if pull is None:
            return  # it was stopped as the last bytes came
        order = pull.order
        try:
            self._replicas.whole(order.value, order.attempt, order.size, message.crc)
        except OSError as error:
            self._replicas.give_back(order.value, order.attempt)
            self._post(Unsent(order.transfer, f"it cannot be written: {error}"), ())
        else:
            self._post(Fetched(order.transfer, order.value, order.attempt), ())

    def _end(self, transfer: int, at: int | None = None) -> _PullOrder | None:
        pull = self._pulls.pop(transfer, None)
        if pull is not None:
            order = pull.order
            at = 0 if pull.room is None else order.at if at is None else at
            self._replicas.leave(order.value, order.attempt, order.size, at)
        return pull
