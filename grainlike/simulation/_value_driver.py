"""Simulated driver of values that stay: copies, gives and removes them as the head's scheduler says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from grainlike.scheduler import (
    FetchReplicas,
    GiveValues,
    HeadEvent,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
)
from grainlike.simulation._client import Client
from grainlike.simulation._clock import Clock
from grainlike.simulation._copies import Copies
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._dice import Dice
from grainlike.simulation._plans import Faults, Network
from grainlike.simulation._voice import Voice
from grainlike.simulation._witness import Witness

__all__ = ["ValueDriver"]

_REFUSED_S = 0.05
"""Seconds until it is known that one worker cannot reach another."""

_WINDOW_S = 5.0
"""Seconds for which a pair of workers can, or cannot, reach one another."""


class _Peer(Protocol):
    daemon: Daemon
    down: Voice


class _ValueHead(Protocol):
    clock: Clock
    witness: Witness
    client: Client
    alive: bool

    @property
    def members(self) -> Mapping[int, _Peer]:
        """The connected workers."""
        ...

    def tell(self, event: HeadEvent) -> None:
        """Give the scheduler an event."""


class ValueDriver:
    """Performs the scheduler's actions about values."""

    def __init__(self, head: _ValueHead, seed: int, network: Network, faults: Faults) -> None:
        self._head = head
        self._seed = seed
        self._faults = faults
        self._copies = Copies(head.clock, network.bytes_per_s)

    def fetch(self, action: FetchReplicas) -> None:
        """Begin copies to a worker."""
        target = self._head.members[action.worker].daemon
        for value, attempt, size, number in zip(
            action.values, action.attempts, action.sizes, action.sources, strict=True
        ):
            source = self._head.members[number].daemon
            self._head.witness.copying(number, action.worker, value, attempt, size)
            if self._is_blocked(number, action.worker):
                self._head.clock.after(_REFUSED_S, self._failed, number, action.worker, value, attempt)
            elif (value, attempt) not in source.store:
                self._head.clock.after(_REFUSED_S, self._missing, number, action.worker, value, attempt)
            else:
                arrive = partial(self._arrive, number, target, value, attempt)
                self._copies.start(source, target, size, arrive)

    def _is_blocked(self, source: int, target: int) -> bool:
        now = self._head.clock.now
        if not self._faults.blocked or now >= self._faults.until:
            return False
        dice = Dice(self._seed).fork(f"blocked {source} {target} {int(now / _WINDOW_S)}")
        return dice.chance(self._faults.blocked)

    def _arrive(self, source: int, target: Daemon, value: int, attempt: int) -> None:
        target.store.add((value, attempt))
        self._head.witness.stored(target.worker, value, attempt)
        target.up.send(self._fetched, source, target.worker, value, attempt)

    def _fetched(self, source: int, target: int, value: int, attempt: int) -> None:
        if self._head.alive and target in self._head.members:
            self._head.witness.copied(source, target, value, attempt, whole=True)
            self._head.tell(ReplicasArrived(target, [value], [attempt]))

    def _failed(self, source: int, target: int, value: int, attempt: int) -> None:
        members = self._head.members
        if self._head.alive and source in members and target in members:
            self._head.witness.copied(source, target, value, attempt, whole=False)
            self._head.tell(ReplicasFailed(target, [value], [attempt], "it cannot be reached"))

    def _missing(self, source: int, target: int, value: int, attempt: int) -> None:
        if self._head.alive and source in self._head.members:
            self._head.tell(ReplicasGone(source, [value], [attempt]))
        self._failed(source, target, value, attempt)

    def damage(self, daemon: Daemon, dice: Dice) -> None:
        """Let a replica of a worker be damaged, which it notices."""
        if daemon.store and daemon.alive and not daemon.frozen:
            value, attempt = dice.pick(sorted(daemon.store))
            daemon.store.discard((value, attempt))
            self._head.witness.damaged(daemon.worker, value, attempt)
            daemon.up.send(self._gone, daemon.worker, value, attempt)

    def _gone(self, worker: int, value: int, attempt: int) -> None:
        if self._head.alive and worker in self._head.members:
            self._head.tell(ReplicasGone(worker, [value], [attempt]))

    def drop(self, action: ReplicasDropped) -> None:
        """Have a worker remove replicas."""
        self._head.witness.dropping(action)
        peer = self._head.members[action.worker]
        peer.down.send(peer.daemon.drop, list(zip(action.values, action.attempts, strict=True)))

    def give(self, action: GiveValues) -> None:
        """Bring values to the program."""
        source = self._head.members[action.worker].daemon
        for value, attempt, size in zip(action.values, action.attempts, action.sizes, strict=True):
            self._head.witness.giving(action.worker, value, attempt)
            self._copies.start(source, None, size, partial(self._give, action.worker, value, attempt))

    def _give(self, worker: int, value: int, attempt: int) -> None:
        if not self._head.alive or worker not in self._head.members:
            return
        if (value, attempt) in self._head.members[worker].daemon.store:
            self._head.client.given(value)
        else:
            self._head.tell(ReplicasGone(worker, [value], [attempt]))

    def die(self) -> None:
        """Stop all that is under way."""
        self._copies.stop_all()

    def left(self, worker: int) -> None:
        """Stop what goes to a worker that was given up, and comes from it."""
        self._copies.stop(worker)
