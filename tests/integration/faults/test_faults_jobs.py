"""Jobs that fail, hang, are cancelled at the worst moment, or will not travel: one clear answer, slots free again."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections import deque
from itertools import repeat
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import psutil
import pytest
from fault_calls import one, wait_at
from limits import LIMIT_S
from waiting import logged, until

from grainlike import (
    GVAR,
    Cores,
    Executor,
    GPUs,
    JobCancelledError,
    JobTimeoutError,
    RemoteError,
    Retry,
    SerializationError,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
)
from grainlike.scheduler.node import _runners
from grainlike_worker.daemon import _daemon

pytestmark = pytest.mark.asyncio


async def slots_are_free(executor):
    """Two jobs of one core each have to get through: nothing holds on to either."""
    assert await gather((one @ Cores(2))(), (one @ Cores(1))(), (one @ Cores(1))()) == [1, 1, 1]


# --- timeouts ---


@pytest.mark.parametrize("kind", ["plain", "coroutine", "isolated", "stalled", "stubborn coroutine"])
async def test_a_job_past_its_timeout_is_a_timeout_error_and_its_slots_are_free(kind, monkeypatch):
    monkeypatch.setattr(_runners, "GRACE_S", 0.2)

    def plain():
        time.sleep(1000)

    def stalled():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        time.sleep(1000)

    async def coroutine():
        await anyio.sleep(1000)

    async def stubborn():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        raise ValueError("on my own terms")

    function = {"plain": plain, "stalled": stalled, "stubborn coroutine": stubborn}.get(kind, coroutine)
    job = delayed(timeout=0.3, isolate=kind == "isolated")(function)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        error = ValueError if kind == "stubborn coroutine" else JobTimeoutError
        with pytest.raises(error) as caught:
            await (job @ Cores(1))()
        if error is JobTimeoutError:
            assert "0.3 s" in str(caught.value)
        await slots_are_free(executor)


class Unpickled:
    """What a function refers to that takes its time to be unpickled."""

    def __init__(self, call, argument="unpickled"):
        self.made_by = call, (argument,)

    def __reduce__(self):
        return self.made_by


class WorkersClock:
    """Clock of the embedded worker, which a test sets ahead."""

    def __init__(self):
        self._ahead = 0.0
        self._daemons = []

    def monotonic(self):
        return time.monotonic() + self._ahead

    def keep(self, daemon):
        self._daemons.append(daemon)
        set_alarm = daemon._alarm.set
        daemon._alarm.set = lambda at: set_alarm(at - self._ahead)  # it goes by the true clock

    def set_ahead(self, seconds):
        """Set it ahead, and have the worker do all that is due then."""
        self._ahead = seconds
        for daemon in self._daemons:
            daemon._ring()

    async def run_out(self):
        """Set it ahead until the one job that runs is out of its time.

        A limit begins anew once it is known which job of a run-list runs; where that is never known, two have to pass.
        """
        (daemon,) = self._daemons
        (lease,) = [lease for lease in daemon._scheduler._leases.values() if lease.unended()]
        await until(lambda: lease.timed or lease.barred)

        def stopped():
            self.set_ahead(self._ahead + 100.0)  # more than a limit here, and what the start of a process may take
            return any(job.stopped is not None for job in lease.unended())

        await until(stopped)


@pytest.fixture
def clock(monkeypatch):
    clock, serve = WorkersClock(), _daemon._Daemon.run
    monkeypatch.setattr(_daemon, "time", clock)
    monkeypatch.setattr(_daemon._Daemon, "run", lambda daemon, *args: clock.keep(daemon) or serve(daemon, *args))
    return clock


@pytest.mark.parametrize("isolate", [False, True])
async def test_the_start_of_a_process_is_no_time_of_its_job(gates, isolate, clock):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)):
        slow = Unpickled(gate.visit)

        def plain():
            return slow

        async def coroutine():
            return slow

        job = delayed(timeout=20, isolate=isolate)(coroutine if isolate else plain)
        started_ = start((job @ Cores(1))())
        visitor = await gate.arrival()
        clock.set_ahead(30.0)
        visitor.release()
        assert await started_ is None


async def test_nor_is_the_start_of_one_that_takes_the_place_of_another(gates, tmp_path, clock):
    """A process in which a library has seen other devices, here a stand-in for one by its name, is used up."""
    import _ctypes

    library = str(tmp_path / "libcuda.so.1")
    shutil.copy(_ctypes.__file__, library)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1) & GPUs(2)):
        slow = Unpickled(gate.visit)

        def load():
            import ctypes

            ctypes.CDLL(library)

        def job():
            return slow

        await (delayed(timeout=20)(load) @ GPUs(1))()
        started_ = start((delayed(timeout=20)(job) @ GPUs(2))())
        visitor = await gate.arrival()
        clock.set_ahead(30.0)
        visitor.release()
        assert await started_ is None


async def test_a_limit_holds_for_what_hangs_in_unpickling_where_others_run(gates, start_worker):
    """A process in which a coroutine waits is up, though nobody in it has ended yet."""
    first = "from grainlike.scheduler.node import _runners as r; r.START_S = 1000.0; r.GRACE_S = 0.1"
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen="tcp://127.0.0.1:0") as executor:
        visit = gate.visit
        hangs = Unpickled(time.sleep, 1000.0)

        async def waits():
            await asyncio.to_thread(visit, "here")

        async def never_begins():
            return hangs

        start_worker(executor.address, first=first)
        beside_ = start((delayed(waits) @ Cores(1))())
        await gate.arrival()
        with pytest.raises(JobTimeoutError):
            await (delayed(timeout=0.5)(never_begins) @ Cores(1))()
        gate.release_all()
        assert await beside_ is None
        await slots_are_free(executor)


async def test_a_coroutine_on_a_worker_that_ignores_its_timeout_is_ended_with_its_runner(start_worker, monkeypatch):
    async def stuck():
        while True:
            time.sleep(0.01)  # noqa: ASYNC251

    async def neighbour(number):
        await anyio.lowlevel.checkpoint()
        return number

    first = "from grainlike.scheduler.node import _runners; _runners.GRACE_S = 0.2"
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, first=first)
        with pytest.raises(JobTimeoutError):
            await (delayed(timeout=0.3)(stuck) @ Cores(1))()
        assert await gather((delayed(neighbour) @ Cores(1))(i) for i in range(20)) == list(range(20))
        await slots_are_free(executor)


async def test_a_coroutine_that_swallows_cancellation_is_ended_with_its_runner(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen="tcp://127.0.0.1:0") as executor:
        visit = gate.visit
        gate.open = True

        async def swallow():
            visit("here")
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(1000)

        start_worker(executor.address, first="from grainlike.scheduler.node import _runners; _runners.GRACE_S = 0.2")
        r_ = start((delayed(swallow) @ Cores(1))())
        await gate.arrival()
        cancel(r_)
        await slots_are_free(executor)


async def test_retries_are_for_timeouts_too_and_every_attempt_has_its_time(tmp_path):
    marks = tmp_path / "marks"

    def job():
        with marks.open("a") as file:
            file.write(".")
        if marks.stat().st_size < 3:
            time.sleep(1000)
        return GVAR.job.attempt

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        # One that could end may run out of its time, too, where others have the machine.
        assert await (delayed(timeout=0.5, retries=12)(job) @ Cores(1))() in range(3, 13)


async def test_retries_run_out_with_the_last_error():
    @delayed(retries=2)
    def fail():
        raise ValueError(f"attempt {GVAR.job.attempt}")

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        r_ = (fail @ Cores(1))()
        with pytest.raises(ValueError, match="attempt 3"):
            await r_
        assert info(r_).attempt == 3


@pytest.mark.parametrize("stopped_by", ["timeout", "cancel"])
async def test_an_embedded_coroutine_that_ignores_its_end_is_named_and_keeps_its_slots_alone(
    stopped_by, monkeypatch, caplog
):
    """Nobody can end it but itself: its awaiter has an answer, its neighbours live, and its slots are its own."""
    monkeypatch.setattr(_runners, "GRACE_S", 0.2)
    release, begun, told = asyncio.Event(), asyncio.Event(), asyncio.Event()
    # The function travels by value even here; what it shares with the test it finds by name.
    monkeypatch.setitem(sys.modules, "fault_switch", SimpleNamespace(release=release, begun=begun, told=told))

    async def swallow():
        from fault_switch import begun, release

        begun.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    @delayed
    async def neighbour():
        from fault_switch import told

        await told.wait()
        return "lives"

    @delayed
    async def quick():
        return GVAR.res.cores

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(3)):
        asyncio.get_running_loop().call_later(LIMIT_S / 2, release.set)  # or a failure here would never be told
        beside = start((neighbour @ Cores(1))())
        r_ = start((delayed(timeout=0.2 if stopped_by == "timeout" else None)(swallow) @ Cores(1))())
        await begun.wait()
        if stopped_by == "cancel":
            cancel(r_)
        with pytest.raises(JobTimeoutError if stopped_by == "timeout" else JobCancelledError):
            await r_
        await logged(caplog, "swallow: cancelled, and goes on all the same")  # its grace is over
        told.set()
        assert await beside == "lives"
        cores = set().union(*await gather((quick @ Cores(1))() for _ in range(20)))
        assert len(cores) == 2
        release.set()
        await gather((quick @ Cores(3))() for _ in range(2))


async def test_neighbours_of_a_coroutine_that_blocks_its_runner_for_ever_run_again(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen="tcp://127.0.0.1:0") as executor:
        visit = gate.visit

        async def stuck():
            visit("stuck")
            while True:
                time.sleep(0.01)  # noqa: ASYNC251

        @delayed
        async def neighbour(number):
            await asyncio.to_thread(visit, number)
            return number

        start_worker(
            executor.address,
            resources="cores=4",
            first="from grainlike.scheduler.node import _runners; _runners.GRACE_S = 0.2",
        )
        others = [start((neighbour @ Cores(1))(number)) for number in range(3)]
        for _ in others:
            await gate.arrival()
        r_ = start((delayed(stuck) @ Cores(1))())
        await gate.arrival()  # from here on nothing else gets a turn there
        gate.release_all()
        cancel(r_)
        assert await gather(others) == [0, 1, 2]
        assert [info(other).attempt for other in others] == [2, 2, 2]
        await slots_are_free(executor)


# --- cancelling ---


async def test_cancelling_at_the_moment_of_completion_is_one_or_the_other():
    @delayed
    async def quick(number):
        await asyncio.sleep(0)
        return number

    @delayed
    def plain(number):
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        for turns in range(40):
            for fn in (quick, plain):
                r_ = start((fn @ Cores(1))(turns))
                for _ in range(turns):
                    await asyncio.sleep(0)
                cancel(r_)
                try:
                    assert await r_ == turns
                except JobCancelledError:
                    assert info(r_).state == "cancelled"
        await slots_are_free(executor)


async def test_cancelling_queued_leased_and_spawning_jobs(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)) as executor:
        visit = gate.visit

        @delayed
        def job(number):
            visit(number)
            return number

        jobs = [start((job @ Cores(1))(number)) for number in range(6)]
        cancel(jobs[0])  # its process is being started
        cancel(jobs[5])  # queued
        held = [await gate.arrival() for _ in range(2)]
        cancel(jobs[int(held[0].name)])
        third = await gate.arrival()
        assert third.name not in {"0", "5", held[0].name, held[1].name}
        gate.release_all()
        outcomes = []
        for r_ in jobs:
            try:
                outcomes.append(await r_)
            except JobCancelledError:
                outcomes.append(None)
        assert [number for number, value in enumerate(outcomes) if value is None] == sorted([0, 5, int(held[0].name)])
        await slots_are_free(executor)


async def test_cancelling_a_member_of_a_run_list_leaves_the_others(gates):
    """Quick jobs ride together; one of them, at random moments, is cancelled, and all others give their values."""

    @delayed
    def tiny(number):
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        await gather((tiny @ Cores(1))(number) for number in range(200))
        for round_ in range(10):
            jobs = [(tiny @ Cores(1))(number) for number in range(300)]
            all_ = start(gather(jobs[:150] + jobs[151:]))
            start(jobs[150])
            for _ in range(round_ * 3):
                await asyncio.sleep(0)
            cancel(jobs[150])
            assert await all_ == [*range(150), *range(151, 300)]
        await slots_are_free(executor)


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_member_of_a_run_list_that_runs_out_of_time_leaves_the_others(isolate, gates, clock):
    """Tiny jobs with a limit ride together; one of them never ends."""
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)) as executor:
        visit = gate.visit

        @delayed(timeout=20, isolate=isolate)
        def tiny(number):
            if number == 150:
                visit("endless")
            return number

        await gather((tiny @ Cores(1))(number) for number in range(100))
        before_, endless_, behind_ = (
            start(gather((tiny @ Cores(1))(number) for number in numbers))
            for numbers in (range(100, 150), [150], range(151, 300))
        )
        await gate.arrival()
        assert await before_ == [*range(100, 150)]
        assert await behind_ == [*range(151, 300)]
        await clock.run_out()
        with pytest.raises(JobTimeoutError):
            await endless_
        await slots_are_free(executor)


async def test_a_limit_that_passes_in_native_code_ends_that_job_alone(gates, clock):
    """Jobs before it have ended, though their process cannot tell so: none of them is blamed."""
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)):
        visit = gate.visit

        @delayed(timeout=20)
        def tiny(number):
            if number == 30:
                visit("native")
                deque(repeat(0), maxlen=0)  # never leaves C
            return number

        await gather((tiny @ Cores(1))(number) for number in range(100, 200))
        all_ = gather(((tiny @ Cores(1))(number) for number in range(60)), return_exceptions=True)
        start(all_)
        visitor = await gate.arrival()
        process = psutil.Process(visitor.pid)
        before = process.cpu_times().user
        visitor.release()
        await until(lambda: process.cpu_times().user > before + 0.1)  # it can tell nobody where it is
        await clock.run_out()
        outcomes = await all_
        assert [number for number, value in enumerate(outcomes) if value != number] == [30]
        assert isinstance(outcomes[30], JobTimeoutError)
        assert await (one @ Cores(1))() == 1


async def test_each_that_never_ends_runs_out_of_its_own_time_behind_one_that_did(gates, clock):
    """The second one begins in a new process, of which a barrier may be wanted before it is up."""
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)):
        visit = gate.visit

        @delayed(timeout=20, retries=Retry(0, losses=0))
        def tiny(number):
            if number in (30, 45):
                visit("endless")
            return number

        await gather((tiny @ Cores(1))(number) for number in range(100, 200))
        all_ = gather(((tiny @ Cores(1))(number) for number in range(60)), return_exceptions=True)
        start(all_)
        for _ in range(2):
            await gate.arrival()
            await clock.run_out()
        outcomes = await all_
        assert [number for number, value in enumerate(outcomes) if value != number] == [30, 45]
        assert all(isinstance(outcomes[number], JobTimeoutError) for number in (30, 45))
        assert await (one @ Cores(1))() == 1


async def test_an_isolated_job_that_kills_its_process_takes_none_along_that_has_succeeded():
    """Each end is reported before the next job begins."""

    @delayed(isolate=True, retries=Retry(0, losses=0))
    def tiny(number):
        if number == 30:
            os._exit(11)
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        await gather((tiny @ Cores(1))(number) for number in range(100, 200))
        outcomes = await gather(((tiny @ Cores(1))(number) for number in range(60)), return_exceptions=True)
        assert [number for number, value in enumerate(outcomes) if value != number] == [30]
        assert isinstance(outcomes[30], WorkerLostError)
        assert await (one @ Cores(1))() == 1


@pytest.mark.parametrize("way", ["asyncio", "anyio", "task"])
@pytest.mark.parametrize("kind", ["plain", "coroutine", "local"])
async def test_an_awaiter_that_is_cancelled_takes_the_work_along(way, kind, gates, tmp_path):
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(local=Cores(2)) as executor:
        visit, leave = gate.visit, farewell.visit
        gate.open = farewell.open = True

        def plain():
            try:
                visit("begun")
                time.sleep(1000)
            finally:
                leave("ended")

        async def local():
            try:
                await asyncio.to_thread(visit, "begun")
                await asyncio.sleep(1000)
            finally:
                told.set()

        async def coroutine():
            try:
                await asyncio.to_thread(visit, "begun")
                await asyncio.sleep(1000)
            finally:
                await asyncio.to_thread(leave, "ended")

        told = asyncio.Event()
        fn = delayed({"plain": plain, "local": local}.get(kind, coroutine))
        r_ = (fn if kind == "local" else fn @ Cores(1))()
        if way == "task":
            task = asyncio.create_task(_value(r_))
            await gate.arrival()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TimeoutError):
                await _value_until_it_has_begun(r_, gate, way)
        await (told.wait() if kind == "local" else farewell.arrival())
        assert info(r_).state == "cancelled"
        await slots_are_free(executor)


async def _value(r_):
    return await r_


async def _value_until_it_has_begun(r_, gate, way):
    """Await it, with a limit that runs out as soon as it is at work."""
    if way == "asyncio":
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
            tasks.create_task(_after_arrival(gate, lambda: limit.reschedule(asyncio.get_running_loop().time())))
            await r_
    else:
        with anyio.fail_after(None) as scope:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_after_arrival(gate, lambda: setattr(scope, "deadline", anyio.current_time())))
                await r_


async def _after_arrival(gate, call):
    await gate.arrival()
    call()


async def test_a_local_call_that_is_cancelled_before_it_began_never_runs():
    ran = []

    @delayed
    async def coroutine(mark="default"):
        ran.append(mark)

    @delayed
    def plain(mark="default"):
        ran.append(mark)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        for fn in (coroutine, plain):
            r_ = start(fn("given"))
            cancel(r_)
            with pytest.raises(JobCancelledError):
                await r_
            await fn("later")
    assert ran == ["later", "later"]


async def test_a_plain_local_call_that_waits_for_a_thread_can_be_cancelled():
    go = threading.Event()
    ran = []

    @delayed
    def hold():
        go.wait(LIMIT_S)

    @delayed
    def after(mark="default"):
        ran.append(mark)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        holders = start(gather(hold() for _ in range(40)))
        r_ = start(after("given"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancel(r_)
        go.set()
        await holders
    assert ran == []


# --- what does not travel ---


class Unpicklable:
    def __reduce__(self):
        raise TypeError("not me")


class BreaksOnArrival:
    def __reduce__(self):
        return _explode, ()


def _explode():
    raise ZeroDivisionError("on arrival")


@pytest.mark.parametrize("kind", ["plain", "coroutine", "local"])
async def test_an_exception_that_nobody_may_touch_fails_its_own_job_only(kind):
    def body(what):
        class RaisesAtEveryLook(Exception):
            def __getattribute__(self, name):
                raise ZeroDivisionError(name)

        class TakesNoNote(Exception):
            def __init__(self):
                self.__notes__ = 5

        class HidesItsTraceback(Exception):
            __cause__ = property(lambda self: 1 / 0)
            __traceback__ = property(lambda self: 1 / 0)

        raise {"look": RaisesAtEveryLook, "note": TakesNoNote, "traceback": HidesItsTraceback}[what]

    async def async_body(what):
        await asyncio.sleep(0)
        return body(what)

    fn = delayed(async_body if kind == "coroutine" else body)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        for what in ("look", "note", "traceback"):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is for its class to say
                await (fn if kind == "local" else fn @ Cores(1))(what)
            assert not issubclass(type(caught.value), (WorkerLostError, JobCancelledError))
        await slots_are_free(executor)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_results_and_exceptions_that_do_not_travel_are_named(kind):
    def body(what):
        import threading

        class Local(Exception):
            def __reduce__(self):
                raise TypeError("not me")

        if what == "lock":
            return threading.Lock()
        if what == "error":
            raise Local("lost words")
        if what == "exit":
            raise SystemExit(3)
        if what == "interrupt":
            raise KeyboardInterrupt
        return what

    async def async_body(what):
        await asyncio.sleep(0)
        return body(what)

    fn = delayed(body if kind == "plain" else async_body)
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        with pytest.raises(SerializationError, match="lock"):
            await (fn @ Cores(1))("lock")
        with pytest.raises(RemoteError, match="lost words") as caught:
            await (fn @ Cores(1))("error")
        assert caught.value.type_name.endswith("Local")
        for what, name in (("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")):
            with pytest.raises(RemoteError, match=name):
                await (fn @ Cores(1))(what)
        await slots_are_free(executor)


async def test_a_result_that_breaks_on_arrival_is_that_jobs_error():
    pid = os.getpid()

    @delayed
    def broken():
        class Breaks:
            def __reduce__(self):
                return eval, (f"1 // 0 if __import__('os').getpid() == {pid} else None",)

        return Breaks()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        with pytest.raises(SerializationError, match="ZeroDivisionError"):
            await (broken @ Cores(1))()
        await slots_are_free(executor)


async def test_an_argument_that_does_not_pickle_is_named_and_nothing_is_sent(monkeypatch):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        submitted = []
        scheduler = executor._service.head.state.scheduler
        handle = scheduler.handle
        monkeypatch.setattr(scheduler, "handle", lambda event, now: (submitted.append(event), handle(event, now))[1])
        with pytest.raises(SerializationError, match="argument 'key'"):
            await (delayed(lambda x, key: x) @ Cores(1))(1, key=[threading.Lock()])
        assert [type(event).__name__ for event in submitted if "Jobs" in type(event).__name__] == []


async def test_an_open_text_file_is_no_argument(tmp_path):
    """A copy of what it holds would come, as a file in memory: whoever writes to that writes to nothing."""
    path = tmp_path / "text"
    path.write_text("words")
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with path.open("r+") as file, pytest.raises(SerializationError, match=r"argument 0 of .*send its path"):
            await (delayed(lambda file: file.read()) @ Cores(1))(file)


async def test_a_container_that_cannot_be_rebuilt_fails_its_own_call():
    @delayed
    async def unhashable():
        return []

    @delayed
    async def use(box):
        return box

    @delayed
    def plain_use(box):
        return box

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        for fn in (use, plain_use, use @ Cores(1)):
            with pytest.raises(TypeError, match="unhashable"):
                await fn({unhashable()})
        assert await (one @ Cores(1))() == 1
        assert executor.is_open


@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"])
async def test_large_results_come_whole(listen, start_worker):
    size = 110 * 1024 * 1024

    @delayed
    def large(size):
        return bytearray(size)

    @delayed
    async def large_coroutine(size):
        return bytes(size)

    local = None if listen else Cores(2)
    async with asyncio.timeout(LIMIT_S), Executor(local=local, listen=listen) as executor:
        if listen:
            start_worker(executor.address)
        first, second = await gather((large @ Cores(1))(size), (large_coroutine @ Cores(1))(size))
        assert (len(first), len(second)) == (size, size)
        await slots_are_free(executor)


async def test_many_jobs_of_many_buffers_come_whole():
    np = pytest.importorskip("numpy")

    @delayed
    async def many(arrays):
        return arrays

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)):
        arrays = [np.zeros(1024) for _ in range(500)]
        for back in await gather((many @ Cores(1))(arrays) for _ in range(20)):
            assert len(back) == 500


# --- one after another, where frames arrive in callbacks of the loop ---


async def test_a_local_call_may_depend_on_a_job_far_away(start_worker):
    @delayed
    async def local(x):
        return x + 1

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address)
        assert await local((one @ Cores(1))()) == 2


async def test_a_graph_of_many_local_calls_takes_many_turns_of_the_loop():
    @delayed
    async def local(x):
        return x

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        assert len(await gather(local(number) for number in range(3000))) == 3000


# --- many ---


async def test_5000_tiny_jobs_do_not_wait_behind_one_that_is_held(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)) as executor:
        visit = gate.visit

        @delayed
        def tiny(number):
            if number == 2500:
                visit("long")
            return number

        jobs = [(tiny @ Cores(1))(number) for number in range(5000)]
        others = start(gather(jobs[:2500] + jobs[2501:]))
        long = start(jobs[2500])
        assert len(await others) == 4999
        assert info(long).state != "succeeded"
        gate.release_all()
        assert await long == 2500
        await slots_are_free(executor)


async def test_a_job_that_writes_rubbish_to_its_own_socket_hurts_only_itself():
    @delayed
    def rubbish():
        import os
        import stat

        for fd in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    os.write(fd, b"\xff" * 64)
            except OSError:
                pass
        return "written"

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        others = start(gather((one @ Cores(1))() for _ in range(20)))
        with pytest.raises(Exception, match="3 times"):
            await (rubbish @ Cores(1))()
        assert await others == [1] * 20
        await slots_are_free(executor)


@pytest.mark.parametrize("how", ["descriptors", "streams", "detached"])
async def test_what_a_job_closes_is_open_again_for_the_next(how, tmp_path):
    data = tmp_path / "data"

    def close(how):
        import os
        import sys

        for number, stream in enumerate([sys.stdin, sys.stdout, sys.stderr]):
            if how == "streams":
                stream.close()
            elif how == "detached":
                stream.detach()
            else:
                os.close(number)
        return os.getpid()

    def write(path):
        import os
        import sys

        with path.open("w") as file:
            print("printed")
            sys.stderr.flush()
            sys.stdin.read()
            os.write(1, b"written")
            file.write("data")
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        first = await (delayed(close) @ Cores(1))(how)
        assert await (delayed(write) @ Cores(1))(data) == first
    assert data.read_text() == "data"


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_ends_an_iterator_comes_back_as_an_error_that_says_so(kind, is_async):
    def ends():
        raise kind("early")

    async def ends_in_loop():
        raise kind("early")

    async with Executor(local=Cores(1)):
        with pytest.raises(RuntimeError) as caught:
            await (delayed(ends_in_loop if is_async else ends) @ Cores(1))()
    assert kind.__name__ in str(caught.value)
    assert any("attempt 1 of ends" in note for note in caught.value.__notes__)


@pytest.mark.asyncio
async def test_the_end_of_a_process_of_a_cancelled_job_is_logged_with_its_reason(gates, caplog):
    caplog.set_level(logging.INFO, "grainlike")
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)):
        r_ = start((delayed(wait_at) @ Cores(1))(gate.visit, "job"))
        await gate.arrival()
        cancel(r_)
        [told] = await logged(caplog, "own runner 1 ended")
    assert told == "own runner 1 ended: exit code 143, as it was told to end: its job was cancelled, or out of time"
