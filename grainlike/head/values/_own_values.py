"""Values of the own program of a head: their bytes, which are here until nobody needs them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from grainlike.head._shared_memory import ObjectStore
from grainlike.payload import (
    Buffer,
    Payload,
    ReplicaBytes,
    ReplicaSource,
    allocate_replica,
    map_replica,
    replica_path,
    replica_room,
    replica_size,
    write_replica,
)
from grainlike.wire import OWN_VALUES

__all__ = ["OwnValueStore"]

_FIRST = OWN_VALUES << 22
"""Number behind those that clients may have."""


class OwnValueStore:
    """The bytes of a program's own values, by number: each a file in `object_store`, which workers can map that share
    memory with this process, or in memory of its own where there is no such store, or no room.

    Example::

        value, size = own.add(dump_value(array))
        own.read(value, 0, size)
        own.free([value])
    """

    def __init__(self, object_store: ObjectStore) -> None:
        self._object_store = object_store
        self._last = _FIRST
        self._files: dict[int, Path] = {}
        self._copies: dict[int, ReplicaBytes] = {}
        self._sources: dict[int, ReplicaSource] = {}

    def add(self, payload: Payload) -> tuple[int, int]:
        """Keep a copy of a payload; return its number as a value, and the size of its replicas. `MemoryError` where
        there is no room for it.
        """
        value, size = self._last + 1, replica_size(payload)
        directory = self._object_store.directory
        if directory is None or not self._write(value, size, payload, directory):
            self._copies[value] = ReplicaBytes(payload.detached())
        self._last = value
        return value, size

    def _write(self, value: int, size: int, payload: Payload, directory: Path) -> bool:
        path = replica_path(directory, value, 1)
        room = replica_room(directory, path)
        try:
            allocate_replica(room, size)
        except OSError:
            return False
        if write_replica(room, path, payload) is None:
            return False
        self._files[value] = path
        return True

    def payload(self, value: int) -> Payload | None:
        """Return the payload of a value; None for one that is kept no more."""
        copy = self._copies.get(value)
        if copy is not None:
            return copy.payload
        return map_replica(self._files[value]) if value in self._files else None

    def link(self, value: int, path: str) -> bool:
        """Give the file of a value another name; return False where there is none, or that cannot be done."""
        try:
            os.link(self._files[value], path)
        except FileExistsError:
            return True
        except (KeyError, OSError):
            return False
        return True

    def read(self, value: int, begin: int, end: int) -> Buffer:
        """Return bytes of the replica of a value. `KeyError` and `OSError` where it is gone."""
        copy = self._copies.get(value)
        if copy is not None:
            return copy.read(begin, end)
        source = self._sources.get(value)
        if source is None:
            source = self._sources[value] = ReplicaSource(self._files[value])
        return source.read(begin, end)

    def free(self, values: Iterable[int]) -> None:
        """Drop values that nobody needs any more; who has mapped one keeps it."""
        for value in values:
            self._copies.pop(value, None)
            self._sources.pop(value, None)
            path = self._files.pop(value, None)
            if path is not None:
                path.unlink(missing_ok=True)
