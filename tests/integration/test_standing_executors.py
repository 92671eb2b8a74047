"""`ex = await Executor(...)`: open without a block, for the life of its event loop."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from pathlib import Path
from weakref import ReferenceType, ref

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, connect, delayed
from grainlike.graph import node_behind

pytestmark = pytest.mark.anyio


@delayed
def square(x: int) -> int:
    return x * x


async def test_all_tasks_of_the_loop_use_it_until_it_is_closed() -> None:
    executor = await Executor(local=Cores([0]))
    values: list[int] = []

    async def task(x: int) -> None:
        values.append(await (square @ Cores(1))(x))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(task, 3)
        tasks.start_soon(task, 4)
    assert sorted(values) == [9, 16]
    assert [worker.name for worker in executor.workers()] == ["local"]
    await executor.aclose()
    await executor.aclose()
    assert repr(executor).startswith("<Executor closed")
    with pytest.raises(RuntimeError, match="this executor is closed: make a new one"):
        await executor


async def test_a_block_goes_before_it_and_the_last_one_before_others(caplog: pytest.LogCaptureFixture) -> None:
    first = await Executor(local=None)
    async with Executor(local=None) as block:
        r_ = square(1)
        await r_
        assert node_behind(r_).owner is block
    with caplog.at_level(logging.WARNING, "grainlike"):
        second = await Executor(local=None)
    assert "`await ex.aclose()` closes the other" in caplog.text
    for executor in (second, first):
        r_ = square(1)
        await r_
        assert node_behind(r_).owner is executor
        await executor.aclose()


async def test_one_that_is_opened_in_a_block_goes_before_the_block_until_it_is_closed() -> None:
    async def owner() -> object:
        r_ = square(1)
        await r_
        return node_behind(r_).owner

    async with Executor(local=None) as block:
        earlier = anyio.Event()
        owners = []

        async def task() -> None:
            await earlier.wait()
            owners.append(await owner())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task)
            await anyio.lowlevel.checkpoint()
            inside = await Executor(local=None)
            earlier.set()
        assert owners == [block]  # a task that was there before stays in the block
        assert await owner() is inside
        async with Executor(local=None) as inner:
            assert await owner() is inner
            assert node_behind(inside.submit(Cores(1), abs, -1)).owner is inside
        assert await owner() is inside
        await inside.aclose()
        assert await owner() is block


async def test_one_that_is_opened_in_a_block_is_used_after_the_block_has_ended() -> None:
    async def owner() -> object:
        r_ = square(1)
        await r_
        return node_behind(r_).owner

    outside = await Executor(local=None)
    async with Executor(local=None):
        inside = await Executor(local=None)
        async with Executor(local=None):
            pass
        assert await owner() is inside
    assert await owner() is inside
    await inside.aclose()
    assert await owner() is outside
    await outside.aclose()


async def test_a_block_that_ends_before_one_that_was_opened_in_it_leaves_that_in_use() -> None:
    async with Executor(local=None) as round_all:
        first, second = Executor(local=None), Executor(local=None)
        await first.__aenter__()
        await second.__aenter__()
        await first.__aexit__(None, None, None)
        r_ = square(1)
        await r_
        assert node_behind(r_).owner is second
        await second.__aexit__(None, None, None)
        r_ = square(2)
        await r_
        assert node_behind(r_).owner is round_all


async def test_executors_that_have_closed_are_let_go_while_later_ones_are_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "grainlike")  # warnings that another one is open would keep that
    closed: list[ReferenceType[Executor]] = []
    executor = await Executor(local=None)
    for _ in range(4):
        following = await Executor(local=None)
        await executor.aclose()
        closed.append(ref(executor))
        executor = following
    gc.collect()
    # The context of the newest one's task has the one before it.
    assert [gone() for gone in closed[:-1]] == [None, None, None]
    await executor.aclose()


async def test_executors_of_blocks_are_let_go_while_later_ones_are_open() -> None:
    closed: list[ReferenceType[Executor]] = []
    executor = await Executor(local=None).__aenter__()
    for _ in range(4):
        following = await Executor(local=None).__aenter__()
        await executor.__aexit__(None, None, None)
        closed.append(ref(executor))
        executor = following
    gc.collect()
    assert [gone() for gone in closed[:-1]] == [None, None, None]
    await executor.__aexit__(None, None, None)


async def test_connect_can_be_awaited() -> None:
    head = await Executor(listen="tcp://127.0.0.1:0", local=Cores([0]))
    executor = await connect(head.address)
    r_ = (square @ Cores(1))(5)
    assert await r_ == 25
    assert node_behind(r_).owner is executor
    await executor.aclose()
    await head.aclose()


async def test_one_that_fails_to_open_stands_for_nothing() -> None:
    async with Executor(listen="tcp://127.0.0.1:0", local=None) as head:
        with pytest.raises(OSError, match="in use"):
            await Executor(listen=head.address)
        r_ = square(2)
        assert await r_ == 4


async def test_closing_what_was_never_opened_does_nothing() -> None:
    executor = Executor(local=Cores([0]))
    await executor.aclose()
    async with executor:
        assert await (square @ Cores(1))(2) == 4
        await executor.aclose()  # early: leaving the block finds it closed


async def test_a_job_opens_one_for_a_block_only() -> None:
    @delayed
    async def opens() -> None:
        await Executor(local=None)

    async with Executor(local=Cores([0])):
        with pytest.raises(RuntimeError, match=r"in a job an executor is opened for a block: write `async with"):
            await (opens @ Cores(1))()


PROGRAM = """
import asyncio, sys
from pathlib import Path
import anyio
from grainlike import Cores, Executor, delayed, start

@delayed
async def wait(began, cancelled):
    Path(began).touch()
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(cancelled).touch()
        raise

async def main():
    executor = await Executor(local=Cores(1))
    start((wait @ Cores(1))("began", "cancelled"))
    while not Path("began").exists():
        await anyio.sleep(0.001)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_end_of_its_loop_closes_it_with_a_resource_warning(tmp_path: Path, backend: str) -> None:
    (tmp_path / "program.py").write_text(f"{PROGRAM}\nanyio.run(main, backend={backend!r})\n")
    argv = [sys.executable, "-W", "always::ResourceWarning", "program.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("was left to its loop: `await ex.aclose()`") == 1
    assert (tmp_path / "cancelled").exists()


def test_the_end_of_python_closes_it_where_its_loop_is_only_stopped(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{PROGRAM}\nasyncio.new_event_loop().run_until_complete(main())\n")
    argv = [sys.executable, "program.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "cancelled").exists()


CLOSED_INSIDE = """
import asyncio
from grainlike import Cores, Executor, delayed

@delayed
def square(x):
    return x * x

async def main():
    async with Executor(local=Cores([0])) as ex:
        await ex.aclose()
        print(await (square @ Cores(1))(3))

asyncio.run(main())  # it closes the other one, too
"""


LEFT = """
import asyncio

from grainlike import Cores, Executor, delayed

async def main():
    async with Executor(local=Cores([0])):
        pass
    print(await (delayed(abs) @ Cores(1))(-3))

asyncio.run(main())
"""


@pytest.mark.parametrize("blocks", [0, 1])
def test_a_call_after_the_block_of_its_executor_is_told_where_it_runs(tmp_path: Path, blocks: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(LEFT if blocks else LEFT.replace("async with Executor(local=Cores([0])):", "if True:"))
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, "3\n"), ended.stderr
    told = [line for line in ended.stderr.splitlines() if "runs on this machine, on an implicit executor over " in line]
    assert len(told) == blocks
    assert all(line.endswith("has been closed") for line in told)


def test_an_executor_that_is_closed_inside_its_block_is_named_where_another_takes_over(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CLOSED_INSIDE)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, "9\n"), ended.stderr
    assert (
        "<Executor closed, cores=[0]>, of whose block this is, is closed: opened an implicit executor" in ended.stderr
    )
