"""A user's program: it wants jobs of all kinds, and writes down what it is told of each. See `town`.

::

    python client_program.py HISTORY NAME ACCESS JOBS AT_ONCE SEED
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from histories import OVER, Record, note

from grainlike import (
    GVAR,
    Cores,
    JobCancelledError,
    JobTimeoutError,
    Limit,
    Nodes,
    Rate,
    Retry,
    WorkerLostError,
    cancel,
    connect,
    delayed,
    gather,
    start,
)

OFTEN = Retry(0, losses=1000)
"""Workers may die under a job as often as they like."""


def mark(history: str, job: str, what: str, how: str = "") -> None:
    """Write down that this attempt begins, or ends."""
    here = GVAR.job
    workers = tuple(node.name for node in here.nodes) or (GVAR.instance,)
    note(history, Record(what, job, here.attempt, workers, f"p{os.getpid()}", how=how))


@delayed(retries=OFTEN)
def plain(history: str, job: str, seconds: float) -> str:
    mark(history, job, "begin")
    time.sleep(seconds)
    mark(history, job, "end", "done")
    return job


@delayed(retries=OFTEN)
async def coroutine(history: str, job: str, seconds: float) -> str:
    mark(history, job, "begin")
    await asyncio.sleep(seconds)
    mark(history, job, "end", "done")
    return job


@delayed(retries=Retry(2, losses=1000, backoff=0.05))
def moody(history: str, job: str, file: str) -> str:
    """Fails the first two times that it gets to its end."""
    mark(history, job, "begin")
    with Path(file).open("ab") as tries:
        tries.write(b".")
    if Path(file).stat().st_size < 3:
        mark(history, job, "end", "raised")
        raise OSError("not in the mood")
    mark(history, job, "end", "done")
    return job


@delayed(retries=OFTEN)
async def parent(history: str, job: str, seconds: float) -> str:
    mark(history, job, "begin")
    names = [f"{job}.{GVAR.job.attempt}.{part}" for part in range(3)]
    assert await gather((plain @ Cores(1))(history, name, seconds) for name in names) == names
    mark(history, job, "end", "done")
    return job


@delayed(retries=OFTEN)
def large(history: str, job: str, data: bytes, numbers: np.ndarray) -> tuple[str, bytes, np.ndarray]:
    """The numbers travel beside the messages, both ways."""
    mark(history, job, "begin")
    numbers += 1
    mark(history, job, "end", "done")
    return job, data, numbers


@delayed(retries=OFTEN)
def second(history: str, job: str, before: str) -> str:
    mark(history, job, "begin")
    assert before == f"{job}.first"
    mark(history, job, "end", "done")
    return job


@delayed(retries=OFTEN)
def talks(history: str, job: str, lines: int) -> str:
    mark(history, job, "begin")
    for number in range(lines):
        print(f"{job} {number}", flush=True)
        time.sleep(0.02)
    mark(history, job, "end", "done")
    return job


@delayed(timeout=0.2, retries=OFTEN)
def endless(history: str, job: str) -> None:
    mark(history, job, "begin")
    time.sleep(1000)


class Client:
    """Wants jobs, so many at a time."""

    def __init__(self, executor: Any, history: str, name: str, dice: random.Random) -> None:
        self.executor, self.history, self.name, self.dice = executor, history, name, dice

    async def one(self, number: int) -> None:
        job = f"{self.name}/{number}"
        kind = self.dice.choice([*KINDS, *QUICK * 3])
        note(self.history, Record("wanted", job, who=self.name))
        try:
            right = await kind(self, job)
        except WorkerLostError:
            how = "lost"
        else:
            how = "right" if right else "wrong"
        note(self.history, Record("outcome", job, who=self.name, how=how))

    async def plain(self, job: str) -> bool:
        return await (plain @ Cores(1))(self.history, job, self.dice.choice([0.0, 0.02, 0.2])) == job

    async def wide(self, job: str) -> bool:
        return await (plain @ Cores(2))(self.history, job, 0.02) == job

    async def coroutine(self, job: str) -> bool:
        return await (coroutine @ Cores(1))(self.history, job, self.dice.choice([0.0, 0.1])) == job

    async def limited(self, job: str) -> bool:
        return await (plain @ (Cores(1) & Limit("one", 1)))(self.history, job, 0.02) == job

    async def paced(self, job: str) -> bool:
        return await (coroutine @ (Cores(1) & Rate("paced", 20)))(self.history, job, 0.0) == job

    async def moody(self, job: str) -> bool:
        return await (moody @ Cores(1))(self.history, job, f"{self.history}.{job.replace('/', '-')}") == job

    async def parent(self, job: str) -> bool:
        return await (parent @ Cores(1))(self.history, job, 0.02) == job

    async def gang(self, job: str) -> bool:
        return await (plain @ Nodes(2, each=Cores(1)))(self.history, job, 0.05) == job

    async def large(self, job: str) -> bool:
        data = self.dice.randbytes(self.dice.choice([100_000, 2_000_000]))
        numbers = np.arange(len(data) // 2)  # up to 8 MB
        name, back, counted = await (large @ Cores(1))(self.history, job, data, numbers)
        return bool((name, back) == (job, data) and (counted == np.arange(1, len(numbers) + 1)).all())

    async def two(self, job: str) -> bool:
        first = (plain @ Cores(1))(self.history, f"{job}.first", 0.0)
        return await (second @ Cores(1))(self.history, job, first) == job

    async def talks(self, job: str) -> bool:
        lines = 10
        r_ = start((talks @ Cores(1))(self.history, job, lines))
        heard = [str(line) async for line in self.executor.logs(r_) if line.stream == "stdout" and line.attempt == 1]
        value = await r_
        return value == job and heard == [f"{job} {number}" for number in range(len(heard))]

    async def timed(self, job: str) -> bool:
        with contextlib.suppress(JobTimeoutError):
            await (endless @ Cores(1))(self.history, f"{job}.timed")
            return False
        return await self.plain(job)

    async def stopped(self, job: str) -> bool:
        r_ = start((coroutine @ Cores(1))(self.history, f"{job}.stopped", 100.0))
        await asyncio.sleep(self.dice.random() / 5)
        cancel(r_)
        with contextlib.suppress(JobCancelledError):
            await r_
            return False
        return await self.plain(job)


Kind = Callable[[Client, str], Awaitable[bool]]
QUICK: list[Kind] = [Client.plain, Client.coroutine]
KINDS: list[Kind] = [
    *(Client.plain, Client.wide, Client.coroutine, Client.limited, Client.paced, Client.moody, Client.parent),
    *(Client.gang, Client.large, Client.two, Client.talks, Client.timed, Client.stopped),
]


async def opened(access: str, stack: contextlib.AsyncExitStack) -> Any:
    """Connect, however often that takes: the head may be away just now."""
    while True:
        try:
            return await stack.enter_async_context(connect(access))
        except ConnectionError:
            await asyncio.sleep(0.2)  # as a user's program would


async def main(history: str, name: str, access: str, jobs: int, at_once: int, seed: int) -> None:
    """Want so many jobs, and more while faults fall; end when all is told."""
    over = Path(history).with_name(OVER)
    todo = asyncio.Semaphore(at_once)
    async with contextlib.AsyncExitStack() as stack:
        executor = await opened(access, stack)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        client = Client(executor, history, name, random.Random(seed))

        async def run(number: int) -> None:
            try:
                await client.one(number)
            finally:
                todo.release()

        for number in itertools.count():
            await todo.acquire()
            if number >= jobs and over.exists():
                break
            tasks.create_task(run(number))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], *map(int, sys.argv[4:])))
