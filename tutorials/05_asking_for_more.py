"""Asking for more: choices, memory that grows, limits, rates, times, and why a job waits.

A request may say more than amounts. All of these go together with `&`, and all can be written as text:

- `GPUs(1) | Cores(2)` is a choice. The job takes the first that can start now, and sees in `GVAR.res` which one it was.
- `Memory("1G", grow=2, max="4G")` starts with 1 GB. If the job raises `MemoryError` (or a class of yours that derives
  from it), it runs again with twice as much, up to the maximum. A job may notice by itself, as NumPy does when it
  cannot have an array; on Linux one in a process of its own that takes more than it has is ended, and tried so, too.
- `Token("big")` asks for a worker that carries this tag.
- `Limit("db", 2)` lets two jobs that name it run at once, wherever they run.
- `Rate("api", 10)` launches ten jobs that name it in a second: one every 0.1 s.
- `WallTime("1:30:00")` is how long a job may run. A worker that has less time left does not get it, and a job that runs
  longer is ended. The scheduler also uses it to see which short jobs can run in front of a wide one.
- `Nodes(4, each=Cores(32))` is a job on several workers at once: [the fourth tutorial](04_workers.py) has one.

`await executor.explain(r_)` says where a job stands and what it waits for. It asks the scheduler that decides, so what
it says is what holds. Its answer has fields for programs (`.reason`, `.short`, `.holders`, ...), and reads as a
sentence.

It prints::

    first choice, second choice: [((), (0,)), ((0, 1), ())]
    enough memory: 4000000000 bytes, in attempt 3
    not even the most is enough: 4000000000 bytes are not 16 GB
    a worker with the tag: local
    nobody has that tag: no worker has token=small
    4 naps of 0.2 s, two at a time, took 0.4 s or more: True
    5 calls at 10 a second took 0.4 s or more: True
    it took too long: nap ran past its walltime of 0.3 s
    several nodes: it needs 2 workers that can give cores=1; there is 1
    as text: cores=2 limit:db=1 memory=4000000000:grow=2 walltime=1:30:00 | gpus=1
    nobody asked for it: It has not been awaited or started.
    it runs: Job 1 runs on local, attempt 1.
    no room: Job 2 waits for room: nearest is local, short of cores (asked 2, free 1 of 2), held by jobs 1.
    less would do: cores=1
    behind another: Job 3 waits for its turn: 1 job that asks for the same goes first.
    a limit: Job 5 waits for limit:db: as many run as it allows.
    needs others: It waits for 2 inputs: nap, nap.
"""

import time

import anyio

from grainlike import (
    GVAR,
    Cores,
    Delayed,
    Executor,
    GPUs,
    JobTimeoutError,
    Limit,
    Memory,
    Nodes,
    Rate,
    Token,
    UnsatisfiableError,
    WallTime,
    cancel,
    delayed,
    gather,
    info,
    parse,
    run,
    start,
)


@delayed
def slots() -> tuple[tuple[int, ...], tuple[int, ...]]:
    return GVAR.res.cores, GVAR.res.gpus


@delayed
def needs(gigabytes: int) -> int:
    """A job that sees for itself whether it has enough."""
    if GVAR.res.memory < gigabytes * 10**9:
        raise MemoryError(f"{GVAR.res.memory} bytes are not {gigabytes} GB")
    return GVAR.res.memory


@delayed
def where() -> str | None:
    return GVAR.instance


@delayed
async def nap(seconds: float) -> float:
    await anyio.sleep(seconds)
    return seconds


@delayed
async def longest(naps: list[float]) -> float:
    return max(naps)


async def choices() -> None:
    # There is one device. The first job takes it, and the second takes what is left of the choice.
    either = slots @ (GPUs(1) | Cores(2))
    print("first choice, second choice:", await gather(either(), either()))


async def growth() -> None:
    enough_ = (needs @ Memory("1G", grow=2, max="4G"))(3)
    print("enough memory:", await enough_, "bytes, in attempt", info(enough_).attempt)
    try:
        await (needs @ Memory("1G", grow=2, max="4G"))(16)
    except MemoryError as error:
        print("not even the most is enough:", error)


async def tags() -> None:
    print("a worker with the tag:", await (where @ (Cores(1) & Token("big")))())
    try:
        await (where @ (Cores(1) & Token("small")))()
    except UnsatisfiableError as error:
        print("nobody has that tag:", str(error).partition(": ")[2].partition(";")[0])


async def limits_and_rates() -> None:
    # Four cores are free, but only two jobs may use the data base at once.
    began = time.monotonic()
    await gather((nap @ (Cores(1) & Limit("db", 2)))(0.2) for _ in range(4))
    print("4 naps of 0.2 s, two at a time, took 0.4 s or more:", time.monotonic() - began >= 0.4)

    # A rate spaces launches evenly: the fifth call starts 0.4 s after the first.
    began = time.monotonic()
    await gather((nap @ (Cores(1) & Rate("api", 10)))(0) for _ in range(5))
    print("5 calls at 10 a second took 0.4 s or more:", time.monotonic() - began >= 0.4)


async def times() -> None:
    try:
        await (nap @ (Cores(1) & WallTime("0.3")))(60)
    except JobTimeoutError as error:
        print("it took too long:", error)


async def gangs() -> None:
    try:
        await (where @ Nodes(2, each=Cores(1)))()
    except UnsatisfiableError as error:
        print("several nodes:", str(error).split(": ")[-1])


async def ask() -> None:
    await choices()
    await growth()
    await tags()
    await limits_and_rates()
    await times()
    await gangs()


def text() -> None:
    """Every request has a text, which `parse` reads back; so it may come from a file or a command line."""
    request = Cores(2) & Memory("4G", grow=2) & WallTime("1:30:00") & Limit("db", 1) | GPUs(1)
    print("as text:", request)
    assert parse(str(request)) == request


async def running(*placeholders: Delayed[float]) -> None:
    while any(info(r_).state != "running" for r_ in placeholders):
        await anyio.sleep(0.01)


async def why() -> None:
    """Why does it not run? Each of these jobs waits for something else."""
    async with Executor(local=Cores([0, 1])) as executor:
        lazy_ = (nap @ Cores(1))(60)
        print("nobody asked for it:", await executor.explain(lazy_))
        cancel(lazy_)  # else a warning says that it was never awaited

        first_ = start((nap @ (Cores(1) & Limit("db", 1)))(60))
        await running(first_)
        print("it runs:", await executor.explain(first_))

        wide_, wide_too_ = start((nap @ Cores(2))(60)), start((nap @ Cores(2))(60))
        said = await executor.explain(wide_)
        print("no room:", str(said).partition(" It would")[0])
        print("less would do:", said.would_start_with)
        print("behind another:", await executor.explain(wide_too_))
        cancel(wide_)
        cancel(wide_too_)

        others_ = start((nap @ Cores(1))(60)), start((nap @ (Cores(1) & Limit("db", 1)))(60))
        print("a limit:", await executor.explain(others_[1]))
        print("needs others:", await executor.explain(start(longest(list(others_)))))


if __name__ == "__main__":
    run(ask, local=Cores(4) & GPUs(1) & Memory("16G") & Token("big"))
    text()
    run(why, local=None)
