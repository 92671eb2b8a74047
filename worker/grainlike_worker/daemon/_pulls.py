"""Replicas that the data server gets from other workers: what the head asked for, and how far each has come.

These books outlive a data server that is killed: the next one goes on where that had come. What a failed pull has
brought stays, too, until the next attempt goes on with it, or the replica is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grainlike.errors import ProtocolError
from grainlike.wire import Buffer, Fetched, Frame, Message, Pulled, PullReplica, StopTransfer, Unsent
from grainlike_worker.store._replicas import WorkerReplicas

if TYPE_CHECKING:  # it needs what waits on sockets, of which an embedded worker has none
    from grainlike_worker.daemon._data_process import DataProcess

__all__ = ["ReplicaPulls"]

MOST_STARTS = 3
"""Data servers that one pull is given to, should each of them end: it may be what ends them."""


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
        self._pulls: dict[int, PullReplica] = {}
        """What is under way, each with how far it has come."""
        self._starts: dict[int, int] = {}
        """Data servers that have begun with each, since it last came on."""

    def begin(self, order: PullReplica) -> None:
        """Have a replica got."""
        if self._data is None:
            self._post(Unsent(order.transfer, "this worker has no data server", unreachable=True), ())
            return
        try:
            self._replicas.begin(order.value, order.attempt)
        except OSError as error:
            self._post(Unsent(order.transfer, f"it cannot be written: {error}"), ())
            return
        at = self._replicas.begun.pop((order.value, order.attempt), 0)
        self._pulls[order.transfer] = order = replace(order, at=at)
        self._starts[order.transfer] = 0
        self._data.post(order)

    def stop(self, transfer: int) -> None:
        """Have no more got of it. What has come of it stays until the replica is dropped."""
        order = self._end(transfer)
        if order is not None and self._data is not None:
            self._data.post(StopTransfer(transfer))

    @property
    def busy(self) -> bool:
        """True while anything is under way."""
        return bool(self._pulls)

    def pending(self) -> list[PullReplica]:
        """Return what a data server that begins is to get, and give up what has seen several of them end."""
        for transfer, order in list(self._pulls.items()):
            self._starts[transfer] += 1
            if self._starts[transfer] > MOST_STARTS:
                self._end(transfer)
                self._post(Unsent(transfer, "data servers ended with it", at=order.at, unreachable=True), ())
        return list(self._pulls.values())

    def hear(self, frames: list[Frame]) -> None:
        """Take what the data server says."""
        for message, _ in frames:
            match message:
                case Pulled():
                    self._came(message)
                case Fetched():
                    self._fetched(message)
                case Unsent():
                    order = self._end(message.transfer, message.at)
                    if order is not None:
                        self._post(message, ())
                case _:
                    raise ProtocolError(f"{type(message).__name__} is nothing that a data server says")

    def _came(self, message: Pulled) -> None:
        for transfer, at in zip(message.transfers, message.at, strict=True):
            order = self._pulls.get(transfer)
            if order is not None:
                self._pulls[transfer] = replace(order, at=at)
                self._starts[transfer] = 0
        self._post(message, ())

    def _fetched(self, message: Fetched) -> None:
        order = self._pulls.pop(message.transfer, None)
        if order is None:  # it was stopped as it was being finished
            if (message.value, message.attempt) not in self._replicas.sizes:
                self._replicas.drop([message.value], [message.attempt])
            return
        del self._starts[message.transfer]
        self._replicas.add(order.value, order.attempt, order.size)
        self._post(message, ())

    def _end(self, transfer: int, at: int | None = None) -> PullReplica | None:
        order = self._pulls.pop(transfer, None)
        if order is not None:
            del self._starts[transfer]
            at = order.at if at is None else at
            if at:
                self._replicas.begun[order.value, order.attempt] = at
        return order
