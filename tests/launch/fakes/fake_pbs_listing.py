"""`qstat` of the fake PBS: `-f` as text in lines of 79, and `-F json`, which Torque has not."""

from __future__ import annotations

import getopt
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from fake_client import Down, ask, fault, site

__all__ = ["qstat"]

_WIDTH = 79
_OPENPBS_LETTERS = {"queued": "Q", "held": "H", "running": "R", "ended": "F"}
_TORQUE_LETTERS = _OPENPBS_LETTERS | {"ended": "C"}
_NO_SUCH, _FINISHED = 15001, 15139


def qstat(argv: list[str]) -> int:
    """Print all jobs, or those named."""
    try:
        here = site()
        torque = here["system"] == "torque"
        words = fault("qstat", "fail")
        if words is not None:
            print(words.strip(), file=sys.stderr)
            return 153
        try:
            options, names = getopt.gnu_getopt(
                argv, "acCefiGMqnQBrRsu:W:1xlt" if torque else "fxaEHitTJpnrswGMBQqu:1F:D:W:"
            )
        except getopt.GetoptError as error:
            print(f"qstat: invalid option -- '{error.opt}'\nusage: \nqstat [-f] ...", file=sys.stderr)
            return 2
        given = dict(options)
        history = "-x" in given and not torque
        if history and not here["history"]:
            print("qstat: PBS is not configured to maintain job history", file=sys.stderr)
            return 15140 % 256
        jobs = [job for job in ask("list") if history or torque or job["state"] != "ended"]
        code = 0
        if names:
            jobs, code = _named(jobs, names, history=history, torque=torque)
        if given.get("-F") == "json":
            _print_json(jobs, here)
        elif "-f" in given:
            _print_full(jobs, torque=torque)
        elif jobs:
            _print_table(jobs)
        return code
    except Down:
        print("Connection refused\nqstat: cannot connect to server pbs1 (errno=111)", file=sys.stderr)
        return 255


def _named(jobs: list[Any], names: list[str], *, history: bool, torque: bool) -> tuple[list[Any], int]:
    found, code = [], 0
    for name in names:
        match = re.fullmatch(r"(\d+)(\.[\w.\-]+)?", name)
        if match is None:
            print(f"qstat: illegally formed job identifier: {name}", file=sys.stderr)
            code = 1
            continue
        mine = [job for job in jobs if job["number"] == int(match[1])]
        if not mine and not history and not torque and any(job["number"] == int(match[1]) for job in ask("list")):
            words = f"{name} Job has finished, use -x or -H to obtain historical job information"
            print(f"qstat: {words}", file=sys.stderr)
            code = _FINISHED % 256
        elif not mine:
            print(f"qstat: Unknown Job Id{' Error' if torque else ''} {name}", file=sys.stderr)
            code = _NO_SUCH % 256
        found += mine
    return found, code


# --- attributes ------------------------------------------------------------------------------------------------------


def _attributes(job: dict[str, Any], *, torque: bool) -> Iterator[tuple[str, Any]]:
    """Yield names and values as the server orders them; resources stand in a table of their own."""
    letter = (_TORQUE_LETTERS if torque else _OPENPBS_LETTERS)[job["state"]]
    yield "Job_Name", job["name"]
    yield "Job_Owner", f"{job['owner']}@{job['from']}"
    if job["started"]:
        yield "resources_used", _used(job, torque=torque)
    yield "job_state", letter
    yield "queue", job["queue"]
    yield "server", job["server"]
    if job["account"]:
        yield "Account_Name", job["account"]
    yield "ctime", _clock_time(job["submitted"])
    yield "Error_Path", f"{job['from']}:{job['output']}"
    if job["started"]:
        yield "exec_host", _exec_host(job, torque=torque)
        if not torque:
            yield "exec_vnode", _exec_vnode(job)
    yield "Hold_Types", "u" if job["state"] == "held" else "n"
    yield "Join_Path", job["join"]
    yield "Output_Path", f"{job['from']}:{job['output']}"
    yield "Rerunable", "True" if job["rerun"] == "y" else "False"
    yield "Resource_List", _asked(job, torque=torque)
    if job["started"]:
        yield ("start_time" if torque else "stime"), _clock_time(job["started"])
    if torque and job["state"] == "running" and job["limit_s"] is not None:
        yield "Walltime", {"Remaining": str(max(0, int(job["limit_s"] - job["used_s"])))}
    yield "Variable_List", f"PBS_O_HOME={job['home']},PBS_O_QUEUE={job['queue']},PBS_O_HOST={job['from']}"
    comment = _comment(job)
    if comment and not (torque and job["state"] == "ended"):
        yield "comment", comment
    if job["state"] == "ended" and job["code"] is not None:
        yield ("exit_status" if torque else "Exit_status"), _exit_status(job, torque=torque)


def _used(job: dict[str, Any], *, torque: bool) -> dict[str, str]:
    found = {"cput": "00:00:00", "mem": "1024kb", "vmem": "2048kb", "walltime": _hours(job["used_s"])}
    return found if torque else {**found, "ncpus": str(sum(place[1] for place in job["places"]))}


def _asked(job: dict[str, Any], *, torque: bool) -> dict[str, str]:
    limit = {} if job["limit_s"] is None else {"walltime": _hours(job["limit_s"])}
    if torque:
        memory = {"mem": job["mem"]} if job["mem"] else {}
        return {**memory, "nodect": str(job["nodect"]), "nodes": job["nodes"], **limit}
    whole = sum(chunk["memory_mb"] for chunk in job["chunks"])
    memory = {"mem": f"{whole}mb"} if whole else {}
    cores = str(sum(chunk["cores"] for chunk in job["chunks"]))
    nodes = {"nodect": str(len(job["chunks"])), "place": job["place"], "select": job["select"]}
    return {**memory, "ncpus": cores, **nodes, **limit}


def _exec_host(job: dict[str, Any], *, torque: bool) -> str:
    if not torque:
        return "+".join(f"{host}/0*{cores}" if cores != 1 else f"{host}/0" for host, cores, *_ in job["places"])
    return "+".join(f"{host}/0-{cores - 1}" if cores > 1 else f"{host}/0" for host, cores, *_ in job["places"])


def _exec_vnode(job: dict[str, Any]) -> str:
    parts = []
    for host, cores, memory, gpus in job["places"]:
        more = (f":mem={memory * 1024}kb" if memory else "") + (f":ngpus={len(gpus)}" if gpus else "")
        parts.append(f"({host}:ncpus={cores}{more})")
    return "+".join(parts)


def _comment(job: dict[str, Any]) -> str:
    if job["state"] == "queued":
        cores = max(chunk["cores"] for chunk in job["chunks"])
        return f"Not Running: Insufficient amount of resource: ncpus (R: {cores} A: 0 T: 0)"
    if job["state"] == "held":
        return f"Job held by {job['owner']} on {_clock_time(job['submitted'])}"
    if not job["started"]:
        return f"Job deleted and terminated by {job['owner']}@{job['from']}" if job["why"] else ""
    begun = time.strftime("Job run at %a %b %d at %H:%M", time.localtime(job["started"]))
    said = f"{begun} on {_exec_vnode(job)}"
    if job["state"] != "ended":
        return said
    if job["why"] == "limit":
        return f"{said} and exceeded resource walltime"
    return f"{said} and {'terminated' if job['why'] else 'failed' if job['code'] else 'finished'}"


def _exit_status(job: dict[str, Any], *, torque: bool) -> str:
    if job["why"] == "limit":
        return "-11" if torque else "-29"
    return str(job["code"] if job["code"] >= 0 else 256 - job["code"])


def _clock_time(when: float) -> str:
    return time.ctime(when)


def _hours(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


# --- forms -----------------------------------------------------------------------------------------------------------


def _print_json(jobs: list[dict[str, Any]], here: dict[str, Any]) -> None:
    shown: dict[str, Any] = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": here["server"]}
    if jobs:  # without jobs there is no such key
        shown["Jobs"] = {f"{job['number']}.{job['server']}": _as_json(job) for job in jobs}
    print(json.dumps(shown, indent=4, separators=(",", ":")))


def _as_json(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _attributes(job, torque=False):
        if name == "Variable_List":
            found[name] = dict(part.split("=", 1) for part in value.split(","))
        elif isinstance(value, dict):
            found[name] = {key: _number(text) for key, text in value.items()}
        else:
            found[name] = _number(value) if name == "Exit_status" else value
    return found


def _number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _print_full(jobs: list[dict[str, Any]], *, torque: bool) -> None:
    for job in jobs:
        print(f"Job Id: {job['number']}.{job['server']}")
        for name, value in _attributes(job, torque=torque):
            pairs = {f"{name}.{key}": text for key, text in value.items()} if isinstance(value, dict) else {name: value}
            for shown, text in pairs.items():
                print(_in_lines(f"    {shown} = ", text))
        print()


def _in_lines(head: str, text: str) -> str:
    """Return an attribute in lines that end before the width, at a comma where there is one; each further has a tab."""
    lines, line, room = [], head, _WIDTH
    for place, part in enumerate(text.split(",")):
        piece = part if place == 0 else f",{part}"
        if place and len(line) + len(piece) >= room:
            lines.append(f"{line},")
            line, piece, room = "", part, _WIDTH - 8
        while len(line) + len(piece) > room:
            cut = room - len(line)
            lines.append(line + piece[:cut])
            line, piece, room = "", piece[cut:], _WIDTH - 8
        line += piece
    return "\n\t".join([*lines, line])


def _print_table(jobs: list[dict[str, Any]]) -> None:
    print("Job id            Name             User              Time Use S Queue")
    print("----------------  ---------------- ----------------  -------- - -----")
    for job in jobs:
        native, used = f"{job['number']}.{job['server']}"[:16], _hours(job["used_s"]) if job["started"] else "0"
        letter = _OPENPBS_LETTERS[job["state"]]
        print(f"{native:<16}  {job['name'][:16]:<16} {job['owner']:<16}  {used:>8} {letter} {job['queue']:<16}")
