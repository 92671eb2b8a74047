"""Memory limits that the kernel keeps, where a cgroup with the memory controller is delegated to the worker.

Run by `make test-kernel` in an emulated machine: most have the controller elsewhere, or delegate it to nobody.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until, until_blocking

from grainlike import Cores, Executor, JobMemoryError, Memory, delayed, gather, info, start
from grainlike.executor import Executor as AnyExecutor
from grainlike.system._cgroup import Cgroup, own_cgroups

MB = 1_000_000
START = """
import sys
open(sys.argv.pop(1), "w").write("0")
from grainlike_worker.__main__ import main
sys.exit(main())
"""
ROOT = Path(__file__).parents[2]


def _delegated() -> Cgroup | None:
    for own in own_cgroups():
        if os.access(f"{own.path}/cgroup.procs", os.W_OK) and "memory" in own.read("cgroup.controllers").split():
            return own
    return None


pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(_delegated() is None, reason="no cgroup with the memory controller is delegated here"),
]


@pytest.fixture
def unit() -> Iterator[Cgroup]:
    """A cgroup as a service manager would make it for a worker: empty, and its own."""
    own = _delegated()
    assert own is not None
    own.write("cgroup.subtree_control", "+memory")
    group = own / "unit"
    group.make()
    yield group
    assert group.remove(), f"left in it: {[below.path for below in group.below()]}, {group.processes()}"


@pytest.fixture
def worker(unit: Cgroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Starter"]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    starter = Starter(unit)
    yield starter
    starter.end()


class Starter:
    """Starts workers in a cgroup."""

    def __init__(self, unit: Cgroup) -> None:
        self.unit = unit
        self.running: list[subprocess.Popen[bytes]] = []

    def __call__(self, executor: AnyExecutor, name: str = "n1") -> "subprocess.Popen[bytes]":
        self.running.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    START,
                    f"{self.unit.path}/cgroup.procs",
                    *("--head", str(executor.address), "--resources", "cores=2 memory=8Gi", "--name", name),
                ],
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
                stdin=subprocess.DEVNULL,
            )
        )
        return self.running[-1]

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        until_blocking(lambda: not self.unit.is_populated())  # the kernel's records


@delayed
def take(size: int, hold_s: float = 0.0) -> int:
    held = b"\1" * size
    time.sleep(hold_s)
    return len(held)


@delayed
def cgroup_of() -> tuple[str, str, int]:
    own = next(own_cgroups())
    return own.path, own.read("memory.max"), os.getpid()


LIMITED = Cores(1) & Memory("100M")


async def test_a_worker_in_a_unit_of_its_own_has_the_kernel_keep_memory(worker: Starter) -> None:
    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        daemon = worker(executor)
        r_ = (cgroup_of @ LIMITED)()
        path, limit, pid = await r_
        assert info(r_).receipt.memory_tier == "cgroup"
        assert re.search(rf"/unit/grainlike\.{daemon.pid}\.\d+\.[0-9a-f]{{6}}/jobs/runner-{pid}$", path)
        assert 100 * MB < int(limit) < 100 * MB + 150 * MB
        assert [told.memory_tier for told in executor.workers()] == ["cgroup"]
        unlimited = (cgroup_of @ Cores(1))()
        assert (await unlimited)[1:] == ("max", pid)
        assert info(unlimited).receipt.memory_tier == "none"
    assert daemon.wait(60) == 0
    assert worker.unit.below() == []
    assert worker.unit.read("cgroup.subtree_control") == ""


async def test_a_job_over_its_memory_is_ended_by_the_kernel_and_its_neighbour_lives(worker: Starter) -> None:
    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        worker(executor)
        beside = start((take @ LIMITED)(10 * MB, 3.0))
        r_ = (take @ LIMITED)(600 * MB, 60.0)
        with pytest.raises(JobMemoryError, match="asked for 100M") as caught:
            await r_
        assert caught.value.asked == 100 * MB
        assert caught.value.peak >= 100 * MB
        assert await beside == 10 * MB
        assert info(beside).receipt.memory_tier == "cgroup"
        assert await (take @ LIMITED)(50 * MB) == 50 * MB


async def test_memory_of_children_in_sessions_of_their_own_counts_and_all_of_them_end(
    worker: Starter, tmp_path: Path
) -> None:
    @delayed
    def spread(path: str) -> None:
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    with open(path, "a") as file:  # noqa: PTH123
                        file.write(f"{os.getpid()}\n")
                    held = b"\1" * (40 * MB)
                    time.sleep(600)
                    os._exit(len(held) > 0)
                os._exit(0)
        time.sleep(600)

    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        worker(executor)
        path = tmp_path / "spread"
        with pytest.raises(JobMemoryError):
            await (spread @ LIMITED)(str(path))
        assert [pid for pid in path.read_text().split() if os.path.exists(f"/proc/{pid}")] == []  # noqa: ASYNC240, PTH110


async def test_what_was_held_before_is_not_the_jobs(worker: Starter) -> None:
    @delayed
    def keep(size: int) -> int:
        import builtins

        builtins.kept = b"\1" * size  # type: ignore[attr-defined]
        return os.getpid()

    @delayed
    def where() -> int:
        return os.getpid()

    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        worker(executor)
        runner = await (keep @ Cores(1))(200 * MB)
        limited = (where @ (Cores(1) & Memory("30M")))()
        assert await limited == runner
        assert info(limited).receipt.memory_tier == "cgroup"
        assert await gather((take @ (Cores(1) & Memory("60M")))(30 * MB) for _ in range(10)) == [30 * MB] * 10


async def test_a_job_over_its_memory_runs_again_with_more(worker: Starter) -> None:
    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        worker(executor)
        r_ = (take @ (Cores(1) & Memory("60M", grow=2, max="500M")))(180 * MB)
        assert await r_ == 180 * MB
        assert info(r_).attempt == 3
        assert info(r_).allocation.memory == 240 * MB


async def test_a_worker_that_is_not_alone_in_its_cgroup_watches_memory_itself(worker: Starter) -> None:
    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        with subprocess.Popen(["sleep", "600"]) as other:  # noqa: ASYNC220
            worker.unit.add(other.pid)
            worker(executor)
            r_ = (take @ LIMITED)(10 * MB, 0.5)
            assert await r_ == 10 * MB
            assert info(r_).receipt.memory_tier == "watchdog"
            with pytest.raises(JobMemoryError):
                await (take @ LIMITED)(400 * MB, 60.0)
            other.kill()


async def test_a_killed_worker_leaves_its_cgroup_fit_for_the_next(unit: Cgroup, worker: Starter) -> None:
    """While a cgroup has controllers below it holds no processes; so the keeper must take them away."""
    async with asyncio.timeout(300), Executor(listen="tcp://127.0.0.1:0") as executor:
        first = worker(executor)
        await (take @ LIMITED)(MB)
        first.kill()
        await until(lambda: not unit.is_populated())  # the kernel's records
        assert unit.below() == []
        worker(executor, "n2")
        r_ = (take @ LIMITED)(MB)
        assert await r_ == MB
        assert info(r_).receipt.memory_tier == "cgroup"


async def test_the_embedded_worker_of_a_program_has_limits_where_nothing_must_move() -> None:
    async with asyncio.timeout(300), Executor(local=Cores(1) & Memory("4G")) as executor:
        r_ = (take @ LIMITED)(10 * MB)
        assert await r_ == 10 * MB
        assert info(r_).receipt.memory_tier == executor.workers()[0].memory_tier
        with pytest.raises(JobMemoryError):
            await (take @ LIMITED)(400 * MB, 60.0)
