"""Rows of pools and blocks, as people look at them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grainlike.dialects import ListedBlock
from grainlike.fleet import Block, EndedBlock, PoolState
from grainlike.launch import WorkerPool
from grainlike.wire import BlockRow, PoolRow

__all__ = ["block_row", "in_one_line", "pool_row", "stray_row"]

_CORE_HOURS_DIGITS = 4

_WITHOUT_QUEUE = ("local", "ssh")
"""Kinds of pools whose blocks start at once."""


def in_one_line(text: str) -> str:
    """Return the lines of a batch system's text as one."""
    return "; ".join(filter(None, map(str.strip, text.splitlines())))


def pool_row(state: PoolState, blocks: Sequence[Block], written: WorkerPool, offer: str, why: str) -> PoolRow:
    """Return the row of a pool that was `written` so; `why` is what keeps it from submitting."""
    pool = state.pool
    spent = why if "core-hours" in why else ""
    return PoolRow(
        pool=pool.name,
        kind=written.kind,
        offer=offer,
        min=pool.min,
        max=pool.max,
        wanted=state.workers or 0,
        pending=sum(block.nodes for block in blocks if block.phase in ("intent", "pending")),
        up=sum(len(block.connected) for block in blocks),
        paused=state.paused or spent,
        spent_core_hours=round(state.spent, _CORE_HOURS_DIGITS),
        why=why,
        settings=json.dumps(written.settings(), sort_keys=True),
    )


def block_row(block: Block | EndedBlock, kind: str, log: str, now: float, hosts: str = "") -> BlockRow:
    """Return the row of a block; it is on `hosts` until a listing tells its nodes."""
    if isinstance(block, EndedBlock):
        return BlockRow(
            label=block.label,
            pool=block.pool,
            kind=kind,
            native=block.native,
            state="ended",
            reason=block.reason or "ended",
            nodes="",
            workers=0,
            submitted_s=now - block.submitted_at,
            started_s=None,
            left_s=None,
            log=log,
        )
    return BlockRow(
        label=block.label,
        pool=block.pool,
        kind=kind,
        native=block.native,
        state=block.phase,
        reason=block.leave_reason or _expected(block, kind),
        nodes=(block.place or hosts) if block.running else "",
        workers=len(block.connected),
        submitted_s=now - block.submitted_at,
        started_s=None if block.started_at is None else now - block.started_at,
        left_s=None if block.ends_at is None else max(0.0, block.ends_at - now),
        log=log,
    )


def stray_row(row: ListedBlock, kind: str) -> BlockRow:
    """Return the row of a job that has a name of this cluster, and belongs to no pool of its records."""
    return BlockRow(
        label=row.name,
        pool="",
        kind=kind,
        native=row.native,
        state="pending" if row.state == "pending" else "starting",
        reason="this head has no record of it; `grainlike down` ends it",
        nodes=",".join(row.nodes),
        workers=0,
        submitted_s=0.0,
        started_s=None,
        left_s=row.left_s,
        log="",
    )


def _expected(block: Block, kind: str) -> str:
    """Return why a block is as it is, and when it is expected to start, if its batch system says that."""
    reason = block.reason or _usual_reason(block, kind)
    start = block.place if block.phase == "pending" and block.place[:1].isdigit() else ""
    return f"{reason}, start expected {start}" if start else reason


def _usual_reason(block: Block, kind: str) -> str:
    """Return what is said of a block about which its batch system says nothing."""
    if block.phase == "up":
        return ""
    if block.phase == "starting":
        return "its workers have not joined yet"
    if block.phase == "pending":
        return "its process starts" if kind in _WITHOUT_QUEUE else "in the batch queue"
    return "its submission has no answer yet" if block.answered_at is None else "looked for by its name"
