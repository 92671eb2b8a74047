"""A head that runs out of file descriptors, and clocks on the wall that jump."""

import asyncio
import socket
import time

import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, Retry, delayed, gather, start

pytestmark = pytest.mark.asyncio

HEAD = """
import asyncio, logging, os, resource
from grainlike import Cores, Executor, delayed

logging.basicConfig()

@delayed
async def job(number):
    return number

async def main():
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        print(executor.address, flush=True)
        await executor.wait_for_workers(1)
        await (job @ Cores(1))(0)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 6, most))
        print("limited", flush=True)
        number = 0
        while len(executor.workers()) < 2:
            number += 1
            assert await (job @ Cores(1))(number) == number
        print("two workers", flush=True)

asyncio.run(main())
"""


async def test_out_of_descriptors_a_head_runs_on_and_lets_in_again_when_there_are_some(script, start_worker):
    """Strangers take all descriptors: the worker that is there goes on, and one more comes in when they have gone."""
    async with asyncio.timeout(LIMIT_S):
        head = script(HEAD)
        read, complain = head.stdout.readline, head.stderr.readline
        address = (await asyncio.to_thread(read)).strip()
        start_worker(address, name="first")
        assert (await asyncio.to_thread(read)).strip() == "limited"
        port = int(address.rpartition(":")[2])
        strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        while "takes no connections for now: Too many open files" not in (line := await asyncio.to_thread(complain)):
            assert line
        start_worker(address, name="second")
        for stranger in strangers:
            stranger.close()
        assert (await asyncio.to_thread(read)).strip() == "two workers"
        assert await asyncio.to_thread(head.wait) == 0


WILD = """
import itertools, time
jumps = itertools.cycle([0.0, 1e9, -1e6, 4e9])
time.time = lambda: next(jumps)
"""


async def test_clocks_on_the_wall_decide_nothing(start_worker, monkeypatch, tmp_path):
    """They jump by decades at each look, at both ends; timeouts, waits, heartbeats and leases do not notice."""
    jumps = [0.0, 1e9, -1e6, 4e9]
    monkeypatch.setattr(time, "time", lambda: jumps[int(time.monotonic() * 1000) % 4])

    @delayed(timeout=20)
    def plain(number):
        return number

    @delayed(retries=Retry(1, backoff=0.01))
    async def fails_once(path):
        with path.open("a+") as file:
            file.write("x")
            file.seek(0)
            if len(file.read()) == 1:
                raise OSError("once")
        return "done"

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, first=WILD)
        await executor.wait_for_workers(1)
        assert await gather((plain @ Cores(1))(number) for number in range(20)) == list(range(20))
        assert await (fails_once @ Cores(1))(tmp_path / "tries") == "done"
        (worker,) = executor.workers()
        assert worker.shut == ""
        assert worker.silent_s < 20


NO_PROCESSES = """
from grainlike_worker.daemon import _spawn
async def spawn(*_, **__):
    raise OSError("no more processes for you")
_spawn.RunnerProcess.spawn = staticmethod(spawn)
"""


async def test_a_worker_that_can_start_no_process_says_so_and_costs_no_job_its_attempts(start_worker):
    @delayed
    def job(number):
        return GVAR.instance

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        events = executor.events()
        start_worker(executor.address, name="barren", resources="cores=4", first=NO_PROCESSES)
        await executor.wait_for_workers(1)
        all_ = start(gather((job @ Cores(1))(number) for number in range(4)))
        while (event := await anext(events)).kind != "worker_quarantined":
            pass
        assert event.worker == "barren"
        assert "no process could be started: no more processes for you" in event.outcome
        (barren,) = executor.workers()
        assert barren.shut == event.outcome
        start_worker(executor.address, name="fertile")
        assert await all_ == ["fertile"] * 4
