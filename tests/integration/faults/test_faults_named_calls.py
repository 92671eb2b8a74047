"""Named calls, as they are told to programs that have not their session, and to the next one that has."""

import asyncio
import time

import pytest
from fault_calls import stand
from limits import LIMIT_S
from session_calls import fails, square
from waiting import until, until_called

from grainlike import (
    Cores,
    Executor,
    HeadLostError,
    JobCancelledError,
    RemoteError,
    cancel,
    connect,
    delayed,
    info,
    wait,
)
from grainlike.client import _remote_head
from grainlike.client._connection import call
from grainlike.head.durable import HeadDaemon, _store
from grainlike.head.server import _session_queries, _sessions
from grainlike.head.server._outcome_store import OutcomeStore
from grainlike.wire import AskCancel, Done

pytestmark = pytest.mark.asyncio

TLS = "tcp://127.0.0.1:0"


def states(told):
    return {name: one.state for name, one in told.items()}


async def until_states(executor, session, wanted):
    """Wait until the calls of a session have these states: the head tells nobody of them by itself."""

    async def have():
        return states(await executor.named(session)) == wanted

    await until(have)


async def test_any_program_hears_where_named_calls_are_while_another_has_the_session(gates):
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=TLS, local=Cores(1)) as head,
        connect(head.address) as web,
        connect(head.address, session="sweep") as owner,
    ):
        assert await web.named("sweep") == {}
        before = time.monotonic()
        owner.name("done", (square @ Cores(1))(3))
        owner.name("fails", (fails @ Cores(1))())
        await wait(owner.placeholders().values())
        runs_ = owner.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
        visitor = await gate.arrival()
        owner.name("waits", (square @ Cores(1))(5))
        owner.name("end", (square @ Cores(1))(runs_ + owner.placeholders()["waits"]))
        ended = {"done": "succeeded", "fails": "failed"}
        await until_states(web, "sweep", ended | {"runs": "running", "waits": "pending", "end": "pending"})
        await until(lambda: info(runs_).state == "running")  # the owner hears it over another link
        told = await web.named("sweep")
        done, runs = told["done"], told["runs"]
        for mine, found in ((info(owner.placeholders()["done"]), done), (info(runs_), runs)):
            for fact in ("name", "state", "worker", "allocation", "attempt", "receipt", "size", "where", "job"):
                assert getattr(found, fact) == getattr(mine, fact), fact
        assert (runs.worker, runs.allocation, runs.ended) == ("local", Cores([0]), None)
        assert before <= runs.began <= time.monotonic()
        assert done.began <= done.ended <= time.monotonic()
        assert done.usage.wall_s == pytest.approx(info(owner.placeholders()["done"]).usage.wall_s)
        assert isinstance(told["fails"].error, RemoteError)
        assert str(told["fails"].error) == "ArithmeticError: as it should"
        waits, end = told["waits"], told["end"]
        assert (waits.worker, waits.allocation, waits.began, waits.job > 0) == (None, None, None, True)
        assert (end.worker, end.job, end.attempt, end.error) == (None, 0, 0, None)
        assert states(await web.named("sweep", "runs", "never")) == {"runs": "running"}
        assert states(await owner.named("sweep", "done")) == {"done": "succeeded"}
        assert await web.named("other") == {}
        cancel(owner.placeholders()["end"])
        await owner.forget("done")
        await until_states(web, "sweep", {"fails": "failed", "runs": "running", "waits": "pending"})
        assert info(runs_).state == "running"  # to ask changes nothing
        visitor.release()
        await until_states(web, "sweep", {"fails": "failed", "runs": "succeeded", "waits": "succeeded"})


async def test_calls_of_a_session_that_no_program_has_are_told_until_it_ends(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(head.address, session="sweep") as owner:
            owner.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            await gate.arrival()
            owner.name("waits", (square @ Cores(1))(5))
        async with connect(head.address) as web:
            await until_states(web, "sweep", {"runs": "running", "waits": "pending"})
            told = await web.named("sweep")
            async with call(head.address) as caller:
                await caller.ask(AskCancel(0, told["waits"].job), Done)
            waits = (await web.named("sweep"))["waits"]
            assert (waits.state, waits.worker, waits.job) == ("cancelled", None, told["waits"].job)
            assert isinstance(waits.error, JobCancelledError)
            gate.release_all()
            await until_states(web, "sweep", {"runs": "succeeded", "waits": "cancelled"})
            async with connect(head.address, session="sweep") as owner:
                await owner.forget("runs", "waits")
            await until_states(web, "sweep", {})


async def test_the_next_program_of_a_session_hears_since_when_a_call_runs(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(head.address, session="sweep") as first:
            first.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            await gate.arrival()
            await until_states(first, "sweep", {"runs": "running"})
            (job,) = head._service.head.state.jobs.values()
            job.placement.began -= 3600  # an hour ago
        async with connect(head.address, session="sweep") as second:
            told = info(second.placeholders()["runs"])
            assert (told.state, told.worker) == ("running", "local")
            assert told.began <= time.monotonic() - 3600
            asked = (await second.named("sweep"))["runs"]
            assert asked.began <= time.monotonic() - 3600
            gate.release_all()


async def test_a_head_that_was_started_again_tells_of_them_as_before(gates, start_worker, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "LOOK_S", 3600.0)
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        visit = gate.visit
        async with HeadDaemon(TLS, journal=journal) as daemon:
            start_worker(daemon.address, name="n1", resources="cores=1")
            async with connect(session="sweep") as owner:
                await owner.wait_for_workers(1)
                owner.name("done", (delayed(divmod) @ Cores(1))(7, 2))
                owner.name("fails", (delayed(divmod) @ Cores(1))(7, 0))
                await wait(owner.placeholders().values())
                owner.name("runs", (delayed(visit) @ Cores(1))("runs"))
                await gate.arrival()
                owner.name("waits", (delayed(abs) @ Cores(1))(-1))
                wanted = {"done": "succeeded", "fails": "failed", "runs": "running", "waits": "pending"}
                await until_states(owner, "sweep", wanted)
                before, arrived = await owner.named("sweep"), time.monotonic()
            daemon.leaves = True
        async with HeadDaemon(TLS, journal=journal), connect() as web:
            await web.wait_for_workers(1)
            await until_states(web, "sweep", wanted)
            asked = time.monotonic()
            told = await web.named("sweep")
            way_s = time.monotonic() - asked  # by at most so much are moments late
            for name, one in before.items():
                for fact in ("name", "worker", "allocation", "attempt", "job", "receipt", "size"):
                    assert getattr(told[name], fact) == getattr(one, fact), (name, fact)
                assert str(told[name].error) == str(one.error)
            assert told["runs"].began - way_s <= arrived
            assert told["done"].began <= told["done"].ended
            ended = before["done"].ended
            assert ended == pytest.approx(told["done"].ended, abs=60)  # the calendar may be set meanwhile
            gate.release_all()
            await until_states(web, "sweep", wanted | {"runs": "succeeded", "waits": "succeeded"})
        async with HeadDaemon(TLS, journal=tmp_path / "another"), connect() as web:
            assert await web.named("sweep") == {}


async def test_a_head_that_is_lost_tells_nothing():
    async with asyncio.timeout(LIMIT_S):
        head = Executor(listen=TLS, local=Cores(1))
        async with head:
            web = await connect(head.address)
            assert await web.named("sweep") == {}
        with pytest.raises(HeadLostError):
            await web.named("sweep")
        await web.aclose()


async def test_many_names_are_told_in_parts(monkeypatch):
    monkeypatch.setattr(_session_queries, "_ROWS", 2)
    monkeypatch.setattr(_remote_head, "_NAMES", 3)
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=TLS, local=Cores(1)) as head,
        connect(head.address, session="sweep") as owner,
    ):
        names = [f"r{number}" for number in range(7)]
        for number, name in enumerate(names):
            owner.name(name, (square @ Cores(1))(number))
        await wait(owner.placeholders().values())
        assert list(await owner.named("sweep")) == names
        assert sorted(await owner.named("sweep", *reversed(names[1:]), "never")) == names[1:]


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
async def test_of_calls_whose_jobs_the_head_has_forgotten_the_kept_outcome_tells(monkeypatch, on_disk):
    if on_disk:
        monkeypatch.setattr(_sessions, "KEPT_BYTES", 0)
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=TLS, local=Cores(1)) as head,
        connect(head.address, session="sweep") as owner,
    ):
        owner.name("done", (square @ Cores(1))(3))
        owner.name("fails", (fails @ Cores(1))())
        await wait(owner.placeholders().values())
        if on_disk:
            sessions = head._service._service._clients.sessions
            await until_called(OutcomeStore, "_look_at_budget", lambda: len(list(sessions.files())) == 2)
        assert states(await owner.named("sweep")) == {"done": "succeeded", "fails": "failed"}
        monkeypatch.setattr(head._service.head.history, "find_all", lambda numbers: {})
        told = await owner.named("sweep")
        if on_disk:
            assert states(told) == {"done": "lazy", "fails": "lazy"}
        else:
            assert states(told) == {"done": "succeeded", "fails": "failed"}
            assert isinstance(told["fails"].error, RemoteError)
            assert told["done"].size > 0
        await owner.forget("done", "fails")
