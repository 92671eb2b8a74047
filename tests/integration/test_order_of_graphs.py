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
from limits import LIMIT_S

from grainlike import Cores, Executor, WallTime, connect, delayed, gather, info
from grainlike.head.durable import HeadDaemon
from grainlike.scheduler import HeadScheduler, JobsSubmitted

LEAVES, FAN_IN = 128, 8
ROOT = Path(__file__).parents[2]


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
    """Lets leaves end two by two, and none while a sum runs, so that the clock decides nothing; counts the values that
    wait for their sums.
    """

    def __init__(self) -> None:
        self.values = self.most = 0
        self._sums: list[Any] = []
        self._here: set[int] = set()
        self._waiting: dict[int, asyncio.StreamWriter] = {}

    async def knock(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting[(await reader.readexactly(1))[0]] = writer
        self._look()

    def sum_of(self, sum_: Any) -> Any:
        """Return a sum's placeholder, after which leaves end that wait while it runs."""
        self._sums.append(sum_)
        return sum_

    def _look(self) -> None:
        if any(info(sum_).state == "running" for sum_ in self._sums):
            return  # its process may have to wait for a core, and any number of leaves would end meanwhile
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
        self._look()
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
        assert head.address is not None
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
            level = [has_sum(door.sum_of((delayed(total) @ asks)(*group))) for group in groups]
        assert sum(await gather(level)) == sum(range(LEAVES))
    assert door.values == len(level)
    assert door.most <= 24


@pytest.mark.asyncio
async def test_an_age_passes_through_calls_in_the_program_and_inputs_that_have_ended_and_failed() -> None:
    async with Executor(local=Cores(1)) as executor:
        service: Any = executor._service
        scheduler = service.head.state.scheduler
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
        alone_ = gather([(delayed(divide) @ Cores(1))(2, 0)], return_exceptions=True)
        assert await one(delayed(len)(alone_)) == 1
    assert list(ages.values()) == [1, 4, 7]


def divide(a: int, b: int) -> float:
    return a / b


def size_of(data: Any) -> int:
    return len(data)


@pytest.mark.asyncio
@pytest.mark.parametrize("place", [embedded, daemon])
async def test_the_head_hears_of_the_bytes_of_large_arguments_alone(
    place: Any, private_state: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the batch and each by itself, in shared memory or not."""
    sizes: list[list[int]] = []
    handle = HeadScheduler.handle

    def told(scheduler: HeadScheduler, event: Any, now: float) -> Any:
        if isinstance(event, JobsSubmitted):
            sizes.append(event.sizes)
        return handle(scheduler, event, now)

    monkeypatch.setattr(HeadScheduler, "handle", told)
    call = delayed(size_of) @ Cores(1)
    async with place():
        for some in (
            [b"few", b"x"],
            [bytes(70_000), b"x", bytes(80_000)],
            [[1], bytearray(300_000), bytearray(66_000)],
        ):
            assert await gather(call(data) for data in some) == [len(data) for data in some]
    assert sizes[0] == []
    assert sorted(size // 1000 for column in sizes for size in column if size) == [66, 70, 80, 300]


async def tree_in_a_job(door: str) -> int:
    """The most values that wait at once, by the order in which jobs of this job have begun and ended."""
    asks = Cores(1) & WallTime("1:00:00")
    has_leaf, has_sum = delayed(DOORS[door].has_leaf), delayed(DOORS[door].has_sum)
    level = [has_leaf((delayed(leaf) @ asks)(at, door)) for at in range(LEAVES)]
    groups = [level[at : at + FAN_IN] for at in range(0, len(level), FAN_IN)]
    return sum(await gather(has_sum((delayed(total) @ asks)(*group)) for group in groups))


DOORS: dict[str, Door] = {}


@pytest.mark.asyncio
async def test_so_it_is_for_the_jobs_of_a_job(tmp_path: Path) -> None:
    """The job is a coroutine of this process, so it counts by the same door."""
    path = str(tmp_path / "door")
    door = DOORS[path] = Door()
    server = await asyncio.start_unix_server(door.knock, path)
    async with asyncio.timeout(LIMIT_S), server, Executor(local=Cores(2)):
        assert await (delayed(tree_in_a_job) @ Cores(1))(path) == sum(range(LEAVES))
    assert door.values == LEAVES // FAN_IN
    assert door.most <= 32
