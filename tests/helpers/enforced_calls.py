"""Jobs that tell what the system lets them use: a process that runs one imports what it takes, and no tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from grainlike import GVAR, delayed

__all__ = ["devices", "pools", "record", "shown_to_programs"]

SHOW = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['CUDA_DEVICE_ORDER'])"


@delayed
def devices() -> tuple[tuple[int, ...], str, int]:
    shown = subprocess.run([sys.executable, "-S", "-c", SHOW], check=True, capture_output=True, text=True)
    return GVAR.res.gpus, shown.stdout.strip(), os.getpid()


@delayed
def pools(width: int | None) -> tuple[tuple[int, ...], set[int], list[int], str, int]:
    """Import NumPy, at another width where one is given; tell what holds here and in a child."""
    if width is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(width)
    import numpy
    from threadpoolctl import threadpool_info, threadpool_limits

    if width is not None:
        threadpool_limits(width)
    numpy.ones((8, 8)) @ numpy.ones((8, 8))
    widths = {pool["num_threads"] for pool in threadpool_info()}
    child = subprocess.run([sys.executable, "-S", "-c", LOOK], check=True, capture_output=True, text=True).stdout
    return GVAR.res.cores, widths, sorted(os.sched_getaffinity(0)), child.strip(), os.getpid()


LOOK = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"


def record(path: str, seconds: float) -> None:
    """Say which cores we may use from when to when, as the system tells. A job that does not hear SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    own = os.open(path, os.O_WRONLY | os.O_CREAT)
    cores = sorted(os.sched_getaffinity(0))
    end = time.monotonic() + seconds
    # Each line says "we are here now": who is killed has said so until its last moment. A busy machine may be late for
    # all but the first.
    at = 0
    while not at or time.monotonic() < end:
        os.pwrite(own, f"{cores} {time.monotonic_ns()}".encode(), at)
        at = 64
        time.sleep(0.001)
    os.close(own)


@delayed
def shown_to_programs() -> tuple[int, tuple[int, ...], list[str]]:
    assert GVAR.job is not None
    script = 'echo "$GRAINLIKE_JOB"; echo "$GRAINLIKE_CORES"; echo "$GRAINLIKE_MEMORY"; echo "$OMP_PROC_BIND"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    return GVAR.job.id, GVAR.res.cores, said.splitlines()
