"""Calls of the tests of clusters: a process that runs one imports this module, and nothing of the tests."""

from __future__ import annotations

import os
import time

import anyio

from grainlike import GVAR, delayed

__all__ = ["forever", "mask", "moments", "place"]


@delayed
def place():
    return GVAR.instance, GVAR.res.cores, GVAR.res.gpus


@delayed
def mask():
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@delayed
def moments():
    return time.monotonic(), time.monotonic()


@delayed
async def forever():
    await anyio.sleep_forever()
