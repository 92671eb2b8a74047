"""Jobs and nodes of the fake batch systems: what was asked for, where it fits, and the processes that run it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Chunk", "Job", "Node", "Place", "enter_node", "place_chunks", "release", "signal_sessions"]

_NEW_UTS = 0x04000000


@dataclass
class Node:
    """Host of the system, and what of it is free: `gpus` are numbers of devices."""

    name: str
    cores: int
    memory_mb: int
    gpus: list[int]
    users: dict[str, bool] = field(default_factory=dict)
    """True for each job that has the host for itself, by job id."""


@dataclass(frozen=True)
class Chunk:
    """What a job asks for on one host."""

    cores: int = 1
    memory_mb: int = 0
    gpus: int = 0


@dataclass(frozen=True)
class Place:
    """What a job has on one host."""

    host: str
    cores: int
    memory_mb: int
    gpus: tuple[int, ...] = ()


@dataclass
class Job:
    """Job of either system. `asked` is what the submitting command sent; times are Unix times."""

    number: int
    asked: dict[str, Any]
    owner: str
    submitted: float
    state: str = "queued"
    places: list[Place] = field(default_factory=list)
    started: float = 0.0
    ended: float = 0.0
    limit_s: int | None = None
    why: str = ""
    """Why it was ended: `owner` or `limit`; empty if it ended by itself."""
    comment: str = ""
    code: int | None = None
    sessions: list[int] = field(default_factory=list)
    """Session ids of the job's processes, the first that of its script."""
    tasks: dict[int, int] = field(default_factory=dict)
    """Exit codes of what `pbsdsh` started, by process."""

    @property
    def chunks(self) -> list[Chunk]:
        """What it asks for, host by host."""
        return [Chunk(**chunk) for chunk in self.asked["chunks"]]

    @property
    def hosts(self) -> list[str]:
        """Hosts that it has, each once, in order."""
        return list(dict.fromkeys(place.host for place in self.places))

    def told(self) -> dict[str, Any]:
        """Return all that commands may show."""
        places = [[place.host, place.cores, place.memory_mb, list(place.gpus)] for place in self.places]
        shown = {name: getattr(self, name) for name in ("number", "owner", "submitted", "state", "started", "ended")}
        shown |= {name: getattr(self, name) for name in ("limit_s", "why", "comment", "code")}
        used = (self.ended or time.time()) - self.started if self.started else 0.0
        asked = {name: value for name, value in self.asked.items() if name not in ("script", "environment")}
        return {**asked, **shown, "used_s": used, "places": places}


def place_chunks(job: Job, nodes: list[Node]) -> bool:
    """Give a job its hosts, the first that have what it asks for; return False where they do not suffice now."""
    taken: list[tuple[Node, Place]] = []
    alone, spread = job.asked["exclusive"], job.asked["scatter"]
    native = str(job.number)
    for chunk in job.chunks:
        for node in nodes:
            others = [user for user in node.users if user != native]
            fits = node.cores >= chunk.cores and node.memory_mb >= chunk.memory_mb and len(node.gpus) >= chunk.gpus
            again = spread and any(node is there for there, _ in taken)
            if not fits or again or any(node.users[user] for user in others) or (alone and others):
                continue
            gpus = tuple(node.gpus[: chunk.gpus])
            place = Place(node.name, chunk.cores, chunk.memory_mb, gpus)
            _take(node, place, native, alone=alone)
            taken.append((node, place))
            break
        else:
            for node, place in taken:
                _give_back(node, place, native)
            return False
    job.places = [place for _, place in taken]
    return True


def release(job: Job, nodes: list[Node]) -> None:
    """Give back what a job had."""
    by_name = {node.name: node for node in nodes}
    for place in job.places:
        _give_back(by_name[place.host], place, str(job.number))


def _take(node: Node, place: Place, native: str, *, alone: bool) -> None:
    node.cores -= place.cores
    node.memory_mb -= place.memory_mb
    node.gpus = [gpu for gpu in node.gpus if gpu not in place.gpus]
    node.users[native] = alone


def _give_back(node: Node, place: Place, native: str) -> None:
    node.cores += place.cores
    node.memory_mb += place.memory_mb
    node.gpus = sorted({*node.gpus, *place.gpus})
    node.users.pop(native, None)


def enter_node(host: str) -> None:
    """Give this process, and all that it starts, the name of a host; it takes root, and is left without."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_UTS) == 0:
        socket.sethostname(host)


def signal_sessions(sessions: list[int], number: signal.Signals) -> int:
    """Send a signal to every process of these sessions; return how many there are."""
    found = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[3]) in sessions and after_name[0] not in "ZX":
            found += 1
            try:
                os.kill(int(entry.name), number)
            except OSError:
                found -= 1
    return found
