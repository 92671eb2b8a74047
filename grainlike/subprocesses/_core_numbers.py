"""The numbers of cores: the system's, beside those by which launchers of MPI programs count (hwloc's logical ones)."""

import os
from collections.abc import Callable, Iterator
from functools import lru_cache

__all__ = ["cores_count_in_order", "counts_in_order"]

_CPU = "/sys/devices/system/cpu"

Read = Callable[[str], str]


@lru_cache(maxsize=1)
def cores_count_in_order() -> bool:
    """Return True where hwloc numbers the cores of this machine as the system does. Read once for each process."""
    return counts_in_order(_read)


def counts_in_order(read: Read) -> bool:
    """Return True where each core is one processor, and packages and caches are ranges of them, all of them allowed.

    hwloc orders cores by package, then by cache, and leaves out those that the cgroup forbids. A dozen files show
    that nothing of this changes an order; what they do not show is taken for a change.

    Args:
        read: the text of a file; an OSError where there is none.
    """
    try:
        online = read(f"{_CPU}/online")
        first, _, last = online.partition("-")
        if first != "0" or not (last or "0").isdecimal() or read(f"{_CPU}/smt/active") != "0":
            return False
        groups = ("topology/package_cpus_list", "cache/index3/shared_cpu_list")
        return all(_are_ranges(read, group, int(last or 0)) for group in groups) and _allowed(read) in ("", online)
    except (OSError, ValueError):
        return False


def _are_ranges(read: Read, group: str, last: int) -> bool:
    """Follow the groups from processor 0 on; a cache that a machine does not have makes no groups."""
    cpu = 0
    while cpu <= last:
        try:
            begin, _, end = read(f"{_CPU}/cpu{cpu}/{group}").partition("-")
        except FileNotFoundError:
            return group.startswith("cache")
        if int(begin) != cpu:
            return False
        cpu = int(end or begin) + 1
    return True


def _allowed(read: Read) -> str:
    """Return the processors that the cgroup of this process may use; an empty text where none limits them."""
    for path in _cpusets(read("/proc/self/cgroup")):
        try:
            return read(path)
        except OSError:
            continue
    return ""


def _cpusets(groups: str) -> Iterator[str]:
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield f"/sys/fs/cgroup{path}/cpuset.cpus.effective"
        elif "cpuset" in controllers.split(","):
            yield f"/sys/fs/cgroup/cpuset{path}/cpuset.effective_cpus"


def _read(path: str) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - hot: every runner's parent starts with it
        return os.fsdecode(file.read()).strip()
