"""Ends of blocks: how blocks are told to end, and what their ends say about their pool."""

from __future__ import annotations

import re

from grainlike.fleet._block import Block
from grainlike.fleet._events import EndBlocks, Leave, LogRead, Pause, ReadLog
from grainlike.fleet._pool import PoolState
from grainlike.fleet._turn import Turn

__all__ = ["close", "dismiss", "end_natively", "fail", "hold", "log_read", "pause", "press"]

HOLD_S = 30.0
LONGEST_HOLD_S = 900.0
DEATHS = 3
"""Blocks in a row that end before a worker joined, after which a pool is paused."""

NATIVE_END_S = 30.0
"""Seconds for workers to leave before the batch system is told to end their block; it is told again after as many."""

_BY_OTHERS = re.compile(r"cancel|preempt|deleted|revoked", re.IGNORECASE)
"""Ends that somebody else decided, so that they say nothing about the pool."""

_HOPELESS = re.compile(
    r"^(?:grainlike: )?exit code (?:2|126|127)\b|no access file|speaks protocol|another version of grainlike",
    re.IGNORECASE | re.MULTILINE,
)
"""Last words in the log of a block that show that every further block would fail, too."""

_QUOTED_LINES = 4


def dismiss(turn: Turn, block: Block, reason: str, *, at_once: bool = False) -> None:
    """End a block: through its workers if it has some, otherwise through its batch system."""
    if block.leave_reason and (block.at_once or not at_once):
        return
    if not block.leave_reason:
        block.leave_reason, block.leaving_since = reason, turn.now
        turn.records.version += 1
    if at_once:
        block.at_once, block.leaving_since = True, turn.now
    for node in block.connected:
        turn.do(Leave(block.label, node, block.leave_reason, block.at_once))
    if not block.connected:
        end_natively(turn, block)


def end_natively(turn: Turn, block: Block) -> None:
    """Tell the batch system to end a block, once the block's id is known."""
    if block.native:
        block.end_asked_at = turn.now
        turn.do(EndBlocks(block.system, (block.native,)))
    turn.records.system(block.system).hurry(turn.now + 2.0)


def press(turn: Turn, block: Block) -> None:
    """Go on with the end of a block if its workers do not leave, or its batch system did not end it."""
    quiet = _quiet_since(block)
    if quiet is None or not block.native:
        return
    since = quiet if block.end_asked_at is None else max(quiet, block.end_asked_at)
    if turn.due(since + NATIVE_END_S):
        end_natively(turn, block)


def _quiet_since(block: Block) -> float | None:
    """Return the time since which the workers should have left; None while they run jobs that are waited for."""
    if not block.connected:
        return max(block.leaving_since, block.away_since or 0.0)
    if block.at_once:
        return block.leaving_since
    return max(block.leaving_since, block.idle_since) if block.is_idle else None


def close(turn: Turn, block: Block, reason: str) -> None:
    """Record that a block has ended, and draw the conclusions for its pool."""
    records = turn.records
    if block.headless and not block.joined:
        reason = f"{reason}; no head was there when it began"
    reason = block.leave_reason or reason
    records.close(block, reason, turn.now)
    records.version += 1
    state = records.pools.get(block.pool)
    if state is None:
        return
    if block.native:
        state.spent += block.taken(state.cores, turn.now)
    if block.joined:
        state.dormant = state.dormant or not block.worked
    elif not block.leave_reason and not block.headless:
        _early_death(turn, state, block, reason)


def fail(turn: Turn, state: PoolState, block: Block, reason: str) -> None:
    """End a started block without a worker, because it has failed."""
    dismiss(turn, block, reason)
    _early_death(turn, state, block, reason)


def _early_death(turn: Turn, state: PoolState, block: Block, reason: str) -> None:
    text = f"block {block.label} ended before a worker joined: {reason}"
    hold(turn, state, text)
    if _BY_OTHERS.search(reason):
        return
    state.deaths += 1
    turn.do(ReadLog(block.label))
    if state.deaths >= DEATHS:
        pause(turn, state, f"{state.deaths} blocks in a row ended before a worker joined; {text}")


def hold(turn: Turn, state: PoolState, reason: str) -> None:
    """Let a pool submit nothing for a while, which doubles from time to time."""
    wait = min(LONGEST_HOLD_S, HOLD_S * 2.0 ** min(state.held, 10))
    state.held += 1
    state.held_until = max(state.held_until, turn.now + wait)
    state.reason = reason


def pause(turn: Turn, state: PoolState, why: str) -> None:
    """Let a pool submit nothing until it is resumed."""
    if state.paused != why:
        state.paused = why
        turn.records.version += 1
        turn.do(Pause(state.pool.name, why))


def log_read(turn: Turn, event: LogRead) -> None:
    """Find the reason of a block's end in the last lines of its log. A reason that holds for all blocks pauses the
    pool.
    """
    ended = turn.records.ended.get(event.label)
    block = turn.records.blocks.get(event.label)
    record = ended or block
    state = turn.records.pools.get(record.pool) if record is not None else None
    if record is None or state is None or not state.deaths:
        return
    reason = ended.reason if ended is not None else block.leave_reason if block is not None else ""
    if event.tail is None:
        words = f"it ended without a log: is {event.path} shared with the nodes?"
    else:
        lines = [line for line in event.tail.splitlines() if line.strip()]
        words = "\n".join(["its log ends:", *lines[-_QUOTED_LINES:]]) if lines else "its log is empty"
    text = f"block {event.label} ended before a worker joined: {reason}; {words}"
    state.reason = text
    if event.tail is not None and not state.proven and _HOPELESS.search(event.tail):
        pause(turn, state, text)
    elif state.paused and state.deaths >= DEATHS:
        pause(turn, state, f"{state.deaths} blocks in a row ended before a worker joined; {text}")
