"""The same sweep without grainlike: one plain process, one core, one thread, one fit after the other.

`python -m grainlike.cli.demo._baseline` is that process: it prints its affinity and thread pools, then the scores of
each candidate, one JSON value a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from grainlike.cli.demo._jobs import candidates, cross_validate, data_set

__all__ = ["Baseline", "run_baseline"]

_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Baseline:
    """Result of the sequential run: seconds from its start to the last score, the scores, and its affinity and
    threads.
    """

    seconds: float
    scores: list[list[float]]
    affinity: list[int]
    threads: int


def run_baseline(core: int, *, quick: bool, on_fit: Callable[[], None]) -> Baseline:
    """Run it in a process of its own, pinned to `core`; the process has exited when this returns or raises.

    Raises:
        RuntimeError: the process failed; its output is on standard error.
    """
    command = [sys.executable, "-m", "grainlike.cli.demo._baseline", str(core), *(["quick"] if quick else [])]
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - our own module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **dict.fromkeys(_POOLS, "1")},
        start_new_session=True,  # Ctrl-C is for us: we end it
    ) as process:
        try:
            assert process.stdout is not None
            held = json.loads(process.stdout.readline() or "null")
            scores = []
            for line in process.stdout:
                scores.append(json.loads(line))
                on_fit()
            seconds = time.monotonic() - began
        except BaseException:
            process.kill()
            raise
    if process.returncode or held is None:
        raise RuntimeError(f"the sequential run failed with exit code {process.returncode}")
    return Baseline(seconds, scores, *held)


def _sequential(core: int, *, quick: bool) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    data_set()
    from threadpoolctl import threadpool_info

    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    _say([affinity, max((pool["num_threads"] for pool in threadpool_info()), default=1)])
    for candidate in candidates(quick=quick):
        _say(cross_validate(candidate))


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    _sequential(int(sys.argv[1]), quick="quick" in sys.argv[2:])
