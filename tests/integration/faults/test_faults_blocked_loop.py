"""A coroutine that blocks its runner's loop is named, and shown; one that kills the process is the only suspect."""

import asyncio
import logging
import os
import re
import time

import anyio.lowlevel
import pytest
from limits import LIMIT_S
from waiting import logged

from grainlike import GVAR, Cores, Executor, WorkerLostError, connect, delayed, gather, start
from grainlike.client import _connection
from grainlike_worker.runner.common import _coroutines
from grainlike_worker.runner.loop import _runner

LISTEN = "tcp://127.0.0.1:0"
QUICK = "import grainlike_worker.daemon._runner_watch as watch; watch.BLOCKED_S = 0.3; watch.LOOK_S = 0.05"


def blocks_in_python(path):
    import socket

    with socket.socket(socket.AF_UNIX) as way:
        way.connect(path)
        way.sendall(b"it 1\n")
        way.recv(1)


def blocks_with_the_lock_held(path):
    import ctypes
    import socket

    with socket.socket(socket.AF_UNIX) as way:
        way.connect(path)
        way.sendall(b"it 1\n")
        assert ctypes.PyDLL(None).read(way.fileno(), ctypes.create_string_buffer(1), 1) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("block", [blocks_in_python, blocks_with_the_lock_held])
async def test_who_blocks_the_loop_is_told_with_its_stack(start_worker, gates, caplog, block):
    @delayed
    async def blocker(path):
        await asyncio.sleep(0)
        block(path)
        return "went on"

    caplog.set_level(logging.INFO, "grainlike")
    async with gates() as gate, Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address, name="n1", first=QUICK)
        r_ = start((blocker @ Cores(1))(gate.path))
        visitor = await gate.arrival()
        (told,) = await logged(caplog, "has blocked the event loop")
        assert "job 1, blocker, has blocked the event loop of the coroutines on worker n1" in told
        assert block.__name__ in told
        assert "grainlike_worker" not in told
        explanation = await executor.explain(r_)
        assert explanation.blocked_s is not None
        assert explanation.blocked_s >= 0.3
        assert "It has blocked the event loop" in str(explanation)
        visitor.release()
        assert await asyncio.wait_for(r_, LIMIT_S) == "went on"
    _, said = await worker.exit()
    assert "job 1 has blocked the event loop of runner" in said
    assert said.count("has blocked") == 1
    assert block.__name__ in said


@pytest.mark.asyncio
async def test_a_job_that_no_longer_blocks_is_told_of_too(start_worker, gates, caplog):
    @delayed
    async def blocker(path):
        blocks_in_python(path)
        await asyncio.sleep(0)
        await asyncio.to_thread(blocks_in_python, path)

    caplog.set_level(logging.INFO, "grainlike")
    async with gates() as gate, Executor(listen=LISTEN) as executor:
        start_worker(executor.address, first=QUICK)
        r_ = start((blocker @ Cores(1))(gate.path))
        visitor = await gate.arrival()
        await logged(caplog, "has blocked")
        visitor.release()
        await logged(caplog, "no longer blocks")
        assert (await executor.explain(r_)).blocked_s is None
        (await gate.arrival()).release()
        await r_


@pytest.mark.anyio
@pytest.mark.parametrize("first_s", [0.02, 0.0], ids=["in its first step", "after it has waited"])
async def test_in_the_users_own_loop_it_is_told_afterwards_once_of_each_function(monkeypatch, caplog, first_s):
    for module in (_runner, _coroutines):
        monkeypatch.setattr(module, "SLOW_S", 0.01)

    @delayed
    async def blocker():
        time.sleep(first_s)  # noqa: ASYNC251
        await anyio.lowlevel.checkpoint()
        time.sleep(0.02)  # noqa: ASYNC251

    async with Executor(local=Cores(1)):
        await (blocker @ Cores(1))()
        await (blocker @ Cores(1))()
    (told,) = [record.getMessage() for record in caplog.records]
    place = f"{__file__}:{blocker.function.callable.__code__.co_firstlineno}"
    words = r"has blocked the event loop of this program for \d+\.\d s, and all else that runs in it: make it a plain"
    assert re.match(rf"job 1, blocker \({re.escape(place)}\), {words}", told)


@pytest.mark.asyncio
async def test_a_connected_program_whose_loop_stood_still_is_warned(monkeypatch, caplog):
    async with Executor(listen=LISTEN) as head:
        monkeypatch.setattr(_connection, "BLOCKED_S", 0.01)
        monkeypatch.setattr(_connection, "HEARTBEAT_S", 0.01)
        async with connect(head.address):
            time.sleep(0.1)  # noqa: ASYNC251
            (told, *_) = await logged(caplog, "event loop of this program stood still")
    assert "gives up a program that is silent for 30 s" in told


@pytest.mark.asyncio
async def test_of_those_in_a_process_that_died_only_the_one_that_ran_is_a_suspect(start_worker, gates):
    async with gates() as gate, Executor(listen=LISTEN) as executor:
        start_worker(executor.address, resources="cores=3")
        visit = gate.visit

        @delayed
        async def neighbour(name):
            await asyncio.to_thread(visit, name)
            return os.getpid(), GVAR.job.attempt

        @delayed
        async def killer():
            await asyncio.sleep(0)
            os.abort()

        neighbours = [start((neighbour @ Cores(1))(n)) for n in range(2)]
        first = [(await gate.arrival()).pid for _ in range(2)]
        gate.open = True
        with pytest.raises(WorkerLostError, match="SIGABRT") as caught:
            await asyncio.wait_for((killer @ Cores(1))(), LIMIT_S)
        pids, attempts = zip(*await gather(neighbours), strict=True)
        assert attempts == (2, 2)
        assert pids[0] == pids[1] != first[0] == first[1]
        assert any("Fatal Python error" in note and "killer" in note for note in caught.value.__notes__)
