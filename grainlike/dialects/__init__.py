"""Dialects of batch systems: what is said to each about blocks of workers, and what its answers mean.

A request becomes argv, standard input and files; exit code, standard output and standard error become facts. Nothing
here runs a command, reads a file or waits, and no text of a batch system raises. Who runs the commands is in `launch`.
"""

from typing import TYPE_CHECKING

from grainlike._later import later
from grainlike.dialects._block import (
    BlockFile,
    BlockRequest,
    CommandResult,
    NativeCommand,
    is_native_name,
    native_environment,
    native_name,
)
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, ListedBlock, Listing, NativeState, Verdict

if TYPE_CHECKING:
    from grainlike.dialects._amounts import expand_hosts
    from grainlike.dialects._grid_engine import GridEngineDialect
    from grainlike.dialects._kubernetes import KubernetesDialect
    from grainlike.dialects._lsf import LSFDialect
    from grainlike.dialects._pbs import PBSDialect
    from grainlike.dialects._slurm import SlurmDialect
    from grainlike.dialects._ssh import TAIL_BYTES, LocalDialect, SSHDialect, deliver

__all__ = [
    "TAIL_BYTES",
    "Answer",
    "BlockFile",
    "BlockRequest",
    "CommandResult",
    "Dialect",
    "GridEngineDialect",
    "KubernetesDialect",
    "LSFDialect",
    "ListedBlock",
    "Listing",
    "LocalDialect",
    "NativeCommand",
    "NativeState",
    "PBSDialect",
    "SSHDialect",
    "SlurmDialect",
    "Verdict",
    "deliver",
    "expand_hosts",
    "is_native_name",
    "native_environment",
    "native_name",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "GridEngineDialect": "_grid_engine",
            "KubernetesDialect": "_kubernetes",
            "LSFDialect": "_lsf",
            "LocalDialect": "_ssh",
            "PBSDialect": "_pbs",
            "SSHDialect": "_ssh",
            "SlurmDialect": "_slurm",
            "TAIL_BYTES": "_ssh",
            "deliver": "_ssh",
            "expand_hosts": "_amounts",
        },
    )
