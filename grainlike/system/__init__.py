"""Limits and files of this machine and its control groups."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.system._cgroup import MEMORY, Cgroup, own_cgroups
    from grainlike.system._cgroup_limits import cpu_limit, memory_limit
    from grainlike.system._late_file import LateFile
    from grainlike.system._limits import room_for_one

__all__ = [
    "MEMORY",
    "Cgroup",
    "LateFile",
    "cpu_limit",
    "memory_limit",
    "own_cgroups",
    "room_for_one",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Cgroup": "_cgroup",
            "LateFile": "_late_file",
            "MEMORY": "_cgroup",
            "cpu_limit": "_cgroup_limits",
            "memory_limit": "_cgroup_limits",
            "own_cgroups": "_cgroup",
            "room_for_one": "_limits",
        },
    )
