"""Two ways to do the same, in turn: what only one run on one machine can compare; and jobs that share no lease."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grainlike

__all__ = ["TIMEOUTS_S", "Way", "in_turn", "nesting_once"]

TIMEOUTS_S = (600.0, 601.0)
"""Timeouts in seconds of two functions that are called in turn."""

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


def nesting_once(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that does what `function` does, and with None waits for a job of its own.

    Once it has done that, its calls share no lease, however short they are.
    """

    def nesting(item: Any) -> Any:
        if item is None:
            return grainlike.result((grainlike.delayed(function) @ grainlike.Cores(1))(0))
        return function(item)

    return nesting
