"""`bsub`, `bkill`, `bmod` and `blaunch` of the fake LSF."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from typing import Any

from fake_client import Down, ask, directives, hang_if_told, site
from fake_jobs import enter_node

__all__ = ["bkill", "blaunch", "bmod", "bsub"]

_WITH_VALUE = {
    "-J", "-o", "-oo", "-e", "-eo", "-n", "-R", "-M", "-W", "-We", "-q", "-P", "-gpu", "-m", "-G", "-app", "-i", "-b",
    "-t", "-w", "-sp", "-u", "-cwd", "-E", "-g", "-L", "-env", "-Jd", "-sla", "-U", "-data",
}  # fmt: skip
_ALONE = {"-H", "-x", "-r", "-rn", "-N", "-B", "-K", "-I", "-Is", "-Ip"}
_SIZE = re.compile(r"(\d+)(KB?|MB?|GB?|TB?)?", re.IGNORECASE)
_MEGABYTES = {"K": 2**-10, "M": 1, "G": 2**10, "T": 2**20}
_DOWN = "Failed in an LSF library call: Failed in sending/receiving a message: Connection refused"


class Refused(Exception):
    """Submission that is refused, with the words."""


# --- bsub ------------------------------------------------------------------------------------------------------------


def bsub(argv: list[str]) -> int:
    """Submit a command, or a script on standard input; print its id."""
    try:
        return _bsub(argv)
    except Refused as refused:
        print(f"{refused}. Job not submitted.", file=sys.stderr)
        return 255
    except Down:
        print(f"{_DOWN}. Job not submitted.", file=sys.stderr)
        return 255


def _bsub(argv: list[str]) -> int:
    given, words = _options(argv)
    script = "#!/bin/sh\n" + shlex.join(words) + "\n" if words else sys.stdin.read()
    written = [] if words else [pair for line in directives(script, "#BSUB") for pair in _options(shlex.split(line))[0]]
    options = {**dict(written), **dict(given)}
    requirements = " ".join(value for flag, value in [*written, *given] if flag == "-R")
    if not words and not [line for line in script.splitlines() if line.strip() and not line.startswith("#")]:
        raise Refused("No command is specified in the script file")
    chunks, alone = _chunks(options, requirements), "-x" in options
    here = site()
    job: dict[str, Any] = {
        **chunks,
        "exclusive": alone,
        "name": options.get("-J", words[0] if words else script.splitlines()[0]),
        "queue": options.get("-q", "").split(" ")[0],
        "limit_s": _limit(options["-W"]) if "-W" in options else None,
        "hold": "-H" in options,
        "script": script,
        "environment": dict(os.environ),
        "output": options.get("-oo", options.get("-o", "")),
        "cwd": os.getcwd(),  # noqa: PTH109 - as it is told
        "project": options.get("-P", "default"),
        "gpu": options.get("-gpu", ""),
        "memory_limit_mb": _megabytes(options["-M"]) if "-M" in options else 0,
        "from": socket.gethostname(),
        "requirements": requirements,
    }
    if len(job["name"]) > 4094 or "/" in options.get("-J", ""):
        raise Refused("Bad job name")
    answer = ask("submit", job=job, owner=getpass.getuser())
    if "refused" in answer:
        raise Refused(_refusal(answer["refused"], job["queue"]))
    hang_if_told("bsub")
    default = "" if job["queue"] else "default "
    print(f"Job <{answer['number']}> is submitted to {default}queue <{job['queue'] or here['default_queue']}>.")
    return 0


def _options(argv: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    found: list[tuple[str, str]] = []
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        if flag in _WITH_VALUE:
            if not rest:
                raise Refused(f"Option requires an argument -- {flag[1:]}")
            found.append((flag, rest.pop(0)))
        elif flag in _ALONE:
            found.append((flag, ""))
        else:
            raise Refused(f"Illegal option -- {flag[1:]}")
    return found, rest


def _chunks(options: dict[str, str], requirements: str) -> dict[str, Any]:
    slots = options.get("-n", "1").split(",")[0]
    if not slots.isdecimal() or slots == "0":
        raise Refused(f"Bad argument for option -n: <{slots}>")
    if re.sub(r"\b\w+\[[^\[\]]*\]", "", requirements).strip():
        raise Refused("Bad resource requirement syntax")
    memory = gpus = 0
    each = re.search(r"span\[([^\]]*)\]", requirements)
    together = each is not None and each[1] == "hosts=1"
    tile = re.fullmatch(r"ptile=(\d+)", each[1]) if each and not together else None
    if each is not None and not together and tile is None:
        raise Refused("Bad resource requirement syntax")
    for name, value in re.findall(r"(\w+)=([\w.]+)", " ".join(re.findall(r"rusage\[([^\]]*)\]", requirements))):
        if name not in ("mem", "ngpus_physical", "swp", "tmp"):
            raise Refused(f"Bad resource name: {name}")
        memory = _megabytes(value) if name == "mem" else memory
    if "-gpu" in options:
        number = re.search(r"num=(\d+)", options["-gpu"])
        gpus = int(number[1]) if number else 1
    count = int(slots)
    size = count if together or tile is None else int(tile[1])
    sizes = [size] * (count // size) + ([count % size] if count % size else [])
    chunks = [{"cores": cores, "memory_mb": memory, "gpus": gpus} for cores in sizes]
    return {"chunks": chunks, "scatter": True}


def _megabytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise Refused("Bad resource requirement syntax")
    return int(int(match[1]) * _MEGABYTES[(match[2] or "M")[0].upper()])


def _limit(text: str) -> int:
    match = re.fullmatch(r"(?:(\d+):)?(\d+)(/\w+)?", text)
    if match is None:
        raise Refused("Bad argument for option -W")
    return int(match[1] or 0) * 3600 + int(match[2]) * 60


def _refusal(why: str, queue: str) -> str:
    return {
        "queue": f"{queue}: No such queue",
        "closed": f"{queue}: Queue has been closed",
        "limit": "RUNLIMIT: Cannot exceed queue's hard limit(s)",
        "jobs": "Pending job threshold reached",
        "processors": "Too many processors requested",
    }[why]


# --- bkill, bmod -----------------------------------------------------------------------------------------------------


def bkill(argv: list[str]) -> int:
    """End jobs; the code is 255 if one of them could not be."""
    code = 0
    for name in argv:
        if not name.isdecimal():
            print(f"{name}: Illegal job ID.", file=sys.stderr)
            code = 255
            continue
        try:
            refused = ask("end", number=int(name)).get("refused")
        except Down:
            print(f"Job <{name}>: {_DOWN}", file=sys.stderr)
            return 255
        if refused:
            words = "Job has already finished" if refused == "ended" else "No matching job found"
            print(f"Job <{name}>: {words}", file=sys.stderr)
            code = 255
        else:
            print(f"Job <{name}> is being terminated")
    return code


def bmod(argv: list[str]) -> int:
    """Change the run limit of a job, as `bmod -W 0:10 ID`."""
    options, names = _options(argv)
    for name in names:
        if "refused" in ask("alter", number=int(name), limit_s=_limit(dict(options)["-W"])):
            print(f"Job <{name}>: No matching job found", file=sys.stderr)
            return 255
        print(f"Parameters of job <{name}> are being changed")
    return 0


# --- blaunch ---------------------------------------------------------------------------------------------------------


def blaunch(argv: list[str]) -> int:
    """Run a command on a host of this job, in this environment; by a shell, as `rsh` does, unless told otherwise."""
    number = os.environ.get("LSB_JOBID")
    if number is None:
        print("blaunch: Cannot find the job: not running under LSF", file=sys.stderr)
        return 255
    rest, by_shell, host = list(argv), True, ""
    while rest and (rest[0].startswith("-") or not host):
        word = rest.pop(0)
        if word == "-no-shell":
            by_shell = False
        elif word == "-z":
            host = rest.pop(0)
        elif not word.startswith("-"):
            host = word
    (job,) = [row for row in ask("list") if row["number"] == int(number)]
    if host not in [place[0] for place in job["places"]]:
        print(f"blaunch: {host}: Host or host group is not used by the job", file=sys.stderr)
        return 255
    words = ["/bin/sh", "-c", " ".join(rest)] if by_shell else rest
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(name, signal.SIG_IGN)  # the server sends what it has to each task itself
    task = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: _as_task(host), restore_signals=True
    )
    ask("adopt", number=int(number), pid=task.pid)
    code = task.wait()
    return code if code >= 0 else 128 - code


def _as_task(host: str) -> None:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(name, signal.SIG_DFL)
    enter_node(host)
