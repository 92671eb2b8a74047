"""Times as text: `1:30:00` is an hour and a half, in whole nanoseconds inside."""

import re

from grainlike.errors import ResourceSpecError
from grainlike.resources._quantity import UNIT, Amount, plain, quantity

_TIME = re.compile(
    r"(?:(?:([0-9]{1,6})-(?=[0-9]+:[0-9]+:))?([0-9]{1,9}):)?"  # days, only before hours; then hours, or minutes
    r"(?:([0-9]{1,9}):)?([0-9]{1,12}(?:\.[0-9]{1,9})?)"
)
_MOST = 10**12 * UNIT
"""Longest time: what `clock` writes of it is read back."""

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def duration(value: Amount) -> int:
    """Give a time in nanoseconds: `H:M:S`, `M:S`, `D-H:M:S`, or plain seconds, as text or as a number.

    Raises:
        ResourceSpecError: it is not above zero, or it is text that people read differently, such as `90m` or `1h`.
    """
    units = _from_text(value) if isinstance(value, str) else _from_number(value)
    if units <= 0:
        raise ResourceSpecError(f"walltime={value}: a time must be greater than zero")
    if units > _MOST:
        raise ResourceSpecError(f"walltime={value}: a time must be at most 1e12 seconds; leave it out for no limit")
    return units


def clock(units: int) -> str:
    """Write nanoseconds as `H:MM:SS`, with decimals only where there are some; `duration` reads it back."""
    whole, rest = divmod(units, UNIT)
    minutes, seconds = divmod(whole, _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02d}:{seconds:02d}" + (plain(rest)[1:] if rest else "")


def _from_number(value: Amount) -> int:
    try:
        return quantity(value)
    except ResourceSpecError as error:
        raise ResourceSpecError(f"walltime: {error}") from None


def _from_text(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ResourceSpecError(f"walltime={text}: write H:M:S, M:S, D-H:M:S or seconds, as 1:30:00, 90:00 or 5400")
    days, first, second, seconds = match.groups()
    # With one colon the first number is minutes, with two it is hours.
    hours, minutes = (first, second) if second is not None else (None, first)
    _check_below(text, minutes, _MINUTE, "minutes", leads=hours is None)
    _check_below(text, hours, 24, "hours", leads=days is None)
    _check_below(text, seconds.partition(".")[0], _MINUTE, "seconds", leads=minutes is None)
    whole = int(days or 0) * _DAY + int(hours or 0) * _HOUR + int(minutes or 0) * _MINUTE
    return whole * UNIT + quantity(seconds)


def _check_below(text: str, value: str | None, limit: int, name: str, *, leads: bool) -> None:
    """Only the number in front may be as large as it likes: 90:00 is an hour and a half, 1:90:00 a slip of the pen."""
    if value is not None and not leads and int(value) >= limit:
        raise ResourceSpecError(f"walltime={text}: {value} {name} do not fit below the number before them")
