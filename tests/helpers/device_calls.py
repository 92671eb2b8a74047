"""Calls that stand for those that use a device: they load a library of CUDA's name, and its memory is a lock on a file,
which a process has from its first job on until it is gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from pathlib import Path

from grainlike import delayed

__all__ = ["fail", "fail_without_library", "fill", "hold", "share"]

_locks: dict[str, int] = {}


def _use(folder: str, kind: int) -> int:
    ctypes.CDLL(f"{folder}/libcudart.so.13")
    if folder not in _locks:
        _locks[folder] = os.open(f"{folder}/memory", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(_locks[folder], kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MemoryError("another process holds the memory of the device") from None
    return os.getpid()


@delayed
def fill(folder: str) -> int:
    """Take all memory of the device, and leave it with the process."""
    return _use(folder, fcntl.LOCK_EX)


@delayed
def share(folder: str, pipe: str) -> int:
    """Take a part of it, and wait as `hold` does."""
    number = _use(folder, fcntl.LOCK_SH)
    Path(pipe).read_bytes()
    return number


@delayed
def hold(pipe: str) -> int:
    """Wait until the named pipe has been opened, and closed, by a writer."""
    Path(pipe).read_bytes()
    return os.getpid()


@delayed
def fail(folder: str) -> None:
    """Use the device, and fail with the process's id."""
    raise RuntimeError(str(_use(folder, fcntl.LOCK_EX)))


@delayed
def fail_without_library() -> None:
    raise RuntimeError(str(os.getpid()))
