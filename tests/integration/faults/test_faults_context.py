"""A worker's context module: entered once in each process that runs jobs, left in good order, its failures told."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from grainlike import GVAR, Cores, Executor, RemoteError, delayed, gather
from grainlike_worker.__main__ import main

LISTEN = "tcp://127.0.0.1:0"
NO_GRACE_ENDS = "from grainlike.scheduler.node import _runners; _runners.GRACE_S = 3600.0"

MODULE = """
import asyncio, os
from contextlib import asynccontextmanager, contextmanager
import anyio
from grainlike import GVAR

class Counter:
    def __init__(self):
        self.beat = anyio.Event()

@asynccontextmanager
async def service():
    counter = Counter()
    async def beat():
        while True:
            last, counter.beat = counter.beat, anyio.Event()
            last.set()
            await anyio.sleep(0.001)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        assert GVAR.res.cores == ()
        with open("entered", "a") as file:
            print(os.getpid(), GVAR.instance, file=file)
        try:
            yield counter
        finally:
            await anyio.sleep(0)
            with open("left", "a") as file:
                print(os.getpid(), file=file)
            tasks.cancel_scope.cancel()

@contextmanager
def plain():
    yield "a plain one"

def no_manager():
    return 3

@asynccontextmanager
async def flaky():
    if not os.path.exists("database"):
        raise ConnectionError("no database")
    yield "connected"

class Closed(Exception):
    def __init__(self, a, b):
        super().__init__(a)

@asynccontextmanager
async def ends():
    raise SystemExit(3)
    yield

broken = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the directory in which workers start."""
    monkeypatch.chdir(tmp_path)
    Path("services.py").write_text(MODULE)
    return tmp_path


def pids(name):
    return sorted(int(line.split()[0]) for line in Path(name).read_text().splitlines())


def names(name):
    return {line.split()[1] for line in Path(name).read_text().splitlines()}


@delayed
def plain():
    return os.getpid(), type(GVAR.context).__name__


@delayed
async def coroutine():
    await GVAR.context.beat.wait()
    return os.getpid(), type(GVAR.context).__name__


@delayed(isolate=True)
async def isolated():
    await GVAR.context.beat.wait()
    return os.getpid(), type(GVAR.context).__name__


@pytest.mark.asyncio
async def test_g15_each_process_that_runs_jobs_enters_it_once_and_leaves_it(start_worker, module):
    async with Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address, name="n1", context="services:service", first=NO_GRACE_ENDS)
        found = []
        for _ in range(2):
            found += await gather((fn @ Cores(1))() for fn in (coroutine, coroutine, plain, isolated))
        processes = sorted({pid for pid, _ in found})
        assert {kind for _, kind in found} == {"Counter"}
        assert pids("entered") == processes
        assert names("entered") == {"n1"}
        assert not os.path.exists("left")  # noqa: PTH110, ASYNC240
    await worker.exit()
    assert pids("left") == processes


@pytest.mark.asyncio
async def test_a_job_that_runs_when_the_worker_is_stopped_ends_before_its_context(start_worker, module, gates):
    async with gates() as gate, Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address, context="services:service", first=NO_GRACE_ENDS)
        visit = gate.visit

        @delayed
        def waits():
            try:
                visit("it")
            finally:
                assert not os.path.exists("left")  # noqa: PTH110
                open("ended", "w").close()  # noqa: PTH123

        job = asyncio.ensure_future((waits @ Cores(1))())
        await gate.arrival()
        os.kill(worker.pid, signal.SIGTERM)
        code, _ = await worker.exit()
        assert code == 0
        assert os.path.exists("ended")  # noqa: PTH110, ASYNC240
        assert pids("left") == pids("entered")
        job.cancel()


@pytest.mark.asyncio
async def test_a_plain_context_manager_will_do_and_anything_else_is_told(start_worker, module):
    @delayed
    def value():
        return GVAR.context

    async with Executor(listen=LISTEN) as executor:
        start_worker(executor.address, context="services:plain")
        assert await (value @ Cores(1))() == "a plain one"
    async with Executor(listen=LISTEN) as executor:
        start_worker(executor.address, context="services:no_manager")
        with pytest.raises(TypeError, match="services:no_manager gave int, which is no context manager"):
            await (value @ Cores(1))()


@pytest.mark.asyncio
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_context_that_fails_fails_the_job_and_the_next_one_tries_again(start_worker, module, is_async):
    async def value():
        return GVAR.context

    def plain_value():
        return GVAR.context

    fn = delayed(value if is_async else plain_value) @ Cores(1)
    async with Executor(listen=LISTEN) as executor:
        start_worker(executor.address, context="services:flaky")
        for _ in range(2):
            with pytest.raises(ConnectionError, match="no database") as caught:
                await fn()
            assert any("services:flaky could not be entered" in note for note in caught.value.__notes__)
        os.close(os.open("database", os.O_CREAT))
        assert await gather(fn() for _ in range(3)) == ["connected"] * 3


@pytest.mark.asyncio
async def test_a_context_cannot_end_its_process(start_worker, module):
    async with Executor(listen=LISTEN) as executor:
        start_worker(executor.address, context="services:ends")
        for fn in (plain, coroutine):
            with pytest.raises(RemoteError, match="SystemExit: 3"):
                await (fn @ Cores(1))()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("nowhere:x", "No module named 'nowhere'"),
        ("services:nothing", "has no attribute 'nothing'"),
        ("services", "written MODULE:FACTORY"),
        ("services:broken", "services:broken is int, which cannot be called"),
    ],
)
def test_a_worker_does_not_start_with_a_context_that_is_not_there(module, capsys, spec, why):
    assert main(["--context", spec]) == 2
    assert why in capsys.readouterr().err
