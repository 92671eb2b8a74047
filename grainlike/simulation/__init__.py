"""Simulation: the schedulers in virtual time, with seeded chance and an independent judge.

A world runs a workload on the `HeadScheduler` and `NodeScheduler` of `grainlike.scheduler` themselves, under faults of
links, processes, machines and clocks, and reports every promise that was broken. One seed decides a whole world: the
same seed gives the same world bit for bit, on any machine, under any `PYTHONHASHSEED`, so a failing seed is a
regression test.

There is no policy here: only the schedulers decide which job goes where. Nothing waits, starts a process, or draws
random numbers other than `Dice`.

::

    python -m grainlike.simulation --seed 17 --workload poison
"""

from grainlike.simulation._channel import Channel, Delay
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
from grainlike.simulation._outcome import Outcome, lower_bound
from grainlike.simulation._plans import (
    CALM,
    FOREVER,
    QUICK,
    Faults,
    FunctionPlan,
    JobPlan,
    Network,
    NodePlan,
    Workload,
)
from grainlike.simulation._recorder import AttemptRun
from grainlike.simulation._rehearsal import Rehearsal
from grainlike.simulation._simulate import simulate
from grainlike.simulation._workloads import WORKLOADS, draw_nodes, draw_workload, equal_nodes
from grainlike.simulation._world import World

__all__ = [
    "CALM",
    "FOREVER",
    "QUICK",
    "WORKLOADS",
    "AttemptRun",
    "Channel",
    "Clock",
    "Delay",
    "Dice",
    "Faults",
    "FunctionPlan",
    "JobPlan",
    "Network",
    "NodePlan",
    "Outcome",
    "Rehearsal",
    "Workload",
    "World",
    "draw_nodes",
    "draw_workload",
    "equal_nodes",
    "lower_bound",
    "simulate",
]
