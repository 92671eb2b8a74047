"""A head with a journal, workers and clients, each a process, and all that can befall them, drawn from a seed.

One number decides which faults come, in which order and after which pauses, so a seed that found something plays the
same faults again. What falls between them the machine decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
from histories import OVER, Record, note
from limits import LIMIT_S
from msgspec.structs import replace
from ports import free_port
from waiting import still_running, until_files
from weather import Weather

from grainlike.net import TcpAddress, find_access, write_access

__all__ = ["FAULTS", "Fault", "Town", "draw"]

ROOT = Path(__file__).parents[2]
ORPHAN_S = 60.0
"""How long after its end something may run that belongs to a process which was killed."""

_HEAD = """
import sys
from grainlike.head.durable import _store
_store.IMAGE_BYTES, _store.IMAGE_TIMES, _store.LOOK_S = 200_000, 1, 0.1
from grainlike.cli import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Fault:
    """Something that befalls the town after a pause, in seconds; `which` chooses whom."""

    pause: float
    name: str
    which: float


def draw(seed: int, count: int, names: list[str], pause: float) -> list[Fault]:
    """The faults of a seed."""
    dice = random.Random(seed)
    return [Fault(dice.random() * 2 * pause, dice.choice(names), dice.random()) for _ in range(count)]


@dataclass
class Town:
    """See the module. `async with Town(folder, seed) as town:`, then `befall` and `settle`."""

    folder: Path
    seed: int
    workers: int = 2
    clients: int = 2
    jobs: int = 100
    """How many each client wants at least; it goes on wanting while faults fall."""
    at_once: int = 30
    kills: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.history = self.folder / "history"
        self.history.touch(mode=0o600)
        self.journal = self.folder / "journal"
        self._port = free_port()  # nobody else is given it while there is no head
        self._dice = random.Random(self.seed)
        self._numbers: Counter[str] = Counter()
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, subprocess.Popen[bytes]] = {}
        self._all: list[subprocess.Popen[bytes]] = []
        self._log = (self.folder / "log").open("ab")
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "worker", Path(__file__).parent))),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    # --- its people --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        try:
            await self._open()
        except BaseException:
            await self.__aexit__()  # else its head would outlive the tests
            raise
        return self

    async def _open(self) -> None:
        await self._start_head()
        self._weather = await self._stack.enter_async_context(Weather(self._port))
        for _ in range(self.workers):
            self._start_worker()
        for _ in range(self.clients):
            self._start_client()

    async def __aexit__(self, *_: object) -> None:
        for process in self._all:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stdin):
                if pipe is not None:
                    pipe.close()
        await self._stack.aclose()
        self._log.close()

    def _start(self, *arguments: object, out: int | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log if out is None else out,
            stderr=self._log,
        )
        self._all.append(process)
        return process

    def _name(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}{self._numbers[kind]}"

    async def _start_head(self) -> None:
        listen = f"tcp://127.0.0.1:{self._port}"
        words = ("head", "start", "--listen", listen, "--journal", self.journal)
        self._head = self._start("-c", _HEAD, *words, out=subprocess.PIPE)
        assert self._head.stdout is not None
        said = await asyncio.to_thread(self._head.stdout.readline)
        assert said.startswith(f"head at {listen}".encode()), f"the head does not start: see {self._log.name}"

    def _start_worker(self) -> None:
        name = self._name("w")
        words = ("start", "--wait", "--head", self._way("worker"), "--name", name, "--resources", "cores=2")
        self._workers[name] = self._start("-m", "grainlike", "worker", *words)

    def _start_client(self) -> None:
        name = self._name("c")
        words = (self.history, name, self._way("client"), self.jobs, self.at_once, self._dice.getrandbits(32))
        self._clients[name] = self._start(Path(__file__).parent / "client_program.py", *words)

    def _way(self, role: str) -> Path:
        """An access file by which one dials through the weather."""
        path = self.folder / "through" / f"{role}.json"
        if not path.exists():
            access = find_access(self.journal / "access" / f"{role}.json")
            write_access(replace(access, addresses=(TcpAddress("127.0.0.1", self._weather.port),)), path)
        return path

    # --- what befalls them -------------------------------------------------------------------------------------------

    async def until_begun(self) -> None:
        """Wait until a job has begun: before that there is nothing to lose."""
        await until_files(self.folder, lambda: '"begin"' in self.history.read_text())

    async def befall(self, faults: list[Fault]) -> None:
        """Let all of this happen, after pauses that are drawn as the faults are: they are no waits for anything."""
        for fault in faults:
            await asyncio.sleep(fault.pause)
            self.kills[fault.name] += 1
            await FAULTS[fault.name](self, fault.which)

    def _falls(self, who: str) -> None:
        note(self.history, Record("falls", who=who))

    async def kill_head(self, _: float) -> None:
        self._head.kill()
        self._head.wait()
        await self._start_head()

    async def end_head(self, _: float) -> None:
        self._head.terminate()
        code = await asyncio.to_thread(self._head.wait, LIMIT_S)
        assert code == 0, f"a head that was told to stop ended with {code}"
        await self._start_head()

    async def kill_image(self, _: float) -> None:
        """Kill the child of the head's that writes an image, if there is one just now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._head.pid).children():
                child.kill()

    async def kill_worker(self, which: float) -> None:
        name = _chosen(sorted(self._workers), which)
        process = self._workers.pop(name)
        below = _tree(process.pid)
        self._falls(name)
        process.kill()
        process.wait()
        self._start_worker()
        await self._look_for_orphans(name, below)

    async def kill_runner(self, which: float) -> None:
        """Kill a process that runs jobs."""
        name = _chosen(sorted(self._workers), which)
        running = [process for process in _tree(self._workers[name].pid) if _is_runner(process)]
        if running:
            runner = _chosen(running, which * 7 % 1)
            self._falls(f"p{runner.pid}")
            with contextlib.suppress(psutil.NoSuchProcess):
                runner.kill()

    async def kill_client(self, which: float) -> None:
        name = _chosen(sorted(self._clients), which)
        process = self._clients.pop(name)
        self._falls(name)
        process.kill()
        process.wait()
        self._start_client()

    async def kill_head_and_worker(self, which: float) -> None:
        self._head.kill()
        await self.kill_worker(which)
        self._head.wait()
        await self._start_head()

    async def kill_head_and_client(self, which: float) -> None:
        self._head.kill()
        await self.kill_client(which)
        self._head.wait()
        await self._start_head()

    async def freeze_head(self, which: float) -> None:
        await self._freeze(self._head.pid, which)

    async def freeze_worker(self, which: float) -> None:
        await self._freeze(self._workers[_chosen(sorted(self._workers), which)].pid, which)

    async def _freeze(self, pid: int, which: float) -> None:
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(which)
        os.kill(pid, signal.SIGCONT)

    async def reset(self, _: float) -> None:
        self._weather.reset()

    async def cut(self, _: float) -> None:
        self._weather.cut()

    async def black_hole(self, which: float) -> None:
        """Nothing comes through for a while; then all links break."""
        self._weather.swallow()
        await asyncio.sleep(which)
        self._weather.reset()
        self._weather.clear_up()

    # --- afterwards --------------------------------------------------------------------------------------------------

    async def settle(self, within: float) -> None:
        """Wait until all clients have been told all; then end the head, and the workers with it."""
        (self.folder / OVER).touch()
        end = time.monotonic() + within
        for name, client in self._clients.items():
            code = await asyncio.to_thread(client.wait, max(0.0, end - time.monotonic()))
            assert code == 0, f"client {name} ended with {code}: see {self._log.name}"
        below = [process for worker in self._workers.values() for process in _tree(worker.pid)]
        self._head.send_signal(signal.SIGINT)
        for process in (self._head, *self._workers.values()):
            code = await asyncio.to_thread(process.wait, LIMIT_S)
            assert code == 0, f"{process.args} ended with {code}: see {self._log.name}"
        await self._look_for_orphans("the town", below)

    async def _look_for_orphans(self, who: str, below: list[psutil.Process]) -> None:
        for pid in await asyncio.to_thread(still_running, [process.pid for process in below], ORPHAN_S):
            note(self.history, Record("left", process=f"p{pid}", who=who))

    @property
    def said(self) -> str:
        """What all of them have logged."""
        return Path(self._log.name).read_text()

    @property
    def traceback(self) -> str:
        """The first traceback that any of them has logged, with the lines before it; empty where there is none."""
        before, found, after = self.said.partition("Traceback")
        return "\n".join([*before.splitlines()[-4:], found + after[:4000]]) if found else ""


FAULTS: dict[str, Callable[[Town, float], object]] = {
    name: getattr(Town, name)
    for name in (
        *("kill_head", "end_head", "kill_image", "kill_worker", "kill_runner", "kill_client"),
        *("kill_head_and_worker", "kill_head_and_client", "freeze_head", "freeze_worker", "reset", "cut"),
        "black_hole",
    )
}


def _chosen(things: list, which: float):
    return things[int(which * len(things))]


def _tree(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_runner(process: psutil.Process) -> bool:
    """Not the keeper, of whose death its worker dies."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return len(process.parents()) > 2 and not process.children()
    return False
