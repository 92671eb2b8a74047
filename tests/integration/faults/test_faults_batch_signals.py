"""A batch system signals every process of a job: the worker leaves, and its jobs have their grace."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, delayed, info, run_process, start

LISTEN = "tcp://127.0.0.1:0"
NO_GRACE_ENDS = "from grainlike.scheduler.node import _runners; _runners.GRACE_S = 3600.0"

AN_HOUR_LATER = """
import asyncio
import sys
from grainlike_worker.__main__ import main
from grainlike_worker.daemon._stops import EndTimer

path, run = sys.argv.pop(1), EndTimer.run

async def an_hour_later(timer):
    answers, way = await asyncio.open_unix_connection(path)  # anyio's raises if it is cancelled as bytes come
    way.write(b"time 1\\n")
    await answers.read(1)
    way.close()
    timer.tell(timer.left_s - 3600, timer.grace_s)
    await run(timer)

EndTimer.run = an_hour_later
sys.exit(main())
"""
"""A worker whose batch job comes an hour nearer to its end when somebody at a gate says so."""


def wait_long_for_word():
    """For jobs: let their process wait for the daemon's word for as long as a busy machine takes to bring it."""
    from grainlike_worker.runner.loop import _batch_notice
    from grainlike_worker.runner.process import _signals

    _signals.WORD_S = _batch_notice.WORD_S = 3600.0


pytestmark = pytest.mark.asyncio


def signal_all(worker, number):
    """Signal the worker last, so that nothing of it ends before it is signalled itself."""
    for pid in [*(process.pid for process in reversed(worker.tree())), worker.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU])
async def test_a_signal_to_every_process_of_a_batch_job_lets_jobs_clean_up(
    number, kind, gates, start_worker, monkeypatch
):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(listen=LISTEN) as executor:
        visit, leave = gate.visit, farewell.visit
        farewell.open = True

        def plain():
            try:
                visit("job")
            finally:
                leave("job")
            return "done"

        async def coroutine():
            try:
                await asyncio.to_thread(visit, "job")
            finally:
                leave("job")
            return "done"

        r_ = start((delayed(plain if kind == "plain" else coroutine) @ Cores(1))())
        worker = start_worker(executor.address, name="n1", first=NO_GRACE_ENDS)
        await gate.arrival()
        for _ in range(2):
            signal_all(worker, number)
        code, said = await worker.exit()
        assert code == 0, said
        await farewell.arrival()
        monkeypatch.delenv("SLURM_JOB_ID")
        start_worker(executor.address, name="last")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 2


@pytest.mark.parametrize("kind", ["plain", "coroutine", "coroutine that blocks"])
async def test_a_job_whose_program_dies_of_a_signal_to_every_process_runs_elsewhere(
    kind, gates, start_worker, monkeypatch
):
    """The program dies at once, and the job fails for it before the worker is signalled; its runner was before that."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(listen=LISTEN) as executor:
        path, fails, wait_long = gate.path, farewell.visit, wait_long_for_word
        farewell.open = True
        code = "import os, socket, sys; way = socket.socket(socket.AF_UNIX); way.connect(sys.argv[1])"
        code += "; way.sendall(b'program %d\\n' % os.getpid()); way.recv(1)"
        program = [sys.executable, "-c", code, path]

        def plain():
            wait_long()
            try:
                subprocess.run(program, check=True)
            except subprocess.CalledProcessError:
                fails("job")
                raise
            return "done"

        async def coroutine():
            wait_long()
            try:
                await run_process(program)
            except subprocess.CalledProcessError:
                fails("job")
                raise
            return "done"

        async def blocking():
            return plain()

        body = {"plain": plain, "coroutine": coroutine}.get(kind, blocking)
        r_ = start((delayed(body, retries=0) @ Cores(1))())
        worker = start_worker(executor.address, name="n1")
        started = (await gate.arrival()).pid
        for pid in (*(other.pid for other in worker.tree() if other.pid != started), started):
            os.kill(pid, signal.SIGTERM)
        await farewell.arrival()
        os.kill(worker.pid, signal.SIGTERM)
        code, said = await worker.exit()
        assert code == 0, said
        monkeypatch.delenv("SLURM_JOB_ID")
        start_worker(executor.address, name="last")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 2


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_a_job_that_fails_long_after_a_signal_that_meant_nothing_has_failed(
    kind, gates, start_worker, monkeypatch
):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        def plain():
            visit("job")
            raise ValueError("its own")

        async def coroutine():
            await asyncio.to_thread(visit, "job")
            raise ValueError("its own")

        worker = start_worker(executor.address)
        r_ = start((delayed(plain if kind == "plain" else coroutine, retries=0) @ Cores(1))())
        await gate.arrival()
        for process in worker.tree():
            process.send_signal(signal.SIGTERM)
        gate.release_all()
        with pytest.raises(ValueError, match="its own"):
            await r_
        assert info(r_).attempt == 1


async def test_runners_and_keeper_outlive_a_signal_that_only_they_get(gates, start_worker, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("job")
            return "done"

        worker = start_worker(executor.address)
        r_ = start((job @ Cores(1))())
        await gate.arrival()
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            for process in worker.tree():
                process.send_signal(number)
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 1


async def test_a_worker_leaves_before_its_batch_job_ends(gates, start_worker):
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        gates() as farewell,
        gates() as clock,
        Executor(listen=LISTEN) as executor,
    ):
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
        granted = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_END_TIME": str(int(time.time()) + 3661)}
        command = [sys.executable, "-c", AN_HOUR_LATER, clock.path, "--head", str(executor.address), "--name", "n1"]
        worker = subprocess.Popen(command, env=os.environ | granted)  # noqa: ASYNC220
        try:
            await gate.arrival()
            (await clock.arrival()).release()  # a minute is left now, and it leaves a minute before the end
            assert await asyncio.to_thread(worker.wait, LIMIT_S) == 0
        finally:
            worker.kill()
            worker.wait()
        await farewell.arrival()
        start_worker(executor.address, name="last")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 2
