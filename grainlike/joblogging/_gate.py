"""Limits on how many records of `logging` pass, and how many bytes: what is beyond is dropped, never waited for."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["JOB_RATE", "WORKER_RATE", "Rate", "RateGate"]


class Rate(NamedTuple):
    """Records and bytes per second in the long run, and how many seconds of both may come at once."""

    records: float
    size: float
    burst_s: float


JOB_RATE = Rate(1_000, 1 << 20, 5)
"""Of one job: in the long run 1000 records and 1 MiB a second; 5000 records and 5 MiB at once."""

WORKER_RATE = Rate(5_000, 4 << 20, 5)
"""Of all jobs of one worker: in the long run 5000 records and 4 MiB a second; 25 000 records and 20 MiB at once."""


class RateGate:
    """Token buckets for records and for their bytes. `now` is any clock in seconds that does not go back."""

    __slots__ = ("_at", "_rate", "_records", "_size")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._records = rate.records * rate.burst_s
        self._size = rate.size * rate.burst_s
        self._at = float("-inf")

    def allows(self, size: int, now: float) -> bool:
        """Return True, and count the record, if one of so many bytes may pass now."""
        rate = self._rate
        seconds = min(now - self._at, rate.burst_s)
        self._at = now
        self._records = min(rate.records * rate.burst_s, self._records + seconds * rate.records)
        self._size = min(rate.size * rate.burst_s, self._size + seconds * rate.size)
        if self._records < 1 or self._size <= 0 or self._size < size:
            return False
        self._records -= 1
        self._size -= size
        return True

    def charges(self, size: int) -> bool:
        """Count the bytes of a record that has passed before its size was known; return False if they are too many."""
        if self._size < size:
            return False
        self._size -= size
        return True
