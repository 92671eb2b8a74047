"""Objects that belong to their process: open files, and held locks. They are not sent, in whatever object they are.

dill would open the file again at the receiver, and opening a file for writing empties it. It would also copy a lock
with its state, so the copy of a held lock would be held for ever.
"""

import io
import sys
from functools import cached_property
from threading import Lock, RLock
from typing import Any

__all__ = ["reduced_here"]

_FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair, io.FileIO)
_LOCKS = (type(Lock()), type(RLock()))
_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


def reduced_here(obj: object) -> Any:
    """Reduce a standard stream, which means the job's own, to its name. Return `NotImplemented` for other types of
    objects.

    Raises `TypeError` for an open or closed file, and for a held lock.
    """
    kind = type(obj)  # `isinstance` would ask the object, which may raise
    if issubclass(kind, _FILES):
        return _reduced_file(obj)
    if issubclass(kind, _LOCKS) and _is_held(obj):
        raise TypeError("a lock belongs to its process: a copy of one that is held would be held for ever")
    if kind is cached_property and "lock" in vars(obj):  # before Python 3.12; only the property uses this lock
        return cached_property, (None,), {name: value for name, value in vars(obj).items() if name != "lock"}
    return NotImplemented


def _is_held(lock: Any) -> bool:
    """Return True if a lock is held, by this thread or another."""
    if hasattr(lock, "_is_owned") and lock._is_owned():
        return True
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return not free


def _reduced_file(file: object) -> Any:
    for name in _STREAMS:
        stream = getattr(sys, name, None)
        if file is stream:
            return getattr, (sys, name)
        for part in ("buffer", "raw"):
            whole, stream = stream, getattr(stream, part, None)
            if file is stream:
                return getattr, (whole, part)
    raise TypeError("an open file belongs to its process: send its path, or what it holds")
