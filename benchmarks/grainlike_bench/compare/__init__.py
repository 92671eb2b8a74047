"""Benchmarks: the same small workloads on grainlike and on other installed systems, interleaved in one run.

Figures in seconds say more about a machine than about a program, so nothing is measured alone: each round runs every
system once, each in a fresh process, and the table shows medians with minimum and maximum and the ratio to
`ProcessPoolExecutor` of the same run. Every system gets two workers of one slot; none is tuned beyond what its own
documentation says is fair, and a workload that a system cannot express is left out of its row, not guessed.

It measures and prints figures; it never decides anything. `grainlike bench` calls it. A system is one small file in
`systems`.
"""

from grainlike_bench.compare._command import ChoiceError, bench, show_systems
from grainlike_bench.compare._measure import Figures, measure
from grainlike_bench.compare._picture import picture
from grainlike_bench.compare._system import Session, System
from grainlike_bench.compare._table import facts, table
from grainlike_bench.compare._usage import PARTS, Spent
from grainlike_bench.compare._workloads import LESS_IS_BETTER, WORKLOADS, Measurement, detail
from grainlike_bench.compare.systems import SYSTEMS, installed

__all__ = [
    "LESS_IS_BETTER",
    "PARTS",
    "SYSTEMS",
    "WORKLOADS",
    "ChoiceError",
    "Figures",
    "Measurement",
    "Session",
    "Spent",
    "System",
    "bench",
    "detail",
    "facts",
    "installed",
    "measure",
    "picture",
    "show_systems",
    "table",
]
