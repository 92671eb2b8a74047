"""Grant of a batch job on this node: what Slurm, PBS, LSF or Grid Engine say that it may use, and until when.

Text to facts, without looking at anything: `batch_job` reads the environment of a job, and `BatchJob.told` what the
command `BatchJob.question` printed, which is asked only for what the environment leaves open. Text that cannot be
understood counts as not said. `block_label` and `node_rank` read what a launcher says of the block that the job is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

__all__ = ["BLOCK", "NODE", "BatchJob", "batch_job", "block_label", "node_rank"]

BLOCK = "GRAINLIKE_BLOCK"
"""Environment variable with the label of the block, as `cpu-7`. Launchers set it."""

NODE = "GRAINLIKE_NODE"
"""Environment variable with the node's number in the block, where the batch system gives none."""

_RANKS = (
    NODE,
    "SLURM_PROCID",
    "PBS_NODENUM",
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "JOB_COMPLETION_INDEX",
)


@dataclass(frozen=True, slots=True)
class BatchJob:
    """Facts about a batch job: None for what is not known.

    Attributes:
        system: the batch system, as people call it.
        id: the job's id there.
        cores: how many of this node's it may use, never which.
        memory: bytes on this node.
        gpus: how many devices of this node; 0 if none were granted.
        left_s: seconds until the system ends the job.
        seen: how many devices the environment names, granted or not.
        question: the command that tells what is missing; empty if nothing is.

    Example::

        >>> batch_job({"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2", "SLURM_MEM_PER_CPU": "500"}, "n1", 0.0).cores
        2
    """

    system: str
    id: str
    cores: int | None = None
    memory: int | None = None
    gpus: int = 0
    left_s: float | None = None
    seen: int = 0
    question: tuple[str, ...] = ()

    def told(self, text: str, host: str) -> BatchJob:
        """Return the job with what `question` printed added. What the environment said stays, but for the cores of a
        job that has its host for itself.
        """
        found = _ANSWERS[self.system](self, text, host)
        memory = self.memory if self.memory is not None else found.memory
        left_s = self.left_s if self.left_s is not None else found.left_s
        return replace(self, cores=found.cores, memory=memory, left_s=left_s, gpus=found.gpus, question=())


def batch_job(environment: Mapping[str, str], host: str, now: float) -> BatchJob | None:
    """Return the batch job whose environment this is, on the node `host`; None outside of one. `now` is Unix time."""
    for read in (_slurm, _pbs, _lsf, _grid_engine):
        job = read(environment, host, now)
        if job is not None:
            return job
    return None


def block_label(environment: Mapping[str, str]) -> str:
    """Return the label of the block whose environment this is; empty outside of one.

    Example::

        >>> block_label({"GRAINLIKE_BLOCK": "cpu-7"})
        'cpu-7'
    """
    return environment.get(BLOCK, "").strip()


def node_rank(environment: Mapping[str, str]) -> int:
    """Return the number of this node in its block, from 0; 0 where nothing says it."""
    said = (environment.get(name, "").strip() for name in _RANKS)
    return next((int(rank) for rank in said if re.fullmatch(r"[0-9]{1,6}", rank)), 0)


def _slurm(env: Mapping[str, str], host: str, now: float) -> BatchJob | None:  # noqa: ARG001 - as its like
    number = env.get("SLURM_JOB_ID") or env.get("SLURM_JOBID")
    if not number:
        return None
    on_node = _count(env.get("SLURM_CPUS_ON_NODE"))
    cores = _count(env.get("SLURM_CPUS_PER_TASK")) or on_node
    memory = _bytes(env.get("SLURM_MEM_PER_NODE"), "M")
    each = _bytes(env.get("SLURM_MEM_PER_CPU"), "M")
    if memory is None and each and (on_node or cores):
        memory = each * (on_node or cores or 1)
    end = _count(env.get("SLURM_JOB_END_TIME"))
    left = None if end is None else max(0.0, end - now)
    gpus = _devices(env) if env.get("SLURM_JOB_GPUS") or env.get("SLURM_STEP_GPUS") else 0
    question = () if left is not None else ("squeue", "-h", "-j", number, "-o", "%L")
    return BatchJob("Slurm", number, cores, memory or None, gpus, left, question=question)


def _slurm_told(job: BatchJob, text: str, host: str) -> BatchJob:  # noqa: ARG001 - as its like
    return replace(job, left_s=_seconds(text.strip()))


def _pbs(env: Mapping[str, str], host: str, now: float) -> BatchJob | None:  # noqa: ARG001 - as its like
    number = env.get("PBS_JOBID")
    if not number:
        return None
    cores = _count(env.get("NCPUS")) or _count(env.get("PBS_NUM_PPN"))
    seen = _devices(env)
    gpus = seen if env.get("PBS_GPUFILE") else 0  # Torque has that file, OpenPBS says it when it is asked
    return BatchJob("PBS", number, cores, None, gpus, None, seen, ("qstat", "-f", number))


def _pbs_told(job: BatchJob, text: str, host: str) -> BatchJob:
    said = dict(re.findall(r"^\s+([\w.]+) = (.*)$", re.sub(r"\n\t", "", text), re.MULTILINE))
    chunks = re.findall(r"\(([^()]*)\)", said.get("exec_vnode", ""))
    here = [chunk for chunk in chunks if chunk.split(":")[0].split(".")[0] == host.split(".")[0]]
    sizes = [_bytes(size, "") for chunk in here for size in re.findall(r":mem=(\w+)", chunk)]
    known = [size for size in sizes if size is not None]
    whole = _bytes(said.get("Resource_List.mem"), "")
    nodes = _count(said.get("Resource_List.nodect")) or 1
    memory = sum(known) if known else (None if whole is None else whole // nodes)
    limit, used = _seconds(said.get("Resource_List.walltime")), _seconds(said.get("resources_used.walltime"))
    left = _seconds(said.get("Walltime.Remaining"))
    if left is None and limit is not None:
        left = max(0.0, limit - (used or 0.0))
    devices = sum(int(count) for chunk in here for count in re.findall(rf":ngpus=([0-9]{{1,{_DIGITS}}})", chunk))
    # A chunk of a whole host counts one core, unless it asks for more.
    alone = "exclhost" in said.get("Resource_List.place", "").split(":")
    cores, memory = (None, None) if alone else (job.cores, memory)
    return replace(job, cores=cores, memory=memory, left_s=left, gpus=job.gpus or min(devices, job.seen))


def _lsf(env: Mapping[str, str], host: str, now: float) -> BatchJob | None:  # noqa: ARG001 - as its like
    number = env.get("LSB_JOBID")
    if not number:
        return None
    cores = _slots(env.get("LSB_MCPU_HOSTS", ""), host) or _count(env.get("LSB_DJOB_NUMPROC"))
    index = env.get("LSB_JOBINDEX", "0")
    one = number if index in ("", "0") else f"{number}[{index}]"
    gpus = _devices(env) if env.get("LSB_GPU_REQ") else 0
    question = ("bjobs", "-noheader", "-o", "time_left memlimit delimiter='|'", one)
    return BatchJob("LSF", one, cores, None, gpus, question=question)


def _lsf_told(job: BatchJob, text: str, host: str) -> BatchJob:  # noqa: ARG001 - as its like
    left, _, memory = text.strip().partition("|")
    hours = re.match(rf"([0-9]{{1,{_DIGITS}}}):([0-9]{{1,2}})\b", left.strip())
    seconds = None if hours is None else float(int(hours[1]) * 3600 + int(hours[2]) * 60)
    return replace(job, memory=_bytes(memory.strip(), "M"), left_s=seconds)


_GRANT = """\
grep -E "^(host_slots|h_vmem|h_vmem_is_consumable_job)=" "$SGE_JOB_SPOOL_DIR/config"
test -z "$PE_HOSTFILE" || sed "s/^/slots on /" "$PE_HOSTFILE"
qconf -sq "$QUEUE" | grep "^h_rt "
date +now=%s
exec qstat -j "$JOB_ID" -xml
"""
"""Shell text that has Grid Engine say what it has granted: on this node, by the queue, and to the job."""


def _grid_engine(env: Mapping[str, str], host: str, now: float) -> BatchJob | None:  # noqa: ARG001 - as its like
    number = env.get("JOB_ID")
    if not number or not (env.get("SGE_ROOT") or env.get("SGE_CELL")):
        return None
    gpus = _devices(env) if any(name.startswith("SGE_HGR_gpu") for name in env) else 0
    task = env.get("SGE_TASK_ID", "")
    one = f"{number}.{task}" if task.isdecimal() else number
    return BatchJob("Grid Engine", one, _count(env.get("NSLOTS")), None, gpus, question=("sh", "-c", _GRANT))


def _grid_engine_told(job: BatchJob, text: str, host: str) -> BatchJob:
    said = dict(re.findall(r"^(host_slots|h_vmem|h_vmem_is_consumable_job|now)=(.*)$", text, re.MULTILINE))
    by_host = re.findall(r"^slots on (\S+) ([0-9]+)", text, re.MULTILINE)
    here = sum(_count(slots) or 0 for name, slots in by_host if _same(name, host))
    cores = _count(said.get("host_slots")) or here or job.cores  # NSLOTS counts those of all nodes
    hard = re.search(r"<JB_hard_resource_list>(.*?)</JB_hard_resource_list>", text, re.DOTALL)
    pairs = r"<CE_name>(\w+)</CE_name>.*?<CE_stringval>([^<]*)</CE_stringval>"
    asked: dict[str, str] = dict(re.findall(pairs, hard[1], re.DOTALL)) if hard else {}
    each = _bytes(said.get("h_vmem") or asked.get("h_vmem"), "")
    times = 1 if said.get("h_vmem_is_consumable_job") == "1" else cores or 1
    limits = [_seconds(asked.get("h_rt")), _queue_limit(text, host)]
    limit = min((known for known in limits if known is not None), default=None)
    return replace(
        job,
        cores=cores,
        memory=None if each is None else each * times,
        left_s=None if limit is None else max(0.0, limit - _gone(job, text, said.get("now"))),
    )


def _queue_limit(text: str, host: str) -> float | None:
    """Return the limit of the queue, which may be another on some hosts: `1:0:0,[n1=2:0:0]`."""
    found = re.search(r"^h_rt\s+(.*)$", text, re.MULTILINE)
    usual, *others = (found[1] if found else "").split(",")
    own = [limit for name, limit in re.findall(r"\[([^=\]]+)=([^\]]*)\]", ",".join(others)) if _same(name, host)]
    return _seconds(own[0] if own else usual)


def _gone(job: BatchJob, text: str, now: str | None) -> float:
    """Return the seconds since the job, or this task of it, has started; 0 where that is not said."""
    pattern = r"<JAT_task_number>([0-9]+)</JAT_task_number>.*?<JAT_start_time>([0-9]+)</JAT_start_time>"
    starts: dict[str, str] = dict(re.findall(pattern, text, re.DOTALL))
    start = _count(starts.get(job.id.partition(".")[2] or "1"))
    known = _count(now)
    if not start or known is None:
        return 0.0
    while start > _LATEST:  # in newer versions these are milliseconds, or microseconds
        start //= 1000
    return max(0.0, float(known - start))


_LATEST = 10**11
"""Beyond any Unix time in seconds."""


_ANSWERS: dict[str, Callable[[BatchJob, str, str], BatchJob]] = {
    "Slurm": _slurm_told,
    "PBS": _pbs_told,
    "LSF": _lsf_told,
    "Grid Engine": _grid_engine_told,
}

_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DIGITS = 18
"""The most digits of a number that is believed."""


def _count(text: str | None) -> int | None:
    match = re.match(rf"\s*([0-9]{{1,{_DIGITS}}})(?![0-9])", text or "")
    return None if match is None else int(match[1])


def _bytes(text: str | None, unit: str) -> int | None:
    """Return a size as batch systems write it: a number, a unit (else `unit`), and perhaps a B."""
    pattern = rf"([0-9]{{1,{_DIGITS}}})(\.[0-9]{{1,{_DIGITS}}})?\s*([KMGT]?)B?(YTES)?"
    match = re.fullmatch(pattern, (text or "").strip().upper())
    if match is None:
        return None
    factor = _FACTORS[match[3] or unit]
    return int(match[1]) * factor + int(float(match[2] or 0) * factor)


def _seconds(text: str | None) -> float | None:
    """Return a duration as batch systems write it, in seconds: `[[DAYS-]HH:]MM:SS`, or seconds."""
    match = re.fullmatch(r"(?:([0-9]{1,9})-)?((?:[0-9]{1,9}:){0,2})([0-9]{1,9})", (text or "").strip())
    if match is None:
        return None
    parts = [int(part) for part in f"{match[2]}{match[3]}".split(":")]
    return float(int(match[1] or 0) * 86400 + sum(part * 60**place for place, part in enumerate(reversed(parts))))


def _devices(env: Mapping[str, str]) -> int:
    mask = env.get("CUDA_VISIBLE_DEVICES", "")
    devices = [device.strip() for device in mask.split(",")]
    return sum(bool(device) and device not in ("-1", "NoDevFiles") for device in devices)


def _slots(text: str, host: str) -> int | None:
    """Return the slots of a host in `HOST SLOTS HOST SLOTS`."""
    words = text.split()
    counts = [_count(slots) for name, slots in zip(words[::2], words[1::2], strict=False) if _same(name, host)]
    return sum(count or 0 for count in counts) or None


def _same(name: str, host: str) -> bool:
    return name.split(".")[0] == host.split(".")[0]
