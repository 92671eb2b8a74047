"""Large arrays among the arguments of joblib's calls: written to a file once, and mapped by each process that calls.

One `Parallel` gives the same few arrays to very many calls, whose processes are on this machine.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib

from grainlike.payload import Store
from grainlike.system import free_bytes, spare_memory

__all__ = ["ArgumentFiles", "MappedArray"]

logger = logging.getLogger("grainlike")

_PREFIX = "grainlike-joblib-"


class ArgumentFiles:
    """The files of one `Parallel`. One is removed when its array was collected and no call that is open needs it, at
    the latest with `close`; processes that have mapped it may keep using it.

    Args:
        max_nbytes: arrays with more bytes than this are mapped.
        mode: mode of `numpy.memmap`.
        folder: folder of the files; by default `$JOBLIB_TEMP_FOLDER`. Without either, a file is in shared memory, or in
            the system's folder for temporary files if it would take more than half of the memory that is free.
    """

    def __init__(self, max_nbytes: int, mode: str, folder: str | None) -> None:
        self._max_nbytes = max_nbytes
        self._mode = mode
        chosen = folder or os.environ.get("JOBLIB_TEMP_FOLDER")
        self._parent = chosen or tempfile.gettempdir()
        self._folder: Path | None = None
        self._remove: Callable[[], object] = _nothing
        self._may_ask = not chosen
        """True while shared memory may be asked for."""
        self._memory: Store | None = None
        self._release: Callable[[], object] = _nothing
        self._written = 0
        self._warned = False
        self._known: dict[int, MappedArray] = {}
        """Stand-ins for the arrays that are alive, by their ids."""
        self._lock = threading.RLock()  # an array may be gone in the middle of anything

    def replaced(self, calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]]) -> set[MappedArray]:
        """Replace large arrays by their stand-ins; return all of these, for `release` once the calls are made.

        An array whose file cannot be written stays, and travels with its call.
        """
        used: set[MappedArray] = set()
        numpy = sys.modules.get("numpy")
        if numpy is None:  # then nothing is an array
            return used

        def one(value: Any) -> Any:
            if not self._is_large(numpy, value):
                return value
            try:
                found = self._stand_in(numpy, value)
            except OSError as error:  # a full disk, say
                if not self._warned:
                    logger.warning("arrays travel with their calls, as no file of them can be written: %s", error)
                self._warned = True
                return value
            if found not in used:
                used.add(found)
                found.uses += 1
            return found

        with self._lock:
            for at, (function, args, kwargs) in enumerate(calls):
                calls[at] = function, tuple(map(one, args)), {key: one(value) for key, value in kwargs.items()}
        return used

    def release(self, used: set[MappedArray]) -> None:
        """Release the stand-ins of calls that have been made."""
        with self._lock:
            for mapped in used:
                mapped.uses -= 1
                mapped.tidy()

    def close(self) -> None:
        """Remove the files."""
        with self._lock:
            self._known.clear()
            self._remove()
            self._folder = None
            self._release()
            self._memory = None

    def _is_large(self, numpy: Any, value: Any) -> bool:
        kinds = (numpy.ndarray, numpy.memmap)
        return type(value) in kinds and value.nbytes > self._max_nbytes and not value.dtype.hasobject

    def _stand_in(self, numpy: Any, array: Any) -> MappedArray:
        found = self._known.get(id(array))
        if found is None:
            found = self._known[id(array)] = _mapped_already(numpy, array) or self._write(numpy, array)
            weakref.finalize(array, self._gone, id(array), found).atexit = False
        return found

    def _gone(self, number: int, mapped: MappedArray) -> None:
        with self._lock:
            if self._known.get(number) is mapped:
                del self._known[number]
            mapped.gone = True
            mapped.tidy()

    def _write(self, numpy: Any, array: Any) -> MappedArray:
        self._written += 1
        return self._write_to_memory(numpy, array) or self._write_to_folder(array)

    def _write_to_memory(self, numpy: Any, array: Any) -> MappedArray | None:
        """Write an array to shared memory; return None if it has more than one piece, or if there is no room, or if the
        system has removed the directory there, as `systemd` does when a user logs out.
        """
        flags = array.flags
        store = self._store() if flags.c_contiguous or flags.f_contiguous else None
        if store is None:
            return None
        name, order = f"{self._written}-array", "C" if flags.c_contiguous else "F"
        try:
            if 2 * array.nbytes > min(spare_memory(), free_bytes(store.directory)):
                return None
            store.write(name, [memoryview(array.ravel("K").view("u1"))])
        except OSError:
            return None
        path = store.directory / name
        mode = "r+" if self._mode == "w+" else self._mode
        return MappedArray(numpy.memmap, (str(path), array.dtype, mode, 0, array.shape, order), path)

    def _store(self) -> Store | None:
        if self._may_ask:
            self._may_ask = False
            self._memory = store = Store.make()
            if store is not None:
                self._release = weakref.finalize(self, _remove_store, os.getpid(), store)
        return self._memory

    def _write_to_folder(self, array: Any) -> MappedArray:
        path = self._made() / f"{self._written}.array"
        joblib.dump(array, path)
        return MappedArray(joblib.load, (str(path), self._mode), path)

    def _made(self) -> Path:
        if self._folder is None:
            _remove_those_of_the_dead(self._parent)
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=self._parent))
            self._remove = weakref.finalize(self, _remove_own, os.getpid(), self._folder)
        return self._folder


class MappedArray:
    """Stand-in for an array that arrives as one: it is pickled as the call that maps it.

    Attributes:
        uses: number of open batches of calls that have it among their arguments.
        gone: True if the array was collected.
    """

    def __init__(self, load: Callable[..., Any], args: tuple[Any, ...], path: Path | None = None) -> None:
        self._load = load
        self._args = args
        self._path = path
        """The file, where it was written for this."""
        self.uses = 0
        self.gone = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._load, self._args

    def tidy(self) -> None:
        """Remove the file if it is needed no more."""
        if self._path is not None and self.gone and not self.uses:
            self._path.unlink(missing_ok=True)


def _mapped_already(numpy: Any, array: Any) -> MappedArray | None:
    """Return a stand-in for an array that lies in one piece in a file that the user has mapped; None for all others."""
    root = array
    while isinstance(root.base, numpy.ndarray):
        root = root.base
    if type(root) is not numpy.memmap or not isinstance(root.base, mmap.mmap) or not array.flags.c_contiguous:
        return None
    if root.filename is None or root.mode == "c":  # such changes are in no file
        return None
    root.flush()
    mode = "r+" if root.mode == "w+" else root.mode
    offset = root.offset + array.ctypes.data - root.ctypes.data
    return MappedArray(numpy.memmap, (str(root.filename), array.dtype, mode, offset, array.shape))


def _nothing() -> None:
    """Do nothing: there is no folder."""


def _remove_own(pid: int, folder: Path) -> None:
    if os.getpid() == pid:  # no child after fork
        shutil.rmtree(folder, ignore_errors=True)


def _remove_store(pid: int, store: Store) -> None:
    if os.getpid() == pid:  # as above
        store.remove()


def _remove_those_of_the_dead(parent: str) -> None:
    """Remove the files of killed programs of this user."""
    for folder in Path(parent).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError):
            if pid.isdigit() and folder.lstat().st_uid == os.geteuid() and not Path("/proc", pid).exists():
                shutil.rmtree(folder, ignore_errors=True)
