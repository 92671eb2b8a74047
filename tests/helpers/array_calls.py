"""Calls of the tests of arrays in stores, for processes that import nothing else of the tests."""

from __future__ import annotations

import asyncio

import numpy as np

from grainlike import Retry, delayed

__all__ = ["COUNT", "made", "made_larger", "made_later", "made_of", "made_once", "made_soon", "made_two", "total"]


COUNT = 100_000


@delayed
def made(number):
    return np.full(COUNT, number, dtype=np.float64)


@delayed(nout=2)
def made_two(number):
    return np.full(COUNT, number, dtype=np.float64), np.full(COUNT, number + 1, dtype=np.float64)


@delayed
async def made_soon(number):
    return np.full(COUNT, number, dtype=np.float64)


@delayed
async def made_later(number):
    await asyncio.sleep(0)
    return np.full(COUNT, number, dtype=np.float64)


@delayed
def made_larger(number):
    return np.full(8 * COUNT, number, dtype=np.float64)


@delayed
def made_of(number, count):
    return np.full(count, number, dtype=np.float64)


@delayed
def total(*values):
    return float(sum(value.sum() for value in values))


@delayed(retries=Retry(losses=0))
def made_once(number):
    return np.full(COUNT, number, dtype=np.float64)
