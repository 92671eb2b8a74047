"""W1 with the history of ended jobs and without, in turn: what it costs to remember what became of each.

*Without*, the same head is given a history that takes note of nothing, for the round. The figures are the median of the
ratios of neighbouring rounds' rates, and the ratio of the CPU times of this process, which is the head's and the
caller's, in the least disturbed round of each. Beside other programs both say little: then there is the CPU time that
batches take inside the history, as a part of all of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple, cast

from grainlike import Cores, Executor, delayed, gather
from grainlike.executor._local_head import LocalHead
from grainlike.head import Head
from grainlike.head._history import JobHistory
from grainlike_bench.bench_jobs import JOBS, coroutine, daemon, plain

ROUNDS = 15


class Forgetful:
    """History that takes note of nothing."""

    def succeeded(self, *_: object) -> None:
        """Keep no batch."""

    def ended(self, *_: object, **__: object) -> None:
        """Keep no job."""

    def submitted(self, job: int, now: float) -> float:
        """Keep no moment."""
        return now + 3600.0


class Timed:
    """History that counts the CPU seconds which batches take in it, over its rounds, as `seconds`."""

    def __init__(self, history: JobHistory) -> None:
        self._history = history
        self.seconds = 0.0
        self.ended, self.submitted = history.ended, history.submitted

    def succeeded(self, *batch: Any) -> None:
        """Keep a batch."""
        begun = time.thread_time()
        self._history.succeeded(*batch)
        self.seconds += time.thread_time() - begun


def _swap(head: Head, history: Any) -> None:
    head.history = head._settling._history = history
    head._noted_until = 0.0


async def _round(function: Any) -> tuple[float, float]:
    """Return the rate of one round, and the CPU seconds of this process."""
    begun, used = time.perf_counter(), time.process_time()
    values = await gather([function(i) for i in range(JOBS)])
    took, used = time.perf_counter() - begun, time.process_time() - used
    assert sum(values) == JOBS * (JOBS - 1) // 2
    return JOBS / took, used


@asynccontextmanager
async def _embedded() -> AsyncIterator[Executor]:
    async with Executor(local=Cores(2)) as executor:
        yield executor


class Rounds(NamedTuple):
    """Rates and CPU seconds of neighbouring rounds, with the history and without, and the seconds in the history."""

    pairs: list[tuple[tuple[float, float], tuple[float, float]]]
    inside: float

    def __str__(self) -> str:
        rates = [kept[0] / forgot[0] for kept, forgot in self.pairs]
        kept, forgot = (min(pair[way][1] for pair in self.pairs) for way in (0, 1))
        inside = self.inside / len(self.pairs)
        return (
            f"{median(rates):.3f} x ({min(rates):.3f}-{max(rates):.3f}), by CPU time {forgot / kept:.3f} x; "
            f"inside {inside / JOBS * 1e6:.2f} of {kept / JOBS * 1e6:.1f} us a job: {1 - inside / kept:.3f} x"
        )


async def measure(rounds: int = ROUNDS) -> dict[str, Rounds]:
    """Return what was measured, by workload."""
    found: dict[str, Rounds] = {}
    for where, opened in (("worker", partial(daemon, insecure=True)), ("embedded", _embedded)):
        async with opened() as executor:
            head = cast("LocalHead", executor._service).head
            true = head.history
            for kind in (coroutine, plain):
                function = delayed(kind) @ Cores(1)
                await _round(function)
                timed, pairs = Timed(true), []
                for turn in range(rounds):
                    told: dict[bool, tuple[float, float]] = {}
                    for kept in (turn % 2 == 0, turn % 2 == 1):  # neither always comes first
                        _swap(head, timed if kept else Forgetful())
                        told[kept] = await _round(function)
                    pairs.append((told[True], told[False]))
                found[f"{kind.__name__}, {where}"] = Rounds(pairs, timed.seconds)
            _swap(head, true)
            assert len(true) > rounds * JOBS // 2
    return found


def main() -> None:
    """Print a line for each workload."""
    for name, found in asyncio.run(measure()).items():
        print(f"W1 with history / without: {name:20} {found}")


if __name__ == "__main__":
    main()
