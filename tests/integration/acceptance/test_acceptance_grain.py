"""Delayed objects on exact resources: the lines G of the acceptance list, each on every kind of worker."""

import os
import subprocess
import sys
import threading
from functools import partial

import anyio
import anyio.to_thread
import numpy as np
import pytest
from stagehands import Stage, appear, appear_blocking
from waiting import until

from grainlike import (
    GVAR,
    Cores,
    Delayed,
    Executor,
    Memory,
    Resource,
    WallTime,
    as_completed,
    delayed,
    delayed_value,
    gather,
    info,
    start,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["coroutine", "plain"])
def actor(request, stage: Stage):
    """A delayed function that appears on stage under its first argument and returns its second."""
    path = stage.path

    async def coroutine(name, value=None):
        await appear(path, name)
        return value

    def plain(name, value=None):
        appear_blocking(path, name)
        return value

    return delayed(coroutine if request.param == "coroutine" else plain)


async def test_g1_a_call_returns_a_placeholder_at_once(executor: Executor):
    ran = []
    fn = delayed(ran.append)
    assert isinstance(fn(1), Delayed)
    assert isinstance((fn @ Cores(1))(1), Delayed)
    assert info(fn(1)).state == "lazy"
    assert not ran


async def test_g2_without_resources_it_runs_here_and_may_call_on(executor: Executor):
    @delayed
    async def here(depth):
        if depth:
            pid, cores = await here(depth - 1)
            assert pid == os.getpid()
            return pid, cores
        return os.getpid(), GVAR.res.cores

    @delayed
    async def mixed(x):
        return await (double @ Cores(1))(await (double @ Cores(1))(x)) + await plain_here(x)

    @delayed
    async def double(x):
        return 2 * x

    @delayed
    def plain_here(x):
        return os.getpid()

    assert await here(20) == (os.getpid(), ())
    assert await mixed(3) == 12 + os.getpid()


async def test_g3_a_job_holds_distinct_cores_that_no_other_shares(executor: Executor, stage: Stage, actor):
    stage.limit(executor.workers()[0].resources)
    jobs = [start((actor @ Cores(4))(name)) for name in ("a", "b")]
    a, b = await stage.wait_for("a", "b")
    assert sorted(a.cores + b.cores) == list(range(8))
    await stage.cue_all()
    await gather(jobs)


async def test_g4_awaiting_again_gives_the_same(executor: Executor):
    @delayed
    async def fresh(x):
        return [x]

    @delayed
    async def broken(x):
        raise LookupError(x)

    assert await (fresh @ Cores(4))(1) == [1]
    r_ = (fresh @ Cores(1))(2)
    assert await r_ is await r_
    b_ = (broken @ Cores(1))(3)
    errors = []
    for _ in range(2):
        with pytest.raises(LookupError) as caught:
            await b_
        errors.append(caught.value)
    assert errors[0] is errors[1]


async def test_g5_two_operands_run_at_the_same_time(executor: Executor, stage: Stage, actor):
    total_ = start((actor @ Cores(2))("two", 20) + (actor @ Cores(6))("six", 3))
    two, six = await stage.wait_for("two", "six")
    assert (len(two.cores), len(six.cores)) == (2, 6)
    await stage.cue_all()
    assert await total_ == 23


@pytest.mark.parametrize(
    "request_", [Cores(3), Memory("3Gi"), Resource("foo", 3), Cores(3) & Memory("3Gi")], ids=["c", "m", "foo", "cm"]
)
async def test_g6_g7_what_does_not_fit_waits_and_capacity_is_never_exceeded(executor, stage: Stage, actor, request_):
    stage.limit(executor.workers()[0].resources)
    jobs = {f"j{i}": start((actor @ request_)(f"j{i}", i)) for i in range(5)}
    for left in (3, 2, 1, 0):
        on = await stage.wait_for_count(2)
        assert len(on) == 2
        assert len(jobs) - len(stage.begun) == left
        assert [info(r_).state for name, r_ in jobs.items() if name not in stage.begun] == ["pending"] * left
        await stage.cue(min(on))
    await stage.cue_all()
    assert await gather(jobs.values()) == list(range(5))


async def test_g6_one_that_does_not_fit_holds_up_nobody(executor: Executor, stage: Stage, actor):
    first_ = start((actor @ Cores(5))("first"))
    await stage.wait_for("first")
    wide_ = start((actor @ Cores(4))("wide"))
    narrow_ = start((actor @ Cores(3))("narrow"))
    await stage.wait_for("first", "narrow")
    assert info(wide_).state == "pending"
    await stage.cue_all()
    await stage.wait_for("wide")
    await stage.cue_all()
    await gather(first_, wide_, narrow_)


async def test_g7_amounts_arrive_as_they_were_asked_for(executor: Executor):
    async def seen():
        res = GVAR.res
        return res.memory, res["foo"], res.N, res.c, len(res.gpus), str(res.request)

    memory, foo, n, c, gpus, text = await (delayed(seen) @ (Cores(2) & Memory("1Gi") & Resource("foo", 5)))()
    assert (memory, foo, n, c, gpus) == (2**30, 5, 2, 2, 0)
    assert text == "cores=2 foo=5 memory=1073741824"


async def test_g8_a_job_sees_its_ids_in_child_tasks_and_threads(executor: Executor):
    async def everywhere():
        seen = [GVAR.res.cores, await anyio.to_thread.run_sync(lambda: GVAR.res.cores)]

        async def child():
            await anyio.lowlevel.checkpoint()
            seen.append(GVAR.res.cores)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child)
        return seen

    seen = await (delayed(everywhere) @ Cores(3))()
    assert len(set(seen[0])) == 3
    assert seen == [seen[0]] * 3


async def test_g8_a_plain_job_sees_its_ids_in_its_threads(executor: Executor):
    def everywhere():
        seen = [GVAR.res.cores]
        thread = threading.Thread(target=lambda: seen.append(GVAR.res.cores))
        thread.start()
        thread.join()
        return seen

    seen = await (delayed(everywhere) @ Cores(3))()
    assert len(set(seen[0])) == 3
    assert seen == [seen[0]] * 2


async def test_g8_concurrent_jobs_see_different_ids_and_one_without_sees_none(executor: Executor, stage: Stage, actor):
    async def nothing():
        return GVAR.res.cores, bool(GVAR.res), GVAR.job

    jobs = [start((actor @ Cores(3))(name)) for name in "ab"]
    a, b = await stage.wait_for("a", "b")
    assert not set(a.cores) & set(b.cores)
    assert await delayed(nothing)() == ((), False, None)
    await until(lambda: all(info(r_).state == "running" for r_ in jobs))  # they may appear before their worker says so
    assert [info(r_).allocation.cores for r_ in jobs] == [a.cores, b.cores]
    await stage.cue_all()
    await gather(jobs)
    assert GVAR.res.cores == ()


async def test_g9_submit_starts_at_once_and_in_order(executor: Executor, stage: Stage, actor):
    jobs = [executor.submit(Cores(8), actor.function.callable, f"s{i}", i) for i in range(4)]
    for i in range(4):
        await stage.wait_for(f"s{i}")
        await stage.cue(f"s{i}")
    assert await gather(jobs) == [0, 1, 2, 3]
    assert stage.begun == ["s0", "s1", "s2", "s3"]


async def test_g10_one_worker_runs_many_coroutines_at_once(executor: Executor, stage: Stage):
    path = stage.path

    async def crowd(i):
        await appear(path, f"c{i}")
        return i

    jobs = [start((delayed(crowd) @ Memory("1Mi"))(i)) for i in range(100)]
    await stage.wait_for_count(100)
    await stage.cue_all()
    assert await gather(jobs) == list(range(100))


class Counter:
    def __init__(self, step):
        self.step = step

    async def later(self, x):
        return x + self.step

    def now(self, x):
        return x + self.step

    async def __call__(self, x):
        return x + self.step


async def test_g10_functions_of_every_make_travel(executor: Executor):
    base = 10

    async def closure(x):
        return x + base

    async def two(x, y):
        return x + y

    def nested(x):
        def inner(y):
            return y + base

        return inner(x)

    def recursive(n):
        return n + recursive(n - 1) if n else 0

    makes = [closure, nested, lambda x: x + base, partial(two, 10), partial(two, y=10)]
    makes += [Counter(10).later, Counter(10).now, Counter(10)]
    assert await gather((delayed(make) @ Cores(1))(1) for make in makes) == [11] * len(makes)
    assert await (delayed(recursive) @ Cores(1))(4) == 10


async def test_g11_sequential_and_parallel_mix(executor: Executor):
    @delayed
    async def step(x):
        return x + 1

    @delayed
    async def chain(x):
        for _ in range(5):
            x = await (step @ Cores(1))(x)
        return x

    @delayed
    async def fan(x):
        return sum(await gather(chain(x + i) for i in range(5)))

    assert await gather(fan(x) for x in range(5)) == [sum(x + i + 5 for i in range(5)) for x in range(5)]


async def test_g12_an_external_program_gets_its_jobs_cores(executor: Executor):
    code = "import os; print(*sorted(os.sched_getaffinity(0)))"

    def launch():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return GVAR.res.cores, tuple(map(int, done.stdout.split()))

    mine = os.sched_getaffinity(0)
    for cores in (1, 2):
        r_ = (delayed(launch) @ Cores(cores))()
        allocated, affinity = await r_
        assert affinity == tuple(core for core in allocated if core in mine)
        assert info(r_).receipt.affinity == affinity
        assert info(r_).allocation.cores == allocated


async def test_g13_nout_gather_ready_values_and_item_assignment(executor: Executor):
    @delayed(nout=3)
    async def three():
        return 1, 2, 3

    a_, b_, c_ = (three @ Cores(1))()
    assert await gather(c_, b_, a_, delayed_value(0), 7) == [3, 2, 1, 0, 7]
    list_ = (delayed(lambda: [1, 2, 3]) @ Cores(1))()
    before_ = list_[0] + 0
    list_[0] = a_ + 40
    assert await gather(list_, before_) == [[41, 2, 3], 1]


async def test_g13_numpy_functions_ufuncs_and_out(executor: Executor):
    a_ = (delayed(lambda: np.arange(6.0).reshape(2, 3)) @ Cores(1))()
    assert await np.mean(a_) == 2.5
    assert await a_.shape == (2, 3)
    np.add(a_, 1, out=a_)
    assert (await np.sum(a_ @ a_.T)) == float(
        (np.arange(1.0, 7).reshape(2, 3) @ np.arange(1.0, 7).reshape(2, 3).T).sum()
    )


async def test_placeholders_in_arguments_are_resolved_wherever_they_are(executor: Executor):
    one_, two_ = (delayed(lambda: 1) @ Cores(1))(), delayed(lambda: 2)()

    async def echo(*args, **kwargs):
        return args, kwargs

    r_ = (delayed(echo) @ Cores(1))(one_, [two_, (one_, 3)], key={"k": two_ + one_})
    assert await r_ == ((1, [2, (1, 3)]), {"key": {"k": 3}})


async def test_a_shared_node_runs_once(executor: Executor, stage: Stage, actor):
    shared_ = (actor @ Cores(1))("shared", 5)
    left_, right_ = shared_ + 1, (delayed(lambda x: x * 2) @ Cores(1))(shared_)
    total_ = start(left_ + right_ + shared_)
    await stage.wait_for("shared")
    await stage.cue_all()
    assert await total_ == 6 + 10 + 5
    assert stage.begun == ["shared"]


async def test_as_completed_gives_them_as_they_finish(executor: Executor, stage: Stage, actor):
    jobs = {name: (actor @ Cores(1))(name, name) for name in "abc"}
    arrived = []
    order = ["c", "a", "b"]
    for r_ in jobs.values():
        start(r_)
    await stage.wait_for(*order)
    await stage.cue("c")
    async for r_ in as_completed(jobs.values()):
        arrived.append(await r_)
        if len(arrived) < 3:
            await stage.cue(order[len(arrived)])
    assert arrived == order


async def test_arrays_of_8_mb_go_there_and_back_and_ours_stays_ours(executor: Executor):
    async def scribble(array):
        array[0] = -1.0
        return array

    def scribble_plainly(array):
        array[0] = -1.0
        return array

    for make in (scribble, scribble_plainly):
        mine = np.arange(1_000_000, dtype=np.float64)
        theirs = await (delayed(make) @ Cores(1))(mine)
        assert mine[0] == 0.0
        assert theirs[0] == -1.0
        assert np.array_equal(theirs[1:], mine[1:])
        theirs[1] = 5.0  # what came back is ours to change


async def test_large_and_many_payloads_cross(executor: Executor):
    async def back(thing):
        return thing

    large = bytes(range(256)) * 100_000
    assert await (delayed(back) @ Cores(1))(large) == large
    assert await (delayed(lambda thing: thing) @ Cores(1))({"text": large.decode("latin-1")}) == {
        "text": large.decode("latin-1")
    }
    many = [os.urandom(10_000) for _ in range(500)]
    assert await gather((delayed(back) @ Cores(1))(one) for one in many) == many


async def test_a_job_awaits_calls_without_resources(executor: Executor):
    async def outer(x):
        @delayed
        async def inner(y):
            return y + 1, GVAR.res.cores, os.getpid()

        value, cores, pid = await inner(x)
        return value, cores, pid == os.getpid(), GVAR.res.N

    assert await (delayed(outer) @ Cores(2))(1) == (2, (), True, 2)


async def test_g14_the_soft_limit_decides_where_a_job_may_start(anyio_backend, state, start_daemon):
    """Two workers with an end: the first has ten minutes left, the second an hour."""
    async with (
        Executor(listen="tcp://127.0.0.1:0") as executor,
        start_daemon(executor, "cores=1 walltime=0:10:00", "short"),
        start_daemon(executor, "cores=1 walltime=1:00:00", "long"),
    ):
        where = delayed(lambda: None)
        calls = []
        for time in (WallTime("0:05:00"), WallTime("2:00:00", soft="0:30:00"), WallTime("2:00:00", soft="0:05:00")):
            calls.append((where @ (Cores(1) & time))())
            await calls[-1]  # one by one: each finds both workers free
        assert [info(call).worker for call in calls] == ["short", "long", "short"]
