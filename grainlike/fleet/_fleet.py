"""Fleet scheduler: how many blocks of workers each pool has, as pure decisions over plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grainlike.fleet._block import Block, EndedBlock
from grainlike.fleet._endings import dismiss, log_read, pause
from grainlike.fleet._events import (
    BlockDismissed,
    FleetAction,
    FleetEvent,
    Joined,
    Left,
    Listed,
    ListingFailed,
    LogRead,
    PoolGone,
    PoolPaused,
    PoolResumed,
    PoolSet,
    Restored,
    StraysGone,
    SubmissionAccepted,
    SubmissionRefused,
    SubmissionUnclear,
    Tick,
    Wanted,
    Working,
)
from grainlike.fleet._listing import ask, end_strays, listed, listing_failed
from grainlike.fleet._pool import PoolState
from grainlike.fleet._records import FleetRecords
from grainlike.fleet._sizing import SOON, count, hindrance, resize, short_of, silence
from grainlike.fleet._submissions import accepted, lost_answer, refused, unclear
from grainlike.fleet._turn import Turn
from grainlike.fleet._workers import attend, joined, left, working

__all__ = ["FleetScheduler"]


class FleetScheduler:
    """Decisions about the blocks of all pools: `handle(event, now) -> actions`, without clock, randomness or waiting.

    The driver that performs the actions sends `Wanted` again whenever `version` has grown. After `Restored`, it sends
    each worker that joins, with its state.

    Args:
        digest: of the cluster, 8 hexadecimal digits or more. No other fleet may have it, because block names have it.
        records: the records of an earlier scheduler of this fleet.

    Example::

        >>> from grainlike.fleet import FleetPool, FleetScheduler, PoolSet
        >>> fleet = FleetScheduler("1a2b3c4d")
        >>> [type(one).__name__ for one in fleet.handle(PoolSet(FleetPool("cpu", "slurm", min=1)), 0.0)]
        ['SubmitBlock', 'ListBlocks', 'Wake']
    """

    def __init__(self, digest: str, records: FleetRecords | None = None) -> None:
        self.records: FleetRecords = FleetRecords(digest) if records is None else records

    @property
    def version(self) -> int:
        """Number that grows when wanted workers are to be counted again."""
        return self.records.version

    def handle(self, event: FleetEvent, now: float) -> list[FleetAction]:
        """Take an event; return the actions. `now` is in seconds, and never goes back."""
        turn = Turn(self.records, now)
        _TAKES[type(event)](turn, event)
        self._go_on(turn)
        return turn.ended()

    def room(self, name: str) -> int:
        """Return the most workers that a pool could still use, besides those that have joined."""
        state = self.records.pools[name]
        if state.going or state.paused:
            return 0
        blocks = self.records.blocks_of(name)
        total = count(state, blocks, 0.0)
        return max(0, state.pool.max - total.all) + sum(block.nodes - len(block.seen) for block in blocks)

    def why(self, name: str, now: float) -> str:
        """Return why a pool does not submit the blocks that it should have; empty if it does, or needs none."""
        state = self.records.pools[name]
        total = count(state, self.records.blocks_of(name), now)
        return self.hindrance(name, now) if state.paused or state.going or short_of(state, total) else ""

    def silence(self, name: str) -> str:
        """Return that the batch system of a pool does not answer, with its words; empty if it does."""
        return silence(self.records, self.records.pools[name].pool.system)

    def hindrance(self, name: str, now: float) -> str:
        """Return why a pool could not submit one more block now; empty if it could."""
        state = self.records.pools[name]
        total = count(state, self.records.blocks_of(name), now)
        return hindrance(Turn(self.records, now), state, total)

    def trouble(self, name: str, now: float) -> str:
        """Return why a pool gets no first worker: it is paused, its batch system does not answer, or had no room for
        the last block. Empty if it has a worker, needs none, or its blocks are on their way.
        """
        state = self.records.pools[name]
        silent = self.records.system(state.pool.system).failing_since is not None
        troubled = state.paused or silent or state.held_until > now
        if not troubled or any(block.connected for block in self.records.blocks_of(name)):
            return ""
        return self.why(name, now)

    def submits_soon(self, name: str, now: float) -> bool:
        """Return True if a pool is about to submit a block, and waits only for its turn at the batch system."""
        return self.why(name, now) in SOON if name in self.records.pools else False

    def block(self, label: str) -> Block | EndedBlock | None:
        """Return the block with a label, if its record still exists."""
        return self.records.blocks.get(label) or self.records.ended.get(label)

    def _go_on(self, turn: Turn) -> None:
        records = self.records
        of_pool: dict[str, list[Block]] = {name: [] for name in records.pools}
        for block in list(records.blocks.values()):
            if block.pool in of_pool:
                of_pool[block.pool].append(block)
            attend(turn, block, records.pools.get(block.pool))
        for system in records.systems.values():
            if system.submitting:
                lost_answer(turn, system)
        for name, state in list(records.pools.items()):
            resize(turn, state, of_pool[name])
            if state.going and not of_pool[name]:
                del records.pools[name]
        for name in records.spare_systems():
            del records.systems[name]
        for system in records.systems.values():
            ask(turn, system)


def _pool_set(turn: Turn, event: PoolSet) -> None:
    records, pool = turn.records, event.pool
    state = records.pools.get(pool.name)
    if state is None:
        records.pools[pool.name] = PoolState(pool, cores=pool.cores)
    else:
        if _makes_other_blocks(state.pool, pool):
            state.proven = False
            # Learned cores are the best guess until the next worker joins; without one, a budget would limit nothing.
            state.cores = pool.cores if pool.cores != state.pool.cores else state.cores
        state.pool = pool
        state.workers = None
        state.going = state.at_once = False
        state.forget_failures()
    records.system(pool.system).ask_anew(turn.now)  # the answer to setting a pool says whether it answers now
    records.version += 1


def _makes_other_blocks(old: Any, new: Any) -> bool:
    return bool((old.system, old.nodes, old.cores) != (new.system, new.nodes, new.cores))


def _pool_gone(turn: Turn, event: PoolGone) -> None:
    state = turn.records.pools.get(event.name)
    if state is None:
        return
    state.going = True
    state.at_once = state.at_once or event.at_once
    turn.records.version += 1
    for block in turn.records.blocks_of(event.name):
        dismiss(turn, block, "the pool is taken down", at_once=state.at_once)


def _block_dismissed(turn: Turn, event: BlockDismissed) -> None:
    block = turn.records.blocks.get(event.label)
    if block is not None:
        dismiss(turn, block, "it was ended by hand", at_once=event.at_once)


def _pool_paused(turn: Turn, event: PoolPaused) -> None:
    state = turn.records.pools.get(event.name)
    if state is not None:
        pause(turn, state, event.why)


def _pool_resumed(turn: Turn, event: PoolResumed) -> None:
    state = turn.records.pools.get(event.name)
    if state is not None:
        state.forget_failures()
        turn.records.version += 1


def _wanted(turn: Turn, event: Wanted) -> None:
    for name, state in turn.records.pools.items():
        if event.version >= state.joined_at:
            state.workers = event.workers.get(name, 0)
            state.kept = frozenset(label for label in event.kept if label in turn.records.blocks)


def _restored(turn: Turn, event: Restored) -> None:  # noqa: ARG001 - as all that take events
    """Treat everything that was on its way as lost: answers, workers, and wanted counts."""
    for system in turn.records.systems.values():
        system.waiting, system.asked_at = False, None
    for block in turn.records.blocks.values():
        if block.joined:
            block.away_since = turn.now
        block.headless = not block.joined
        block.awaited |= set(block.connected)
        block.awaited_since = turn.now
        block.connected = {}
        if block.answered_at is None:
            unclear(turn, SubmissionUnclear(block.label, "the head ended before the answer"))
    for state in turn.records.pools.values():
        state.workers, state.too_many_since, state.joined_at = None, None, 0


def _ticked(turn: Turn, event: Tick) -> None:
    """Do everything that is due; `handle` does this after every event."""


_TAKES: Mapping[type, Callable[[Turn, Any], None]] = {
    PoolSet: _pool_set,
    PoolGone: _pool_gone,
    BlockDismissed: _block_dismissed,
    PoolPaused: _pool_paused,
    PoolResumed: _pool_resumed,
    Wanted: _wanted,
    SubmissionAccepted: accepted,
    SubmissionRefused: refused,
    SubmissionUnclear: unclear,
    Listed: listed,
    ListingFailed: listing_failed,
    Joined: joined,
    Left: left,
    Working: working,
    LogRead: log_read,
    Restored: _restored,
    StraysGone: end_strays,
    Tick: _ticked,
}
