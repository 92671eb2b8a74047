"""Own values of a program: their bytes, which stay in this process until nothing needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

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

__all__ = ["OwnValueStore"]


class OwnValueStore:
    """Bytes of a program's own values, by number. Each is a file in `directory()`, which workers that share memory with
    this process can map, or is in private memory if there is no directory, or no room.

    Example::

        own = OwnValueStore(lambda: None)
        size = own.add(7, dump_value(array))
        own.read(7, 0, size)
        own.free([7])
    """

    def __init__(self, directory: Callable[[], Path | None]) -> None:
        self._directory = directory
        self.sizes: dict[int, int] = {}
        """Bytes of the replicas of each value."""
        self._files: dict[int, Path] = {}
        self._copies: dict[int, ReplicaBytes] = {}
        self._sources: dict[int, ReplicaSource] = {}

    def add(self, value: int, payload: Payload) -> int:
        """Keep a copy of a payload as a value; return the size of its replicas.

        Raises:
            MemoryError: there is no room for it.
        """
        size = replica_size(payload)
        directory = self._directory()
        if directory is None or not self._write(value, size, payload, directory):
            self._copies[value] = ReplicaBytes(payload.detached())
        self.sizes[value] = size
        return size

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
        """Return the payload of a value; None if the value is not kept any more."""
        copy = self._copies.get(value)
        if copy is not None:
            return copy.payload
        return map_replica(self._files[value]) if value in self._files else None

    def payloads(self, values: Iterable[int]) -> dict[int, Payload]:
        """Return the payloads of these values, each once; values that are not kept are left out."""
        found = {value: self.payload(value) for value in values}
        return {value: payload for value, payload in found.items() if payload is not None}

    def place(self, value: int) -> str:
        """Return the directory with the file of a value; empty if there is none."""
        path = self._files.get(value)
        return "" if path is None else str(path.parent)

    def read(self, value: int, begin: int, end: int) -> Buffer:
        """Return bytes of the replica of a value. Raises `KeyError` or `OSError` if it is gone."""
        copy = self._copies.get(value)
        if copy is not None:
            return copy.read(begin, end)
        source = self._sources.get(value)
        if source is None:
            source = self._sources[value] = ReplicaSource(self._files[value])
        return source.read(begin, end)

    def free(self, values: Iterable[int]) -> None:
        """Drop values that nothing needs any more; processes that have mapped a file keep its bytes."""
        for value in values:
            self.sizes.pop(value, None)
            self._copies.pop(value, None)
            self._sources.pop(value, None)
            path = self._files.pop(value, None)
            if path is not None:
                path.unlink(missing_ok=True)
