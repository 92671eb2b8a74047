"""Interfaces of `concurrent.futures`, joblib and Dask on an executor.

`GrainlikePool` is a `concurrent.futures.Executor`, `register_joblib` registers a backend with joblib, and `dask_get`
is a scheduler function for Dask's graphs. The room decides nothing and depends on no worker: what it is given becomes
calls of delayed functions, and an executor in a thread of its own runs them.

Each adapter is loaded on first use: joblib and Dask need not be installed for the others, and workers load none of
them.

Below it is the executor; above it the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grainlike.adapters._dask import dask_get
    from grainlike.adapters._joblib import register_joblib
    from grainlike.adapters._pool import GrainlikePool

__all__ = ["GrainlikePool", "dask_get", "register_joblib"]

_ROOMS = {"GrainlikePool": "_pool", "dask_get": "_dask", "register_joblib": "_joblib"}


def __getattr__(name: str) -> object:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
