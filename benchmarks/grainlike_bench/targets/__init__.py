"""Every row of the table of targets, measured in one run on one machine: `python -m grainlike_bench targets`.

`_goals` says what is aimed at, `_systems` and `_parts` how each row is measured, `_report` prints what came of it. It
is a measurement, not a check: it ends with 0 whatever was found.
"""

from grainlike_bench.targets._command import main
from grainlike_bench.targets._goals import GOALS

__all__ = ["GOALS", "main"]
