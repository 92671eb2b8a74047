"""What a job asked for is what it gets, as the system tells in its own process, and in those that it starts."""

import asyncio
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from enforced_calls import devices, pools, record, shown_to_programs
from limits import LIMIT_S
from waiting import until_called, until_files

from grainlike import Cores, Executor, GPUs, Memory, cancel, delayed, gather, info, start
from grainlike.scheduler import HeadScheduler
from grainlike.scheduler.node import _runners

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces")]

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core cannot be told from another")


@pytest.mark.parametrize(("mask", "words"), [("2,3", ["2", "3"]), ("GPU-8f,GPU-91", ["GPU-8f", "GPU-91"])])
async def test_devices_are_those_of_the_mask_that_the_worker_was_born_with(
    mask: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    async with Executor(local=Cores(1) & GPUs(2)):
        for count in (1, 2):
            told_ = (devices @ GPUs(count))()
            gpus, shown, _ = await told_
            assert shown == f"{','.join(words[gpu] for gpu in gpus)} PCI_BUS_ID"
            assert info(told_).receipt.devices == gpus
        _, shown, _ = await (devices @ Cores(1))()
        assert shown.strip() == "PCI_BUS_ID"


async def test_an_order_of_devices_that_the_worker_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    async with Executor(local=GPUs(1)):
        assert (await (devices @ GPUs(1))())[1] == "0 FASTEST_FIRST"


async def test_a_process_in_which_a_device_library_looked_serves_only_the_same_devices(tmp_path: Path) -> None:
    """A library reads the mask once. The stand-in for one is any library by its name."""
    import _ctypes

    library = str(tmp_path / "libcuda.so.1")
    shutil.copy(_ctypes.__file__, library)

    @delayed
    def load() -> int:
        import ctypes
        import os

        ctypes.CDLL(library)
        return os.getpid()

    async with Executor(local=Cores(1) & GPUs([0, 1])):
        plain = (await (devices @ Cores(1))())[2]
        assert (await (devices @ GPUs(1))())[2] == plain  # nothing has looked yet
        looked = await (load @ GPUs(1))()
        gpus, _, same = await (devices @ GPUs(1))()
        assert (gpus, same) == ((0,), looked)
        gpus, shown, other = await (devices @ GPUs(2))()
        assert (gpus, shown) == ((0, 1), "0,1 PCI_BUS_ID")
        assert other != looked


# --- cores and thread pools -------------------------------------------------------------------------------------------


@needs_two_cores
@pytest.mark.parametrize("first", [1, 2])
async def test_affinity_and_pools_are_the_allocation_on_fresh_and_on_warm_processes(first: int) -> None:
    async with Executor(local=Cores(2)):
        seen = set()
        for count, width in ((first, None), (3 - first, None), (first, 5), (first, None), (3 - first, None)):
            told_ = (pools @ Cores(count))(width)
            cores, widths, affinity, child, pid = await told_
            seen.add(pid)
            if not widths:
                pytest.skip("this NumPy brings no thread pool")
            assert affinity == sorted(cores)
            assert child == f"{sorted(cores)} {width or count}"
            assert widths == {width or count}
            receipt = info(told_).receipt
            assert receipt.affinity == tuple(sorted(cores))
            if width is None:
                assert set(receipt.threads.values()) == {count}
            usage = info(told_).usage
            assert usage.wall_s > 0
            assert usage.cpu_s > 0
            assert usage.peak_rss > 10_000_000
            assert usage.cores_busy == pytest.approx(usage.cpu_s / usage.wall_s)
        assert len(seen) == 1, "the process was warm"


# --- who was where, when: the jobs write it down, and a checker that knows nothing of us reads it ---------------------


def spans(path: Path) -> list[tuple[list[int], int, int]]:
    """Cores, first and last word of every job that wrote."""
    found = []
    for file in path.iterdir():
        lines = [line for line in file.read_text().split("\0") if line]
        (cores, begun), (_, last) = (line.rsplit(maxsplit=1) for line in (lines[0], lines[-1]))
        found.append(([int(core) for core in cores.strip("[]").split(",")], int(begun), int(last)))
    return found


def overlaps(found: list[tuple[list[int], int, int]]) -> list[Any]:
    """Pairs that were on one core at one time."""
    return [
        (one, other)
        for at, one in enumerate(found)
        for other in found[:at]
        if set(one[0]) & set(other[0]) and one[1] < other[2] and other[1] < one[2]
    ]


async def test_the_checker_sees_an_overlap() -> None:
    assert overlaps([([1], 0, 10), ([0, 1], 9, 20)])
    assert not overlaps([([1], 0, 10), ([0], 9, 20), ([1], 11, 12)])


@needs_two_cores
async def test_no_two_jobs_share_a_core_though_some_ignore_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_runners, "GRACE_S", 0.2)
    job = delayed(record) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)):
        jobs = [start(job(str(tmp_path / str(number)), 3600.0 if number % 5 == 0 else 0.02)) for number in range(20)]
        for number in range(0, 20, 5):
            file = tmp_path / str(number)
            await until_files(tmp_path, lambda: file.exists() and file.stat().st_size > 64)  # noqa: B023 - it has said so twice
            cancel(jobs[number])
        for number, r_ in enumerate(jobs):
            if number % 5:
                await r_
    found = spans(tmp_path)
    assert len(found) == 20
    assert overlaps(found) == []


async def test_random_cancellations_leak_no_slot_process_descriptor_or_thread() -> None:
    """The leak fixture counts processes, threads and descriptors; here are slots, and the daemon's descriptors."""
    dice = random.Random(17)

    @delayed
    def plain(seconds: float) -> None:
        time.sleep(seconds)

    @delayed
    async def coroutine(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        await gather((plain @ Cores(1))(0.0) for _ in range(2))
        for turn in range(1000):
            # A process that must be ended takes a while to follow; most of the thousand are coroutines or still queued.
            fn = plain if turn % 20 == 0 else coroutine
            r_ = start((fn @ Cores(1))(dice.choice([0.0, 0.001, 3600.0])))
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            if turn % 50 == 0:  # some have begun
                await until_called(HeadScheduler, "handle", lambda: info(r_).state != "pending")  # noqa: B023
            cancel(r_)
        await (plain @ Cores(2))(0.0)
        (worker,) = executor.workers()
        assert worker.name == "local"
        children = psutil.Process().children(recursive=True)
        assert len(children) <= 1 + 3, children  # the keeper, and warm runners


@pytest.mark.asyncio
async def test_programs_of_a_job_find_its_slots_and_its_number() -> None:
    async with Executor(local=Cores([0, 1]) & Memory("1G")):
        for _ in range(3):
            number, cores, said = await (shown_to_programs @ (Cores(1) & Memory("1M")))()
            assert said == [str(number), ",".join(map(str, cores)), "1000000", "false"]
        number, cores, said = await (shown_to_programs @ Cores(2))()
        assert said == [str(number), "0,1", "", "false"]
