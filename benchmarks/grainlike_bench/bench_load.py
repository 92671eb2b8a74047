"""One head under load: many workers, a long queue, and all connections broken at once; without a journal and with one.

The head is a process of its own, with TLS. The workers are real but for the processes that run jobs, and share one
process (`_light_workers`); a program submits the jobs through `connect()`. Sizes for a release::

    python -m grainlike_bench.bench_load --workers 300 --jobs 300000

*Memory* is what the head's process grew by while all jobs were queued and no worker was there, for each job.

*Stalls*: every 20 ms, whether the last one was answered or not, the head is asked for its sessions, over a connection
of its own. The round trip includes the connection, the asking process's own turn, and waiting for a core that others
use; so a head that has nothing to do is asked beside it, and its figures are what the machine adds to a process that
sleeps. *CPU* is what the head's process used while a question waited: what the round trip would be at least, and about,
on a core of its own.

*Back* is when the last worker was let in again after all connections broke, *working* when each had been given a job
that it never had before.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import anyio

from grainlike.client import HeadClient, call
from grainlike.wire import AskReport, AskSessions, ReportIs, SessionsAre
from grainlike_bench._light_workers import CORES
from grainlike_bench._processes import cpu_seconds

WORKERS = 50
JOBS = 20_000
PACE_S = 0.02
"""How often the head is asked."""

LONG_S = 2.0
"""How long jobs take while connections break."""

ROUNDS = 20
"""How many of them each core has before it."""

SETTLE_S = 2.0

STORM_S = 60.0
"""How long it may take until all work again."""


@dataclass
class Phase:
    """What was measured while something went on."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    trips: list[tuple[float, float]] = field(default_factory=list)
    beside: list[tuple[float, float]] = field(default_factory=list)
    """Of each question, how long its answer took and the head's CPU time meanwhile."""
    words: str = ""

    def __str__(self) -> str:
        waits, used = zip(*self.trips, strict=True)
        figures = (*_spread(waits), *_spread(used)[1:], _spread([wait for wait, _ in self.beside])[1])
        stalls = " ".join(f"{part:>7.1f}" for part in figures)
        return f"  {self.name:<26} {self.seconds:>7.1f} {self.cpu:>7.1f}  {stalls}  {self.words}"


_TITLES = " ".join(f"{title:>7}" for title in ("s", "CPU s", " p50 ms", "p99", "max", "CPU p99", "max", "beside"))


def _spread(seconds: Sequence[float]) -> list[float]:
    """Median, 99th percentile and maximum, in ms."""
    ordered = sorted(seconds)
    return [ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3 for part in (0.5, 0.99, 1.0)]


class Head:
    """A head in a process of its own, with files of its own below `folder`."""

    def __init__(self, folder: Path, *, journal: bool) -> None:
        self.folder = folder
        self._journal = journal
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

    async def start(self) -> float:
        """Start it, anew if it was killed; how many seconds that took."""
        begun = time.monotonic()
        words = ["--journal", str(self.folder / "journal")] if self._journal else []
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - it takes a moment
                [sys.executable, "-m", "grainlike", "head", "start", "--listen", "tcp://127.0.0.1:0", *words],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        said = await asyncio.to_thread(self.process.stdout.readline)
        assert said.startswith(b"head at "), f"the head does not start: see {self.folder}/log"
        return time.monotonic() - begun

    def access(self, role: str) -> Path:
        """The access file of a role."""
        where = self.folder / "journal" / "access" if self._journal else self.folder / "state" / "grainlike" / "current"
        return where / f"{role}.json"

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.communicate()

    @property
    def memory(self) -> int:
        """Bytes of it that are in memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu(self) -> float:
        """Seconds of CPU time that it has used."""
        return cpu_seconds([self.process.pid])


class Other:
    """Another process of this benchmark's, which speaks in lines."""

    def __init__(self, module: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"grainlike_bench.{module}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    async def says(self, word: str) -> str:
        """Wait until it says a line that begins so."""
        assert self._process.stdout is not None
        while line := await asyncio.to_thread(self._process.stdout.readline):
            if line.startswith(word):
                return line.strip()
        raise RuntimeError(f"a process ended with code {self._process.wait()}, which was to say {word!r}")

    def told(self, words: str) -> None:
        """Tell it something."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class Town:
    """Everybody: a head, one beside it that has nothing to do, and who asks both."""

    def __init__(self, folder: Path, *, journal: bool) -> None:
        for name in ("head", "beside"):
            (folder / name).mkdir()
        self.head = Head(folder / "head", journal=journal)
        self._beside = Head(folder / "beside", journal=False)
        self.phases: list[Phase] = []

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self.head.start()
        await self._beside.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self.head.kill()
        self._beside.kill()

    def process(self, module: str, *arguments: object) -> Other:
        """Start another process, which ends with this."""
        other = Other(module, *arguments)
        self._stack.callback(other.end)
        return other

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[Phase]:
        """Ask both heads all the time while something goes on."""
        phase = Phase(name)
        async with (
            call(self.head.access("client")) as head,
            call(self._beside.access("client")) as beside,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_probe, head, self.head, phase.trips)
            tasks.start_soon(_probe, beside, self._beside, phase.beside)
            begun, used = time.monotonic(), self.head.cpu
            yield phase
            phase.seconds, phase.cpu = phase.seconds or time.monotonic() - begun, self.head.cpu - used
            tasks.cancel_scope.cancel()
        self.phases.append(phase)
        print(phase, flush=True)

    async def unended(self) -> int:
        """How many jobs the head has that have not ended."""
        async with call(self.head.access("client")) as caller:
            return (await caller.ask(AskReport(0), ReportIs)).unended


async def _probe(caller: HeadClient, head: Head, trips: list[tuple[float, float]]) -> None:
    async def ask() -> None:
        begun, used = time.perf_counter(), head.cpu
        try:
            await caller.ask(AskSessions(0), SessionsAre)
        finally:
            trips.append((time.perf_counter() - begun, head.cpu - used))

    due = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        while True:
            tasks.start_soon(ask)
            due += PACE_S
            await anyio.sleep_until(due)


async def measure(workers: int, jobs: int, *, journal: bool) -> None:
    """Let all of it happen to one head."""
    with tempfile.TemporaryDirectory(prefix="grainlike-load-") as folder:
        async with Town(Path(folder), journal=journal) as town:
            print(f"{workers} workers, {jobs} jobs, {'with' if journal else 'without'} a journal\n{'':28} {_TITLES}")
            await _run_queue(town, workers, jobs)


async def _run_queue(town: Town, workers: int, jobs: int) -> None:
    head, before = town.head, town.head.memory
    client = town.process("_load_client", head.access("client"), "short", jobs)
    async with town.phase("jobs come") as phase:
        while await town.unended() < jobs:  # noqa: ASYNC110 - no event tells of it
            await anyio.sleep(0.1)
    async with town.phase("they wait") as phase:
        await anyio.sleep(SETTLE_S)
        phase.words = f"{(head.memory - before) / jobs:,.0f} bytes of the head's memory a job"
    async with town.phase("workers join") as phase:
        light = town.process("_light_workers", head.access("worker"), workers)
        await light.says("joined")
    async with town.phase("jobs run") as phase:
        light.told("seconds 0")
        begun = time.monotonic()
        await client.says("done")
        phase.words = f"{jobs / (time.monotonic() - begun):,.0f} jobs/s"
    await _break_links(town, light, workers)


async def _break_links(town: Town, light: Other, workers: int) -> None:
    head = town.head
    light.told(f"seconds {LONG_S}")
    client = town.process("_load_client", head.access("client"), "long", workers * CORES * ROUNDS)
    await client.says("started")
    async with town.phase("jobs of two seconds"):
        await anyio.sleep(SETTLE_S)
    async with town.phase("connections break") as phase:
        light.told("cut")
        with anyio.fail_after(STORM_S):
            await _until_working(light, phase)
    if head.access("client").parent.name == "access":
        await anyio.sleep(SETTLE_S)
        light.told("away")
        await light.says("ok")
        head.kill()
        began = time.monotonic()
        took = await head.start()
        async with town.phase("the head is killed") as phase:
            with anyio.fail_after(STORM_S):
                await _until_working(light, phase, time.monotonic() - began)
            phase.words += f", it listened after {took:.1f} s"
    light.told("seconds 0")
    await client.says("done")


async def _until_working(light: Other, phase: Phase, since: float = 0.0) -> None:
    begun = time.monotonic() - since
    await light.says("returned")
    back = time.monotonic() - begun
    await light.says("given jobs")
    phase.seconds = time.monotonic() - begun
    phase.words = f"all back after {back:.1f} s, working after {phase.seconds:.1f} s"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="One head under load.")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--journal", choices=["no", "yes", "both"], default="both")
    options = parser.parse_args(arguments)
    for journal in (False, True):
        if options.journal in ("both", "yes" if journal else "no"):
            asyncio.run(measure(options.workers, options.jobs, journal=journal))


if __name__ == "__main__":
    main(sys.argv[1:])
