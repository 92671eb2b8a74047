"""What the minds cost, and how well they place: events a second by the number of workers, and benchmarks W5 and W6b.

An event is whatever happens in a simulated world: a message that arrives, a job that ends, a process that comes up.
Its cost is that of the minds and of the imitation around them; `minds` is the part of the time spent in the minds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import TypeVar

from grainlike.resources import Cores
from grainlike.scheduler import HeadMind, NodeMind
from grainlike.simulation import QUICK, Dice, FunctionPlan, JobPlan, Outcome, Workload, World, equal_nodes, simulate

A = TypeVar("A")

SIZES = ((10, 20_000), (100, 20_000), (1_000, 20_000))
LARGE = (*SIZES, (10_000, 20_000), (10_000, 1_000_000))
CORES = 4


def sized(workers: int, jobs: int) -> World:
    """One burst of one-core jobs of about a second for workers of four cores."""
    dice = Dice(workers)
    plans = tuple(JobPlan(0, Cores(1), dice.between(0.5, 1.5)) for _ in range(jobs))
    workload = Workload("burst", (FunctionPlan("second"),), plans)
    return World(0, workload, equal_nodes(workers, Cores(CORES)), network=QUICK, judged=False)


class Stopwatch:
    """Adds up the seconds spent in calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, handle: Callable[[object, object, float], list[A]]) -> Callable[[object, object, float], list[A]]:
        """The same, timed."""

        def timed(mind: object, event: object, now: float) -> list[A]:
            began = perf_counter()
            actions = handle(mind, event, now)
            self.seconds += perf_counter() - began
            self.calls += 1
            return actions

        return timed


def measure(workers: int, jobs: int) -> str:
    """A line of the table."""
    head, node = Stopwatch(), Stopwatch()
    real = HeadMind.handle, NodeMind.handle
    HeadMind.handle = head.around(real[0])  # type: ignore[method-assign,arg-type,assignment]
    NodeMind.handle = node.around(real[1])  # type: ignore[method-assign,arg-type,assignment]
    try:
        world = sized(workers, jobs)
        began = perf_counter()
        outcome = world.run()
        seconds = perf_counter() - began
    finally:
        HeadMind.handle, NodeMind.handle = real  # type: ignore[method-assign]
    assert not outcome.violations, outcome.violations
    return (
        f"{workers:>8,} {jobs:>10,} {outcome.steps:>10,} {outcome.steps / seconds:>10,.0f} {seconds:>8.1f}"
        f" {1e6 * head.seconds / head.calls:>10.1f} {1e6 * node.seconds / node.calls:>10.1f} {outcome.ratio:>8.3f}"
    )


def figures(name: str, seeds: int, figure: Callable[[Outcome], float]) -> str:
    """Median, least and most of a figure over seeds."""
    values = [figure(simulate(seed, name, judged=False)) for seed in range(seeds)]
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main(arguments: Sequence[str] = ()) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_simulation", description=__doc__)
    parser.add_argument("--large", action="store_true", help="10 000 workers and 1 000 000 jobs too")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    print(" workers       jobs     events   events/s        s    head us    node us    ratio")
    for workers, jobs in LARGE if options.large else SIZES:
        print(measure(workers, jobs), flush=True)
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
