"""Pulls: replicas that the data server gets from other workers, and how many bytes of each have arrived.

Room for all bytes is made before a pull begins, and the replica gets its name when they have arrived. These records
outlive a data server that is killed, so the next one goes on where it stopped. The bytes of a failed pull are kept
until the next attempt goes on with them, the replica is dropped, or their room is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grainlike.errors import ProtocolError
from grainlike.scheduler.store import Replica
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

if TYPE_CHECKING:  # an embedded worker has no sockets, and does not load this module
    from grainlike_worker.daemon._data_process import DataProcess

__all__ = ["FetchedCopies", "ReplicaPulls"]

_FETCHED_MOST = 64
"""Twice as many transfers as are on their way to one worker at the same time."""

MOST_STARTS = 3
"""Most data servers that begin a pull and end during it: the pull may be what ends them."""


class FetchedCopies:
    """The last transfers that brought a replica, by number; the head may not know yet that they have ended.

    Example::

        fetched = FetchedCopies(replicas, link.post)
        fetched.note(3, value=7, attempt=1)                 # posts a Fetched
        fetched.stopped(3)
    """

    def __init__(self, replicas: WorkerReplicas, post: Callable[[Message, Sequence[Buffer]], object]) -> None:
        self._replicas = replicas
        self._post = post
        self._last: dict[int, Replica] = {}

    def __contains__(self, transfer: int) -> bool:
        return transfer in self._last

    def note(self, transfer: int, value: int, attempt: int) -> None:
        """Record a replica that is whole, and tell the head."""
        self._last[transfer] = value, attempt
        if len(self._last) > _FETCHED_MOST:
            del self._last[next(iter(self._last))]
        self._post(Fetched(transfer, value, attempt), ())

    def stopped(self, transfer: int) -> None:
        """Let the replica of a transfer make way that the head has stopped: it ignores the `Fetched` that has crossed
        that, so nothing else would free the room while the value is needed.
        """
        replica = self._last.get(transfer)
        if replica is not None:
            self._replicas.spare([replica[0]], [replica[1]], is_spare=True)


class _PullOrder:
    """Pull that is under way; `order` says how many bytes have arrived."""

    __slots__ = ("order", "room", "starts")

    def __init__(self, order: PullReplica) -> None:
        self.order = order
        self.room: Path | None = None
        """File to which the replica is written; None until there is one."""
        self.starts = 0
        """Number of data servers that have begun the pull since bytes of it last arrived."""


class ReplicaPulls:
    """Pulls by number, between the head, to which `post` sends, and the data server, if there is one.

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
        self.fetched: FetchedCopies = FetchedCopies(replicas, post)
        self._pulls: dict[int, _PullOrder] = {}

    def begin(self, order: PullReplica) -> None:
        """Begin to pull a replica."""
        if self._data is None:
            self._post(Unsent(order.transfer, "this worker has no data server", unreachable=True), ())
            return
        if not self._replicas.directory:
            self._post(Unsent(order.transfer, "it cannot be written: there is no shared memory"), ())
            return
        pull = self._pulls[order.transfer] = _PullOrder(order)
        self._replicas.start(self._begin_in_room, pull, self._data)

    async def _begin_in_room(self, pull: _PullOrder, data: DataProcess) -> None:
        """Make room for a pull, then let the data server begin.

        A pull that is stopped gives its room back, and must not ask for room later.
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
            return  # the pull was stopped, and its room given back, as the room was made
        pull.room, pull.order = room, replace(order, at=at)
        data.post(PullInto(pull.order, str(pull.room)))

    def stop(self, transfer: int) -> None:
        """Stop a pull. Its bytes stay until the replica is dropped, or their room is needed."""
        pull = self._end(transfer)
        if pull is not None and pull.room is not None and self._data is not None:
            self._data.post(StopTransfer(transfer))

    @property
    def busy(self) -> bool:
        """True while any pull is under way."""
        return bool(self._pulls)

    def pending(self) -> list[PullInto]:
        """Return the pulls for a data server that begins; give up pulls that several data servers did not survive."""
        for transfer, pull in list(self._pulls.items()):
            pull.starts += pull.room is not None
            if pull.starts > MOST_STARTS:
                self._end(transfer)
                self._post(Unsent(transfer, "data servers ended with it", at=pull.order.at, unreachable=True), ())
        return [PullInto(pull.order, str(pull.room)) for pull in self._pulls.values() if pull.room is not None]

    def hear(self, frames: list[Frame]) -> None:
        """Take a message of the data server."""
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
            return  # the pull was stopped as the last bytes arrived
        order = pull.order
        try:
            self._replicas.whole(order.value, order.attempt, order.size, message.crc)
        except OSError as error:
            self._replicas.give_back(order.value, order.attempt)
            self._post(Unsent(order.transfer, f"it cannot be written: {error}"), ())
        else:
            self.fetched.note(order.transfer, order.value, order.attempt)

    def _end(self, transfer: int, at: int | None = None) -> _PullOrder | None:
        pull = self._pulls.pop(transfer, None)
        if pull is not None:
            order = pull.order
            at = 0 if pull.room is None else order.at if at is None else at
            self._replicas.leave(order.value, order.attempt, order.size, at)
        return pull
