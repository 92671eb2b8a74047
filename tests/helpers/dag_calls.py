"""Calls of the tests of named graphs: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from grainlike import GVAR

__all__ = ["avalue", "fail", "fail_then_hold", "hold", "meet", "one_more", "stay_then_tell", "value"]


def value(x: Any = None, *_: Any) -> Any:
    return x


async def avalue(x: Any = None, *_: Any) -> Any:
    return x


def fail(*_: Any) -> None:
    raise ValueError("broken on purpose")


def one_more(a: int, b: int) -> int:
    return max(a, b) + 1


def meet(path: str, how: str, x: Any) -> Any:
    with open(path, how):  # noqa: PTH123
        return x


def hold(path: str) -> None:
    """Say that it runs, then stay."""
    with open(path, "w"):  # noqa: PTH123
        signal.pause()


def fail_then_hold(mark: Path, fifo: str) -> None:
    if mark.exists():
        with open(fifo, "w"):  # noqa: PTH123
            signal.pause()
    mark.touch()
    raise OSError("the first time it fails")


def stay_then_tell() -> str:
    assert GVAR.job is not None
    if GVAR.job.attempt == 1:
        signal.pause()
    return "again"
