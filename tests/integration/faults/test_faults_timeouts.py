"""Jobs that do not end in time: each is a timeout error, its slots are free again, and those beside it end."""

import asyncio
import contextlib
import shutil
import signal
import sys
import time
from collections import deque
from itertools import repeat
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import psutil
import pytest
from fault_calls import one
from free_slots import slots_are_free
from limits import LIMIT_S
from waiting import logged, until

from grainlike import (
    GVAR,
    Cores,
    Executor,
    GPUs,
    JobCancelledError,
    JobTimeoutError,
    Retry,
    cancel,
    delayed,
    gather,
    info,
    start,
)
from grainlike.scheduler.node import _records, _runners
from grainlike_worker.daemon import _daemon

pytestmark = pytest.mark.asyncio


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
    """Object in a function that takes its time to be unpickled."""

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

    @property
    def ahead(self):
        return self._ahead

    def set_ahead(self, seconds):
        """Set it ahead, and have the worker do all that is due then."""
        self._ahead = seconds
        for daemon in self._daemons:
            daemon._ring()

    def lease(self):
        """Return the one lease of which a job has not ended."""
        (daemon,) = self._daemons
        (lease,) = [lease for lease in daemon._scheduler._leases.values() if lease.unended()]
        return lease

    async def run_out(self):
        """Set it ahead until the one job that runs is out of its time.

        A limit begins anew once it is known which job of a run-list runs; where that is never known, two have to pass.
        """
        lease = self.lease()
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


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("endless", [30, 31])
async def test_in_a_run_list_of_different_timeouts_each_job_has_its_own(
    endless, isolate, gates, clock, tmp_path, monkeypatch
):
    monkeypatch.setattr(_records, "TINY_S", 3600.0)  # on a busy machine, too
    monkeypatch.setattr(_records, "RUN_LIST_S", 3600.0)
    limits, begun = (20, 2000), tmp_path / "begun"
    started, start_lease = [], _daemon._Daemon._start
    monkeypatch.setattr(_daemon._Daemon, "_start", lambda daemon, a: started.append(a) or start_lease(daemon, a))
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)):
        visit = gate.visit

        def tiny(number):
            if number < 60:
                with begun.open("a") as file:
                    file.write(f"{number}\n")
            if number == endless:
                visit("endless")
            return number

        jobs = [delayed(tiny, timeout=limit, isolate=isolate) @ Cores(1) for limit in limits]
        await gather(jobs[number % 2](number) for number in range(100, 200))
        all_ = gather((jobs[number % 2](number) for number in range(60)), return_exceptions=True)
        start(all_)
        await gate.arrival()
        assert set(started[-1].limits) == set(limits)
        lease, before = clock.lease(), clock.ahead
        await until(lambda: lease.timed)
        await clock.run_out()
        limit = limits[endless % 2]
        assert limit <= clock.ahead - before <= limit + 200.0
        outcomes = await all_
        assert [number for number, value in enumerate(outcomes) if value != number] == [endless]
        assert isinstance(outcomes[endless], JobTimeoutError)
        assert f"its timeout of {limit} s" in str(outcomes[endless])
        assert sorted(map(int, begun.read_text().split())) == list(range(60)), "each ran once"
        assert await (one @ Cores(1))() == 1
