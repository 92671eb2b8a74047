"""Cost of the schedulers, and how well they place: events a second by the number of workers, benchmarks W5 and W6b.

An event is whatever happens in a simulated world: a message that arrives, a job that ends, a process that comes up.
Its cost is that of the schedulers and of the imitation around them, in CPU seconds. `head` and `node` are what the
schedulers take for each event that they are told, timed in a run of its own.

Python's cycle collector is off while a world runs, and is asked afterwards what it would have found: nothing, for what
ends refers to nothing that refers back to it. It would walk again and again over the schedulers of all workers, which
are in one process here, and in life in as many as there are workers.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import TypeVar

from grainlike.resources import Cores
from grainlike.scheduler import FunctionDefined, HeadScheduler, JobsSubmitted, NodeScheduler
from grainlike.simulation import QUICK, Dice, FunctionPlan, JobPlan, Workload
from simtest import Outcome, Trial, equal_nodes, simulate

A = TypeVar("A")

SIZES = ((10, 20_000), (100, 20_000), (1_000, 20_000), (10_000, 60_000))
LARGE = (*SIZES, (10_000, 1_000_000))
CORES = 4


def sized(workers: int, jobs: int) -> Trial:
    """One burst of one-core jobs of about a second for workers of four cores."""
    dice = Dice(workers)
    plans = tuple(JobPlan(0, Cores(1), dice.between(0.5, 1.5)) for _ in range(jobs))
    workload = Workload("burst", (FunctionPlan("second"),), plans)
    return Trial(0, workload, equal_nodes(workers, Cores(CORES)), network=QUICK, judged=False)


class Stopwatch:
    """Adds up the CPU seconds spent in calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, handle: Callable[[object, object, float], list[A]]) -> Callable[[object, object, float], list[A]]:
        """The same, timed."""

        def timed(scheduler: object, event: object, now: float) -> list[A]:
            began = process_time()
            actions = handle(scheduler, event, now)
            self.seconds += process_time() - began
            self.calls += 1
            return actions

        return timed


@dataclass(frozen=True)
class Cost:
    """What a world took."""

    steps: int
    seconds: float
    """CPU time."""
    garbage: int
    ratio: float
    """Makespan over lower bound."""

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.steps / self.seconds


def measure(workers: int, jobs: int) -> Cost:
    """Let a world run."""
    world = sized(workers, jobs)
    gc.collect()
    gc.disable()
    try:
        began = process_time()
        outcome = world.run()
        seconds = process_time() - began
        garbage = gc.collect()
    finally:
        gc.enable()
    assert not outcome.violations, outcome.violations
    return Cost(outcome.steps, seconds, garbage, outcome.ratio)


def line(workers: int, jobs: int) -> str:
    """A line of the table."""
    cost = measure(workers, jobs)
    return (
        f"{workers:>8,} {jobs:>10,} {cost.steps:>10,} {cost.rate:>10,.0f}"
        f" {1e6 / cost.rate:>8.1f} {cost.seconds:>8.1f} {cost.garbage:>8} {cost.ratio:>8.3f}"
    )


def schedulers(workers: int, jobs: int) -> str:
    """What each of them takes for an event, in microseconds."""
    head, node = Stopwatch(), Stopwatch()
    real = HeadScheduler.handle, NodeScheduler.handle
    HeadScheduler.handle = head.around(real[0])  # type: ignore[method-assign,arg-type,assignment]
    NodeScheduler.handle = node.around(real[1])  # type: ignore[method-assign,arg-type,assignment]
    try:
        sized(workers, jobs).run()
    finally:
        HeadScheduler.handle, NodeScheduler.handle = real  # type: ignore[method-assign]
    return f"{1e6 * head.seconds / head.calls:.1f} us, {1e6 * node.seconds / node.calls:.1f} us"


def queued_bytes(jobs: int = 100_000) -> float:
    """Return the bytes that the head's scheduler keeps for a job that waits."""
    scheduler = HeadScheduler(closed=False)
    scheduler.handle(FunctionDefined(1), 0.0)
    tracemalloc.start()
    try:
        scheduler.handle(JobsSubmitted(Cores(1), list(range(1, jobs + 1)), [1] * jobs), 0.0)
        return tracemalloc.get_traced_memory()[0] / jobs
    finally:
        tracemalloc.stop()


def figures(name: str, seeds: int, figure: Callable[[Outcome], float]) -> str:
    """Median, least and most of a figure over seeds."""
    values = [figure(simulate(seed, name, judged=False)) for seed in range(seeds)]
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main(arguments: Sequence[str] = ()) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m grainlike_bench.bench_simulation", description=__doc__)
    parser.add_argument("--large", action="store_true", help="10 000 workers and 1 000 000 jobs too")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    print(" workers       jobs     events   events/s us/event    CPU s  garbage    ratio")
    for workers, jobs in LARGE if options.large else SIZES:
        print(line(workers, jobs), flush=True)
    print(f"{'head, node with 100 workers, an event':<42}{schedulers(100, 20_000)}")
    print(f"{'a job that waits, in the head':<42}{queued_bytes():.0f} bytes")
    for words, workload, figure in FIGURES:
        print(f"{words:<42}{figures(workload, options.seeds, figure)}")


def wide_start(outcome: Outcome) -> float:
    """When the widest job began, as a part of the makespan."""
    assert outcome.widest_start is not None
    return outcome.widest_start / outcome.makespan


def ratio(outcome: Outcome) -> float:
    """Makespan over lower bound."""
    return outcome.ratio


FIGURES = (
    ("W5  any order, makespan / lower bound", "mixed", ratio),
    ("W5  widest first", "mixed_widest_first", ratio),
    ("W6b the wide job starts at, of makespan", "one_wide", wide_start),
    ("W6b makespan / lower bound", "one_wide", ratio),
)


if __name__ == "__main__":
    main(sys.argv[1:])
