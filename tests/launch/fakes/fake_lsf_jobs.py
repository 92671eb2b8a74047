"""Jobs of the fake LSF: their environment, and the signals that end them."""

from __future__ import annotations

import asyncio
import signal
from itertools import groupby
from pathlib import Path
from typing import Any

from fake_jobs import Job, signal_sessions

__all__ = ["command", "directory", "end_at_limit", "end_job", "environment"]


def command(job: Job, script: Path) -> list[str]:
    """Return what runs the script: the job file, in a plain shell that signals do not end, by its first line."""
    return ["/bin/sh", "-c", f"$LSB_TRAPSIGS\n{script}\nsaveExit=$?\n(exit $saveExit)"]


def directory(job: Job, *, task: bool) -> str:
    """Return where a process begins: where the job was submitted."""
    return str(job.asked["cwd"])


def environment(job: Job, place: int, state: Path, *, task: bool) -> dict[str, str]:
    """Return the environment of the job: that of the submission, and what LSF adds."""
    slots = [one.host for one in job.places for _ in range(one.cores)]
    folder = state / "lsbatch"
    folder.mkdir(exist_ok=True)
    hostfile = folder / f"{job.number}.hostfile"
    hostfile.write_text("".join(f"{host}\n" for host in slots))
    grouped = [(host, len(list(same))) for host, same in groupby(slots)]
    asked = job.asked
    found = {
        **asked["environment"],
        "LSB_JOBID": str(job.number),
        "LSB_JOBINDEX": "0",
        "LSB_BATCH_JID": str(job.number),
        "LSB_JOBNAME": asked["name"],
        "LSB_QUEUE": asked["queue"],
        "LSB_JOBFILENAME": str(state / "spool" / str(job.number)),
        "LSB_HOSTS": " ".join(slots),
        "LSB_MCPU_HOSTS": " ".join(f"{host} {count}" for host, count in grouped) + " ",
        "LSB_DJOB_NUMPROC": str(len(slots)),
        "LSB_MAX_NUM_PROCESSORS": str(len(slots)),
        "LSB_DJOB_HOSTFILE": str(hostfile),
        "LSB_SUB_HOST": asked["from"],
        "LSB_PROJECT_NAME": asked["project"],
        "LSFUSER": job.owner,
        "LS_SUBCWD": asked["cwd"],
        "LSB_EXIT_PRE_ABORT": "99",
        "LSB_TRAPSIGS": "trap # 15 10 12 2 1",
    }
    if asked["output"]:
        found["LSB_OUTPUTFILE"] = asked["output"]
    if asked["gpu"]:
        found["LSB_GPU_REQ"] = asked["gpu"]
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, job.places[place].gpus))
    return found


async def end_job(job: Job, site: dict[str, Any]) -> None:
    """Send SIGINT, SIGTERM and SIGKILL, an interval apart; to a parallel job SIGKILL alone, unless the site says so."""
    parallel = sum(place.cores for place in job.places) > 1 and not site["sequential_signals"]
    for number in (signal.SIGKILL,) if parallel else (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if job.state != "running":
            return
        signal_sessions(job.sessions, number)
        await asyncio.sleep(site["terminate_interval_s"])


async def end_at_limit(job: Job, site: dict[str, Any]) -> None:
    """Send SIGUSR2 first; what runs after the time of warning is ended as by `bkill`."""
    signal_sessions(job.sessions, signal.SIGUSR2)
    await asyncio.sleep(site["warn_s"])
    await end_job(job, site)
