"""Advisory locks on core ids, by which one user's programs and workers on a machine keep out of each other's way.

All of them open one file in the user's runtime directory. A core in use is a write lock on the byte with its number;
an offer of a core is a read lock on a byte far behind that. The kernel drops the locks of a process that ends,
however it ends, and reports who holds one, so nothing is ever written into the file. Locks are hints: without the
file, or on a system with other locks, every process acts as if alone.
"""

import os
import stat
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

__all__ = ["CoreLocks", "NoCoreLocks", "choose_cores", "open_core_locks"]

_MOST = 1 << 20
"""Ids above this are no cores of a machine."""
_OFFERS = 1 << 32
"""Offset of the bytes of offers."""
_CHOICE = 1 << 40
"""The byte that is locked by who chooses cores, until it has offered them: so two that start at once choose others."""
_TRIES = 1000
"""Most attempts to lock it: it is held for microseconds."""

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of Linux on 64 bits: type, whence, start, length, pid. Source: fcntl(2)."""


class CoreLocks(Protocol):
    """The locks of one worker."""

    def hold(self, cores: int) -> None:
        """Lock just these cores, a mask, from now on."""

    def others(self) -> int:
        """Return the mask of the cores that others use now: other processes, and other workers of this process."""
        ...

    def overlaps(self) -> dict[int, list[int]]:
        """Return the offered cores that other processes offer, too, by process id."""
        ...

    def close(self) -> None:
        """Release all locks."""


class NoCoreLocks:
    """Substitute where there is no file for locks."""

    def hold(self, cores: int) -> None: ...

    def others(self) -> int:
        return 0

    def overlaps(self) -> dict[int, list[int]]:
        return {}

    def close(self) -> None: ...


def open_core_locks(offered: Iterable[int]) -> CoreLocks:
    """Offer these cores of the machine, and return the locks of the worker that does so."""
    cores = [core for core in offered if core < _MOST]
    if sys.platform != "linux" or struct.calcsize("P") != 8 or not cores:
        return NoCoreLocks()
    try:
        return _Locks(_File.shared(), cores)
    except OSError:
        return NoCoreLocks()


def choose_cores(own: Iterable[int], count: int) -> list[int]:
    """Return `count` of these cores, and offer them: those that the fewest others offer, and of these first such as are
    not in use. `open_core_locks` keeps them offered until it is closed.
    """
    cores = sorted(core for core in own if core < _MOST)
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return cores[:count]
    try:
        return _File.shared().choose(cores, count)
    except OSError:
        return cores[:count]


class _File:
    """The file, opened once for each process: to close any descriptor of it would drop all locks of the process."""

    _open: "_File | None" = None

    def __init__(self) -> None:
        self.path = _path()
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        status = os.fstat(self.fd)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            os.close(self.fd)
            raise PermissionError(f"{self.path} is not ours")
        self.pid = os.getpid()
        self.users: list[_Locks] = []
        self.missed = 0
        """The cores in use here whose lock another process had, as a mask: they are tried again at each look, as that
        may let go of them long before we do.
        """

    @classmethod
    def shared(cls) -> "_File":
        known = cls._open
        if known is not None and not known.users and known.path != _path():  # cores were chosen, and no worker opened
            os.close(known.fd)
            known = None
        if known is None or known.pid != os.getpid():  # a child after fork has none of its parent's locks
            known = cls._open = cls()
        return known

    def leave(self, user: "_Locks") -> None:
        self.users.remove(user)
        if not self.users:
            os.close(self.fd)
            if _File._open is self:
                _File._open = None

    def choose(self, cores: list[int], count: int) -> list[int]:
        import fcntl

        alone = self._alone()
        try:
            used = _mask(core for _, first, end in self.held_by_others(0, _MOST) for core in range(first, end))
            for user in self.users:
                used |= user.held
            offers = self._offers()
            chosen = sorted(sorted(cores, key=lambda core: (offers.get(core, 0), used >> core & 1, core))[:count])
            for first, length in _runs(_mask(chosen)):
                self.set(fcntl.F_RDLCK, _OFFERS + first, length)
        finally:
            if alone:
                self.set(fcntl.F_UNLCK, _CHOICE, 1)
        return chosen

    def _alone(self) -> bool:
        """Lock the byte of who chooses; False if another has kept it for long, as one that was stopped."""
        import fcntl

        for _ in range(_TRIES):
            if self.set(fcntl.F_WRLCK, _CHOICE, 1):
                return True
            os.sched_yield()
        return False

    def _offers(self) -> Counter[int]:
        """Return how many workers offer each core: those of this process, and every other process. The system's list of
        locks has all that are held on one byte, where `held_by_others` finds one of them.
        """
        found = Counter(core for user in self.users for core in user.offered)
        inode = str(os.fstat(self.fd).st_ino)
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:  # noqa: PTH123 - started with programs
            for line in locks:
                words = line.split()
                if words[1] != "POSIX" or words[5].rpartition(":")[2] != inode or int(words[4]) == self.pid:
                    continue
                first = int(words[6]) - _OFFERS
                if 0 <= first < _MOST and words[7].isdecimal():
                    found.update(range(first, min(_MOST, int(words[7]) - _OFFERS + 1)))
        return found

    def set(self, kind: int, first: int, count: int) -> bool:
        """Set a lock of this process, or lift it; False where another process holds one against it."""
        import fcntl

        try:
            fcntl.fcntl(self.fd, fcntl.F_SETLK, _FLOCK.pack(kind, os.SEEK_SET, first, count, 0))
        except OSError:
            return False
        return True

    def held_by_others(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Iterate over what other processes have locked of these bytes: process, first byte, and the byte behind the
        last.
        """
        import fcntl

        while first < end:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, end - first, 0)
            kind, _, start, length, pid = _FLOCK.unpack(fcntl.fcntl(self.fd, fcntl.F_GETLK, asked))
            if kind == fcntl.F_UNLCK:
                return
            stop = min(end, start + length) if length else end
            yield pid, max(start, first), stop
            first = stop


class _Locks:
    def __init__(self, file: _File, offered: list[int]) -> None:
        import fcntl

        self._file = file
        self._write, self._read, self._none = fcntl.F_WRLCK, fcntl.F_RDLCK, fcntl.F_UNLCK
        self.offered = sorted(offered)
        self._end = self.offered[-1] + 1
        self.held = 0
        file.users.append(self)
        for first, count in _runs(_mask(offered)):
            file.set(self._read, _OFFERS + first, count)

    def hold(self, cores: int) -> None:
        file = self._file
        others = self._held_beside() if len(file.users) > 1 else 0
        before, after = others | self.held, others | cores
        self.held = cores
        file.missed &= after
        if before & ~after:
            for first, count in _runs(before & ~after):
                file.set(self._none, first, count)
        if after & ~before:
            self._lock(after & ~before)

    def _lock(self, cores: int) -> None:
        self._file.missed &= ~cores
        for first, count in _runs(cores):
            if self._file.set(self._write, first, count):
                continue
            for core in range(first, first + count):  # another has some of them: lock the rest
                if not self._file.set(self._write, core, 1):
                    self._file.missed |= 1 << core

    def others(self) -> int:
        found = 0
        for _, first, end in self._file.held_by_others(0, self._end):
            found |= (1 << end) - (1 << first)
        if self._file.missed & ~found:
            self._lock(self._file.missed & ~found)
        return found | self._held_beside()

    def overlaps(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for core in self.offered:
            for pid, _, _ in self._file.held_by_others(_OFFERS + core, _OFFERS + core + 1):
                found.setdefault(pid, []).append(core)
        return found

    def close(self) -> None:
        self.hold(0)
        self._file.leave(self)
        if self._file.users:  # of this process; what they offer stays offered
            mine = _mask(self.offered) & ~_mask(core for user in self._file.users for core in user.offered)
            for first, count in _runs(mine):
                self._file.set(self._none, _OFFERS + first, count)

    def _held_beside(self) -> int:
        """Return the mask of the cores that other workers of this process use."""
        held = 0
        for user in self._file.users:
            if user is not self:
                held |= user.held
        return held


def _path() -> Path:
    """Return the file in the user's runtime directory; where there is none, one in shared memory."""
    for directory in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if directory and os.path.isdir(directory):  # noqa: PTH112 - started with every program
            path = Path(directory, "grainlike")
            with suppress(FileExistsError):
                path.mkdir(0o700)
            return path / "cores"
    return Path(f"/dev/shm/grainlike-{os.geteuid()}.cores")  # noqa: S108 - looked at when it is opened


def _mask(cores: Iterable[int]) -> int:
    mask = 0
    for core in cores:
        mask |= 1 << core
    return mask


def _runs(mask: int) -> list[tuple[int, int]]:
    """Return the runs of ones in a mask: the first, and how many."""
    runs: list[tuple[int, int]] = []
    while mask:
        first = (mask & -mask).bit_length() - 1
        count = (~(mask >> first) & (mask >> first) + 1).bit_length() - 1
        runs.append((first, count))
        mask &= ~(((1 << count) - 1) << first)
    return runs
