"""Pools of machines by SSH in the hands of a test: executors, jobs, and what is left on the machines."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from limits import LIMIT_S
from waiting import until, until_files

from grainlike import Cores, Executor, delayed
from grainlike.launch import SSH

__all__ = [
    "Gate",
    "HeadProgram",
    "ended",
    "left_on",
    "opened",
    "pool_row",
    "run_words",
    "ssh_pool",
    "until_nothing_is_left",
    "until_up",
    "where",
]


def ssh_pool(ssh, *machines, resources="cores=1", **keys):
    """Return a pool on machines, as many workers at most as there are, unless said otherwise."""
    names = [machine if isinstance(machine, str) else machine.name for machine in machines]
    return SSH(resources, **{"hosts": names, "native": ssh.native(), "max": len(names), **keys})


@asynccontextmanager
async def opened(launch=None):
    """Open an executor without cores of its own, which workers reach on loopback."""
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0", launch=launch) as executor:
        yield executor


def ended(executor):
    """Return the blocks that have ended."""
    return [row for row in executor._service._service.launched.view.block_rows(ended=True) if row.state == "ended"]


def pool_row(executor):
    """Return the row of the only pool."""
    (row,) = executor.pools()
    return row


async def until_up(executor, count=1):
    """Return the blocks once all of them are up, with so many workers, and their ids and places are known: a worker may
    join before the submission is answered.
    """

    def all_up():
        rows = executor.blocks()
        found = sum(row.workers for row in rows) == count and {row.state for row in rows} == {"up"}
        return rows if found and all(row.native and row.nodes for row in rows) else None

    return await until(all_up)


async def left_on(*machines):
    """Return what blocks have left on machines by now: processes, files and directories, each with its machine.

    The far end of a connection that has just been closed ends a moment later: that is waited for.
    """
    found = _left_now(*machines)
    await until(lambda: not any(machine.commands() for machine in machines))
    return found


async def until_nothing_is_left(*machines):
    """Return once nothing is left, by nobody's doing but that of what runs there."""
    await until(lambda: not _left_now(*machines))
    await until(lambda: not any(machine.commands() for machine in machines))


def _left_now(*machines):
    found = []
    for machine in machines:
        there = [*machine.processes().items(), *machine.files(), *map(str, machine.blocks())]
        found += [(machine.name, thing) for thing in there]
    return found


@delayed
def where():
    """Return the name of the machine."""
    return socket.gethostname()


class Gate:
    """Jobs that wait for a file, and say by a file each that they run."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def job(self, number=0):
        """Return a call of one core that ends once the gate is open; its value is the machine it ran on."""
        return (_wait_at @ Cores(1))(str(self.folder), number)

    def attempts(self, number=0):
        """Return how often a job was started."""
        return len(list(self.folder.glob(f"{number}-*")))

    async def until_started(self, number=0, attempts=1):
        """Return once a job has been started so often."""
        await until_files(self.folder, lambda: self.attempts(number) >= attempts)

    async def until_on(self, count):
        """Return once jobs have been started on so many machines: workers that are up may have none yet."""

        def found():
            return {path.name.split("-")[1] for path in self.folder.glob("*-*")}

        await until_files(self.folder, lambda: len(found()) >= count)

    def open(self):
        """Let the jobs end."""
        (self.folder / "open").touch()


@delayed
async def _wait_at(folder, number):
    here = Path(folder)
    (here / f"{number}-{socket.gethostname()}-{os.getpid()}").touch()
    while not (here / "open").exists():  # noqa: ASYNC110 - a process of its own, which nothing tells
        await asyncio.sleep(0.02)
    return socket.gethostname()


class HeadProgram:
    """A head as a process of its own that may be killed, on a machine whose home directory is `home`."""

    def __init__(self, ssh, home, *options):
        self._ssh, self._home, self._options = ssh, home, options
        self.path, self.folder = os.environ["PATH"], home

    def _words(self, *words):
        return self._ssh.with_home(self._home, [sys.executable, "-m", "grainlike", *words])

    async def start(self):
        """Start it; return once it listens."""
        words = self._words("head", "start", "--listen", "tcp://127.0.0.1:0", *self._options)
        self.process = await asyncio.create_subprocess_exec(
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environment(),
            cwd=self.folder,
        )
        assert (await self.process.stdout.readline()).startswith(b"head at ")

    async def command(self, *words):
        """Run a command of ours beside it; return what it printed."""
        return await run_words(*self._words(*words), env=self._environment(), cwd=self.folder)

    def _environment(self):
        kept = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"}
        return {**kept, "PATH": self.path}

    async def kill(self):
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self):
        """End it with its blocks."""
        await self.command("head", "stop")
        await self.process.wait()


async def run_words(*words, **options):
    """Run a command; return what it printed."""
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, **options)
    out, _ = await process.communicate()
    return out.decode()
