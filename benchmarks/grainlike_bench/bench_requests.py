"""Jobs with a request each beside jobs that all ask for the same: what the head's scheduler takes, and the whole.

Scheduler: a head and four workers of 16 cores, driven without a network; each job ends as soon as it has started, so
figures are the scheduler's alone. "tight" are requests of which few fit beside each other, so that each end lets one of
many start; "spread" are of all sizes, from 0.1 to 20 GiB; "grow" may grow, and "walltime" differ in their time alone.
Whole: an executor with a worker of two cores in the same process, no-op coroutines; "disturbed" is how long a call of
another function takes meanwhile that asks for nothing but a little memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from grainlike import Cores, Executor, Memory, Request, WallTime, delayed, gather
from grainlike.resources import offer_of
from grainlike.scheduler import (
    AssignJobs,
    FunctionDefined,
    HeadAction,
    HeadScheduler,
    JobsSubmitted,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerReported,
)
from grainlike.wire import Code, Completed, LeaseStart

SIZES = (1_500, 10_000, 100_000)
WORKERS = 4
GIB = 1 << 30

Ask = Callable[[int], Request]


def same(_: int) -> Request:
    return Cores(1) & Memory(GIB)


def distinct(i: int) -> Request:
    return Cores(1) & Memory(GIB + i)


def tight(i: int) -> Request:
    return Cores(1) & Memory(GIB + (i * 7_919 % 100_003) * 600_000)


def spread(i: int) -> Request:
    return Cores(1) & Memory((1 << 20) * (100 + i * 7_919 % 20_000))


def grow(i: int) -> Request:
    return Cores(1) & Memory(GIB + i, grow=2)


def walltime(i: int) -> Request:
    return Cores(1) & WallTime(60 + i)


ASKS: tuple[Ask, ...] = (same, distinct, tight, spread, grow, walltime)


def scheduler_seconds(jobs: int, ask: Ask) -> tuple[float, float]:
    """CPU seconds in all, and in the longest single event, from when the jobs are submitted until all have ended."""
    head = HeadScheduler(closed=False)
    head.handle(FunctionDefined(1), 0.0)
    offer = offer_of(Cores(16) & Memory("64Gi"), own_cores=range(16))
    for worker in range(1, WORKERS + 1):
        head.handle(WorkerJoined(worker, f"n{worker}", offer), 0.0)
    requests: dict[Request, list[int]] = {}
    for job in range(1, jobs + 1):
        requests.setdefault(ask(job), []).append(job)
    running: deque[tuple[int, int, int]] = deque()
    longest = 0.0

    def tell(event: object, now: float) -> None:
        nonlocal longest
        woken = True
        while woken:
            began = time.thread_time()
            actions: list[HeadAction] = head.handle(event, now)  # type: ignore[arg-type]
            longest = max(longest, time.thread_time() - began)
            for action in actions:
                if isinstance(action, AssignJobs):
                    running.extend((action.worker, action.cls, job) for job in action.jobs)
            woken = any(isinstance(action, WakeAt) and action.at <= now for action in actions)
            event = Ticked()

    began = time.thread_time()
    for request, numbers in requests.items():
        tell(JobsSubmitted(request, numbers, [1] * len(numbers)), 0.0)
    step = 0
    while running:
        step += 1
        worker, cls, job = running.popleft()
        start = LeaseStart(job, cls, "", [job], [1], 0.0)
        done = Completed(job, [job], [1], [int(Code.SUCCEEDED)], [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
        tell(WorkerReported(worker, [start], [done], [job]), 1e-3 * step)
    assert not head.jobs
    return time.thread_time() - began, longest


@delayed
async def nothing(i: int) -> int:
    return i


@delayed
async def other(i: int) -> int:
    return i


async def whole(jobs: int, ask: Ask) -> tuple[float, list[float]]:
    """Seconds for all jobs, and those that calls of another function took meanwhile, sorted."""
    async with Executor(local=Cores(2) & Memory("64Gi")):
        await gather([(nothing @ same(i))(i) for i in range(200)])
        trips: list[float] = []

        async def beside() -> None:
            while True:
                began = time.perf_counter()
                await (other @ Memory(1))(1)
                trips.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)

        calls = [(nothing @ ask(i))(i) for i in range(jobs)]
        disturbed = asyncio.create_task(beside())
        began = time.perf_counter()
        await gather(calls)
        seconds = time.perf_counter() - began
        disturbed.cancel()
        return seconds, sorted(trips)


def main() -> None:
    print("scheduler: CPU seconds in all, times those of one request (the longest event, ms)")
    for jobs in SIZES:
        one = 0.0
        for ask in ASKS:
            seconds, longest = scheduler_seconds(jobs, ask)
            one = one or seconds
            print(f"{jobs:8} {ask.__name__:9} {seconds:7.2f} {seconds / one:6.1f} ({longest * 1e3:5.1f})")
    print("whole: seconds, and CPU seconds, in all; ms that other calls take meanwhile, p50 and p99")
    for jobs in SIZES:
        for ask in ASKS:
            began = time.process_time()
            seconds, trips = asyncio.run(whole(jobs, ask))
            cpu = time.process_time() - began
            p50, p99 = (trips[int(part * len(trips))] * 1e3 if trips else 0.0 for part in (0.5, 0.99))
            print(f"{jobs:8} {ask.__name__:9} {seconds:7.2f} {cpu:7.2f} ({p50:6.1f} {p99:6.1f} of {len(trips)})")
