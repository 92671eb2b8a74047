"""Stores of workers after any order of events: no file is left without a record."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from values_world import Peer, World, breaks, returns

from grainlike.head._shared_memory import ObjectStore
from grainlike.head.values._mover import ValueMover
from grainlike.payload import dump_value
from grainlike.scheduler import (
    PROGRAM,
    FetchReplicas,
    HeadEvent,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
)
from grainlike.wire import (
    Evicted,
    Fetched,
    Frame,
    Pulled,
    PullInto,
    Received,
    ReplicaCredit,
    ReplicaPart,
    StopTransfer,
    Unsent,
)

VALUE = np.arange(140_000, dtype=np.float64)  # two parts
ROUNDS = 200


class Trial:
    """Events of a head and its workers in the order of a seed. What a worker begins in the background begins later."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.dice = random.Random(seed)
        self.world = World(directory)
        self.peers = [self.world.worker(has_data=at != 1) for at in range(4)]
        self.begun: dict[int, list[Callable[[], object]]] = {}
        self.pulls: list[tuple[Peer, PullInto]] = []
        """Pulls that data servers have under way, each with its worker."""
        self.where: dict[int, set[int]] = {}
        """Workers that have each value that is needed."""
        self.sizes: dict[int, int] = {}
        self.last = 0
        for peer in self.peers:
            self._defer(peer)

    def _defer(self, peer: Peer) -> None:
        begun = self.begun[peer.number] = []
        run = peer.replicas.start
        peer.replicas.start = lambda *call: begun.append(lambda: run(*call))

    # --- what the scheduler does -------------------------------------------------------------------------------------

    def add(self) -> None:
        """Add a value, of the program's own or of a worker's."""
        self.last += 1
        self.where[self.last] = set()
        if self.dice.random() < 0.5:
            self.sizes[self.last] = self.world.mover.own.add(self.last, dump_value(VALUE))
        else:
            home = self.dice.choice(self.peers)
            self.sizes[self.last] = home.holds(VALUE, self.last)
            self.where[self.last].add(home.number)

    def copy(self) -> None:
        """Have a worker get a value from whoever may give it, once more if it is under way."""
        if not self.where:
            return
        value = self.dice.choice(sorted(self.where))
        targets = [peer.number for peer in self.peers if peer.number not in self.where[value]]
        sources = sorted(self.where[value]) or [PROGRAM]
        if targets:
            ends = self.dice.choice(targets), [value], [1], [self.sizes[value]], [self.dice.choice(sources)]
            self.world.act(FetchReplicas(*ends, [self.dice.random() < 0.5]))
            self.conclude()

    def release(self) -> None:
        """Let a value be needed no more."""
        if self.where:
            value = self.dice.choice(sorted(self.where))
            for worker in self.where.pop(value):
                self.world.act(ReplicasDropped(worker, [value], [1]))
            self.world.mover.freed([value])
            self.world.mover.own.free([value])
            self.world.mover.forget([value])
            self.world.mover.flush()
            self.conclude()

    def conclude(self) -> None:
        """Draw what follows from what the scheduler was told."""
        while self.world.told:
            told: list[HeadEvent] = list(self.world.told)
            self.world.told.clear()
            for event in told:
                if isinstance(event, ReplicasArrived | ReplicasFailed):
                    self._copied(event)

    def _copied(self, event: ReplicasArrived | ReplicasFailed) -> None:
        (value,) = event.values
        if value not in self.where:
            self.world.act(ReplicasDropped(event.worker, [value], [1]))
        elif isinstance(event, ReplicasArrived):
            self.where[value].add(event.worker)

    # --- what happens to workers -------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Have a worker take some messages in one turn."""
        peer = self.dice.choice(self.peers)
        for _ in range(0 if peer.away else self.dice.randint(1, 4)):
            peer.hear()
        self._order(peer)

    def _order(self, peer: Peer) -> None:
        """Have a worker's data server take what its daemon says."""
        while peer.orders:
            order = peer.orders.pop(0)
            if isinstance(order, PullInto):
                self.pulls.append((peer, order))
            else:
                assert isinstance(order, StopTransfer)
                self.pulls = [one for one in self.pulls if one[1].order.transfer != order.transfer]

    def begin(self) -> None:
        """Run what a worker has begun in the background."""
        peer = self.dice.choice(self.peers)
        begun = self.begun[peer.number]
        while begun:
            begun.pop(0)()
        self._order(peer)

    def say(self) -> None:
        """Have the head take a message of a worker."""
        peer = self.dice.choice(self.peers)
        if peer.up and not peer.away:
            message, buffers = peer.up.popleft()
            assert isinstance(message, ReplicaPart | ReplicaCredit | Fetched | Unsent | Pulled | Evicted)
            self.world.mover.hear(peer, message, [bytes(buffer) for buffer in buffers])
            self.conclude()

    def pull(self) -> None:
        """Have a data server say how far it is with a pull, or that it has ended."""
        if self.pulls:
            peer, into = self.dice.choice(self.pulls)
            order = into.order
            said: Any = self.dice.choice(
                [
                    Pulled([order.transfer], [order.size // 2]),
                    Received(order.transfer, 0),
                    Unsent(order.transfer, "a failure", at=order.size // 2, unreachable=True),
                    Unsent(order.transfer, "it is gone", gone=True),
                ]
            )
            if not isinstance(said, Pulled):
                self.pulls.remove((peer, into))
            peer.transfers.pulls.hear([Frame(said, ())])

    def relink(self) -> None:
        """Break the link of a worker, which comes back."""
        peer = self.dice.choice(self.peers)
        (returns if peer.away else breaks)(self.world, peer)
        self.conclude()

    def restart(self) -> None:
        """Make the head again from its state; what its own program had is gone, and workers come back by and by."""
        world = self.world
        for peer in self.peers:
            if not peer.away:
                breaks(world, peer)
        world.mover = ValueMover(world.state, ObjectStore(), world.told.append)
        world.mover.restore()
        world.mover.flush()
        self.conclude()

    def lose(self) -> None:
        """Lose a worker."""
        if len(self.peers) > 1:
            peer = self.peers.pop(self.dice.randrange(len(self.peers)))
            del self.world.state.peers[peer.number]
            self.pulls = [one for one in self.pulls if one[0] is not peer]
            for holders in self.where.values():
                holders.discard(peer.number)
            state = self.world.state
            for copy in [*state.transfers.values(), *state.direct.values()]:
                if copy.source == peer.number and copy.value not in self.where:
                    self.world.act(ReplicasDropped(copy.target, [copy.value], [1]))
            self.world.mover.left(peer)
            self.world.mover.flush()
            self.conclude()

    # --- the trial ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let things happen, then let all values go, and all come to rest."""
        steps = [self.add, self.release, self.relink, *[self.copy] * 3]
        steps += [self.hear, self.begin, self.say, self.pull] * 5
        for at in range(ROUNDS):
            self.dice.choice(steps)()
            if at % 60 == 59:
                self.dice.choice([self.lose, self.lose, self.restart, lambda: None])()
        while self.where:
            self.release()
        for peer in self.peers:
            if peer.away:
                returns(self.world, peer)
        while self.pulls or any(peer.down or peer.up or self.begun[peer.number] for peer in self.peers):
            for step in (self.hear, self.begin, self.say, self.pull):
                step()


@pytest.mark.parametrize("seed", range(60))
def test_at_rest_there_is_no_file_that_no_book_knows(seed: int, tmp_path: Path) -> None:
    trial = Trial(seed, tmp_path)
    trial.run()
    for peer in trial.peers:
        assert peer.replicas.path is not None
        assert [path.name for path in peer.replicas.path.iterdir()] == []
        assert peer.replicas._scheduler.records.replicas == {}
        assert (peer.replicas.rooms, peer.replicas.begun, peer.replicas.sizes) == ({}, {}, {})
    assert trial.world.state.begun == {}
    assert trial.world.at_rest()
