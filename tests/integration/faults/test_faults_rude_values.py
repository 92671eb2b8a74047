"""What user code does where only pickle, or the end of a process, runs it: it costs its own job and nothing else."""

import asyncio
import atexit
import io
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S
from waiting import until_files

from grainlike import Cores, Executor, SerializationError, delayed, info, start


def _raise(kind: type[BaseException]) -> None:
    raise kind


class Rude:
    """A value whose rebuilding raises what is no `Exception`."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> tuple[Callable[[type[BaseException]], None], tuple[type[BaseException]]]:
        return _raise, (self.kind,)


@delayed
def rude(kind: type[BaseException]) -> Rude:
    return Rude(kind)


@delayed
async def rude_items(kind: type[BaseException]):
    yield Rude(kind)


@delayed
def good() -> int:
    return 1


KINDS = [GeneratorExit, asyncio.CancelledError, SystemExit]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.anyio
async def test_a_result_that_will_not_be_rebuilt_fails_its_job_and_nothing_else(kind: type[BaseException]):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores([0])):
            with pytest.raises(SerializationError, match=kind.__name__):
                await (rude @ Cores(1))(kind)
            with pytest.raises(SerializationError, match=kind.__name__):
                async for _ in (rude_items @ Cores(1))(kind):
                    pass
            assert await (good @ Cores(1))() == 1


def _breaks_its_process_and_will_not_end() -> None:
    atexit.register(time.sleep, 600)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4, most))


@pytest.mark.asyncio
async def test_a_broken_process_that_will_not_end_does_not_keep_its_slots():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores([0, 1])):
            await (good @ Cores(1))()
            await (delayed(_breaks_its_process_and_will_not_end) @ Cores(1))()
            assert await (good @ Cores(2))() == 1


async def _comes_back_twice(steps: int) -> int:
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    child = os.fork()
    await anyio.lowlevel.checkpoint()
    return child


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.asyncio
async def test_a_forked_child_that_comes_back_out_of_a_coroutine_is_no_runner(
    steps: int, start_worker: Callable[..., object]
):
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen="tcp://127.0.0.1:0") as executor:
            start_worker(executor.address)
            await executor.wait_for_workers(1)
            for _ in range(3):
                child = await (delayed(_comes_back_twice) @ Cores(1))(steps)
                assert child != 0, "the child's answer was taken for the job's"
            assert await (delayed(_comes_back_twice) @ Cores(2))(steps) != 0, "slots are missing"


async def _forks_in_a_task(came_back: str) -> int:
    async def fork() -> int:
        await asyncio.sleep(0)
        child = os.fork()
        await asyncio.sleep(0)
        if child == 0:
            Path(came_back).touch()  # noqa: ASYNC240
        return child

    return await asyncio.create_task(fork())


async def _notes_who_takes_its_steps(path: str, until: str) -> None:
    while not Path(until).exists():  # noqa: ASYNC240
        with open(path, "a") as file:  # noqa: ASYNC230, PTH123
            file.write(f"{os.getpid()}\n")
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_a_child_forked_in_a_task_of_a_job_takes_nobodys_steps(
    tmp_path: Path, start_worker: Callable[..., object]
):
    steps, end, back = (tmp_path / name for name in ("steps", "end", "back"))
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen="tcp://127.0.0.1:0") as executor:
            start_worker(executor.address)
            beside_ = start((delayed(_notes_who_takes_its_steps) @ Cores(1))(str(steps), str(end)))
            await until_files(tmp_path, steps.exists)
            for _ in range(5):
                assert await (delayed(_forks_in_a_task) @ Cores(1))(str(back)) != 0
            end.touch()
            await beside_
            assert await (delayed(_forks_in_a_task) @ Cores(1))(str(back)) != 0
            assert not back.exists()
            assert len(set(steps.read_text().split())) == 1
            assert info(beside_).attempt == 1


async def _stops_the_loop(*, later: bool) -> str:
    loop = asyncio.get_running_loop()
    if later:
        loop.call_soon(loop.stop)
    else:
        loop.stop()
    for _ in range(3):
        await asyncio.sleep(0)
    return "went on"


@pytest.mark.asyncio
async def test_who_would_stop_the_loop_of_all_is_told_and_nobody_else(gates, start_worker: Callable[..., object]):
    with anyio.fail_after(LIMIT_S):
        async with gates() as gate, Executor(listen="tcp://127.0.0.1:0") as executor:
            start_worker(executor.address)
            visit = gate.visit

            @delayed
            async def neighbour() -> str:
                await asyncio.to_thread(visit, "here")
                return "lives"

            beside_ = start((neighbour @ Cores(1))())
            await gate.arrival()
            stops = delayed(_stops_the_loop) @ Cores(1)
            with pytest.raises(RuntimeError, match=r"_stops_the_loop \(job \d+\) would stop .* isolate=True"):
                await stops(later=False)
            assert await stops(later=True) == "went on"
            gate.release_all()
            assert await beside_ == "lives"
            assert info(beside_).attempt == 1


def _sends_descriptors_elsewhere() -> None:
    for fd in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def _replaces_streams() -> None:
    sys.stdout = sys.stderr = io.StringIO()


def _wraps_streams() -> None:
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer)
    sys.stderr = None  # type: ignore[assignment]


def _closes_streams() -> None:
    sys.stdout.close()
    os.close(2)


def _says() -> int:
    print("said")
    print("warned", file=sys.stderr)
    os.write(1, b"written\n")
    return os.getpid()


@pytest.mark.parametrize(
    "job",
    [_sends_descriptors_elsewhere, _replaces_streams, _wraps_streams, _closes_streams],
    ids=lambda job: job.__name__,
)
@pytest.mark.asyncio
async def test_what_a_job_does_to_its_streams_does_not_take_the_next_ones_output(job: Callable[[], None]):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores([0])) as executor:
            says = delayed(_says) @ Cores(1)
            first = await says()
            await (delayed(job) @ Cores(1))()
            said_ = start(says())
            lines = sorted([str(line) async for line in executor.logs(said_)])
            assert lines == ["said", "warned", "written"]
            assert await said_ == first, "another process ran it, so nothing was seen"
