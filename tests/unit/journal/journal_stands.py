"""Disks that fail, or lose power, under a real journal; and journals that are filled with known records."""

import errno
import os
import stat
from pathlib import Path

from grainlike.journal import Disk, Journal, commit_image


class QuickDisk(Disk):
    """Files as they are, which nobody waits for: what is tried here is not that the machine dies."""

    def sync(self, file):
        pass

    def sync_directory(self, path):
        pass


class FaultyDisk(QuickDisk):
    """Counts its calls, and lets the `at`-th fail: with an error, or, if that can be, after a part of the write."""

    FAILING = ("create", "write", "truncate", "sync", "sync_directory", "rename", "remove", "status", "names", "read")

    def __init__(self, at=0, error=errno.EIO, *, part=0):
        self.calls = []
        self.at, self.error, self.part = at, error, part

    def _note(self, name):
        self.calls.append(name)
        if len(self.calls) == self.at:
            raise OSError(self.error, os.strerror(self.error))

    @property
    def failed(self):
        """The name of the call that failed."""
        return self.calls[self.at - 1] if 0 < self.at <= len(self.calls) else None

    def write(self, file, pieces):
        if self.part and len(self.calls) == self.at - 1:
            part, self.part = self.part, 0
            self.at += 1  # what is written in part is one call, and the error comes with the next
            self.calls.append("part")
            return super().write(file, [b"".join(pieces)[:part]])
        self._note("write")
        return super().write(file, pieces)


def _counted(name):
    def call(self, *args):
        self._note(name)
        return getattr(super(FaultyDisk, self), name)(*args)

    return call


for _name in FaultyDisk.FAILING:
    if _name != "write":
        setattr(FaultyDisk, _name, _counted(_name))


class KilledError(BaseException):
    """The process is killed: nobody can catch that."""


class KillingDisk(QuickDisk):
    """Notes its calls that change something, and lets the process be killed just before the `at`-th."""

    CHANGING = ("create", "write", "truncate", "sync", "sync_directory", "rename", "remove")

    def __init__(self, at=0):
        self.at, self.calls = at, []


def _killing(name):
    def call(self, *args):
        if len(self.calls) + 1 == self.at:
            raise KilledError
        self.calls.append(name)
        return getattr(QuickDisk, name)(self, *args)

    return call


for _name in KillingDisk.CHANGING:
    setattr(KillingDisk, _name, _killing(_name))


class PowerCutError(BaseException):
    """The machine has no power, or the process is killed: nobody can catch that."""


class _File:
    def __init__(self):
        self.now, self.kept = bytearray(), b""


class PowerDisk(Disk):
    """A disk in memory, behind a cache that a power cut empties: at the `at`-th call that changes something.

    What was written since the last sync is kept sector by sector as chance has it, in any order; new names and removals
    are kept up to some moment.
    """

    SECTOR = 16

    def __init__(self, at=0):
        self.at, self.calls = at, 0
        self.now, self.kept, self.changes = {}, {}, []
        self.open_files = {}

    def _change(self):
        self.calls += 1
        if self.calls == self.at:
            raise PowerCutError

    def after_kill(self, at=0):
        """The disk as it is, for the next head: nothing is lost with a process."""
        self.at, self.calls = at, 0
        return self

    def after_power_cut(self, rng, at=0):
        """The disk as the next head finds it."""
        found = PowerDisk(at)
        names = dict(self.kept)
        for path, file in self.changes[: rng.randint(0, len(self.changes))]:
            names.pop(path, None)
            if file is not None:
                names[path] = file
        for path, file in names.items():
            found.kept[path] = found.now[path] = fresh = _File()
            fresh.kept = self._survivors(file, rng)
            fresh.now = bytearray(fresh.kept)
        return found

    def _survivors(self, file, rng):
        sizes = (len(file.kept), len(file.now))
        size = rng.choice([*sizes, rng.randint(min(sizes), max(sizes))])
        old, new = (bytes(one).ljust(size, b"\0") for one in (file.kept, file.now))
        sectors = range(0, size, self.SECTOR)
        return b"".join(rng.choice((old, new))[at : at + self.SECTOR] for at in sectors)[:size]

    def _rename(self, path, file):
        self._change()
        self.now.pop(path, None)
        if file is not None:
            self.now[path] = file
        self.changes.append((path, file))

    def _open(self, path):
        if path not in self.now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        number = len(self.open_files)
        self.open_files[number] = self.now[path]
        return number

    def names(self, directory):
        return sorted(path.name for path in self.now)

    def make_directory(self, path):
        pass

    def status(self, path):
        if path.suffix and path not in self.now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return os.stat_result((stat.S_IFDIR | 0o700, 0, 0, 1, os.geteuid(), 0, 0, 0, 0, 0))

    def file_status(self, file):
        size = len(self.open_files[file].now)
        return os.stat_result((stat.S_IFREG | 0o600, 0, 0, 1, os.geteuid(), 0, size, 0, 0, 0))

    def open_to_read(self, path):
        return self._open(path)

    def open_to_append(self, path):
        return self._open(path)

    def create(self, path):
        if path in self.now:
            self.truncate(self._open(path), 0)
        else:
            self._rename(path, _File())
        return self._open(path)

    def open_lock(self, path):
        return self._open(path) if path in self.now else self.create(path)

    def lock(self, file):
        pass

    def read(self, file, offset, size):
        return bytes(self.open_files[file].now[offset : offset + size])

    def write(self, file, pieces):
        self._change()
        data = b"".join(pieces)
        self.open_files[file].now += data
        return len(data)

    def truncate(self, file, size):
        self._change()
        del self.open_files[file].now[size:]

    def sync(self, file):
        self._change()
        found = self.open_files[file]
        found.kept = bytes(found.now)

    def sync_directory(self, path):
        self._change()
        self.kept, self.changes = dict(self.now), []

    def rename(self, path, target):
        self._change()
        file = self.now.pop(path)
        self.now[target] = file
        self.changes += [(target, file), (path, None)]

    def remove(self, path):
        if path in self.now:
            self._rename(path, None)

    def close(self, file):
        pass


def fill(directory, *segments, image=()):
    """Make a journal with a segment for each list of records; `image` is that of the last one. Return its files."""
    journal, _ = Journal.open(directory, disk=QuickDisk())
    for number, records in enumerate(segments, 1):
        if number > 1:
            journal.begin_segment()
        for record in records:
            journal.append(record)
    if image:
        commit_image(directory, journal.segment, image, disk=QuickDisk())
    journal.close()
    return sorted(path for path in Path(directory).iterdir() if path.suffix in (".log", ".image"))


def recover(directory, *, salvage=False, disk=None):
    """What a journal holds: its image, its records, and what else was found."""
    journal, found = Journal.open(directory, salvage=salvage, disk=disk or QuickDisk())
    image = None if found.image is None else list(found.image)
    records = list(found.records)
    journal.close()
    return image, records, found
