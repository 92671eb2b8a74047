"""Form of the history of ended jobs: entries of columns, segments of entries, receipts, and what is kept for the
next head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from grainlike.wire import EndedAttempt, EndedJob, ReceiptRow, ReceiptSpec

__all__ = [
    "UNPACKABLE",
    "Entry",
    "KeptHistory",
    "ReceiptTable",
    "Segment",
    "first_line",
    "kept_from",
    "limits_of",
    "pack",
    "packed_plainly",
    "plain_text",
    "row_of",
    "unpack",
]

T = TypeVar("T")

_FORMAT = 1
"""Format of `KeptHistory` and all in it. Raise it when a field changes otherwise than by a last one with a default."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Jobs that have ended alike, in columns; `names`, `slots` and `submitted` have one item for all, or one for each.

    `begun` is when they began on their worker's clock, which is `skew` behind the head's, and `submitted` is on the
    head's. `ran` is None for a job that did not run: it ended at `begun`. `receipt` is a number of the history's table
    of receipts, 0 for none, and `earlier` has the earlier attempts of those of the jobs that had several. `named` is
    the name that the one job of the entry had in its session, empty for none.
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
    receipt: int = 0
    earlier: dict[int, list[EndedAttempt]] = {}
    named: str = ""


class Segment(NamedTuple):
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
        receipts: receipts of jobs, of which `first_receipt` is the number of the first.
        earlier: the attempts so far of jobs that have not ended, by number.
    """

    end: int
    segments: list[Segment]
    jobs: list[int]
    moments: list[float | None]
    relayed: list[int]
    requests: list[str]
    joined: dict[str, float]
    format: int = _FORMAT
    receipts: list[ReceiptRow] = []
    first_receipt: int = 1
    earlier: dict[int, list[EndedAttempt]] = {}


_LONGEST_ERROR = 200

_MOST_RECEIPTS = 4_096
"""Receipts that are kept; of more the older half is forgotten. One takes some 300 bytes, and more with many cores."""

limits_of: Callable[[ReceiptRow | ReceiptSpec], tuple[Any, ...]] = attrgetter(
    "affinity", "threads", "devices", "memory_tier"
)
"""Return the limits of a receipt, without the process that read them."""

pack: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
unpack: Callable[[bytes], list[Entry]] = msgspec.msgpack.Decoder(list[Entry]).decode
_kept = msgspec.msgpack.Decoder(KeptHistory).decode


UNPACKABLE = (TypeError, UnicodeEncodeError)
"""Errors for text of a subclass of `str`, or with a lone surrogate: names are users' own, and errors quote anything."""


def packed_plainly(entry: Entry) -> bytes:
    """Return an entry that could not be packed as bytes, with plain text in place of its own."""
    return pack(
        replace(
            entry,
            names=list(map(plain_text, entry.names)),
            error=plain_text(entry.error),
            worker=plain_text(entry.worker),
            program=plain_text(entry.program),
            request=plain_text(entry.request),
            named=plain_text(entry.named),
        )
    )


def first_line(text: str) -> str:
    """Return the first line of an error's text that says something, shortened."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 3]}..."


def plain_text(text: str) -> str:
    """Return text as it can be packed: plain, and without lone surrogates."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def kept_from(data: bytes) -> KeptHistory | None:
    """Return what the history of the head before has kept; None if that is of another format."""
    try:
        kept = _kept(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return kept if kept.format == _FORMAT else None


def row_of(entry: Entry, row: int, ahead: float, receipt: ReceiptRow | None = None) -> EndedJob:
    """Return one job of an entry; `ahead` is how far the calendar's clock is ahead of the head's, and `receipt` that
    of the entry.
    """
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
        0 if entry.coroutine else entry.rss[row],  # in a shared process, that of whatever ran there
        began + (ran or 0.0) + ahead,
        entry.coroutine,
        receipt,
        entry.earlier.get(entry.jobs[row], []),
        entry.named,
    )


def _item(column: Sequence[T], row: int) -> T:
    return column[row] if len(column) > 1 else column[0]


class ReceiptTable:
    """Receipts by number: `rows`, of which `first` is the number of the first. `numbers` has them by `limits_of`,
    packed.
    """

    def __init__(self, rows: Sequence[ReceiptRow] = (), first: int = 1) -> None:
        self.rows: list[ReceiptRow] = list(rows)
        self.first: int = first
        self.numbers: dict[bytes, int] = {pack(limits_of(row)): number for number, row in enumerate(self.rows, first)}

    def add(self, receipt: ReceiptSpec) -> int:
        """Add a receipt, and return its number."""
        limits = limits_of(receipt)
        self.rows.append(ReceiptRow(*limits))
        number = self.numbers[pack(limits)] = self.first + len(self.rows) - 1
        if len(self.rows) > _MOST_RECEIPTS:
            forgotten = self.rows[: _MOST_RECEIPTS // 2]
            del self.rows[: _MOST_RECEIPTS // 2]
            self.first += len(forgotten)
            for row in forgotten:
                del self.numbers[pack(limits_of(row))]
        return number

    def of(self, number: int) -> ReceiptRow | None:
        """Return the receipt of this number; None for 0, and for one that is forgotten."""
        at = number - self.first
        return self.rows[at] if number and 0 <= at < len(self.rows) else None
