"""Two ways to do the same, in turn: what only one run on one machine can compare."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

__all__ = ["OWN_LEASES_S", "Way", "in_turn"]

OWN_LEASES_S = (600.0, 601.0)
"""Timeouts in seconds of two functions that are called in turn: jobs with different timeouts share no lease."""

Way = Callable[[], Awaitable[object]]


async def in_turn(ways: Sequence[Way], rounds: int) -> list[list[float]]:
    """Seconds of each round of each way. All run once before, so that processes are up and functions known."""
    seconds: list[list[float]] = [[] for _ in ways]
    for way in ways:
        await way()
    for _ in range(rounds):
        for way, taken in zip(ways, seconds, strict=True):
            begun = time.perf_counter()
            await way()
            taken.append(time.perf_counter() - begun)
    return seconds
