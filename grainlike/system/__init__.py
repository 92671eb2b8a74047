"""Limits and files of this machine and its control groups."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.system._batch_job import BLOCK, NODE, BatchJob, batch_job, block_label, node_rank
    from grainlike.system._cgroup import MEMORY, Cgroup, own_cgroups
    from grainlike.system._late_file import LateFile
    from grainlike.system._limits import (
        cpu_limit,
        import_paths,
        max_message_bytes,
        memory_limit,
        own_memory,
        why_no_processes,
    )
    from grainlike.system._storage import free_bytes, is_in_memory, spare_memory

__all__ = [
    "BLOCK",
    "MEMORY",
    "NODE",
    "BatchJob",
    "Cgroup",
    "LateFile",
    "batch_job",
    "block_label",
    "cpu_limit",
    "free_bytes",
    "import_paths",
    "is_in_memory",
    "max_message_bytes",
    "memory_limit",
    "node_rank",
    "own_cgroups",
    "own_memory",
    "spare_memory",
    "why_no_processes",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "BatchJob": "_batch_job",
            "batch_job": "_batch_job",
            "BLOCK": "_batch_job",
            "NODE": "_batch_job",
            "block_label": "_batch_job",
            "node_rank": "_batch_job",
            "Cgroup": "_cgroup",
            "LateFile": "_late_file",
            "MEMORY": "_cgroup",
            "cpu_limit": "_limits",
            "memory_limit": "_limits",
            "own_cgroups": "_cgroup",
            "own_memory": "_limits",
            "import_paths": "_limits",
            "max_message_bytes": "_limits",
            "why_no_processes": "_limits",
            "free_bytes": "_storage",
            "is_in_memory": "_storage",
            "spare_memory": "_storage",
        },
    )
