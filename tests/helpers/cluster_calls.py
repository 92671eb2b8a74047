"""Calls of the tests of clusters: a process that runs one imports this module, and nothing of the tests."""

from __future__ import annotations

import anyio

from grainlike import GVAR, delayed

__all__ = ["forever", "place"]


@delayed
def place():
    return GVAR.instance, GVAR.res.cores, GVAR.res.gpus


@delayed
async def forever():
    await anyio.sleep_forever()
