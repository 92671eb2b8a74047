"""Calls of the tests of joblib: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

import joblib
from joblib import Parallel

from grainlike import GVAR

__all__ = ["fail", "fail_beside", "given", "hold", "initialize", "inner", "slots_and_widths", "square", "warn"]

GIVEN: list[str] = []


def square(x: int) -> int:
    return x * x


def slots_and_widths(_: int) -> tuple[int, int, set[int]]:
    """The cores of the call, those that its process may use, and the widths of its thread pools."""
    import numpy as np
    import threadpoolctl

    np.ones((2, 2)) @ np.ones((2, 2))
    widths = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return len(GVAR.res.cores), len(os.sched_getaffinity(0)), widths


def inner(_: int) -> tuple[int, int, int]:
    """How wide a `Parallel` inside a call is: as it is, asked for all there is, and asked for less."""
    return tuple(
        joblib.effective_n_jobs(n_jobs) if n_jobs else Parallel(n_jobs=None)._effective_n_jobs()
        for n_jobs in (None, -1, 1)
    )


def warn(x: int) -> int:
    warnings.warn("careful", UserWarning, stacklevel=1)
    return x


def fail(x: int) -> int:
    raise ValueError(f"broken on purpose: {x}")


def hold(path: str) -> None:
    """Say who runs, then stay longer than anybody waits."""
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    signal.pause()


def fail_beside(path: str, told: str) -> None:
    """Fail once `hold` runs, and leave word of who does."""
    Path(told).write_text(Path(path).read_text())
    raise ValueError("broken on purpose")


def initialize(word: str) -> None:
    GIVEN.append(word)


def given(_: int) -> tuple[int, tuple[str, ...]]:
    return os.getpid(), tuple(GIVEN)
