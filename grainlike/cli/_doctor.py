"""`doctor`: what a worker or a program that listens would meet here, looked at before it does."""

from __future__ import annotations

import json
import os
import platform
import resource
import ssl
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from grainlike import __version__
from grainlike.cli._exits import FAILED, OK
from grainlike.client import BlockingClient, completed, hello_of_client
from grainlike.errors import GrainlikeError, VersionMismatchError
from grainlike.net import (
    Access,
    Address,
    dial_blocking,
    find_access,
    holds_from_to,
    left_behind,
    read_access,
    state_directory,
)
from grainlike.payload import serializer_versions
from grainlike.subprocesses import open_core_locks
from grainlike.system import why_no_processes
from grainlike.wire import AskHead, HeadIs, Software, check_software

__all__ = ["Finding", "doctor"]

_NVIDIA = Path("/proc/driver/nvidia/gpus")
_DRIFT_S = 5.0
_FEW_FILES = 1024
_SOON_DAYS = 14
_DIAL_S = 3.0
_ALONE = "for limits kept by the kernel: systemd-run --user --scope -p Delegate=yes grainlike worker start ..."


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. `advice` is what to do about it, empty when all is well."""

    verdict: Literal["ok", "note", "bad"]
    what: str
    found: str
    advice: str = ""


def doctor(head: str | None, *, as_json: bool) -> int:
    """Check everything and print the findings; the exit code is 1 when something is bad.

    `head` is the address or access file of the head to try; by default the current one's, if there is one.
    """
    findings = [*_software(), *_machine(), *_clock(), *_files(), *_heads(head)]
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))  # noqa: T201 - a command line speaks
    else:
        for finding in findings:
            print(f"{finding.verdict:4} {finding.what}: {finding.found}")  # noqa: T201
            if finding.advice:
                print(f"     {finding.advice}")  # noqa: T201
    return FAILED if any(finding.verdict == "bad" for finding in findings) else OK


def _software() -> Iterator[Finding]:
    serializers = ", ".join(f"{name} {version}" for name, version in serializer_versions().items())
    yield Finding(
        "ok", "versions", f"grainlike {__version__}, Python {platform.python_version()}, {serializers}"
    )  # the two ends are compared in the handshake
    if ssl.HAS_TLSv1_3:
        yield Finding("ok", "TLS", f"1.3, by {ssl.OPENSSL_VERSION}")
    else:
        yield Finding("bad", "TLS", f"{ssl.OPENSSL_VERSION} has no TLS 1.3", "use a Python built with a newer OpenSSL")


def _machine() -> Iterator[Finding]:
    if hasattr(os, "sched_getaffinity"):
        yield Finding("ok", "cores", f"{len(os.sched_getaffinity(0))} for this process; jobs are pinned to theirs")
    else:
        yield Finding("note", "cores", f"{platform.system()} pins no process", "jobs are not held to theirs")
    why, _, what_to_do = why_no_processes().partition("; ")
    if why:
        yield Finding("bad", "processes", why, what_to_do)
    yield from _core_offers()
    yield from _devices()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft < _FEW_FILES
    advice = f"for many workers: ulimit -n {hard if hard > soft else 65_536}" if few else ""
    yield Finding("note" if few else "ok", "open files", f"at most {soft}", advice)
    yield _memory_tier()


def _core_offers() -> Iterator[Finding]:
    """Look for programs and workers of this user that offer cores of this machine now."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    with closing(open_core_locks(cores)) as locks:
        for pid, offered in locks.overlaps().items():
            found = f"process {pid} offers cores {','.join(map(str, offered))}"
            yield Finding("note", "cores", found, "what starts here takes those that it does not use, if it can")


def _devices() -> Iterator[Finding]:
    """Name the devices that NVIDIA's driver has here, in the order of their numbers; a worker offers none unasked."""
    described: list[str] = []
    for path in sorted(_NVIDIA.glob("*/information")):  # by PCI address, as jobs count them
        with suppress(OSError):
            pairs = (line.partition(":") for line in path.read_text(errors="replace").splitlines())
            said = {name.strip(): value.strip() for name, _, value in pairs}
            described.append(f"{said.get('Model', 'unknown model')} {said.get('GPU UUID', path.parent.name)}")
    if described:
        count = len(described)
        found = f"{count} of NVIDIA's: {', '.join(described)}"
        yield Finding("ok", "GPUs", found, f'a worker offers them if it is told: --resources "cores=4 gpus={count}"')


def _memory_tier() -> Finding:
    room: Any = import_module("grainlike_worker.linux._worker_cgroups")  # by name: a worker is somebody else's program
    tier, words = room.memory_tier()
    if tier == "none":
        return Finding("note", "memory", words, "jobs are not held to their memory")
    how = "by the kernel" if tier == "cgroup" else "by a watchdog, which looks several times a second"
    return Finding("ok", "memory", f"kept {how} (tier {tier}): {words}", _ALONE if "other processes" in words else "")


def _clock() -> Iterator[Finding]:
    """Check the clock, against that of a file server: certificates need the day, and the finding names which of the
    two is off.
    """
    state = state_directory()
    if not state.is_dir():
        return
    if stat.S_IMODE(state.stat().st_mode) & 0o077:  # no program of ours would listen
        yield Finding("bad", "state directory", f"{state} is open to other users", f"chmod 700 {state}")
    before = time.time()
    try:
        with tempfile.NamedTemporaryFile(dir=state, prefix=".doctor.") as file:
            stamp = os.fstat(file.fileno()).st_mtime
    except OSError as error:
        yield Finding("bad", "state directory", f"cannot write in {state}: {error.strerror}", "choose XDG_STATE_HOME")
        return
    drift = min(0.0, stamp - before) + max(0.0, stamp - time.time())  # to make the file may take a file server long
    if abs(drift) > _DRIFT_S:
        yield Finding("note", "clock", f"{drift:+.0f} s beside that of the file system of {state}", "set both by NTP")
    else:
        yield Finding("ok", "clock", f"that of the file system of {state}")


def _files() -> Iterator[Finding]:
    state = state_directory()
    files = sorted(state.glob("*/*.json"))
    for path in files:
        if path.parent.is_symlink():  # `current`, which is one of the others
            continue
        try:
            yield _judged(path, read_access(path))
        except GrainlikeError as error:
            yield Finding("bad", "access file", str(error), f"do as that says, or remove {path}")
        except ValueError as error:  # it lets nobody in, and keeps nobody out
            yield Finding("note", "access file", str(error), f"remove {path}")
    for folder in left_behind():
        current = " (the current one)" if (state / "current").resolve() == folder.resolve() else ""
        found = f"the head of {folder}{current} was killed, and left its files"
        yield Finding("note", "access file", found, f"the next head that starts here removes them; or: rm -r {folder}")
    if not files:
        yield Finding("ok", "access files", f"none under {state}: no program of yours listens here")


def _judged(path: Path, access: Access) -> Finding:
    if access.credentials is None:
        return Finding("note", "access file", f"{path} has no certificates", "")
    begin, end = holds_from_to(access.credentials)
    now = datetime.now(UTC)
    if not begin <= now <= end:
        return Finding("bad", "access file", f"{path} holds from {begin:%F} to {end:%F}", "make new files")
    days = (end - now).days
    soon = days < _SOON_DAYS
    return Finding(
        "note" if soon else "ok", "access file", f"{path}, for {days} days more", "make new files soon" if soon else ""
    )


def _heads(head: str | None) -> list[Finding]:
    try:
        access = find_access(head, "client")
    except (GrainlikeError, ValueError) as error:
        return [] if head is None else [Finding("bad", "head", str(error), "")]
    if not access.addresses:
        return [Finding("note", "head", f"that of cluster {access.cluster} has not listened yet", "")]
    return [_tried(access, address) for address in access.addresses]


def _check_versions(caller: BlockingClient) -> None:
    """Raise `VersionMismatchError` unless programs with the versions here could use the head."""
    found = completed(caller.ask(AskHead(0), HeadIs))
    check_software(Software(found.python, found.serializers), hello_of_client())


def _tried(access: Access, address: Address) -> Finding:
    only = partial(Access, access.cluster, access.role, credentials=access.credentials)
    try:
        with closing(dial_blocking(only(addresses=(address,)), insecure=True, timeout=_DIAL_S)) as connection:
            if access.role == "client":  # who introduces itself as a worker has joined
                _check_versions(BlockingClient(connection, time.monotonic() + _DIAL_S))
    except VersionMismatchError as error:
        advice = "no worker or program of this Python can use that head; commands that only ask or tell it something do"
        return Finding("bad", "head", str(error), advice)
    except (GrainlikeError, OSError) as error:
        return Finding("bad", "head", str(error), "is that program still there, and its port open?")
    same = "" if access.role == "client" else "its versions are compared with client.json, or when a worker starts"
    return Finding("ok", "head", f"that of cluster {access.cluster} answers at {address}", same)
