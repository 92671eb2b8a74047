"""Trace rows on the wire: the number of jobs that have ended, and, where the head records, what ran where and when.

A trace is drawn by the client that requests it: the head only sends what it kept, some of it in each turn of its
loop.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import TYPE_CHECKING

from grainlike.net import Link
from grainlike.wire import SpanRow, TraceIs, Unable

if TYPE_CHECKING:  # few programs record
    from grainlike.head import Recorder
    from grainlike.observe import Stretch

__all__ = ["NOT_RECORDED", "send_trace"]

NOT_RECORDED = "this head records nothing: start it with `grainlike head start --record`, or Executor(record=True)"

_ROWS = 1000
"""Rows that are sent in one turn of the loop."""


async def send_trace(link: Link, ask: int, recorder: Recorder | None) -> None:
    """Send the trace rows for a query, as fast as the other end reads."""
    if recorder is None:
        link.post(Unable(ask, NOT_RECORDED))
        return
    spans = map(_Rows(), recorder.stretches())
    while rows := list(islice(spans, _ROWS)):
        link.post(TraceIs(ask, rows, [], False))
        await link.drain()
    depths = iter(recorder.depths())
    while moments := [(at, waiting, running) for at, waiting, running in islice(depths, _ROWS)]:
        link.post(TraceIs(ask, [], moments, False))
        await link.drain()
    link.post(TraceIs(ask, [], [], True))


class _Rows:
    """Encodes stretches as rows; their keys are numbered in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, one: Stretch) -> SpanRow:
        details = one.details
        if one.lane:
            told = {key: value for key, value in details.items() if isinstance(value, str | int)}
            return SpanRow(one.name, one.worker, "", one.began, one.ended, "", 0, 0, 0, [], one.lane, told)
        slots, status = str(details.get("slots", "")), str(details["status"])
        job, attempt = int(details.get("job", 0)), int(details["attempt"])
        needs = [self._number(key) for key in one.needs]
        return SpanRow(
            one.name, one.worker, slots, one.began, one.ended, status, job, attempt, self._number(one.key), needs
        )

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
