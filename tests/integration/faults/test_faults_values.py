"""Large values stay at the workers that made them: what moves, what is made again, what is left of them."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from far import far_workers, far_workers_of_client, head_of, lose, records, replicas
from limits import LIMIT_S
from value_calls import LARGE, make, more, place, size_of
from waiting import until

from grainlike import (
    GVAR,
    Cores,
    Executor,
    ResourceError,
    Retry,
    ValueLostError,
    as_completed,
    cancel,
    delayed,
    gather,
    info,
    replicate,
    start,
    wait,
)
from grainlike.scheduler import HeadScheduler
from grainlike.scheduler.values import _reach

pytestmark = pytest.mark.asyncio

COUNT = int(os.environ.get("GRAINLIKE_TEST_VALUES", "1000"))


@pytest.fixture(params=[far_workers, far_workers_of_client], ids=["embedded", "client"])
def far(request):
    """Far workers of a program that has a head, or uses one elsewhere."""
    return request.param


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def at_rest(executor: Executor) -> None:
    """Wait until nothing of any value is left, at the head or at workers."""
    gc.collect()
    await until(lambda: not records(executor))
    await until(lambda: not replicas(executor))
    assert len(head_of(executor).state.kept) == 0
    assert not head_of(executor).state.jobs


# --- what moves ------------------------------------------------------------------------------------------------------


async def test_a_value_used_on_two_nodes_moves_once_and_not_through_the_head(far, start_worker, gates):
    async with gates() as gate, far(start_worker, "n1", "n2") as (executor, _):
        visit = gate.visit

        @delayed
        def stand(value):
            visit(GVAR.instance)
            return len(value)

        a_ = (make @ Cores(1))(50_000_000)
        await wait(a_)
        size = info(a_).size
        assert len(info(a_).where) == 1
        assert 50_000_000 < size < 50_001_000
        assert executor.report().fetched == head_of(executor).totals().moved == 0
        jobs = [start((stand @ Cores(1))(a_)) for _ in range(8)]
        there = [(await gate.arrival()).name for _ in range(4)]  # all slots of both
        assert sorted(there) == ["n1", "n1", "n2", "n2"]
        gate.release_all()
        assert await gather(jobs) == [50_000_000] * 8
        assert info(a_).where == ("n1", "n2")
        moved = head_of(executor).totals()
        assert (moved.moved, moved.relayed, moved.fetched) == (size, 0, 0)
        assert (executor.report().fetched, executor.report().sent < 100_000) == (0, True)
        del a_, jobs
        await at_rest(executor)


async def test_an_await_brings_a_value_from_afar(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        assert len(await a_) == LARGE
        assert executor.report().fetched == info(a_).size
        assert await a_ is await a_
        assert await (size_of @ Cores(1))(a_, a_) == 2 * LARGE  # by reference still
        assert executor.report().sent < 100_000


async def test_a_chain_stays_on_its_worker_while_others_are_idle(far, start_worker, tmp_path, monkeypatch):
    async with far(start_worker, "n1", "n2") as (executor, _):
        head, most = head_of(executor), 0
        report = head._report

        def reported(*args):
            nonlocal most
            report(*args)
            most = max(most, sum(bool(value.replicas) for value in records(executor).values()))

        monkeypatch.setattr(head, "_report", reported)
        log = tmp_path / "log"
        value_ = (make @ Cores(1))(LARGE, str(log))
        for _ in range(10):
            value_ = (more @ Cores(1))(value_, str(log))
        await wait(value_)
        assert len({place for _, place in lines(log)}) == 1
        assert head_of(executor).totals().moved == 0
        assert most <= 3
        assert (await value_)[0] == 10
        del value_
        await at_rest(executor)


async def test_a_chain_of_calls_that_are_known_to_be_quick_sends_no_value_out_of_the_program(start_worker, monkeypatch):
    monkeypatch.setattr(HeadScheduler, "pace", lambda scheduler, fn: 1e-5)
    async with far_workers(start_worker, "n1") as (executor, _):
        value_ = first_ = (make @ Cores(1))(LARGE)
        for _ in range(10):
            value_ = (more @ Cores(1))(value_, os.devnull)
        assert await (size_of @ Cores(1))(value_) == LARGE
        assert (info(first_).where, info(value_).where) == (("n1",), ("n1",))
        assert (executor.report().sent < 100_000, executor.report().fetched) == (True, 0)


async def test_many_quick_readers_move_nothing(far, start_worker, monkeypatch):
    monkeypatch.setattr(_reach, "BYTES_PER_S", 1.0)  # moving takes longer than all readers do
    async with far(start_worker, "n1", "n2") as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        assert set(await gather((place @ Cores(1))(a_) for _ in range(400))) == set(info(a_).where)
        assert head_of(executor).totals().moved == 0


async def test_references_in_containers_and_gathers_reach_jobs(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        a_, b_ = (make @ Cores(1))(LARGE), (make @ Cores(1))(LARGE + 1)

        @delayed
        def total(many, by_name=None):
            return sum(map(len, many)) + sum(map(len, (by_name or {}).values()))

        job = total @ Cores(1)
        given = [job([a_, b_]), job((a_,), by_name={"b": b_}), job(gather(a_, b_))]
        assert await gather(given) == [2 * LARGE + 1] * 3
        assert executor.report().fetched == 0


# --- losses ----------------------------------------------------------------------------------------------------------


async def test_a_lost_value_is_made_again_once_when_it_is_needed_and_right(far, start_worker, tmp_path, caplog):
    log = tmp_path / "log"
    async with far(start_worker, "n1", "n2") as (executor, workers):
        a_ = (make @ Cores(1))(LARGE, str(log))
        b_ = (more @ Cores(1))(a_, str(log))
        await wait(b_)
        (home,) = info(b_).where
        await lose(executor, workers, home)
        await until(lambda r_=b_: info(r_).where == ())
        assert "is at no worker now" in str(await executor.explain(b_))
        assert len(lines(log)) == 2  # not before somebody needs it
        assert "made again" not in caplog.text
        assert await gather((size_of @ Cores(1))(b_) for _ in range(4)) == [LARGE] * 4
        assert (await b_)[0] == 1
        assert [name for name, _ in lines(log)] == ["made", "more", "made", "more"]
        assert (info(a_).recomputed, info(b_).recomputed, executor.report().recomputed) == (1, 1, 2)
        warned = (
            f"the values of 2 calls were lost, and are made again: more (job {info(b_).job}), make (job {info(a_).job})"
        )
        said = [record.getMessage() for record in caplog.records if warned in record.getMessage()]
        assert 1 <= len(said) <= 2, "by the head, and by the program that is connected to it"
        told = str(await executor.explain(b_))
        assert f"Its value, {info(b_).size:,} bytes, is at {info(b_).where[0]}, and in this program." in told
        assert "It ran again once: workers were lost that alone had its value." in told
        assert info(b_).where
        assert home not in info(b_).where
        del a_, b_
        await at_rest(executor)


async def test_an_awaiter_brings_a_lost_value_back(far, start_worker, tmp_path):
    log = tmp_path / "log"
    async with far(start_worker, "n1", "n2") as (executor, workers):
        a_ = (make @ Cores(1))(LARGE, str(log))
        await wait(a_)
        await lose(executor, workers, info(a_).where[0])
        assert len(await a_) == LARGE
        assert len(lines(log)) == 2


async def test_a_function_that_runs_once_is_never_run_again(far, start_worker, tmp_path):
    log = tmp_path / "log"
    once = delayed(make.function.callable, name="once", retries=Retry(0, losses=0)) @ Cores(1)
    async with far(start_worker, "n1", "n2") as (executor, workers):
        a_ = once(LARGE, str(log))
        await wait(a_)
        (home,) = info(a_).where
        await lose(executor, workers, home)
        with pytest.raises(ValueLostError, match=rf"once .*{home}.*losses") as lost:
            await a_
        assert "`await replicate(r_, 2)` keeps a second replica" in str(lost.value)
        told = str(await executor.explain(a_))
        assert "bytes, is lost at all workers, and can never be made again: " in told
        assert f"worker {home} was lost with it, and its function may not run again (losses=0)" in told
        with pytest.raises(ValueLostError, match="once"):
            await (size_of @ Cores(1))(a_)
        assert len(lines(log)) == 1
        assert info(a_).state == "succeeded"


async def test_a_replica_that_was_asked_for_outlives_a_worker_and_is_made_good(far, start_worker, tmp_path):
    log = tmp_path / "log"
    async with far(start_worker, "n1", "n2", "n3") as (executor, workers):
        values = [(make @ Cores(1))(LARGE, str(log))]
        await replicate(values, 2)
        assert len(info(values[0]).where) == 2
        assert executor.report().fetched == 0
        lost, kept = info(values[0]).where
        await lose(executor, workers, lost)
        (third,) = {"n1", "n2", "n3"} - {lost, kept}
        await until(lambda: info(values[0]).where == tuple(sorted((kept, third))))  # clients hear it later
        await lose(executor, workers, kept)
        assert await gather((size_of @ Cores(1))(*values) for _ in range(4)) == [LARGE] * 4
        assert len(await values[0]) == LARGE
        assert (len(lines(log)), executor.report().recomputed) == (1, 0)
        await replicate(values, "all")  # as many as there can be
        values.clear()
        await at_rest(executor)


async def test_replicas_of_a_lost_value_cannot_be_had(far, start_worker):
    once = delayed(make.function.callable, retries=Retry(0, losses=0)) @ Cores(1)
    async with far(start_worker, "n1") as (executor, workers):
        a_, again_ = once(LARGE), (make @ Cores(1))(LARGE)
        await wait(a_, again_)
        await lose(executor, workers, "n1")
        with pytest.raises(ValueLostError, match="losses=0"):
            await replicate([again_, a_], 2)
        assert "losses=0" in str(await executor.explain(a_))
        assert "is at no worker now, and is made again: " in str(await executor.explain(again_))


async def test_values_of_a_worker_that_is_drained_go_elsewhere_and_nothing_runs_again(far, start_worker, tmp_path):
    log = tmp_path / "log"
    async with far(start_worker, "n1", "n2") as (executor, workers):
        parts = [(make @ Cores(1))(LARGE, str(log)) for _ in range(4)]
        await replicate(parts[:1], 2)
        await wait(parts)
        assert len(info(parts[0]).where) == 2
        leaving = info(parts[1]).where[0]
        (left,) = {"n1", "n2"} - {leaving}
        head_of(executor).send_off(
            [p.number for p in head_of(executor).peers.values() if p.name == leaving], kill=False
        )
        code, said = await workers[leaving].exit()
        assert code == 0, said
        await until(lambda: [info(r_).where for r_ in parts] == [(left,)] * 4)  # its process ends before that is heard
        assert await (size_of @ Cores(1))(*parts) == 4 * LARGE
        assert (len(lines(log)), executor.report().recomputed) == (4, 0)


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_worker_that_drains_gives_away_what_only_it_has_and_goes_then(start_worker, tmp_path):
    log = tmp_path / "log"
    async with far_workers(start_worker, "n1", "n2") as (executor, workers):
        made = [(make @ Cores(1))(size, str(log)) for size in (LARGE, 4 * LARGE)]
        await wait(made)
        before = lines(log)
        (home,) = info(made[1]).where
        other = {"n1": "n2", "n2": "n1"}[home]
        assert head_of(executor).release([home], kill=False) == [home]
        code, said = await workers[home].exit()
        assert code == 0, said
        await until(lambda: len(executor.workers()) == 1)
        assert [info(each).where for each in made] == [(other,)] * 2
        assert await gather((size_of @ Cores(1))(each) for each in made) == [LARGE, 4 * LARGE]
        assert executor.report().recomputed == 0
        assert lines(log) == before
        del made
        await at_rest(executor)


async def test_a_value_over_half_of_the_memory_is_refused_before_a_byte_moves(far, start_worker, monkeypatch):
    monkeypatch.setattr("grainlike.executor._lifecycle.max_message_bytes", lambda: 2 * LARGE)
    async with far(start_worker, "n1") as (executor, _):
        big_ = (make @ Cores(1))(2 * LARGE)
        many = [(make @ Cores(1))(LARGE) for _ in range(3)]
        await wait(big_, *many)
        for refused in (big_, gather(many)):
            with pytest.raises(ResourceError, match=r"as_completed"):
                await refused
        assert executor.report().fetched == 0
        assert info(big_).where == ("n1",)
        async for r_ in as_completed(many):
            assert len(await r_) == LARGE
        assert await (size_of @ Cores(1))(big_) == 2 * LARGE


# --- the end ---------------------------------------------------------------------------------------------------------


async def test_references_that_are_dropped_in_a_thread_and_in_a_cycle_are_let_go():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        kept = [(make @ Cores(1))(LARGE) for _ in range(4)]
        cycle: list[object] = [(make @ Cores(1))(LARGE)]
        cycle.append(cycle)
        await wait([*kept, cycle[0]])
        assert len(replicas(executor)) == 5
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        del cycle
        await at_rest(executor)


async def test_references_at_the_end_of_the_program_say_nothing_and_leave_nothing(script):
    program = script(
        "import asyncio, gc\n"
        "from grainlike import *\n"
        "def make(): return bytearray(5_000_000)\n"
        "kept = []\n"
        "class Late:\n"
        "    def __del__(self, kept=kept): kept.clear()\n"
        "async def main():\n"
        "    async with Executor(local=Cores(1)) as executor:\n"
        "        kept.extend([(delayed(make) @ Cores(1))() for _ in range(3)])\n"
        "        await wait(kept)\n"
        "        print(executor._service.head.peers[1].hello.replicas, flush=True)\n"
        "        kept.append(Late())\n"
        "asyncio.run(main())\n"
    )
    said, complained = await asyncio.to_thread(program.communicate)
    assert (program.returncode, complained) == (0, "")
    assert not os.path.exists(said.strip())  # noqa: PTH110, ASYNC240 - it is gone, or the test fails


async def test_cancelled_failed_and_retried_jobs_leave_no_bytes(far, start_worker, gates, tmp_path):
    flag = tmp_path / "flag"
    async with gates() as gate, far(start_worker, "n1") as (executor, _):
        visit = gate.visit

        @delayed(retries=1)
        def second_time(value):
            if not flag.exists():
                flag.touch()
                raise OSError("the first time")
            return value

        @delayed
        def fails(value):
            raise ValueError(len(value))

        @delayed
        def stands(value):
            visit("here")
            return value

        a_ = (make @ Cores(1))(LARGE)
        again_, bad_, cancelled_ = (second_time @ Cores(1))(a_), (fails @ Cores(1))(a_), (stands @ Cores(1))(a_)
        start(cancelled_)
        await gate.arrival()
        await wait(again_, bad_)
        assert info(again_).attempt == 2
        with pytest.raises(ValueError, match=str(LARGE)):
            await bad_
        cancel(cancelled_)
        await wait(cancelled_)
        del a_, again_, bad_, cancelled_
        await at_rest(executor)


async def test_a_value_goes_when_its_last_reader_has_ended_and_not_before(far, start_worker, gates):
    async with gates() as gate, far(start_worker, "n1") as (executor, _):
        visit = gate.visit

        @delayed
        def stands(value):
            visit("here")
            return len(value)

        a_ = (make @ Cores(1))(LARGE)
        reader_ = start((stands @ Cores(1))(a_))
        visitor = await gate.arrival()
        del a_
        gc.collect()
        await asyncio.sleep(0)
        assert len(replicas(executor)) == 1
        visitor.release()
        assert await reader_ == LARGE
        await at_rest(executor)


async def test_what_was_not_fetched_goes_with_the_executor_and_what_was_stays():
    async with asyncio.timeout(LIMIT_S):
        async with Executor(local=Cores(1)) as executor:
            a_, b_ = (make @ Cores(1))(LARGE), (make @ Cores(1))(LARGE)
            await wait(a_)
            assert len(await b_) == LARGE
            (home,) = {Path(peer.hello.replicas) for peer in head_of(executor).peers.values()}
        assert not home.exists()
        with pytest.raises(ValueLostError, match="executor has closed"):
            await a_
        assert len(await b_) == LARGE
        async with Executor(local=Cores(1)):
            assert await (size_of @ Cores(1))(b_) == LARGE  # another executor has what is in the program
            with pytest.raises(ValueLostError):
                await (size_of @ Cores(1))(a_)


async def test_a_value_of_another_executor_is_fetched_for_a_job():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        async with Executor(local=Cores(1)):
            assert await (size_of @ Cores(1))(a_) == LARGE


async def test_a_reference_takes_little_of_the_head(monkeypatch):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        job = make @ Cores(1)
        await wait(job(100_000) for _ in range(20))
        await at_rest(executor)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            kept = await wait(job(100_000) for _ in range(200))
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert len(replicas(executor)) == 200
        # 64 MB for 10 000; placeholder, node and record are part of it.
        assert grown / len(kept) < 6_400
        del kept
        await at_rest(executor)


async def test_the_resident_memory_of_a_program_hardly_grows_with_values_that_stay(script):
    """`GRAINLIKE_TEST_VALUES` of them, as `make test-long` has 10 000."""
    program = script(
        "import asyncio, gc, sys\n"
        "import psutil\n"
        "from grainlike import *\n"
        "def make(): return bytes(100_000)\n"
        "async def main(count):\n"
        "    async with Executor(local=Cores(2)) as executor:\n"
        "        job = delayed(make) @ Cores(1)\n"
        "        await wait(job() for _ in range(200))\n"
        "        gc.collect()\n"
        "        before = psutil.Process().memory_info()\n"
        "        kept = await wait(job() for _ in range(count))\n"
        "        after = psutil.Process().memory_info()\n"
        "        there = sum(info(r_).size > 100_000 and info(r_).where == ('local',) for r_ in kept)\n"
        "        print(there, after.rss - after.shared - before.rss + before.shared)\n"
        "asyncio.run(main(int(sys.argv[1])))\n",
        COUNT,
    )
    said, complained = await asyncio.to_thread(program.communicate)
    assert (program.returncode, complained) == (0, "")
    there, grown = map(int, said.split())
    assert there == COUNT
    assert grown <= max(64e6 * COUNT / 10_000, 16e6)
