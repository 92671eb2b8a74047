"""Large buffers that payloads share: each is one file in shared memory, removed with the last of these payloads."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from grainlike._memory import copied
from grainlike.errors import SerializationError
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._shared_directory import padded
from grainlike.payload._store import BufferRun, Store, map_file, named, release, retain, retained

__all__ = ["SHARED_LEAST", "SharedBuffers", "SharedCopies", "have_same_bytes", "place_of"]

SHARED_LEAST = 1024 * 1024
"""Bytes from which a buffer gets a file of its own, so that payloads can share it."""


class SharedBuffers:
    """Large buffers in one store, by their place in the memory of this process.

    Two buffers of a batch with the same place and length are the same one, because all are held until `end_batch`. A
    buffer of a later batch is compared with the file first: the program may have changed it, or another object may be
    there.

    Example::

        shared = SharedBuffers(store)
        first = shared.put(dump_value((1, array)), "a1")
        again = shared.put(dump_value((2, array)), "a2")     # one file for both
        shared.end_batch()
        drop(first.data)
        drop(again.data)                                     # now the file is gone
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: dict[tuple[int, int], str] = {}
        self._batch: dict[tuple[int, int], memoryview] = {}

    def put(self, payload: Payload, name: str) -> Payload:
        """Return the payload with its buffers in files, like `Store.put`: large buffers in files that are shared, the
        others in the file `name`. Return the payload unchanged if there is no room.
        """
        buffers = [memoryview(buffer).cast("B") for buffer in payload.buffers]
        if all(buffer.nbytes < SHARED_LEAST for buffer in buffers):
            return self._store.put(payload, name)
        runs: list[BufferRun] = []
        own: list[memoryview] = []
        at = 0
        try:
            for buffer in buffers:
                if buffer.nbytes >= SHARED_LEAST:
                    file = self._file_of(buffer)
                    if all(run.name != file for run in runs):
                        retain(file)
                    runs.append(BufferRun(file, 0, [buffer.nbytes]))
                else:
                    runs.append(BufferRun(name, at, [buffer.nbytes]))
                    own.append(buffer)
                    at += padded(buffer.nbytes)
            if own:
                self._store.write(name, own)
        except OSError:
            for file in dict.fromkeys(run.name for run in runs):
                release(file)
            return payload
        return Payload(named(runs) + payload.data)

    def end_batch(self) -> None:
        """Release the buffers of the payloads so far: the program may change them from now on."""
        self._batch.clear()
        if len(self._files) > 64:
            self._files = {key: name for key, name in self._files.items() if retained(name)}

    def _file_of(self, buffer: memoryview) -> str:
        key = place_of(buffer)
        name = self._files.get(key)
        if name is None or not retained(name) or not (key in self._batch or _is_in(buffer, name)):
            name = self._files[key] = self._store.own(f"s{os.urandom(8).hex()}")
            self._store.write(name, [buffer])
        self._batch[key] = buffer
        return name


class SharedCopies:
    """Copies of the large buffers of one batch of payloads that are sent to another process: one read-only copy of
    each.

    Example::

        copies = SharedCopies()
        packed = [copies.detached(dump_value((at, array))) for at in range(50)]     # one copy of the array in all
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int, int], tuple[memoryview, memoryview]] = {}

    def detached(self, payload: Payload) -> Payload:
        """Return the payload on memory that the program cannot change, like `Payload.detached`."""
        if not payload.buffers:
            return payload
        return Payload(payload.data, tuple(self._copy_of(memoryview(buffer).cast("B")) for buffer in payload.buffers))

    def _copy_of(self, buffer: memoryview) -> Buffer:
        if buffer.nbytes < SHARED_LEAST:
            return copied(buffer)
        key = place_of(buffer)
        if key not in self._copies:  # the original is held, too, so that no other object can take its place
            self._copies[key] = buffer, memoryview(copied(buffer)).toreadonly()
        return self._copies[key][1]


def _is_in(buffer: memoryview, name: str) -> bool:
    """Return True if a file holds the bytes of a buffer."""
    try:
        file = map_file(name, padded(buffer.nbytes))
    except SerializationError:  # the file was removed by somebody else
        return False
    return have_same_bytes(buffer, file[: buffer.nbytes])


def have_same_bytes(one: memoryview, other: memoryview) -> bool:
    """Return True if two buffers, which may be read-only, hold the same bytes.

    >>> have_same_bytes(memoryview(b"few"), memoryview(bytearray(b"few")))
    True
    """
    return one.nbytes == other.nbytes and not _libc().memcmp(_address_of(one), _address_of(other), one.nbytes)


def place_of(buffer: memoryview) -> tuple[int, int]:
    """Return address and length of a buffer. Buffers that have the same place at the same time are the same."""
    return _address_of(buffer), buffer.nbytes


def _address_of(buffer: memoryview) -> int:
    """Return the address of a buffer, which may be read-only; ctypes has no function for read-only buffers."""
    import ctypes  # by programs alone that have buffers to share

    found = _buffer_type()()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(found), 0)
    try:
        return found.buf or 0
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))


@cache
def _buffer_type() -> Any:
    """Return `Py_buffer` of Python's C interface."""
    import ctypes

    fields = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )
    return type("Buffer", (ctypes.Structure,), {"_fields_": fields})


@cache
def _libc() -> Any:
    import ctypes

    libc = ctypes.CDLL(None)
    libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return libc
