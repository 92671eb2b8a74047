"""Jobs of every kind at once, cancelled and killed at random: afterwards each has one answer, and all is free."""

import asyncio
import itertools
import random
from collections import Counter
from contextlib import suppress

import psutil
import pytest
from limits import LIMIT_S
from storm_calls import (
    array,
    coroutine,
    coroutine_forever,
    crashing,
    failing,
    failing_twice,
    nested,
    plain,
    plain_forever,
)
from waiting import until_called, until_ended

from grainlike import (
    Cores,
    Executor,
    GPUs,
    JobCancelledError,
    JobTimeoutError,
    Limit,
    Memory,
    Rate,
    Resource,
    Token,
    WallTime,
    WorkerLostError,
    cancel,
    info,
    parse,
    start,
)
from grainlike.scheduler import HeadScheduler
from grainlike.scheduler.node import _runners

pytestmark = pytest.mark.asyncio

OFFER = "cores=4 gpus=2 memory=4Gi foo=2 token=big"
JOBS = 400
AT_ONCE = 60


def draw_request(dice):
    request = dice.choice(
        [
            *(Cores(1), Cores(1), Cores(2), Cores(4), GPUs(1), GPUs(0.25) & Cores(1), Memory("1Gi")),
            *(Cores(2, pack="spread"), Cores(1) & Token("big"), Resource("foo", 1), GPUs(2) | Cores(1)),
            *(Memory("1Gi", grow=2, max="4Gi"), Cores(3) | GPUs(0.5) & Memory("500M")),
        ]
    )
    if dice.random() < 0.3:
        request &= Limit(dice.choice("ab"), dice.choice([1, 2]))
    if dice.random() < 0.2:
        request &= Rate("paced", 200)
    if dice.random() < 0.2:
        request &= WallTime(60)
    return request


def draw_job(dice, value):
    """A placeholder, and what it may give if nobody disturbs it: a value, or an error's type."""
    request = draw_request(dice)
    seconds = dice.choice([0, 0, 0, 0.002, 0.02])
    kind = dice.choices(
        ["plain", "coroutine", "failing", "failing twice", "crash", "forever", "array", "nested", "chain"],
        [30, 30, 5, 5, 0.5, 2, 3, 5, 10],
    )[0]
    if kind == "plain":
        return (plain @ request)(value, seconds), value
    if kind == "coroutine":
        return (coroutine @ request)(value, seconds), value
    if kind == "failing":
        return (failing @ request)(value), ValueError
    if kind == "failing twice":
        return (failing_twice @ request)(value), ValueError
    if kind == "crash":
        return (crashing @ request)(), WorkerLostError
    if kind == "forever":
        return (dice.choice([plain_forever, coroutine_forever]) @ request)(), JobTimeoutError
    if kind == "array":
        size = dice.choice([1000, 300_000, 3_000_000])
        return (array @ request)(value, size), (value, bytes(size))
    if kind == "nested":
        return nested(value, Cores(1)), value
    r_ = (plain @ request)(value, seconds)
    return (coroutine @ draw_request(dice))(r_, 0), value


async def storm(dice, kill):
    """Keep `AT_ONCE` jobs in flight until there were `JOBS`; return, of each, what it should and what it did give."""
    room = asyncio.Semaphore(AT_ONCE)
    answers, tasks, cancelled = {}, {}, set()

    async def answer(number, r_):
        try:
            outcome = await r_
        except Exception as error:  # noqa: BLE001 - it is looked at below
            outcome = error
        assert number not in answers
        assert info(r_).state in ("succeeded", "failed", "cancelled")
        answers[number] = outcome
        room.release()

    expected = {}
    for number in range(JOBS):
        await room.acquire()
        r_, expected[number] = draw_job(dice, number)
        start(r_)
        tasks[number] = asyncio.create_task(answer(number, r_)), r_
        if dice.random() < 0.1:
            victim = dice.choice(list(tasks))
            cancelled.add(victim)
            cancel(tasks[victim][1])
        if number % (JOBS // 5) == JOBS // 10:
            await kill()
        for _ in range(dice.choice([1, 1, 10])):
            await asyncio.sleep(0)
    await asyncio.gather(*(task for task, _ in tasks.values()))
    return [(expected[number], answers[number], number in cancelled) for number in range(JOBS)]


def judge(outcomes):
    """Everybody has the one answer that is right, or was cancelled, or died too often; most were not disturbed."""
    counts = Counter()
    for expected, outcome, was_cancelled in outcomes:
        if was_cancelled and isinstance(outcome, JobCancelledError):
            counts["cancelled"] += 1
        elif isinstance(outcome, WorkerLostError):
            counts["lost"] += 1
        elif isinstance(expected, type):
            assert isinstance(outcome, expected), outcome
            counts["failed"] += 1
        else:
            assert outcome == expected
            counts["succeeded"] += 1
    assert counts["lost"] < JOBS / 20, counts
    assert counts["succeeded"] > JOBS / 2, counts
    assert counts["cancelled"], counts


async def assert_all_is_free(executor):
    """No job, no slot and no limit is held: by the head's records, and by what the nodes still give."""
    scheduler = executor._service.head.state.scheduler
    busy = lambda: scheduler.jobs or any(worker.leases for worker in scheduler.workers.values())  # noqa: E731
    await until_called(HeadScheduler, "handle", lambda: not busy())
    scheduler.check()
    for worker in scheduler.workers.values():
        assert worker.free == worker.capacity
        assert not worker.held
        assert not any(worker.using.values())
    assert not any(scheduler._planner.start_limits.running(name) for name in "ab")
    assert not any(scheduler._planner.shares.used(client) for client in (0, 1))
    everything = parse(OFFER)
    assert await (plain @ (everything & Limit("a", 1) & Limit("b", 1)))(7, 0) == 7
    assert await (coroutine @ (everything & Rate("paced", 200)))(7, 0) == 7


def kill_a_runner(dice, parent):
    runners = [child for child in psutil.Process(parent).children() if child.is_running()]
    if runners:
        with suppress(psutil.NoSuchProcess):  # it may have ended by itself
            dice.choice(runners).kill()


@pytest.mark.parametrize("seed", [1])
async def test_a_storm_over_an_embedded_worker(seed, monkeypatch):
    monkeypatch.setattr(_runners, "GRACE_S", 0.5)
    dice = random.Random(seed)
    itself = psutil.Process()
    descriptors = itself.num_fds()

    async def kill():
        kill_a_runner(dice, itself.pid)

    async with asyncio.timeout(LIMIT_S):
        async with Executor(local=parse(OFFER)) as executor:
            judge(await storm(dice, kill))
            await assert_all_is_free(executor)
    assert not itself.children(recursive=True)
    assert itself.num_fds() == descriptors


@pytest.mark.parametrize("seed", [2])
async def test_a_storm_over_two_daemons_one_of_which_dies(seed, start_worker):
    dice = random.Random(seed)
    names = itertools.count(1)
    first = "from grainlike.scheduler.node import _runners; _runners.GRACE_S = 0.5"
    workers = []

    def join(executor):
        workers.append(start_worker(executor.address, name=f"n{next(names)}", resources=OFFER, first=first))

    async with asyncio.timeout(LIMIT_S):
        async with Executor(listen="tcp://127.0.0.1:0") as executor:

            async def kill():
                kill_a_runner(dice, workers[-1].pid)
                if len(workers) < 3:
                    tree = workers[0].tree()
                    workers[0].process.kill()
                    join(executor)
                    await until_ended(*(process.pid for process in tree))

            join(executor)
            join(executor)
            await executor.wait_for_workers(2)
            judge(await storm(dice, kill))
            await assert_all_is_free(executor)
        for worker in workers[1:]:
            assert (await worker.exit())[0] == 0
