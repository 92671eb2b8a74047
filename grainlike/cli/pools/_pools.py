"""Pools of workers and their blocks: set, change, look at, take down."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grainlike.cli._exits import FAILED, OK
from grainlike.cli._words import amounts, as_plain, escaped, escaped_line, print_json, print_table, seconds
from grainlike.client import Asker, BlockingClient, RefusedQueryError, call_blocking, completed
from grainlike.errors import GrainlikeError, LaunchError
from grainlike.wire import (
    AskBlockFile,
    AskDown,
    AskEndBlock,
    AskFleet,
    AskPause,
    AskScale,
    AskUp,
    BlockFileIs,
    BlockRow,
    Done,
    FleetIs,
    Matched,
    PoolRow,
    UpIs,
)

if TYPE_CHECKING:
    from grainlike.launch import WorkerPool

__all__ = [
    "bring_up",
    "end_block",
    "follow_log",
    "keys_at_head",
    "list_blocks",
    "list_pools",
    "numbers_of",
    "pause_pool",
    "print_script",
    "scale_pool",
    "take_down",
]

_NUMBER = re.compile(r"\d+")

_CELL = 60
"""Characters of a reason in a table; what is longer stands below it."""

LOOK_S = 0.5
"""Seconds between two looks at what is waited for."""

DOWN_S = 60.0
"""Seconds for which `down` waits until the batch system has nothing left."""


_SHARED = (
    "grainlike: its workers share the machine: their jobs have counted cores, from 32768 on, and are pinned to none. "
    "Only a worker that offers all cores of the machine pins its jobs"
)


def keys_at_head(head: str | None, insecure: bool, name: str) -> dict[str, Any] | None:
    """Return the keys of a pool that is up; None if there is none of that name, or no head that says so."""

    try:
        with call_blocking(head, insecure=insecure) as caller:
            found = completed(caller.ask(AskFleet(0, ended=False), FleetIs))
    except (GrainlikeError, OSError, ValueError):
        return None  # the next question to the head says what is wrong
    row = next((row for row in found.pools if row.pool == name and row.settings), None)
    return None if row is None else json.loads(row.settings)


def numbers_of(text: str) -> tuple[int, int]:
    """Return the numbers of `N` or `MIN..MAX`.

    Raises:
        ValueError: it is neither.

    Example::

        >>> numbers_of("0..16"), numbers_of("4")
        ((0, 16), (4, 4))
    """
    least, dots, most = text.partition("..")
    if not least.isdecimal() or (dots and not most.isdecimal()):
        raise ValueError(f"{text!r} is neither a number of workers, as 4, nor a range, as 0..16")
    return int(least), int(most if dots else least)


# --- up --------------------------------------------------------------------------------------------------------------


async def bring_up(
    caller: BlockingClient, name: str, pool: WorkerPool, *, changed: bool, wait: bool, as_json: bool
) -> int:
    """Set a pool, and print label and id of its first block; of one that is `changed`, what it is now."""
    began = time.monotonic()
    try:
        answer = await caller.ask(AskUp(0, name, json.dumps(pool.settings())), UpIs)
    except LaunchError as error:
        print(f"grainlike: {escaped_lines(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return FAILED
    if answer.silent:
        _print_silent(name, answer)
    wait = wait and pool.min > 0  # else there is nothing to wait for
    if wait:
        code = await _until_up(caller, name, pool.min, began)
        if code:
            return code
    if as_json:
        print_json({"pool": name, "label": answer.label, "native": answer.native, "silent": answer.silent})
    elif wait or not answer.silent:
        state = f"is {pool!r} now" if changed else "is up"
        print(escaped(f"pool {name} {state}; {await _first_block(caller, name, answer)}"))  # noqa: T201
        if pool.kind == "local":
            print(_SHARED, file=sys.stderr)  # noqa: T201
    return FAILED if answer.silent and not wait else OK


def _print_silent(name: str, answer: UpIs) -> None:
    """Print that a batch system does not answer, and what follows for a pool."""
    lines = [
        f"grainlike: pool {name} is set, but {answer.silent}",
        *([f"  block {answer.label} may have been taken: it is looked for by its name"] if answer.label else []),
        "  the head asks again every 30 s, and submits blocks once it answers; until then `grainlike pools` says so",
        f"  to give the pool up: grainlike down {name}",
    ]
    print("\n".join(map(escaped, lines)), file=sys.stderr)  # noqa: T201 - a command line speaks


async def _first_block(caller: BlockingClient, name: str, answer: UpIs) -> str:
    """Return what has become of the first block of a pool, or why there is none."""
    if answer.label:
        native = answer.native or "its answer was not clear: it is looked for by its name"
        return f"block {answer.label}: {native}"
    row = await _pool(caller, name)
    if row is not None and row.why:
        return f"nothing is submitted yet: {_in_a_line(row.why)}"
    return "its blocks are submitted when jobs want them"


def _in_a_line(text: str) -> str:
    """Return the lines of a batch system's text as one."""
    return "; ".join(filter(None, map(str.strip, text.splitlines())))


async def _pool(caller: BlockingClient, name: str) -> PoolRow | None:
    found = await caller.ask(AskFleet(0, ended=False), FleetIs)
    return next((row for row in found.pools if row.pool == name), None)


async def _until_up(caller: BlockingClient, name: str, least: int, began: float) -> int:
    """Wait until a pool has so many workers; print what becomes of its blocks meanwhile, and why it never will."""
    said: dict[str, str] = {}
    while True:
        found = await caller.ask(AskFleet(0, ended=True), FleetIs)
        age = time.monotonic() - began
        row = next((row for row in found.pools if row.pool == name), None)
        news = {"": f"pool {name}: {row.why}"} if row is not None and row.why and not row.paused else {}
        blocks = [one for one in found.blocks if one.pool == name and (one.state != "ended" or one.submitted_s <= age)]
        _print_news({**news, **{block.label: _told(block) for block in blocks}}, said)
        if row is None or row.paused:
            why = "it is gone" if row is None else f"it is paused: {row.paused}"
            print(f"grainlike: pool {name}: {escaped_lines(why)}", file=sys.stderr)  # noqa: T201
            return FAILED
        if row.up >= least:
            return OK
        await caller.pause(LOOK_S)


def _told(block: BlockRow) -> str:
    return f"block {block.label} is {block.state}{f': {block.reason}' if block.reason else ''}"


def _print_news(news: Mapping[str, str], said: dict[str, str]) -> None:
    """Print the lines that differ from those of the last time, beside what a command answers."""
    for key, line in news.items():
        without_times = _NUMBER.sub("", line)
        if said.get(key) != without_times:
            print(escaped_lines(line), file=sys.stderr)  # noqa: T201 - a command line speaks
        said[key] = without_times


def escaped_lines(text: str) -> str:
    """Return text of a batch system, without control characters but for the ends of its lines."""
    return "\n".join(map(escaped, text.splitlines()))


# --- changes ---------------------------------------------------------------------------------------------------------


async def scale_pool(caller: BlockingClient, name: str | None, least: int, most: int) -> int:
    """Change how many workers a pool has; without a name, the only one."""
    chosen = name or await _only_pool(caller)
    await caller.ask(AskScale(0, chosen, least, most), Done)
    return OK


async def _only_pool(caller: BlockingClient) -> str:
    found = await caller.ask(AskFleet(0, ended=False), FleetIs)
    if len(found.pools) != 1:
        names = ", ".join(row.pool for row in found.pools)
        raise RefusedQueryError(f"name the pool: there are {names}" if names else "no pool is up")
    return found.pools[0].pool


async def pause_pool(caller: BlockingClient, name: str, *, on: bool) -> int:
    """Pause a pool, or resume it."""
    await caller.ask(AskPause(0, name, on), Done)
    return OK


async def take_down(caller: BlockingClient, names: Sequence[str], *, now: bool) -> int:
    """Take pools down, and wait until nothing is left of them; print what is."""
    told = await caller.ask(AskDown(0, list(names), now), Matched)
    going = {*told.workers, *([] if names else [""])}  # those of our name that no pool has belong to none
    left: list[BlockRow] = []
    until = time.monotonic() + DOWN_S
    while time.monotonic() < until:
        found = await caller.ask(AskFleet(0, ended=False), FleetIs)
        left = [row for row in found.blocks if row.pool in going]
        if not left:
            return OK
        await caller.pause(LOOK_S)
    for row in left:
        words = f"{row.label} ({row.native or 'no id yet'}) is {row.state}: {_in_a_line(row.reason)}"
        print(f"grainlike: {escaped(words)}", file=sys.stderr)  # noqa: T201 - a command line speaks
    return FAILED


async def end_block(caller: BlockingClient, label: str, *, now: bool) -> int:
    """End a block."""
    await caller.ask(AskEndBlock(0, label, now), Done)
    return OK


# --- looking ---------------------------------------------------------------------------------------------------------


async def list_pools(caller: Asker, *, as_json: bool, most: int | None = None) -> int:
    """Print the pools; with `most`, so many of them at most to people."""
    found = await caller.ask(AskFleet(0, ended=False), FleetIs)
    if as_json:
        print_json([as_plain(row, without=("why", "settings")) for row in found.pools])
    elif not found.pools:
        print("no pools")  # noqa: T201 - a command line speaks
    else:
        titles = ["pool", "kind", "offer", "workers", "up", "pending", "wanted", "core-hours", "note"]
        notes = {row.pool: f"paused: {row.paused}" if row.paused else row.why for row in found.pools}
        print_table(titles, [_pool_cells(row, _short(notes[row.pool])) for row in found.pools], most=most)
        _print_in_full(notes)
    return OK


def _short(text: str) -> str:
    """Return a note as a cell of a table has room for it."""
    first = text.partition("\n")[0]
    return text if text == first and len(text) <= _CELL else f"{first[:_CELL].rstrip()} ..."


def _print_in_full(notes: Mapping[str, str]) -> None:
    """Print the notes that a table has cut short, below it."""
    for name, text in notes.items():
        if _short(text) != text:
            print(escaped_lines(f"{name}: {text}"))  # noqa: T201 - a command line speaks


def _pool_cells(row: PoolRow, note: str) -> tuple[str, ...]:
    counts = (f"{row.min}..{row.max}", str(row.up), str(row.pending), str(row.wanted), f"{row.spent_core_hours:g}")
    return (row.pool, row.kind, amounts(row.offer) or "whole nodes", *counts, note or "-")


async def list_blocks(caller: Asker, *, ended: bool, as_json: bool, most: int | None = None) -> int:
    """Print the blocks; with `most`, so many of them at most to people."""
    found = await caller.ask(AskFleet(0, ended=ended), FleetIs)
    if as_json:
        print_json([as_plain(row) for row in found.blocks])
    elif not found.blocks:
        print("no blocks")  # noqa: T201 - a command line speaks
    else:
        titles = ["block", "kind", "native", "state", "reason", "nodes", "workers", "submitted ago", "left"]
        print_table(titles, [_block_cells(row) for row in found.blocks], most=most)
        _print_in_full({row.label: row.reason for row in found.blocks[:most]})
    return OK


def _block_cells(row: BlockRow) -> tuple[str, ...]:
    left = "-" if row.left_s is None else seconds(row.left_s)
    facts = (row.label, row.kind, row.native or "-", row.state, _short(row.reason) or "-", row.nodes or "-")
    return (*facts, str(row.workers), seconds(row.submitted_s), left)


async def _block(caller: BlockingClient, label: str) -> BlockRow:
    found = await caller.ask(AskFleet(0, ended=True), FleetIs)
    row = next((row for row in found.blocks if row.label == label), None)
    if row is None:
        raise RefusedQueryError(f"there is no block {label}; `grainlike blocks --all` lists them")
    return row


async def print_script(caller: BlockingClient, label: str) -> int:
    """Print the script of a block, as it was submitted."""
    row = await _block(caller, label)
    await _print_file(caller, row, 0, script=True)
    return OK


async def follow_log(caller: BlockingClient, label: str, *, follow: bool) -> int:
    """Print the log of a block, and with `follow` what is written to it until it has ended."""
    row = await _block(caller, label)
    at = await _print_file(caller, row, 0, missing_is_fine=follow)
    while follow and row.state != "ended":
        await caller.pause(LOOK_S)
        row = await _block(caller, label)
        at = await _print_file(caller, row, at, missing_is_fine=True)
    return OK


async def _print_file(
    caller: BlockingClient, row: BlockRow, at: int, *, script: bool = False, missing_is_fine: bool = False
) -> int:
    """Print a file of a block from a place on; return where it ended. What this machine does not have the head gets
    from where it is.

    Raises:
        RefusedQueryError: there is no such file, and that is not fine.
    """
    path = Path(row.log).parent / "script" if script else Path(row.log)
    data = _read_here(path, at)
    if data is not None:
        _print_lines(data.decode("utf-8", "replace"))
        return at + len(data)
    try:
        part = await caller.ask(AskBlockFile(0, row.label, script, at), BlockFileIs)
    except RefusedQueryError:
        if missing_is_fine:
            return at
        raise
    if part.start > at:
        print(f"grainlike: {part.start - at} bytes before that are left out", file=sys.stderr)  # noqa: T201
    _print_lines(part.text)
    return part.end


def _read_here(path: Path, at: int) -> bytes | None:
    """Return what a file has from a place on; None if it is not on this machine."""
    if not path.is_absolute():  # below a home directory elsewhere
        return None
    try:
        with path.open("rb") as opened:
            opened.seek(at)
            return opened.read()
    except OSError:
        return None


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        print(escaped_line(line))  # noqa: T201 - a command line speaks
    sys.stdout.flush()
