"""Runner processes as a daemon has them: spawned, served by an event loop, waited for, ended."""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from raw_runner import LIMIT_S, TERMINATED, Gate, alarm, definition_of, linux_only

from grainlike.errors import JobMemoryError
from grainlike.payload import Payload, dump_arguments, load_error, load_value
from grainlike.wire import Beat, Code, Completed, Frame, Ready, Renew, Run, Setup, Stop
from grainlike_worker.daemon._keeper import open_keeper
from grainlike_worker.daemon._output import Outputs
from grainlike_worker.daemon._runner_supervisor import RunnerSupervisor
from grainlike_worker.daemon._spawn import RunnerProcess
from grainlike_worker.ipc._signals import LATE_S, WORD_S

FOR_EVER_S = 2 * LIMIT_S


class Daemon:
    """Collects what a spawned runner answers to what is posted to it."""

    def __init__(self, post: Callable[..., object], *functions: Callable[..., object]) -> None:
        self.codes: dict[int, Code] = {}
        self.values: dict[int, Any] = {}
        self._post = post
        self._changed = anyio.Event()
        post(Setup("node-1", []))
        post(*definition_of(functions))

    def run(self, job: int, *args: object) -> None:
        """Send a lease of one job."""
        self.run_list(job, {job: (0, args)}, "cores=[0]")

    def run_list(self, lease: int, jobs: dict[int, tuple[int, tuple[object, ...]]], allocation: str) -> None:
        """Send a lease: job number -> (function number, arguments)."""
        data = [dump_arguments(args, {}, what="f").data for _, args in jobs.values()]
        ones, fns = [1] * len(jobs), [fn for fn, _ in jobs.values()]
        self._post(Run(lease, allocation, list(jobs), ones, fns, [None] * len(jobs), data, []))

    def on_frames(self, frames: list[Frame]) -> None:
        for message, _ in frames:
            if isinstance(message, (Beat, Ready, Renew)):
                continue
            assert isinstance(message, Completed)
            for job, code, data in zip(message.jobs, message.codes, message.data, strict=True):
                self.codes[job] = Code(code)
                self.values[job] = _loaded(Code(code), data)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, *jobs: int) -> None:
        with anyio.fail_after(LIMIT_S):
            while not set(jobs) <= set(self.codes):
                await self._changed.wait()


def _loaded(code: Code, data: bytes) -> Any:
    if code == Code.SUCCEEDED:
        return load_value(Payload(data))
    return load_error(Payload(data)) if code == Code.OUT_OF_MEMORY else None


@asynccontextmanager
async def a_daemon(
    kind: Literal["own", "shared"], function: Callable[..., object], **env: str
) -> AsyncIterator[tuple[RunnerProcess, Daemon]]:
    runner = await RunnerProcess.spawn(kind, env=env)
    daemon = Daemon(runner.link.post, function)
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


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("word", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_coroutine_that_fails_after_a_signal_to_a_whole_batch_job_waits_for_word(
    number: signal.Signals, word: bool, waits: bool
) -> None:
    """The daemon was signalled, too. Until it says what that means nothing is told of the job; of others it is."""

    async def fail(waits: bool, fails: bool, word_s: float) -> None:
        import asyncio

        from grainlike_worker.runner.loop import _batch_notice

        _batch_notice.WORD_S = word_s  # for which a later signal has jobs wait
        if waits:
            await asyncio.sleep(0)
        if fails:
            raise ValueError("its program has died")

    async with a_daemon("shared", fail, SLURM_JOB_ID="7") as (runner, daemon):
        word_s = FOR_EVER_S if word else WORD_S
        daemon.run(0, waits, False, word_s)
        await daemon.until(0)
        signalled = time.monotonic()
        os.kill(runner.pid, number)
        daemon.run(1, waits, True, word_s)
        daemon.run(2, waits, False, word_s)
        await daemon.until(2)
        if word:
            assert 1 not in daemon.codes
            runner.link.post(Stop([1]))
        await daemon.until(1)
        assert list(daemon.codes) == [0, 2, 1]
        assert daemon.codes[1] == Code.FAILED
        if not word:
            assert time.monotonic() - signalled >= WORD_S / 2
            daemon.run(3, waits, True, FOR_EVER_S)  # nothing is waited for any more
            await daemon.until(3)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["own", "shared"])
@pytest.mark.parametrize("late", [True, False])
async def test_a_job_that_fails_when_a_program_has_ended_waits_for_a_signal_that_may_be_late(
    kind: Literal["own", "shared"], late: bool
) -> None:
    """A batch system signals a program before the runner, of which the job may fail before that is signalled.

    The job has the runner signal itself once it waits: a signal from here comes before it, or when it has waited.
    """

    async def fail(program: str, signalled: str) -> None:
        import os
        import signal
        import subprocess
        import time
        from types import SimpleNamespace

        from grainlike_worker.runner.loop import _batch_notice
        from grainlike_worker.runner.process import _signals

        def count() -> int:  # the loop hands the signal on in a later turn
            os.kill(os.getpid(), signal.SIGTERM)
            _batch_notice.count_of_ended_children = counted
            return counted()

        def nap(seconds: float) -> None:
            _signals.time = time
            os.kill(os.getpid(), signal.SIGTERM)

        counted = _batch_notice.count_of_ended_children
        if signalled == "shared":
            _batch_notice.count_of_ended_children = count
        elif signalled == "own":
            _signals.time = SimpleNamespace(monotonic=time.monotonic, sleep=nap)
        subprocess.run([program], check=True)  # noqa: ASYNC221

    async with a_daemon(kind, fail, SLURM_JOB_ID="7") as (_, daemon):
        daemon.run(0, "true", "")
        await daemon.until(0)
        begun = time.monotonic()
        daemon.run(1, "false", kind if late else "")
        await daemon.until(1)
        assert daemon.codes == {0: Code.SUCCEEDED, 1: Code.FAILED}
        assert time.monotonic() - begun >= (WORD_S if late else LATE_S) / 2


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


@linux_only
@pytest.mark.anyio
@pytest.mark.parametrize("way", ["fork", "subprocess", "spawn", "asyncio"])
async def test_no_signal_is_blocked_in_children_of_coroutines(way: str) -> None:
    async def blocked(way: str) -> str:
        import asyncio
        import multiprocessing.util
        import subprocess

        def read(fd: int) -> str:
            with open(fd) as file:
                return next(line for line in file if line.startswith("SigBlk:"))

        command = ["grep", "SigBlk:", "/proc/self/status"]
        if way == "subprocess":
            return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()  # noqa: ASYNC221
        if way == "asyncio":
            child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            return (await child.communicate())[0].decode()
        ours, theirs = os.pipe()
        if way == "spawn":
            script = f"import os; os.write({theirs}, open('/proc/self/status', 'rb').read())"
            program = [sys.executable, "-Sc", script]
            pid = multiprocessing.util.spawnv_passfds(sys.executable.encode(), program, [theirs])
        elif (pid := os.fork()) == 0:
            os.write(theirs, Path("/proc/self/status").read_bytes())  # noqa: ASYNC240
            os._exit(0)
        os.close(theirs)
        os.waitpid(pid, 0)  # noqa: ASYNC222
        return read(ours)

    async with a_daemon("shared", blocked) as (_, daemon):
        daemon.run(0, way)
        await daemon.until(0)
        assert int(daemon.values[0].split()[1], 16) == 0


@pytest.mark.anyio
async def test_closing_kills_a_runner_that_does_not_listen() -> None:
    def stalled() -> None:
        import signal
        import time

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)

    async with a_daemon("own", stalled) as (runner, daemon):
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

    pids: list[int] = []
    async with open_keeper() as keeper, anyio.create_task_group() as tasks:
        tap = Outputs(lambda message: None).tap(1)
        runner = RunnerSupervisor(partial(RunnerProcess.spawn, "own", keeper=keeper), pids.append, tap, own=True)
        daemon = Daemon(runner.post, take, pid)
        jobs = {1: (0, (1,)), 2: (0, (300_000_000,)), 3: (0, (1,)), 4: (0, (1,))}
        daemon.run_list(1, jobs, "cores=[0] memory=50000000")
        tasks.start_soon(runner.run, daemon.on_frames)
        await daemon.until(1, 2, 3, 4)
        assert daemon.codes[2] == Code.OUT_OF_MEMORY
        assert (daemon.codes[3], daemon.codes[4]) == (Code.RETURNED, Code.RETURNED)
        assert daemon.codes[1] in (Code.SUCCEEDED, Code.CRASHED)
        assert isinstance(daemon.values[2], JobMemoryError)
        assert daemon.values[2].asked == 50_000_000
        assert "f0" in str(daemon.values[2])
        daemon.run_list(2, {5: (1, ())}, "cores=[0] memory=50000000")
        await daemon.until(5)
        assert pids[1:] == [daemon.values[5]]
        runner.kill()
