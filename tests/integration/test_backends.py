"""Engines of other kinds, where they touch the program: refusals, both loops, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from limits import LIMIT_S
from waiting import until_ended, until_ended_blocking

from grainlike import (
    Cores,
    Dag,
    Executor,
    GPUs,
    ProcessBackend,
    RayBackend,
    RemoteError,
    ThreadBackend,
    UnsatisfiableError,
    amap,
    cancel,
    delayed,
    info,
    start,
)

pytestmark = pytest.mark.anyio

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend():
    """One event loop is enough for most; the others are marked."""
    return "asyncio"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A FIFO: opening it to read returns when another opens it to write, and the other way round."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def add(*values: int) -> int:
    return sum(values) + 1


class Asynchronous:
    """A backend whose methods are all coroutines."""

    name = "asynchronous"

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.shut = 0

    async def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return asyncio.get_running_loop().run_in_executor(self.pool, lambda: fn(*args, **kwargs))

    async def result(self, future: Any, timeout: float | None = None) -> Any:
        return await asyncio.wait_for(asyncio.shield(future), timeout)

    async def shutdown(self, wait: bool = True) -> None:
        self.shut += 1
        self.pool.shutdown(wait=wait)


@both_loops
@pytest.mark.parametrize("make", [ThreadBackend, ProcessBackend])
async def test_x1_engines_run_jobs_on_both_loops_and_leave_nothing_behind(make):
    async with Executor(backend=make(2)) as executor:
        await executor.wait_for_workers(1)
        r_ = start((delayed(add) @ Cores(1))((delayed(add) @ Cores(2))(1)))
        assert await r_ == 3
        assert info(r_).state == "succeeded"
        assert info(r_).usage is not None
        assert executor.workers() == []
        assert [value async for value in amap(delayed(add) @ Cores(1), range(100))] == list(range(1, 101))


async def test_x1_a_backend_of_coroutines():
    backend = Asynchronous()
    async with Executor(backend=backend) as executor:
        assert await executor.submit(Cores(1), lambda: 5) == 5
        assert backend.shut == 0
    assert backend.shut == 1


async def test_x2_blocks_shut_a_backend_down():
    for block in ("with", "async with"):
        backend = ProcessBackend(1)
        if block == "with":
            with backend:
                pass
        else:
            async with backend:
                pass
        with pytest.raises(RuntimeError, match="after shutdown"):
            backend.submit(add)


async def test_what_is_no_backend_and_what_does_not_go_with_one_is_refused():
    with pytest.raises(TypeError, match=r"has no name \(a string\), submit, result, shutdown"):
        Executor(backend=object())  # type: ignore[arg-type]
    for other in ({"local": Cores(1)}, {"listen": "tcp://127.0.0.1:0"}):
        with pytest.raises(ValueError, match=r"leave out local= and listen="):
            Executor(backend=ThreadBackend(1), **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("backend", "package", "name"),
    [("DaskBackend", "distributed", "dask"), ("RayBackend", "ray", "ray"), ("CeleryBackend", "celery", "celery")],
)
async def test_a_missing_engine_says_which_extra_brings_it(monkeypatch, backend, package, name):
    import grainlike

    monkeypatch.setitem(sys.modules, package, None)
    arguments = ["redis://127.0.0.1:1/0"] if name == "celery" else []
    with pytest.raises(ModuleNotFoundError, match=rf"{backend} needs .* pip install 'grainlike\[{name}\]'"):
        getattr(grainlike, backend)(*arguments)


@pytest.fixture
def no_ray(monkeypatch):
    """A stand-in of Ray's package, with a session that has no node; a real one is in `tests/engines`."""
    ray = SimpleNamespace(begun=[], is_initialized=lambda: bool(ray.begun), nodes=list)
    ray.shutdown = ray.begun.clear
    ray.init = lambda address, **_: ray.begun.append(address)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return ray


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "ray://127.0.0.1:1?namespace=a", None, "auto"])
async def test_ray_is_not_begun_where_nobody_answers(address, no_ray, monkeypatch):
    """Ray itself tries for minutes."""
    if address in (None, "auto"):
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ConnectionError, match=r"no Ray cluster answers at .*127\.0\.0\.1:1.*refused.*ray start --head"):
        async with Executor(backend=RayBackend(address)):
            pass
    assert no_ray.begun == []


@pytest.mark.parametrize("address", [None, "auto", "local", "ray://host-of-a-name", "anyscale://cluster"])
async def test_ray_itself_is_asked_where_no_port_is_told(address, no_ray):
    async with Executor(backend=RayBackend(address)) as executor:
        assert no_ray.begun == [address]
        with pytest.raises(UnsatisfiableError, match=r"cores=1: no node of the cluster is alive"):
            await executor.submit(Cores(1), add)


async def test_functions_that_ask_for_what_threads_lack_are_refused_by_name():
    dag = Dag()
    dag.add("first", add, request=Cores(1))
    dag.add("timed", add, dag["first"], request=Cores(1), timeout=5)
    async with Executor(backend=ThreadBackend(1)) as executor:
        with pytest.raises(UnsatisfiableError, match=r"timed: backend 'threads' can not honour timeout=5"):
            await dag.run()
        assert info(dag["first"]).state == "lazy"
        with pytest.raises(UnsatisfiableError, match="isolate=True"):
            await (delayed(add, isolate=True) @ Cores(1))()
        with pytest.raises(UnsatisfiableError, match=r"gpus in cores=1 gpus=1: it honours cores"):
            await executor.submit(Cores(1) & GPUs(1), add)
        with pytest.raises(UnsatisfiableError, match="at most 1"):
            await executor.submit(Cores(2), add)
        assert (executor.report().failed, executor.report().skipped) == (3, 0)
        with pytest.raises(RuntimeError, match="own logs"):
            executor.logs(executor.submit(Cores(1), add))


@pytest.mark.parametrize("stop", [SystemExit(3), KeyboardInterrupt()])
async def test_what_would_end_a_program_ends_only_the_call_in_a_thread(stop):
    def end() -> None:
        raise stop

    async with Executor(backend=ThreadBackend(1)) as executor:
        with pytest.raises(RemoteError, match=type(stop).__name__):
            await executor.submit(Cores(1), end)
        assert await executor.submit(Cores(1), add) == 1


async def test_a_process_that_was_killed_while_idle_is_no_calls_fault():
    async with Executor(backend=ProcessBackend(1)) as executor:
        pid = await executor.submit(Cores(1), os.getpid)
        os.kill(pid, signal.SIGKILL)
        await until_ended(pid)
        assert await executor.submit(Cores(1), add) == 1


async def test_cancelling_frees_the_slots_when_the_process_is_gone(fifo):
    def hold(path: str) -> None:
        child = subprocess.Popen(["sleep", "1000"])
        with open(path, "w") as file:  # noqa: PTH123
            file.write(f"{os.getpid()} {child.pid}")
        signal.pause()

    async with Executor(backend=ProcessBackend(1)) as executor:
        r_ = executor.submit(Cores(1), hold, str(fifo))
        waiting_ = executor.submit(Cores(1), add)
        queued_ = executor.submit(Cores(1), add)
        pids = await anyio.to_thread.run_sync(fifo.read_text)
        cancel(queued_)
        assert info(waiting_).state == "pending"
        cancel(r_)
        with anyio.fail_after(LIMIT_S):
            assert await waiting_ == 1
        await until_ended(*map(int, pids.split()))
        report = executor.report()
        assert (report.cancelled, report.skipped, report.succeeded) == (2, 0, 1)


async def test_closing_ends_what_runs(fifo):
    def hold(path: str) -> None:
        with open(path, "w"):  # noqa: PTH123
            signal.pause()

    async with Executor(backend=ProcessBackend(2)) as executor:
        executor.submit(Cores(1), hold, str(fifo))
        await anyio.to_thread.run_sync(lambda: fifo.open().close())


def test_processes_end_with_a_program_that_is_killed(tmp_path, fifo):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import asyncio, os, signal, sys
        from grainlike import Cores, Executor, ProcessBackend

        def hold(path):
            with open(path, "w") as file:
                file.write(str(os.getpid()))
            signal.pause()

        async def main():
            async with Executor(backend=ProcessBackend(1)) as executor:
                await executor.submit(Cores(1), hold, sys.argv[1])

        asyncio.run(main())
        """)
    )
    process = subprocess.Popen([sys.executable, str(program), str(fifo)], env={**os.environ, "PYTHONPATH": _paths()})
    try:
        pid = int(fifo.read_text())
    finally:
        process.kill()
        process.wait()
    until_ended_blocking(pid)


def _paths() -> str:
    root = Path(__file__).parents[2]
    return os.pathsep.join([str(root), str(root / "worker")])
