"""Messages to programs that use a head elsewhere: of values whose workers are lost, and of where values are."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest
from far import far_workers, lose
from limits import LIMIT_S
from value_calls import make
from waiting import logged, until

from grainlike import Cores, Executor, connect, gather, info, wait
from grainlike.client import _remote_head
from grainlike.client._connection import HeadClient
from grainlike.client._remote_head import RemoteHead
from grainlike.scheduler import _warnings
from grainlike.wire import AskWorkers, WorkersAre

pytestmark = pytest.mark.asyncio

LARGE = 5_000_000


@pytest.mark.parametrize(
    ("way", "times"), [("embedded", 1), ("connected", 2), ("session", 2)], ids=["embedded", "connected", "session"]
)
async def test_an_await_that_nobody_can_serve_says_so_and_explain_tells_of_it(
    way, times, start_worker, caplog, monkeypatch
):
    monkeypatch.setattr(_warnings, "NOBODY_S", 0.0)
    async with far_workers(start_worker, "n1") as (head, workers), contextlib.AsyncExitStack() as stack:
        program = head
        if way != "embedded":
            session = "s" if way == "session" else None
            program = await stack.enter_async_context(connect(head.address, session=session))
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        await lose(head, workers, "n1")
        await until(lambda: not program.workers() and not info(a_).where)  # a client hears of the two by and by
        assert "if a job needs it, it is made again" in str(await program.explain(a_))
        waiting = asyncio.ensure_future(gather(a_))
        said = await logged(caplog, "a worker that can give", times)  # the head's own record is the first
        how = "`grainlike worker start` starts one, `grainlike up` has a batch system do so"
        assert said == [f"1 job waits for a worker that can give cores=1: none is connected: {how}"] * times
        explained = str(await program.explain(a_))
        assert "is at no worker now, and is made again: Job" in explained
        assert explained.endswith("waits for a worker: none is connected.")
        start_worker(head.address, name="n2")
        (value,) = await waiting
        assert value == bytearray(LARGE)
        now = info(a_)
        assert (now.recomputed, now.worker, now.attempt) == (1, "n2", 2)
        assert "made again:" not in str(await program.explain(a_))


@pytest.mark.parametrize("session", [None, "s"])
async def test_a_new_worker_of_a_lost_one_s_name_has_no_value_of_it(session, start_worker):
    async with far_workers(start_worker, "n1") as (head, workers), connect(head.address, session=session) as program:
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        assert info(a_).where == ("n1",)
        await lose(head, workers, "n1")
        again = start_worker(head.address, name="n1")
        await until(lambda: [worker.pid for worker in program.workers()] == [again.pid])
        await until(lambda: info(a_).where == ())
        assert "is at no worker now" in str(await program.explain(a_))
        assert await a_ == bytearray(LARGE)
        await until(lambda: info(a_).where == ("n1",))


async def test_a_session_s_next_program_knows_where_values_are_now(start_worker):
    async with far_workers(start_worker, "n1", "n2") as (head, workers):
        async with connect(head.address, session="s") as program:
            kept_ = program.name("kept", (make @ Cores(1))(LARGE))
            await wait(kept_)
            (first,) = info(kept_).where
        await lose(head, workers, first)
        again = start_worker(head.address, name=first)
        await until(lambda: again.pid in [worker.pid for worker in head.workers()])
        async with connect(head.address, session="s") as program:
            kept_ = program.placeholders()["kept"]
            await wait(kept_)
            await until(lambda: info(kept_).where == ())
            assert await kept_ == bytearray(LARGE)
            await until(lambda: len(info(kept_).where) == 1)
            (second,) = info(kept_).where
            assert (info(kept_).worker, info(kept_).attempt, info(kept_).recomputed) == (second, 2, 1)
        async with connect(head.address, session="s") as program:
            kept_ = program.placeholders()["kept"]
            await wait(kept_)
            await until(lambda: info(kept_).recomputed == 1)
            assert (info(kept_).worker, info(kept_).attempt) == (second, 2)
            await program.forget("kept")


async def test_a_worker_that_joins_while_a_program_introduces_itself_is_known_to_it(start_worker, monkeypatch):
    """The head has answered that there is none; it tells of the worker before the program looks at that answer."""
    ask, hear = HeadClient.ask, RemoteHead._hear
    told = asyncio.Event()

    async def late(client, question, *more):
        answer = await ask(client, question, *more)
        if isinstance(question, AskWorkers) and not told.is_set():  # the first: later ones are those of its looks
            assert answer.workers == []
            start_worker(head.address, name="n1")
            await told.wait()
        return answer

    def hears(remote, frame):
        hear(remote, frame)
        if isinstance(frame.message, WorkersAre) and frame.message.ask == 0:
            told.set()

    monkeypatch.setattr(HeadClient, "ask", late)
    monkeypatch.setattr(RemoteHead, "_hear", hears)
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as head, connect() as program:
        assert [worker.name for worker in program.workers()] == ["n1"]


async def test_a_program_is_told_what_workers_keep(start_worker, tmp_path, monkeypatch):
    monkeypatch.setattr(_remote_head, "LOOKED_S", 0.0)  # it does not ask for it

    def kept(program):
        (worker,) = program.workers()
        return worker.stored, worker.spilled

    more = ("--store", "8M", "--scratch", str(tmp_path))
    async with far_workers(start_worker, "n1", more=more) as (head, _), connect(head.address) as program:
        assert kept(program) == (0, 0)
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        size = info(a_).size
        await until(lambda: kept(program) == kept(head) == (size, 0))
        b_ = (make @ Cores(1))(LARGE)
        await wait(b_)
        await until(lambda: kept(program) == kept(head) == (size, size))  # one of them is on the disk
        async with connect(head.address) as other:
            assert kept(other) == (size, size)
            del a_, b_
            gc.collect()
            await until(lambda: kept(program) == kept(other) == kept(head) == (0, 0))
