"""Bytes of a client's large arguments: a worker has them, and neither the head nor its journal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os

import numpy as np
import psutil
import pytest
from argument_calls import entered, sum_of, total
from far import far_workers, far_workers_of_client, head_of, lose, records, replicas
from heads import ELSEWHERE, head_with_journal
from waiting import until

from grainlike import GVAR, Cores, cancel, connect, delayed, info, start
from grainlike.head.values import _credit

pytestmark = pytest.mark.asyncio

SIZE = 4_000_000
LARGE = 20_000_000


def numbers(size: int = SIZE, kind: float = 1.0) -> np.ndarray:
    return np.full(size // 8, kind)


def own(executor) -> list[int]:
    """The values of programs' own that the head knows."""
    return [value.id for value in records(executor).values() if value.fn is None]


async def at_rest(executor) -> None:
    """Wait until head, workers and program keep nothing any more."""
    gc.collect()
    source = executor._engine.fetcher.source
    await until(lambda: not (records(executor) or replicas(executor) or source._own.sizes))
    assert not head_of(executor).state.jobs
    assert not head_of(executor).state.origins


def added(given) -> float:
    return float(sum(given))


@contextlib.asynccontextmanager
async def one_worker(start_worker, heads):
    """A client of a head in a process of its own, which has a far worker with one core."""
    start_worker(heads.address, name="n1", resources="cores=1", first=ELSEWHERE.format(name="n1"))
    async with connect(heads.address) as client:
        await client.wait_for_workers(1)
        yield client


@pytest.mark.parametrize(
    "given",
    [numbers(LARGE), b"b" * LARGE, [float(at) for at in range(LARGE // 8)]],
    ids=["array", "bytes", "list"],
)
async def test_a_large_argument_of_one_call_is_in_no_journal(start_worker, given, tmp_path):
    async with head_with_journal(tmp_path) as heads, one_worker(start_worker, heads) as client:
        size = heads.size
        assert await (sum_of @ Cores(1))(given) == added(given)
        assert heads.size - size < 50_000
        assert client.report().sent > LARGE


async def test_the_head_keeps_no_bytes_of_an_argument_that_a_worker_has(start_worker, tmp_path):
    go_on, large = tmp_path / "go on", 5 * LARGE
    os.mkfifo(go_on)
    async with head_with_journal(tmp_path) as heads, one_worker(start_worker, heads):
        before = psutil.Process(heads.pid).memory_info().rss
        job_ = start((entered @ Cores(1))(numbers(large), str(go_on)))
        await until(lambda: info(job_).state == "running")
        assert psutil.Process(heads.pid).memory_info().rss - before < large // 2
        with go_on.open("r+b", buffering=0) as fifo:
            fifo.write(b"x")
            assert await job_ == large / 8


async def test_a_call_goes_on_when_the_head_is_killed_before_it_runs(start_worker, tmp_path):
    """The argument is at its worker by then, or comes from the program."""
    go_on = tmp_path / "go on"
    os.mkfifo(go_on)
    async with head_with_journal(tmp_path) as heads, one_worker(start_worker, heads) as client:
        blocker_ = start((entered @ Cores(1))(numbers(8), str(go_on)))
        await until(lambda: info(blocker_).state == "running")
        job_ = start((total @ Cores(1))(numbers(LARGE)))
        await client.explain(job_)  # by then the head has the call
        await heads.kill_and_begin()
        with go_on.open("r+b", buffering=0) as fifo:
            fifo.write(b"x")
            assert await job_ == ("n1", LARGE / 8)
        assert heads.size < 1_000_000


async def test_the_program_gives_an_argument_again_whose_worker_is_lost(start_worker, gates):
    async with (
        gates() as gate,
        far_workers_of_client(start_worker, "n1", "n2", resources="cores=1") as (client, workers),
    ):
        visit = gate.visit

        @delayed
        def stand(array):
            visit(GVAR.instance)
            return GVAR.instance, float(array.sum())

        job_ = start((stand @ Cores(1))(numbers()))
        home = (await gate.arrival()).name
        await lose(client, workers, home)
        other = await gate.arrival()
        other.release()
        assert await job_ == (other.name, SIZE / 8)
        assert other.name != home
        assert 2 * SIZE < client.report().sent < 2.1 * SIZE
        del job_
        await at_rest(client)


async def test_two_clients_have_arguments_of_their_own(start_worker):
    async with far_workers(start_worker, "n1", "n2", resources="cores=1") as (head, _):

        async def program(kind):
            async with connect(head.address) as client:
                found = await asyncio.gather(*[client_call(kind) for _ in range(3)])
                return found, client.report().sent

        async def client_call(kind):
            return (await (total @ Cores(1))(numbers(kind=kind)))[1]

        both = await asyncio.gather(program(1.0), program(2.0))
        assert [found for found, _ in both] == [[SIZE / 8] * 3, [SIZE / 4] * 3]
        assert all(3 * SIZE < sent < 3.1 * SIZE for _, sent in both)
        await until(lambda: not (records(head) or replicas(head)))


async def test_a_call_that_is_cancelled_as_its_argument_is_on_the_way_leaves_nothing(start_worker, monkeypatch):
    monkeypatch.setattr(_credit, "_WINDOW_BYTES", 0)  # nothing moves
    async with far_workers_of_client(start_worker, "n1") as (client, _):
        job_ = start((total @ Cores(1))(numbers()))
        await until(lambda: head_of(client).state.transfers)
        why = await client.explain(job_)
        assert "4 MB from the program, on their way to n1" in str(why)
        cancel(job_)
        del job_
        await at_rest(client)


async def test_an_argument_larger_than_any_store_travels_with_its_call(start_worker):
    more = ("--store", str(SIZE // 2), "--scratch-limit", "0")
    async with far_workers_of_client(start_worker, "n1", more=more) as (client, _):
        assert await (total @ Cores(1))(numbers()) == ("n1", SIZE / 8)
        assert await (sum_of @ Cores(1))(b"b" * SIZE) == SIZE * ord("b")
        assert own(client) == []


async def test_an_argument_reaches_a_worker_without_a_data_server(start_worker):
    async with far_workers_of_client(start_worker, "n1", more=("--data", "off")) as (client, _):
        assert await (total @ Cores(1))(numbers()) == ("n1", SIZE / 8)
        assert SIZE < client.report().sent < 1.1 * SIZE
        gc.collect()
        await at_rest(client)


async def test_an_argument_waits_in_the_program_for_the_first_worker(start_worker):
    async with far_workers_of_client(start_worker) as (client, _):
        job_ = start((total @ Cores(1))(numbers()))
        await until(lambda: head_of(client).state.jobs)
        (value,) = own(client)
        assert [parcel_size(job) < 1000 for job in head_of(client).state.jobs.values()] == [True]
        assert records(client)[value].size > SIZE
        start_worker(client.address, name="n1", first=ELSEWHERE.format(name="n1"))
        assert await job_ == ("n1", SIZE / 8)
        del job_
        await at_rest(client)


def parcel_size(job) -> int:
    """Bytes of the packed arguments of a job at the head."""
    data, buffers = job.parcel
    return len(data) + sum(memoryview(buffer).nbytes for buffer in buffers)


async def test_an_argument_is_as_it_was_when_its_call_was_started(start_worker):
    async with far_workers_of_client(start_worker, "n1"):
        array, text = numbers(), [1.0] * (SIZE // 8)
        calls = [start((sum_of @ Cores(1))(given)) for given in (array, text)]
        array[:] = 2.0
        text[:] = [3.0]
        assert [await call_ for call_ in calls] == [SIZE / 8] * 2


async def test_a_call_that_fails_at_its_argument_leaves_nothing(start_worker):
    async with far_workers_of_client(start_worker, "n1") as (client, _):
        failed = False
        try:
            await (sum_of @ Cores(1))(numbers(), numbers())
        except TypeError:  # without `pytest.raises`, which keeps the traceback, and so the arrays
            failed = True
        assert failed
        await at_rest(client)
