"""Executors that are open for a kernel's life end with it: by its shutdown, a restart, or its death."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from notebooks import Kernel, running_kernel
from waiting import until_ended_blocking

SET_UP = """
import os
from pathlib import Path
import anyio
from grainlike import Cores, Executor, connect, delayed, info, run, start
from waiting import until

@delayed
async def wait(cancelled):
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(cancelled).touch()
        raise

@delayed
def process():
    return os.getpid()
"""


@pytest.fixture(autouse=True)
def no_leaks(watch_leaks: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Each test has a kernel of its own, and leaves none."""
    with watch_leaks():
        yield


def opened(kernel: Kernel, tmp_path: Path) -> list[int]:
    """Open executors in cells of their own, with jobs, and return the processes that the kernel has started."""
    kernel.run(SET_UP)
    kernel.run("ex = await Executor(listen='tcp://127.0.0.1:0', local=Cores(2))")
    kernel.run("far = await connect(ex.address)")
    assert int(kernel.run("await (process @ Cores(1))()").value or 0) != kernel.pid
    kernel.run(f"waits_ = start((wait @ Cores(1))('{tmp_path}/cancelled'))")
    kernel.run("await until(lambda: info(waits_).state == 'running')")
    return [child.pid for child in psutil.Process(kernel.pid).children(recursive=True)]


def test_shutting_the_kernel_down_closes_them_in_order(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        left = [kernel.pid, *opened(kernel, tmp_path)]
        kernel.manager.shutdown_kernel()
        until_ended_blocking(*left)
        assert (tmp_path / "cancelled").exists()


def test_a_restarted_kernel_has_none_and_opens_others(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        left = [kernel.pid, *opened(kernel, tmp_path)]
        kernel.restart()
        until_ended_blocking(*left)
        assert (tmp_path / "cancelled").exists()
        kernel.run(SET_UP)
        kernel.run("ex = await Executor(local=Cores(1))")
        assert kernel.run("(await (process @ Cores(1))()) != os.getpid(), len(ex.workers())").value == "(True, 1)"


def test_a_killed_kernel_leaves_no_process(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        left = opened(kernel, tmp_path)
        psutil.Process(kernel.pid).kill()
        until_ended_blocking(*left)


def test_a_block_and_an_early_end_work_as_in_a_program(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.run(SET_UP)
        kernel.run("ex = await Executor(local=Cores(1))")
        block = kernel.run("async with Executor(local=Cores(2)) as block:\n    print(await (process @ Cores(2))() > 0)")
        assert block.written() == "True\n"
        kernel.run("await ex.aclose()")
        assert kernel.run("ex.workers()").value == "[]"
        assert int(kernel.run("await (process @ Cores(1))()").value or 0) > 0  # on one of the loop's own


def test_run_says_what_to_write(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.run(SET_UP + "\nasync def main():\n    return 5\n")
        cell = kernel.send("run(main)")
        kernel.until(lambda: cell.ended)
        assert "write `await main()`" in (cell.error or "")
        assert kernel.run("await main()").value == "5"
