"""Jobs of the fake PBS: their environment, and the signals that end them."""

from __future__ import annotations

import asyncio
import pwd
import signal
from pathlib import Path
from typing import Any

from fake_jobs import Job, signal_sessions

__all__ = ["command", "directory", "end_at_limit", "end_job", "environment"]

_PATH = "/bin:/usr/bin"
"""What `pbs_environment` has: nothing of where the job was submitted comes along but by `-v` and `-V`."""


def command(job: Job, script: Path) -> list[str]:
    """Return what runs the script: its first line says the interpreter, else it is a login shell.

    The login shell that PBS has above it, which ignores SIGTERM, is left out.
    """
    first = script.read_text().partition("\n")[0]
    return [str(script)] if first.startswith("#!") else [job.asked["shell"] or "/bin/sh", "-l", str(script)]


def directory(job: Job, *, task: bool) -> str:
    """Return where a process begins: at home."""
    return job.asked["home"]


def environment(job: Job, place: int, state: Path, *, task: bool) -> dict[str, str]:
    """Return the environment of the script, or of a task that `pbsdsh` starts on the host at `place`."""
    asked, here = job.asked, job.places[place]
    native = f"{job.number}.{asked['server']}"
    user = pwd.getpwnam(job.owner)
    folder = state / "aux"
    folder.mkdir(exist_ok=True)
    nodefile = folder / native
    torque = asked["torque"]
    # OpenPBS writes a line for each process of MPI, Torque one for each core.
    lines = [one.host for one in job.places for _ in range(one.cores if torque else asked["mpiprocs"])]
    nodefile.write_text("".join(f"{line}\n" for line in lines))
    found = {
        **asked["environment"],
        "PATH": _PATH,
        "HOME": asked["home"],
        "LOGNAME": job.owner,
        "USER": job.owner,
        "SHELL": user.pw_shell or "/bin/sh",
        "PBS_JOBNAME": asked["name"],
        "PBS_JOBID": native,
        "PBS_QUEUE": asked["queue"],
        "PBS_JOBCOOKIE": f"{job.number:032X}",
        "PBS_NODENUM": str(job.hosts.index(here.host)),
        "PBS_TASKNUM": str(len(job.sessions) + 1),
        "PBS_MOMPORT": "15003",
        "PBS_NODEFILE": str(nodefile),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "ENVIRONMENT": "BATCH",
    }
    if asked["account"]:
        found["PBS_ACCOUNT"] = asked["account"]
    if torque:
        found |= _of_torque(job, place, folder)
    else:
        found |= {"NCPUS": str(here.cores), "OMP_NUM_THREADS": str(here.cores), "PBS_JOBDIR": asked["home"]}
        if here.gpus:
            found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, here.gpus))
    return found


def _of_torque(job: Job, place: int, folder: Path) -> dict[str, str]:
    here = job.places[place]
    gpufile = folder / f"{job.number}gpu"
    gpufile.write_text("".join(f"{one.host}-gpu{gpu}\n" for one in job.places for gpu in one.gpus))
    found = {
        "PBS_NUM_NODES": str(len(job.hosts)),
        "PBS_NUM_PPN": str(here.cores),
        "PBS_NP": str(sum(one.cores for one in job.places)),
        "PBS_VNODENUM": str(sum(one.cores for one in job.places[:place])),
        "PBS_GPUFILE": str(gpufile),
        "HOSTNAME": here.host,
    }
    if here.gpus:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, here.gpus))
    if job.limit_s is not None:
        found["PBS_WALLTIME"] = str(job.limit_s)
    return found


async def end_job(job: Job, site: dict[str, Any]) -> None:
    """Send SIGTERM to every process of the job's sessions, and SIGKILL after the site's `kill_delay`."""
    signal_sessions(job.sessions, signal.SIGTERM)
    await asyncio.sleep(site["kill_delay_s"])
    if job.state == "running":
        signal_sessions(job.sessions, signal.SIGKILL)


end_at_limit = end_job
