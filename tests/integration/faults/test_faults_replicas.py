"""Large values stay at the workers that made them, come where they are needed, and leave nothing however things end."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from limits import LIMIT_S
from replica_calls import COUNT, ends_in_mid_write, made, made_later, made_soon, total, total_soon
from waiting import until, until_files
from weather import Weather, port, way_through

from grainlike import (
    Cores,
    Executor,
    JobCancelledError,
    Resource,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
    wait,
)
from grainlike.payload import memory_id
from grainlike.payload._shared_directory import SharedDirectory
from grainlike.scheduler import HeadScheduler

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(not memory_id(), reason="no shared memory in the file system")]

LARGE = np.arange(COUNT, dtype=np.float64)
TOTAL = float(LARGE.sum())


def apart(name: str) -> str:
    """What a worker runs first that shall share no memory with others."""
    return f"import grainlike.payload as p\np.memory_id = lambda: {name!r}"


def directories(executor: Executor) -> list[Path]:
    """Where the workers of an executor have their replicas."""
    return [Path(peer.hello.replicas) for peer in executor._service.head.peers.values()]


def replicas(executor: Executor) -> list[str]:
    """Return the files of all of them."""
    paths = [path for directory in directories(executor) for path in directory.iterdir()]
    return sorted(path.name for path in paths if path.name != "owner.lock")


def at_rest(executor: Executor) -> bool:
    """True once nothing is kept, or on its way, anywhere."""
    return not replicas(executor) and not executor._service.head.state.transfers


def mover(executor: Executor):
    return executor._service.head.values


# --- where values are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [made, made_soon, made_later])
@pytest.mark.parametrize("reader", [total, total_soon])
@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"])
async def test_a_value_stays_is_used_and_fetched_and_goes(function, reader, listen, start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=None if listen else Cores(1), listen=listen) as executor:
        if listen:
            start_worker(executor.address)
        value_ = (function @ Cores(1))()
        assert await (reader @ Cores(1))(value_) == TOTAL
        assert len(info(value_).where) == 1
        assert 0 <= info(value_).size - LARGE.nbytes < 1000
        assert len(replicas(executor)) == 1
        assert [worker.stored for worker in executor.workers()] == [info(value_).size]
        value = await value_
        assert (value == LARGE).all()
        value += 1
        assert await (reader @ Cores(1))(value_) == TOTAL
        assert mover(executor).fetched == mover(executor).moved == 0
        del value_
        await until(lambda: at_rest(executor))
        assert [worker.stored for worker in executor.workers()] == [0]
        found = directories(executor)
    await until(lambda: not any(map(Path.exists, found)))


async def test_a_reader_may_change_what_it_was_given() -> None:
    @delayed
    def spoilt(value):
        value *= 0
        return float(value.sum())

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        value_ = (made @ Cores(1))()
        assert await (spoilt @ Cores(1))(value_) == 0
        assert await (total @ Cores(1))(value_, value_) == 2 * TOTAL


async def test_small_values_travel_as_before() -> None:
    @delayed
    def few():
        return b"a" * 60_000

    @delayed
    def many():
        return b"a" * 70_000

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        few_, many_ = (few @ Cores(1))(), (many @ Cores(1))()
        await wait(few_, many_)
        assert info(few_).where == ()
        assert info(many_).where == ("local",)
        assert len(replicas(executor)) == 1
        assert await gather([few_, many_]) == [b"a" * 60_000, b"a" * 70_000]


# --- from worker to worker -------------------------------------------------------------------------------------------

NEAR, FAR = Cores(1) & Resource("near", 1), Cores(1) & Resource("far", 1)


async def test_between_workers_that_share_nothing_values_are_relayed(start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        for name in ("near", "far"):
            resources = f"cores=1 {name}=1"
            start_worker(executor.address, name=name, resources=resources, first=apart(name), more=("--data", "off"))
        value_ = (made @ NEAR)()
        assert await (total @ FAR)(value_) == TOTAL
        assert info(value_).where == ("far", "near")
        size = info(value_).size
        assert (mover(executor).moved, mover(executor).relayed, mover(executor).fetched) == (size, size, 0)
        assert (await value_ == LARGE).all()
        assert mover(executor).fetched == size
        assert len(replicas(executor)) == 2
        del value_
        await until(lambda: at_rest(executor))


async def test_workers_of_one_machine_have_one_file_under_two_names(start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        for name in ("near", "far"):
            start_worker(executor.address, name=name, resources=f"cores=1 {name}=1")
        value_ = (made @ NEAR)()
        assert await (total @ FAR)(value_) == TOTAL
        assert info(value_).where == ("far", "near")
        assert mover(executor).moved == 0
        first, second = (path for directory in directories(executor) for path in directory.glob("v*"))
        assert first.samefile(second)
        del value_
        await until(lambda: at_rest(executor))


async def test_from_the_program_s_own_worker_to_a_far_one_and_back(start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, name="far", resources="cores=1 far=1", first=apart("far"))
        home_ = (made @ Cores(1))()
        await wait(home_)
        while info(home_).where != ("local",):
            home_ = (made @ Cores(1))()
            await wait(home_)
        assert await (total @ FAR)(home_) == TOTAL
        assert mover(executor).moved == info(home_).size


@pytest.mark.parametrize("how", ["reset", "cut"])
@pytest.mark.parametrize("which", ["near", "far"])
async def test_a_copy_goes_on_when_a_link_breaks_under_it(how, which, start_worker, tmp_path) -> None:
    @delayed
    def much():
        return np.arange(3_000_000, dtype=np.float64)

    async with (
        asyncio.timeout(LIMIT_S),
        Executor(local=None, listen="tcp://127.0.0.1:0") as executor,
        Weather(port(executor)) as weather,
    ):
        through = way_through(weather, executor, tmp_path)
        for name in ("near", "far"):
            head = through if name == which else executor.address
            start_worker(head, name=name, resources=f"cores=1 {name}=1", first=apart(name), more=("--data", "off"))
        value_ = (much @ NEAR)()
        await wait(value_)
        running = start((total @ FAR)(value_))
        for count in (1, 2):
            await weather.until_made(count)
            await weather.until_carried()
            await weather.until_passed(count * 6_000_000)
            getattr(weather, how)()
        assert await running == sum(range(3_000_000))
        size = info(value_).size
        # What was sent and not acknowledged is sent again: a window at most for each break.
        assert size <= mover(executor).moved <= size + 2 * 4_194_304
        assert info(value_).recomputed == 0
        assert len(executor.workers()) == 2
        del value_, running
        await until(lambda: at_rest(executor))


# --- ends that leave nothing -----------------------------------------------------------------------------------------


async def test_a_process_that_is_killed_in_mid_write_leaves_nothing() -> None:
    @delayed
    def dies():
        ends_in_mid_write("die")
        return np.arange(COUNT, dtype=np.float64)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        with pytest.raises(WorkerLostError):
            await (dies @ Cores(1))()
        assert replicas(executor) == []


async def test_a_write_that_fails_leaves_nothing() -> None:
    @delayed(retries=1)
    def fails():
        ends_in_mid_write("fail")
        return np.arange(COUNT, dtype=np.float64)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        with pytest.raises(RuntimeError, match="halfway"):
            await (fails @ Cores(1))()
        assert replicas(executor) == []


@pytest.mark.parametrize("chained", [False, True])
async def test_where_there_is_no_room_a_value_travels(chained, monkeypatch) -> None:
    if chained:
        monkeypatch.setattr(HeadScheduler, "pace", lambda scheduler, fn: 1e-5)

    @delayed
    def fills():
        ends_in_mid_write("fill")
        return np.arange(COUNT, dtype=np.float64)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        value_ = (fills @ Cores(1))()
        if chained:
            assert await (total @ Cores(1))(value_) == TOTAL
        assert (await value_ == LARGE).all()
        assert info(value_).where == ()
        assert replicas(executor) == []


async def test_a_job_that_is_cancelled_in_mid_write_leaves_nothing(gates) -> None:
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)) as executor:
        visit = gate.visit

        @delayed
        def stands():
            real = os.write

            def writes(fd, data):
                count = real(fd, data[:1000])
                if len(data) > 100_000:
                    visit("here")
                return count

            os.write = writes
            return np.arange(COUNT, dtype=np.float64)

        running = start((stands @ Cores(1))())
        await gate.arrival()
        assert replicas(executor) == [f"v{info(running).job}-1.1.part"]
        cancel(running)
        with pytest.raises(JobCancelledError):
            await running
        await until(lambda: replicas(executor) == [])


async def test_a_job_that_is_tried_again_leaves_one_value(tmp_path) -> None:
    flag = tmp_path / "tried"

    @delayed(retries=1)
    def second_time():
        if not flag.exists():
            flag.touch()
            ends_in_mid_write("die")
        return np.arange(COUNT, dtype=np.float64)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        value_ = (second_time @ Cores(1))()
        assert await (total @ Cores(1))(value_) == TOTAL
        assert replicas(executor) == [f"v{info(value_).job}-2"]


async def test_a_worker_without_shared_memory_sends_its_values(start_worker) -> None:
    first = "from grainlike.payload import SharedDirectory\nSharedDirectory.make = classmethod(lambda cls: None)"
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, first=first)
        value_ = (made @ Cores(1))()
        assert await (total @ Cores(1))(value_) == TOTAL
        assert info(value_).where == ()
        assert (await value_ == LARGE).all()


async def test_what_a_killed_worker_left_is_swept_by_the_next(start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        worker = start_worker(executor.address)
        value_ = (made @ Cores(1))()
        await wait(value_)
        [directory] = directories(executor)
        assert len(list(directory.glob("v*"))) == 1
        worker.process.kill()
        await worker.exit()  # its directory is there still, unless a worker of somebody else began just now
        start_worker(executor.address, name="n2")
        await executor.wait_for_workers(1)
        await until_files(directory.parent, lambda: not directory.exists())


KILLED = """
import asyncio, os, signal
from pathlib import Path
import numpy as np
from grainlike import Cores, Executor, delayed, wait

@delayed
def made():
    return np.arange(100_000, dtype=np.float64)

async def main():
    async with Executor(local=Cores(1)) as executor:
        value_ = (made @ Cores(1))()
        await wait(value_)
        left = Path(next(iter(executor._service.head.peers.values())).hello.replicas)
        print(left, len(list(left.glob("v*"))), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
"""A program that is killed while it has a value: it looks itself, as any other on this machine may sweep it then."""


async def test_what_a_killed_program_left_is_swept_by_the_next(script) -> None:
    program = script(KILLED)
    out, _ = await asyncio.to_thread(program.communicate, timeout=LIMIT_S)
    left, held = out.split()
    assert held == "1"
    assert await until(lambda: _swept(Path(left)))


def _swept(left: Path) -> bool:
    made = SharedDirectory.make()
    assert made is not None
    made.remove()
    return not left.exists()


# --- replicas that are gone or damaged -------------------------------------------------------------------------------


def files(executor: Executor) -> Iterable[Path]:
    return (path for directory in directories(executor) for path in directory.glob("v*"))


@pytest.mark.parametrize("harm", ["gone", "cut"])
@pytest.mark.parametrize("reader", [total, total_soon])
async def test_a_replica_that_a_job_finds_gone_or_damaged_is_made_again(harm, reader) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        value_ = (made @ Cores(1))()
        await wait(value_)
        for path in files(executor):
            path.unlink() if harm == "gone" else os.truncate(path, 1000)
        reading_ = (reader @ Cores(1))(value_)
        assert await reading_ == TOTAL
        assert info(value_).recomputed == 1
        assert info(reading_).attempt == 2
        del value_, reading_
        await until(lambda: at_rest(executor))


@pytest.mark.parametrize("harm", ["gone", "cut", "changed"])
@pytest.mark.parametrize("place", ["near", "far"])
async def test_a_replica_that_is_gone_when_it_is_awaited_is_made_again(harm, place, start_worker) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, resources="cores=1", first=apart("m1") if place == "far" else "")
        await executor.wait_for_workers(1)
        value_ = (made @ Cores(1))()
        await wait(value_)
        for path in files(executor):
            if harm == "gone":
                path.unlink()
            elif harm == "cut":
                os.truncate(path, 1000)
            else:
                path.write_bytes(bytes(path.stat().st_size))
        assert (await value_ == LARGE).all()
        assert info(value_).recomputed == 1
        del value_
        await until(lambda: at_rest(executor))
