"""Progress of calls by the name of their function: how many have ended, how fast, and when the rest may have.

It is told of counts at moments, and looks at no clock. What is not known is None, never a guess: see `Pace`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar, NamedTuple

__all__ = ["CallCounts", "FunctionProgress", "Pace", "ProgressCounter"]


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls of one function: how many are known, and what became of them. The others wait."""

    known: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """Calls that have ended, however they did."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def done(self) -> int:
        """Calls that have run to an end: those that were cancelled say nothing of the pace."""
        return self.succeeded + self.failed

    @property
    def left(self) -> int:
        """Calls that have not ended."""
        return self.known - self.ended

    @property
    def waiting(self) -> int:
        """Calls that have neither ended nor run now."""
        return self.left - self.running

    def __add__(self, other: CallCounts) -> CallCounts:
        return CallCounts(
            self.known + other.known,
            self.running + other.running,
            self.succeeded + other.succeeded,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
        )


@dataclass(frozen=True, slots=True)
class FunctionProgress:
    """Progress of the calls of one function: its counts, ends per second, and seconds.

    `rate` is None before the first end, `left_s` while it is not known, and `took_s` while some calls have not
    ended.
    """

    name: str
    counts: CallCounts
    rate: float | None = None
    left_s: float | None = None
    took_s: float | None = None


class _Sample(NamedTuple):
    """Counts at a moment at which some more calls were done."""

    at: float
    done: int
    known: int


class Pace:
    """Pace of the calls of one function: ends per second of the last while, and what follows for the rest.

    The last while is half a minute, or longer where that is needed for as many ends as calls run. The time that is
    left is counted from the last end, not from now: of calls that end together, wave after wave, it says the same at
    each moment of a wave. It is unknown

    - until as many have ended as run now: before that, only the quickest have;
    - while calls are added half as fast as they end, or faster, as by a loop: it is not known how many will come;
    - once nothing has ended for three times the longest pause of the last while.
    """

    WHILE_S: ClassVar[float] = 30.0
    PATIENCE: ClassVar[float] = 3.0
    """Number of longest pauses after which it is unknown when anything ends."""
    LEAST_S: ClassVar[float] = 5.0
    """Seconds without an end after which it is, at the least."""

    __slots__ = ("_at", "_counts", "_first", "_last", "_samples")

    def __init__(self, at: float) -> None:
        self._at = self._first = self._last = at
        self._counts = CallCounts()
        self._samples: deque[_Sample] = deque([_Sample(at, 0, 0)])

    def take(self, at: float, counts: CallCounts) -> None:
        """Take the counts at a moment, none of which falls but that of running calls."""
        since, self._at = self._at, at
        before, self._counts = self._counts, counts
        if not before.left and counts.known > before.known:  # the time before says nothing of the pace
            self._samples = deque([_Sample(since, before.done, counts.known)])
        if not before.ended and not before.running:
            self._first = since
        if not counts.ended and not counts.running:
            self._samples = deque([_Sample(at, 0, counts.known)])
        if counts.done > before.done:
            self._samples.append(_Sample(at, counts.done, counts.known))
            self._forget(at)
        if counts.ended > before.ended:
            self._last = at

    def _forget(self, now: float) -> None:
        """Drop what was before the last while."""
        samples, running = self._samples, self._counts.running
        while (
            len(samples) > 2 and now - samples[1].at >= self.WHILE_S and samples[-1].done - samples[1].done >= running
        ):
            samples.popleft()

    def rate(self, now: float) -> float | None:
        """Return ends per second; None before there was one."""
        took = self.took_s()
        if took is not None:
            return self._counts.done / took if took else None
        first, last = self._samples[0], self._samples[-1]
        until = now if now - last.at > self._longest_pause() else last.at
        return (last.done - first.done) / (until - first.at) if last.done > first.done else None

    def left_s(self, now: float) -> float | None:
        """Return the seconds until the calls that are known have ended; None if that is unknown."""
        counts, first, last = self._counts, self._samples[0], self._samples[-1]
        done = last.done - first.done
        if not counts.left or not done or done < counts.running or 2 * (counts.known - first.known) >= done:
            return None
        pause, silent = self._longest_pause(), now - last.at
        if silent > max(self.PATIENCE * pause, self.LEAST_S):
            return None
        each = (last.at - first.at) / done
        return max(0.0, counts.left * each - min(silent, pause))

    def took_s(self) -> float | None:
        """Return the seconds from the first start to the last end; None if none ran, and while some have not ended."""
        return None if self._counts.left or not self._counts.done else self._last - self._first

    def _longest_pause(self) -> float:
        times = [sample.at for sample in self._samples]
        return max((after - before for before, after in pairwise(times)), default=0.0)


_NONE: Mapping[str, CallCounts] = MappingProxyType({})


class ProgressCounter:
    """Progress of all functions, in the order in which they came. Calls that were found ended count, but say nothing of
    the pace.
    """

    def __init__(self, now: float) -> None:
        self._at = now
        self._counts: dict[str, CallCounts] = {}
        self._paces: dict[str, Pace] = {}

    def take(self, now: float, counts: Mapping[str, CallCounts], found: Mapping[str, CallCounts] = _NONE) -> None:
        """Take the counts of all functions at this moment, and of calls that were `found`; counts only grow."""
        fresh = {name: counts.get(name, CallCounts()) for name in [*self._counts, *counts, *found]}
        self._counts = {name: count + found.get(name, CallCounts()) for name, count in fresh.items()}
        for name, count in fresh.items():
            pace = self._paces.get(name)
            if pace is None:
                pace = self._paces[name] = Pace(self._at)
            pace.take(now, count)
        self._at = now

    def rows(self, now: float, most: int) -> list[FunctionProgress]:
        """Return the progress of each function; of more than `most` the last row has all others together.

        Functions with calls that have not ended go before those that are done.
        """
        rows = [self._row(name, now) for name in self._counts]
        if len(rows) <= most:
            return rows
        ranked = sorted(rows, key=lambda row: not row.counts.left)  # stable: else as they came
        shown = {row.name for row in ranked[: most - 1]}
        return [*(row for row in rows if row.name in shown), _together(ranked[most - 1 :])]

    def _row(self, name: str, now: float) -> FunctionProgress:
        pace = self._paces[name]
        return FunctionProgress(name, self._counts[name], pace.rate(now), pace.left_s(now), pace.took_s())


def _together(rows: Sequence[FunctionProgress]) -> FunctionProgress:
    """Return one row for several functions. When they end is known if it is of each that has not."""
    counts = sum((row.counts for row in rows), CallCounts())
    rates = [row.rate for row in rows if row.counts.left and row.rate is not None]
    left = [row.left_s for row in rows if row.counts.left]
    return FunctionProgress(
        f"{len(rows)} others",
        counts,
        sum(rates) if rates else None,
        _longest(left),
        None if counts.left else _longest(row.took_s for row in rows),
    )


def _longest(times: Iterable[float | None]) -> float | None:
    """Return the longest of some times; None if one is unknown, or there is none."""
    found = list(times)
    known = [seconds for seconds in found if seconds is not None]
    return max(known) if known and len(known) == len(found) else None
