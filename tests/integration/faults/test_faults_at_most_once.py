"""Jobs with `losses=0` whose process dies: those that had begun are lost, the others run; none runs twice."""

import asyncio
import logging
import os
import signal
from collections import Counter

import pytest
from limits import LIMIT_S
from waiting import logged

from grainlike import Cores, Executor, JobCancelledError, Retry, WorkerLostError, cancel, delayed, gather, start

JOBS = 600
LAST = 40
LISTEN = "tcp://127.0.0.1:0"
KINDS = ["coroutine", "awaiting", "plain", "embedded plain", "isolated"]

pytestmark = pytest.mark.asyncio


class Marks:
    """Calls of `kind`, each of which leaves a mark when it begins; some end their process, by `how`."""

    def __init__(self, path, kind, how="exit"):
        self.path = path
        self._kind = kind
        self._how = how

    def begun(self):
        """Return how often each of the calls has begun that are not for practice."""
        return Counter(number for number in map(int, self.path.read_text().split()) if number >= 0)

    def functions(self, count):
        return [self._function() for _ in range(count)]

    def _function(self):
        path, how = str(self.path), self._how

        def begin(number, last):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(fd, b"%d\n" % number)
            os.close(fd)
            if number in last:
                os._exit(7) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
            return number

        async def coroutine(number, last):
            return begin(number, last)

        async def awaiting(number, last):
            if number % 3 == 0:
                begin(number, ())
                await asyncio.sleep(0.01)
                return begin(number, last) if number in last else number
            return begin(number, last)

        calls = {"coroutine": coroutine, "awaiting": awaiting, "isolated": coroutine}
        call = calls.get(self._kind, begin)
        return delayed(call, retries=Retry(0, losses=0), isolate=self._kind == "isolated")


def executor_of(kind):
    return (
        Executor(local=Cores(2)) if kind.startswith(("embedded", "isolated")) else Executor(listen=LISTEN, local=None)
    )


async def outcomes(executor, functions, last=(LAST,)):
    """Return what becomes of the calls by number, once it is known of the functions that they are tiny."""
    await gather([(function @ Cores(1))(-1, ()) for _ in range(100) for function in functions])
    made = [(functions[number % len(functions)] @ Cores(1))(number, last) for number in range(JOBS)]
    return dict(enumerate(await gather(made, return_exceptions=True)))


def lost(found):
    return {number for number, value in found.items() if isinstance(value, WorkerLostError)}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_jobs_only_those_are_lost_that_had_begun(kind, count, tmp_path, start_worker):
    marks = Marks(tmp_path / "marks", kind)
    async with asyncio.timeout(LIMIT_S), executor_of(kind) as executor:
        if executor.address:
            start_worker(executor.address)
            await executor.wait_for_workers(1)
        found = await outcomes(executor, marks.functions(count))
    begun = marks.begun()
    assert LAST in lost(found) <= begun.keys()
    assert begun.keys() == set(range(JOBS)), "each has begun"
    assert max(begun.values()) == 1, "none has begun twice"
    assert all(value == number for number, value in found.items() if number not in lost(found))


@pytest.mark.parametrize("kind", ["coroutine", "awaiting", "plain"])
async def test_processes_that_die_again_and_again_take_none_along_that_had_not_begun(kind, tmp_path, start_worker):
    marks, last = Marks(tmp_path / "marks", kind, "kill"), tuple(range(1, JOBS, 59))
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, local=None) as executor:
        for name in ("first", "second"):
            start_worker(executor.address, name=name)
        await executor.wait_for_workers(2)
        found = await outcomes(executor, marks.functions(2), last)
    begun = marks.begun()
    expected = dict.fromkeys(range(JOBS), 1)
    if kind == "awaiting":
        expected |= dict.fromkeys((number for number in last if number % 3 == 0), 2)  # it marks its end, too
    assert set(last) <= lost(found)
    assert {number: expected[number] for number in begun} == expected, "all have begun"
    assert all(times <= expected[number] for number, times in begun.items()), "none twice"


async def test_a_job_that_is_cancelled_in_time_never_begins_though_its_process_dies(tmp_path, gates, start_worker):
    path = str(tmp_path / "marks")

    async def hold(visit):
        visit("held")
        os._exit(7)

    async def mark(number):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"%d\n" % number)
        os.close(fd)
        return number

    once = Retry(0, losses=0)
    marked, held = delayed(mark, retries=once) @ Cores(1), delayed(hold, retries=once) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN, local=None) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        await gather([marked(-1) for _ in range(100)])
        held_ = start(held(gate.visit))
        await gate.arrival()
        others = [start(marked(number)) for number in range(50)]  # the process cannot look at them before it dies
        for other_ in others[::2]:
            cancel(other_)
        gate.release_all()
        found = await gather(others, return_exceptions=True)
        with pytest.raises(WorkerLostError):
            await held_
    assert found[1::2] == list(range(1, 50, 2))
    assert all(isinstance(value, JobCancelledError) for value in found[::2])
    assert Counter(number for number in map(int, (tmp_path / "marks").read_text().split()) if number >= 0) == Counter(
        range(1, 50, 2)
    )


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_a_function_that_ends_each_process_that_loads_it_is_lost_alone_in_the_end(kind, start_worker):
    class Ends:
        def __reduce__(self):
            return os._exit, (7,)

    ends, once = Ends(), Retry(0, losses=0)

    async def coroutine():
        return ends

    def plain():
        return ends

    async def waits(number):
        await asyncio.sleep(0)
        return number

    bad = delayed(coroutine if kind == "coroutine" else plain, retries=once) @ Cores(1)
    good = delayed(waits, retries=once) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, local=None) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        bad_ = start(bad())
        assert await gather([good(number) for number in range(100)]) == list(range(100))
        with pytest.raises(WorkerLostError, match=rf"^{kind} was lost 3 times: .*, before it had begun\n"):
            await bad_
        [row] = [row for row in await executor.history() if row.outcome == "failed"]
    assert [earlier.outcome for earlier in row.earlier] == ["unbegun", "unbegun"]


async def test_a_worker_that_ends_hands_back_what_had_not_begun(tmp_path, gates, start_worker, caplog):
    caplog.set_level(logging.INFO, "grainlike")
    path = str(tmp_path / "marks")

    async def mark(number, visit):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"%d\n" % number)
        os.close(fd)
        if visit is not None:
            visit("held")
        return number

    marked = delayed(mark, retries=Retry(0, losses=0)) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN, local=None) as executor:
        first = start_worker(executor.address, name="first", resources="cores=1")
        await executor.wait_for_workers(1)
        await gather([marked(-1, None) for _ in range(100)])
        all_ = start(gather([marked(number, gate.visit if number == 100 else None) for number in range(200)]))
        await gate.arrival()  # it blocks the loop that it shares, with a run-list behind it
        os.kill(first.pid, signal.SIGTERM)
        await logged(caplog, "worker first is leaving")
        gate.release_all()
        start_worker(executor.address, name="second")
        assert await all_ == list(range(200))
    assert set((tmp_path / "marks").read_text().split()) == {str(number) for number in range(-1, 200)}
