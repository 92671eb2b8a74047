"""An executor from opening to closing: who finds it, from where it may be used, and what it leaves behind: nothing."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import (
    GVAR,
    Cores,
    Executor,
    GraphError,
    JobCancelledError,
    SerializationError,
    amap,
    as_completed,
    cancel,
    connect,
    delayed,
    gather,
    info,
    run,
    start,
)
from grainlike.executor import _local_head
from grainlike.executor._local_head import LocalHead
from grainlike.net import Link

pytestmark = pytest.mark.anyio

on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
"""For what is the same on both loops, and takes long: graphs of very many nodes, and what happens in a worker."""

ROOT = Path(__file__).parents[2]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory of our own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def spawn_worker(address: str | None, resources: str, name: str = "n1") -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    command = [sys.executable, "-m", "grainlike_worker", "--head", str(address), "--resources", resources]
    return subprocess.Popen([*command, "--name", name, "--log-level", "error"], env=environment)


@delayed
async def double(x):
    return 2 * x


@delayed
def triple(x):
    return 3 * x


@pytest.fixture
def rendezvous():
    """A FIFO: a job's `open(path, "w")` returns when the test opens it to read, and says that the job runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fifo")
        os.mkfifo(path)
        yield str(path)


# --- closing ---


async def test_leaving_the_block_ends_what_runs_and_leaves_nothing(rendezvous):
    def hold(path):
        with open(path, "w"):  # noqa: PTH123
            signal.pause()

    async def hold_softly():
        await anyio.sleep_forever()

    this = psutil.Process()
    before = this.net_connections("inet")
    async with Executor(local=Cores(4)):
        held = [start((delayed(hold) @ Cores(1))(rendezvous)), start((delayed(hold_softly) @ Cores(1))())]
        held.append(start(delayed(hold_softly)()))
        async with await anyio.open_file(rendezvous):
            assert this.net_connections("inet") == before, "an embedded executor listens nowhere"
    for r_ in held:
        assert info(r_).state == "cancelled"
        with pytest.raises(JobCancelledError):
            await r_


async def test_leaving_the_block_sends_workers_away_and_removes_the_files(state, tmp_path):
    with tempfile.TemporaryDirectory() as folder:
        async with Executor(listen=f"unix://{folder}/own/socket") as executor:
            worker = spawn_worker(executor.address, "cores=2")
            await executor.wait_for_workers(1)
            assert await gather((double @ Cores(1))(1), (triple @ Cores(1))(1)) == [2, 3]
            assert len(list(state.rglob("*.json"))) == 3
        assert await anyio.to_thread.run_sync(worker.wait, LIMIT_S) == 0
        assert list(state.rglob("*.json")) == []
        assert not os.path.exists(f"{folder}/own/socket")  # noqa: ASYNC240, PTH110


async def test_an_exception_that_leaves_the_block_is_the_users_own():
    mine = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:  # noqa: PT012
        async with Executor(local=Cores(2)):
            start((double @ Cores(1))(1))
            raise mine
    assert caught.value is mine


async def test_a_jobs_exception_leaves_the_block_as_itself():
    async def fail():
        raise LookupError("theirs")

    with pytest.raises(LookupError, match="theirs"):
        async with Executor(local=Cores(2)):
            await gather((delayed(fail) @ Cores(1))(), (double @ Cores(1))(1))


async def test_cancelling_the_block_is_cancellation():
    with anyio.CancelScope() as scope:
        async with Executor(local=Cores(2)):
            start((delayed(anyio.sleep_forever) @ Cores(1))())
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_an_executor_opens_once():
    executor = Executor(local=Cores(1))
    async with executor:
        with pytest.raises(RuntimeError, match="open"):
            await executor.__aenter__()
    with pytest.raises(RuntimeError, match="closed"):
        await executor.__aenter__()


async def test_an_executor_may_be_opened_used_and_closed_in_different_tasks():
    executor = Executor(local=Cores(2))
    seen = []

    async def use():
        seen.append(await (double @ Cores(1))(4))

    async def close():
        await executor.__aexit__(None, None, None)

    for step in (executor.__aenter__, use, close):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(step)
    assert seen == [8]


async def test_an_address_in_use_is_said_at_the_door(state):
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            async with Executor(listen=executor.address):
                pass


async def test_an_executor_that_failed_to_open_does_not_stand_in_the_way(state):
    with pytest.raises(PermissionError):
        async with Executor(listen="tcp://0.0.0.0:0", insecure=True):
            pass
    async with Executor(local=Cores(1)):
        assert await (double @ Cores(1))(1) == 2


@pytest.mark.parametrize("on_failure", ["fail_fast", "continue"])
async def test_what_becomes_of_the_rest_when_one_fails(on_failure):
    async with Executor(local=Cores(2), on_failure=on_failure):
        go_on = anyio.Event()

        @delayed
        async def slow():
            await go_on.wait()
            return 1

        slow_, bad_ = slow(), (double @ Cores(1))(0) / 0
        with pytest.raises(ZeroDivisionError):
            await gather(slow_, bad_)
        assert info(slow_).state == ("cancelled" if on_failure == "fail_fast" else "running")
        go_on.set()
        if on_failure == "continue":
            assert await slow_ == 1


@pytest.mark.parametrize("on_failure", ["fail_fast", "continue"])
async def test_cancel_takes_what_only_the_cancelled_needs(on_failure):
    async with Executor(local=Cores(2), on_failure=on_failure):
        needed_, shared_ = delayed(anyio.sleep_forever)(), delayed(anyio.sleep_forever)()
        r_ = start(needed_ + shared_)
        start(shared_)
        cancel(r_)
        assert (info(needed_).state, info(shared_).state == "cancelled") == ("cancelled", False)


# --- finding ---


async def test_the_innermost_executor_wins():
    async def where():
        return GVAR.res.cores

    async with Executor(local=Cores([0])):
        outer_ = (delayed(where) @ Cores(1))()
        async with Executor(local=Cores([5])):
            assert await (delayed(where) @ Cores(1))() == (5,)
        assert await outer_ == (0,)


async def test_two_side_by_side_and_none_in_context_is_an_error():
    one, two = Executor(local=Cores(1)), Executor(local=Cores(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.__aenter__)
        tasks.start_soon(two.__aenter__)
    try:
        with pytest.raises(RuntimeError, match="2 executors are open"):
            await double(1)
    finally:
        for executor in (one, two):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(executor.__aexit__, None, None, None)


async def test_a_job_that_uses_the_executor_of_its_program_is_told_what_to_write():
    async with Executor(local=Cores(1)) as ex:

        async def uses(x):
            return await ex.submit(Cores(1), abs, x)

        job = delayed(uses) @ Cores(1)
        words = (
            r"an executor cannot travel, and a job needs none: write `await \(fn @ Cores\(1\)\)\(x\)` in it, or `result"
        )
        with pytest.raises(SerializationError, match=f"at closure variable 'ex': {words}"):
            await job(-3)
        with pytest.raises(SerializationError, match=f"argument 0 of double, at \\[0\\]: {words}"):
            await (double @ Cores(1))([ex])


async def test_what_is_asked_of_an_executor_the_wrong_way_round_says_what_to_write():
    async with Executor(local=None) as executor:
        r_ = double(1)
        with pytest.raises(TypeError, match=r"write cancel\(r_\)"):
            executor.cancel(r_)
        with pytest.raises(TypeError, match=r"write start\(r_\)"):
            executor.start(r_)
        with pytest.raises(TypeError, match=r"write submit\(Cores\(1\), fn, x\)"):
            executor.submit(double, 1)
        assert info(r_).state == "lazy"


@pytest.mark.parametrize(
    ("made", "instead"),
    [(Executor, r"async with Executor\(...\) as ex"), (connect, r"async with connect\(...\) as ex")],
)
async def test_an_executor_says_how_it_is_opened(made, instead):
    with pytest.raises(TypeError, match=instead), made():
        raise AssertionError("it is open")


@pytest.mark.parametrize(
    ("many", "instead"),
    [(lambda: amap(double, [1]), "async for x in amap"), (lambda: as_completed([]), "async for x in as_completed")],
)
async def test_what_comes_as_it_is_ready_says_how_it_is_read(many, instead):
    with pytest.raises(TypeError, match=instead):
        await many()
    with pytest.raises(TypeError, match=instead):
        list(many())


async def test_as_completed_takes_placeholders_as_gather_does():
    calls = [(double @ Cores(1))(x) for x in range(2)]
    async with Executor(local=Cores(2)):
        assert sorted([await r_ async for r_ in as_completed(*calls)]) == [0, 2]
        assert sorted([await r_ async for r_ in as_completed(calls)]) == [0, 2]
        assert [await r_ async for r_ in as_completed(calls[1])] == [2]
    with pytest.raises(TypeError, match="as_completed takes placeholders, or one iterable of them, not int"):
        as_completed(3)


async def test_a_placeholder_belongs_to_the_executor_that_started_it():
    async with Executor(local=Cores(2)):
        r_ = start((delayed(anyio.sleep_forever) @ Cores(1))())
        done_ = (double @ Cores(1))(1)
        await done_
        async with Executor(local=Cores(1)):
            with pytest.raises(GraphError, match="another executor"):
                await r_
            assert await done_ == 2
            assert await (double @ Cores(1))(done_) == 4
        cancel(r_)
    assert await done_ == 2


async def test_a_job_may_open_an_executor_of_its_own():
    async def inner():
        async with Executor(local=Cores([7])):
            return await (delayed(lambda: GVAR.res.cores) @ Cores(1))()

    async with Executor(local=Cores([0])):
        assert await (delayed(inner) @ Cores(1))() == (7,)


def _step(r_):
    """Await by hand, outside of any event loop."""
    r_.__await__().send(None)


@pytest.mark.parametrize("context", [Context, copy_context], ids=["fresh", "copied"])
async def test_awaiting_outside_a_loop_is_refused(context):
    async with Executor(local=Cores(1)):
        r_ = (double @ Cores(1))(1)
        with pytest.raises(RuntimeError, match="event loop"):
            await anyio.to_thread.run_sync(lambda: context().run(_step, r_))
        assert await r_ == 2


async def test_started_here_awaited_by_another_loops_own_executor():
    async with Executor(local=Cores(1)):
        r_ = start((delayed(anyio.sleep_forever) @ Cores(1))())

        async def elsewhere():
            async with Executor(local=Cores(1)):
                with pytest.raises(GraphError, match="another executor"):
                    await r_

        await anyio.to_thread.run_sync(lambda: Context().run(asyncio.run, elsewhere()))


async def test_nothing_runs_after_closing():
    async with Executor(local=Cores(1)) as executor:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(Cores(1), abs, 1)
    assert executor.workers() == []


# --- without an executor ---


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_run_is_named(anyio_backend):
    with pytest.raises(RuntimeError, match=r"grainlike\.run"):
        await double(1)


def test_run_is_the_way_in_from_a_script():
    async def main(x):
        return await (double @ Cores(1))(x) + await triple(x)

    for backend in ("asyncio", "trio"):
        assert run(main, 2, local=Cores(1), backend=backend) == 10


async def loop_and_debugging() -> tuple[str, bool]:
    loop = asyncio.get_running_loop()
    return type(loop).__module__.partition(".")[0], loop.get_debug()


def test_run_takes_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(loop_and_debugging, local=None) == ("uvloop", False)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run(loop_and_debugging, local=None) == ("asyncio", False)


def test_run_heeds_what_debugs_an_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    assert run(loop_and_debugging, local=None) == ("uvloop", True)


def test_run_raises_what_main_raises():
    async def main():
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(main, local=Cores(1))


def test_an_address_is_a_string():
    with pytest.raises(TypeError, match="listen= is an address"):
        Executor(listen=5)


def test_run_refuses_a_placeholder():
    with pytest.raises(TypeError, match=r"write run\(fn, x\)"):
        run(double(1))


def test_run_says_what_main_gave_that_cannot_be_awaited():
    def main():
        return 3

    with pytest.raises(TypeError, match=r"an async function, but .*main gave int, .*write `async def`"):
        run(main, local=Cores(1))


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit], ids=lambda kind: kind.__name__)
async def test_what_ends_generators_is_an_error_of_a_plain_call_like_any_other(error):
    @delayed
    def stop():
        raise error

    async with Executor(local=Cores(1)):
        with pytest.raises(RuntimeError, match=f"the function raised {error.__name__}") as raised:
            await stop()
        assert type(raised.value.__cause__) is error
        assert await (double @ Cores(1))(2) == 4


@pytest.mark.parametrize("timeout", [None, LIMIT_S], ids=["without a timeout", "with one"])
async def test_a_coroutine_without_resources_that_raises_generator_exit_has_failed(timeout):
    @delayed(timeout=timeout)
    async def leave():
        raise GeneratorExit

    async with Executor(local=None):
        with anyio.fail_after(LIMIT_S), pytest.raises(RuntimeError, match="function raised GeneratorExit") as raised:
            await leave()
    assert type(raised.value.__cause__) is GeneratorExit


async def test_a_stream_without_resources_that_raises_generator_exit_has_failed():
    @delayed
    async def leave():
        yield 1
        raise GeneratorExit

    async with Executor(local=None):
        items = aiter(leave())
        with anyio.fail_after(LIMIT_S):
            assert await anext(items) == 1
            with pytest.raises(RuntimeError, match="the function raised GeneratorExit"):
                await anext(items)


# --- many ---


async def test_g11_10_000_nested_groups_do_not_deadlock():
    @delayed
    async def group(depth):
        return 1 + await group(depth - 1) if depth else await (double @ Cores(1))(1)

    async with Executor(local=Cores(2)):
        assert await group(10_000) == 10_002


@pytest.mark.parametrize(("anyio_backend", "many"), [("asyncio", 10_000), ("trio", 2_000)], indirect=["anyio_backend"])
async def test_g11_10_000_groups_side_by_side_share_few_cores(many):
    @delayed
    async def group(i):
        return await (double @ Cores(1))(i)

    async with Executor(local=Cores(2)):
        assert sum(await gather(group(i) for i in range(many))) == 2 * sum(range(many))


async def test_cancelling_2_000_nested_groups():
    @delayed
    async def group(depth):
        if depth:
            await group(depth - 1)
        else:
            bottom.set()
            await anyio.sleep_forever()

    bottom = anyio.Event()
    async with Executor(local=Cores(1)):
        r_ = start(group(2_000))
        await bottom.wait()
        cancel(r_)
        with pytest.raises(JobCancelledError):
            await r_


@on_one_loop
async def test_a_tree_of_100_000_calls():
    @delayed
    async def add(a, b):
        return a + b

    level = [(delayed(lambda: 1))() for _ in range(2)] * 25_000
    async with Executor(local=Cores(1)):
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            level = [add(a, b) for a, b in pairs] + level[len(level) // 2 * 2 :]
        assert await level[0] == 50_000


@on_one_loop
async def test_g13_a_chain_of_100_000_operators():
    async with Executor(local=Cores(1)):
        s_ = (double @ Cores(1))(0)
        for _ in range(100_000):
            s_ = s_ + 1
        assert await s_ == 100_000


@on_one_loop
async def test_a_failure_and_a_cancellation_go_through_100_000_operators():
    async with Executor(local=Cores(1)):
        bad_ = double(0) / 0
        for _ in range(100_000):
            bad_ = bad_ + 1
        with pytest.raises(ZeroDivisionError):
            await bad_
        held_ = delayed(anyio.sleep_forever)()
        for _ in range(100_000):
            held_ = held_ + 1
        start(held_)
        cancel(held_)
    del bad_, held_


# --- workers ---


async def test_several_tasks_may_wait_for_workers(state):
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                for count in (1, 2, 1, 2):
                    tasks.start_soon(executor.wait_for_workers, count)
                await anyio.wait_all_tasks_blocked()
                workers = [spawn_worker(executor.address, "cores=1", "same") for _ in range(2)]
        assert sorted(worker.name for worker in executor.workers()) == ["same", "same-2"]
        assert len({worker.pid for worker in executor.workers()}) == 2
    for worker in workers:
        assert await anyio.to_thread.run_sync(worker.wait, LIMIT_S) == 0


async def test_waiting_for_workers_ends_with_the_executor():
    errors = []

    async def wait(executor):
        try:
            await executor.wait_for_workers(2)
        except RuntimeError as error:
            errors.append(str(error))

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks, Executor(local=Cores(1)) as executor:
            tasks.start_soon(wait, executor)
            await anyio.wait_all_tasks_blocked()
    assert len(errors) == 1
    assert "not open any more" in errors[0]


@on_one_loop
async def test_a_worker_learns_where_a_program_imports_from_however_long_that_is(state, monkeypatch, tmp_path):
    (tmp_path / "homemade.py").write_text("def answer():\n    return 42\n")
    for i in range(200):
        monkeypatch.syspath_prepend(str(tmp_path / f"{i}{'x' * 60}"))
    monkeypatch.syspath_prepend(str(tmp_path))
    import homemade

    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        worker = spawn_worker(executor.address, "cores=1")
        with anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(1)
            assert await (delayed(homemade.answer) @ Cores(1))() == 42
    assert await anyio.to_thread.run_sync(worker.wait, LIMIT_S) == 0


@on_one_loop
async def test_a_frozen_runner_does_not_stop_the_daemons_heart(state, monkeypatch):
    monkeypatch.setattr("grainlike.head.server._accept.HEARTBEAT_S", 0.05)

    async def pid():
        return os.getpid()

    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        worker = spawn_worker(executor.address, "cores=1")
        with anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(1)
            runner = await (delayed(pid) @ Cores(1))()
            os.kill(runner, signal.SIGSTOP)
            try:
                assert executor.workers()[0].pid == worker.pid != runner
                beats = executor.workers()[0].beats
                await until(lambda: executor.workers()[0].beats >= beats + 3)  # a heart gives no other sign
                r_ = start((delayed(pid) @ Cores(1))())
                assert info(r_).state == "pending"
            finally:
                os.kill(runner, signal.SIGCONT)
            assert await r_ == runner
    assert await anyio.to_thread.run_sync(worker.wait, LIMIT_S) == 0


@pytest.mark.anyio
async def test_what_the_closing_of_an_executor_cancelled_says_so():
    @delayed
    async def sleep():
        await anyio.sleep_forever()

    async with Executor(local=Cores(1)):
        r_ = start((sleep @ Cores(1))())
    with pytest.raises(JobCancelledError, match="sleep was cancelled: its executor closed"):
        await r_


async def test_nothing_is_said_of_an_embedded_worker_that_ends_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    close, embed = LocalHead.close, _local_head.embed

    def embed_and_keep(*arguments: Any) -> tuple[Link, Any]:
        near, serve = embed(*arguments)
        ends.append(serve.args[0])
        return near, serve

    async def close_after_worker(head: LocalHead) -> None:
        await close(head)
        ends[0].close("cancelled")
        await until(lambda: not head.head.peers)

    ends: list[Link] = []
    monkeypatch.setattr(LocalHead, "close", close_after_worker)
    monkeypatch.setattr(_local_head, "embed", embed_and_keep)
    async with Executor(local=Cores([0])):
        assert await double(2) == 4
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
