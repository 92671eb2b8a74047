"""Calls of the tests of large values, for processes that import nothing else of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from grainlike import GVAR, delayed

__all__ = ["LARGE", "crc_of", "make", "make_random", "more", "place", "size_of"]

LARGE = 5_000_000


@delayed
def make(size: int, log: str = "", name: str = "made") -> bytearray:
    if log:
        with Path(log).open("a") as file:
            file.write(f"{name} {GVAR.instance}\n")
    return bytearray(size)


@delayed
def size_of(*values: bytearray) -> int:
    return sum(map(len, values))


@delayed
def place(value: bytearray) -> str:
    return GVAR.instance if len(value) == LARGE else "?"


@delayed
def more(value: bytearray, log: str) -> bytearray:
    with Path(log).open("a") as file:
        file.write(f"more {GVAR.instance}\n")
    value[0] += 1
    return value


@delayed
def crc_of(value: bytearray) -> int:
    import zlib

    return zlib.crc32(value)


@delayed
def make_random(size: int) -> bytearray:
    return bytearray(os.urandom(1000) * (size // 1000))
