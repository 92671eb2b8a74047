"""Runner processes as a daemon has them: spawned, served by an event loop, waited for, ended."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from raw_runner import LIMIT_S, TERMINATED, Gate, alarm, is_async, linux_only

from grainlike.errors import JobMemoryError
from grainlike.payload import Payload, dump_arguments, dump_function, load_error, load_value
from grainlike.wire import Code, Completed, Define, Frame, FunctionSpec, Run, Setup
from grainlike_worker._keeper import open_keeper
from grainlike_worker._outputs import Outputs
from grainlike_worker._process_runner import ProcessRunner
from grainlike_worker._spawn import RunnerProcess


class Daemon:
    """Collects what a spawned runner answers."""

    def __init__(self, runner: RunnerProcess, function: Callable[..., object]) -> None:
        self.runner = runner
        self.codes: dict[int, int] = {}
        self.values: dict[int, Any] = {}
        self._changed = anyio.Event()
        blob = dump_function(function)
        runner.link.post(Setup("node-1", []))
        spec = FunctionSpec(0, blob.digest, "f", is_async(function), None)
        runner.link.post(Define([spec], []), [blob.data])

    def run(self, job: int, *args: object) -> None:
        data = dump_arguments(args, {}, what="f").data
        self.runner.link.post(Run(job, "cores=[0]", [job], [1], [0], [None], [data], []))

    def on_frames(self, frames: list[Frame]) -> None:
        for message, _ in frames:
            assert isinstance(message, Completed)
            for job, code, data in zip(message.jobs, message.codes, message.data, strict=True):
                self.codes[job] = code
                self.values[job] = load_value(Payload(data)) if code == Code.SUCCEEDED else None
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, *jobs: int) -> None:
        with anyio.fail_after(LIMIT_S):
            while not set(jobs) <= set(self.codes):
                await self._changed.wait()


@asynccontextmanager
async def a_daemon(
    kind: Literal["own", "shared"], function: Callable[..., object], **env: str
) -> AsyncIterator[tuple[RunnerProcess, Daemon]]:
    runner = await RunnerProcess.spawn(kind, env=env)
    daemon = Daemon(runner, function)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.link.run, daemon.on_frames)
            yield runner, daemon
            await runner.aclose()
    finally:
        await runner.aclose()


@pytest.mark.anyio
async def test_a_spawned_runner_is_served_waited_for_and_gone() -> None:
    def look() -> object:
        import os

        return os.getpid(), os.environ.get("PYTHONPATH"), os.environ["EXTRA"], os.getsid(0)

    async with a_daemon("own", look, EXTRA="given") as (runner, daemon):
        ends: list[int] = []

        async def wait() -> None:
            ends.append(await runner.wait())

        daemon.run(1)
        await daemon.until(1)
        assert daemon.values[1] == (runner.pid, os.environ.get("PYTHONPATH"), "given", runner.pid)
        assert runner.returncode is None
        assert runner.claims is not None
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(wait)
            waiting.start_soon(wait)
            runner.terminate()
        assert ends == [TERMINATED, TERMINATED]
        assert await runner.wait() == runner.returncode == TERMINATED
        runner.terminate()
        runner.flush()
        runner.kill()


@pytest.mark.anyio
@linux_only
async def test_the_end_of_a_runner_takes_its_group_along(gate: Gate) -> None:
    def start_a_child(begun: str) -> None:
        import subprocess
        import sys
        import time
        from pathlib import Path

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(begun).write_text(str(child.pid))
        time.sleep(3600)

    async with a_daemon("own", start_a_child) as (runner, daemon):
        daemon.run(1, gate.begun)
        with alarm():
            watch = os.pidfd_open(int(await anyio.Path(gate.begun).read_text()))
        try:
            runner.terminate()
            assert await runner.wait() == TERMINATED
            with anyio.fail_after(LIMIT_S):
                await anyio.wait_readable(watch)
        finally:
            os.close(watch)


@pytest.mark.anyio
async def test_a_shared_process_runs_many_coroutines_and_sigterm_cancels_them(tmp_path: Path) -> None:
    async def meet(job: int, trace: str) -> object:
        import asyncio
        from pathlib import Path

        from grainlike.context import GVAR

        try:
            await asyncio.sleep(3600 if job == 0 else 0.001)
        finally:
            Path(trace).write_text(f"{GVAR.job.id}")  # noqa: ASYNC240 - a job's own business
        return job, GVAR.job.id, GVAR.res.cores

    async with a_daemon("shared", meet) as (runner, daemon):
        assert runner.claims is None
        for job in range(20):
            daemon.run(job, job, str(tmp_path / str(job)))
        await daemon.until(*range(1, 20))
        assert daemon.values == {job: (job, job, (0,)) for job in range(1, 20)}
        assert not (tmp_path / "0").exists()
        runner.terminate()
        with anyio.fail_after(LIMIT_S):
            assert await runner.wait() == TERMINATED
    assert (tmp_path / "0").read_text() == "0"


@pytest.mark.anyio
async def test_sigterm_to_a_child_that_a_coroutine_forks_ends_the_child_alone() -> None:
    async def fork() -> int:
        import os
        import signal

        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])  # noqa: ASYNC222

    async with a_daemon("shared", fork) as (_, daemon):
        for job in range(3):
            daemon.run(job)
            await daemon.until(job)
        assert daemon.values == dict.fromkeys(range(3), -signal.SIGTERM)


@pytest.mark.anyio
async def test_closing_kills_a_runner_that_does_not_listen() -> None:
    def deaf() -> None:
        import signal
        import time

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)

    async with a_daemon("own", deaf) as (runner, daemon):
        daemon.run(1)
        await runner.aclose()
        assert runner.returncode == -signal.SIGKILL


@pytest.mark.anyio
async def test_cancelling_wait_leaves_the_runner_running() -> None:
    def quick() -> str:
        return "quick"

    async with a_daemon("own", quick) as (runner, daemon):
        with anyio.move_on_after(0):
            await runner.wait()
        daemon.run(1)
        await daemon.until(1)
        assert runner.returncode is None


@pytest.mark.anyio
@linux_only
async def test_the_jobs_of_a_run_list_whose_process_took_too_much_memory_are_all_accounted_for() -> None:
    """Those behind the culprit may run elsewhere; the runner lives on in another process."""

    def take(size: int) -> int:
        import time

        held = b"\1" * size
        if size > 1:
            time.sleep(60)
        return len(held)

    def pid() -> int:
        import os

        return os.getpid()

    heard: dict[int, Code] = {}
    values: dict[int, Any] = {}
    pids: list[int] = []
    changed = anyio.Event()

    def on_frames(frames: list[Frame]) -> None:
        for message, _ in frames:
            assert isinstance(message, Completed)
            for job, code, data in zip(message.jobs, message.codes, message.data, strict=True):
                heard[job] = Code(code)
                values[job] = load_value(Payload(data)) if code == Code.SUCCEEDED else None
                if code == Code.OUT_OF_MEMORY:
                    values[job] = load_error(Payload(data))
        changed.set()

    def run_list(lease: int, jobs: dict[int, tuple[int, tuple[object, ...]]]) -> Run:
        data = [dump_arguments(args, {}, what="f").data for _, args in jobs.values()]
        ones, fns = [1] * len(jobs), [fn for fn, _ in jobs.values()]
        return Run(lease, "cores=[0] memory=50000000", list(jobs), ones, fns, [None] * len(jobs), data, [])

    async with open_keeper() as keeper, anyio.create_task_group() as tasks:
        tap = Outputs(lambda message: None).tap(1)
        runner = ProcessRunner(partial(RunnerProcess.spawn, "own", keeper=keeper), pids.append, tap, own=True)
        runner.post(Setup("node-1", []))
        blobs = [dump_function(take), dump_function(pid)]
        specs = [FunctionSpec(fn, blob.digest, f"f{fn}", False, None) for fn, blob in enumerate(blobs)]
        runner.post(Define(specs, []), [blob.data for blob in blobs])
        runner.post(run_list(1, {1: (0, (1,)), 2: (0, (300_000_000,)), 3: (0, (1,)), 4: (0, (1,))}))
        tasks.start_soon(runner.run, on_frames)
        with anyio.fail_after(LIMIT_S):
            while len(heard) < 4:
                await changed.wait()
                changed = anyio.Event()
            assert heard[2] == Code.OUT_OF_MEMORY
            assert (heard[3], heard[4]) == (Code.RETURNED, Code.RETURNED)
            assert heard[1] in (Code.SUCCEEDED, Code.CRASHED)
            assert isinstance(values[2], JobMemoryError)
            assert values[2].asked == 50_000_000
            assert "f0" in str(values[2])
            runner.post(run_list(2, {5: (1, ())}))
            while 5 not in heard:
                await changed.wait()
                changed = anyio.Event()
        assert pids[1:] == [values[5]]
        runner.kill()
