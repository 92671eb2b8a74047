"""Programs that coroutines start in the user's process, with any library, end with the executor's block."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest
import uvloop
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, cancel, delayed, gather, start
from grainlike.subprocesses import _end_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGTERM"),
]

SLEEP = ["sleep", "3600"]

UNMOVED = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(3600)"
"""A program that SIGTERM does not end; it prints a line when it has said so."""

FAMILY = "sleep 3600 & echo $!; setsid sleep 3600 & echo $!; wait"
"""Prints the numbers of two children, of which one leads a session of its own."""


@pytest.fixture
def kept() -> Iterator[list[Any]]:
    """What jobs keep of their programs, as a library may: nobody else waits for them."""
    KEPT.clear()
    yield KEPT
    for child in KEPT:
        if isinstance(child, subprocess.Popen):
            child.kill()
            child.wait(LIMIT_S)
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
        elif child.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
    KEPT.clear()


KEPT: list[Any] = []


def open_program(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(command, **options)
    KEPT.append(child)
    return child


def lives(pid: int) -> bool:
    """Whether it runs: when its dead are reaped is for others to say."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@delayed
async def with_popen(command: list[str] = SLEEP) -> int:
    return open_program(command).pid


@delayed
async def in_a_thread() -> int:
    return (await asyncio.to_thread(open_program, SLEEP)).pid


@delayed
async def in_anyios_thread() -> int:
    return (await anyio.to_thread.run_sync(open_program, SLEEP)).pid


@delayed
async def with_anyio() -> int:
    KEPT.append(await anyio.open_process(SLEEP, stdin=None, stdout=None, stderr=None))
    return int(KEPT[-1].pid)


@delayed
async def with_asyncio() -> int:
    KEPT.append(await asyncio.create_subprocess_exec(*SLEEP))
    return int(KEPT[-1].pid)


@delayed
async def with_the_shell() -> int:
    KEPT.append(await asyncio.create_subprocess_shell("sleep 3600; true"))
    return int(KEPT[-1].pid)


PLACE = "echo $GRAINLIKE_CORES $GRAINLIKE_JOB $OMP_NUM_THREADS $MINE; grep Cpus_allowed_list /proc/self/status"


@delayed
async def place_by_asyncio() -> tuple[str, Any, int]:
    options = {"stdout": subprocess.PIPE, "env": {**os.environ, "MINE": "mine"}}
    program = await asyncio.create_subprocess_shell(PLACE, **options)  # type: ignore[arg-type]
    told, _ = await program.communicate()
    return told.decode(), GVAR.res.cores, GVAR.job.id


@delayed
async def place_by_anyio() -> tuple[str, Any, int]:
    told = (await anyio.run_process(PLACE)).stdout.decode()
    return told, GVAR.res.cores, GVAR.job.id


@delayed
async def place_by_subprocess() -> tuple[str, Any, int]:
    told = await anyio.to_thread.run_sync(partial(subprocess.check_output, ["sh", "-c", PLACE], text=True))
    return told, GVAR.res.cores, GVAR.job.id


@pytest.mark.skipif(sys.platform != "linux", reason="programs are placed on Linux alone")
@pytest.mark.parametrize("job", [place_by_asyncio, place_by_anyio, place_by_subprocess], ids=lambda job: job.__name__)
async def test_programs_of_any_library_are_on_the_cores_of_their_job(job: Any, anyio_backend: Any) -> None:
    if job is place_by_asyncio and anyio_backend[0] != "asyncio":
        return
    own = os.sched_getaffinity(0)
    environment = dict(os.environ)
    core = max(own)
    async with Executor(local=Cores([core])):
        told, cores, number = await (job @ Cores(1))()
    assert cores == (core,)
    (shown, allowed) = told.splitlines()
    assert shown.split() == [str(core), str(number), "1", *(["mine"] if job is place_by_asyncio else [])]
    assert allowed.split()[1] == str(core)
    assert (os.sched_getaffinity(0), dict(os.environ)) == (own, environment)


@pytest.mark.parametrize("job", [with_popen, in_anyios_thread, with_anyio], ids=lambda job: job.__name__)
async def test_a_program_ends_with_the_block_and_its_status_is_left_to_others(
    job: Any, kept: list[Any], caplog
) -> None:
    with caplog.at_level(logging.WARNING, "grainlike"):
        async with Executor(local=Cores(1)):
            pid = await (job @ Cores(1))()
            assert lives(pid)
        assert not lives(pid)
    assert f", has left a program running, sleep (process {pid}): it is ended" in caplog.text
    assert f"job 1, {job.__name__}, " in caplog.text
    with anyio.fail_after(LIMIT_S):
        (child,) = kept
        code = child.wait(LIMIT_S) if isinstance(child, subprocess.Popen) else await child.wait()
    assert code == -signal.SIGTERM


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    "job", [with_popen, in_a_thread, with_anyio, with_asyncio, with_the_shell], ids=lambda job: job.__name__
)
def test_a_program_ends_with_the_block_on_each_loop_of_asyncio(job: Any, loop: Any, kept: list[Any]) -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S):
            async with Executor(local=Cores(1)):
                pid = await (job @ Cores(1))()
                assert lives(pid)
                own = await asyncio.create_subprocess_exec(*SLEEP)
            lived = lives(own.pid), lives(pid)
            # uvloop would wait for those that live. One that is dead is not told: `Popen.send_signal` looks for the end
            # first, and takes the status before asyncio's watcher has, which then says 255.
            for child, alive in zip((own, kept[0]), lived, strict=True):
                if alive:
                    child.kill()
            assert lived == (True, False)
            assert await own.wait() == -signal.SIGKILL
            if not isinstance(kept[0], subprocess.Popen):
                assert await kept[0].wait() == -signal.SIGTERM

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
        assert "subprocess_exec" not in vars(runner.get_loop())


async def test_the_users_own_programs_live_on(kept: list[Any], caplog) -> None:
    @delayed
    async def nothing() -> None:
        pass

    @delayed
    def in_a_call(_: object) -> int:
        return open_program(SLEEP).pid

    @delayed
    def plain() -> None:
        pass

    async with Executor(local=Cores(1)):
        # Where a job has just ended, in whose turn of the loop others are served.
        called = await in_a_call((nothing @ Cores(1))())
        await (plain @ Cores(1))()
        own = await anyio.to_thread.run_sync(open_program, SLEEP)
    assert lives(called)
    assert lives(own.pid)
    assert caplog.text == ""


async def test_one_that_the_job_has_ended_is_not_heard_of(kept: list[Any], caplog) -> None:
    @delayed
    async def ended() -> int | None:
        with open_program(SLEEP) as child:
            child.kill()
        return child.returncode

    async with Executor(local=Cores(2)):
        assert await gather((ended @ Cores(1))() for _ in range(40)) == [-signal.SIGKILL] * 40
    assert caplog.text == ""


BEGUN: list[anyio.Event] = []


@delayed
async def begins() -> None:
    open_program(SLEEP)
    BEGUN[-1].set()
    await anyio.sleep_forever()


async def test_one_of_a_cancelled_job_ends_too(kept: list[Any]) -> None:
    BEGUN.append(anyio.Event())
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            waiting = start((begins @ Cores(1))())
            await BEGUN[-1].wait()
            cancel(waiting)
    assert not lives(kept[0].pid)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells who descends from whom")
async def test_its_descendants_end_with_it(kept: list[Any]) -> None:
    @delayed
    async def family() -> list[int]:
        child = open_program(["sh", "-c", FAMILY], stdout=subprocess.PIPE)
        assert child.stdout is not None
        return [int(child.stdout.readline()) for _ in range(2)]

    async with Executor(local=Cores(1)):
        pids = await (family @ Cores(1))()
        assert all(map(lives, pids))
    assert not any(map(lives, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells who is in a group")
async def test_what_an_unreaped_leader_has_left_in_its_session_ends(kept: list[Any]) -> None:
    @delayed
    async def leader() -> int:
        child = open_program(["sh", "-c", "sleep 3600 & echo $!"], stdout=subprocess.PIPE, start_new_session=True)
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it ends at once
        return pid

    async with Executor(local=Cores(1)):
        pid = await (leader @ Cores(1))()
        assert lives(pid)
    assert not lives(pid)


@pytest.mark.parametrize("proc", ["/proc", "/nowhere"])
async def test_one_that_ignores_sigterm_is_killed(proc: str, kept: list[Any], monkeypatch) -> None:
    monkeypatch.setattr(_end_programs, "_PROC", proc)

    @delayed
    async def stubborn() -> int:
        child = open_program([sys.executable, "-c", UNMOVED], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        return child.pid

    async with Executor(local=Cores(1)):
        await (stubborn @ Cores(1))()
    assert kept[0].wait(LIMIT_S) == -signal.SIGKILL


async def test_one_that_is_stopped_ends_by_sigterm(kept: list[Any]) -> None:
    async with Executor(local=Cores(1)):
        os.kill(await (with_popen @ Cores(1))(), signal.SIGSTOP)
    assert kept[0].wait(LIMIT_S) == -signal.SIGTERM


async def test_of_nested_blocks_each_ends_its_own(kept: list[Any]) -> None:
    async with Executor(local=Cores(1)):
        outer = await (with_popen @ Cores(1))()
        async with Executor(local=Cores(1)):
            inner = await (with_popen @ Cores(1))()
        assert not lives(inner)
        assert lives(outer)
        later = await (with_popen @ Cores(1))()
    assert not lives(outer)
    assert not lives(later)


async def test_a_block_of_a_jobs_own_ends_before_its_program_does(kept: list[Any]) -> None:
    @delayed
    async def opens() -> tuple[int, int]:
        own = open_program(SLEEP)
        async with Executor(local=Cores(1)):
            inner = await (with_popen @ Cores(1))()
        assert lives(own.pid)
        return own.pid, inner

    async with Executor(local=Cores(1)):
        own, inner = await (opens @ Cores(1))()
        assert lives(own)
        assert not lives(inner)
    assert not lives(own)


async def test_popen_is_as_it_was_afterwards(kept: list[Any]) -> None:
    before = subprocess.Popen.__init__
    async with Executor(local=Cores(1)):
        await (with_popen @ Cores(1))()
        assert subprocess.Popen.__init__ is not before
        async with Executor(local=Cores(1)):
            await (with_popen @ Cores(1))()
        assert subprocess.Popen.__init__ is not before
    assert subprocess.Popen.__init__ is before


async def test_who_wraps_popen_meanwhile_is_left_in_place(kept: list[Any], monkeypatch) -> None:
    calls: list[object] = []
    before = subprocess.Popen.__init__
    with pytest.MonkeyPatch.context() as patches:
        async with Executor(local=Cores(1)):
            await (with_popen @ Cores(1))()
            ours = subprocess.Popen.__init__

            def theirs(self: Any, *args: Any, **kwargs: Any) -> None:
                calls.append(self)
                ours(self, *args, **kwargs)

            patches.setattr(subprocess.Popen, "__init__", theirs)
            await (with_popen @ Cores(1))()
        assert not lives(kept[1].pid)
        assert subprocess.Popen.__init__ is theirs
        own = open_program(SLEEP)
        async with Executor(local=Cores(1)):
            await (with_popen @ Cores(1))()
        assert subprocess.Popen.__init__ is theirs
        assert calls == kept[1:]
        assert not lives(kept[3].pid)
        assert lives(own.pid)
        monkeypatch.setattr(subprocess.Popen, "__init__", before)  # under `patches`, which puts ours back


def test_blocks_of_two_threads_do_not_disturb_each_other(kept: list[Any]) -> None:
    turn = threading.Barrier(2)
    pids: list[int] = []

    async def main(first: bool) -> None:
        async with Executor(local=Cores(1)):
            pid = await (with_popen @ Cores(1))()
            pids.append(pid)
            await asyncio.to_thread(turn.wait, LIMIT_S)
            if not first:
                await asyncio.to_thread(turn.wait, LIMIT_S)
                assert lives(pid)
        assert not lives(pid)
        if first:
            await asyncio.to_thread(turn.wait, LIMIT_S)

    other = threading.Thread(target=lambda: asyncio.run(main(first=True)))
    other.start()
    asyncio.run(main(first=False))
    other.join(LIMIT_S)
    assert not any(map(lives, pids))
    assert len(pids) == 2


INSIDE = threading.Event()
GO_ON = threading.Event()
STARTED = threading.Event()


def start_one() -> None:
    open_program(SLEEP)
    STARTED.set()


@delayed
async def leaves_its_thread() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(anyio.to_thread.run_sync, start_one, abandon_on_cancel=True))
        await anyio.to_thread.run_sync(INSIDE.wait, LIMIT_S)
        tasks.cancel_scope.cancel()


async def test_one_that_a_thread_is_just_starting_ends_too(kept: list[Any], monkeypatch) -> None:
    """The job is gone, the thread is not: the end of the block waits for it."""
    for event in (INSIDE, GO_ON, STARTED):
        event.clear()
    begin = subprocess.Popen._execute_child

    def slow(self: Any, *args: Any) -> None:
        INSIDE.set()
        GO_ON.wait(LIMIT_S)
        begin(self, *args)

    monkeypatch.setattr(subprocess.Popen, "_execute_child", slow)
    async with Executor(local=Cores(1)):
        await (leaves_its_thread @ Cores(1))()
        threading.Timer(0.05, GO_ON.set).start()
    assert STARTED.wait(LIMIT_S)
    assert kept[0].wait(LIMIT_S) in (-signal.SIGTERM, -signal.SIGKILL)
