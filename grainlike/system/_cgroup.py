"""Cgroup of the kernel's second version: a directory whose files are read and written.

A process that makes one below its own owns it. It needs no privilege where the system has *delegated* the cgroup:
then the directory, and the list of processes in it, belong to the user.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache

__all__ = ["MEMORY", "Cgroup", "own_cgroups"]

MEMORY = "memory"
"""The controller that keeps memory limits."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Cgroup:
    """Cgroup by its directory. Reading and writing raise `OSError`, for it may be removed, or not be ours to change.

    Example::

        group = Cgroup("/sys/fs/cgroup/mine")
        group.make()
        group.add(pid)
        group.kill()
        group.remove()
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path: str = path

    def __truediv__(self, name: str) -> "Cgroup":
        """Return the cgroup of this name below."""
        return Cgroup(f"{self.path}/{name}")

    def above(self) -> "Cgroup":
        """Return the cgroup in which it is."""
        return Cgroup(self.path.rpartition("/")[0])

    def make(self) -> None:
        """Make it. `FileExistsError` when it is there."""
        os.mkdir(self.path)  # noqa: PTH102 - as in all of this module, strings are all that is needed

    def has(self, file: str) -> bool:
        """Return True if the kernel shows this file here: that depends on its version and on controllers."""
        return os.access(f"{self.path}/{file}", os.F_OK)

    def read(self, file: str) -> str:
        """Return the content of a file of it, without the last line's end."""
        with open(f"{self.path}/{file}", "rb") as opened:  # noqa: PTH123
            return opened.read().decode().rstrip("\n")

    def numbers(self, file: str) -> dict[str, int]:
        """Return the numbers in a file of lines "name number", by name."""
        pairs = (line.split() for line in self.read(file).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}

    def write(self, file: str, text: str) -> None:
        """Write a file in one go, as the kernel wants it."""
        fd = os.open(f"{self.path}/{file}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def add(self, pid: int = 0) -> None:
        """Move a process into it, with all its threads; 0 is this process."""
        self.write("cgroup.procs", str(pid))

    def processes(self) -> list[int]:
        """Return the processes in it, without those in cgroups below; 0 for one outside this PID namespace."""
        return [int(line) for line in self.read("cgroup.procs").split()]

    def is_populated(self) -> bool:
        """Return True if a process lives in it or below; False when it was removed."""
        with suppress(OSError):
            return bool(self.numbers("cgroup.events").get("populated"))
        return False

    def kill(self) -> None:
        """Kill all processes in it and below, those being forked too. Does nothing before Linux 5.14, or when it was
        removed.
        """
        with suppress(OSError):
            self.write("cgroup.kill", "1")

    def remove(self) -> bool:
        """Remove it and those below; return True if it is removed. One in which a process lives stays."""
        for below in self.below():
            below.remove()
        try:
            os.rmdir(self.path)  # noqa: PTH106
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def below(self) -> list["Cgroup"]:
        """Return the cgroups directly below; none when it was removed."""
        with suppress(OSError), os.scandir(self.path) as entries:
            return [Cgroup(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        return []


def own_cgroups(proc: str = "/proc/self", controller: str = "") -> Iterator[Cgroup]:
    """Iterate over this process's own cgroup, at each place where its tree is mounted and shows it.

    That is the tree of the second version; with a `controller`, the one of the first version that has it, too.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):
        with open(f"{proc}/cgroup") as listed:  # noqa: PTH123
            ours = listed.read()
        with open(f"{proc}/mountinfo") as mounts:  # noqa: PTH123
            yield from map(Cgroup, _shown(ours, mounts.read(), controller))


@lru_cache(maxsize=8)  # a program that opens an executor asks a dozen times
def _shown(ours: str, mounts: str, controller: str) -> tuple[str, ...]:
    """Return the directories of a process's own cgroup, from its list of cgroups and that of mounts."""
    paths = dict(_paths(_lines(ours)))
    found: list[str] = []
    for line in _lines(mounts):
        fields, _, source = line.partition(" - ")
        kind, _, rest = source.partition(" ")
        tree = _tree(kind, rest.rpartition(" ")[2], controller)
        if tree in paths:
            root, place = map(_unescaped, fields.split(" ")[3:5])
            # Of a container we may see a part that we are not in.
            if root == "/" or paths[tree] == root or paths[tree].startswith(f"{root}/"):
                below = paths[tree] if root == "/" else paths[tree][len(root) :]
                found.append(f"{place.rstrip('/')}{below}".rstrip("/") or "/")
    return tuple(found)


def _lines(text: str) -> Iterator[str]:
    """Iterate over the lines of a file of the kernel: in names of its, other ends of lines may stand."""
    return filter(None, text.split("\n"))


def _paths(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Iterate over this process's path in each tree, by controller; "" is the second version's. Paths outside of its
    namespace are left out.
    """
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not path.startswith("/..") and not path.endswith(" (deleted)"):
            yield from ((controller, path) for controller in controllers.split(","))


def _tree(kind: str, options: str, controller: str) -> str | None:
    """Return which tree is mounted with this type and these options, if it is one that was asked for."""
    if kind == "cgroup2":
        return ""
    return controller if kind == "cgroup" and controller and controller in options.split(",") else None


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda code: chr(int(code[1], 8)), field)
