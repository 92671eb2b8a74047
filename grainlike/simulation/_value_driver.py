"""Simulated driver of values that stay: copies, gives and removes them as the head's scheduler says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from grainlike.scheduler import (
    PROGRAM,
    FetchReplicas,
    GiveValues,
    HeadEvent,
    OwnValuesFreed,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
    ReplicasSpared,
    WorkerStored,
)
from grainlike.simulation._client import Client
from grainlike.simulation._clock import Clock
from grainlike.simulation._copies import Copies
from grainlike.simulation._daemon import Daemon, Transfer
from grainlike.simulation._dice import Dice
from grainlike.simulation._plans import Faults, Network
from grainlike.simulation._voice import Voice
from grainlike.simulation._witness import Witness

__all__ = ["ValueDriver"]

_REFUSED_S = 0.05
"""Seconds until it is known that one worker cannot reach another."""

_STALLED_S = 10.0
"""Seconds without a byte after which a copy is given up."""

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
    """Performs the scheduler's actions about values. A report of a copy that has ended for the head, as its source was
    lost, is ignored. If the copy was whole, the head does not know that its target has the replica: the next copy there
    takes its place, or it is removed when the head removes the value.
    """

    def __init__(self, head: _ValueHead, seed: int, network: Network, faults: Faults) -> None:
        self._head = head
        self._seed = seed
        self._faults = faults
        self._copies = Copies(head.clock, network.bytes_per_s)
        self._relayed = network.relayed_bytes_per_s
        self._here: dict[tuple[int, int, int], float] = {}
        """Bytes of a replica that a copy left at its target, by target, value and attempt; another goes on there."""
        self._under_way: dict[tuple[int, int], Transfer] = {}
        """Copies that have not ended for the head, by target and value."""
        self._begun: dict[tuple[int, int, int], None] = {}
        """Replicas of which a copy has ended for the head before it was told how, by target, value and attempt."""
        self._first: dict[int, tuple[Callable[[], float | None], Transfer]] = {}
        """Last copy of each value of the client's own from there, and a function that stops it."""

    def fetch(self, action: FetchReplicas) -> None:
        """Begin copies to a worker."""
        target = self._head.members[action.worker].daemon
        columns = action.values, action.attempts, action.sizes, action.sources, action.relayed
        for value, attempt, size, number, relayed in zip(*columns, strict=True):
            source = None if number == PROGRAM else self._head.members[number].daemon
            self._head.witness.copying(number, action.worker, value, attempt, size, relayed=relayed)
            copy = self._under_way[action.worker, value] = Transfer(number, action.worker, value, attempt, size)
            if self._is_blocked(number, action.worker, relayed=relayed):
                self._head.clock.after(_REFUSED_S, partial(self._failed, copy, unreachable=not relayed))
            elif source is not None and (value, attempt) not in source.store:
                self._head.clock.after(_REFUSED_S, self._missing, copy)
            elif target.rooms is not None:
                ask = partial(self._ask_room, source, target, copy, relayed)
                self._head.members[action.worker].down.send(target.when_thawed, ask)
            elif not self._has_room(target, copy):
                self._head.clock.after(_REFUSED_S, partial(self._failed, copy, refused=True))
            else:
                self._begin(source, target, copy, relayed=relayed)

    def _ask_room(self, source: Daemon | None, target: Daemon, copy: Transfer, relayed: bool) -> None:
        """Ask for room for a copy at its target, which has read by now what the head told it before: some replicas may
        make way no more.
        """
        if self._under_way.get((copy.target, copy.value)) is not copy or target.rooms is None:
            return
        self._replace(target, copy)
        target.coming[copy.value, copy.attempt] = copy
        begin = partial(self._begin_in_room, source, target, copy, relayed)
        target.rooms.ask((copy.value, copy.attempt), copy.size, begin, is_output=False)

    def _replace(self, target: Daemon, copy: Transfer) -> None:
        """Remove a replica of whose arrival the head did not hear, as workers do that are to write it again."""
        replica = (copy.value, copy.attempt)
        if replica not in target.store:
            return
        target.store.remove(replica)
        target.spares.discard(replica)
        self._head.witness.seen["replaced"] += 1
        self._head.witness.removed(target.worker, *replica)
        if target.rooms is not None:
            target.rooms.removed([replica])

    def _begin_in_room(
        self, source: Daemon | None, target: Daemon, copy: Transfer, relayed: bool, has_room: bool
    ) -> None:
        if has_room:
            self._begin(source, target, copy, relayed=relayed)
        else:
            self._head.witness.seen["no room"] += 1
            target.coming.pop((copy.value, copy.attempt), None)
            self._head.clock.after(_REFUSED_S, partial(self._failed, copy, refused=True))

    def _begin(self, source: Daemon | None, target: Daemon, copy: Transfer, *, relayed: bool) -> None:
        """Begin a copy that has room."""
        _, _, value, attempt, size = copy
        here = self._here.pop((copy.target, value, attempt), 0.0)
        arrive = partial(self._arrive, target, copy)
        stop = self._copies.start(source, target, size - here, arrive, self._relayed if relayed else None)
        if source is None:
            self._first[value] = stop, copy
        if self._faults.blocked and not relayed:
            self._look_later(stop, copy)

    def _is_blocked(self, source: int, target: int, *, relayed: bool) -> bool:
        """Return True if a worker does not reach another now. Where values are relayed that has no data servers, it
        cannot be had from there at all for a while; where there are, only the direct way is blocked.
        """
        now = self._head.clock.now
        members = self._head.members
        has_data = source != PROGRAM and members[source].daemon.plan.has_data and members[target].daemon.plan.has_data
        if not self._faults.blocked or now >= self._faults.until or (relayed and has_data):
            return False
        dice = Dice(self._seed).fork(f"blocked {source} {target} {int(now / _WINDOW_S)}")
        return dice.chance(self._faults.blocked)

    def _look_later(self, stop: Callable[[], float | None], copy: Transfer) -> None:
        """Look at a direct copy again when its way may be blocked."""
        clock = self._head.clock
        window = (int(clock.now / _WINDOW_S) + 1) * _WINDOW_S
        clock.at(window, self._look, stop, copy)

    def _look(self, stop: Callable[[], float | None], copy: Transfer) -> None:
        source, target, value, attempt, size = copy
        members = self._head.members
        if not self._head.alive or source not in members or target not in members:
            return
        if not self._is_blocked(source, target, relayed=False):
            if self._head.clock.now < self._faults.until:
                self._look_later(stop, copy)
            return
        left = stop()
        if left is not None:
            self._here[target, value, attempt] = size - left
            self._head.clock.after(_STALLED_S, partial(self._failed, copy, unreachable=True))

    def open_store(self, daemon: Daemon) -> None:
        """Give a worker a store with the real scheduler."""
        from grainlike.simulation._store import SimulatedStore  # few worlds have it

        rooms = daemon.rooms = SimulatedStore(self._head.clock, daemon.plan, lambda: daemon.scheduler.computing)
        rooms.later = daemon.when_thawed
        rooms.evicted = partial(self._evicted, daemon)
        rooms.changed = partial(self._exceeds, daemon)

    def _evicted(self, daemon: Daemon, replica: tuple[int, int]) -> None:
        if replica in daemon.store:
            self._give_up(daemon, *replica)
        else:
            self._here.pop((daemon.worker, *replica), None)

    def _exceeds(self, daemon: Daemon, over: int) -> None:
        if daemon.alive:
            daemon.over = over
            daemon.up.send(self._stored, daemon.worker, over)

    # --- room --------------------------------------------------------------------------------------------------------

    def _used(self, daemon: Daemon) -> int:
        size_of = self._head.witness.size_of
        return sum(size_of(value) for value, _ in daemon.store) + sum(copy.size for copy in daemon.coming.values())

    def _has_room(self, target: Daemon, copy: Transfer) -> bool:
        """Return True if a worker has room for a copy, which is taken then; spare replicas make way."""
        if target.plan.store is None:
            return True
        self._replace(target, copy)
        lacking = self._used(target) + copy.size - target.plan.store
        if target.over or not self._make_way(target, lacking):
            self._head.witness.seen["no room"] += 1
            return False
        target.coming[copy.value, copy.attempt] = copy
        return True

    def may_keep(self, daemon: Daemon, size: int) -> bool:
        """Return True if a worker has room for what a job gives, in its store or beyond; spare replicas make way."""
        plan = daemon.plan
        if plan.store is None or plan.overdraft is None:
            return True
        lacking = self._used(daemon) + size - plan.store
        return self._make_way(daemon, lacking) or lacking <= plan.overdraft

    def _make_way(self, daemon: Daemon, lacking: int) -> bool:
        """Give up spare replicas of so many bytes; none, and return False, where there are not so many."""
        witness = self._head.witness
        chosen: list[tuple[int, int]] = []
        for value, attempt in daemon.least_used():
            if lacking > 0 and not witness.is_used(daemon.worker, value):
                chosen.append((value, attempt))
                lacking -= witness.size_of(value)
        if lacking > 0:
            return False
        for replica in chosen:
            self._give_up(daemon, *replica)
        return True

    def look_at_store(self, daemon: Daemon) -> None:
        """Have a worker give up what exceeds what it may keep, as far as it is spare, and tell how much is left."""
        if daemon.frozen or daemon.plan.store is None:
            return
        over = self._used(daemon) - daemon.plan.store
        for value, attempt in daemon.least_used() if over > 0 else ():
            if over > 0 and not self._head.witness.is_used(daemon.worker, value):
                self._give_up(daemon, value, attempt)
                over -= self._head.witness.size_of(value)
        if max(0, over) != daemon.over:
            daemon.over = max(0, over)
            daemon.up.send(self._stored, daemon.worker, daemon.over)

    def _stored(self, worker: int, over: int) -> None:
        if self._head.alive and worker in self._head.members:
            self._head.witness.exceeds(worker, over)
            self._head.tell(WorkerStored(worker, over))

    def _arrive(self, target: Daemon, copy: Transfer) -> None:
        value, attempt = copy.value, copy.attempt
        target.coming.pop((value, attempt), None)
        target.store.add((value, attempt))
        if target.rooms is not None:
            target.rooms.written((value, attempt))
        target.used_at[value, attempt] = self._head.clock.now
        self._head.witness.stored(target.worker, value, attempt, is_output=False)
        target.up.send(self._fetched, copy)

    def _fetched(self, copy: Transfer) -> None:
        source, target, value, attempt, _ = copy
        if self._head.alive and self._under_way.get((target, value)) is copy:
            del self._under_way[target, value]
            self._begun.pop((target, value, attempt), None)
            self._head.witness.copied(source, target, value, attempt, whole=True)
            self._head.tell(ReplicasArrived(target, [value], [attempt]))

    def _failed(self, copy: Transfer, *, unreachable: bool = False, refused: bool = False) -> None:
        source, target, value, attempt, _ = copy
        members = self._head.members
        if target in members:
            self._take_back(members[target].daemon, copy)
        if self._head.alive and self._under_way.get((target, value)) is copy:
            del self._under_way[target, value]
            self._head.witness.copied(source, target, value, attempt, whole=False, unreachable=unreachable)
            failed = ReplicasFailed(target, [value], [attempt], "it cannot be reached", unreachable, refused)
            self._head.tell(failed)

    def _take_back(self, target: Daemon, copy: Transfer) -> None:
        """Take back the room of a copy that came to nothing, but what it has left there, and unless another copy of the
        same replica has it by now.
        """
        value, attempt = copy.value, copy.attempt
        if target.coming.get((value, attempt)) is not copy:
            return
        del target.coming[value, attempt]
        if target.rooms is None:
            target.look_at_store()
        elif (target.worker, value, attempt) in self._here:
            target.rooms.broke_off((value, attempt))
        else:
            target.rooms.returned((value, attempt))

    def _let_make_way(self, target: Daemon, copy: Transfer) -> None:
        """Let a replica make way of which the head will not hear, as its copy was whole when the head stopped it."""
        replica = (copy.value, copy.attempt)
        if replica in target.store:
            self._head.witness.unheard(target.worker, *replica)
            target.spare([replica], is_spare=True)

    def freed(self, action: OwnValuesFreed) -> None:
        """Give up what is under way of values of the client's own."""
        for value in action.values:
            self._head.witness.own_freed(value)
            first = self._first.pop(value, None)
            if first is not None and first[0]() is not None:
                self._head.clock.after(0.0, self._failed, first[1])

    def _missing(self, copy: Transfer) -> None:
        source, _, value, attempt, _ = copy
        source_peer = self._head.members.get(source)
        # What a worker says arrives in order: nothing that came to it since is gone.
        if self._head.alive and source_peer is not None and (value, attempt) not in source_peer.daemon.store:
            self._tell_gone(source, value, attempt)
        self._failed(copy)

    def damage(self, daemon: Daemon, dice: Dice) -> None:
        """Let a replica of a worker be damaged, which it notices."""
        if daemon.store and daemon.alive and not daemon.frozen:
            value, attempt = dice.pick(sorted(daemon.store))
            daemon.store.discard((value, attempt))
            daemon.spares.discard((value, attempt))
            if daemon.rooms is not None:
                daemon.rooms.removed([(value, attempt)])
            self._head.witness.damaged(daemon.worker, value, attempt)
            daemon.up.send(self._gone, daemon.worker, value, attempt)
            daemon.look_at_store()

    def _gone(self, worker: int, value: int, attempt: int) -> None:
        if self._head.alive and worker in self._head.members:
            self._tell_gone(worker, value, attempt)

    def _tell_gone(self, worker: int, value: int, attempt: int) -> None:
        self._head.witness.heard_gone(worker, value, attempt)
        self._head.tell(ReplicasGone(worker, [value], [attempt]))

    def drop(self, action: ReplicasDropped) -> None:
        """Have a worker remove replicas."""
        self._head.witness.dropping(action)
        peer = self._head.members[action.worker]
        replicas = list(zip(action.values, action.attempts, strict=True))
        for replica in replicas:
            self._begun.pop((action.worker, *replica), None)
        peer.down.send(peer.daemon.drop, replicas)
        self._remove([key for key in self._begun if key[1:] in replicas])

    def forget(self, values: Sequence[int]) -> None:
        """Have workers remove replicas of which the head did not hear, of values that nothing needs."""
        self._remove([key for key in self._begun if key[1] in values])

    def _remove(self, keys: list[tuple[int, int, int]]) -> None:
        for target, value, attempt in keys:
            del self._begun[target, value, attempt]
            peer = self._head.members[target]
            peer.down.send(peer.daemon.drop, [(value, attempt)])

    def spare(self, action: ReplicasSpared) -> None:
        """Let a worker know which replicas it may give up."""
        self._head.witness.sparing(action)
        peer = self._head.members[action.worker]
        replicas = list(zip(action.values, action.attempts, strict=True))
        peer.down.send(peer.daemon.spare, replicas, action.is_spare)

    def evict(self, daemon: Daemon, dice: Dice) -> None:
        """Let a worker give up a spare replica that no job of its own uses."""
        if daemon.spares and daemon.alive and not daemon.frozen:
            value, attempt = dice.pick(sorted(daemon.spares))
            if not self._head.witness.is_used(daemon.worker, value):
                self._give_up(daemon, value, attempt)
                if daemon.rooms is not None:
                    daemon.rooms.removed([(value, attempt)])

    def _give_up(self, daemon: Daemon, value: int, attempt: int) -> None:
        daemon.spares.discard((value, attempt))
        daemon.store.discard((value, attempt))
        self._head.witness.evicted(daemon.worker, value, attempt)
        daemon.up.send(self._gone, daemon.worker, value, attempt)

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
            self._tell_gone(worker, value, attempt)

    def die(self) -> None:
        """Stop all that is under way."""
        self._copies.stop_all()

    def left(self, worker: int) -> None:
        """Stop what goes to a worker that was given up, and comes from it."""
        members = self._head.members
        for peer in members.values():
            for copy in list(peer.daemon.coming.values()):
                if copy.source == worker:
                    self._take_back(peer.daemon, copy)
        ended = [copy for copy in self._under_way.values() if worker in (copy.source, copy.target)]
        for copy in ended:
            del self._under_way[copy.target, copy.value]
            self._begun[copy.target, copy.value, copy.attempt] = None
            if copy.target != worker:
                self._let_make_way(members[copy.target].daemon, copy)
        self._begun = {key: None for key in self._begun if key[0] != worker}
        self._copies.stop(worker)
