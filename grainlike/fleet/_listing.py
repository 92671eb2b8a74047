"""Listings: which blocks a batch system has, and what follows for the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grainlike.dialects import ListedBlock
from grainlike.fleet._block import Block
from grainlike.fleet._endings import close, dismiss, fail
from grainlike.fleet._events import EndBlocks, ListBlocks, Listed, ListingFailed, StraysGone, TellTimeLeft
from grainlike.fleet._submissions import look_in_vain, take_native
from grainlike.fleet._system import ANSWER_S, SystemState
from grainlike.fleet._turn import Turn

__all__ = ["ask", "end_strays", "listed", "listing_failed"]

YOUNG_S = 60.0
YOUNG_PERIOD_S = 10.0
PERIOD_S = 30.0
EMPTY_PERIOD_S = 300.0
LEAVING_PERIOD_S = 3.0
"""Periods of listings: while a submission is young, while blocks live, and else; and while a block has no
workers any more and is about to end, for which somebody may be waiting."""

TOLD_S = 5.0
"""Difference in the time left from which workers are told about it."""

_GONE = ("ended", "ending")


def ask(turn: Turn, system: SystemState) -> None:
    """Ask a batch system for its blocks, if it is time to."""
    if system.waiting and system.asked_at is not None:
        if not turn.due(system.asked_at + ANSWER_S):
            return
        _failed(turn, system, "no answer to the listing")
    if system.asked_at is not None and not turn.due(_next_at(turn, system, system.asked_at)):
        return
    system.asked_at, system.waiting, system.list_before = turn.now, True, None
    turn.do(ListBlocks(system.name))


def _next_at(turn: Turn, system: SystemState, asked: float) -> float:
    blocks = [block for block in turn.records.blocks.values() if block.system == system.name]
    if system.failing_since is not None:
        return asked + PERIOD_S
    if any(block.leave_reason and not block.connected for block in blocks):
        return asked + LEAVING_PERIOD_S
    usual = asked + (PERIOD_S if blocks else EMPTY_PERIOD_S)
    if blocks and system.submitted_at is not None and turn.now < system.submitted_at + YOUNG_S:
        usual = asked + YOUNG_PERIOD_S
    return usual if system.list_before is None else min(usual, max(system.list_before, asked + 1.0))


def listing_failed(turn: Turn, event: ListingFailed) -> None:
    """Keep the reason why a batch system does not list its blocks. Nothing else changes."""
    _failed(turn, turn.records.system(event.system), event.words)


def _failed(turn: Turn, system: SystemState, words: str) -> None:
    system.waiting = False
    system.failing = words
    if system.failing_since is None:
        system.failing_since = turn.now


def listed(turn: Turn, event: Listed) -> None:
    """Compare a listing with the records."""
    system = turn.records.system(event.system)
    system.waiting = False
    system.failing_since, system.failing = None, ""
    blocks = turn.records.numbers(event.system)
    rows: dict[int, list[ListedBlock]] = {}
    for row in event.rows:
        number = turn.records.number_of(row.name)
        if number is None:
            continue
        if number in rows:
            rows[number].append(row)
        else:
            rows[number] = [row]
    if len(blocks) < len(turn.records.blocks):
        _move(turn, event, rows, blocks)
    elsewhere = turn.records.numbers_elsewhere(event.system) if len(blocks) < len(turn.records.blocks) else frozenset()
    superfluous: list[str] = []
    strays: list[ListedBlock] = []
    for number, same in rows.items():
        block = blocks.get(number)
        if block is not None and len(same) == 1 and same[0].native == block.native:
            _compare(turn, block, same[0], event.asked)
        elif block is not None:
            ours = _row_of(block, same)
            superfluous += [row.native for row in same if _is_another(row, ours, block) and row.state not in _GONE]
            if ours is None:
                _unlisted(turn, block, event.asked)
            else:
                _compare(turn, block, ours, event.asked)
        elif number in elsewhere:
            continue  # the batch system is reached in two ways, and the other way has the block
        elif number <= turn.records.last_number:
            superfluous += [other.native for other in same if other.state not in _GONE and other.native]
        else:
            strays += [other for other in same if other.state not in _GONE and other.native]
    if superfluous:
        turn.do(EndBlocks(event.system, tuple(superfluous)))
        system.hurry(turn.now + YOUNG_PERIOD_S)
    turn.records.strays[event.system] = tuple(strays)
    for number, block in blocks.items():
        if number not in rows:
            _unlisted(turn, block, event.asked)


def _move(turn: Turn, event: Listed, rows: Mapping[int, Sequence[ListedBlock]], blocks: dict[int, Block]) -> None:
    """Give blocks the present key of their pool, once a listing shows them there under their ids.

    A pool that reaches the same batch system another way, such as through another login node, has another key. The old
    way may not work any more.
    """
    for block in turn.records.blocks.values():
        state = turn.records.pools.get(block.pool)
        if state is None or block.system == event.system or state.pool.system != event.system:
            continue
        if any(row.native == block.native != "" for row in rows.get(block.number, ())):
            block.system = event.system
            blocks[block.number] = block


def end_strays(turn: Turn, event: StraysGone) -> None:  # noqa: ARG001 - as all that take events
    """End the blocks of this cluster that have no record."""
    for name, rows in turn.records.strays.items():
        if rows:
            turn.do(EndBlocks(name, tuple(row.native for row in rows)))
            turn.records.system(name).hurry(turn.now + 2.0)


def _row_of(block: Block, rows: Sequence[ListedBlock]) -> ListedBlock | None:
    """Return the row of the block if several rows have its name, because a submission was accepted twice."""
    own = [row for row in rows if row.native == block.native] if block.native else rows
    return min(own, key=lambda row: (row.state in _GONE, row.state != "running"), default=None)


def _is_another(row: ListedBlock, ours: ListedBlock | None, block: Block) -> bool:
    """Return True if a row belongs to another job than the block's: two machines may list a job under one id."""
    return row is not ours and row.native not in ("", block.native)


def _compare(turn: Turn, block: Block, row: ListedBlock, asked: float) -> None:
    if row.state == "ended":
        block.native = row.native
        _ended(turn, block, row.reason or "ended")
        return
    if not block.native:
        take_native(turn, block, row.native)
    block.reason = row.reason
    if row.state == "stuck":
        _give_up(turn, block)
        return
    if row.state == "running" and not block.running:
        block.running, block.started_at = True, turn.now
        turn.records.version += 1
    elif row.state == "pending" and not block.connected:
        block.running, block.started_at, block.idle_before = False, None, asked
        block.headless = False
        if not block.leave_reason:  # otherwise the time since which its workers are away goes on
            block.away_since = turn.now if block.joined else None
    block.place = ",".join(row.nodes) or ("" if block.running else row.start)
    if row.state == "running" and row.left_s is not None:
        _tell(turn, block, turn.now + row.left_s)


def _give_up(turn: Turn, block: Block) -> None:
    """End a block that its batch system keeps and does not start."""
    state = turn.records.pools.get(block.pool)
    if not block.leave_reason and state is not None and not block.joined:
        fail(turn, state, block, block.reason)
    else:
        dismiss(turn, block, block.reason)


def _tell(turn: Turn, block: Block, ends_at: float) -> None:
    if block.ends_at is None or abs(ends_at - block.ends_at) > TOLD_S:
        block.ends_at = ends_at
        if block.connected:
            turn.do(TellTimeLeft(block.label, ends_at - turn.now))


def _unlisted(turn: Turn, block: Block, asked: float) -> None:
    if not block.native:
        look_in_vain(turn, block, asked)
    elif asked > block.accepted_at:
        _ended(turn, block, "its batch system does not list it any more")


def _ended(turn: Turn, block: Block, reason: str) -> None:
    """Close a block that its batch system does not have any more; while one of its workers is connected, it lives."""
    if block.connected:
        block.reason = reason
    else:
        close(turn, block, reason)
