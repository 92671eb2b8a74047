"""Time of a pass of the head's scheduler over a long queue: 100 000 jobs in 20 classes on 256 workers of 64 cores.

"Full" is the pass after one job ended while every worker is busy, the common case; "first" places jobs on all the empty
workers at once.
"""

from __future__ import annotations

import time
from statistics import median

from grainlike.resources import Cores, Memory, offer_of
from grainlike.scheduler import AssignJobs, FunctionDefined, HeadScheduler, JobsSubmitted, WorkerJoined, WorkerReported
from grainlike.wire import Code, Completed, LeaseStart

WORKERS = 256
CLASSES = 20
JOBS = 100_000


def measure() -> tuple[int, float, list[float]]:
    """How many jobs the first passes placed, in how many seconds; and the seconds of each pass after, sorted."""
    scheduler = HeadScheduler(closed=False)
    scheduler.handle(FunctionDefined(1), 0.0)
    each = JOBS // CLASSES
    for cls in range(CLASSES):
        jobs = list(range(1 + cls * each, 1 + (cls + 1) * each))
        scheduler.handle(JobsSubmitted(Cores(1 + cls) & Memory(f"{1 + cls}Gi"), jobs, [1] * each), 0.0)
    offer = offer_of(Cores(64) & Memory("512Gi"), own_cores=range(64))
    begun = time.perf_counter()
    running: list[tuple[int, int, int]] = []
    for worker in range(1, WORKERS + 1):
        for action in scheduler.handle(WorkerJoined(worker, f"n{worker}", offer), 0.0):
            if isinstance(action, AssignJobs):
                running += [(action.worker, action.cls, job) for job in action.jobs]
    placed, first = len(running), time.perf_counter() - begun
    seconds = []
    for number in range(2000):
        worker, cls, job = running[number]
        start = LeaseStart(job, cls, "", [job], [1], 0.0)
        done = Completed(job, [job], [1], [int(Code.SUCCEEDED)], [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
        event = WorkerReported(worker, [start], [done], [job])
        begun = time.perf_counter()
        actions = scheduler.handle(event, 1.0 + number * 1e-3)
        seconds.append(time.perf_counter() - begun)
        for action in actions:
            if isinstance(action, AssignJobs):
                running += [(action.worker, action.cls, job) for job in action.jobs]
    return placed, first, sorted(seconds)


def main() -> None:
    placed, first, seconds = measure()
    print(f"{JOBS} jobs in {CLASSES} classes on {WORKERS} workers")
    print(f"first: {placed} jobs placed, {first * 1e3:.0f} ms, {first / placed * 1e6:.1f} us each")
    print(f"full: a pass takes {median(seconds) * 1e3:.3f} ms (p99 {seconds[1980] * 1e3:.3f} ms)")
