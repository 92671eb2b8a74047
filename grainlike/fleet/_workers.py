"""Workers of blocks: which have joined, which are idle, and blocks whose workers do not come, or do not come back."""

from __future__ import annotations

from grainlike.fleet._block import Block
from grainlike.fleet._endings import dismiss, fail, press
from grainlike.fleet._events import Joined, Leave, Left, TellTimeLeft, Working
from grainlike.fleet._pool import PoolState
from grainlike.fleet._turn import Turn

__all__ = ["attend", "joined", "left", "working"]


def joined(turn: Turn, event: Joined) -> None:
    """Record a worker of a block, which proves its pool. A worker whose block has no record is told to leave."""
    block = turn.records.blocks.get(event.label)
    if block is None:
        turn.do(Leave(event.label, event.node, "its block has ended", at_once=True))
        return
    if not block.running:
        block.running, block.started_at = True, turn.now
        block.reason = block.place = ""  # these said why the block waited, and until when
    block.joined, block.away_since = True, None
    block.seen.add(event.node)
    block.awaited.discard(event.node)
    block.worked = block.worked or not event.idle
    before = block.connected.get(event.node)
    again = event.node in block.connected and before is not None
    block.connected[event.node] = None if not event.idle else before if again else turn.now
    state = turn.records.pools.get(block.pool)
    turn.records.version += 1
    if state is not None:
        state.joined_at, state.workers = turn.records.version, None
        state.proven, state.deaths, state.held, state.held_until = True, 0, 0, 0.0
        state.reason = ""
        state.cores = state.cores or event.cores
    block.cores = block.cores or event.cores
    if block.ends_at is not None:  # a listing has said it before this worker joined
        turn.do(TellTimeLeft(block.label, block.ends_at - turn.now))
    if block.leave_reason:
        turn.do(Leave(block.label, event.node, block.leave_reason, block.at_once))


def left(turn: Turn, event: Left) -> None:
    """Forget a worker; its block lives on, until its batch system says that it has ended."""
    block = turn.records.blocks.get(event.label)
    if block is None or event.node not in block.connected:
        return
    del block.connected[event.node]
    if not block.connected:
        block.away_since = turn.now
        block.reason = event.how
        turn.records.system(block.system).hurry(turn.now + 1.0)


def working(turn: Turn, event: Working) -> None:
    """Record since when a worker has no job."""
    block = turn.records.blocks.get(event.label)
    if block is None or event.node not in block.connected:
        return
    if not event.idle:
        block.connected[event.node] = None
        block.worked = True
    elif block.connected[event.node] is None:
        block.connected[event.node] = turn.now


def attend(turn: Turn, block: Block, state: PoolState | None) -> None:
    """End a block whose workers did not join in time, or did not come back; go on with a block that is to end."""
    if block.connected and not block.awaited and not block.leave_reason:
        return
    limit = state.pool.join_s if state is not None else 0.0
    if block.awaited and turn.due(block.awaited_since + limit):
        block.awaited = set()
    if block.leave_reason:
        press(turn, block)
        return
    system = turn.records.systems.get(block.system)
    if state is None or block.connected or (system is not None and system.failing_since is not None):
        return
    if block.away_since is not None:
        if turn.due(block.away_since + limit):
            dismiss(turn, block, f"its workers left and did not come back within {limit:g} s")
    elif block.started_at is not None and turn.due(max(block.started_at, block.awaited_since) + limit):
        fail(turn, state, block, f"no worker joined within {limit:g} s of its start")
