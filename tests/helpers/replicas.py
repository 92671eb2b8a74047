"""Replicas as workers write them, without a worker."""

from __future__ import annotations

from pathlib import Path

from grainlike.payload import Payload, allocate_replica, replica_room, replica_size, write_replica

__all__ = ["replica_written"]


def replica_written(path: Path, payload: Payload, scratch: Path | None = None) -> int:
    """Write a replica in room of its own, on disk in the directory `scratch`; return its size."""
    room = replica_room(path.parent if scratch is None else scratch, path)
    allocate_replica(room, replica_size(payload))
    size = write_replica(room, path, payload)
    assert size is not None
    return size
