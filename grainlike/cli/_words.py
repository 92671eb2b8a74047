"""Format of listings: tables for people, JSON for programs, and no control characters in either."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from grainlike.cli.listings import table_lines
from grainlike.resources import MEMORY, UNIT, amount_text, quantity
from grainlike.resources import shown_amounts as amounts

if TYPE_CHECKING:  # commands that ask nobody load no messages
    import msgspec

    from grainlike.wire import JobRow

__all__ = [
    "amounts",
    "as_plain",
    "bytes_of",
    "bytes_text",
    "escaped",
    "escaped_line",
    "json_text",
    "moment_text",
    "print_jobs",
    "print_json",
    "print_table",
    "seconds",
]

_HARMLESS = re.compile(r"(\t|\x1b\[[0-9;]{0,32}m)")
"""A tab, or a change of colour."""

_LEAST_S, _SHORT_S = 1e-6, 0.0995
"""Times of these and less than the latter are shown in milliseconds, with two digits: shorter ones are none."""


def escaped(text: str) -> str:
    """Return `text` of another user with control characters shown as escapes: `\x1b` for an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def escaped_line(text: str) -> str:
    """Return a line of output with control characters shown as escapes, but for tabs and colours."""
    return "".join(part if _HARMLESS.fullmatch(part) else escaped(part) for part in _HARMLESS.split(text))


def as_plain(message: msgspec.Struct, *, without: Sequence[str] = ("ask",)) -> dict[str, Any]:
    """Return a message of the wire as what JSON has, by field names."""
    return {name: _plain(getattr(message, name)) for name in message.__struct_fields__ if name not in without}


def _plain(value: Any) -> Any:
    if hasattr(value, "__struct_fields__"):
        return as_plain(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def json_text(value: object) -> str:
    """Return a value as programs read it."""
    return json.dumps(value, indent=1)


def print_json(value: object) -> None:
    """Print for programs."""
    print(json_text(value))  # noqa: T201 - a command line speaks


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, most: int | None = None, keep: Collection[str] = ()
) -> None:
    """Print for people, in the width of the terminal. A pipe has none: there nothing is shortened or left out. With
    `most`, so many rows at most, and how many more there are; columns to `keep` are left out last.
    """
    rows = list(rows)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    cells = [[escaped(cell) for cell in row] for row in rows[:most]]
    print("\n".join(table_lines(titles, cells, width, keep)))  # noqa: T201 - a command line speaks
    if most is not None and len(rows) > most:
        print(f"and {len(rows) - most:,} more")  # noqa: T201


def bytes_of(amount: str) -> int:
    """Return the bytes of an amount such as `20Gi`. `ValueError` for what is no amount."""
    found = quantity(amount) // UNIT
    if found < 0:
        raise ValueError(f"an amount is not below zero: {amount!r}")
    return found


def bytes_text(size: int) -> str:
    """Return a number of bytes as text for people: `4.5Gi`, `17B`; empty for none."""
    text = amount_text(MEMORY, size * UNIT)
    return "" if not size else f"{text}B" if text.isdecimal() else text


def moment_text(at: float) -> str:
    """Return a moment of `time.time()` in local time: the hour alone where it was today."""
    told, today = datetime.fromtimestamp(at).astimezone(), datetime.now().astimezone()
    return told.strftime("%H:%M:%S" if told.date() == today.date() else "%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    """Return a time in seconds as text for people: `5.6 ms`, `12.1 s`, `1:02`, `1:02:03`; empty for none."""
    if value is None:
        return ""
    if _LEAST_S <= value < _SHORT_S:
        return f"{value * 1000:.2g} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _state(job: JobRow) -> str:
    """Return the state of a job, with what halts its process, and its attempt if that is not the first."""
    return ", ".join(filter(None, (job.state, job.halted, f"attempt {job.attempt}" if job.attempt > 1 else "")))


def print_jobs(jobs: Sequence[JobRow]) -> None:
    """Print a table of jobs."""
    if not jobs:
        print("no jobs")  # noqa: T201
        return
    titles = ["job", "name", "called", "state", "request", "worker", "slots", "for", "client"]
    rows = [
        [
            *(
                str(job.job),
                job.name,
                job.named,
                _state(job),
            ),
            *(amounts(job.request), job.worker, amounts(job.allocation)),
            *(seconds(job.running_s), job.program or str(job.client or "")),
        ]
        for job in jobs
    ]
    if not any(job.named for job in jobs):  # most have no such column
        for row in (titles, *rows):
            del row[2]
    print_table(titles, rows)
