"""The environment of the programs that a job starts: what its slots are, and the variables that MPI launchers read.

How many threads native libraries shall use on an allocation, in the variables that they read.
"""

from collections.abc import Collection, MutableMapping

from grainlike.resources._allocation import Allocation
from grainlike.resources._kinds import KINDS, ResourceKind
from grainlike.resources._quantity import plain

__all__ = [
    "BINDINGS",
    "WIDTHS",
    "keep_in_job",
    "keep_unbound",
    "program_environment",
    "spread_over_nodes",
    "thread_widths",
]


_CPU_LISTS = ("OMPI_MCA_hwloc_base_cpu_list", "PRTE_MCA_hwloc_default_cpu_list")
"""The processors that `mpirun` may use, as logical numbers of cores: of Open MPI up to 4, and of PRRTE (Open MPI 5)."""

BINDINGS = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
"""Where `mpirun` binds each process by itself; with `none` a process inherits the affinity of `mpirun`."""


_BATCH_JOBS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")


def program_environment(
    allocation: Allocation, pinned: Collection[int], *, counted_in_order: bool = True
) -> dict[str, str | None]:
    """Return the variables for programs on this allocation; those that are None must not be set.

    `GRAINLIKE_CORES` and `GRAINLIKE_GPUS` are the allocated ids, `GRAINLIKE_MEMORY` is in bytes; other kinds of the
    table have a variable each. Open MPI binds its processes by itself and ignores affinity that it inherits, so it is
    given the list of cores; where its numbers of cores are not the system's (`counted_in_order` is false), it is told
    not to bind. MPICH's Hydra inherits the affinity by default. `OMP_PLACES` names the cores one by one, for programs
    that bind their threads: `keep_unbound`.

    Args:
        allocation: the slots of the job.
        pinned: the allocated cores that this machine really has; the others are logical.
        counted_in_order: a launcher's number of a core is the system's.

    Source: the parameters `hwloc_base_cpu_list` and `hwloc_base_binding_policy` as `ompi_info` of Open MPI 4.1 shows
    them, and their successors `hwloc_default_*` in PRRTE.

    Example:
        >>> from grainlike.resources import parse_allocation
        >>> shown = program_environment(parse_allocation("cores=[4,6] memory=1Ki"), [4, 6])
        >>> shown["GRAINLIKE_CORES"], shown["GRAINLIKE_MEMORY"], shown["OMPI_MCA_hwloc_base_cpu_list"]
        ('4,6', '1024', '4,6')
    """
    cores = _listed(sorted(pinned)) if pinned else None
    launchers: dict[str, str | None] = (
        dict.fromkeys(_CPU_LISTS, cores) if counted_in_order else dict.fromkeys(BINDINGS, "none")
    )
    return {
        **thread_widths(allocation),
        **launchers,
        **{f"GRAINLIKE_{kind.name.upper()}": _slots(allocation, kind) for kind in KINDS.values()},
        "OMP_PLACES": ",".join(f"{{{core}}}" for core in sorted(pinned)) or None,
    }


def spread_over_nodes(environment: MutableMapping[str, str]) -> None:
    """Let `mpirun` take no list of cores to its other nodes, where the job has others; it binds by a rank file only."""
    for name in _CPU_LISTS:
        environment.pop(name, None)
    environment.update(dict.fromkeys(BINDINGS, "none"))


def keep_unbound(environment: MutableMapping[str, str]) -> None:
    """Let no OpenMP thread be bound to a place of `OMP_PLACES` unless somebody chose so in `OMP_PROC_BIND`.

    With places and without this variable threads are bound, and the ranks of an MPI program would all begin with the
    same place.
    """
    environment.setdefault("OMP_PROC_BIND", "false")


def keep_in_job(environment: MutableMapping[str, str]) -> None:
    """Let `mpirun` start its ranks where it is told, and not on whichever nodes the batch job has.

    Within a batch job Open MPI asks the batch system where to start ranks: a job on the second node of a block would
    have them on the first, and a host file that names addresses is refused. What somebody chose stays.

    Example:
        >>> chosen = {"SLURM_JOB_ID": "7", "OMPI_MCA_plm": "slurm"}
        >>> keep_in_job(chosen)
        >>> chosen["OMPI_MCA_plm"], chosen["OMPI_MCA_ras"]
        ('slurm', '^slurm,tm,lsf,gridengine')
    """
    if not any(name in environment for name in _BATCH_JOBS):
        return
    for prefix in ("OMPI_MCA", "PRTE_MCA"):
        environment.setdefault(f"{prefix}_ras", "^slurm,tm,lsf,gridengine")
        environment.setdefault(f"{prefix}_plm", "^slurm,tm,lsf")


def _slots(allocation: Allocation, kind: ResourceKind) -> str | None:
    """Return the ids of a kind whose pieces have some; of another kind the amount, None without any."""
    if kind.indexed:
        return _listed(allocation.ids.get(kind.name, ()))
    return plain(allocation.units[kind.name]) if kind.name in allocation else None


def _listed(ids: Collection[int]) -> str:
    return ",".join(map(str, ids))


WIDTHS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
"""What native libraries read when they are loaded, and children when they start."""


def thread_widths(allocation: Allocation) -> dict[str, str]:
    """The environment of a program on this allocation: as many threads as it has cores, and one where it has none.

    >>> from grainlike.resources import parse_allocation
    >>> thread_widths(parse_allocation("cores=[4,6]"))["OMP_NUM_THREADS"]
    '2'
    """
    return dict.fromkeys(WIDTHS, str(max(1, len(allocation.cores))))
