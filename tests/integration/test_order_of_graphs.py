"""A graph is drained as it is filled: a job is as old as its oldest input, whoever runs it."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from grainlike import Cores, Executor, WallTime, connect, delayed, gather
from grainlike.head.durable import HeadDaemon

LEAVES, FAN_IN = 128, 8
ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0


def leaf(number: int, door: str) -> int:
    """Give a value once the program has those of all leaves before, but one."""
    with socket.socket(socket.AF_UNIX) as program:
        program.connect(door)
        program.send(bytes([number]))
        program.recv(1)
    return number


def total(*values: int) -> int:
    return sum(values)


class Door:
    """Lets leaves end two by two, so that the clock decides nothing; counts the values that wait for their sums."""

    def __init__(self) -> None:
        self.values = self.most = 0
        self._here: set[int] = set()
        self._waiting: dict[int, asyncio.StreamWriter] = {}

    async def knock(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting[(await reader.readexactly(1))[0]] = writer
        self._look()

    def _look(self) -> None:
        for number in [number for number in self._waiting if self._here.issuperset(range(number - 1))]:
            writer = self._waiting.pop(number)
            writer.write(b"x")
            writer.close()

    async def has_leaf(self, value: int) -> int:
        self._here.add(value)
        self._count(1)
        self._look()
        return value

    async def has_sum(self, value: int) -> int:
        self._count(1 - FAN_IN)
        return value

    def _count(self, more: int) -> None:
        self.values += more
        self.most = max(self.most, self.values)


@contextlib.asynccontextmanager
async def embedded() -> AsyncIterator[Any]:
    async with Executor(local=Cores(2)) as executor:
        yield executor


@contextlib.asynccontextmanager
async def daemon() -> AsyncIterator[Any]:
    """A head behind a socket, and a worker in a process of its own."""
    async with HeadDaemon("tcp://127.0.0.1:0") as head:
        with a_worker(head.address):
            async with connect() as executor:
                await executor.wait_for_workers(1)
                yield executor


@contextlib.contextmanager
def a_worker(address: str) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    command = [sys.executable, "-m", "grainlike_worker", "--head", address, "--resources", "cores=2"]
    process = subprocess.Popen(command, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.asyncio
@pytest.mark.parametrize("place", [embedded, daemon])
async def test_v15_of_128_leaves_that_are_summed_by_eights_few_wait_at_once(
    place: Any, private_state: None, tmp_path: Path
) -> None:
    door = Door()
    asks = Cores(1) & WallTime("1:00:00")  # such jobs are not sent ahead, so no leaf begins before an older one
    has_leaf, has_sum = delayed(door.has_leaf), delayed(door.has_sum)
    server = await asyncio.start_unix_server(door.knock, tmp_path / "door")
    async with asyncio.timeout(LIMIT_S), server, place():
        level = [has_leaf((delayed(leaf) @ asks)(at, str(tmp_path / "door"))) for at in range(LEAVES)]
        while len(level) > FAN_IN:
            groups = [level[at : at + FAN_IN] for at in range(0, len(level), FAN_IN)]
            level = [has_sum((delayed(total) @ asks)(*group)) for group in groups]
        assert sum(await gather(level)) == sum(range(LEAVES))
    assert door.values == len(level)
    assert door.most <= 24


@pytest.mark.asyncio
async def test_an_age_passes_through_calls_in_the_program_and_inputs_that_have_ended_and_failed() -> None:
    async with Executor(local=Cores(1)) as executor:
        scheduler = executor._service.head.state.scheduler
        one = delayed(total) @ Cores(1)
        first_ = one(1)
        assert await first_ == 1
        ages: dict[int, int] = {}
        handle = scheduler.handle

        def told(event: Any, now: float) -> Any:
            ages.update(zip(getattr(event, "jobs", ()), getattr(event, "ages", ()), strict=False))
            return handle(event, now)

        scheduler.handle = told
        failed_ = (delayed(divide) @ Cores(1))(1, 0)
        both_ = gather([failed_, first_ + 0], return_exceptions=True)
        assert await one(delayed(len)(both_)) == 2
        assert await one(one(5) * 2, one(6)) == 16
    assert list(ages.values()) == [1, 4]


def divide(a: int, b: int) -> float:
    return a / b
