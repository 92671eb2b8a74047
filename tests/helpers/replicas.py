"""Replicas as workers write them, and room for them, without a worker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from grainlike.payload import Payload, allocate_replica, replica_room, replica_size, write_replica
from grainlike_worker.store._replicas import WorkerReplicas

__all__ = ["at_once", "replica_written"]


def replica_written(path: Path, payload: Payload, scratch: Path | None = None) -> int:
    """Write a replica in room of its own, on disk in the directory `scratch`; return its size."""
    room = replica_room(path.parent if scratch is None else scratch, path)
    allocate_replica(room, replica_size(payload))
    size = write_replica(room, path, payload)
    assert size is not None
    return size


def at_once(replicas: WorkerReplicas) -> WorkerReplicas:
    """Have room made without a thread or an event loop, by the time that it was asked for."""

    def run(function: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        try:
            function(*arguments).send(None)
        except StopIteration:
            return
        raise AssertionError("it waits")

    replicas.start = run
    replicas._files.at_once = 1 << 62
    replicas._files.spare = None  # which is given back after a while
    return replicas
