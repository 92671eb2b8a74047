"""Resources: what a job asks for, what it gets, and how to check that it holds.

A *request* names amounts: `Cores(2) & Memory("1Gi")`. An *allocation* is what a job was given: the same amounts, with
the ids of its cores and devices. A worker gives each id to one running job at a time, so two jobs never share a core.

Inside a job `GVAR.res` is its allocation. A plain function runs in a process that is pinned to exactly these cores
(on Linux), and libraries that bring threads of their own (OpenMP, BLAS) are held to as many threads. After the job, the
*receipt* in `info(r_)` tells what really held: it was read back from the operating system in the job's process.

Amounts are exact, with the units that Kubernetes uses. You may invent resources: a worker that offers
`Resource("licence", 1)` runs one job at a time that asks for it.

A worker may offer cores that the machine does not have. They are *logical*: given out and shown like others, but
nothing is pinned to them. So a laptop can rehearse what a job script will do on a node with 64 cores.

It prints::

    as text: cores=2 memory=1073741824
    it fits into 4 cores and 8Gi: True
    the sum of two: cores=4 memory=2147483648
    a mistake is an error where it is written: cores=0: an amount must be greater than zero
    inside: 2 cores, pinned to them: True, OpenMP threads: 2, memory: 1073741824
    at the same time: 4 different cores in 2 jobs
    without resources: ()
    receipt: affinity as allocated: True
    usage: at least 0.2 s of CPU time: True
    licences in use at once: 1
    on a bigger node: 64 cores, of which ... are logical
    two jobs beside each other: with 60 and 4 cores
    too much: cores=65 can never be given: too few cores (asked 65, at most 64); nearest is local, short of cores
"""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from grainlike import (
    GVAR,
    Cores,
    Executor,
    Memory,
    Node,
    Resource,
    UnsatisfiableError,
    delayed,
    gather,
    info,
    parse,
    run,
)


@delayed
def look() -> str:
    pinned = os.sched_getaffinity(0) == set(GVAR.res.cores)
    return (
        f"{GVAR.res.N} cores, pinned to them: {pinned}, OpenMP threads: {os.environ['OMP_NUM_THREADS']}, "
        f"memory: {GVAR.res.memory}"
    )


@delayed
async def own_cores() -> tuple[int, ...]:
    """A coroutine as a job shares an event loop with others. It has cores of its own too, but is not pinned."""
    await anyio.sleep(0.1)
    return GVAR.res.cores


@delayed
def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@delayed
def use_licence(folder: str) -> int:
    """How many jobs hold the licence while this one does."""
    mark = Path(folder, str(GVAR.job.id if GVAR.job else 0))
    mark.touch()
    time.sleep(0.1)
    count = len(list(Path(folder).iterdir()))
    mark.unlink()
    return count


def requests() -> None:
    """Requests are values: they can be compared, added, written as text and read back."""
    request = Cores(2) & Memory("1Gi")
    print("as text:", request)
    assert parse(str(request)) == request
    print("it fits into 4 cores and 8Gi:", request <= Node(4, "8Gi"))
    print("the sum of two:", request + request)
    try:
        Cores(0)
    except ValueError as error:  # a ResourceSpecError
        print("a mistake is an error where it is written:", error)


async def on_this_machine() -> None:
    """Jobs that look at themselves."""
    print("inside:", await (look @ (Cores(2) & Memory("1Gi")))())

    first, second = await gather((own_cores @ Cores(2))(), (own_cores @ Cores(2))())
    print("at the same time:", len({*first, *second}), "different cores in 2 jobs")

    print("without resources:", await own_cores())

    spin_ = (spin @ Cores(1))(0.2)
    await spin_
    told = info(spin_)
    print("receipt: affinity as allocated:", told.receipt.affinity == told.allocation.cores)
    print("usage: at least 0.2 s of CPU time:", told.usage.cpu_s >= 0.2)

    with TemporaryDirectory() as folder:
        licensed = use_licence @ (Cores(1) & Resource("licence", 1))
        print("licences in use at once:", max(await gather(licensed(folder) for _ in range(3))))


async def on_a_bigger_node() -> None:
    """The same program, rehearsing a node that is not here."""
    async with Executor(local=Node(64, "256Gi")) as executor:
        (worker,) = executor.workers()
        print(f"on a bigger node: {worker.resources.N} cores, of which {len(worker.logical)} are logical")
        wide, narrow = await gather((own_cores @ Cores(60))(), (own_cores @ Cores(4))())
        print(f"two jobs beside each other: with {len(wide)} and {len(narrow)} cores")
        try:
            await (own_cores @ Cores(65))()
        except UnsatisfiableError as error:
            print("too much:", error)


if __name__ == "__main__":
    requests()
    run(on_this_machine, local=Cores(4) & Memory("4Gi") & Resource("licence", 1))
    run(on_a_bigger_node, local=None)
