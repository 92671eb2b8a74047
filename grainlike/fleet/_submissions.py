"""Submissions: a block has a record before its command runs, and is looked for if the command has no clear answer."""

from __future__ import annotations

from grainlike.fleet._block import Block
from grainlike.fleet._endings import end_natively, hold, pause
from grainlike.fleet._events import EndBlocks, SubmissionAccepted, SubmissionRefused, SubmissionUnclear, SubmitBlock
from grainlike.fleet._pool import PoolState
from grainlike.fleet._system import ANSWER_S, SystemState
from grainlike.fleet._turn import Turn

__all__ = ["accepted", "look_in_vain", "lost_answer", "refused", "submit", "unclear"]

LOOK_S = 30.0
LOOKS = 2
"""Listings without the block, this far apart, after which a submission without a clear answer never arrived."""


def submit(turn: Turn, state: PoolState) -> None:
    """Record a new block, and submit it."""
    records, pool = turn.records, state.pool
    records.last_number += 1
    label = f"{pool.name}-{records.last_number}"
    records.blocks[label] = Block(
        label,
        pool.name,
        pool.system,
        records.last_number,
        pool.nodes,
        pool.walltime_s,
        pool.cores,
        turn.now,
        idle_before=turn.now,
    )
    system = records.system(pool.system)
    system.submitting, system.submitted_at = label, turn.now
    records.version += 1
    turn.do(SubmitBlock(label, pool.name, records.last_number))


def accepted(turn: Turn, event: SubmissionAccepted) -> None:
    """Take the id of a block. A block that is not wanted any more, or has another id, is ended."""
    block = _answered(turn, event.label)
    if block is None:
        ended = turn.records.ended.get(event.label)
        state = turn.records.pools.get(ended.pool) if ended is not None else None
        if state is not None:
            turn.do(EndBlocks(state.pool.system, (event.native,)))
        return
    if block.native and block.native != event.native:
        turn.do(EndBlocks(block.system, (event.native,)))
        return
    take_native(turn, block, event.native)
    state = turn.records.pools.get(block.pool)
    if state is not None and not state.deaths:
        state.held, state.reason = 0, ""


def take_native(turn: Turn, block: Block, native: str) -> None:
    """Take the id under which a batch system has a block."""
    if block.native:
        return
    block.native, block.accepted_at, block.reason = native, turn.now, ""
    if block.leave_reason and not block.connected:
        end_natively(turn, block)


def refused(turn: Turn, event: SubmissionRefused) -> None:
    """Forget a block that was refused. Its pool waits if a limit may be over later, and is paused otherwise.

    If one machine of several refused, the next block asks another machine at once.
    """
    block = _answered(turn, event.label)
    if block is None or block.native or block.joined:
        return  # a listing has the block already
    state = turn.records.pools.get(block.pool)
    turn.records.close(block, event.words, turn.now)
    turn.records.version += 1
    if state is None or block.leave_reason:
        return
    if event.elsewhere:
        state.reason = event.words
    elif event.waits:
        hold(turn, state, event.words)
    else:
        state.reason = event.words
        pause(turn, state, event.words)


def unclear(turn: Turn, event: SubmissionUnclear) -> None:
    """Look for a block by its name, because it may have been accepted."""
    block = _answered(turn, event.label)
    if block is not None and not block.native:
        block.reason = event.words
        block.looked_at = None
        turn.records.system(block.system).hurry(turn.now + 1.0)


def lost_answer(turn: Turn, system: SystemState) -> None:
    """Treat a submission whose answer does not come as unclear."""
    block = turn.records.blocks.get(system.submitting)
    if block is None:
        system.submitting = ""
    elif turn.due(block.submitted_at + ANSWER_S):
        unclear(turn, SubmissionUnclear(block.label, "no answer to the submission"))


def look_in_vain(turn: Turn, block: Block, asked: float) -> None:
    """Count a listing without a block that may have been accepted."""
    earliest = block.answered_at if block.looked_at is None else block.looked_at + LOOK_S
    if earliest is None or asked < earliest:
        return
    block.looked_at = asked
    block.looks += 1
    if block.looks < LOOKS:
        turn.records.system(block.system).hurry(asked + LOOK_S + 1.0)
        return
    state = turn.records.pools.get(block.pool)
    words = block.reason
    turn.records.close(block, block.leave_reason or f"never arrived: {words}", turn.now)
    turn.records.version += 1
    if state is not None and not block.leave_reason:
        hold(turn, state, f"block {block.label} never arrived: {words}")


def _answered(turn: Turn, label: str) -> Block | None:
    for system in turn.records.systems.values():
        if system.submitting == label:
            system.submitting = ""
    block = turn.records.blocks.get(label)
    if block is not None:
        block.answered_at = turn.now
    return block
