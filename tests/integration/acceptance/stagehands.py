"""A stage on which jobs appear and wait for their cue, so that a test decides what happens when.

Jobs come from any process and say what they hold; the stage, in the test's process, is the one clock. Between
appearing and its cue a job surely holds its slots, so whatever is on stage at one moment must fit, and share no id.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from limits import LIMIT_S

from grainlike import GVAR, Allocation
from grainlike.resources import NO_ALLOCATION


async def appear(path: str, name: str, *, holds: bool = True) -> None:
    """In an `async def` job: appear, and return at the cue. What outlives its job `holds` nothing."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)  # at once, as the next line: whoever listens there need not come to it
        sock.sendall(_introduction(name, holds=holds))
        await anyio.wait_readable(sock)
        _take_cue(sock)


def appear_blocking(path: str, name: str) -> None:
    """In a plain job: the same."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(_introduction(name))
        _take_cue(sock)


def _take_cue(sock: socket.socket) -> None:
    if not sock.recv(1):
        raise ConnectionError("the stage is gone")


def _introduction(name: str, *, holds: bool = True) -> bytes:
    res = GVAR.res if holds else NO_ALLOCATION
    ids = {kind: list(numbers) for kind, numbers in res.ids.items()}
    facts = {"name": name, "units": dict(res.units), "ids": ids, "pid": os.getpid(), "instance": GVAR.instance}
    return json.dumps(facts).encode() + b"\n"


async def _heard(sock: socket.socket) -> bytes:
    """Return what comes next; nothing when the other end has gone."""
    await anyio.wait_readable(sock)
    try:
        return sock.recv(65536)
    except ConnectionError:
        return b""


@dataclass
class Actor:
    """One job on stage, and what it said of itself."""

    name: str
    units: dict[str, int]
    ids: dict[str, list[int]]
    pid: int
    instance: str | None
    sock: socket.socket

    @property
    def cores(self) -> tuple[int, ...]:
        return tuple(self.ids.get("cores", ()))


@dataclass
class Stage:
    """The test's side. `log` is the order of ("begin", name) and ("cue", name)."""

    path: str
    log: list[tuple[str, str]] = field(default_factory=list)
    capacity: dict[str, int] | None = None
    """What all jobs on stage together may hold; None for no check."""
    _on: dict[str, Actor] = field(default_factory=dict)
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _faults: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Who is on stage now."""
        return set(self._on)

    @property
    def begun(self) -> list[str]:
        """Who has appeared, in order."""
        return [name for what, name in self.log if what == "begin"]

    def limit(self, offer: Allocation) -> None:
        """Check that what is on stage never exceeds `offer`."""
        self.capacity = dict(offer.units)

    async def serve(self, listener: socket.socket) -> None:
        """Let jobs appear until it is cancelled.

        On plain sockets: on asyncio a read from anyio's fails when it is cancelled in the turn in which its bytes come.
        """
        async with anyio.create_task_group() as actors:
            while True:
                await anyio.wait_readable(listener)
                sock, _ = listener.accept()
                actors.start_soon(self._attend, sock)

    async def _attend(self, sock: socket.socket) -> None:
        with sock:
            await self._play(sock)

    async def _play(self, sock: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\n"):
            if not (more := await _heard(sock)):
                return  # killed before it had said a word
            data += more
        actor = Actor(**json.loads(data), sock=sock)
        self._on[actor.name] = actor
        self.log.append(("begin", actor.name))
        self._check(actor)
        self._change()
        # A job that is killed on stage leaves it without a cue.
        await _heard(sock)
        if self._on.get(actor.name) is actor:
            del self._on[actor.name]
            self.log.append(("gone", actor.name))
        self._change()

    def _check(self, new: Actor) -> None:
        others = [actor for actor in self._on.values() if actor is not new]
        for actor in others:
            for kind, ids in new.ids.items():
                if kind == "cores" and set(ids) & set(actor.ids.get(kind, ())):
                    self._faults.append(f"{new.name} and {actor.name} share {kind} {ids}")
        for kind, capacity in (self.capacity or {}).items():
            held = sum(actor.units.get(kind, 0) for actor in self._on.values())
            if held > capacity:
                self._faults.append(f"{held} of {capacity} {kind} are held")

    def _change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait_for(self, *names: str) -> list[Actor]:
        """Return when all of these are on stage together."""
        with anyio.fail_after(LIMIT_S):
            while not self.names.issuperset(names):
                await self._changed.wait()
        self.applaud()
        return [self._on[name] for name in names]

    async def wait_for_count(self, count: int) -> set[str]:
        """Return when this many are on stage together: their names."""
        with anyio.fail_after(LIMIT_S):
            while len(self._on) < count:
                await self._changed.wait()
        self.applaud()
        return self.names

    async def wait_gone(self, name: str) -> None:
        """Return when this one left without a cue."""
        with anyio.fail_after(LIMIT_S):
            while ("gone", name) not in self.log:
                await self._changed.wait()

    async def wait_empty(self) -> None:
        """Return when nobody is on stage."""
        with anyio.fail_after(LIMIT_S):
            while self._on:
                await self._changed.wait()

    async def cue(self, *names: str) -> None:
        """Let these go on."""
        for name in names:
            actor = self._on.pop(name)
            self.log.append(("cue", name))
            actor.sock.send(b".")
            await anyio.lowlevel.checkpoint()

    async def cue_all(self) -> None:
        """Let everybody on stage go on."""
        await self.cue(*sorted(self._on))

    def applaud(self) -> None:
        """Fail if what was on stage at any moment was too much."""
        assert not self._faults, self._faults
