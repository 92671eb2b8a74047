"""Benchmarks: the same small workloads on grainlike and on other installed systems, interleaved in one run.

Figures in seconds say more about a machine than about a program, so nothing is measured alone: each round runs every
system once, each in a fresh process, and the table shows medians with minimum and maximum and the ratio to
`ProcessPoolExecutor` of the same run. Every system gets two workers of one slot; none is tuned beyond what its own
documentation says is fair, and a workload that a system cannot express is left out of its row, not guessed.

This package only measures and prints figures; `grainlike bench` runs it. A system is one small file in `systems`.
"""

from grainlike.bench._measure import Figures, measure
from grainlike.bench._picture import picture
from grainlike.bench._system import Session, System
from grainlike.bench._table import facts, table
from grainlike.bench._workloads import WORKLOADS, Measurement
from grainlike.bench.systems import SYSTEMS, installed

__all__ = [
    "SYSTEMS",
    "WORKLOADS",
    "Figures",
    "Measurement",
    "Session",
    "System",
    "facts",
    "installed",
    "measure",
    "picture",
    "table",
]
