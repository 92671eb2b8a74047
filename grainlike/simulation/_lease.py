"""Run-list inside a simulated runner: its progress, and the outcomes that were not reported yet."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from grainlike.scheduler import StartLease
from grainlike.wire import Code, Completed

__all__ = ["RunList"]

_NOBODY: frozenset[int] = frozenset()

FLUSH_S = 0.001
"""Seconds for which a runner collects outcomes before it sends them."""


class RunList:
    """The jobs of one lease: those from `index` to before `end` are still to run; `running`: the first of them has
    begun.
    """

    __slots__ = (
        "_awaited",
        "_flushed",
        "_rows",
        "attempts",
        "began_at",
        "end",
        "index",
        "jobs",
        "lease",
        "limited",
        "places",
        "running",
        "stopped",
    )

    def __init__(self, action: StartLease, now: float) -> None:
        self.lease = action.lease
        self.jobs = action.jobs
        self.attempts = action.attempts
        self.limited = action.limit is not None
        self.index = 0
        self.end = len(action.jobs)
        self.running = False
        self.began_at = 0.0
        """When it began, while its value waits for room."""
        self.places = False
        """True while the value of the job at `index` waits for room."""
        self.stopped: AbstractSet[int] = _NOBODY
        self._flushed = now
        self._awaited = False
        self._rows: list[tuple[int, int, int, float, float]] = []
        """Job, attempt, code, beginning and seconds of each outcome that was not reported yet."""

    @property
    def job(self) -> int:
        """The job at `index`."""
        return self.jobs[self.index]

    @property
    def attempt(self) -> int:
        """The attempt of the job at `index`."""
        return self.attempts[self.index]

    def stop(self, jobs: list[int]) -> None:
        """Mark jobs as stopped, if they have not ended."""
        left = self.jobs[self.index : self.end]
        self.stopped |= {job for job in jobs if job in left}

    def ran(self, code: Code, begun: float, wall: float) -> None:
        """Record the end of the job at `index`."""
        self._add(self.index, code, begun, wall)
        self.index += 1
        self.running = False

    def skip(self) -> None:
        """Record that the job at `index` was cancelled before it began."""
        self._add(self.index, Code.CANCELLED, 0.0, 0.0)
        self.index += 1

    def miss(self) -> None:
        """Record that the job at `index` cannot begin, as a value that it needs is not there."""
        self._add(self.index, Code.INPUT_GONE, 0.0, 0.0)
        self.index += 1

    def hand_back(self, first: int) -> None:
        """Return the jobs from `first` on: they will not run here."""
        for position in range(first, self.end):
            stopped = self.jobs[position] in self.stopped
            self._add(position, Code.CANCELLED if stopped else Code.RETURNED, 0.0, 0.0)
        self.end = first

    def suspended(self) -> None:
        """Return the jobs behind the one at `index`, which awaits: they must not wait for it."""
        self._awaited = True
        self.hand_back(self.index + 1)

    def _add(self, position: int, code: Code, begun: float, wall: float) -> None:
        self._rows.append((self.jobs[position], self.attempts[position], int(code), begun, wall))

    def due(self, now: float) -> bool:
        """Return True if it is time to report."""
        return now - self._flushed >= FLUSH_S

    def take(self, now: float) -> Completed | None:
        """Return all outcomes that were not reported yet, as of `now`; None without any."""
        rows = self._rows
        if not rows:
            return None
        count = len(rows)
        jobs, attempts, codes, begun, walls = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
        told = Completed(
            self.lease,
            jobs,
            attempts,
            codes,
            begun,
            walls,
            [0.0] * count,
            [0] * count,
            [b""] * count,
            [],
            now,
            self._awaited,
        )
        self._flushed = now
        self._rows = []
        return told
