"""Form of the history of ended jobs: entries of columns, blocks of entries, and all that is kept for the next head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from grainlike.wire import EndedJob

__all__ = [
    "UNPACKABLE",
    "Block",
    "Entry",
    "KeptHistory",
    "kept_from",
    "pack",
    "packed_plainly",
    "row_of",
    "unpack",
]

T = TypeVar("T")

_FORMAT = 1
"""Format of `KeptHistory` and all in it. Raise it when a field changes otherwise than by a last one with a default."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Jobs that have ended alike, in columns; `names`, `slots` and `submitted` have one item for all, or one for each.

    `begun` is when they began on their worker's clock, which is `skew` behind the head's, and `submitted` is on the
    head's. `ran` is None for a job that did not run: it ended at `begun`.
    """

    outcome: str
    error: str
    worker: str
    request: str
    client: int
    program: str
    parent: int
    skew: float
    coroutine: bool
    names: list[str]
    slots: list[str | None]
    submitted: list[float | None]
    jobs: list[int]
    attempts: list[int]
    begun: list[float]
    ran: Sequence[float | None]
    cpu: list[float]
    rss: list[int]


class Block(NamedTuple):
    """Entries that are packed together. `first` is the place of the first of its `rows` jobs among all that ended.

    `bad` of them did not succeed, their numbers lie from `lowest` to `highest`, and they had ended by `until`, as
    `time.time()` has it, which is `ahead` of the head's clock.
    """

    first: int
    rows: int
    bad: int
    lowest: int
    highest: int
    until: float
    ahead: float
    data: bytes


class KeptHistory(msgspec.Struct, frozen=True, array_like=True):
    """All that a history keeps for the next head.

    Attributes:
        end: place of the next job that ends.
        jobs, moments: numbers of jobs, and when those from there on were submitted.
        relayed, requests: numbers of jobs of clients and of jobs, and what those from there on ask for.
        joined: when the workers that are there joined, by name.
    """

    end: int
    blocks: list[Block]
    jobs: list[int]
    moments: list[float | None]
    relayed: list[int]
    requests: list[str]
    joined: dict[str, float]
    format: int = _FORMAT


pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(list[Entry]).decode
_kept = msgspec.msgpack.Decoder(KeptHistory).decode


UNPACKABLE = (TypeError, UnicodeEncodeError)
"""Errors for text of a subclass of `str`, or with a lone surrogate: names are users' own, and errors quote anything."""


def packed_plainly(entry: Entry) -> bytes:
    """Return an entry that could not be packed as bytes, with plain text in place of its own."""
    return pack(
        replace(
            entry,
            names=list(map(_plain_text, entry.names)),
            error=_plain_text(entry.error),
            worker=_plain_text(entry.worker),
            program=_plain_text(entry.program),
            request=_plain_text(entry.request),
        )
    )


def _plain_text(text: str) -> str:
    return str.encode(text, "utf-8", "backslashreplace").decode()


def kept_from(data: bytes) -> KeptHistory | None:
    """Return what the history of the head before has kept; None if that is of another format."""
    try:
        kept = _kept(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return kept if kept.format == _FORMAT else None


def row_of(entry: Entry, row: int, ahead: float) -> EndedJob:
    """Return one job of an entry; `ahead` is how far the calendar's clock is ahead of the head's."""
    began, ran = entry.begun[row] + entry.skew, entry.ran[row]
    submitted = _item(entry.submitted, row)
    return EndedJob(
        entry.jobs[row],
        _item(entry.names, row),
        entry.outcome,
        entry.error,
        entry.worker,
        entry.request,
        _item(entry.slots, row) or "",
        entry.attempts[row],
        entry.client,
        entry.program,
        entry.parent,
        None if submitted is None else max(0.0, began - submitted),
        ran,
        entry.cpu[row],
        entry.rss[row],
        began + (ran or 0.0) + ahead,
        entry.coroutine,
    )


def _item(column: Sequence[T], row: int) -> T:
    return column[row] if len(column) > 1 else column[0]
