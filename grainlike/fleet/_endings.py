"""Ends of blocks: how they are asked to end, and what it says about their pool that they did."""

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
"""Time for workers to leave before the batch system ends their block; it is told again as often."""

_BY_OTHERS = re.compile(r"cancel|preempt|deleted|revoked", re.IGNORECASE)
"""Ends that somebody else decided, which say nothing about the pool."""

_HOPELESS = re.compile(
    r"^(?:grainlike: )?exit code (?:2|126|127)\b|no access file|speaks protocol|another version of grainlike",
    re.IGNORECASE | re.MULTILINE,
)
"""Last words of a block that another one would say as well."""

_QUOTED_LINES = 4


def dismiss(turn: Turn, block: Block, reason: str, *, at_once: bool = False) -> None:
    """Have a block end: by its workers where it has some, else by its batch system."""
    if block.leave_reason and (block.at_once or not at_once):
        return
    if not block.leave_reason:
        block.leave_reason, block.leaving_since = reason, turn.now
        turn.books.version += 1
    if at_once:
        block.at_once, block.leaving_since = True, turn.now
    for node in block.connected:
        turn.do(Leave(block.label, node, block.leave_reason, block.at_once))
    if not block.connected:
        end_natively(turn, block)


def end_natively(turn: Turn, block: Block) -> None:
    """Tell the batch system to end a block, once its id is known."""
    if block.native:
        block.end_asked_at = turn.now
        turn.do(EndBlocks(block.system, (block.native,)))
    turn.books.system(block.system).hurry(turn.now + 2.0)


def press(turn: Turn, block: Block) -> None:
    """Go on with a block that is to end, where its workers do not leave or its batch system did not hear."""
    quiet = _quiet_since(block)
    if quiet is None or not block.native:
        return
    since = quiet if block.end_asked_at is None else max(quiet, block.end_asked_at)
    if turn.due(since + NATIVE_END_S):
        end_natively(turn, block)


def _quiet_since(block: Block) -> float | None:
    """Return the time since which its workers should have left; None while jobs that are waited for run on them."""
    if not block.connected:
        return max(block.leaving_since, block.away_since or 0.0)
    if block.at_once:
        return block.leaving_since
    return max(block.leaving_since, block.idle_since) if block.is_idle else None


def close(turn: Turn, block: Block, reason: str) -> None:
    """Take a block for ended, and draw the conclusions for its pool."""
    books = turn.books
    if block.headless and not block.joined:
        reason = f"{reason}; no head was there when it began"
    reason = block.leave_reason or reason
    books.close(block, reason, turn.now)
    books.version += 1
    state = books.pools.get(block.pool)
    if state is None:
        return
    if block.native:
        state.spent += block.taken(state.cores, turn.now)
    if block.joined:
        state.dormant = state.dormant or not block.worked
    elif not block.leave_reason and not block.headless:
        _early_death(turn, state, block, reason)


def fail(turn: Turn, state: PoolState, block: Block, reason: str) -> None:
    """End a started block that has no worker yet, as one that failed."""
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
    """Have a pool submit nothing for a while, which doubles from time to time."""
    wait = min(LONGEST_HOLD_S, HOLD_S * 2.0 ** min(state.held, 10))
    state.held += 1
    state.held_until = max(state.held_until, turn.now + wait)
    state.reason = reason


def pause(turn: Turn, state: PoolState, why: str) -> None:
    """Have a pool submit nothing until somebody says otherwise."""
    if state.paused != why:
        state.paused = why
        turn.books.version += 1
        turn.do(Pause(state.pool.name, why))


def log_read(turn: Turn, event: LogRead) -> None:
    """Take the last lines of a block's log for the reason of its end; some say that no other block will do better."""
    ended = turn.books.ended.get(event.label)
    block = turn.books.blocks.get(event.label)
    record = ended or block
    state = turn.books.pools.get(record.pool) if record is not None else None
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
