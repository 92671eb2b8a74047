"""Record of copies of values, for traces: source, target, way, bytes and time of each copy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from grainlike.observe import Stretch
from grainlike.scheduler import HeadEvent, ReplicasArrived, ReplicasFailed, ValuesGiven
from grainlike.wire import Stored

__all__ = ["CopySpans", "Way"]

Way = Literal["direct", "relayed", "mapped", "fetched"]
"""Ways of bytes: between data servers, through the head, none because a file is mapped, or over a link to a program."""

_STORED_S = 0.1
"""Seconds within which a worker reports bytes that it has written to its disk."""


class _CopyUnderWay(NamedTuple):
    value: int
    size: int
    source: str
    target: str
    way: str
    began: float


class CopySpans:
    """Keeps the last `most` copies that have ended, the copies under way, and the last writes to disk. `now` is the
    head's clock.

    Example::

        spans = CopySpans(100_000, clock)
        spans.begun(7, 200_064, (1, "n1"), (2, "n2"), "direct")
        spans.answered(ReplicasArrived(2, [7], [1]))
        [one.lane for one in spans.stretches()]             # ["out", "in"]
    """

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._now = now
        self._under_way: dict[tuple[int, int], _CopyUnderWay] = {}
        """Copy under way, by target and value; there is one at a time."""
        self._spilled: dict[int, int] = {}
        self._ended: deque[tuple[Stretch, ...]] = deque(maxlen=most)

    # --- recording ---------------------------------------------------------------------------------------------------

    def begun(self, value: int, size: int, source: tuple[int, str], target: tuple[int, str], way: Way) -> None:
        """Record that a copy goes some way, from a source to a target, each with number and name; it has begun once."""
        before = self._under_way.get((target[0], value))
        began = self._now() if before is None else before.began
        self._under_way[target[0], value] = _CopyUnderWay(value, size, source[1], target[1], way, began)

    def answered(self, event: HeadEvent) -> None:
        """Record the end of copies, from an event that the scheduler is told."""
        match event:
            case ReplicasArrived(worker=worker, values=values):
                self.ended(worker, values)
            case ReplicasFailed(worker=worker, values=values, why=why):
                self.ended(worker, values, why)
            case ValuesGiven(values=values):
                for target, value in [key for key in self._under_way if key[1] in values]:
                    if self._under_way[target, value].way in ("fetched", "mapped"):
                        self.ended(target, [value])

    def ended(self, target: int, values: list[int], why: str = "") -> None:
        """Record that copies to `target` have ended, or have failed because of `why`."""
        now = self._now()
        for value in values:
            copy = self._under_way.pop((target, value), None)
            if copy is not None:
                self._ended.append(_both_ends(copy, now, why))

    def stored(self, worker: int, name: str, said: Stored) -> None:
        """Record a worker's report about its disk."""
        more = said.spilled - self._spilled.get(worker, 0)
        self._spilled[worker] = said.spilled
        if more > 0:
            now = self._now()
            details: dict[str, str | int | float] = {"way": "spilled", "bytes": more}
            self._ended.append(
                (Stretch(_words(more, "to disk"), name, (), now - _STORED_S, now, details, lane="disk"),)
            )

    # --- drawing -----------------------------------------------------------------------------------------------------

    def stretches(self) -> Iterator[Stretch]:
        """Iterate over both ends of each copy, on the head's clock; a copy under way extends to this moment."""
        for ended in list(self._ended):
            yield from ended
        now = self._now()
        for copy in list(self._under_way.values()):
            yield from _both_ends(copy, now, "")


def _both_ends(copy: _CopyUnderWay, ended: float, why: str) -> tuple[Stretch, ...]:
    ends = {"from": copy.source, "to": copy.target}
    details: dict[str, str | int | float] = {"way": copy.way, "bytes": copy.size, **ends, "value": copy.value}
    if why:
        details["failed"] = why
    there = _words(copy.size, f"to {copy.target}")
    out = Stretch(there, copy.source, (), copy.began, max(copy.began, ended), details, lane="out")
    return out, replace(out, name=_words(copy.size, f"from {copy.source}"), worker=copy.target, lane="in")


def _words(size: int, where: str) -> str:
    return f"{size / 1e6:,.1f} MB {where}"
