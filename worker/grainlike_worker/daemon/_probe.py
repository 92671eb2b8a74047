"""Resources of this machine, or of the part of it that this process may use."""

from __future__ import annotations

import logging
import math
import os
import socket
import subprocess
import time
from functools import cache
from pathlib import Path

from grainlike.resources import (
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Memory,
    Request,
    Topology,
    WallTime,
    logical_cores,
    offer_of,
    shown_amounts,
)
from grainlike.subprocesses import choose_cores
from grainlike.system import BatchJob, batch_job, block_label, cpu_limit, own_memory
from grainlike_worker.runner.common._devices import VISIBLE, Devices

__all__ = [
    "ASK_S",
    "MARGIN_S",
    "end_of_batch_job",
    "find_batch_job",
    "grace_before_end",
    "logical_in",
    "offer_for",
    "offer_of_batch_job",
    "offer_of_daemon",
    "offered_devices",
    "own_cores",
    "own_topology",
    "topology",
    "warn_of_logical",
    "warn_of_memory",
]

logger = logging.getLogger("grainlike.worker")


def own_cores() -> tuple[int, ...]:
    """Return the core ids that this process may run on: its affinity, cut to the processor time that its cgroup allows.

    Never the machine's processor count: in a container or a batch job that is somebody else's.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    time = cpu_limit()
    return tuple(cores if time is None else cores[: max(1, math.ceil(time))])


def offer_for(what: Request | None) -> Allocation:
    """Return the offer of the embedded worker of this process: `what` with concrete ids, or its own cores.

    Raises:
        ResourceSpecError: `what` is no offer.
    """
    cores = own_cores()
    return offer_of(Cores(cores) if what is None else what, own_cores=cores)


def offer_of_daemon(what: Request | None) -> Allocation:
    """Return the offer of a worker that is a process of its own: `what` with concrete ids; without it what the batch
    job was granted that this process runs in, or all cores and memory it may use.

    Raises:
        ResourceSpecError: `what` is no offer.
    """
    if what is not None:
        return _offer_of_block(what) if block_label(os.environ) else _offer_of_chosen(what)
    job = find_batch_job()
    if job is not None:
        return offer_of_batch_job(job)
    memory = own_memory()
    return offer_for(Cores(own_cores()) & Memory(memory) if memory else None)


def _offer_of_chosen(what: Request) -> Allocation:
    """Return `what` for a worker that starts next: of fewer cores than it may use, such as the fewest other workers and
    programs of the user offer. Not for a program, whose executor may never open.
    """
    offer, cores = offer_for(what), own_cores()
    if "cores" in what.ids or not 0 < len(offer.cores) < len(cores):
        return offer
    return offer_of(what, own_cores=choose_cores(cores, len(offer.cores)))


def _offer_of_block(what: Request) -> Allocation:
    """Return `what` for a worker of a block: cores have the ids of this machine only where it may run on no others.

    Two blocks of one node that ask for one core each would both begin with the first.
    """
    count = math.ceil(what.units.get("cores", 0) / UNIT)
    if count >= len(own_cores()):
        return offer_for(what)
    return offer_of(what, own_cores=range(_FIRST_COUNTED, _FIRST_COUNTED + count))


def find_batch_job() -> BatchJob | None:
    """Return the batch job that this process runs in, with what its system adds when it is asked; None outside of one.

    Takes a few seconds at most: what a system does not answer stays unknown, and the log says so.
    """
    host = socket.gethostname()
    job = batch_job(os.environ, host, time.time())
    if job is None or not job.question:
        return job
    try:
        said = subprocess.run(  # noqa: S603 - a batch system's own program
            job.question, capture_output=True, text=True, errors="replace", timeout=ASK_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning(_UNSAID, job.system, job.id, job.question[0], error)
        return job
    if said.returncode != 0:
        logger.warning(_UNSAID, job.system, job.id, job.question[0], said.stderr.strip() or said.returncode)
    return job.told(said.stdout, host)  # it may have said a part


def offer_of_batch_job(job: BatchJob) -> Allocation:
    """Return what a batch job may use of this node: the smaller of what was granted, and what this process may use.

    Cores have the ids of this machine where the process may run on no others. Else it is not known which are the job's:
    they are counted, with ids that no core of this machine has, so that two jobs of a node do not pin the same. The
    walltime ends a margin before the job.
    """
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else own_cores()
    quota = cpu_limit()
    bounds = [len(allowed), job.cores, None if quota is None else max(1, math.ceil(quota))]
    count = min(max(1, bound) for bound in bounds if bound is not None)
    ids = allowed if count == len(allowed) else range(_FIRST_COUNTED, _FIRST_COUNTED + count)
    offer: Request = Cores(list(ids))
    sizes = [size for size in (job.memory, own_memory()) if size]
    if sizes:
        offer = offer & Memory(min(sizes))
    if job.gpus:
        offer = offer & GPUs(job.gpus)
    if job.left_s is not None:
        offer = offer & WallTime(_usable(job.left_s))
    logger.info("%s job %s: the worker offers what it was granted", job.system, job.id)
    if count < len(allowed):
        words = "%s job %s has %d cores, and may run on %d: they are counted, never pinned"
        logger.warning(words, job.system, job.id, count, len(allowed))
    return offer_of(offer, own_cores=allowed)


def end_of_batch_job(offer: Allocation, *, chosen: bool) -> float | None:
    """Return the seconds until a worker with this offer has to leave its batch job, a margin before that ends; None
    where no end is known. `chosen`: the offer is what the user said, not what the batch job was granted.
    """
    if not chosen:
        return offer.walltime
    job = find_batch_job()
    return None if job is None or job.left_s is None else float(_usable(job.left_s))


def grace_before_end(left_s: float) -> float:
    """Return how long jobs have to end where a worker leaves after `left_s`: half of the margin that follows."""
    return min(MARGIN_S, left_s * _MARGIN_SHARE / (1 - _MARGIN_SHARE)) / 2


def _usable(left_s: float) -> int:
    return max(1, int(left_s - min(MARGIN_S, left_s * _MARGIN_SHARE)))


_UNSAID = "%s job %s: %s does not say what was granted: %s"

ASK_S = 5.0
"""How long a batch system may take to say what it has granted."""

MARGIN_S = 60.0
"""How long before the end of its batch job a worker leaves, at most."""

_MARGIN_SHARE = 0.2
"""The most of a batch job's time that the margin takes."""

_FIRST_COUNTED = 2**15
"""The first id of cores that are counted: no machine has as many, and an offer can have as many more."""

_SHOWN = 20
"""How many ids a warning lists."""


def logical_in(offer: Allocation) -> tuple[int, ...]:
    """Return the core ids of an offer that this machine does not have: given out and shown, never pinned."""
    return logical_cores(offer, own_cores())


def warn_of_logical(offer: Allocation) -> None:
    """Log a warning if there are such cores in the offer of this process."""
    logical = logical_in(offer)
    if logical:
        some = (
            list(logical[:_SHOWN])
            if len(logical) <= _SHOWN
            else f"{[*logical[:_SHOWN]]} and {len(logical) - _SHOWN} more"
        )
        logger.warning("cores %s are not of this machine: given out and shown, never pinned", some)


def warn_of_memory(offer: Allocation) -> None:
    """Log a warning if an offer has more memory than this process may use."""
    memory = own_memory()
    if memory and offer.memory > memory:
        words = "%s is more than this machine lets a process have, %s: given out and shown, but not there for jobs"
        logger.warning(words, shown_amounts(f"memory={offer.memory}"), shown_amounts(f"memory={memory}"))


def offered_devices(offer: Allocation) -> Devices:
    """Return the GPUs of an offer as programs of this process see them; warn of those that they do not see."""
    devices = Devices.under(os.environ.get(VISIBLE), offer.gpus)
    hidden = devices.hidden(offer.gpus)
    if hidden:
        logger.warning("%s=%s does not show GPUs %s: given out, never seen", VISIBLE, os.environ[VISIBLE], hidden)
    return devices


@cache
def own_topology() -> Topology:
    """Return the `topology` of this machine; its some twenty files are read once for each process."""
    return topology()


def topology(root: Path = Path("/")) -> Topology:
    """Return the NUMA nodes of this machine with their cores and devices; without any where the system does not say.

    Raises:
        ResourceSpecError: a file holds what a kernel would not write.
    """
    paths = [path for pattern in Topology.sources for path in root.glob(pattern.lstrip("/"))]
    texts = {f"/{path.relative_to(root)}": _read(path) for path in paths}
    return Topology.read({path: text for path, text in texts.items() if text is not None})


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
