"""Pools of workers: plain data about where workers come from, and the registry of kinds.

A pool has the keys of a table `[pool.NAME]` of the settings, and makes the text of its blocks::

    from grainlike.launch import Slurm

    cpu = Slurm("cores=16 memory=60Gi", walltime="4:00:00", max=8, queue="standard")
    print(cpu.script())

The text for each batch system is in `dialects`, on which this room stands.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.launch._batch_client import BatchClient, Submission, system_key
    from grainlike.launch._batch_pools import LSF, PBS, SGE, Slurm
    from grainlike.launch._block_files import FilePart, sweep_blocks
    from grainlike.launch._clients import PoolClient, client_of
    from grainlike.launch._context import LaunchContext
    from grainlike.launch._other_pools import SSH, Kubernetes, Local
    from grainlike.launch._pool import POOL_NAME, BatchPool, WorkerPool
    from grainlike.launch._registry import LAUNCHERS, load, pool_class_of, pool_from

__all__ = [
    "LAUNCHERS",
    "LSF",
    "PBS",
    "POOL_NAME",
    "SGE",
    "SSH",
    "BatchClient",
    "BatchPool",
    "FilePart",
    "Kubernetes",
    "LaunchContext",
    "Local",
    "PoolClient",
    "Slurm",
    "Submission",
    "WorkerPool",
    "client_of",
    "load",
    "pool_class_of",
    "pool_from",
    "sweep_blocks",
    "system_key",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "LAUNCHERS": "_registry",
            "LSF": "_batch_pools",
            "PBS": "_batch_pools",
            "SGE": "_batch_pools",
            "SSH": "_other_pools",
            "BatchClient": "_batch_client",
            "Submission": "_batch_client",
            "system_key": "_batch_client",
            "BatchPool": "_pool",
            "LaunchContext": "_context",
            "Kubernetes": "_other_pools",
            "Local": "_other_pools",
            "POOL_NAME": "_pool",
            "PoolClient": "_clients",
            "client_of": "_clients",
            "WorkerPool": "_pool",
            "Slurm": "_batch_pools",
            "load": "_registry",
            "pool_class_of": "_registry",
            "pool_from": "_registry",
            "FilePart": "_block_files",
            "sweep_blocks": "_block_files",
        },
    )
