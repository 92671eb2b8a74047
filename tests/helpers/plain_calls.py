"""Calls of several files of tests: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from grainlike import GVAR, delayed

__all__ = [
    "changed",
    "cores_of_a_call",
    "double",
    "end_somehow",
    "endless",
    "fail",
    "fails_once",
    "half",
    "item",
    "make",
    "needs",
    "slots",
    "square",
    "triple",
    "unsteady",
    "write",
]


@delayed
def half(x: int) -> float:
    if x < 0:
        raise ValueError(f"{x} is negative")
    return x / 2


@delayed
def cores_of_a_call() -> tuple[int, ...]:
    return GVAR.res.cores


@delayed
def square(x: int) -> int:
    return x * x


@delayed
def fail() -> None:
    raise ValueError("broken on purpose")


@delayed
def slots() -> tuple[tuple[int, ...], tuple[int, ...]]:
    return GVAR.res.cores, GVAR.res.gpus


@delayed
def needs(most: int) -> int:
    if GVAR.res.memory < most:
        raise MemoryError("too little")
    return GVAR.res.memory


@delayed
def endless() -> None:
    signal.pause()


@delayed
def double(x: int) -> int:
    if x == 7:
        raise ValueError(f"{x} is unlucky\nand more")
    return 2 * x


@delayed
def triple(x: int) -> int:
    return 3 * x


@delayed(retries=3, timeout=600)
def unsteady(path: Path) -> int:
    tries = len(path.read_text())
    path.write_text("x" * (tries + 1))
    if tries != 1:  # the second attempt writes nothing
        print(f"try {tries}", flush=True)
    if tries == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if tries < 3:
        raise ValueError(f"{tries} is too few\nand more")
    return tries


@delayed
def write(number: int) -> str:
    path = GVAR.job.scratch
    assert path == GVAR.job.scratch
    assert list(path.iterdir()) == []
    (path / "deep").mkdir()
    (path / "deep" / "file").write_text(str(number))
    return str(path)


def end_somehow(how: str) -> None:
    (GVAR.job.scratch / "input").write_text("as it was")
    if how == "raises":
        raise ValueError("no convergence")
    if how == "crashes":
        os.kill(os.getpid(), signal.SIGKILL)


def item(array: Any, at: int) -> float:
    return float(array[at])


def changed(array: Any, at: int) -> float:
    array[:] = -1.0
    return float(array[at])


def fails_once(array: Any, marks: str) -> float:
    marker = Path(marks)
    array[0] += 1.0
    if marker.exists():
        return float(array[0])
    marker.touch()
    raise ValueError("once")


@delayed
def make(number: int) -> bytes:
    return bytes([number]) * 300_000
