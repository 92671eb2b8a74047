"""Calls of the tests of shared memory, for processes that import nothing else of the tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from grainlike import delayed

__all__ = ["double", "double_later", "mapped_by", "where"]


@delayed
def double(a):
    a *= 2
    return a


@delayed
async def double_later(a):
    await asyncio.sleep(0)
    return a * 2


@delayed
def where():
    """The names of shared memory that this process maps."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "grainlike-store-" in line]


@delayed
def mapped_by(a):
    a.sum()
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "grainlike-store-" in line]
