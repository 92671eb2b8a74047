"""Quarantine: workers that fail repeatedly get no new jobs for a while, each time for longer.

Failures that count: a link that broke, a loss of jobs, and a process that could not be started. The last one suffices
alone, as it would cost the next job an attempt; the others count when there are `STRIKES` of them within `WINDOW_S`.
A worker is identified by its name: one that died and came back is the same machine. Its record is cleared when nothing
has happened for `WINDOW_S` after its quarantine, or, if that was for processes, when a job has succeeded there."""

from __future__ import annotations

from collections import deque
from typing import Literal

__all__ = ["Quarantine", "Strike"]

Strike = Literal["links", "losses", "starts"]

WINDOW_S = 60.0
STRIKES = 5

FIRST_S: dict[Strike, float] = {"links": 10.0, "losses": 10.0, "starts": 1.0}
"""Seconds of the first quarantine; each further one takes twice as long."""

MOST_S = 600.0

_WORDS: dict[Strike, str] = {
    "links": f"its link has broken {STRIKES} times within {WINDOW_S:g} s",
    "losses": f"it has lost jobs {STRIKES} times within {WINDOW_S:g} s",
}


class _Record:
    __slots__ = ("kind", "level", "strikes", "until", "why")

    def __init__(self) -> None:
        self.strikes: dict[Strike, deque[float]] = {}
        self.level = 0
        self.until = 0.0
        self.kind: Strike = "links"
        self.why = ""

    @property
    def old_at(self) -> float:
        """Time after which the record may be dropped if nothing more happens."""
        last = max((strikes[-1] for strikes in self.strikes.values() if strikes), default=0.0)
        return max(last, self.until) + WINDOW_S


class Quarantine:
    """The failure records of workers, by name."""

    def __init__(self) -> None:
        self.records: dict[str, _Record] = {}
        """By name; empty while no worker has failed."""
        self._look_at = 0.0
        """No record expires before this time. Kept because a look at all records for each event would cost more than
        the event.
        """

    def strike(self, name: str, kind: Strike, now: float, why: str = "") -> bool:
        """Count a failure of a worker; return True if its quarantine begins now. `why`: the reason, for a kind without
        words.
        """
        record = self.records.get(name)
        if record is None:
            record = self.records[name] = _Record()
            self._look_at = min(self._look_at, now + WINDOW_S) if len(self.records) > 1 else now + WINDOW_S
        if now < record.until:
            return False
        if record.level and now > record.until + WINDOW_S:
            record.level = 0
        strikes = record.strikes.setdefault(kind, deque(maxlen=STRIKES))
        strikes.append(now)
        often = len(strikes) == STRIKES and strikes[0] >= now - WINDOW_S
        if not (often or kind == "starts"):
            return False
        seconds = min(MOST_S, FIRST_S[kind] * 2.0 ** min(record.level, 16))
        strikes.clear()
        record.level += 1
        record.until, record.kind = now + seconds, kind
        record.why = f"it is in quarantine for {seconds:g} s: {_WORDS.get(kind, why)}"
        return True

    def why(self, name: str, now: float) -> str:
        """Return why a worker is in quarantine; empty for one that is not."""
        record = self.records.get(name)
        return record.why if record is not None and now < record.until else ""

    def until(self, name: str) -> float:
        """Return when its last quarantine ends, or ended; 0 for one without a record."""
        record = self.records.get(name)
        return 0.0 if record is None else record.until

    def doubts_starts(self, name: str) -> bool:
        """Return True if its last quarantine was for processes that could not start, so that a success there clears
        it.
        """
        record = self.records.get(name)
        return record is not None and record.kind == "starts"

    def succeeded(self, name: str, now: float) -> None:
        """Clear a quarantine for processes: a job has succeeded there."""
        record = self.records.get(name)
        if record is not None and record.kind == "starts" and now >= record.until:
            del self.records[name]

    def forget_old(self, now: float) -> None:
        """Drop expired records."""
        if now < self._look_at:
            return
        old = {name: record.old_at for name, record in self.records.items()}
        for name, at in old.items():
            if now > at:
                del self.records[name]
        self._look_at = min((at for at in old.values() if at >= now), default=now)
