"""Two revisions of grainlike, measured in interleaved rounds on one machine: `python -m grainlike_bench compare REV`.

`_build` makes an environment for each revision, `_rows` says what is measured, by the same code on both, `_noise` what
is a change and what is not, and `_report` prints it.
"""

from grainlike_bench.revisions._command import main

__all__ = ["main"]
