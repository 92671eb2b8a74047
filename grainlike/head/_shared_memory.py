"""Shared memory for arguments and results that are passed between processes of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from grainlike.payload import MARK, Payload, SharedBuffers, Store, drop, is_stored, mapped, memory_id, stored_bytes
from grainlike.wire import Hello, Parcel

__all__ = ["ObjectStore", "drop_stored", "size_of", "with_buffers"]

_MARKED = MARK[:1]


class ObjectStore:
    """The store of one head. It is made when the first worker comes that can share it, and removed with the head.

    The head keeps arguments in it, which stay until their job has ended, for there may be another attempt. Runners
    put results there, which the head takes and drops when they are reported. Without `share` there is no store.
    """

    def __init__(self, *, share: bool = True) -> None:
        self._memory: str | None = None if share else ""
        self._store: Store | None = None
        self.open: bool = False
        """True if there is a store; an attribute, as each report asks."""
        self._shared: SharedBuffers | None = None

    def maps(self, hello: Hello) -> bool:
        """Return True if this process can map what a worker has in shared memory of its own."""
        if self._memory is None:
            self._memory = memory_id()
        return bool(self._memory) and hello.memory == self._memory

    def passes_on(self, hello: Hello) -> bool:
        """Return True if payloads are sent to a worker as they are: it maps our store, or there is none."""
        return self._store is None or hello.memory == self._memory

    def directory_for(self, hello: Hello) -> str:
        """Return the store's directory for a worker that can map what is in it; empty for any other."""
        if not self.maps(hello):
            return ""
        if self._store is None:
            self._store = Store.make()
            if self._store is None:
                self._memory = ""  # there will be none at the next try either
                return ""
            self._shared = SharedBuffers(self._store)
            self.open = True
        return str(self._store.directory)

    def keep(self, payload: Payload, name: str) -> Payload:
        """Arguments, in the store if they are large and there is one; on memory of their own in any case.

        What several calls of a batch have of 1 MiB and more is there once; `end_batch` ends the batch.
        """
        return self.put(payload, name).detached()

    def put(self, payload: Payload, name: str) -> Payload:
        """Arguments that are not changed, in the store as of `keep`; else as they are."""
        if payload.buffers and self._store is not None and self._shared is not None:
            return self._shared.put(payload, self._store.own(name))
        return payload

    def end_batch(self) -> None:
        """Let go of the arguments that were kept since the last one."""
        if self._shared is not None:
            self._shared.end_batch()

    def parcels_for(self, hello: Hello, parcels: Sequence[Parcel]) -> Sequence[Parcel]:
        """Return the payloads, with stored ones read into memory for a worker that cannot map the store."""
        if self.passes_on(hello):
            return parcels
        return [with_buffers(parcel) for parcel in parcels]

    @property
    def directory(self) -> Path | None:
        """Directory of the store; None without one."""
        return None if self._store is None else self._store.directory

    def close(self) -> None:
        """Remove the store with all that was not taken."""
        if self._store is not None:
            self._store.remove()
            self._store = self._shared = None
            self.open = False


def with_buffers(parcel: Parcel) -> Parcel:
    """Return a payload whose buffers are sent with it, wherever it is stored."""
    data, _ = parcel
    if not is_stored(data):
        return parcel
    payload = mapped(data)
    return bytes(payload.data), list(payload.buffers)


def size_of(parcel: Parcel) -> int:
    """Return the bytes of a payload with its buffers, wherever they are."""
    data, buffers = parcel
    return len(data) + stored_bytes(data) + sum(memoryview(buffer).nbytes for buffer in buffers)


def drop_stored(columns: Iterable[list[Parcel]]) -> None:
    """Drop results that were reported: they have been mapped, or are wanted no more."""
    for parcels in columns:
        for data, _ in parcels:
            if data[:1] == _MARKED:
                drop(data)
