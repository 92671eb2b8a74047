"""Pools on the real Slurm, for tests: executors with pools, jobs that wait, programs in place of Slurm's, heads."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from limits import LIMIT_S
from waiting import until, until_called, until_files

from grainlike import Cores, Executor, delayed
from grainlike.head.fleet import FleetDriver
from grainlike.launch import Slurm

__all__ = [
    "Gate",
    "HeadProgram",
    "Instead",
    "Submitted",
    "command",
    "ended",
    "gate",
    "instead",
    "often_listed",
    "opened",
    "pool_row",
    "private_state",
    "slurm_pool",
    "submitted",
    "until_counted",
    "until_up",
    "where",
]


def slurm_pool(resources="cores=1", **keys):
    """Return a pool whose blocks last five minutes, unless said otherwise."""
    return Slurm(resources, **{"walltime": "0:05:00", **keys})


@asynccontextmanager
async def opened(launch=None, limit_s=LIMIT_S):
    """Open an executor without cores of its own, with pools, which workers reach on loopback."""
    async with asyncio.timeout(limit_s), Executor(local=None, listen="tcp://127.0.0.1:0", launch=launch) as executor:
        yield executor


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    """Access files, and scripts and logs of blocks, are a test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def often_listed(monkeypatch):
    """Slurm is asked every second, and jobs of a new function want slots each at once: what follows from a listing or
    a count is tried here, not how long one waits for it. Heads wait for Slurm however long it takes.
    """
    for name in ("YOUNG_PERIOD_S", "PERIOD_S", "LEAVING_PERIOD_S"):
        monkeypatch.setattr(f"grainlike.fleet._listing.{name}", 1.0)
    monkeypatch.setattr("grainlike.scheduler._scale_hint.TRIAL_S", 0.0)
    for name in ("ASK_S", "CLOSE_S"):
        monkeypatch.setattr(f"grainlike.head.fleet._driver.{name}", LIMIT_S)


class Submitted:
    """Jobs that Slurm took since this test began."""

    def __init__(self, slurm):
        self._slurm = slurm
        self._before = {number for number, _ in slurm.jobs()}

    def all(self):
        """Return id and state of each that Slurm still knows: those too that have ended in the last minute."""
        return [(number, state) for number, state in self._slurm.jobs() if number not in self._before]

    def in_queue(self):
        """Return the ids of those that have not ended."""
        queue = self._slurm.say("squeue", "-h", "-o", "%i").split()
        return [number for number in queue if number not in self._before]


@pytest_asyncio.fixture
async def submitted(slurm):
    """Jobs that Slurm took in a test, which fails if any is left in the queue."""
    jobs = Submitted(slurm)
    yield jobs
    left = jobs.in_queue()
    if left:
        slurm.say("scancel", *left)
    assert left == []


def ended(executor):
    """Return the blocks that have ended."""
    return [row for row in executor._service._service.launched.view.block_rows(ended=True) if row.state == "ended"]


def pool_row(executor):
    """Return the row of the only pool."""
    (row,) = executor.pools()
    return row


async def until_up(executor, count=1):
    """Return the blocks once all of them are up, with so many workers, and their ids are known: a worker may join
    before the submission is answered.
    """

    def all_up():
        rows = executor.blocks()
        found = sum(row.workers for row in rows) == count and {row.state for row in rows} == {"up"}
        return rows if found and all(row.native for row in rows) else None

    return await until(all_up)


async def until_counted():
    """Return once a head has counted twice anew how many workers its jobs want."""
    counts = itertools.count()
    await until_called(FleetDriver, "_count", lambda: next(counts) >= 3)


class Gate:
    """Jobs that wait for a file, and say by a file each that they run."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def job(self, number=0):
        """Return a call of one core that ends once the gate is open; its value is the Slurm job it ran in."""
        return (_wait_at @ Cores(1))(str(self.folder), number)

    def attempts(self, number=0):
        """Return how often a job was started."""
        return len(list(self.folder.glob(f"{number}-*")))

    async def until_started(self, number=0, attempts=1):
        """Return once a job has been started so often."""
        await until_files(self.folder, lambda: self.attempts(number) >= attempts)

    async def until_in(self, count):
        """Return once jobs have been started in so many Slurm jobs: workers that are up may have none yet."""

        def found():
            return {path.name.partition("-")[2] for path in self.folder.glob("*-*")}

        await until_files(self.folder, lambda: len(found()) >= count)

    def open(self):
        """Let the jobs end."""
        (self.folder / "open").touch()


@delayed
async def _wait_at(folder, number):
    here = Path(folder)
    (here / f"{number}-{os.environ['SLURM_JOB_ID']}").touch()
    while not (here / "open").exists():  # noqa: ASYNC110 - a process of its own, which nothing tells
        await asyncio.sleep(0.02)
    return os.environ["SLURM_JOB_ID"]


@pytest.fixture
def gate(tmp_path):
    """Gate at which jobs wait."""
    return Gate(tmp_path / "gate")


@delayed
def where():
    """Return the Slurm job."""
    return os.environ["SLURM_JOB_ID"]


class Instead:
    """Program that is found in place of one of Slurm's, until `stop`; what it does is shell text."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        folder.mkdir()
        self._path = os.environ["PATH"]
        monkeypatch.setenv("PATH", f"{folder}:{self._path}")

    def of(self, name, text):
        """Have calls of `name` run this text; `$REAL` is the program itself."""
        real = shutil.which(name, path=self._path)
        program = self.folder / name
        fresh = program.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\nREAL={real}\necho called >> {self.folder}/{name}.calls\n{text}\n")
        fresh.chmod(0o755)
        fresh.replace(program)

    def calls(self, name):
        """Return how often it was called."""
        path = self.folder / f"{name}.calls"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """Programs in place of Slurm's."""
    return Instead(tmp_path / "bin", monkeypatch)


OFTEN = f"""\
import sys
from grainlike.cli import main
from grainlike.fleet import _endings, _listing
from grainlike.head.fleet import _driver
_listing.YOUNG_PERIOD_S = _listing.PERIOD_S = _listing.LEAVING_PERIOD_S = 1.0
_endings.HOLD_S = 0.1
_driver.CLOSE_S = {LIMIT_S}
sys.exit(main())
"""
"""Head that asks Slurm every second, hardly waits after an early death, and waits for all blocks when it closes."""


class HeadProgram:
    """`grainlike head start` with a journal, as a process of its own that may be killed.

    `before`: words before its command, which say where it runs.
    """

    def __init__(self, folder, *before, listen="tcp://127.0.0.1:0"):
        self._words = (*before, sys.executable, "-c", OFTEN, "head", "start", "--listen", listen)
        self._words += ("--journal", str(folder))
        self._before = before

    async def start(self):
        """Start it; return once it listens."""
        self.process = await asyncio.create_subprocess_exec(
            *self._words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert (await self.process.stdout.readline()).startswith(b"head at ")

    async def kill(self):
        """End it as a crash would."""
        self.process.kill()
        await self.process.wait()

    async def stop(self):
        """End it with its blocks."""
        await self.command("head", "stop")
        await self.process.wait()

    async def command(self, *words):
        """Run a command of ours beside it; return what it printed."""
        return await command(*words, before=self._before)


async def command(*words, before=()):
    """Run a command of ours; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *before, sys.executable, "-m", "grainlike", *words, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()
