"""Checks of a pool's keys: each returns the value as it is kept, or raises an error that names the key."""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias, cast

from grainlike.errors import ResourceSpecError
from grainlike.resources import UNIT, Allocation, Request, WallTime, as_allocation, near_name, parse

__all__ = [
    "Check",
    "boolean",
    "command",
    "duration",
    "duration_s",
    "env",
    "number",
    "offer",
    "table",
    "text",
    "whole",
    "words",
]

Check: TypeAlias = Callable[[str, Any], Any]

logger = logging.getLogger("grainlike")

_said: set[str] = set()
"""Names in offers for which something else may have been meant, and this was said in this process."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=.*)?", re.DOTALL)


def wrong(key: str, value: object, rather: str) -> ValueError:
    """Return the error for a value of the wrong type."""
    return ValueError(f"{key}: {value!r} is no {rather}")


def text(key: str, value: Any) -> str:
    """Check text of one line."""
    if not isinstance(value, str):
        raise wrong(key, value, "text; write it in quotes")
    if any(letter in value for letter in "\0\n\r"):
        raise ValueError(f"{key}: {value!r} has more than one line")
    return value


def command(key: str, value: Any) -> str:
    """Check the words of a command, split like a shell does."""
    line = text(key, value)
    try:
        shlex.split(line)
    except ValueError as error:
        raise ValueError(f"{key}: {line!r} is no command: {error}") from None
    return line


def whole(least: int) -> Check:
    """Return the check of a whole number, `least` or more."""

    def check(key: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong(key, value, "whole number")
        if value < least:
            raise ValueError(f"{key}: {value} is below {least}")
        return value

    return check


def number(key: str, value: Any) -> float:
    """Check a number above zero."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise wrong(key, value, "number")
    if value <= 0:
        raise ValueError(f"{key}: {value} is not above zero")
    return value


def boolean(key: str, value: Any) -> bool:
    """Check true or false."""
    if not isinstance(value, bool):
        raise wrong(key, value, "true or false")
    return value


def duration(key: str, value: Any) -> str | int | float:
    """Check a duration like `WallTime` does; it is kept as it was written."""
    duration_s(key, value)
    return cast("str | int | float", value)


def duration_s(key: str, value: str | float) -> float:
    """Return a duration in seconds."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise wrong(key, value, "duration: write '1:30:00', or seconds")
    try:
        seconds = WallTime(value).walltime
    except ResourceSpecError as error:
        raise ValueError(f"{key}: {str(error).removeprefix('walltime=').removeprefix('walltime: ')}") from None
    return seconds or 0.0


def words(key: str, value: Any) -> tuple[str, ...]:
    """Check a list of texts."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise wrong(key, value, "list; write it in brackets")
    return tuple(text(key, word) for word in cast("Sequence[object]", value))


def env(key: str, value: Any) -> tuple[str, ...]:
    """Check variables: `NAME=VALUE`, or `NAME` for the value in this process."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise wrong(key, value, "list; write it in brackets")
    for entry in cast("Sequence[object]", value):
        if not isinstance(entry, str) or not _VARIABLE.fullmatch(entry) or "\0" in entry:
            raise wrong(key, entry, "variable: write 'NAME=VALUE', or 'NAME' for one from here")
    return tuple(cast("Sequence[str]", value))


def table(key: str, value: Any) -> Mapping[str, Any]:
    """Check a table, which is copied."""
    if not isinstance(value, Mapping):
        raise wrong(key, value, "table")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{key}: {error}") from None
    return copied


def offer(key: str, value: Any) -> str | Request | None:
    """Check the offer of each worker; it is kept as it was written."""
    if value is not None:
        _warn_of_slips(key, parsed_offer(key, value))
    return cast("str | Request | None", value)


def _warn_of_slips(key: str, offered: Allocation) -> None:
    """Say, once for each name, that an offer has a name which looks like another one's."""
    for given in offered.units:
        near = near_name(given)
        if near is not None and given not in _said:
            _said.add(given)
            logger.warning("%s: only jobs that ask for %s by this name get it; did you mean %s?", key, given, near)


def parsed_offer(key: str, value: str | Request) -> Allocation:
    """Return an offer that was given as text or as a request."""
    try:
        found = as_allocation(parse(value) if isinstance(value, str) else value)
    except (ResourceSpecError, AttributeError) as error:
        if not isinstance(value, str | Request):
            raise wrong(key, value, "offer: write 'cores=16 memory=60Gi'") from None
        raise ValueError(f"{key}: {error}") from None
    if found.walltime is not None:
        raise ValueError(f"{key}: walltime is a key of its own: write walltime = '4:00:00'")
    if not found.units:
        raise ValueError(f"{key}: {value!r} offers nothing to run jobs on; leave it out for all that is granted")
    if "gpus" in found.units and found.units["gpus"] % UNIT:
        raise ValueError(f"{key}: {value!r} has a fraction of a device")
    return found
