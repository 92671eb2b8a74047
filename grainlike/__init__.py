"""Async-native delayed objects on exact, enforced resources.

Public names of grainlike: requests, errors and `GVAR` are here at once; the rest is loaded when its name is first
used, so that `import grainlike` stays light::

    from grainlike import Cores, delayed, run

    @delayed
    def square(x: int) -> int:
        return x * x

    async def main() -> int:
        return await (square @ Cores(1))(3)

    print(run(main, local=Cores(2)))
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from grainlike._version import __version__
from grainlike.context import GVAR
from grainlike.errors import (
    AuthenticationError,
    BlockEndedError,
    GrainlikeError,
    GraphError,
    HeadLostError,
    JobCancelledError,
    JobMemoryError,
    JobTimeoutError,
    JournalError,
    LaunchError,
    ProtocolError,
    RemoteError,
    ResourceError,
    ResourceSpecError,
    SerializationError,
    SessionError,
    SettingsError,
    StoreFullError,
    UnknownNameError,
    UnsatisfiableError,
    ValueLostError,
    VersionMismatchError,
    WorkerLostError,
)
from grainlike.resources import (
    Allocation,
    Cores,
    GPUs,
    Limit,
    Memory,
    Node,
    Nodes,
    Rate,
    Request,
    Resource,
    Token,
    WallTime,
    parse,
)

if TYPE_CHECKING:
    from grainlike.backends import CeleryBackend, DaskBackend, ProcessBackend, RayBackend, ThreadBackend
    from grainlike.dag import Callbacks, Dag
    from grainlike.dryrun import dry_run
    from grainlike.executor import Executor, connect, progress, result, run
    from grainlike.graph import (
        Delayed,
        DelayedFn,
        Partition,
        Retry,
        cancel,
        delayed,
        delayed_value,
        gather,
        graph,
        info,
        later,
        start,
    )
    from grainlike.maps import amap, as_completed, replicate, wait
    from grainlike.pool import ResourcePool
    from grainlike.subprocesses import run_process

__all__ = [
    "GVAR",
    "Allocation",
    "AuthenticationError",
    "BlockEndedError",
    "Callbacks",
    "CeleryBackend",
    "Cores",
    "Dag",
    "DaskBackend",
    "Delayed",
    "DelayedFn",
    "Executor",
    "GPUs",
    "GrainlikeError",
    "GraphError",
    "HeadLostError",
    "JobCancelledError",
    "JobMemoryError",
    "JobTimeoutError",
    "JournalError",
    "LaunchError",
    "Limit",
    "Memory",
    "Node",
    "Nodes",
    "Partition",
    "ProcessBackend",
    "ProtocolError",
    "Rate",
    "RayBackend",
    "RemoteError",
    "Request",
    "Resource",
    "ResourceError",
    "ResourcePool",
    "ResourceSpecError",
    "Retry",
    "SerializationError",
    "SessionError",
    "SettingsError",
    "StoreFullError",
    "ThreadBackend",
    "Token",
    "UnknownNameError",
    "UnsatisfiableError",
    "ValueLostError",
    "VersionMismatchError",
    "WallTime",
    "WorkerLostError",
    "__version__",
    "amap",
    "as_completed",
    "cancel",
    "connect",
    "delayed",
    "delayed_value",
    "dry_run",
    "gather",
    "graph",
    "info",
    "later",
    "parse",
    "progress",
    "replicate",
    "result",
    "run",
    "run_process",
    "start",
    "wait",
]

_BACKENDS = "grainlike.backends"
_GRAPH = "grainlike.graph"
_EXECUTOR = "grainlike.executor"
_DAG = "grainlike.dag"
_MAPS = "grainlike.maps"
_DRYRUN = "grainlike.dryrun"
_POOL = "grainlike.pool"
_LAUNCH = "grainlike.subprocesses"

_LAZY = {
    "Callbacks": _DAG,
    "CeleryBackend": _BACKENDS,
    "Dag": _DAG,
    "DaskBackend": _BACKENDS,
    "Delayed": _GRAPH,
    "DelayedFn": _GRAPH,
    "Executor": _EXECUTOR,
    "Partition": _GRAPH,
    "ResourcePool": _POOL,
    "ProcessBackend": _BACKENDS,
    "RayBackend": _BACKENDS,
    "Retry": _GRAPH,
    "ThreadBackend": _BACKENDS,
    "amap": _MAPS,
    "as_completed": _MAPS,
    "cancel": _GRAPH,
    "connect": _EXECUTOR,
    "delayed": _GRAPH,
    "delayed_value": _GRAPH,
    "dry_run": _DRYRUN,
    "gather": _GRAPH,
    "graph": _GRAPH,
    "info": _GRAPH,
    "later": _GRAPH,
    "progress": _EXECUTOR,
    "result": _EXECUTOR,
    "run": _EXECUTOR,
    "run_process": _LAUNCH,
    "start": _GRAPH,
    "replicate": _MAPS,
    "wait": _MAPS,
}


class _Room(ModuleType):
    """A module that still pickles by name: serializers know the type `module`, but none derived from it."""

    def __reduce__(self) -> tuple[object, ...]:
        return import_module, (self.__name__,)


class _GraphRoom(_Room):
    """The room `grainlike.graph`, callable as the function of the same name that it holds."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        drawn: object = self.graph(*args, **kwargs)
        return drawn


class _FrontDoor(_Room):
    """This package; it makes the graph room callable as soon as the import system binds it here, and has it remember
    where calls are made in Python's development mode.

    `graph` is a public function and the name of the room that defines it. Binding the function instead of
    the room would break `import grainlike.graph as room`, and the room is bound again by every first import
    of it, from anywhere; so the room stays bound, and answers to a call.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name == "graph" and type(value) is ModuleType:
            value.__class__ = _GraphRoom
            if sys.flags.dev_mode or os.environ.get("PYTHONASYNCIODEBUG"):
                value.remember_origins()
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


def __getattr__(name: str) -> object:
    room = _LAZY.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(room)
    value: object = module if name == "graph" else getattr(module, name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
