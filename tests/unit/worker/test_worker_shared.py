"""The runner of coroutines, driven by frames over a memory link, on both event loops."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from limits import LIMIT_S
from memory_links import all_wait

from grainlike.context import GVAR
from grainlike.errors import JobCancelledError, RemoteError, SerializationError
from grainlike.net import Link, memory_pair
from grainlike.payload import Payload, dump_arguments, dump_function, load_error, load_value
from grainlike.wire import (
    Beat,
    Code,
    Completed,
    Define,
    Frame,
    FunctionSpec,
    Ready,
    Run,
    Setup,
    Stop,
    StopReason,
    Undefine,
    unpack_parcels,
)
from grainlike_worker.runner.common import _usage
from grainlike_worker.runner.common._job_directories import JobDirectories
from grainlike_worker.runner.loop import _runner
from grainlike_worker.runner.loop._runner import serve_shared

pytestmark = pytest.mark.anyio


class Worker:
    """The daemon's side, in little: sends run-lists, collects outcomes."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.batches: list[Completed] = []
        self.readied = 0
        self.codes: dict[int, Code] = {}
        self.values: dict[int, object] = {}
        self._arrived = anyio.Event()
        self._leases = 0

    def define(self, *functions: Callable[..., object]) -> None:
        blobs = [dump_function(function) for function in functions]
        specs = [FunctionSpec(fn, blob.digest, f"f{fn}", True, None) for fn, blob in enumerate(blobs)]
        self.link.post(Define(specs, []), [blob.data for blob in blobs])

    def run(self, jobs: dict[int, tuple[int, tuple[object, ...]]], allocation: str = "cores=[3]") -> None:
        """Post one run-list: job number -> (function number, arguments)."""
        self._leases += 1
        count = len(jobs)
        data = [dump_arguments(args, {}, what="f").data for _, args in jobs.values()]
        fns = [fn for fn, _ in jobs.values()]
        self.link.post(Run(self._leases, allocation, list(jobs), [1] * count, fns, [None] * count, data, []))

    def run_limited(self, job: int, fn: int, deadline: float, limit: float) -> None:
        """Post a job without arguments that may run for so long."""
        self._leases += 1
        data = [dump_arguments((), {}, what="f").data]
        self.link.post(Run(self._leases, "cores=[3]", [job], [1], [fn], [deadline], data, [], limit))

    def on_frames(self, frames: list[Frame]) -> None:
        for message, buffers in frames:
            if isinstance(message, Beat):  # the answer to a stop
                continue
            if isinstance(message, Ready):
                self.readied += 1
                continue
            assert isinstance(message, Completed)
            self.batches.append(message)
            parcels = unpack_parcels(message.data, message.counts, buffers)
            for job, code, (data, views) in zip(message.jobs, message.codes, parcels, strict=True):
                assert job not in self.codes, "answered twice"
                self.codes[job] = Code(code)
                payload = Payload(data, tuple(views))
                if code == Code.SUCCEEDED:
                    self.values[job] = load_value(payload)
                elif code == Code.FAILED:
                    self.values[job] = load_error(payload)
        self._arrived.set()
        self._arrived = anyio.Event()

    async def until(self, *jobs: int) -> None:
        with anyio.fail_after(LIMIT_S):
            while not set(jobs) <= set(self.codes):
                await self._arrived.wait()


@asynccontextmanager
async def a_worker(*functions: Callable[..., object]) -> AsyncIterator[Worker]:
    near, far = memory_pair()
    worker = Worker(near)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_shared, far)
        tasks.start_soon(near.run, worker.on_frames)
        worker.link.post(Setup("node-1", []))
        worker.define(*functions)
        yield worker
        near.close()


async def test_a_run_list_gives_its_values_in_order_with_one_receipt() -> None:
    async def double(x: int) -> int:
        return 2 * x

    async with a_worker(double) as worker:
        worker.run({job: (0, (job,)) for job in range(100)})
        await worker.until(*range(100))
    assert worker.values == {job: 2 * job for job in range(100)}
    assert [job for batch in worker.batches for job in batch.jobs] == list(range(100))
    assert worker.batches[0].receipt is not None
    assert all(batch.receipt is None for batch in worker.batches[1:])
    assert not any(batch.awaited for batch in worker.batches)


async def test_brief_jobs_share_their_cpu_time_and_a_longer_one_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        """Each look takes a microsecond; the processor is busy for half of that, and less while a job sleeps."""

        now = 0.0
        idle = 0.0

        def monotonic(self) -> float:
            self.now += 1e-6
            return self.now

        def thread_time(self) -> float:
            return (self.now - self.idle) / 2

    clock = Clock()
    monkeypatch.setattr(_runner, "time", clock)
    monkeypatch.setattr(_usage, "time", clock)

    async def sleep_if(number: int) -> None:
        from grainlike_worker.runner.loop import _runner

        if number == 2:  # a function brings copies of what it refers to, and its module's names are no copies
            _runner.time.now += 0.0005
            _runner.time.idle += 0.0005

    async with a_worker(sleep_if) as worker:
        worker.run({job: (0, (job,)) for job in range(6)})
        await worker.until(*range(6))
    used = {job: cpu for batch in worker.batches for job, cpu in zip(batch.jobs, batch.cpu, strict=True)}
    took = {job: wall for batch in worker.batches for job, wall in zip(batch.jobs, batch.wall, strict=True)}
    assert [used[job] for job in (3, 4, 5)] == pytest.approx([took[job] / 2 for job in (3, 4, 5)])
    together = sum(took[job] for job in (0, 1, 2))
    until_asked = together + 1e-6
    assert sum(used[job] for job in (0, 1, 2)) == pytest.approx((until_asked - 0.0005) / 2 * together / until_asked)


async def test_a_job_sees_itself_also_in_child_tasks_and_threads() -> None:
    async def look() -> list[object]:
        import anyio
        import anyio.to_thread

        from grainlike.context import GVAR

        seen: list[object] = []

        def here() -> None:
            assert GVAR.job is not None
            seen.append((GVAR.res.cores, GVAR.instance, GVAR.job.id, GVAR.job.name, GVAR.job.attempt))

        async def child() -> None:
            await anyio.lowlevel.checkpoint()
            here()

        here()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child)
        await anyio.to_thread.run_sync(here)
        here()
        return seen

    async with a_worker(look) as worker:
        worker.run({1: (0, ())}, "cores=[5,6]")
        worker.run({2: (0, ())}, "cores=[7]")
        await worker.until(1, 2)
    assert worker.values[1] == [((5, 6), "node-1", 1, "f0", 1)] * 4
    assert worker.values[2] == [((7,), "node-1", 2, "f0", 1)] * 4
    assert GVAR.res.cores == ()


async def test_contexts_do_not_leak_between_the_jobs_of_a_run_list() -> None:
    async def set_precision(digits: int) -> int:
        import decimal

        before = decimal.getcontext().prec
        decimal.setcontext(decimal.Context(prec=digits))
        return before

    async def wait_and_look() -> int:
        import decimal

        import anyio

        decimal.setcontext(decimal.Context(prec=7))
        await anyio.lowlevel.checkpoint()
        return decimal.getcontext().prec

    async with a_worker(set_precision, wait_and_look) as worker:
        worker.run({1: (0, (5,)), 2: (0, (6,)), 3: (1, ())})
        await worker.until(1, 2, 3)
        worker.run({4: (0, (5,))})
        await worker.until(4)
    assert worker.values == {1: 28, 2: 28, 3: 7, 4: 28}


async def test_a_job_that_suspends_hands_the_rest_of_its_run_list_back_at_once() -> None:
    async def quick() -> str:
        return "quick"

    async def forever() -> None:
        import anyio

        await anyio.sleep_forever()

    async with a_worker(quick, forever) as worker:
        worker.run({1: (0, ()), 2: (1, ()), 3: (0, ()), 4: (0, ())})
        await worker.until(1, 3, 4)
        assert worker.codes == {1: Code.SUCCEEDED, 3: Code.RETURNED, 4: Code.RETURNED}
        worker.link.post(Stop([2]))
        await worker.until(2)
    assert worker.codes[2] == Code.CANCELLED
    awaited = {job: batch.awaited for batch in worker.batches for job in batch.jobs}
    assert awaited == {1: False, 2: True, 3: True, 4: True}, (
        "that tells of the one that suspends, and of none before it"
    )


async def test_a_run_list_may_call_several_functions_which_are_loaded_before_it_begins() -> None:
    class Loading:
        """Sets a variable of the process when it is loaded."""

        def __reduce__(self) -> object:
            return setattr, (sys, "grainlike_test_loaded", True)

    sys.__dict__["grainlike_test_loaded"] = False
    held = Loading()

    async def first() -> object:
        return sys.__dict__["grainlike_test_loaded"]

    async def second() -> object:
        return held

    async with a_worker(first, second) as worker:
        worker.run({1: (0, ()), 2: (1, ()), 3: (0, ()), 4: (1, ()), 5: (1, ())})
        await worker.until(1, 2, 3, 4, 5)
    assert worker.values == {1: True, 2: None, 3: True, 4: None, 5: None}
    assert [job for batch in worker.batches for job in batch.jobs] == [1, 2, 3, 4, 5]


async def test_a_job_handed_back_may_come_again_while_its_old_lease_lives() -> None:
    async def quick() -> str:
        return "quick"

    async def forever() -> None:
        import anyio

        await anyio.sleep_forever()

    async with a_worker(quick, forever) as worker:
        worker.run({1: (1, ()), 2: (1, ())})
        await worker.until(2)
        assert worker.codes.pop(2) == Code.RETURNED
        worker.run({2: (1, ())})
        worker.link.post(Stop([1]))
        await worker.until(1)
        assert 2 not in worker.codes
        worker.link.post(Stop([2]))
        await worker.until(2)
    assert worker.codes == {1: Code.CANCELLED, 2: Code.CANCELLED}


async def test_stopping_runs_finally_and_leaves_neighbours_alone() -> None:
    async def tidy(path: str) -> None:
        from pathlib import Path

        import anyio

        try:
            await anyio.sleep_forever()
        finally:
            Path(path).write_text("tidy")  # noqa: ASYNC240 - a job's own business

    async def nap() -> str:
        import anyio.lowlevel

        await anyio.lowlevel.checkpoint()
        return "rested"

    async with anyio.TemporaryDirectory() as directory, a_worker(tidy, nap) as worker:
        trace = anyio.Path(directory) / "trace"
        worker.run({1: (0, (str(trace),))})
        worker.run({2: (1, ())})
        await all_wait(worker.link)
        worker.link.post(Stop([1]))
        await worker.until(1, 2)
        assert await trace.read_text() == "tidy"
    assert worker.codes == {1: Code.CANCELLED, 2: Code.SUCCEEDED}
    assert worker.values == {2: "rested"}


async def test_a_stopped_job_sees_the_reason() -> None:
    """As the message of asyncio's `CancelledError`, and as the reason of trio's `Cancelled`."""

    async def job() -> str | None:
        import anyio

        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as error:
            return error.reason if hasattr(error, "reason") else next(iter(error.args), None)
        raise AssertionError

    async with a_worker(job) as worker:
        for number, reason in ((1, StopReason.WALLTIME), (2, StopReason.UNSAID)):
            worker.run({number: (0, ())})
            await all_wait(worker.link)
            worker.link.post(Stop([number], reason))
            await worker.until(number)
    assert worker.values == {1: "walltime", 2: None}


async def test_a_job_stopped_before_it_began_never_begins() -> None:
    async def job() -> str:
        return "ran"

    async with a_worker(job) as worker:
        worker.run({1: (0, ()), 2: (0, ()), 3: (0, ())})
        worker.link.post(Stop([2]))
        await worker.until(1, 2, 3)
    assert worker.codes == {1: Code.SUCCEEDED, 2: Code.CANCELLED, 3: Code.SUCCEEDED}
    assert worker.batches[0].receipt is not None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks cannot begin before the next turn")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_jobs_run_one_turn_later_in_a_loop_whose_tasks_begin_at_once() -> None:
    async def quick() -> str:
        return "quick"

    async def slow() -> str:
        import asyncio

        await asyncio.sleep(0)
        return "slow"

    eager = vars(asyncio)["eager_task_factory"]
    async with a_worker(quick, slow) as worker:
        asyncio.get_running_loop().set_task_factory(eager)
        worker.run({1: (0, ())})
        worker.run({2: (1, ())})
        worker.run({3: (0, ())})
        worker.link.post(Stop([3]))
        await worker.until(1, 2, 3)
    assert worker.values == {1: "quick", 2: "slow"}
    assert worker.codes[3] == Code.CANCELLED


async def test_functions_may_be_dropped_while_directories_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep() -> str:
        from grainlike import GVAR

        GVAR.job.scratch.joinpath("file").touch()  # type: ignore[union-attr]
        return "kept"

    async def quick() -> str:
        return "quick"

    removing, dropped = threading.Event(), threading.Event()
    remove = JobDirectories.remove

    def remove_late(self: JobDirectories) -> None:
        removing.set()
        assert dropped.wait(LIMIT_S)
        remove(self)

    monkeypatch.setattr(JobDirectories, "remove", remove_late)
    async with a_worker(keep, quick) as worker:
        try:
            worker.run({1: (0, ())})
            await anyio.to_thread.run_sync(removing.wait, LIMIT_S)
            worker.link.post(Undefine([0], []))
            worker.run({2: (1, ())})
            await worker.until(2)
        finally:
            dropped.set()
        await worker.until(1)
    assert worker.values == {1: "kept", 2: "quick"}


async def test_a_job_that_swallows_its_cancellation_has_succeeded() -> None:
    async def stubborn() -> str:
        import anyio

        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "done all the same"

    async with a_worker(stubborn) as worker:
        worker.run({1: (0, ())})
        await all_wait(worker.link)
        worker.link.post(Stop([1]))
        await worker.until(1)
    assert worker.codes == {1: Code.SUCCEEDED}
    assert worker.values == {1: "done all the same"}


async def test_whatever_a_job_raises_is_its_own_and_the_runner_lives() -> None:
    async def fail(kind: str) -> object:
        if kind == "lock":
            import threading

            return threading.Lock()
        raise {"own": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt}[kind]("by the job")

    async def no_coroutine_below() -> None:
        from nowhere_at_all import nothing  # noqa: F401

    async with a_worker(fail, no_coroutine_below) as worker:
        worker.run({1: (0, ("own",)), 2: (0, ("exit",)), 3: (0, ("interrupt",)), 4: (0, ("lock",)), 5: (1, ())})
        await worker.until(1, 2, 3, 4, 5)
    assert set(worker.codes.values()) == {Code.FAILED}
    assert isinstance(worker.values[1], ValueError)
    assert "fail" in str(worker.values[1].__cause__)
    assert isinstance(worker.values[2], RemoteError)
    assert isinstance(worker.values[3], RemoteError)
    assert isinstance(worker.values[4], SerializationError)
    assert isinstance(worker.values[5], ModuleNotFoundError)


async def test_a_function_that_does_not_load_fails_each_job_and_says_where_imports_come_from() -> None:
    async with a_worker() as worker:
        data = b"no function at all"
        worker.link.post(Define([FunctionSpec(0, b"", "broken", True, None)], []), [data])
        worker.run({1: (0, ()), 2: (0, ())})
        await worker.until(1, 2)
    assert worker.codes == {1: Code.FAILED, 2: Code.FAILED}
    assert isinstance(worker.values[2], SerializationError)


async def test_values_do_not_change_after_the_job_has_returned_them() -> None:
    async def give(change: bool) -> object:
        import builtins

        array = getattr(builtins, "_kept_array", None)
        if array is None:
            array = builtins._kept_array = bytearray(100_000)
        if change:
            array[0] = 255
            del builtins._kept_array
            return None
        import pickle

        return pickle.PickleBuffer(array)

    async with a_worker(give) as worker:
        worker.run({1: (0, (False,)), 2: (0, (True,))})
        await worker.until(1, 2)
    assert bytes(worker.values[1])[:1] == b"\0"  # type: ignore[call-overload]


async def test_the_end_of_the_link_cancels_what_still_runs() -> None:
    async def tidy(path: str) -> None:
        from pathlib import Path

        import anyio

        try:
            await anyio.sleep_forever()
        finally:
            Path(path).write_text("tidy")  # noqa: ASYNC240 - a job's own business

    async with anyio.TemporaryDirectory() as directory:
        trace = anyio.Path(directory) / "trace"
        async with a_worker(tidy) as worker:
            worker.run({1: (0, (str(trace),))})
            await all_wait(worker.link)
        assert await trace.read_text() == "tidy"


async def test_a_long_run_list_lets_the_loop_turn_and_answers_on_the_way() -> None:
    async def burn() -> None:
        import time

        end = time.monotonic() + 0.002
        while time.monotonic() < end:
            pass

    async with a_worker(burn) as worker:
        worker.run(dict.fromkeys(range(6), (0, ())))
        # Posted in the same turn: it is seen only if the run-list lets the loop turn before its end.
        worker.link.post(Stop([5]))
        await worker.until(0)
        worker.link.post(Stop([4]))
        await worker.until(*range(6))
    assert [worker.codes[job] for job in (0, 1, 5)] == [Code.SUCCEEDED, Code.SUCCEEDED, Code.CANCELLED]
    assert worker.codes[4] == Code.CANCELLED
    assert len(worker.batches) >= 4


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
class TestOnAsyncio:
    async def test_a_job_that_cancels_its_task_hurts_only_itself(self) -> None:
        async def quick() -> str:
            return "quick"

        async def cancel_and_return() -> str:
            import asyncio

            asyncio.current_task().cancel()  # type: ignore[union-attr]
            return "returned"

        async def cancel_and_wait() -> None:
            import asyncio

            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.sleep(0)

        async with a_worker(quick, cancel_and_return, cancel_and_wait) as worker:
            worker.run({1: (0, ()), 2: (1, ()), 3: (0, ())})
            worker.run({4: (2, ()), 5: (0, ())})
            worker.run({6: (0, ())})
            await worker.until(1, 2, 3, 4, 5, 6)
        assert worker.codes == {
            1: Code.SUCCEEDED,
            2: Code.SUCCEEDED,
            3: Code.RETURNED,
            4: Code.FAILED,
            5: Code.RETURNED,
            6: Code.SUCCEEDED,
        }
        assert isinstance(worker.values[4], JobCancelledError)

    async def test_raising_the_loops_cancellation_is_a_failure_of_the_job(self) -> None:
        async def pose() -> None:
            import asyncio

            raise asyncio.CancelledError

        async with a_worker(pose) as worker:
            worker.run({1: (0, ()), 2: (0, ())})
            await worker.until(1, 2)
        assert worker.codes == {1: Code.FAILED, 2: Code.FAILED}
        assert isinstance(worker.values[1], JobCancelledError)

    async def test_a_cancelled_job_may_await_in_finally(self) -> None:
        async def tidy_slowly() -> None:
            import asyncio

            try:
                await asyncio.sleep(3600)
            finally:
                for _ in range(3):
                    await asyncio.sleep(0)
                raise KeyError("all of finally ran")

        async with a_worker(tidy_slowly) as worker:
            worker.run({1: (0, ())})
            await all_wait(worker.link)
            worker.link.post(Stop([1]))
            await worker.until(1)
        assert isinstance(worker.values[1], KeyError)

    async def test_cancelling_the_runner_natively_waits_for_its_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go = asyncio.Event()
        monkeypatch.setitem(sys.modules, "what_test_and_job_share", SimpleNamespace(go=go))

        async def slow_to_go(path: str) -> None:
            import asyncio
            from pathlib import Path

            from what_test_and_job_share import go

            try:
                await asyncio.sleep(3600)
            finally:
                await go.wait()  # until the second cancellation has come
                Path(path).write_text("gone")  # noqa: ASYNC240 - a job's own business

        async with anyio.TemporaryDirectory() as directory:
            trace = anyio.Path(directory) / "trace"
            near, far = memory_pair()
            worker = Worker(near)
            serving = asyncio.create_task(serve_shared(far))
            receiving = asyncio.create_task(near.run(worker.on_frames))
            near.post(Setup("n", []))
            worker.define(slow_to_go)
            worker.run({1: (0, (str(trace),))})
            await all_wait(worker.link)
            serving.cancel()
            await all_wait(worker.link)
            serving.cancel()
            await all_wait(worker.link)
            assert not serving.done()
            go.set()
            await asyncio.wait([serving, receiving])
            assert serving.cancelled()
            assert await trace.read_text() == "gone"


async def test_it_says_once_that_it_is_ready_and_reckons_deadlines_from_then() -> None:
    async def deadline() -> float | None:
        return GVAR.job.deadline if GVAR.job is not None else None

    async with a_worker(deadline) as worker:
        early = time.monotonic()
        worker.run({1: (0, ())})
        worker.run_limited(2, 0, early - 50.0, 100.0)
        await worker.until(1, 2)
        assert worker.values[1] is None
        late = worker.values[2]
        assert isinstance(late, float)
        assert early + 100.0 < late < time.monotonic() + 100.0
        worker.run_limited(3, 0, late + 1.0, 100.0)
        await worker.until(3)
        assert worker.values[3] == late + 1.0
        assert worker.readied == 1


UNPICKLED: list[float] = []


def unpickled() -> None:
    UNPICKLED.append(time.monotonic())


class Slow:
    """Object in a function that takes its time to be unpickled."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return unpickled, ()


async def test_the_time_of_a_job_begins_when_its_function_was_unpickled() -> None:
    slow = Slow()

    async def job() -> object:
        return slow

    UNPICKLED.clear()
    async with a_worker(job) as worker:
        worker.run({1: (0, ())})
        await worker.until(1)
    assert UNPICKLED[0] <= worker.batches[0].begun[0]
