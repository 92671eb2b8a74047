"""Runners, workers and heads that are killed: every job still ends, nobody else's job is hurt, and nothing is left."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys

import pytest
from limits import LIMIT_S

from grainlike import (
    GVAR,
    Cores,
    Executor,
    JobCancelledError,
    Retry,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
)
from grainlike.telemetry import CallObserver

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


async def test_killed_runners_and_a_killed_worker_lose_no_job_of_200(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def plain(number):
            if number % 40 == 0:
                visit("plain")
            return number * 2

        @delayed
        async def coroutine(number):
            if number % 40 == 0:
                visit("coroutine")
            return number * 2

        first = start_worker(executor.address, name="first")
        await executor.wait_for_workers(1)
        placeholders = [((plain if number % 2 else coroutine) @ Cores(1))(number) for number in range(1, 201)]
        all_ = start(gather(placeholders))
        held = await gate.arrival()
        os.kill(held.pid, signal.SIGKILL)
        again = await gate.arrival()
        start_worker(executor.address, name="second")
        await executor.wait_for_workers(2)
        os.kill(first.pid, signal.SIGKILL)
        assert again.pid != held.pid
        gate.release_all()
        assert await all_ == [number * 2 for number in range(1, 201)]


async def test_an_observer_that_hears_of_a_loss_may_cancel_what_that_worker_ran_besides(gates, start_worker):
    class Stops(CallObserver):
        def ended(self, call):
            if call.outcome == "failed":
                cancel(again_)

    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=LISTEN, local=None, observers=[Stops()]) as executor,
    ):
        worker = start_worker(executor.address)
        await executor.wait_for_workers(1)
        once_ = start((delayed(retries=Retry(0, losses=0))(gate.visit) @ Cores(1))("once"))
        again_ = start((delayed(gate.visit) @ Cores(1))("again"))
        await gate.arrival()
        await gate.arrival()
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerLostError):
            await once_
        with pytest.raises(JobCancelledError):
            await again_
        assert [info(value_).state for value_ in (once_, again_)] == ["failed", "cancelled"]
        assert [(job.job, job.outcome) for job in await executor.history()] == [(2, "cancelled"), (1, "failed")]


async def test_without_a_worker_jobs_wait_and_run_when_one_joins(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def job(number):
            visit(number)
            return GVAR.instance

        start_worker(executor.address, name="first")
        all_ = start(gather((job @ Cores(1))(number) for number in range(20)))
        await gate.arrival()
        events = executor.events()
        os.kill(executor.workers()[0].pid, signal.SIGKILL)
        while (await anext(events)).kind != "worker_left":
            pass
        assert not executor.workers()
        gate.release_all()
        start_worker(executor.address, name="second")
        assert await all_ == ["second"] * 20


@pytest.mark.parametrize("how", ["exit", "segfault"])
@pytest.mark.parametrize("kind", ["plain", "coroutine", "embedded plain", "isolated"])
async def test_a_poison_job_ends_alone_in_worker_lost_error(kind, how, start_worker):
    def die():
        os._exit(7) if how == "exit" else ctypes.string_at(0)

    if kind == "coroutine":

        @delayed
        async def poison():
            await asyncio.sleep(0)
            die()

        @delayed
        async def neighbour(number):
            await asyncio.sleep(0)
            return number

    elif kind == "isolated":

        @delayed(isolate=True)
        async def poison():
            die()

        @delayed(isolate=True)
        async def neighbour(number):
            return number

    else:

        @delayed
        def poison():
            die()

        @delayed
        def neighbour(number):
            return number

    executor = Executor(local=Cores(2)) if kind == "embedded plain" else Executor(listen=LISTEN)
    async with asyncio.timeout(LIMIT_S), executor:
        if kind != "embedded plain":
            start_worker(executor.address)
        before = start(gather((neighbour @ Cores(1))(number) for number in range(20)))
        bad = start((poison @ Cores(1))())
        after = start(gather((neighbour @ Cores(1))(number) for number in range(20)))
        with pytest.raises(WorkerLostError, match="exit code 7" if how == "exit" else "SIGSEGV") as caught:
            await bad
        assert "3 times" in str(caught.value)
        assert info(bad).attempt == 3
        assert await before == await after == list(range(20))


async def test_a_runner_that_cannot_start_is_not_started_for_ever(start_worker, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text(f"#!/bin/sh\necho . >> {tmp_path}/starts\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))

    @delayed
    def job(number):
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with pytest.raises(WorkerLostError, match="exit code 9"):
            await (job @ Cores(1))(1)
    assert len((tmp_path / "starts").read_text().split()) == 3


async def test_a_runner_that_cannot_even_be_executed_is_a_worker_lost_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    @delayed
    def job():
        return 1

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with pytest.raises(WorkerLostError, match="no process could be started"):
            await (job @ Cores(1))()


async def test_a_runner_killed_while_idle_is_replaced(still_running):
    @delayed
    def pid():
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        first = await (pid @ Cores(1))()
        os.kill(first, signal.SIGKILL)
        second = await (pid @ Cores(1))()
        assert second != first
        os.kill(second, signal.SIGKILL)
        assert await still_running([second]) == []
        assert await (pid @ Cores(1))() not in (first, second)


async def test_a_runner_that_somebody_else_terminates_costs_an_attempt_and_no_job(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)):
        visit = gate.visit

        @delayed
        def job():
            visit("job")
            return "done"

        r_ = start((job @ Cores(1))())
        os.kill((await gate.arrival()).pid, signal.SIGTERM)
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 2


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_a_worker_that_is_killed_takes_runners_and_their_children_along(kind, gates, start_worker, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        def parent():
            child = subprocess.Popen(["sleep", "1000"])
            visit("parent", child.pid)

        async def parent_coroutine():
            child = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220
            visit("parent", child.pid)

        worker = start_worker(executor.address)
        r_ = start((delayed(parent if kind == "plain" else parent_coroutine) @ Cores(1))())
        runner = await gate.arrival()
        pids = [runner.pid, int(runner.rest[0])]
        os.kill(worker.pid, signal.SIGKILL)
        assert await still_running(pids) == []
        del r_


NO_GRACE_ENDS = "from grainlike.scheduler.node import _runners; _runners.GRACE_S = 3600.0"


async def test_an_idle_worker_told_to_stop_waits_for_no_grace(start_worker, still_running):
    @delayed
    def pid():
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address, first=NO_GRACE_ENDS)
        runner = await (pid @ Cores(1))()
        os.kill(worker.pid, signal.SIGTERM)
        code, said = await worker.exit()
        assert code == 0, said
        assert await still_running([runner]) == []


async def test_stopping_workers_costs_a_job_nothing_but_time(gates, start_worker):
    """Four times the worker below it is stopped, one more than a job may be lost; and its `finally` runs each time."""
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(listen=LISTEN) as executor:
        visit, leave = gate.visit, farewell.visit
        farewell.open = True

        @delayed
        def job():
            try:
                visit("job")
            finally:
                leave("job")
            return "done"

        r_ = start((job @ Cores(1))())
        for number in range(4):
            worker = start_worker(executor.address, name=f"n{number}", first=NO_GRACE_ENDS)
            await gate.arrival()
            os.kill(worker.pid, signal.SIGTERM)
            code, said = await worker.exit()
            assert code == 0, said
            await farewell.arrival()
        start_worker(executor.address, name="last")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 5


async def test_a_worker_whose_job_will_not_stop_still_stops(gates, start_worker, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def job():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            visit("job")

        worker = start_worker(
            executor.address, first="from grainlike.scheduler.node import _runners; _runners.GRACE_S = 0.3"
        )
        r_ = start((job @ Cores(1))())
        runner = await gate.arrival()
        os.kill(worker.pid, signal.SIGTERM)
        code, said = await worker.exit()
        assert code == 0, said
        assert await still_running([runner.pid]) == []
        del r_


async def test_a_head_that_closes_ends_its_workers_with_exit_code_0(start_worker):
    async with asyncio.timeout(LIMIT_S):
        async with Executor(listen=LISTEN) as executor:
            worker = start_worker(executor.address, first=NO_GRACE_ENDS)
            await executor.wait_for_workers(1)
        code, said = await worker.exit()
        assert code == 0, said
        assert "Traceback" not in said


HEAD = """
import asyncio, os, subprocess, sys
from grainlike import Cores, Executor, delayed, start

@delayed
def parent():
    import subprocess, os
    child = subprocess.Popen(["sleep", "1000"])
    visit("parent", child.pid)

def visit(name, *rest):
    import os, socket
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(sys.argv[1] if len(sys.argv) > 1 else PATH)
        way.sendall(" ".join(map(str, (name, os.getpid(), *rest))).encode() + b"\\n")
        way.recv(1)

PATH = sys.argv[1]

async def main():
    options = {"local": Cores(1)} if sys.argv[2] == "embedded" else {"listen": "tcp://127.0.0.1:0"}
    async with Executor(**options) as executor:
        print(executor.address, flush=True)
        await (parent @ Cores(1))()

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["embedded", "remote"])
async def test_a_killed_head_leaves_no_orphans(kind, gates, script, start_worker, still_running):
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        head = script(HEAD, gate.path, kind)
        address = await asyncio.to_thread(head.stdout.readline)
        pids = []
        worker = None
        if kind == "remote":
            worker = start_worker(address.strip())
            pids.append(worker.pid)
        runner = await gate.arrival()
        pids += [runner.pid, int(runner.rest[0])]
        head.kill()
        if worker is not None:
            code, said = await worker.exit()
            assert code == 3
            last = said.splitlines()[-1]
            assert f"grainlike worker: worker n1 has ended: the head at {address.strip()} is dead" in last
        assert await still_running(pids) == []
