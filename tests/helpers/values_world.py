"""World of a head's mover and its workers: real ends of transfers, over links that are lists of messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from replicas import at_once, replica_written

from grainlike.head._peers import WorkerConnection
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._state import HeadState
from grainlike.head.values._credit import _ALL_BYTES, _TURN_BYTES
from grainlike.head.values._mover import ValueMover
from grainlike.net import ClosedLink
from grainlike.payload import Payload, dump_value
from grainlike.resources import Cores
from grainlike.scheduler import (
    FetchReplicas,
    GiveValues,
    HeadEvent,
    HeadScheduler,
    ReplicasDropped,
)
from grainlike.wire import (
    PROTOCOL,
    Buffer,
    DropReplicas,
    Fetched,
    Hello,
    Message,
    Pulled,
    PullReplica,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Unsent,
)
from grainlike_worker.daemon._transfers import ReplicaTransfers
from grainlike_worker.store._replicas import WorkerReplicas

Said = tuple[Message, Sequence[Buffer]]

OF_ONE_LINK = (SendReplica, ReplicaPart, ReplicaCredit)
"""Messages that are lost with the link on which they were sent."""


class Peer(WorkerConnection):
    """A worker: its end of transfers, and what is under way to it and from it."""

    def __init__(self, number: int, replicas: WorkerReplicas, memory: str, *, has_data: bool = False) -> None:
        where = (f"tcp://n{number}:7777", bytes([number]) * 16) if has_data else ("", b"")
        hello = Hello(
            "worker", PROTOCOL, PROTOCOL, "3", {}, f"n{number}", "i", 1, "cores=1", [], memory,
            replicas=replicas.directory, data=where[0], data_key=where[1],
        )  # fmt: skip
        super().__init__(number, f"n{number}", ClosedLink("", ""), hello, Cores([0]), 0.0)
        self.replicas = at_once(replicas)
        self.orders: list[Any] = []
        """Messages that its data server was given."""
        data: Any = SimpleNamespace(post=self.orders.append) if has_data else None
        self.transfers = ReplicaTransfers(replicas, self._say, data)
        self.down: deque[Said] = deque()
        self.up: deque[Said] = deque()
        self.away = False

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if not (self.away and isinstance(message, OF_ONE_LINK)):
            self.down.append((message, buffers))

    def _say(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if not (self.away and isinstance(message, OF_ONE_LINK)):
            self.up.append((message, buffers))

    def holds(self, value: object, number: int, attempt: int = 1) -> int:
        """Have a replica there; return its size."""
        size = replica_written(self.replicas.file(number, attempt), dump_value(value))
        self.replicas.add(number, attempt, size)
        return size

    def hear(self) -> bool:
        """Let the worker take one message; False if there is none."""
        if not self.down:
            return False
        message, buffers = self.down.popleft()
        if isinstance(message, DropReplicas):
            self.replicas.drop(message.values, message.attempts)
        else:
            assert isinstance(message, SendReplica | ReplicaCredit | ReplicaPart | StopTransfer | PullReplica)
            self.transfers.hear(message, buffers)
        return True


class World:
    """A head's mover and its workers."""

    def __init__(self, directory: Path, memory: str = "") -> None:
        self.state = HeadState(HeadScheduler(closed=False, seed=1), lambda event: None, 0.0)
        self.told: list[HeadEvent] = []
        self.given: dict[int, Payload] = {}
        self.mover = ValueMover(self.state, ObjectStore(), self.told.append)
        self.mover.given = self._given
        self._directory = directory
        self._memory = memory

    def _given(self, value: int, payload: Payload) -> None:
        assert value not in self.given
        self.given[value] = payload

    def worker(
        self, replicas: WorkerReplicas | None = None, memory: str | None = None, *, has_data: bool = False
    ) -> Peer:
        """A worker more."""
        number = len(self.state.peers) + 1
        if replicas is None:
            path = self._directory / f"n{number}"
            path.mkdir()
            replicas = WorkerReplicas(path)
        peer = Peer(number, replicas, self._memory if memory is None else memory, has_data=has_data)
        self.state.peers[number] = peer
        return peer

    def act(self, action: FetchReplicas | GiveValues | ReplicasDropped) -> None:
        self.mover.act(action)
        self.mover.flush()

    def step(self, peer: Peer) -> bool:
        """Let a worker take what is under way to it, then the head take what is under way from there."""
        moved = False
        while peer.hear():
            moved = True
        while peer.up:
            message, buffers = peer.up.popleft()
            assert isinstance(message, ReplicaPart | ReplicaCredit | Fetched | Unsent | Pulled)
            self.mover.hear(peer, message, [bytes(buffer) for buffer in buffers])
            moved = True
        return moved

    def settle(self, *peers: Peer) -> None:
        """Until nothing is under way."""
        while self.turn(*peers):
            assert self.under_way <= _ALL_BYTES + (1 + len(self.state.peers)) * _TURN_BYTES

    def turn(self, *peers: Peer) -> bool:
        """Let each of them take a step."""
        return sum(map(self.step, peers)) > 0

    @property
    def under_way(self) -> int:
        return self.mover.links._credit.under_way

    def at_rest(self) -> bool:
        idle = not self.mover.links._by_target and not self.state.direct and not any(self.state.begun.values())
        return not self.state.transfers and idle and not self.under_way


LARGE = np.arange(1_500_000, dtype=np.float64)  # 12 MB: more than a window
SMALL = np.arange(20_000, dtype=np.float64)


def fetch(world: World, value: int, size: int, source: Peer, target: Peer) -> None:
    world.act(FetchReplicas(target.number, [value], [1], [size], [source.number]))


def breaks(world: World, peer: Peer) -> None:
    """Lose what belongs to a link, and what the worker drops with it."""
    peer.down = deque(said for said in peer.down if not isinstance(said[0], OF_ONE_LINK))
    peer.up = deque(said for said in peer.up if not isinstance(said[0], OF_ONE_LINK))
    peer.away = True
    world.mover.broke(peer)


def returns(world: World, peer: Peer) -> None:
    peer.away = False
    peer.transfers.link_returned()
    world.mover.returned(peer)
