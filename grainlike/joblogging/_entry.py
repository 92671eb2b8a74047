"""Record of `logging` as plain data: what a job's process packs, and its program unpacks.

Nothing is pickled. The message travels formatted and an exception as the text of its traceback, so that neither the
arguments of a call nor the exception need to be known where the record arrives.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from grainlike.context import JobInfo

__all__ = ["RESERVED", "LogEntry", "line_of", "pack_dropped", "pack_record", "record_of", "unpack"]

MESSAGE_CHARS = 16 * 1024
"""Characters of a message beyond which its end is left out; so it is with the text of a stack."""

ERROR_CHARS = 32 * 1024
"""Characters of a traceback beyond which its middle is left out."""

_EXTRA_CHARS = 1024
_MOST_EXTRA = 32
_NESTED = 3
"""Depth down to which lists and dicts in an extra attribute are kept as such."""

_NAME_CHARS = 256
_TIME_MOST = 1e11
"""Moments beyond this, in seconds since 1970, are none: a Formatter could not write them."""

_LEVEL_MOST = 2**31 - 1
"""Levels are at most this, and at least its negative: larger ones are sent as this."""

RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {
    *("asctime", "getMessage", "message", "taskName", "job", "job_name", "worker", "attempt")
}
"""Attributes that every record has, or gets: no extra ones."""


class LogEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Record of `logging` of one attempt of a job. With `dropped` it is none: so many records of the job were dropped.

    `error` is the text of `exc_info`, `extra` has the attributes that the job gave the record itself.
    """

    job: int
    job_name: str
    attempt: int
    name: str
    level: int
    message: str
    created: float
    error: str | None = None
    stack: str | None = None
    pathname: str = ""
    lineno: int = 0
    function: str = ""
    thread: int = 0
    thread_name: str = ""
    process: int = 0
    process_name: str = ""
    task_name: str | None = None
    extra: dict[str, Any] | None = None
    dropped: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogEntry)
_formatter = logging.Formatter()


def pack_record(record: logging.LogRecord, job: JobInfo) -> bytes:
    """Return a record that `job` made as bytes, shortened to some 100 KiB at the most.

    Raises what formatting the message raises, as for `"%d" % "x"`.
    """
    error = record.exc_text
    if error is None and record.exc_info and record.exc_info[0] is not None:
        error = _formatter.formatException(record.exc_info)
    entry = LogEntry(
        job.id,
        job.name[:_NAME_CHARS],
        job.attempt,
        record.name[:_NAME_CHARS],
        max(-_LEVEL_MOST, min(int(record.levelno), _LEVEL_MOST)),
        _cut(record.getMessage(), MESSAGE_CHARS, "message"),
        record.created,
        None if error is None else _without_middle(error),
        None if record.stack_info is None else _cut(str(record.stack_info), MESSAGE_CHARS, "stack"),
        record.pathname[:_EXTRA_CHARS],
        record.lineno,
        record.funcName or "",
        record.thread or 0,
        record.threadName or "",
        record.process or 0,
        record.processName or "",
        getattr(record, "taskName", None),
        _extra(vars(record)),
    )
    return _encoded(entry)


def pack_dropped(job: int, name: str, attempt: int, count: int) -> bytes:
    """Return the note that `count` records of a job were dropped, as bytes."""
    return _encoded(LogEntry(job, name, attempt, "", logging.WARNING, "", 0.0, dropped=count))


def _encoded(entry: LogEntry) -> bytes:
    try:
        return _encoder.encode(entry)
    except UnicodeEncodeError:  # half of a surrogate pair, as from a file name that is no UTF-8
        return _encoder.encode(msgspec.convert(_sendable(msgspec.to_builtins(entry)), LogEntry))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    return [_sendable(item) for item in value] if isinstance(value, list | tuple) else value


def _cut(text: str, most: int, what: str) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}... [{left:,} more characters of this {what} are left out]"


def _without_middle(text: str) -> str:
    left = len(text) - ERROR_CHARS
    if left <= 0:
        return text
    half = ERROR_CHARS // 2
    return f"{text[:half]}\n... [{left:,} characters are left out here] ...\n{text[-half:]}"


def _extra(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    found = {
        str(name)[:_NAME_CHARS]: _plain(value, _NESTED) for name, value in attributes.items() if name not in RESERVED
    }
    return dict(list(found.items())[:_MOST_EXTRA]) or None


def _plain(value: Any, deep: int) -> Any:
    """Return a value of a plain type; the text of any other, shortened."""
    kind = type(value)
    if value is None or kind is bool or kind is float or (kind is int and -(2**63) <= value < 2**63):
        return value
    if kind is str:
        return _cut(value, _EXTRA_CHARS, "text")
    if deep and len_of(value) <= _MOST_EXTRA:
        if kind is dict:
            return {str(key)[:_NAME_CHARS]: _plain(item, deep - 1) for key, item in value.items()}
        if kind in (list, tuple):
            return [_plain(item, deep - 1) for item in value]
    try:
        return _cut(str(value), _EXTRA_CHARS, "text")
    except Exception:  # noqa: BLE001 - an object of the job's, which may raise anything when it is asked for its text
        return f"<{kind.__qualname__}>"


def len_of(value: Any) -> int:
    """Return the number of items of a list, tuple or dict; 0 for all else."""
    return len(value) if type(value) in (list, tuple, dict) else 0


def unpack(packed: bytes) -> LogEntry | None:
    """Return the entry in `packed`; None if these bytes are none."""
    try:
        entry = _decoder.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):  # TypeError: a key of `extra` that cannot be one
        return None
    is_time = math.isfinite(entry.created) and 0 <= entry.created < _TIME_MOST
    return entry if is_time and abs(entry.level) <= _LEVEL_MOST and 0 <= entry.dropped < 2**53 else None


def line_of(entry: LogEntry) -> str:
    """Return an entry as `LEVEL:logger:message`, with its traceback and stack, as `logging.basicConfig` writes it."""
    first = f"{logging.getLevelName(entry.level)}:{entry.name}:{entry.message}"
    return "\n".join(part for part in (first, entry.error, entry.stack) if part is not None)


def record_of(entry: LogEntry, worker: str) -> logging.LogRecord:
    """Return the record that a job on `worker` made, with `job`, `job_name`, `worker` and `attempt` as attributes.

    The program's factory makes it, as for a record of its own, and may raise anything.
    """
    extra = {name: value for name, value in (entry.extra or {}).items() if name not in RESERVED}
    make = logging.getLogRecordFactory()
    about = (
        entry.name,
        entry.level,
        entry.pathname,
        entry.lineno,
        entry.message,
        (),
        None,
        entry.function,
        entry.stack,
    )
    record: logging.LogRecord = make(*about)
    # What the factory noted is the moment of the arrival; the difference to the start of the program is private.
    since = record.created - entry.created
    own: dict[str, Any] = {
        "name": entry.name,
        "msg": entry.message,
        "args": (),
        "levelno": entry.level,
        "levelname": logging.getLevelName(entry.level),
        "pathname": entry.pathname,
        "filename": entry.pathname.rpartition("/")[2],
        "module": entry.pathname.rpartition("/")[2].removesuffix(".py"),
        "lineno": entry.lineno,
        "funcName": entry.function,
        "created": entry.created,
        "msecs": float(int((entry.created - int(entry.created)) * 1000)),
        "relativeCreated": record.relativeCreated - since * 1000,
        "thread": entry.thread,
        "threadName": entry.thread_name,
        "process": entry.process,
        "processName": entry.process_name,
        "taskName": entry.task_name,
        "exc_info": None,
        "exc_text": entry.error,
        "stack_info": entry.stack,
        "job": entry.job,
        "job_name": entry.job_name,
        "worker": worker,
        "attempt": entry.attempt,
    }
    vars(record).update(extra | own)
    return record
