"""Executors that are left in a hurry, opened many times, or live in a loop that is blocked: nothing stays behind."""

import asyncio
import contextlib
import gc
import os
import re
import select
import signal
import time
from pathlib import Path

import anyio
import pytest
from fault_calls import async_one, one
from limits import LIMIT_S
from waiting import until, until_blocking, until_ended_blocking

from grainlike import Cores, Executor, delayed, gather, run, start
from grainlike.head import _head
from grainlike.head.server import _accept
from grainlike.scheduler.node import _runners
from grainlike_worker.daemon import _daemon

LISTEN = "tcp://127.0.0.1:0"


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.anyio
async def test_50_executors_one_after_another_leave_no_descriptor():
    async with Executor(local=Cores(1)):  # whatever is opened once and for all
        await (async_one @ Cores(1))()
    gc.collect()  # what earlier tests have left is not closed in between
    before = descriptors()
    for _ in range(50):
        async with Executor(local=Cores(1)):
            assert await (async_one @ Cores(1))() == 1
    assert descriptors() == before


@pytest.mark.anyio
async def test_executors_with_processes_and_doors_leave_no_descriptor():
    gc.collect()
    before = None
    for _ in range(6):
        async with Executor(local=Cores(1), listen=LISTEN):
            assert await (one @ Cores(1))() == 1
        before = before or descriptors()
    assert descriptors() == before


class OwnError(Exception):
    pass


@pytest.mark.anyio
async def test_an_exception_that_leaves_the_block_is_the_users_own_and_ends_running_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(_runners, "GRACE_S", LIMIT_S)
    path = tmp_path / "ended"
    begun = tmp_path / "begun"
    os.mkfifo(begun)

    @delayed
    def plain():
        try:
            begun.write_text("begun")
            time.sleep(1000)
        finally:
            path.write_text("ended")

    @delayed
    async def coroutine():
        await anyio.sleep(1000)

    async def wait(r_):
        await r_

    with pytest.raises(OwnError) as caught:  # noqa: PT012
        async with Executor(local=Cores(3)):
            start((plain @ Cores(1))())
            start((coroutine @ Cores(1))())
            start(coroutine())
            await anyio.to_thread.run_sync(begun.read_text)
            raise OwnError
    assert caught.value.__cause__ is None
    assert path.read_text() == "ended"


@pytest.mark.anyio
async def test_awaiters_in_a_task_group_get_the_error_as_it_is():
    @delayed
    def fail():
        raise OwnError("a")

    async with Executor(local=Cores(1)):
        with anyio.fail_after(LIMIT_S):
            with pytest.raises(OwnError):
                await (fail @ Cores(1))()


@pytest.mark.anyio
async def test_an_error_inside_is_told_to_whoever_leaves_and_awaiters_do_not_wait_for_ever(monkeypatch):
    def broken(self, event, now):
        raise ZeroDivisionError("inside")

    with anyio.fail_after(LIMIT_S):
        with pytest.raises(ZeroDivisionError, match="inside"):  # noqa: PT012
            async with Executor(local=Cores(1)):
                monkeypatch.setattr("grainlike.scheduler.NodeScheduler.handle", broken)
                await (one @ Cores(1))()


@pytest.mark.anyio
async def test_several_tasks_wait_for_workers_and_all_are_told(start_worker):
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=LISTEN) as executor, anyio.create_task_group() as tasks:
            for count in (1, 2, 1, 2):
                tasks.start_soon(executor.wait_for_workers, count)
            await anyio.lowlevel.checkpoint()
            start_worker(executor.address, name="n1")
            start_worker(executor.address, name="n2")


@pytest.mark.anyio
async def test_waiting_for_workers_of_an_executor_that_closes_is_an_error():
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            executor = Executor(listen=LISTEN)

            async def wait():
                with pytest.raises(RuntimeError, match="not open any more"):
                    await executor.wait_for_workers(1)

            async with executor:
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()


class Clock:
    """The machine's, and so many seconds ahead."""

    ahead = 0.0

    def monotonic(self):
        return time.monotonic() + self.ahead


@pytest.mark.anyio
async def test_a_blocked_loop_loses_no_worker(monkeypatch, start_worker):
    """A user's code may block the loop for longer than a worker may be silent: what waits to be read is no silence."""
    clock = Clock()
    for module in (_accept, _head, _daemon):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.05)
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), listen=LISTEN) as executor:
            worker = start_worker(executor.address, name="far", resources="cores=1")
            await executor.wait_for_workers(2)
            assert executor.workers()[-1].pid == worker.pid
            await until(lambda: all(worker.beats for worker in executor.workers()))  # the first is said after a second
            link = list(executor._service.head.peers.values())[-1].link
            for _ in range(4):
                before = executor.workers()[-1].beats
                # The loop turns no further until a beat waits to be read, and others are due to be sent; meanwhile the
                # clock goes on by minutes.
                assert select.select([link.fileno()], [], [], LIMIT_S)[0]
                select.select([], [], [], 2 * _accept.HEARTBEAT_S)
                clock.ahead += 10 * _accept.LOST_S
                await until(lambda before=before: executor.workers()[-1].beats >= before + 3)
                assert len(executor.workers()) == 2
            assert await gather((one @ Cores(1))() for _ in range(4)) == [1] * 4


@pytest.mark.anyio
async def test_a_job_that_blocks_its_loop_or_holds_the_interpreter_does_not_stop_heartbeats(
    monkeypatch, start_worker, tmp_path
):
    """The job blocks its loop until five more heartbeats have come: were it to stop them, neither would ever end."""
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.05)
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    @delayed
    async def block(path):
        with open(path) as opened:  # noqa: ASYNC230, PTH123
            return opened.read()

    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=LISTEN) as executor:
            start_worker(executor.address)
            await executor.wait_for_workers(1)
            await (async_one @ Cores(1))()
            blocked = start((block @ Cores(1))(str(gate)))
            with await anyio.to_thread.run_sync(gate.open, "w") as opened:
                before = executor.workers()[0].beats
                await until(lambda: executor.workers()[0].beats >= before + 5)  # a heart gives no other sign
                opened.write("done")
            assert await blocked == "done"


SCRIPT = """
import sys, time, threading
from grainlike import Cores, delayed, gather, run
from grainlike.scheduler.node import _runners

_runners.GRACE_S = 3600.0

@delayed
def plain(path):
    import time
    try:
        open(path, "w").write("begun")
        time.sleep(1000)
    finally:
        print("plain ended", flush=True)

@delayed
async def coroutine():
    import anyio
    try:
        await anyio.sleep(1000)
    finally:
        print("coroutine ended", flush=True)

async def main():
    await gather((plain @ Cores(1))(sys.argv[1]), (coroutine @ Cores(1))(), coroutine())

run(main, local=Cores(2), backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_ends_everything_with_one_clean_message(backend, script, tmp_path):
    import psutil

    begun = tmp_path / "begun"
    os.mkfifo(begun)
    process = script(SCRIPT, begun, backend)
    begun.read_text()
    runners = [runner.pid for runner in psutil.Process(process.pid).children(recursive=True)]
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode in (130, -signal.SIGINT)
    # Two processes write to one pipe: a line of the one may stand between the words and the line end of the other.
    assert sorted(re.findall("coroutine ended|plain ended", out)) == [
        "coroutine ended",
        "coroutine ended",
        "plain ended",
    ]
    assert out.count("\n") == 3
    assert err.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert err.count("Traceback (most recent call last)") <= 2, err
    assert "ExceptionGroup" not in err
    assert "never" not in err
    until_ended_blocking(*runners)


RUNS_A_PROGRAM = """
import sys
from grainlike import Cores, delayed, run, run_process

@delayed
async def job(path):
    await run_process(["sh", "-c", 'sleep 3600 & echo $$ $! > "$0"; wait', path])

async def main():
    await (job @ Cores(1))(sys.argv[1])

run(main, local=Cores(1))
"""


def ends_with_a_pipe(pid):
    """Return True if the kernel signals somebody when a pipe that this process holds has lost its last writer."""
    flags = 0
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            flags |= int(re.search(r"flags:\s+(\d+)", path.read_text())[1], 8)
    return bool(flags & os.O_ASYNC)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_program_takes_those_along_that_its_coroutines_run(number, script, tmp_path):
    told = tmp_path / "told"
    os.mkfifo(told)
    process = script(RUNS_A_PROGRAM, told)
    programs = [int(pid) for pid in told.read_text().split()]
    assert len(programs) == 2
    until_blocking(lambda: ends_with_a_pipe(programs[0]))  # it is bound to who started it right after it has begun
    os.kill(process.pid, number)
    until_ended_blocking(*programs)


def test_run_after_run_in_one_program():
    async def main():
        return await gather((async_one @ Cores(1))(), async_one())

    for backend in ("asyncio", "trio") * 3:
        assert run(main, local=Cores(1), backend=backend) == [1, 1]


def test_a_loop_that_is_stopped_uncleaned_ends_runners(script, tmp_path):
    text = """
import asyncio, os, sys
from grainlike import Cores, Executor, delayed
@delayed
def pid():
    import os
    return os.getpid()
async def main():
    executor = Executor(local=Cores(1))
    await executor.__aenter__()
    print(await (pid @ Cores(1))(), flush=True)
    return executor
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
os._exit(0)
"""
    process = script(text)
    out, _ = process.communicate(timeout=LIMIT_S)
    until_ended_blocking(int(out.split()[0]))


@pytest.mark.asyncio
async def test_nothing_hangs_when_the_last_of_the_descriptors_is_gone(monkeypatch):
    import socket

    def none(*_):
        raise OSError(24, "Too many open files")

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        gc.collect()
        before = descriptors()
        monkeypatch.setattr(socket, "socketpair", none)
        with pytest.raises(Exception, match="Too many open files"):
            await (one @ Cores(1))()
        assert descriptors() == before
        monkeypatch.undo()
        assert await (one @ Cores(1))() == 1
