"""Large values of programs that use a head elsewhere: they stay at workers, and whoever owns them alone has them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from far import far_workers, far_workers_of_client, head_of, records, replicas
from fault_calls import waits_for
from heads import head_process, listens
from limits import LIMIT_S
from value_calls import make, size_of
from waiting import until
from weather import Weather, port, way_through

from grainlike import (
    Cores,
    Executor,
    Resource,
    ValueLostError,
    cancel,
    connect,
    delayed,
    gather,
    info,
    start,
    wait,
)
from grainlike.cli import main
from grainlike.client import _remote_values
from grainlike.payload import Reference, memory_id

pytestmark = pytest.mark.asyncio

TLS = "tcp://127.0.0.1:0"
LARGE = 5_000_000

near = pytest.mark.skipif(not memory_id(), reason="no shared memory in the file system")


def values_of(client: Executor) -> _remote_values.RemoteValues:
    return client._service._values


async def gone(head: Executor) -> None:
    """Wait until a head and its workers have no value any more."""
    await until(lambda: not records(head))
    await until(lambda: not replicas(head))
    state = head_of(head).state
    assert not state.owners._owners
    assert not state.owners._values
    assert not state.owners.wanted
    assert not state.owners.replicating
    assert not state.transfers
    assert len(state.kept) == 0
    assert not head_of(head).history._earlier.jobs


# --- on one machine --------------------------------------------------------------------------------------------------


@near
async def test_a_program_on_the_worker_s_machine_maps_its_file():
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head, connect(head.address) as client:
        a_ = (make @ Cores(1))(LARGE)
        assert len(await a_) == LARGE
        assert await a_ is await a_
        assert (client.report().fetched, head.report().fetched, head.report().relayed) == (0, 0, 0)
        assert await (size_of @ Cores(1))(a_, a_) == 2 * LARGE
        assert client.report().sent < 100_000
        del a_
        gc.collect()
        await gone(head)


@near
async def test_a_file_that_cannot_be_mapped_is_sent(monkeypatch):
    monkeypatch.setattr(_remote_values, "is_shared_directory", lambda _: False)
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head, connect(head.address) as client:
        a_ = (make @ Cores(1))(LARGE)
        assert len(await a_) == LARGE
        assert client.report().fetched == head.report().fetched == info(a_).size
        del a_
        gc.collect()
        await gone(head)


@near
async def test_a_damaged_file_is_a_loss_and_its_value_is_made_again(tmp_path, capsys):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head, connect(head.address) as client:
        a_ = (make @ Cores(1))(LARGE, str(log))
        await wait(a_)
        (home,) = [Path(peer.hello.replicas) for peer in head_of(head).peers.values()]
        os.truncate(home / replicas(head)[0], 1000)
        assert len(await a_) == LARGE
        assert len(log.read_text().splitlines()) == 2
        assert info(a_).recomputed == client.report().recomputed == 1
        assert info(a_).attempt == 2
        again, first = await client.history()
        assert (first.attempts, first.earlier, again.attempts, again.program) == (1, [], 2, first.program)
        assert [str(one) for one in again.earlier] == [
            "attempt 1 on worker local succeeded: its value was lost, and was needed again"
        ]
        assert await asyncio.to_thread(main, ["report", "--head", head.address]) == 0
        told = capsys.readouterr().out
        assert "1 succeeded" in told.splitlines()[0]
        assert "2 succeeded" in told, "a row for each run"
        assert told.endswith("the table counts a job once more for each time that it ran again for a lost value\n")


@near
async def test_a_run_for_a_lost_value_that_is_called_off_leaves_no_attempt_behind(gates):
    async with (
        gates() as gate,
        asyncio.timeout(LIMIT_S),
        Executor(listen=TLS, local=Cores(1)) as head,
        connect(head.address) as client,
    ):
        visit = gate.visit
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        (home,) = [Path(peer.hello.replicas) for peer in head_of(head).peers.values()]
        os.truncate(home / replicas(head)[0], 1000)
        blocker_ = start((delayed(lambda: visit("here")) @ Cores(1))())
        visitor = await gate.arrival()
        awaiting = asyncio.ensure_future(gather(a_))
        await until(lambda: head_of(head).history._earlier.jobs)  # it is queued behind the one in the gate
        awaiting.cancel()
        await asyncio.wait([awaiting])
        del a_, awaiting
        gc.collect()
        await until(lambda: len(head_of(head).state.kept) == 0)
        visitor.release()
        await blocker_
        await gone(head)
        assert client.report().recomputed == 0


# --- owners ----------------------------------------------------------------------------------------------------------


async def test_what_another_program_owns_is_unknown(monkeypatch):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head, connect(head.address) as client:
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        async with connect(head.address) as other:
            b_ = (make @ Cores(1))(LARGE)
            await wait(b_)
            theirs, mine = next(a_._node.reference.leaves()).id, next(b_._node.reference.leaves()).id
            fetcher, lost = values_of(other).fetcher, {}
            monkeypatch.setattr(fetcher, "lost", lambda value, error: lost.update({value: str(error)}))
            for number in (theirs, 10**9, 0):
                values_of(other).want([number])
                await until(lambda number=number: number in lost)
            values_of(other).release([theirs])
            values_of(other).unwant([theirs])
            monkeypatch.setattr(fetcher, "reference", lambda _: Reference(theirs).__reduce__())
            refused_, good_ = (size_of @ Cores(1))(b_), (size_of @ Cores(1))(bytes(7))
            assert await good_ == 7
            with pytest.raises(ValueLostError) as told:
                await refused_
            assert set(lost.values()) == {"the head knows no such value of this program"}
            assert "make" not in str(told.value)
            assert mine in records(head)
        await until(lambda: mine not in records(head))
        assert values_of(client).where(theirs) == info(a_).where != ()
        assert len(await a_) == LARGE


async def test_a_program_that_leaves_takes_its_values_along():
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(head.address):
            a_, b_ = (make @ Cores(1))(LARGE), (make @ Cores(1))(LARGE)
            await wait(a_, b_)
            assert len(await b_) == LARGE
            assert len(replicas(head)) == 2
        await gone(head)
        with pytest.raises(ValueLostError, match="executor has closed"):
            await a_
        assert len(await b_) == LARGE


async def test_the_values_of_a_program_that_is_killed_are_released(script):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head:
        program = script(
            "import asyncio\n"
            "from grainlike import *\n"
            "def make(): return bytearray(5_000_000)\n"
            "async def main():\n"
            f"    async with connect({str(head.address)!r}):\n"
            "        kept = [(delayed(make) @ Cores(1))() for _ in range(3)]\n"
            "        await wait(kept)\n"
            "        await asyncio.Event().wait()\n"
            "asyncio.run(main())\n"
        )
        await until(lambda: len(replicas(head)) == 3)
        program.send_signal(signal.SIGKILL)
        await gone(head)


async def test_outcomes_that_nobody_wants_any_more_are_released(gates):
    async with (
        gates() as gate,
        asyncio.timeout(LIMIT_S),
        Executor(listen=TLS, local=Cores(1)) as head,
        connect(head.address) as client,
    ):
        visit = gate.visit

        @delayed
        def stand():
            visit("here")
            return bytes(LARGE)

        a_ = start((stand @ Cores(1))())
        visitor = await gate.arrival()
        runner = client._service.runner
        (child,) = runner._nodes
        runner._take(child)  # as when it is cancelled, and that passes its outcome on the way
        visitor.release()
        await until(lambda: head_of(head).counters.succeeded == 1)
        await gone(head)
        cancel(a_)


async def test_a_session_s_calls_without_a_name_go_with_the_program():
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(head.address, session="s") as client:
            a_ = (make @ Cores(1))(LARGE)
            await wait(a_)
            named_ = client.name("total", (size_of @ Cores(1))(a_))
            kept_ = client.name("kept", (make @ Cores(1))(LARGE))
            assert await named_ == LARGE
            assert len(await kept_) == LARGE
            assert len(replicas(head)) == 2
        await until(lambda: len(replicas(head)) == 1)  # that of the call with a name
        async with connect(head.address, session="s") as client:
            assert len(await client.placeholders()["kept"]) == LARGE
            b_ = (make @ Cores(1))(LARGE)
            assert len(await b_) == LARGE
            await client.forget("kept", "total")
        await gone(head)


# --- links -----------------------------------------------------------------------------------------------------------


async def test_a_fetch_goes_on_after_its_link_broke(start_worker, tmp_path):
    size = 30_000_000
    async with far_workers(start_worker, "n1") as (head, _), Weather(port(head)) as weather:
        async with connect(way_through(weather, head, tmp_path, "client")) as client:
            a_ = (make @ Cores(1))(size)
            await wait(a_)
            waiting = asyncio.ensure_future(gather(a_))
            for count in (1, 2):
                await weather.until_made(count)
                before = values_of(client).fetched
                await until(lambda before=before: values_of(client).fetched - before >= 5_000_000)
                weather.closed = True
                weather.reset()
                await until(lambda: head_of(head).values.links._credit.under_way == 0)  # nobody else waits for that
                weather.closed = False
            (value,) = await waiting
            assert value == bytearray(size)
            # What was sent and not acknowledged is sent again: four windows at most for each break.
            assert client.report().fetched <= info(a_).size + 2 * 4_194_304
        await gone(head)


async def test_a_cancelled_await_ends_its_transfer_and_nobody_else_s(start_worker):
    async with far_workers_of_client(start_worker, "n1") as (client, _):
        a_, b_ = (make @ Cores(1))(LARGE), (make @ Cores(1))(50_000_000)
        await wait(a_, b_)
        alone, one, other = asyncio.ensure_future(gather(b_)), asyncio.ensure_future(gather(a_)), gather(a_)
        await until(lambda: head_of(client).state.transfers)
        alone.cancel()
        one.cancel()
        assert len((await other)[0]) == LARGE
        await until(lambda: not head_of(client).state.transfers)
        assert client.report().fetched < 50_000_000
        assert not head_of(client).state.owners.wanted
        assert len(await b_) == 50_000_000
        await until(lambda: head_of(client).values.links._credit.under_way == 0)


@contextlib.asynccontextmanager
async def head_at(address: str) -> AsyncIterator[str]:
    """A head in a task of its own, so that this one's executor is another."""
    opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ends = asyncio.Event()

    async def serve() -> None:
        async with Executor(listen=address, local=Cores(1)) as head:
            opened.set_result(str(head.address))
            await ends.wait()

    serving = asyncio.create_task(serve())
    yield await opened
    ends.set()
    await serving


async def test_what_was_at_a_head_that_is_lost_is_lost():
    async with asyncio.timeout(LIMIT_S), contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        address = await first.enter_async_context(head_at(TLS))
        client = await stack.enter_async_context(connect(address, reconnect=True))
        a_, b_ = (make @ Cores(1))(LARGE), (make @ Cores(1))(LARGE)
        await wait(a_)
        assert len(await b_) == LARGE
        await first.aclose()
        await until(lambda: not client.workers())
        with pytest.raises(ValueLostError, match="when the head was lost"):
            await a_
        assert len(await b_) == LARGE
        await stack.enter_async_context(head_at(address))
        await client.wait_for_workers(1)
        with pytest.raises(ValueLostError, match="when the head was lost"):
            await (size_of @ Cores(1))(a_)
        assert await (size_of @ Cores(1))(b_) == LARGE  # what is here is sent
        c_ = (make @ Cores(1))(LARGE)
        assert await (size_of @ Cores(1))(c_) == len(await c_) == LARGE
        assert info(a_).where == ()


# --- a head that is killed -------------------------------------------------------------------------------------------


async def test_values_outlive_a_head_with_a_journal(start_worker, tmp_path):
    log, journal = tmp_path / "log", tmp_path / "journal"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S):
            address = await listens(heads[0])
            start_worker(address, first="import grainlike.payload as p\np.memory_id = lambda: 'elsewhere'")
            async with connect(address):
                a_ = (make @ Cores(1))(20_000_000, str(log))
                b_ = (make @ Cores(1))(LARGE, str(log))
                await wait(a_, b_)
                heads[0].kill()
                heads[0].communicate()
                heads.append(head_process(journal))
                assert await listens(heads[1]) == address
                assert await a_ == bytearray(20_000_000)
                assert await (size_of @ Cores(1))(a_, b_) == 20_000_000 + LARGE
                assert len(log.read_text().splitlines()) == 2
                assert sum(path.stat().st_size for path in journal.rglob("*") if path.is_file()) < 1_000_000
                await until(lambda: info(a_).where == ("n1",))  # the program hears in a moment that it is there again
    finally:
        for head in heads:
            head.kill()
            head.communicate()


SHORT_OF_MEMORY = """
import grainlike.payload as p, grainlike_worker.store._replicas as r
p.memory_id = lambda: {name!r}
r.spare_memory = lambda: 0
"""
"""Code of a worker of a machine of its own, which has no memory for outputs beyond the budget."""


@pytest.mark.parametrize("is_killed", [False, True], ids=["head lives", "head is killed"])
async def test_a_job_whose_value_found_no_room_runs_elsewhere_once(start_worker, tmp_path, is_killed):
    """Also if the head is killed between its two runs: the next one knows where there was none."""
    log, journal, go_on = tmp_path / "log", tmp_path / "journal", tmp_path / "go on"
    os.mkfifo(go_on)
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S):
            address = await listens(heads[0])
            for name, store, resources in (("n1", 100_000, "cores=1"), ("n2", 4 * LARGE, "cores=1 there=1")):
                more = ("--store", str(store), "--scratch-limit", "0")
                start_worker(
                    address, name=name, resources=resources, more=more, first=SHORT_OF_MEMORY.format(name=name)
                )
            async with connect(address) as client:
                await client.wait_for_workers(2)
                blocker = start((waits_for @ (Cores(1) & Resource("there", 1)))(go_on))
                await until(lambda: info(blocker).state == "running")
                value_ = start((make @ Cores(1))(LARGE, str(log)))
                before = "It ran before: its value of 5 MB found no room at n1 (store 100 KB)."

                async def waits_for_n2():
                    return str(await client.explain(value_)).endswith(f"n2 may have. {before}")

                await until(waits_for_n2)
                if is_killed:
                    heads[0].kill()
                    heads[0].communicate()
                    heads.append(head_process(journal))
                    assert await listens(heads[1]) == address
                    await until(waits_for_n2)
                with go_on.open("r+b", buffering=0) as fifo:  # it waits for no reader
                    fifo.write(b"x")
                    await wait(blocker)
                assert await value_ == bytearray(LARGE)
                assert len(log.read_text().splitlines()) == 2
                (row,) = [row for row in await client.history() if row.job == info(value_).job]
                assert (row.worker, row.attempts, row.outcome) == ("n2", 2, "succeeded")
                assert [(one.worker, one.outcome) for one in row.earlier] == [("n1", "failed")]
                assert "StoreFullError: on worker n1 there is no room for 4.8Mi: " in row.earlier[0].error
    finally:
        for head in heads:
            head.kill()
            head.communicate()
