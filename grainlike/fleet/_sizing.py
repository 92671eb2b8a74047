"""Sizes of pools: how many blocks each should have, why it does not submit, and which blocks are to end."""

from __future__ import annotations

from dataclasses import dataclass

from grainlike.fleet._block import Block
from grainlike.fleet._endings import dismiss, pause
from grainlike.fleet._pool import PoolState
from grainlike.fleet._records import FleetRecords
from grainlike.fleet._submissions import submit
from grainlike.fleet._turn import Turn

__all__ = ["SOON", "PoolCount", "count", "hindrance", "resize", "short_of", "silence"]

BETWEEN_S = 1.0
"""Time between two submissions to one batch system."""

TOO_MANY_S = 60.0
"""Seconds for which there must be too many blocks without a break before pending blocks are withdrawn."""

_NO_ANSWER = "another submission has no answer yet"
_ONE_A_SECOND = "one block a second is submitted"
SOON = (_NO_ANSWER, _ONE_A_SECOND)
"""Hindrances that will be over in a moment."""


@dataclass(slots=True)
class PoolCount:
    """Workers of a pool, and their blocks.

    Attributes:
        blocks: live blocks, the oldest first.
        all: workers of these blocks.
        staying: workers of the blocks that are not to end.
        missing: workers of those blocks that are still to come.
        waiting: blocks without a worker yet, including blocks in the batch queue.
        queued: blocks in the batch queue, or on their way into it.
    """

    blocks: list[Block]
    all: int = 0
    staying: int = 0
    missing: int = 0
    waiting: int = 0
    queued: int = 0


def count(state: PoolState, blocks: list[Block], now: float) -> PoolCount:
    """Return the count of a pool's blocks."""
    all_of_them = staying = missing = waiting = queued = 0
    join_s = state.pool.join_s
    for block in blocks:
        nodes = block.nodes
        all_of_them += nodes
        if block.leave_reason:
            continue
        staying += nodes
        if len(block.seen) < nodes:
            missing += block.missing(now, join_s)
        waiting += not block.joined
        queued += not block.running
    return PoolCount(blocks, all_of_them, staying, missing, waiting, queued)


def resize(turn: Turn, state: PoolState, blocks: list[Block]) -> None:
    """Submit, withdraw and end blocks of a pool, as its numbers and the wanted workers require."""
    if state.workers:
        state.dormant = False
    total = count(state, blocks, turn.now)
    if state.going:
        return
    _shrink(turn, state, total)
    _end_idle(turn, state, total)
    _withdraw(turn, state, total)
    if not short_of(state, total):
        return
    why = hindrance(turn, state, total)
    if not why:
        submit(turn, state)
        turn.at(turn.now + BETWEEN_S)
    elif not total.blocks and why == _over_budget(state, total):
        pause(turn, state, why)


def short_of(state: PoolState, total: PoolCount) -> int:
    """Return how many workers a pool should get besides those that it has or that are on their way."""
    least = 0 if state.dormant else state.pool.min - total.staying
    return max(least, (state.workers or 0) - total.missing, 0)


def hindrance(turn: Turn, state: PoolState, total: PoolCount) -> str:
    """Return why a pool submits no block now; empty if it can."""
    pool, now = state.pool, turn.now
    if state.going:
        return "it is going down"
    if state.paused:
        return f"paused: {state.paused}"
    system = turn.records.system(pool.system)
    if system.failing_since is not None:
        return silence(turn.records, pool.system)
    if total.all + pool.nodes > pool.max:
        return f"it has as many workers as it may, {pool.max}"
    if not turn.due(state.held_until):
        return f"held for {state.held_until - now:.0f} s more: {state.reason}"
    room = state.unproven_room
    if room is not None and total.waiting >= room:
        return "its first worker has not joined yet" if not state.deaths else state.reason
    if total.queued >= pool.pending:
        return f"{total.queued} blocks are in the batch queue"
    if system.submitting:
        return _NO_ANSWER
    if system.submitted_at is not None and not turn.due(system.submitted_at + BETWEEN_S):
        return _ONE_A_SECOND
    return _over_budget(state, total)


def silence(records: FleetRecords, name: str) -> str:
    """Return that a batch system does not answer, with its words; empty if it does."""
    system = records.system(name)
    return "" if system.failing_since is None else f"{name} does not answer: {system.failing}"


def _over_budget(state: PoolState, total: PoolCount) -> str:
    """Return that a budget has no room for another block; empty if it has room, or there is no budget."""
    pool = state.pool
    if pool.budget is None:
        return ""
    cores = state.cores
    if not cores and total.blocks:
        return "a budget waits for what the first block offers"
    committed = state.spent + sum(block.price(cores) for block in total.blocks)
    another = pool.nodes * cores * (pool.walltime_s or 0.0) / 3600
    if committed + another <= pool.budget:
        return ""
    if not total.blocks:
        return f"{state.spent:.3g} of {pool.budget:g} core-hours spent, and a block takes {another:.3g}"
    return f"{committed:.3g} of {pool.budget:g} core-hours are spent or set aside, and a block takes {another:.3g}"


def _withdraw(turn: Turn, state: PoolState, total: PoolCount) -> None:
    """Withdraw pending blocks, the youngest first, if there were too many for a while without a break."""
    if state.workers is None:
        return
    system = turn.records.system(state.pool.system)
    if system.failing_since is not None:
        return
    needed = max(state.workers, state.pool.min - (total.staying - total.missing), 0)
    spare = total.missing - needed
    pending = [block for block in total.blocks if block.phase == "pending" and not block.joined]
    if not pending or spare < state.pool.nodes:
        state.too_many_since = None
        return
    if state.too_many_since is None:
        state.too_many_since = turn.now
    if not turn.due(state.too_many_since + TOO_MANY_S):
        return
    for block in reversed(pending):
        if spare >= block.nodes:
            dismiss(turn, block, "withdrawn: it is not wanted any more")
            spare -= block.nodes
            total.staying -= block.nodes
            total.missing -= block.nodes


def _end_idle(turn: Turn, state: PoolState, total: PoolCount) -> None:
    """End blocks whose workers have all been idle for long. `min` workers stay, except those that help no job.

    A worker that joins makes the count of wanted workers unknown. No block ends until the next count, because a job may
    wait for that worker.
    """
    if state.workers is None:
        return
    pool = state.pool
    for block in total.blocks:
        if block.leave_reason or not block.is_idle:
            continue
        crippled = len(block.connected) < block.nodes  # it takes the place of a block with all its workers
        if block.label in state.kept and not crippled:
            continue
        if block.missing(turn.now, pool.join_s) or not turn.due(block.idle_since + pool.idle_s):
            continue
        if total.staying - block.nodes >= pool.min or state.workers or crippled:
            dismiss(turn, block, f"idle for {pool.idle_s:g} s")
            total.staying -= block.nodes


def _shrink(turn: Turn, state: PoolState, total: PoolCount) -> None:
    """End the blocks that are more than a pool may have now, those first whose end costs least."""
    if total.staying <= state.pool.max:
        return
    order = {"intent": 0, "pending": 1, "starting": 2, "up": 4}
    staying = [block for block in total.blocks if not block.leave_reason]
    staying.sort(key=lambda block: (3 if block.is_idle else order[block.phase], -block.number))
    for block in staying:
        if total.staying <= state.pool.max:
            return
        dismiss(turn, block, f"the pool may have {state.pool.max} workers now")
        total.staying -= block.nodes
        total.missing -= block.missing(turn.now, state.pool.join_s)
