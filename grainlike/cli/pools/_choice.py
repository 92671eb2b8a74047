"""The pool that `up` means, and what its blocks are: for `--dry`, which asks no head."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from grainlike.cli._exits import FAILED, OK
from grainlike.cli._words import escaped_line, print_json
from grainlike.errors import LaunchError, SettingsError
from grainlike.launch import LAUNCHERS, WorkerPool, pool_from
from grainlike.settings import read_settings

__all__ = ["pool_for", "show_dry"]


def pool_for(name: str, flags: Mapping[str, object], is_up: Mapping[str, Any] | None = None) -> WorkerPool:
    """Return the pool of the settings, or else of the head, or else a new one of the kind `name`, with the keys of
    `flags` over it.

    Args:
        name: of the pool, or a kind.
        flags: keys and values.
        is_up: keys of the head's pool of this name; None if there is none, or no head was asked.

    Raises:
        SettingsError: the settings are not right, or know no such pool.
        ValueError: a key or value that cannot be.
    """
    settings = read_settings()
    if name in settings.pools:
        keys: dict[str, Any] = {key: one.value for key, one in settings.pool(name).items()}
    elif is_up is not None:
        keys = dict(is_up)
    elif name in LAUNCHERS:
        keys = {"kind": name}
    else:
        near = get_close_matches(name, [*settings.pools, *LAUNCHERS], 1)
        hint = f"did you mean {near[0]}?" if near else f"kinds are {', '.join(LAUNCHERS)}"
        raise SettingsError(f"{name!r} is neither a pool of the settings nor a kind of pools; {hint}")
    usual = keys.get("native", []) if name in settings.pools else []  # those of a pool that is up are said again
    native = [*usual, *flags["native"]] if "native" in flags else None  # type: ignore[misc]
    return pool_from({**keys, **flags, **({} if native is None else {"native": native})}, name)


def show_dry(pool: WorkerPool, *, as_json: bool) -> int:
    """Print the command and the script of a pool's blocks, and then what the batch system says to them."""
    try:
        command, script = list(pool.command()), pool.script()
    except ValueError as error:
        print(f"grainlike: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return FAILED
    if not as_json:
        print(f"$ {shlex.join(command)}\n{script}", end="", flush=True)  # noqa: T201 - the answer may take a while
    words, taken, answered = _asked(pool)
    if as_json:
        print_json({"command": command, "script": script, "taken": taken, "answered": answered, "answer": words})
    else:
        ours = _REFUSED if answered else _UNASKED
        lines = [*([] if taken else [ours]), *map(escaped_line, words.splitlines())]
        print("\n".join(lines), file=sys.stdout if taken else sys.stderr)
    return OK if taken else FAILED


_REFUSED = "grainlike: this block would not be taken now; the batch system, or the way to it, says:"
_UNASKED = "grainlike: the batch system could not be asked whether it would take this block; the way to it says:"


def _asked(pool: WorkerPool) -> tuple[str, bool, bool]:
    """Return what the batch system says, whether it would accept a block, and whether it has answered."""
    import anyio  # the script is shown before an event loop is loaded

    try:
        return anyio.run(pool.check), True, True
    except LaunchError as error:
        return str(error), False, error.answered
