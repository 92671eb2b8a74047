"""Stores of workers under pressure: values go to disk, nothing is ever paused, and a full store fails one job alone."""

import asyncio
import gc
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from anyio.lowlevel import checkpoint
from array_calls import COUNT, made, made_larger, made_later, made_soon, made_two, total
from far import far_workers, head_of
from fault_calls import waits_for
from limits import LIMIT_S
from waiting import until

from grainlike import (
    Cores,
    Executor,
    JobCancelledError,
    Resource,
    Retry,
    StoreFullError,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
    wait,
)
from grainlike.payload import memory_id
from grainlike.scheduler.store import _scheduler
from grainlike.system import is_in_memory

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(not memory_id(), reason="no shared memory in the file system")]

SIZE = 8 * COUNT
ROOM = SIZE + 4096
"""Bytes of a replica, and a few."""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    if is_in_memory(tmp_path):
        pytest.skip("temporary files are in memory here")
    found = tmp_path / "disk"
    found.mkdir(mode=0o700)
    return found


def in_memory(executor: Executor) -> int:
    """Return the bytes of values in shared memory, of all workers here."""
    found = 0
    for peer in head_of(executor).peers.values():
        for file in Path(peer.hello.replicas).glob("v*"):
            with suppress(FileNotFoundError):
                status = file.lstat()
                found += status.st_blocks * 512 if stat.S_ISREG(status.st_mode) else 0
    return found


def on_disk(disk: Path) -> list[Path]:
    return [file for one in disk.iterdir() for file in one.glob("v*")]


def bytes_on_disk(disk: Path) -> int:
    found = 0
    for file in on_disk(disk):
        with suppress(FileNotFoundError):  # one that was being written has its own name by now
            found += file.stat().st_size
    return found


def damage(disk: Path) -> Path:
    """Change a byte of the only file on the disk, and return its path."""
    (file,) = on_disk(disk)
    with file.open("r+b") as opened:
        opened.seek(5000)
        opened.write(b"x")
    return file


def spilled(executor: Executor) -> list[int]:
    return [worker.spilled for worker in executor.workers()]


# --- more than fits --------------------------------------------------------------------------------------------------


async def use_six_times_the_store(executor: Executor, function, disk: Path) -> None:
    """Make values one after another, and use each, and all; what is there is within the store at each moment."""
    values = []
    for number in range(18):
        values.append((function @ Cores(1))(number))
        await wait(values[-1])
        assert in_memory(executor) <= 3 * ROOM
    assert await gather((total @ Cores(1))(value_) for value_ in values) == [number * COUNT for number in range(18)]
    assert (await (total @ Cores(1))(*values)) == sum(range(18)) * COUNT
    assert in_memory(executor) <= 4 * ROOM
    await until(lambda: spilled(executor) == [bytes_on_disk(disk)])
    (worker,) = executor.workers()
    assert worker.spilled + worker.stored == sum(info(value_).size for value_ in values)
    assert float((await values[0]).sum()) == 0


@pytest.mark.parametrize("function", [made, made_soon, made_later])
@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"])
async def test_six_times_the_store_is_right_stays_within_it_and_leaves_nothing(
    function, listen, disk: Path, start_worker
) -> None:
    wishes = {"store": str(3 * ROOM), "scratch": str(disk), "scratch_limit": "1G"}
    options = {} if listen else wishes
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(local=None if listen else Cores(2), listen=listen, **options) as executor,
    ):
        if listen:
            more = [text for name, wish in wishes.items() for text in (f"--{name.replace('_', '-')}", wish)]
            start_worker(executor.address, more=tuple(more))
        await use_six_times_the_store(executor, function, disk)
        gc.collect()
        await until(lambda: not on_disk(disk) and not in_memory(executor))
        await until(lambda: spilled(executor) == [0])
    await until(lambda: not list(disk.iterdir()))


async def test_a_full_store_fails_whoever_gives_too_much_and_work_goes_on_after_del(disk: Path) -> None:
    options = {"store": str(2 * ROOM), "scratch": str(disk), "scratch_limit": str(2 * ROOM)}

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), on_failure="continue", **options) as executor:
        values = [(made @ Cores(1))(number) for number in range(5)]  # the fifth beyond all limits
        await wait(values)
        assert [info(value_).state for value_ in values] == ["succeeded"] * 5
        sixth_ = (made @ Cores(1))(5)
        with pytest.raises(StoreFullError, match=r"no room for 78\d\.\d+Ki: .* 1\.5\d+Mi of shared memory") as full:
            await sixth_
        assert str(full.value).startswith("on worker local there is")
        used = r"of which 2\.2\d+Mi \(77\d\.\d+Ki beyond the limit, .*\) and 1\.5\d+Mi are in use: delete placeholders"
        assert re.search(used, str(full.value))
        assert await (total @ Cores(1))(*values) == sum(range(5)) * COUNT
        assert [float((await value_).sum()) for value_ in values] == [number * COUNT for number in range(5)]
        del values, sixth_
        gc.collect()
        await until(lambda: not on_disk(disk) and not in_memory(executor))
        assert await (total @ Cores(1))((made @ Cores(1))(7)) == 7 * COUNT


@pytest.mark.parametrize("function", [made, made_later])
async def test_a_value_that_no_store_has_room_for_fails_without_harm_to_its_runner(function) -> None:
    options = {"store": "100Ki", "scratch_limit": "0"}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), on_failure="continue", **options):
        first = start((function @ Cores(1))(1))
        await wait(first)
        assert info(first).state == "succeeded", "one output a slot goes beyond the budget"
        with pytest.raises(StoreFullError, match="100Ki of shared memory, and 0 bytes of disk, so it can"):
            await (function @ Cores(1))(2)
        assert await (total @ Cores(1))(first) == COUNT


async def test_parts_that_fit_one_at_a_time_fail_beside_the_whole_that_stays_or_are_spilled(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scheduler, "PAYBACK_S", 0.0)
    options = {"store": str(ROOM), "scratch": str(disk)}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), scratch_limit="0", **options):
        a_, b_ = (made_two @ Cores(1))(1)
        words = r"no room for 78\d\.\d+Ki: .* 785\.\d+Ki of shared memory, .*of which 1\.\d+Mi .* and 0 bytes are"
        with pytest.raises(StoreFullError, match=words):
            await (total @ Cores(1))(a_)
        assert float((await b_).sum()) == 2 * COUNT, "the whole is there, and the program takes the part"
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), scratch_limit=str(4 * ROOM), **options):
        a_, b_ = (made_two @ Cores(1))(1)
        assert [await (total @ Cores(1))(value_) for value_ in (a_, b_)] == [COUNT, 2 * COUNT]
        assert await (total @ Cores(1))(a_, b_) == 3 * COUNT


@pytest.mark.parametrize("limit", [0, ROOM])
async def test_two_inputs_that_fit_one_at_a_time_are_read_beyond_the_budget_or_from_the_disk(
    disk: Path, limit: int
) -> None:
    options = {"store": str(ROOM), "scratch": str(disk), "scratch_limit": str(limit)}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), **options):
        values = [start((made @ Cores(1))(number)) for number in (1, 2)]
        await wait(values)
        assert len(on_disk(disk)) == (1 if limit else 0)
        assert await (total @ Cores(1))(*values) == 3 * COUNT


async def test_values_that_are_spilled_go_to_other_workers(disk: Path, start_worker) -> None:
    more = ("--store", str(ROOM), "--scratch", str(disk))
    async with far_workers(start_worker, "n1", resources="cores=1") as (executor, _):
        start_worker(executor.address, name="n2", resources="cores=1 there=4", more=more, first=_elsewhere("n2"))
        await executor.wait_for_workers(2)
        values = [(made @ (Cores(1) & Resource("there", 1)))(number) for number in range(4)]
        await wait(values)
        assert len(on_disk(disk)) == 3
        assert [float((await value_).sum()) for value_ in values] == [number * COUNT for number in range(4)]
        assert executor.report().fetched > 3 * SIZE


TELLS = """
import grainlike.scheduler.store._scheduler as s
real = s.StoreScheduler.handle
s.PAYBACK_S = {seconds}
def handle(self, event, now):
    actions = real(self, event, now)
    with open({path!r}, "a") as file:
        file.write(type(event).__name__ + "\\n")
    return actions
s.StoreScheduler.handle = handle
"""
"""Code of a worker that writes down what its store is told."""


def _told(path: Path, event: str) -> int:
    return path.read_text().split().count(event) if path.exists() else 0


async def test_a_job_that_gives_waits_until_an_overdraft_is_paid_back(tmp_path: Path, start_worker) -> None:
    told = tmp_path / "told"
    more, first = ("--store", str(ROOM), "--scratch-limit", "0"), {"n1": TELLS.format(path=str(told), seconds=60)}
    async with far_workers(start_worker, "n1", resources="cores=1", more=more, first=first):
        kept_, over_, waits_ = [start((made @ Cores(1))(number)) for number in range(3)]
        await until(lambda: _told(told, "RoomAsked") == 3)
        await until(lambda: info(waits_).state == "running")  # the word of that may come later
        del kept_
        gc.collect()
        await wait(waits_)
        assert info(waits_).state == "succeeded"
        assert [float((await value_).sum()) for value_ in (over_, waits_)] == [COUNT, 2 * COUNT]


async def test_a_job_that_gives_waits_as_long_as_one_runs_that_may_free_something(tmp_path: Path, start_worker) -> None:
    @delayed
    def gives_after(path):
        with path.open("rb") as fifo:
            fifo.read(1)
        return np.full(COUNT, 3, dtype=np.float64)

    @delayed
    def reads(path, _):
        with path.open("rb") as fifo:
            return fifo.read(1)

    for name in ("give", "read"):
        os.mkfifo(tmp_path / name)
    told = tmp_path / "told"
    more, first = ("--store", str(ROOM), "--scratch-limit", "0"), {"n1": TELLS.format(path=str(told), seconds=2)}
    async with far_workers(start_worker, "n1", resources="cores=2", more=more, first=first):
        values = [start((made @ Cores(1))(number)) for number in range(3)]  # two of them beyond the budget
        await wait(values)
        # It begins before jobs go first that free something.
        waits_ = start((gives_after @ Cores(1))(tmp_path / "give"))
        await until(lambda: info(waits_).state == "running")
        reader_ = start((reads @ Cores(1))(tmp_path / "read", values.pop(0)))
        await until(lambda: info(reader_).state == "running")
        with open_fifo(tmp_path / "give"):
            await until(lambda: _told(told, "PaybackDue") == 1)
        assert info(waits_).state == "running"
        with open_fifo(tmp_path / "read"):
            await wait(waits_)
        await waits_
        assert info(waits_).state == "succeeded"


@contextmanager
def open_fifo(path: Path) -> Iterator[None]:
    """Let who reads a byte of a FIFO go on, now or later."""
    with path.open("r+b", buffering=0) as fifo:  # it waits for no reader
        fifo.write(b"x")
        yield


SHORT_OF_MEMORY = "import grainlike_worker.store._replicas as r\nr.spare_memory = lambda: 0"
"""Code of a worker whose machine has no memory for outputs beyond the budget."""


@asynccontextmanager
async def small_and_large(start_worker):
    """Open an executor with two workers of one core: n1, whose store can hold no value of `made`, and n2, that holds a
    few, and alone has `there`. Neither has memory beyond that.
    """
    code = {"n1": SHORT_OF_MEMORY}
    more = ("--store", "100Ki", "--scratch-limit", "0")
    async with far_workers(start_worker, "n1", resources="cores=1", more=more, first=code) as (executor, _):
        large, first = ("--store", str(4 * ROOM), "--scratch-limit", "0"), f"{_elsewhere('n2')}\n{SHORT_OF_MEMORY}"
        start_worker(executor.address, name="n2", resources="cores=1 there=1", more=large, first=first)
        await executor.wait_for_workers(2)
        yield executor


async def test_a_job_whose_value_finds_no_room_runs_again_where_there_is_some(tmp_path: Path, start_worker) -> None:
    async with small_and_large(start_worker) as executor:
        os.mkfifo(tmp_path / "go on")
        blocker = start((waits_for @ (Cores(1) & Resource("there", 1)))(tmp_path / "go on"))
        await until(lambda: info(blocker).state == "running")
        value_ = start((made @ Cores(1))(7))
        words = "Job 2 waits for room in a store: n1 had none for its value, n2 may have. "
        words += "It ran before: its value of 800 KB found no room at n1 (store 102 KB)."
        while str(await executor.explain(value_)) != words:  # until the head has heard that n1 is free again, too
            await checkpoint()
        with (tmp_path / "go on").open("r+b", buffering=0) as fifo:  # it waits for no reader
            fifo.write(b"x")
            await wait(blocker)
        assert float((await value_).sum()) == 7 * COUNT
        assert info(value_).where == ("n2",)
        (row,) = [row for row in await executor.history() if row.job == info(value_).job]
        (before,) = row.earlier
        assert (before.worker, before.outcome, row.worker, row.attempts) == ("n1", "failed", "n2", 2)
        assert re.fullmatch(r"StoreFullError: on worker n1 there is no room for 78\d\.\d+Ki: .*", before.error)


async def test_a_value_for_which_all_stores_are_too_small_fails_and_the_largest_is_named(start_worker) -> None:
    async with small_and_large(start_worker):
        with pytest.raises(StoreFullError, match=r"on worker n\d there is no room for 6\.1Mi") as full:
            await (made_larger @ Cores(1))(1)
        tried = re.search(
            r"; its value of 6.4 MB found no room at (n\d) \(.*\); the largest store of all", str(full.value)
        )
        assert tried is not None, full.value


def _elsewhere(name: str) -> str:
    return f"import grainlike.payload as p\np.memory_id = lambda: {name!r}"


# --- faults ----------------------------------------------------------------------------------------------------------

SMALL_SHARED_MEMORY = """
import os
real = os.posix_fallocate
def of_64_kb(fd, at, size):
    if "/dev/shm/" in os.readlink(f"/proc/self/fd/{fd}") and size > 65536:
        raise OSError(28, "No space left on device")
    real(fd, at, size)
os.posix_fallocate = of_64_kb
"""
FULL_DISK = """
import os
real = os.posix_fallocate
def full(fd, at, size):
    if "/dev/shm/" not in os.readlink(f"/proc/self/fd/{fd}"):
        raise OSError(28, "No space left on device")
    real(fd, at, size)
os.posix_fallocate = full
"""


async def test_where_shared_memory_is_small_values_are_on_the_disk(disk: Path, start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, more=("--scratch", str(disk)), first=SMALL_SHARED_MEMORY)
        values = [(made @ Cores(1))(number) for number in range(3)]
        assert await (total @ Cores(1))(*values) == 3 * COUNT
        assert len(on_disk(disk)) == 3
        assert in_memory(executor) == 0
        assert head_of(executor).values.fetched == 0


async def test_a_full_disk_is_given_up_as_a_tier_and_that_is_said(disk: Path, start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0", on_failure="continue") as executor:
        more = ("--scratch", str(disk), "--store", str(2 * ROOM))
        worker = start_worker(executor.address, resources="cores=1", more=more, first=FULL_DISK)
        values = [(made @ Cores(1))(number) for number in range(3)]  # the third beyond the budget
        await wait(values)
        assert [info(value_).state for value_ in values] == ["succeeded"] * 3
        with pytest.raises(StoreFullError, match=r"no value is written to .* any more: No space left on device"):
            await (made @ Cores(1))(3)
        assert await (total @ Cores(1))(*values) == 3 * COUNT
        await until(lambda: "No space left" in executor.workers()[0].scratch_lost)
        assert worker.process.poll() is None


async def test_a_damaged_file_on_the_disk_is_a_lost_replica_and_the_value_is_made_again(disk: Path) -> None:
    options = {"store": str(ROOM), "scratch": str(disk)}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), **options) as executor:
        values = [(made @ Cores(1))(number) for number in range(2)]
        await wait(values[0])
        await wait(values[1])
        damage(disk)
        assert await (total @ Cores(1))(*values) == COUNT
        assert [info(value_).recomputed for value_ in values] == [1, 0]
        assert executor.report().recomputed == 1


async def test_a_damaged_file_on_the_disk_that_the_program_finds_is_removed_and_counted_no_more(disk: Path) -> None:
    options = {"store": str(ROOM), "scratch": str(disk)}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), **options) as executor:
        values = [(made @ Cores(1))(number) for number in range(2)]
        await wait(values[0])
        await wait(values[1])
        file = damage(disk)
        assert float((await values[0]).sum()) == 0
        assert info(values[0]).recomputed == 1
        await until(lambda: not file.exists() and SIZE < spilled(executor)[0] <= ROOM)  # that of the other value


async def test_a_damaged_file_may_not_be_sent(disk: Path, start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        more = ("--scratch", str(disk), "--store", str(ROOM))
        start_worker(executor.address, more=more, first=_elsewhere("n1"))
        value_, other_ = [(made @ Cores(1))(number) for number in (5, 6)]
        await wait(value_)
        await wait(other_)
        (file,) = on_disk(disk)
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        assert float((await value_).sum()) == 5 * COUNT
        assert info(value_).recomputed == 1


async def test_the_disk_of_a_killed_worker_is_swept_by_the_next(disk: Path, start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        more = ("--scratch", str(disk), "--store", str(ROOM))
        worker = start_worker(executor.address, more=more)
        values = [start((made @ Cores(1))(number)) for number in range(3)]
        await wait(values)
        (left,) = list(disk.iterdir())  # noqa: ASYNC240 - here and now
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in left.iterdir()} == {0o600}
        worker.process.send_signal(signal.SIGKILL)
        await until(lambda: worker.process.poll() is not None)
        assert left.exists()
        start_worker(executor.address, name="n2", more=more)
        await until(lambda: not left.exists())
        assert await (total @ Cores(1))(*values) == 3 * COUNT


async def test_a_job_that_is_cancelled_while_it_waits_for_room_leaves_none(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grainlike_worker.store import _replicas

    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(path: Path, room: Path) -> int:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
        return real(path, room)

    async def seen(replicas, value: int, attempt: int, size: int) -> Path:
        asked.append(value)
        try:
            return await room_for_output(replicas, value, attempt, size)
        finally:
            asked.remove(value)

    asked: list[int] = []
    room_for_output = _replicas.WorkerReplicas.room_for_output
    monkeypatch.setattr(_replicas.WorkerReplicas, "room_for_output", seen)
    real = _replicas.copy_replica
    monkeypatch.setattr(_replicas, "copy_replica", slow)
    options = {"store": str(ROOM), "scratch": str(disk)}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2), on_failure="continue", **options):
        kept = start((made @ Cores(1))(1))
        await wait(kept)
        for function in (made, made_later):
            late = start((function @ Cores(1))(2))
            await until(lambda: asked)
            cancel(late)
            with pytest.raises(JobCancelledError):
                await late
            await until(lambda: not asked)
        gate.set()
        assert await (total @ Cores(1))((made @ Cores(1))(3), kept) == 4 * COUNT


async def test_lost_runners_leave_no_room_taken(disk: Path) -> None:
    @delayed(retries=Retry(losses=0))
    def dies(number):
        import os

        from grainlike_worker.runner.common import _functions

        _functions.write_replica = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        return np.full(COUNT, number, dtype=np.float64)

    options = {"store": str(2 * ROOM), "scratch": str(disk), "scratch_limit": "0"}
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), on_failure="continue", **options) as executor:
        for number in range(4):
            with pytest.raises(WorkerLostError):
                await (dies @ Cores(1))(number)
        values = [(made @ Cores(1))(number) for number in range(2)]
        assert await (total @ Cores(1))(*values) == COUNT
        assert in_memory(executor) <= 2 * ROOM


async def test_copies_of_values_make_room_for_outputs_and_the_values_stay_where_they_were_made(start_worker) -> None:
    async with far_workers(start_worker, "n1", resources="cores=1 here=4") as (executor, _):
        more = ("--store", str(2 * ROOM), "--scratch-limit", "0")
        start_worker(executor.address, name="n2", resources="cores=1 there=4", more=more, first=_elsewhere("n2"))
        await executor.wait_for_workers(2)
        there = Cores(1) & Resource("there", 1)
        values = [(made @ (Cores(1) & Resource("here", 1)))(number) for number in range(4)]
        await wait(values)
        for number, value_ in enumerate(values):  # each has room there once that of another was given up
            assert await (total @ there)(value_) == number * COUNT
        outputs = [(made @ there)(number) for number in range(2)]
        assert await (total @ there)(*outputs) == COUNT
        await until(lambda: [info(value_).where for value_ in values] == [("n1",)] * 4)
        assert executor.report().recomputed == 0
