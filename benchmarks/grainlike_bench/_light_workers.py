"""Many workers in one process: all of a worker but the processes that run jobs.

Each has a connection of its own, the daemon's own code, and the scheduler of a node. Its runners live in this process
and call nothing: they say that jobs are done, at once or after as long as each is to take.

It does what it reads on standard input, a line each: `seconds X`, how long each job takes from now on, before which
none ends; `cut`, break all connections; `away`, expect that they break. On standard output it says when all workers
have joined, and after a `cut` or `away` when all have been let in again, and when all have got jobs since then that
they never had before.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence

import anyio

from grainlike.net import ByteLink, HeadLocator, OnFrames, ReconnectingLink, find_access
from grainlike.payload import dump_value
from grainlike.resources import Cores
from grainlike.scheduler import NodeScheduler, RunnerGone, RunnerKind
from grainlike.wire import (
    LOST_S,
    Assign,
    Buffer,
    Code,
    Completed,
    Frame,
    Message,
    Parcel,
    Run,
    StopReason,
    Welcome,
    pack_parcels,
)
from grainlike_worker.daemon._connect import wait_for_head
from grainlike_worker.daemon._daemon import _Daemon
from grainlike_worker.daemon._introduction import introduction
from grainlike_worker.daemon._output import Tap
from grainlike_worker.daemon._probe import offer_of_daemon, topology

CORES = 2
"""What each offers: logical cores, to which nothing is pinned."""

_RESET = struct.pack("ii", 1, 0)
"""`SO_LINGER` by which closing a socket breaks its connection rather than ends it."""

_DOOR = 64
"""How many dial for the first time at once."""


class Crowd:
    """All workers here. `tell` says something to whoever started this process."""

    def __init__(self, count: int, tell: Callable[[str], None]) -> None:
        self.count = count
        self.begun = anyio.Event()
        self.seconds = 0.0
        """How long a job takes, once they have `begun`."""
        self.links: list[ByteLink | None] = [None] * count
        self._tell = tell
        self._awaited: dict[str, set[int]] = {"joined": set(range(count))}

    def came(self, what: str, worker: int) -> None:
        """This has come to one of them; when it has to all, that is told."""
        waited = self._awaited.get(what)
        if waited is not None:
            waited.discard(worker)
            if not waited:
                del self._awaited[what]
                self._tell(what)

    def expect(self) -> None:
        """From now on it is waited for the return of all."""
        self._awaited = {"returned": set(range(self.count)), "given jobs": set(range(self.count))}

    def waits_for(self, what: str, worker: int) -> bool:
        """Whether this one still waits for that."""
        return worker in self._awaited.get(what, ())

    def cut(self) -> None:
        """Break all connections, as a network does."""
        self.expect()
        for link in filter(None, self.links):
            with socket.socket(fileno=socket.dup(link.fileno())) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            link.close("cut")


class LightLink(ReconnectingLink):
    """The link of worker `number`; the crowd hears what comes over it."""

    def __init__(self, first: ByteLink, way: HeadLocator, crowd: Crowd, number: int) -> None:
        super().__init__(first, way.again, LOST_S)
        self._crowd = crowd
        self._number = number
        self._last_job = 0
        self.returned = lambda: crowd.came("returned", number)
        self.carried_by(lambda link: crowd.links.__setitem__(number, link))

    async def run(self, on_frames: OnFrames) -> None:
        def hear(frames: list[Frame]) -> None:
            for message, _ in frames:
                if isinstance(message, Assign):
                    self._assigned(message)
                elif isinstance(message, Welcome):
                    self._crowd.came("joined", self._number)
            on_frames(frames)

        await super().run(hear)

    def _assigned(self, message: Assign) -> None:
        last = max(message.jobs)
        if last > self._last_job and not self._crowd.waits_for("returned", self._number):
            self._crowd.came("given jobs", self._number)
        self._last_job = max(self._last_job, last)


class LightRunner:
    """A runner that calls nothing; see `RunnerBody`."""

    leave_s = 0.0

    def __init__(self, crowd: Crowd, value: Parcel) -> None:
        self.defined: set[int] = set()
        self._crowd = crowd
        self._value = value
        self._ended = anyio.Event()
        self._barred = False
        self._lease: Run | None = None
        self._at = 0
        self._on_frames: OnFrames

    async def run(self, on_frames: OnFrames) -> str:
        await self._crowd.begun.wait()
        self._on_frames = on_frames
        if self._lease is not None:
            self._begin()
        await self._ended.wait()
        return "it was told to"

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if isinstance(message, Run):
            self._lease, self._at = message, 0
            if hasattr(self, "_on_frames"):
                self._begin()

    enqueue = post

    def flush(self) -> None:
        """Do nothing: a lease begins when it is enqueued."""

    def _begin(self) -> None:
        asyncio.get_running_loop().call_later(self._crowd.seconds, self._next)

    def _next(self) -> None:
        """A job is done; or all are, where they take no time."""
        lease = self._lease
        if lease is None or self._ended.is_set():
            return
        first, self._at = self._at, self._at + 1 if self._crowd.seconds else len(lease.jobs)
        codes = [Code.SUCCEEDED] * (self._at - first)
        if self._barred:
            codes += [Code.RETURNED] * (len(lease.jobs) - self._at)
            self._at = len(lease.jobs)
        if self._at == len(lease.jobs):
            self._lease = None
        else:
            self._begin()
        self._on_frames([self._completed(lease, first, codes)])

    def _completed(self, lease: Run, first: int, codes: list[Code]) -> Frame:
        rows, now = len(codes), time.monotonic()
        parcels = [self._value if code is Code.SUCCEEDED else (b"", ()) for code in codes]
        data, counts, buffers = pack_parcels(parcels)
        seconds = self._crowd.seconds or 1e-5
        message = Completed(
            lease.lease,
            lease.jobs[first : first + rows],
            lease.attempts[first : first + rows],
            [int(code) for code in codes],
            [now - seconds] * rows,
            [seconds] * rows,
            [0.0] * rows,
            [0] * rows,
            data,
            counts,
            now,
        )
        return Frame(message, buffers)

    def started(self) -> int:
        return -1 if self._lease is None else self._at

    def gone(self, runner: int, how: str) -> RunnerGone:
        return RunnerGone(runner, how, self.started())

    def held_at(self, lease: int) -> int | None:
        return self.started() if self._lease is not None and self._lease.lease == lease else -1

    def claimed_for(self) -> float:
        return 0.0

    def stepping(self) -> tuple[int, float] | None:
        return None

    def at_work(self) -> tuple[int, Sequence[int]]:
        return 0, ()

    async def stack(self) -> str:
        return ""

    def works_on(self, lease: int, jobs: Sequence[int], attempts: Sequence[int]) -> int:
        """It writes nothing."""
        return 0

    def works_on_only(self, position: int) -> None:
        """See `works_on`."""

    def drain(self) -> None:
        """See `works_on`."""

    def bar(self) -> None:
        self._barred = True

    def unbar(self) -> None:
        self._barred = False

    def terminate(self, reason: StopReason) -> None:
        self._ended.set()

    def kill(self) -> None:
        self._ended.set()


async def serve(access: str, crowd: Crowd) -> None:
    """Be all the workers, until the head has closed."""
    payload = dump_value(None)
    value: Parcel = (bytes(payload.data), payload.buffers)
    offer, layout, door = offer_of_daemon(Cores(range(CORES))), topology(), anyio.CapacityLimiter(_DOOR)

    def make(kind: RunnerKind, named: Callable[[int], None], tap: Tap) -> LightRunner:
        return LightRunner(crowd, value)

    async def one(number: int) -> None:
        way = HeadLocator(lambda: find_access(access), insecure=False)
        async with door:
            first = await wait_for_head(way, anyio.Event(), math.inf)
        assert first is not None
        link = LightLink(first, way, crowd, number)
        hello = introduction(f"light{number}", offer, lasting=True)
        await _Daemon(link, NodeScheduler(offer, layout), hello, make, show=None).run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_obey, crowd, tasks.cancel_scope)
        async with anyio.create_task_group() as workers:
            for number in range(crowd.count):
                workers.start_soon(one, number)
        tasks.cancel_scope.cancel()


async def _obey(crowd: Crowd, all_of_it: anyio.CancelScope) -> None:
    """Do what is read on standard input, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).split():
        if line[0] == b"seconds":
            crowd.seconds = float(line[1])
            crowd.begun.set()
        elif line[0] == b"cut":
            crowd.cut()
        elif line[0] == b"away":
            crowd.expect()
        print("ok", flush=True)
    all_of_it.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description="Be many workers, without processes that run jobs.")
    parser.add_argument("access", help="the path of worker.json")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    crowd = Crowd(options.count, lambda what: print(what, flush=True))
    anyio.run(serve, options.access, crowd)


if __name__ == "__main__":
    main()
