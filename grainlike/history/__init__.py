"""Ended jobs as a head keeps them: small forms of their records, and which of them a question means.

Reads no clock and waits for nothing: `head` fills it, and answers with it what `grainlike jobs` and
`Executor.history()` ask.
"""

from grainlike.history._form import (
    UNPACKABLE,
    Entry,
    KeptHistory,
    ReceiptTable,
    Segment,
    first_line,
    kept_from,
    limits_of,
    pack,
    packed_plainly,
    plain_text,
    row_of,
    unpack,
)
from grainlike.history._patterns import HistoryFilter, matcher

__all__ = [
    "UNPACKABLE",
    "Entry",
    "HistoryFilter",
    "KeptHistory",
    "ReceiptTable",
    "Segment",
    "first_line",
    "kept_from",
    "limits_of",
    "matcher",
    "pack",
    "packed_plainly",
    "plain_text",
    "row_of",
    "unpack",
]
