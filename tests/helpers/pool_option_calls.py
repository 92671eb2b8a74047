"""Calls of the tests of a pool's options: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path

__all__ = [
    "STATUS",
    "Plain",
    "fail",
    "initialize",
    "interrupt",
    "leave",
    "make_large_plain",
    "make_plain",
    "note_and_die",
    "note_and_fail",
    "pid_of",
    "pid_of_coroutine",
    "pid_when_open",
    "status",
    "status_async",
    "variable",
]


STATUS: list[object] = []


variable: ContextVar[str] = ContextVar("variable", default="none")


class Plain:
    """Weakly referable."""

    def method(self) -> None:
        """Do nothing."""


def make_plain() -> Plain:
    return Plain()


def make_large_plain(_: object = None) -> Plain:
    plain = Plain()
    plain.__dict__["content"] = bytes(300_000)
    return plain


def initialize(value: object) -> None:
    STATUS.append(value)


def status() -> tuple[list[object], int]:
    return STATUS, os.getpid()


async def status_async() -> list[object]:
    return STATUS


def pid_of(_: object) -> int:
    return os.getpid()


def pid_when_open(pipe: Path) -> int:
    pipe.open().close()  # until somebody opens its other end
    return os.getpid()


async def pid_of_coroutine() -> int:
    return os.getpid()


def fail(*_: object) -> None:
    raise ValueError("broken on purpose")


def note_and_die(path: Path) -> None:
    with path.open("a") as file:
        file.write("x")
    os._exit(1)


def note_and_fail(path: Path) -> None:
    with path.open("a") as file:
        file.write("x")
    raise ValueError("broken on purpose")


def interrupt() -> None:
    raise KeyboardInterrupt("pressed")


def leave() -> None:
    raise SystemExit(3)
