"""Files of settings: where they are, and whether they are to be trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from grainlike.errors import SettingsError

__all__ = ["read_files"]

SITE = Path("/etc/grainlike/grainlike.toml")
_MOST = 2**20
"""Bytes of the largest file that is read."""

_OURS = b"grainlike"
"""Word that a file of several programs has where it has settings of ours."""

_SHARED = stat.S_IWGRP | stat.S_IWOTH


def read_files() -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the tables of all files that are there, with their paths, those that go first first.

    Raises:
        SettingsError: a file is no TOML, cannot be read, or could have been written by others.
    """
    for path, keys in (*_local(), (_users(), ()), (SITE, ())):
        table = _read(path, keys)
        if table:
            yield str(path), table


def _local() -> list[tuple[Path, tuple[str, ...]]]:
    """Return the files of the working directory, with the keys of our tables; none where somebody has removed it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return []
    return [(here / "grainlike.toml", ()), (here / "pyproject.toml", ("tool", "grainlike"))]


def _users() -> Path:
    """Return the user's file: `$XDG_CONFIG_HOME/grainlike/grainlike.toml` or `~/.config/grainlike/grainlike.toml`."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(config if config.startswith("/") else "~/.config").expanduser() / "grainlike" / "grainlike.toml"


def _read(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the table of a file that lies under `keys`; empty where there is no file, or no such table."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)  # before Python makes a file of it: of a directory it makes none, and names no path
        raise SettingsError(f"{path}: it is no regular file")
    with os.fdopen(handle, "rb") as file:
        data = file.read(_MOST + 1)
    table = _table(path, data, keys)
    if table:
        _check_writers(path, status)
    return table


def _table(path: Path, data: bytes, keys: tuple[str, ...]) -> dict[str, Any]:
    if len(data) > _MOST:
        raise SettingsError(f"{path}: it is larger than {_MOST >> 20} MiB")
    if keys and _OURS not in data:
        return {}
    import tomllib  # most directories have no settings, and nothing to parse

    try:
        table: object = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if keys and b"[tool.grainlike" not in data:
            return {}  # somebody else's file, for somebody else to complain about
        raise SettingsError(f"{path}: {error}") from None
    for key in keys:
        table = cast("dict[str, object]", table).get(key, {})
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {key} is no table")
    return cast("dict[str, Any]", table)


def _check_writers(path: Path, status: os.stat_result) -> None:
    """Check that only this user and root may have written a file: its settings say which code runs where."""
    if status.st_uid not in (0, os.geteuid()):
        raise SettingsError(f"{path} belongs to user id {status.st_uid}, who could have workers run code as you")
    if status.st_mode & _SHARED:
        raise SettingsError(f"{path} could have been written by others; close it with: chmod go-w {path}")
