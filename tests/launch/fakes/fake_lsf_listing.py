"""`bjobs` of the fake LSF: `-o FIELDS` as columns or with `-json`, of one's own jobs."""

from __future__ import annotations

import getpass
import json
import sys
import time
from typing import Any

from fake_client import Down, ask, fault

__all__ = ["bjobs"]

_UNFINISHED = {"queued": "PEND", "held": "PSUSP", "running": "RUN"}
_FIELDS = {
    "jobid", "job_name", "stat", "user", "queue", "time_left", "exec_host", "start_time", "estimated_start_time",
    "exit_code", "exit_reason", "pend_reason", "memlimit", "submit_time", "finish_time",
}  # fmt: skip
_DOWN = "Failed in an LSF library call: Failed in sending/receiving a message: Connection refused"


def bjobs(argv: list[str]) -> int:
    """Print jobs, those too that have ended where `-a` or an id asks for them."""
    words = fault("bjobs", "fail")
    if words is not None:
        print(words.strip(), file=sys.stderr)
        return 255
    rest, user, fields, names = list(argv), getpass.getuser(), "jobid stat queue job_name", []
    alone = set()
    while rest:
        word = rest.pop(0)
        if word in ("-o", "-u"):
            value = rest.pop(0)
            user, fields = (value, fields) if word == "-u" else (user, value)
        elif word in ("-a", "-json", "-noheader", "-w"):
            alone.add(word)
        elif word.isdecimal():
            names.append(int(word))
        else:
            print(f"bjobs: Illegal option -- {word}", file=sys.stderr)
            return 255
    try:
        jobs = [job for job in ask("list") if user in ("all", job["owner"])]
    except Down:
        print(_DOWN, file=sys.stderr)
        return 255
    chosen, code = _chosen(jobs, names, every="-a" in alone)
    asked, delimiter = _asked(fields)
    if not chosen and not names and "-json" not in alone:
        print("No job found" if "-a" in alone else "No unfinished job found", file=sys.stderr)
        return 0
    rows = [{field: _value(job, field) for field in asked} for job in chosen]
    if "-json" in alone:
        records = [{field.upper(): value for field, value in row.items()} for row in rows]
        print(json.dumps({"COMMAND": "bjobs", "JOBS": len(rows), "RECORDS": records}, indent=2, separators=(",", ":")))
        return code
    if "-noheader" not in alone:
        print(delimiter.join(field.upper() for field in asked))
    for row in rows:
        print(delimiter.join(row.values()))
    return code


def _chosen(jobs: list[dict[str, Any]], names: list[int], *, every: bool) -> tuple[list[dict[str, Any]], int]:
    if not names:
        return [job for job in jobs if every or job["state"] != "ended"], 0
    known = {job["number"]: job for job in jobs}
    missing = [name for name in names if name not in known]
    for name in missing:
        print(f"Job <{name}> is not found", file=sys.stderr)
    return [known[name] for name in names if name in known], 255 if missing else 0


def _asked(text: str) -> tuple[list[str], str]:
    words = text.split()
    delimiter = " "
    for word in words:
        if word.startswith("delimiter="):
            delimiter = word.removeprefix("delimiter=").strip("'\"")
    fields = [word.partition(":")[0] for word in words if not word.startswith("delimiter=")]
    unknown = [field for field in fields if field not in _FIELDS]
    if unknown:
        print(f"Field name <{unknown[0]}> is not a valid field name", file=sys.stderr)
        sys.exit(255)
    return fields, delimiter


def _value(job: dict[str, Any], field: str) -> str:
    ended, running = job["state"] == "ended", job["state"] == "running"
    if field == "exec_host":
        hosts = [f"{cores}*{host}" if cores > 1 else host for host, cores, *_ in job["places"]]
        return ":".join(hosts) or "-"
    if field == "time_left":
        left = max(0, int(job["limit_s"] - job["used_s"])) if running and job["limit_s"] is not None else None
        return "-" if left is None else f"{left // 3600}:{left // 60 % 60} L"
    if field == "pend_reason":
        return _pending(job)
    if field in ("exit_code", "exit_reason"):
        return _ending(job)[field == "exit_reason"] if ended else "-"
    if field == "memlimit":
        return _size(job["memory_limit_mb"])
    if field in ("submit_time", "start_time", "finish_time"):
        when = {"submit_time": "submitted", "start_time": "started", "finish_time": "ended"}[field]
        return time.strftime("%b %e %H:%M", time.localtime(job[when])) if job[when] else "-"
    if field == "stat":
        return _stat(job)
    return {
        "jobid": str(job["number"]),
        "job_name": job["name"],
        "user": job["owner"],
        "queue": job["queue"],
        "estimated_start_time": "-",
    }[field]


def _stat(job: dict[str, Any]) -> str:
    if job["state"] == "ended":
        return "DONE" if job["code"] == 0 and not job["why"] else "EXIT"
    return _UNFINISHED[job["state"]]


def _pending(job: dict[str, Any]) -> str:
    if job["state"] == "held":
        return "Job was suspended by the user while pending;"
    return "Not enough job slot(s);" if job["state"] == "queued" else "-"


def _ending(job: dict[str, Any]) -> tuple[str, str]:
    code = job["code"]
    shown = "-" if code is None or (code == 0 and not job["why"]) else str(code if code >= 0 else 128 - code)
    if job["why"] == "owner":
        return shown, "TERM_OWNER: job killed by owner"
    if job["why"] == "limit":
        return shown, "TERM_RUNLIMIT: job killed after reaching LSF run time limit"
    return shown, "-"


def _size(megabytes: int) -> str:
    if not megabytes:
        return "-"
    if megabytes % 2**10:
        return f"{megabytes} M"
    return f"{megabytes // 2**10} G"
