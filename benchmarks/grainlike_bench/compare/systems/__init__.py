"""Systems that can be measured, by their names on the command line. To add one, write a file here and add a line."""

from __future__ import annotations

from importlib.util import find_spec

from grainlike_bench.compare._system import System
from grainlike_bench.compare.systems._dask import Dask
from grainlike_bench.compare.systems._executorlib import Executorlib
from grainlike_bench.compare.systems._grain import Grain, GrainHead
from grainlike_bench.compare.systems._grainlike import (
    DaemonAsync,
    DaemonPlain,
    Default,
    EmbeddedAsync,
    EmbeddedPlain,
    FarInsecure,
    FarPlain,
)
from grainlike_bench.compare.systems._limit import Hops, HopsUvloop, Limit, LimitUvloop
from grainlike_bench.compare.systems._loky import Loky
from grainlike_bench.compare.systems._parsl import Parsl
from grainlike_bench.compare.systems._pool import PoolSystem
from grainlike_bench.compare.systems._ray import Ray

__all__ = ["SYSTEMS", "installed"]

SYSTEMS: dict[str, type[System]] = {
    "limit": Limit,
    "hops": Hops,
    "limit-uvloop": LimitUvloop,
    "hops-uvloop": HopsUvloop,
    "grainlike-default": Default,
    "grainlike": DaemonPlain,
    "grainlike-async": DaemonAsync,
    "grainlike-far": FarPlain,
    "grainlike-far-insecure": FarInsecure,
    "grainlike-embedded": EmbeddedPlain,
    "grainlike-embedded-async": EmbeddedAsync,
    "pool": PoolSystem,
    "loky": Loky,
    "dask": Dask,
    "ray": Ray,
    "parsl": Parsl,
    "executorlib": Executorlib,
    "grain": Grain,
    "grain-head": GrainHead,
}


def installed(name: str) -> bool:
    """Return True if a system can be measured here."""
    module = SYSTEMS[name].module
    return module is None or find_spec(module) is not None
