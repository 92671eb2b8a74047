"""Calls of the tests of runs in parts: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import signal
from typing import Any

__all__ = ["Stays", "atotal", "fail", "heard", "hold", "meet", "same", "sort", "total"]


def total(*values: Any) -> int:
    return 1 + sum(sum(value) if isinstance(value, list) else value for value in values)


async def atotal(*values: Any) -> int:
    return total(*values)


def fail(*_: Any) -> None:
    raise ValueError("broken on purpose")


def meet(path: str, how: str, *values: Any) -> int:
    with open(path, how):  # noqa: PTH123
        return total(*values)


def hold(path: str, *_: Any) -> None:
    """Say that it runs, then stay."""
    with open(path, "w"):  # noqa: PTH123
        signal.pause()


def heard(path: str, *_: Any) -> None:
    """Fail once somebody has said that it runs."""
    with open(path):  # noqa: PTH123
        raise ValueError("broken on purpose")


class Stays:
    """What can be sent nowhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("it stays")


def sort(values: list[int]) -> list[int]:
    values.sort()
    return values


def same(one: object, other: object) -> bool:
    return one is other
