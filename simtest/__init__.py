"""Deterministic simulation tests: seeded trials of both schedulers, with drawn workloads and faults, and a judge.

Answers: what the very same `HeadScheduler` and `NodeScheduler` of `grainlike.scheduler` do to a workload under faults
of links, processes, machines and clocks; and whether every promise was kept. One seed decides a whole world: the same
seed gives the same world bit for bit, on any machine, under any `PYTHONHASHSEED`, so a failing seed is a regression
test.

A package for tests and benchmarks, run from a checkout; it is not in the wheel. The worlds themselves (virtual time,
simulated head, workers and links) are `grainlike.simulation`, which `dry_run` uses, too.

::

    python -m simtest --seed 17 --workload poison
"""

from simtest._outcome import Outcome, lower_bound
from simtest._simulate import simulate
from simtest._trial import Trial
from simtest._workloads import WORKLOADS, draw_nodes, draw_workload, equal_nodes

__all__ = [
    "WORKLOADS",
    "Outcome",
    "Trial",
    "draw_nodes",
    "draw_workload",
    "equal_nodes",
    "lower_bound",
    "simulate",
]
