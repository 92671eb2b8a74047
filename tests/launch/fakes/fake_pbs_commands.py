"""`qsub`, `qdel`, `qalter` and `pbsdsh` of the fake PBS: OpenPBS, and Torque where the site says so."""

from __future__ import annotations

import contextlib
import getopt
import getpass
import os
import re
import shlex
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from fake_client import Down, ask, directives, hang_if_told, site

__all__ = ["pbsdsh", "qalter", "qdel", "qsub"]

_OPENPBS = "a:A:c:C:e:fhIj:J:k:l:m:M:N:o:p:q:r:R:S:u:v:VW:XzP:"
_TORQUE = "a:A:b:c:C:d:D:e:EfhIj:k:K:l:L:m:M:nN:o:p:P:q:r:S:t:T:u:v:VwW:xXz"
_KNOWN = {
    "walltime",
    "mem",
    "ncpus",
    "vmem",
    "pmem",
    "pvmem",
    "cput",
    "file",
    "nice",
    "place",
    "select",
    "nodes",
    "ngpus",
}
_IN_CHUNK = {"ncpus", "mem", "ngpus", "mpiprocs", "ompthreads", "vmem", "host", "vnode", "arch"}
_NO_SUCH, _BAD, _QUEUE, _UNKNOWN_RESOURCE, _LIMIT, _MOST = 15001, 15014, 15018, 15035, 15036, 15046
_FINISHED, _IN_SELECT, _CLOSED = 15139, 15108, 15021
_NAME = re.compile(r"[^\s]{1,230}")
_SIZE = re.compile(r"(\d+)([kmgt]?)[bw]?", re.IGNORECASE)
_MEGABYTES = {"": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}


class Refused(Exception):
    """Request that is refused, with the words and the exit code."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.words, self.code = words, code


# --- qsub ------------------------------------------------------------------------------------------------------------


def qsub(argv: list[str]) -> int:
    """Submit a script, from a file or standard input; print its id."""
    try:
        here = site()
        torque = here["system"] == "torque"
        return _qsub(argv, here, torque=torque)
    except Refused as refused:
        print(refused.words, file=sys.stderr)
        return refused.code
    except Down:
        return _no_server("qsub")


def _qsub(argv: list[str], here: dict[str, Any], *, torque: bool) -> int:
    grammar = _TORQUE if torque else _OPENPBS
    given, files = _options(argv, grammar)
    script = Path(files[0]).read_text() if files and files[0] != "-" else sys.stdin.read()
    written = [pair for line in directives(script, "#PBS") for pair in _options(shlex.split(line), grammar)[0]]
    options: dict[str, str] = {}
    resources: dict[str, str] = {}
    for pairs in (written, given):  # the command line comes last, and is what counts
        for flag, value in pairs:
            options[flag] = value
            if flag == "-l":
                resources |= _resources(value)
    name = options.get("-N", Path(files[0]).name if files and files[0] != "-" else "STDIN")
    if not _NAME.fullmatch(name) or (torque and len(name) > 15 and "-N" in options and not name[0].isalpha()):
        raise Refused("qsub: illegal -N value", 2)
    job = _torque_job(resources, options) if torque else _openpbs_job(resources)
    output = _output(options, name)
    user = getpass.getuser()
    job |= {
        "name": name,
        "queue": options.get("-q", "").partition("@")[0],
        "limit_s": _limit(resources, torque=torque),
        "hold": "-h" in options,
        "script": script,
        "environment": _variables(options, here),
        "output": output,
        "home": os.environ.get("HOME", "/"),
        "shell": options.get("-S", "").split(",")[0].split("@")[0],
        "account": options.get("-A", ""),
        "rerun": options.get("-r", "y"),
        "join": options.get("-j", "n"),
        "server": here["server"],
        "from": socket.gethostname(),
        "torque": torque,
    }
    answer = ask("submit", job=job, owner=user)
    if "refused" in answer:
        raise _refusal(answer["refused"], torque=torque)
    hang_if_told("qsub")
    print(f"{answer['number']}.{here['server']}")
    return 0


def _options(argv: list[str], grammar: str) -> tuple[list[tuple[str, str]], list[str]]:
    try:
        return getopt.gnu_getopt(argv, grammar)
    except getopt.GetoptError as error:
        words = (
            f"qsub: {'option requires an argument' if 'requires' in error.msg else 'invalid option'} -- '{error.opt}'"
        )
        raise Refused(f"{words}\nusage: qsub [-a date_time] [-A account_string] ...", 2) from None


def _resources(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name.strip() or (equals and not value):
            raise Refused("qsub: illegal -l value", 2)
        found[name.strip()] = value
    return found


def _openpbs_job(resources: dict[str, str]) -> dict[str, Any]:
    for name in resources:
        if name not in _KNOWN:
            raise _said(_UNKNOWN_RESOURCE, f"Unknown resource Resource_List.{name}")
    if "nodes" in resources and "select" in resources:
        raise _said(15110, "Cannot be used with select or place: nodes")
    place = resources.get("place", "free")
    if not set(place.split(":")) <= {"free", "pack", "scatter", "vscatter", "excl", "exclhost", "shared"}:
        raise _said(_BAD, "Illegal attribute or resource value Resource_List.place")
    chunks: list[dict[str, int]] = []
    processes = 1
    for piece in resources.get("select", "1:ncpus=1").split("+"):
        count, *asked = piece.split(":")
        if not count.isdecimal():
            count, asked = "1", [count, *asked]
        of_one: dict[str, str] = {}
        for part in asked:
            name, equals, value = part.partition("=")
            if not equals:
                raise _said(_BAD, "Illegal attribute or resource value Resource_List.select")
            if name not in _IN_CHUNK:
                raise _said(_IN_SELECT, f'Resource invalid in "select" specification: {name}')
            if name not in ("mem", "vmem", "host", "vnode", "arch") and not value.isdecimal():
                raise _said(_BAD, "Illegal attribute or resource value Resource_List.select")
            of_one[name] = value
        memory = _megabytes(of_one["mem"], "select", torque=False) if "mem" in of_one else 0
        processes = int(of_one.get("mpiprocs", 1))
        one = {"cores": int(of_one.get("ncpus", 1)), "memory_mb": memory, "gpus": int(of_one.get("ngpus", 0))}
        chunks += [one] * int(count)
    alone = "exclhost" in place or "excl" in place.split(":")
    return {
        "chunks": chunks,
        "scatter": "scatter" in place,
        "exclusive": alone,
        "mpiprocs": processes,
        "select": resources.get("select", "1:ncpus=1"),
        "place": place,
    }


def _torque_job(resources: dict[str, str], options: dict[str, str]) -> dict[str, Any]:
    for name in resources:
        if name not in _KNOWN - {"select", "place"} | {"procs", "gres", "other"}:
            raise _said(_UNKNOWN_RESOURCE, f"submit error (Unknown resource type  MSG=cannot locate resource {name})")
    nodes, *properties = resources.get("nodes", "1").split(":")
    if not nodes.isdecimal():
        raise _said(15062, f"submit error (Unknown node  MSG=cannot locate feasible nodes: {nodes})")
    asked = dict(part.partition("=")[::2] for part in properties)
    memory = _megabytes(resources["mem"], "mem", torque=True) if "mem" in resources else 0
    cores, gpus = int(asked.get("ppn", 1)), int(asked.get("gpus", 0))
    one = {"cores": cores, "memory_mb": -(-memory // int(nodes)), "gpus": gpus}
    shown = {"nodes": resources.get("nodes", "1"), "mem": resources.get("mem", ""), "nodect": int(nodes)}
    return {"chunks": [one] * int(nodes), "scatter": True, "exclusive": "-n" in options, "mpiprocs": cores, **shown}


def _megabytes(text: str, name: str, *, torque: bool) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        words = (
            "submit error (Illegal attribute or resource value for" if torque else "Illegal attribute or resource value"
        )
        raise _said(_BAD, f"{words} Resource_List.{name}{')' if torque else ''}")
    return int(int(match[1]) * _MEGABYTES[match[2].lower()])


def _limit(resources: dict[str, str], *, torque: bool) -> int | None:
    text = resources.get("walltime")
    if text is None:
        return None
    if not re.fullmatch(r"(\d+:){0,3}\d+(\.\d+)?", text):
        words = (
            "submit error (Illegal attribute or resource value for" if torque else "Illegal attribute or resource value"
        )
        raise _said(_BAD, f"{words} Resource_List.walltime{')' if torque else ''}")
    return int(sum(float(part) * 60**place for place, part in enumerate(reversed(text.split(":")))))


def _output(options: dict[str, str], name: str) -> str:
    path = options.get("-o", "").rpartition(":")[2]
    if path.endswith("/") or not path:
        path += f"{name}.o"
    return str(Path(os.getcwd()) / path)  # noqa: PTH109 - what PBS_O_WORKDIR says


def _variables(options: dict[str, str], here: dict[str, Any]) -> dict[str, str]:
    own = {
        f"PBS_O_{name}": os.environ[name]
        for name in ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TZ")
        if name in os.environ
    }
    own |= {"PBS_O_WORKDIR": os.getcwd(), "PBS_O_HOST": socket.gethostname(), "PBS_O_SYSTEM": "Linux"}  # noqa: PTH109
    own["PBS_O_QUEUE"] = options.get("-q", here["default_queue"])
    carried = dict(os.environ) if "-V" in options else {}
    for part in filter(None, options.get("-v", "").split(",")):
        name, equals, value = part.partition("=")
        carried[name] = value if equals else os.environ.get(name, "")
    return {**carried, **own}


def _said(code: int, words: str) -> Refused:
    return Refused(f"qsub: {words}", code % 256)


def _refusal(why: str, *, torque: bool) -> Refused:
    of_openpbs = {
        "queue": (_QUEUE, "Unknown queue"),
        "closed": (_CLOSED, "Queue is not enabled"),
        "limit": (_LIMIT, "Job violates queue and/or server resource limits"),
        "jobs": (_MOST, "would exceed queue generic's per-user limit"),
    }
    of_torque = {
        "queue": "Unknown queue MSG=requested queue not found",
        "closed": "Queue is not enabled MSG=queue is disabled",
        "limit": "Job exceeds queue resource limits MSG=cannot satisfy queue max walltime requirement",
        "jobs": "Maximum number of jobs already in queue MSG=total number of jobs exceeds the queue limit",
    }
    code, words = of_openpbs[why]
    return _said(code, f"submit error ({of_torque[why]})" if torque else words)


def _no_server(command: str) -> int:
    print(f"Connection refused\n{command}: cannot connect to server pbs1 (errno=111)", file=sys.stderr)
    return 111 if command == "qsub" else 1


# --- qdel, qalter ----------------------------------------------------------------------------------------------------


def _number(command: str, text: str) -> int | None:
    match = re.fullmatch(r"(\d+)(\.[\w.\-]+)?", text)
    if match is None:
        print(f"{command}: illegally formed job identifier: {text}", file=sys.stderr)
        return None
    return int(match[1])


def qdel(argv: list[str]) -> int:
    """End jobs, each of them that can be; the code is of the last that could not."""
    code = 0
    try:
        torque = site()["system"] == "torque"
        for text in getopt.getopt(argv, "W:x")[1]:
            number = _number("qdel", text)
            if number is None:
                code = 1
                continue
            refused = ask("end", number=number).get("refused")
            if refused == "ended" and not torque:
                print("qdel: Job has finished", file=sys.stderr)
                code = _FINISHED % 256
            elif refused == "ended":
                print(
                    f"qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE {text}",
                    file=sys.stderr,
                )
                code = 15016 % 256
            elif refused:
                words = f"nonexistent job id: {text}" if torque else f"Unknown Job Id {text}"
                print(f"qdel: {words}", file=sys.stderr)
                code = _NO_SUCH % 256
    except Down:
        return _no_server("qdel")
    return code


def qalter(argv: list[str]) -> int:
    """Change the limit of time of jobs: `-l walltime=`."""
    options, names = getopt.gnu_getopt(argv, "l:")
    try:
        limit_s = _limit(_resources(dict(options)["-l"]), torque=False)
        for text in names:
            number = _number("qalter", text)
            if number is None or "refused" in ask("alter", number=number, limit_s=limit_s):
                print(f"qalter: Unknown Job Id {text}", file=sys.stderr)
                return _NO_SUCH % 256
    except Down:
        return _no_server("qalter")
    return 0


# --- pbsdsh ----------------------------------------------------------------------------------------------------------


def pbsdsh(argv: list[str]) -> int:
    """Start a program on the hosts of this job, and wait for all; after a signal, kill what was started and leave."""
    torque = site()["system"] == "torque"
    try:
        options, words = getopt.getopt(argv, "c:e:n:h:osuvE" if torque else "c:n:h:svo")
    except getopt.GetoptError:
        words = []
    if not words:
        print("Usage: pbsdsh [-c copies][-s][-v][-o] -- program [args...]", file=sys.stderr)
        return 1
    if "PBS_ENVIRONMENT" not in os.environ:
        print("pbsdsh: not executing under PBS", file=sys.stderr)
        return 1
    number = int(os.environ["PBS_JOBID"].partition(".")[0])
    (job,) = [row for row in ask("list") if row["number"] == number]
    places = list(range(len(job["places"])))
    flags = [flag for flag, _ in options]
    if torque and "-u" not in flags:  # one on each core; hosts once only if asked
        places = [place for place in places for _ in range(job["places"][place][1])]
    for flag, value in options:
        if flag == "-n":
            places = [places[int(value)]]
        elif flag == "-c":
            places = [places[copy % len(places)] for copy in range(int(value))]
    got: list[int] = []
    for name in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: got.append(number))
    pids = [str(pid) for pid in ask("spawn", number=number, hosts=places, argv=words).get("pids", [])]
    while "-o" not in flags:
        ended = ask("tasks", number=number)
        if got:
            for place, pid in enumerate(pids):
                print(f"pbsdsh: killing task 0x{place:08X} signal {got[0]}")
                _kill(int(pid), got[0])
            return 1
        if all(pid in ended for pid in pids):
            for place, pid in enumerate(pids):
                if ended[pid]:
                    print(f"pbsdsh: task 0x{place:08X} exit status {ended[pid]}")
            break
        time.sleep(0.05)
    return 0


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
