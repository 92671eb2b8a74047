"""What one job costs, counted in calls: unlike seconds, calls are the same on every machine and on a busy one.

A bound here is what was counted when it was written and a tenth more. Whoever goes past it has put something on the
path of every job: take it off again, or show that it is worth it, and write the new number.
"""

import math
import time

import pytest
from counting import counted

from grainlike import Cores, Executor, amap, delayed, gather
from grainlike.engine import _engine
from grainlike.eventloop import _rhythm
from grainlike.graph import Delayed, DelayedFn
from grainlike.jobs import _chains
from grainlike.maps import _batching
from grainlike.net._byte_link import ByteLink
from grainlike_worker.daemon import _daemon
from grainlike_worker.runner.common import _outcomes, _usage
from grainlike_worker.runner.loop import _runner

JOBS = 2_000


def plain(x: int) -> int:
    return x


def first(x: int, *_: int) -> int:
    return x


def number(_: object) -> int:
    return 7


async def coroutine(x: int) -> int:
    return x


class Steady:
    """A clock that does not go on while the machine does something else: with each look it is a microsecond later."""

    def __init__(self) -> None:
        self._now = time.monotonic()

    def monotonic(self) -> float:
        self._now += 1e-6
        return self._now

    thread_time = staticmethod(time.thread_time)


@pytest.fixture(autouse=True)
def a_machine_that_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes by the clock would go otherwise on a busy machine, and cost other calls."""
    # A slower machine would make smaller batches, and look at its cores more often.
    for module, name in ((_outcomes, "FLUSH_S"), (_runner, "_TURN_S"), (_engine, "_SLICE_S"), (_daemon, "LOOK_S")):
        monkeypatch.setattr(module, name, 3600.0)
    monkeypatch.setattr(_rhythm, "_WEIGHT", 0.0)  # a loop that polls has as many turns as it has time for
    # Nor does one stop of a busy machine make a function, whose jobs run in this process, one that takes long.
    steady = Steady()
    for module in (_usage, _runner):
        monkeypatch.setattr(module, "time", steady)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("function", "options", "python", "c"),
    # One of each: a placeholder that is let go of looks whether its call is known elsewhere, or was awaited, 50 ns.
    [
        pytest.param(plain, {}, 8.1, 26.4, id="plain"),
        pytest.param(coroutine, {}, 15.9, 40.4, id="async"),
        # With a lease each, these cost 238 and 218.
        pytest.param(plain, {"timeout": 3600.0}, 8.1, 26.5, id="timeout"),
        pytest.param(plain, {"isolate": True}, 51.8, 105.6, id="isolated"),
    ],
)
async def test_a_job_that_does_nothing_costs_the_caller_this_many_calls(function, options, python, c) -> None:
    async with Executor(local=Cores(2)):
        job = delayed(function, **options) @ Cores(1)
        await gather([job(i) for i in range(300)])
        least_python = least_c = math.inf
        # The least of many: beside other programs there are more and smaller batches, each of which costs calls.
        for _ in range(30):
            with counted() as count:
                await gather([job(i) for i in range(JOBS)])
            least_python, least_c = min(least_python, count.python / JOBS), min(least_c, count.c / JOBS)
            if least_python <= python and least_c <= c:
                break
    assert least_python <= python
    assert least_c <= c


@pytest.mark.asyncio
@pytest.mark.parametrize(
    # Two of them look for loops that await one placeholder after another, and for an executor of this loop; some ten
    # keep what became of the job, a batch of one here, for `grainlike jobs --ended`: 3.5 of 800 microseconds.
    ("function", "python"),
    [pytest.param(plain, 306, id="plain"), pytest.param(coroutine, 361, id="async")],
)
async def test_one_job_after_another_costs_the_caller_this_many_calls(function, python) -> None:
    async def after_another(jobs: int) -> None:
        for i in range(jobs):
            assert await job(i) == i

    async with Executor(local=Cores(2)):
        job = delayed(function) @ Cores(1)
        await after_another(50)
        counts = []
        for _ in range(3):
            with counted() as count:
                await after_another(100)
            counts.append(count.python / 100)
    assert min(counts) <= python


def chain(job: DelayedFn[..., int], jobs: int) -> Delayed[int]:
    made = job(0)
    for _ in range(jobs - 1):
        made = job(made)
    return made


def tree(job: DelayedFn[..., int], jobs: int) -> Delayed[int]:
    level = [job(0) for _ in range((jobs + 1) // 2)]
    while len(level) > 1:
        level = [job(*level[at : at + 2]) for at in range(0, len(level), 2)]
    return level[0]


def pairs(job: DelayedFn[..., int], jobs: int) -> Delayed[int]:
    level = [job((0, 0)) for _ in range((jobs + 1) // 2)]
    while len(level) > 1:
        level = [job((level[at], level[at + 1])) for at in range(0, len(level), 2)]
    return level[0]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    # The links of a chain travel together and come back together; of a tree, calls that are ready at once are alike.
    ("graph", "jobs", "python"),
    [
        pytest.param(chain, 1_000, 15.6, id="chain"),
        pytest.param(tree, 2_047, 17.0, id="tree"),
        pytest.param(pairs, 2_047, 26.1, id="pairs"),
    ],
)
async def test_a_job_that_needs_others_costs_the_caller_this_many_calls(graph, jobs, python, monkeypatch) -> None:
    # A busy machine would end chains earlier, and its jobs would come back in smaller batches.
    monkeypatch.setattr(_chains, "CHAIN_S", 3600.0)
    async with Executor(local=Cores(2)):
        job = delayed(number if graph is pairs else first) @ Cores(1)
        await gather([job(i) for i in range(300)])
        least = math.inf
        for _ in range(30):
            with counted() as count:
                await graph(job, jobs)
            least = min(least, count.python / jobs)
            if least <= python:
                break
    assert least <= python


@pytest.mark.asyncio
async def test_an_item_of_a_tiny_map_costs_the_caller_this_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the machine stops, calls look long, and fewer of them travel together; else it comes to this many.
    monkeypatch.setattr(_batching, "TINY_S", 3600.0)
    monkeypatch.setattr(_batching, "LONG_S", 3600.0)
    monkeypatch.setattr(_batching.BatchSizer, "_best", lambda sizer, executor: 32)

    async def through(items: int) -> None:
        async for _ in amap(delayed(plain) @ Cores(1), range(items)):
            pass

    async with Executor(local=Cores(2)):
        counts = []
        for _ in range(3):
            await through(JOBS)
            with counted() as count:
                await through(JOBS)
            counts.append(count.python / JOBS)
    # Calls before anything is known of the function go alone, and are a part of it.
    assert min(counts) <= 31


@pytest.mark.asyncio
async def test_a_placeholder_costs_this_many_calls() -> None:
    job = delayed(plain) @ Cores(1)
    with counted() as count:
        made = [job(i) for i in range(JOBS)]
    assert len(made) == JOBS
    assert count.python / JOBS <= 2.2


@pytest.mark.asyncio
async def test_many_jobs_at_once_travel_in_few_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[str] = []
    async with Executor(local=Cores(2)):
        job = delayed(plain) @ Cores(1)
        await gather([job(i) for i in range(300)])
        for link in ByteLink.__subclasses__():  # those that it uses are imported by now
            for way, send in (("post", link.post), ("enqueue", link.enqueue)):

                def sending(self, message, buffers=(), send=send):
                    posted.append(type(message).__name__)
                    send(self, message, buffers)

                monkeypatch.setattr(link, way, sending)
        await gather([job(i) for i in range(JOBS)])
    assert posted
    assert len(posted) <= JOBS / 10
