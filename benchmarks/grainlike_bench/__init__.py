"""Benchmarks of grainlike: what the numbers in its documentation come from. Not in the wheel of grainlike.

`compare` is behind `grainlike bench`: the same small workloads on grainlike and on what else is installed. Each
`bench_NAME.py` measures one thing, and `targets` the rows of the table of targets::

    pip install ./grainlike_bench
    python -m grainlike_bench jobs mix
"""
