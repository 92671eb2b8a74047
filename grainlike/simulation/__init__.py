"""Simulation: the schedulers in virtual time, with seeded chance.

A world runs a workload on the `HeadScheduler` and `NodeScheduler` of `grainlike.scheduler` themselves. `dry_run` plans
with it; `simtest`, which is beside the tests and not in the wheel, draws workloads and faults and judges every step.

There is no policy here: only the schedulers decide which job goes where. Nothing waits, starts a process, or draws
random numbers other than `Dice`.
"""

from grainlike.simulation._channel import Channel, Delay
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
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
from grainlike.simulation._site import Site
from grainlike.simulation._witness import Witness
from grainlike.simulation._world import World

__all__ = [
    "CALM",
    "FOREVER",
    "QUICK",
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
    "Rehearsal",
    "Site",
    "Witness",
    "Workload",
    "World",
]
