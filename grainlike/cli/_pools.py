"""Pools of workers and their blocks: set, change, look at, take down."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import anyio

from grainlike.cli._exits import FAILED, OK, REFUSED
from grainlike.cli._words import as_plain, escaped, escaped_line, print_json, print_table, seconds
from grainlike.client import HeadClient, RefusedQueryError
from grainlike.errors import LaunchError, SettingsError
from grainlike.launch import LAUNCHERS, WorkerPool, pool_from
from grainlike.settings import read_settings
from grainlike.wire import (
    AskDown,
    AskEndBlock,
    AskFleet,
    AskPause,
    AskScale,
    AskUp,
    BlockRow,
    Done,
    FleetIs,
    Matched,
    PoolRow,
    UpIs,
)

__all__ = [
    "bring_up",
    "end_block",
    "follow_log",
    "list_blocks",
    "list_pools",
    "numbers_of",
    "pause_pool",
    "pool_for",
    "print_script",
    "scale_pool",
    "show_dry",
    "take_down",
]

LOOK_S = 0.5
"""Seconds between two looks at what is waited for."""

DOWN_S = 60.0
"""Seconds for which `down` waits until the batch system has nothing left."""


def pool_for(name: str, flags: Mapping[str, object]) -> WorkerPool:
    """Return the pool of the settings, or a new one of the kind `name`, with the keys of `flags` over it.

    Raises:
        SettingsError: the settings are not right, or know no such pool.
        ValueError: a key or value that cannot be.
    """
    settings = read_settings()
    known = name in LAUNCHERS and name not in settings.pools
    if not known and name not in settings.pools:
        near = get_close_matches(name, [*settings.pools, *LAUNCHERS], 1)
        hint = f"did you mean {near[0]}?" if near else f"kinds are {', '.join(LAUNCHERS)}"
        raise SettingsError(f"{name!r} is neither a pool of the settings nor a kind of pools; {hint}")
    keys: dict[str, Any] = {} if known else {key: one.value for key, one in settings.pool(name).items()}
    if known:
        keys["kind"] = name
    native = [*keys.get("native", []), *flags["native"]] if "native" in flags else None  # type: ignore[misc]
    return pool_from({**keys, **flags, **({} if native is None else {"native": native})}, name)


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


def show_dry(pool: WorkerPool, *, as_json: bool) -> int:
    """Print the command and the script of a pool's blocks, and what the batch system says to them."""
    try:
        command, script = list(pool.command()), pool.script()
    except ValueError as error:
        print(f"grainlike: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return FAILED
    try:
        words, taken = anyio.run(pool.check), True
    except LaunchError as error:
        words, taken = str(error), False
    if as_json:
        print_json({"command": command, "script": script, "taken": taken, "answer": words})
    else:
        print(f"$ {shlex.join(command)}\n{script}", end="")  # noqa: T201
        sys.stdout.flush()
        print("\n".join(map(escaped_line, words.splitlines())), file=sys.stdout if taken else sys.stderr)
    return OK if taken else FAILED


async def bring_up(caller: HeadClient, name: str, pool: WorkerPool, *, wait: bool, as_json: bool) -> int:
    """Set a pool, and print label and id of its first block."""
    try:
        answer = await caller.ask(AskUp(0, name, json.dumps(pool.settings())), UpIs)
    except LaunchError as error:
        print(f"grainlike: {escaped_lines(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return FAILED
    if wait:
        code = await _until_up(caller, name, pool.min)
        if code:
            return code
    if as_json:
        print_json({"pool": name, "label": answer.label, "native": answer.native})
    elif answer.label:
        native = answer.native or "its answer was not clear: it is looked for by its name"
        print(f"pool {name} is up; block {answer.label}: {native}")  # noqa: T201
    else:
        print(f"pool {name} is up; its blocks are submitted when jobs want them")  # noqa: T201
    return OK


async def _until_up(caller: HeadClient, name: str, least: int) -> int:
    """Wait until a pool has so many workers; print why it never will."""
    while True:
        found = await caller.ask(AskFleet(0, ended=False), FleetIs)
        row = next((row for row in found.pools if row.pool == name), None)
        if row is None or row.paused:
            why = "it is gone" if row is None else f"it is paused: {row.paused}"
            print(f"grainlike: pool {name}: {escaped_lines(why)}", file=sys.stderr)  # noqa: T201
            return FAILED
        if row.up >= least:
            return OK
        await anyio.sleep(LOOK_S)


def escaped_lines(text: str) -> str:
    """Return text of a batch system, without control characters but for the ends of its lines."""
    return "\n".join(map(escaped, text.splitlines()))


# --- changes ---------------------------------------------------------------------------------------------------------


async def scale_pool(caller: HeadClient, name: str | None, least: int, most: int) -> int:
    """Change how many workers a pool has; without a name, the only one."""
    chosen = name or await _only_pool(caller)
    await caller.ask(AskScale(0, chosen, least, most), Done)
    return OK


async def _only_pool(caller: HeadClient) -> str:
    found = await caller.ask(AskFleet(0, ended=False), FleetIs)
    if len(found.pools) != 1:
        names = ", ".join(row.pool for row in found.pools)
        raise RefusedQueryError(f"name the pool: there are {names}" if names else "no pool is up")
    return found.pools[0].pool


async def pause_pool(caller: HeadClient, name: str, *, on: bool) -> int:
    """Pause a pool, or resume it."""
    await caller.ask(AskPause(0, name, on), Done)
    return OK


async def take_down(caller: HeadClient, names: Sequence[str], *, now: bool) -> int:
    """Take pools down, and wait until nothing is left of them; print what is."""
    told = await caller.ask(AskDown(0, list(names), now), Matched)
    left: list[BlockRow] = []
    with anyio.move_on_after(DOWN_S):
        while True:
            found = await caller.ask(AskFleet(0, ended=False), FleetIs)
            left = [row for row in found.blocks if row.pool in told.workers]
            if not left:
                return OK
            await anyio.sleep(LOOK_S)
    for row in left:
        words = f"{row.label} ({row.native or 'no id yet'}) is {row.state}: {row.reason}"
        print(f"grainlike: {escaped(words)}", file=sys.stderr)  # noqa: T201 - a command line speaks
    return FAILED


async def end_block(caller: HeadClient, label: str, *, now: bool) -> int:
    """End a block."""
    await caller.ask(AskEndBlock(0, label, now), Done)
    return OK


# --- looking ---------------------------------------------------------------------------------------------------------


async def list_pools(caller: HeadClient, *, as_json: bool) -> int:
    """Print the pools."""
    found = await caller.ask(AskFleet(0, ended=False), FleetIs)
    if as_json:
        print_json([as_plain(row, without=("why",)) for row in found.pools])
    elif not found.pools:
        print("no pools")  # noqa: T201 - a command line speaks
    else:
        titles = ["pool", "kind", "offer", "workers", "up", "pending", "wanted", "core-hours", "note"]
        print_table(titles, [_pool_cells(row) for row in found.pools])
    return OK


def _pool_cells(row: PoolRow) -> tuple[str, ...]:
    counts = (f"{row.min}..{row.max}", str(row.up), str(row.pending), str(row.wanted), f"{row.spent_core_hours:g}")
    note = f"paused: {row.paused}" if row.paused else row.why
    return (row.pool, row.kind, row.offer or "whole nodes", *counts, note or "-")


async def list_blocks(caller: HeadClient, *, ended: bool, as_json: bool) -> int:
    """Print the blocks."""
    found = await caller.ask(AskFleet(0, ended=ended), FleetIs)
    if as_json:
        print_json([as_plain(row) for row in found.blocks])
    elif not found.blocks:
        print("no blocks")  # noqa: T201 - a command line speaks
    else:
        titles = ["block", "kind", "native", "state", "reason", "nodes", "workers", "submitted ago", "left"]
        print_table(titles, [_block_cells(row) for row in found.blocks])
    return OK


def _block_cells(row: BlockRow) -> tuple[str, ...]:
    left = "-" if row.left_s is None else seconds(row.left_s)
    facts = (row.label, row.kind, row.native or "-", row.state, row.reason or "-", row.nodes or "-")
    return (*facts, str(row.workers), seconds(row.submitted_s), left)


async def _block(caller: HeadClient, label: str) -> BlockRow:
    found = await caller.ask(AskFleet(0, ended=True), FleetIs)
    row = next((row for row in found.blocks if row.label == label), None)
    if row is None:
        raise RefusedQueryError(f"there is no block {label}; `grainlike blocks --all` lists them")
    return row


async def print_script(caller: HeadClient, label: str) -> int:
    """Print the script of a block, as it was submitted."""
    path = Path((await _block(caller, label)).log).parent / "script"
    return _print_file(path, 0)[0]


async def follow_log(caller: HeadClient, label: str, *, follow: bool) -> int:
    """Print the log of a block, and with `follow` what is written to it until it has ended."""
    row = await _block(caller, label)
    code, at = _print_file(Path(row.log), 0, missing_is_fine=follow)
    while follow and row.state != "ended":
        await anyio.sleep(LOOK_S)
        row = await _block(caller, label)
        code, at = _print_file(Path(row.log), at, missing_is_fine=True)
    return code


def _print_file(path: Path, at: int, *, missing_is_fine: bool = False) -> tuple[int, int]:
    """Print a file from a place on; return the exit code and where it ended."""
    try:
        with path.open("rb") as opened:
            opened.seek(at)
            data = opened.read()
    except OSError as error:
        if not missing_is_fine:
            print(f"grainlike: {path}: {error.strerror}; it may be on other machines", file=sys.stderr)  # noqa: T201
        return (OK if missing_is_fine else REFUSED), at
    for line in data.decode("utf-8", "replace").splitlines():
        print(escaped_line(line))  # noqa: T201 - a command line speaks
    sys.stdout.flush()
    return OK, at + len(data)
