"""Workers and explanations as rows of messages, and back: what a head answers, and what clients make of it.

A row has fields of the same names as what it stands for. Plain data go as they are; how the others go, and come back,
stands in one table for each kind of row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grainlike.jobs._records import WorkerInfo
from grainlike.resources import Request, parse, parse_allocation
from grainlike.scheduler import Explanation
from grainlike.wire import JobIs, WorkerRow

__all__ = ["explanation_of", "job_is", "worker_info", "worker_row"]

_Way = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""Encoder and decoder of a field."""

_SEQUENCE: _Way = (list, tuple)


def _text_if_any(request: Request | None) -> str | None:
    return None if request is None else str(request)


def _request_if_any(text: str | None) -> Request | None:
    return None if text is None else parse(text)


_OF_WORKER: dict[str, _Way] = {"resources": (str, parse_allocation), "logical": _SEQUENCE, "shared": _SEQUENCE}
_OF_JOB: dict[str, _Way] = {
    "request": (str, parse),
    "holders": _SEQUENCE,
    "would_start_with": (_text_if_any, _request_if_any),
    "members": _SEQUENCE,
}

_WORKER_FIELDS = WorkerRow.__struct_fields__
_JOB_FIELDS = tuple(name for name in JobIs.__struct_fields__ if name not in ("ask", "name"))


def worker_row(worker: WorkerInfo) -> WorkerRow:
    """Return a worker, to be sent."""
    return WorkerRow(**_packed(worker, _WORKER_FIELDS, _OF_WORKER))


def worker_info(row: WorkerRow) -> WorkerInfo:
    """Return the worker that was sent."""
    return WorkerInfo(**_unpacked(row, _WORKER_FIELDS, _OF_WORKER))


def job_is(ask: int, name: str, found: Explanation) -> JobIs:
    """Return the reply to an `explain` query: why a job waits, or where it is."""
    fields = _packed(found, _JOB_FIELDS, _OF_JOB)
    fields["words"] = str(found)
    return JobIs(ask=ask, name=name, **fields)


def explanation_of(told: JobIs) -> Explanation:
    """Return the explanation in a reply, with the text that the head made."""
    return Explanation(**_unpacked(told, _JOB_FIELDS, _OF_JOB))


def _packed(thing: object, fields: Iterable[str], ways: Mapping[str, _Way]) -> dict[str, Any]:
    return {name: ways[name][0](value) if name in ways else value for name, value in _read(thing, fields)}


def _unpacked(row: object, fields: Iterable[str], ways: Mapping[str, _Way]) -> dict[str, Any]:
    return {name: ways[name][1](value) if name in ways else value for name, value in _read(row, fields)}


def _read(thing: object, fields: Iterable[str]) -> Iterable[tuple[str, Any]]:
    return ((name, getattr(thing, name)) for name in fields)
