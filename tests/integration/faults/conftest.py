"""What the tests of faults share: gates that hold jobs until the test says so, real workers, and ways to see an end."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from limits import LIMIT_S
from waiting import still_running as running_after

ROOT = Path(__file__).parents[3]
"""How long anything here may take at most; a test that waits longer has found something that hangs."""


@pytest.fixture(autouse=True)
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "grainlike"


class Visitor:
    """A job that stands at a gate: who it is, and the way to let it go on."""

    def __init__(self, text: str, writer: asyncio.StreamWriter) -> None:
        self.name, pid, *rest = text.split()
        self.pid = int(pid)
        self.rest = rest
        self._writer = writer

    def release(self) -> None:
        self._writer.write(b".")


class Gate:
    """Jobs come to `visit` and wait; the test sees them arrive, in order, and releases them one by one or for good."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.open = False
        self.visits = 0
        self._arrived: asyncio.Queue[Visitor] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []
        self._empty = asyncio.Event()

    async def arrival(self) -> Visitor:
        return await asyncio.wait_for(self._arrived.get(), LIMIT_S)

    async def until_left(self) -> None:
        """Wait until nobody stands there: who was here went on, or has ended."""
        async with asyncio.timeout(LIMIT_S):
            await self._empty.wait()

    def release_all(self) -> None:
        """Let everybody through, now and from now on."""
        self.open = True
        for writer in self._writers:
            writer.write(b".")

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._empty.clear()
        with contextlib.suppress(ConnectionError):
            text = (await reader.readline()).decode()
            if text:  # else it was killed before it had said a word
                self._greet(text, writer)
            await reader.read()
        self._writers.remove(writer)
        if not self._writers:
            self._empty.set()
        writer.close()

    def _greet(self, text: str, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        if self.open:
            writer.write(b".")
        self._arrived.put_nowait(Visitor(text, writer))

    @property
    def visit(self) -> Callable[..., None]:
        """What a job calls: a function that travels by value. `rest` are further words for the test."""
        path = self.path

        def visit(name: object, *rest: object) -> None:
            import os
            import socket

            with socket.socket(socket.AF_UNIX) as way:
                way.connect(path)
                way.sendall(" ".join(map(str, (name, os.getpid(), *rest))).encode() + b"\n")
                way.recv(1)

        return visit


@contextlib.asynccontextmanager
async def open_gate(path: Path) -> AsyncIterator[Gate]:
    gate = Gate(path)
    server = await asyncio.start_unix_server(gate.receive, gate.path)
    try:
        yield gate
    finally:
        server.close()
        gate.release_all()
        for writer in list(gate._writers):
            writer.close()


@pytest.fixture
def gates(tmp_path: Path) -> Callable[[], contextlib.AbstractAsyncContextManager[Gate]]:
    """Make gates: `async with gates() as gate`."""
    numbers = iter(range(1000))
    return lambda: open_gate(tmp_path / f"gate{next(numbers)}")


class Worker:
    """A real worker daemon in a process of its own, with what it says on stderr."""

    def __init__(self, arguments: list[str], first: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{first}\nimport sys; from grainlike_worker.__main__ import main; sys.exit(main())",
                *arguments,
            ],
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid

    async def exit(self, within: float = LIMIT_S) -> tuple[int, str]:
        """Wait for the end; return the exit code and all of stderr."""
        _, said = await anyio.to_thread.run_sync(lambda: self.process.communicate(timeout=within))
        return self.process.returncode, said

    def tree(self) -> list[psutil.Process]:
        """Every process below it, now."""
        return psutil.Process(self.pid).children(recursive=True)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Worker]]:
    """Start workers: `start_worker(executor.address, name="n1", resources="cores=2")`. Their runners go with them.

    `first` is code to run in the worker before anything else: to make a grace time short, say.
    """
    workers: list[Worker] = []

    def start(
        head: object,
        *,
        name: str = "n1",
        resources: str = "cores=2",
        first: str = "",
        context: str | None = None,
        insecure: bool = False,
        more: tuple[str, ...] = (),
    ) -> Worker:
        options = ["--insecure"] if insecure else []
        options += [*more, *([] if head is None else ["--head", str(head)])]
        options += [] if context is None else ["--context", context]
        workers.append(Worker(["--resources", resources, "--name", name, *options], first))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


@pytest.fixture
def no_short_bytecode(monkeypatch):
    """Write no bytecode: where files may not grow, the beginning of a module's would be left for later processes."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


async def ended(pids: list[int], within: float = LIMIT_S) -> list[int]:
    """Those of `pids` that still run after at most so many seconds; a zombie has ended."""
    return await anyio.to_thread.run_sync(running_after, pids, within)


@pytest.fixture
def still_running() -> Callable[..., Any]:
    """`await still_running(pids)` waits until all have ended, and returns those that have not."""
    return ended


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Run a user's script in a process of its own: `script(text, *arguments)`."""
    running: list[subprocess.Popen[str]] = []

    def run(text: str, *arguments: object) -> "subprocess.Popen[str]":
        path = tmp_path / f"script{len(running)}.py"
        path.write_text(text)
        running.append(
            subprocess.Popen(
                [sys.executable, str(path), *map(str, arguments)],
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return running[-1]

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
