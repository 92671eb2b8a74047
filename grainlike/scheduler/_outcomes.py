"""Reports of a node about ended attempts: a runner's message with the rows that count, or one of the node's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from grainlike.wire import Code, Completed

__all__ = ["told_rows", "without_payloads"]


class _Attempt(Protocol):
    id: int
    attempt: int


def told_rows(completed: Completed, rows: list[int], codes: list[int]) -> Completed:
    """Return the message with these codes; rows not in `rows` get attempt 0, and no size, so that the payloads stay
    aligned.
    """
    if len(rows) == len(completed.jobs):
        return completed if codes == completed.codes else replace(completed, codes=codes)
    told = set(rows)
    attempts = [attempt if row in told else 0 for row, attempt in enumerate(completed.attempts)]
    sizes = [size if row in told else 0 for row, size in enumerate(completed.sizes)]
    return replace(completed, attempts=attempts, codes=codes, sizes=sizes)


def without_payloads(
    lease: int, jobs: Sequence[_Attempt], codes: list[Code], now: float, details: dict[int, str]
) -> Completed:
    """Return a message about jobs that left no payload."""
    count = len(jobs)
    return Completed(
        lease,
        [job.id for job in jobs],
        [job.attempt for job in jobs],
        [int(code) for code in codes],
        [now] * count,
        [0.0] * count,
        [0.0] * count,
        [0] * count,
        [b""] * count,
        [],
        now,
        details=details,
    )
