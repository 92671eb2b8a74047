"""Jobs whose inputs have no room where they could run: they wait, say why, and start when there is some."""

import asyncio
import gc
import json
import logging
import re

import pytest
from array_calls import COUNT, made, made_of, made_once, total
from far import far_workers, far_workers_of_client, head_of
from waiting import until

from grainlike import Cores, Memory, Resource, delayed, info, replicate, start, wait
from grainlike.payload import memory_id

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(not memory_id(), reason="no shared memory in the file system")]

SIZE = 8 * COUNT
ROOM = SIZE + 4096
"""Bytes of a replica, and a few."""

ELSEWHERE = "import grainlike.payload as p\np.memory_id = lambda: {name!r}"


@delayed
def wait_at(visit):
    visit("here")


def at(name: str):
    return Cores(1) & Resource(name, 1)


async def made_at(name: str, count: int):
    values = [start((made @ at(name))(1)) for _ in range(count)]
    return await wait(values)


async def test_a_job_whose_inputs_fit_nowhere_waits_and_starts_where_there_is_room(start_worker, caplog) -> None:
    more = ("--store", str(2 * ROOM), "--scratch-limit", "0")
    async with far_workers(start_worker, "n1", "n2", resources="cores=1 {name}=4", more=more) as (executor, _):
        values = [*await made_at("n1", 2), *await made_at("n2", 1)]
        with caplog.at_level(logging.WARNING, "grainlike"):
            sum_ = start((total @ Cores(1))(*values))
            await until(lambda: "waits for a worker with a larger store" in caplog.text)
        found = await executor.explain(sum_)
        assert found.reason == "store"
        assert re.fullmatch(r"its inputs are 2\.4 MB; n[12] has room for 1\.6 MB at most", found.why)
        start_worker(executor.address, name="n3", resources="cores=1", first=ELSEWHERE.format(name="n3"))
        assert await sum_ == 3 * COUNT


async def test_a_job_whose_inputs_have_no_room_now_starts_when_values_there_are_let_go(start_worker) -> None:
    more = ("--store", str(2 * ROOM), "--scratch-limit", "0")
    async with far_workers(start_worker, "n1", "n2", resources="cores=1 {name}=4", more=more) as (executor, _):
        inputs = await made_at("n1", 2)
        kept = await made_at("n2", 2)
        sum_ = start((total @ at("n2"))(*inputs))
        await until(lambda: _reason(executor) == "store")
        assert "its inputs are 1.6 MB; n2 has room for" in str(await executor.explain(sum_))
        del kept
        gc.collect()
        assert await sum_ == 2 * COUNT


async def test_a_value_moves_away_where_neither_memory_nor_disk_has_room_for_an_input(start_worker) -> None:
    """The small value went to disk for the second large one. There would be room if a large one had gone."""
    more = ("--store", str(SIZE * 24 // 10), "--scratch-limit", str(SIZE * 12 // 10))
    async with far_workers(start_worker, "n1", resources="cores=1 {name}=4", more=more) as (executor, _):
        start_worker(executor.address, name="n2", resources="cores=1 n2=4", first=ELSEWHERE.format(name="n2"))
        await executor.wait_for_workers(2)
        kept = []
        for count in (COUNT * 6 // 10, COUNT, COUNT):
            kept += await wait([start((made_of @ at("n1"))(1, count))])
        (needed,) = await wait([start((made_of @ at("n2"))(1, COUNT * 7 // 10))])
        assert await (total @ at("n1"))(needed) == COUNT * 7 // 10
        assert [info(value_).where for value_ in kept] == [("n1",), ("n2",), ("n1",)]


async def test_what_a_worker_keeps_beyond_its_budget_moves_to_one_with_room(start_worker) -> None:
    more = ("--store", str(ROOM), "--scratch-limit", "0")
    async with far_workers(start_worker, "n1", resources="cores=1 {name}=4", more=more) as (executor, _):
        start_worker(executor.address, name="n2", resources="cores=1", first=ELSEWHERE.format(name="n2"))
        await executor.wait_for_workers(2)
        values = [*await made_at("n1", 1), *await made_at("n1", 1)]
        await until(lambda: sorted(info(value_).where for value_ in values) == [("n1",), ("n2",)])
        (peer,) = [peer for peer in head_of(executor).peers.values() if peer.name == "n1"]
        await until(lambda: not head_of(executor).state.scheduler.workers[peer.number].over)
        assert await (total @ Cores(1))(*values) == 2 * COUNT
        assert executor.report().recomputed == 0


async def test_what_gives_large_values_goes_to_a_worker_with_room_rather_than_to_a_full_one(start_worker) -> None:
    more = ("--store", str(2 * ROOM), "--scratch-limit", "0")
    async with far_workers(start_worker, "n1", resources="cores=1 {name}=4", more=more) as (executor, _):
        start_worker(executor.address, name="n2", resources="cores=1", first=ELSEWHERE.format(name="n2"))
        await executor.wait_for_workers(2)
        kept = await made_at("n1", 2)
        given = [start((made @ Cores(1))(1)) for _ in range(3)]
        await wait(given)
        assert [info(value_).where for value_ in (*kept, *given)] == [("n1",)] * 2 + [("n2",)] * 3


def _reason(executor) -> str:
    found = head_of(executor).state.scheduler.explain(_job(executor), 0.0)
    return "" if found is None else found.reason


def _job(executor) -> int:
    (job,) = head_of(executor).state.scheduler.jobs
    return job


async def test_a_replica_that_fits_into_no_other_store_is_told_and_not_waited_for(start_worker, caplog) -> None:
    async with far_workers(start_worker, "n1", resources="cores=1 {name}=4") as (executor, _):
        more = ("--store", str(SIZE // 2), "--scratch-limit", "0")
        start_worker(executor.address, name="n2", resources="cores=1", more=more, first=ELSEWHERE.format(name="n2"))
        await executor.wait_for_workers(2)
        (value_,) = await made_at("n1", 1)
        with caplog.at_level(logging.WARNING, "grainlike"):
            await replicate(value_, 2)
        why = "its value is 800 KB; n2 has room for 400 KB at most"
        whose = rf"the value of made \(job \d+\) has fewer replicas than it is to have, until .* joins: {why}"
        assert len(re.findall(whose, caplog.text)) == 1
        assert str(await executor.explain(value_)).endswith(f"It has fewer replicas than it is to have: {why}.")
        assert info(value_).where == ("n1",)
        start_worker(executor.address, name="n3", resources="cores=1", first=ELSEWHERE.format(name="n3"))
        await until(lambda: info(value_).where == ("n1", "n3"))
        assert "fewer replicas" not in str(await executor.explain(value_))


async def test_a_client_is_told_of_a_replica_that_fits_into_no_other_store(start_worker, caplog) -> None:
    async with far_workers_of_client(start_worker, "n1", resources="cores=1 {name}=4") as (mine, _):
        more = ("--store", str(SIZE // 2), "--scratch-limit", "0")
        start_worker(mine.address, name="n2", resources="cores=1", more=more, first=ELSEWHERE.format(name="n2"))
        await until(lambda: len(head_of(mine).peers) == 2)
        (value_,) = await made_at("n1", 1)
        why = "its value is 800 KB; n2 has room for 400 KB at most"
        with caplog.at_level(logging.WARNING, "grainlike"):
            await replicate(value_, 2)
            await until(lambda: caplog.text.count(why) == 2)  # the head says it, and the client


async def test_a_replica_waits_for_room_says_so_and_comes_when_there_is_some(start_worker) -> None:
    more = ("--store", str(SIZE + SIZE // 2), "--scratch-limit", "0")
    async with far_workers(start_worker, "n1", "n2", resources="cores=1 {name}=4", more=more) as (executor, _):
        (value_,) = await made_at("n1", 1)
        kept = await made_at("n2", 1)
        replicating = asyncio.create_task(replicate(value_, 2))
        why = "its value is 800 KB; n2 has room for 400 KB of it now"
        await until(lambda: bool(head_of(executor).state.scheduler.why_few(value_._node.reference.id)))
        assert str(await executor.explain(value_)).endswith(f"It has fewer replicas than it is to have: {why}.")
        del kept
        gc.collect()
        await replicating
        assert info(value_).where == ("n1", "n2")


LITTLE = ("--store", str(SIZE + SIZE // 2), "--scratch-limit", "0")
"""Room for one value and a half."""


async def test_the_second_replica_of_a_value_that_may_not_be_made_again_waits_for_room_and_all_are_told(
    start_worker, told
) -> None:
    async with far_workers_of_client(start_worker, "n1", "n2", resources="cores=1 {name}=4", more=LITTLE) as (mine, _):
        kept = await made_at("n2", 1)
        value_ = start((made_once @ at("n1"))(1))
        await wait(value_)
        scheduler, number = head_of(mine).state.scheduler, info(value_).job
        why = "its value is 800 KB; n2 has room for 400 KB of it now"
        assert scheduler.why_few(number) == why
        assert str(await mine.explain(value_)).endswith(f"It has fewer replicas than it is to have: {why}.")
        code, out, *_ = await told("explain", number, "--head", mine.address)
        assert (code, out.splitlines()[-1]) == (0, f"  its value has fewer replicas than it is to have: {why}")
        assert json.loads((await told("explain", number, "--json", "--head", mine.address))[1])["few_replicas"] == why
        assert head_of(mine).state.last_transfer == 0  # nobody tries
        del kept
        gc.collect()
        await until(lambda: info(value_).where == ("n1", "n2"))
        assert "fewer replicas" not in str(await mine.explain(value_))
        assert "few_replicas" not in json.loads((await told("explain", number, "--json", "--head", mine.address))[1])


async def test_a_copy_for_which_a_worker_has_less_room_than_the_head_counts_is_tried_again_and_why_is_told(
    gates, start_worker
) -> None:
    """Memory that is granted to jobs is not the store's."""
    more = ("--store", str(2 * ROOM), "--scratch-limit", "0")
    resources = "cores=1 memory=1G {name}=4"
    async with (
        gates() as gate,
        far_workers(start_worker, "n1", "n2", resources=resources, more=more) as (executor, _),
    ):
        job_ = start((wait_at @ (at("n2") & Memory("1G")))(gate.visit))
        await gate.arrival()
        (value_,) = await made_at("n1", 1)
        replicating = asyncio.create_task(replicate(value_, 2))
        scheduler, number = head_of(executor).state.scheduler, info(value_).job
        await until(lambda: scheduler.why_few(number))
        found = str(await executor.explain(value_))
        assert "a copy to n2 has failed, and is tried again: n2: there is no room for 78" in found
        gate.release_all()
        await replicating
        assert info(value_).where == ("n1", "n2")
        assert "fewer replicas" not in str(await executor.explain(value_))
        await job_
