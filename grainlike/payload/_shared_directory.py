"""Directories of files that processes of one machine share, in memory or on disk.

Such a directory and its files belong to one user alone. The process that makes it holds a lock in it, and removes it at
its end, with all files. Directories of processes that were killed are removed by the next process that makes one.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grainlike.payload._payload import Buffer

__all__ = [
    "SPARE_LEAST",
    "SharedDirectory",
    "SpareFiles",
    "flat",
    "is_memory_small",
    "is_shared_directory",
    "is_shared_file",
    "memory_id",
    "padded",
    "unlink",
    "write_padded",
]

_HOME = Path("/dev/shm")  # noqa: S108 - ours is a directory of mode 0700 in it
_PREFIX = "grainlike-store-"
_LOCK = "owner.lock"
_UNLOCKED = "owner.new"
_ALIGNED = 64

SPARE_LEAST = 4 * 1024 * 1024
"""Bytes from which a file is kept to be written again; making a smaller file takes only a millisecond or two."""
_SMALL = 0.3


class SharedDirectory:
    """Directory of shared memory, or of a disk, that this process has made.

    Example::

        directory = SharedDirectory.make()
        if directory is not None:
            (directory.path / "7-1").write_bytes(b"for processes that are told of it")
            directory.remove()
    """

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        """Descriptor of the lock that shows others that this process lives; -1 once the directory was removed."""

    @classmethod
    def make(cls, home: Path | None = None) -> SharedDirectory | None:
        """Return a new directory in `home`, by default in shared memory, after removing directories of killed processes
        there; None if no directory can be made.
        """
        home = _HOME if home is None else home
        if not home.is_dir():
            return None
        cls.sweep(home)
        try:
            # Without `tempfile`, because every program with an executor comes here, and that import takes time.
            path = home / f"{_PREFIX}{os.urandom(8).hex()}"
            path.mkdir(mode=0o700)
            lock = os.open(path / _UNLOCKED, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Only now may others see the file: one that is not locked says that its owner is gone.
            (path / _UNLOCKED).rename(path / _LOCK)
        except OSError:
            return None
        return cls(path, lock)

    @staticmethod
    def sweep(home: Path) -> None:
        """Remove the directories in `home` of this user's processes that are gone."""
        with suppress(OSError), os.scandir(home) as entries:
            ours = (entry for entry in entries if entry.name.startswith(_PREFIX))
            for entry in [entry for entry in ours if entry.is_dir(follow_symlinks=False)]:
                with suppress(FileNotFoundError):  # another process has just removed it; others may be left
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid() and not _has_owner(entry.path):
                        _remove_all(Path(entry))

    def remove(self) -> None:
        """Remove the directory with all its files. A second call changes nothing."""
        if self._lock >= 0:
            _remove_all(self.path)
            os.close(self._lock)
            self._lock = -1


class SpareFiles:
    """Unneeded files in shared memory, kept for the next files of about their sizes: writing over a file takes
    half the time of removing it and making another.

    A file may still be mapped when it is kept. A lease on the file shows that it is not: the system grants a lease only
    if no process has the file open or mapped. None can open the file any more, because it has lost its name.

    Example::

        spare = SpareFiles(directory)
        spare.keep(directory / "v7-1")
        spare.take(directory / "v8-1.part", size)      # True if it was of that size or little more, and none maps it
        spare.shrink(0)
    """

    def __init__(self, directory: Path) -> None:
        self.nbytes: int = 0
        """Bytes of all kept files."""
        self._directory = directory
        self._files: dict[Path, int] = {}
        """Sizes of the files, the oldest file first."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._files)

    @property
    def count(self) -> int:
        """Number of files that have been kept so far."""
        return self._count

    def keep(self, file: Path) -> bool:
        """Take over a file and its name; return False if the file is a link, is small, or has other names."""
        try:
            found = file.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size < SPARE_LEAST:
                return False
            spare = self._directory / f"spare-{self._count}"
            file.rename(spare)
        except OSError:
            return False
        self._count += 1
        self._files[spare] = found.st_size
        self.nbytes += found.st_size
        return True

    def take(self, path: Path, size: int) -> bool:
        """Rename a kept file to `path`, with `size` bytes; return False if no kept file fits."""
        for file, has in list(self._files.items()):
            if size <= has <= size + size // 8 and _is_unused(file, size):
                self._forget(file)
                file.rename(path)
                return True
        return False

    def shrink(self, most: int, count: int | None = None) -> None:
        """Remove the oldest files until the others have at most `most` bytes. With `count`, also remove the files that
        were among the first `count` to be kept.
        """
        for file in list(self._files):
            is_old = count is not None and int(file.name.rpartition("-")[2]) < count
            if self.nbytes > most or is_old:
                self._forget(file)
                unlink(file)

    def _forget(self, file: Path) -> None:
        self.nbytes -= self._files.pop(file)


def _is_unused(file: Path, size: int) -> bool:
    """Return True if no process has a file open or mapped; the file has this size then."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        os.ftruncate(fd, size)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def is_shared_directory(path: str) -> bool:
    """Return True if a path from another process looks like the path of a shared directory in memory."""
    home, _, name = path.rpartition("/")
    return home == str(_HOME) and name.startswith(_PREFIX)


def is_shared_file(name: str) -> bool:
    """Return True if the system's name of mapped memory is that of a file in a shared directory in memory, or of memory
    that a process holds in place of such a file.

    >>> is_shared_file("/dev/shm/grainlike-store-1f/v7-1 (deleted)"), is_shared_file("/memfd:grainlike-store-1f-v7-1")
    (True, True)
    >>> is_shared_file("/dev/shm/other"), is_shared_file("[heap]")
    (False, False)
    """
    return name.startswith((f"{_HOME}/{_PREFIX}", f"/memfd:{_PREFIX}"))


def is_memory_small() -> bool:
    """Return True if the file system of shared memory is small for this machine, like the 64 MB of containers. Then a
    process holds the memory of large values itself. Raises `OSError` if there is no shared memory.
    """
    found = os.statvfs(_HOME)
    return found.f_blocks * found.f_frsize < _SMALL * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def memory_id() -> str:
    """Return an id of machine, shared memory and user. Two processes with the same id can share a directory in memory.
    If shared memory is small, the id also names the process numbering, because paths have process numbers then.

    Empty if there is no shared memory.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        found = f"{boot}:{_HOME.stat().st_dev}:{os.getuid()}"
        return f"{found}:{Path('/proc/self/ns/pid').stat().st_ino}" if is_memory_small() else found
    except OSError:
        return ""


def padded(size: int) -> int:
    """Return the bytes that a part of `size` bytes takes in a file whose parts are aligned for arrays.

    >>> padded(0), padded(1), padded(64)
    (0, 64, 64)
    """
    return size + -size % _ALIGNED


def write_padded(fd: int, parts: Iterable[memoryview]) -> None:
    """Write parts, each a view of bytes, at the file's position, and pad each part.

    `write` raises `OSError` if there is no room. Writing through a mapping would kill the process instead.
    """
    for part in parts:
        left = part
        while left.nbytes:
            left = left[os.write(fd, left) :]
        os.lseek(fd, -part.nbytes % _ALIGNED, os.SEEK_CUR)
    os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))


def flat(buffer: Buffer) -> memoryview:
    """Return a view of a buffer's bytes, for items of any type."""
    return memoryview(buffer).cast("B")


def unlink(path: Path) -> None:
    """Remove a file, if it exists."""
    with suppress(OSError):
        path.unlink()


def _remove_all(directory: Path) -> None:
    """Remove a directory with all its files, the lock last: a directory without a lock is not swept."""
    with suppress(OSError):
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name == _LOCK):
            if entry.is_dir(follow_symlinks=False):
                _remove_all(Path(entry))
            else:
                unlink(Path(entry))
        directory.rmdir()


def _has_owner(directory: str) -> bool:
    """Return True if the process that made a directory lives. Its lock tells. Its number would not: containers can
    share this memory and number their processes separately.
    """
    try:
        lock = os.open(f"{directory}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True  # the directory is being made or removed at this moment
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
