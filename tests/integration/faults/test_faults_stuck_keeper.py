"""The process that starts a worker's runners stands still, stopped or in the kernel: nobody waits for it for ever."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress

import psutil
import pytest
from fault_calls import parent
from limits import LIMIT_S

from grainlike import Cores, Executor, Retry, WorkerLostError, delayed, start
from grainlike.head.server import _accept
from grainlike_worker.daemon import _keeper_watch
from grainlike_worker.daemon._keeper import open_keeper

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(sys.platform != "linux", reason="there are keepers on Linux only"),
]

QUICK = {"ASK_S": 0.01, "SUSPECT_S": 0.7, "ENDING_S": 0.5}
STUCK = {**QUICK, "LOST_S": 1.4, "_GO_ON": 0}
"""As one that waits in the kernel: no signal but SIGKILL has any effect."""
FAR_AWAY = {**STUCK, "LOST_S": 3600.0}


def hurry(monkeypatch, times):
    for name, value in times.items():
        monkeypatch.setattr(_keeper_watch, name, value)


@pytest.fixture
def stop(monkeypatch):
    """Return a function that stops a keeper for good. It is given up at once; others may take their time to answer."""
    stopped, answers = [], _keeper_watch.answers

    async def answers_or_is_stopped(control, _):
        while not await answers(control, 0.01):
            if any(_keeper_watch.state_of(pid) == "T" for pid in stopped):
                return False
        return True

    def stop(pid):
        stopped.append(pid)
        os.kill(pid, signal.SIGSTOP)

    hurry(monkeypatch, {"ASK_S": 0.01, "ENDING_S": 0.5, "_GO_ON": 0, "answers": answers_or_is_stopped})
    return stop


def in_worker(times):
    """The same, as code for a worker to begin with."""
    sets = "; ".join(f"w.{name} = {value}" for name, value in times.items())
    return f"from grainlike_worker.daemon import _keeper_watch as w; {sets}"


def parent_of(pid):
    return psutil.Process(pid).ppid()


async def test_a_stopped_one_goes_on_and_nothing_is_lost(monkeypatch, caplog):
    hurry(monkeypatch, QUICK)
    caplog.set_level(logging.WARNING)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        keeper = await (parent @ Cores(1))()
        os.kill(keeper, signal.SIGSTOP)
        assert await (parent @ Cores(1))() == keeper
    assert "(stopped): it is told to go on" in caplog.text
    assert "killed" not in caplog.text


async def test_jobs_of_one_that_stays_are_lost_and_the_next_run_elsewhere(stop, caplog, gates, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)):
        once = delayed(gate.visit, retries=Retry(losses=0))
        job = start((once @ Cores(1))("held"))
        visitor = await gate.arrival()
        keeper = parent_of(visitor.pid)
        stop(keeper)
        with pytest.raises(WorkerLostError):
            await job
        assert await still_running([visitor.pid, keeper]) == []
        assert await (parent @ Cores(1))() != keeper
    assert "it is killed, with its runners and their jobs" in caplog.text


async def test_a_program_ends_though_it_stands_still(stop, gates, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        async with Executor(local=Cores(1)):
            start((delayed(gate.visit) @ Cores(1))("held"))
            visitor = await gate.arrival()
            keeper = parent_of(visitor.pid)
            stop(keeper)
        assert await still_running([visitor.pid, keeper]) == []


async def test_what_its_jobs_have_started_ends_with_it(stop, gates, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        visit = gate.visit

        @delayed
        def leave():
            import subprocess

            visit("held", subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)

        async with Executor(local=Cores(1)):
            start((leave @ Cores(1))())
            visitor = await gate.arrival()
            stop(parent_of(visitor.pid))
        assert await still_running([int(visitor.rest[0])]) == []


async def test_a_birth_is_not_waited_for(stop):
    async with asyncio.timeout(LIMIT_S), open_keeper(early=True) as keeper:
        assert keeper is not None
        first = keeper._process
        stop(first.pid)
        with pytest.raises(OSError, match="their keeper ended: killed by SIGKILL"):
            await keeper.fork_runner(["--own"], dict(os.environ), {})
        second = await keeper.fork_runner(["--own"], dict(os.environ), {})  # it has no link, and ends at once
        assert keeper._process is not first
        assert await second.wait() == 1


async def test_orders_beyond_what_a_socket_holds_are_refused_and_hold_up_no_loop(monkeypatch):
    hurry(monkeypatch, FAR_AWAY)
    async with asyncio.timeout(LIMIT_S), open_keeper(early=True) as keeper:
        os.kill(keeper._process.pid, signal.SIGSTOP)
        births = [asyncio.create_task(keeper.fork_runner(["--own"], dict(os.environ), {})) for _ in range(2000)]
        done, _ = await asyncio.wait(births, return_when=asyncio.FIRST_COMPLETED)
        assert {type(birth.exception()) for birth in done} == {BlockingIOError}
        for birth in births:
            birth.cancel()
        await asyncio.gather(*births, return_exceptions=True)


async def test_a_worker_shows_no_life_while_it_stands_still_and_ends_when_told(
    monkeypatch, start_worker, still_running
):
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(_accept, "SECOND_LOOK_S", 0.05)
    monkeypatch.setattr(_accept, "SUSPECT_S", 1.5)  # its first heartbeat may take a second
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as head:
        events = head.events()
        worker = start_worker(head.address, first=in_worker({**STUCK, "LOST_S": 5.0}))
        keeper = await (parent @ Cores(1))()
        os.kill(keeper, signal.SIGSTOP)
        async for event in events:
            if event.kind == "worker_suspected":
                break
        assert "silent" in event.outcome
        worker.process.send_signal(signal.SIGTERM)
        await worker.exit()
        assert await still_running([keeper]) == []


async def test_it_ends_though_its_worker_was_killed_meanwhile(start_worker, gates, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen="tcp://127.0.0.1:0") as head:
        visit = gate.visit

        @delayed(retries=Retry(losses=0))
        def leave():
            import subprocess

            visit("held", subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)

        worker = start_worker(head.address)
        job = start((leave @ Cores(1))())
        visitor = await gate.arrival()
        keeper = parent_of(visitor.pid)
        os.kill(keeper, signal.SIGSTOP)
        worker.process.send_signal(signal.SIGKILL)
        try:
            assert await still_running([visitor.pid, keeper, int(visitor.rest[0])]) == []
            with pytest.raises(WorkerLostError):
                await job
        finally:
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGCONT)
