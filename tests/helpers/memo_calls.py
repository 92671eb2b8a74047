"""Calls of the tests of kept results: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

from pathlib import Path

from grainlike import delayed

__all__ = ["double", "double_async", "endless", "fails", "write_down"]


def write_down(path, value):
    with Path(path).open("a") as file:
        file.write(f"{value}\n")
    return value


@delayed(cache="v1")
def double(path, x=2, y=2):
    return [write_down(path, x) * y]


@delayed(cache="v1")
async def double_async(path, x, y=2):
    return [write_down(path, x) * y]


@delayed(cache="v1")
def fails(path):
    write_down(path, "ran")
    raise OSError("no luck")


@delayed(cache="v1")
def endless(n):
    return (i for i in range(n))
