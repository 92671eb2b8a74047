"""The world in which the schedulers are tried: virtual time and seeded chance.

Answers: what the very same `HeadScheduler` and `NodeScheduler` of `grainlike.scheduler` do to a workload, in virtual
time, under the faults that somebody strikes it with. `dry_run` plans with it; `simtest`, which is beside the tests and
not in the wheel, draws workloads and faults and judges every step.

Contains no policy: which job goes where is the schedulers' alone, and with a rule taken out of them a world goes
another way. Never waits, never starts a process, rolls no dice but its own. Neighbours: `scheduler`, which it runs.
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
