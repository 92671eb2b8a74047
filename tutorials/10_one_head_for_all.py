"""One head for all: several programs, and you at a terminal, use the same workers.

Until here the program was the head: it had the queue, and when it ended, its workers and jobs did, too. A *head daemon*
is a process that is only a head::

    grainlike head start --detach
    grainlike worker start --resources "cores=16"

Programs connect to it with `async with connect() as ex:`, and use it as they would an `Executor`. They need no
address: the head has written access files that only you can read, and `connect()`, workers and the commands below look
there. From another machine without your home directory, copy `client.json` and write `connect("client.json")`.

The program that uses least of the workers goes first, so one with two jobs does not wait behind one with ten thousand.
When a program ends, or dies, its jobs end too, unless they belong to a session, see tutorial 14. When the head is lost,
awaits of its jobs fail with `HeadLostError`.

The commands work with any head, also a program with `Executor(listen=...)`: `grainlike ls`, `jobs`,
`explain JOB`, `logs JOB`, `cancel JOB`, `head status`. With `--json` their output is for programs. `grainlike report`
counts how the jobs of all programs ended; `grainlike trace -o trace.json` draws them, if the head was started with
`--record`.

It prints::

    the first program sees 1 worker: n1
    its squares: [0, 1, 4, 9]
    what a terminal shows: 1 job, sleep, running on n1
    it was cancelled there
    the second program uses n1 as well: 49
    the head has stopped
"""

import json
import subprocess
import sys

import anyio

from grainlike import Cores, JobCancelledError, connect, delayed, gather, start


@delayed
def square(x: int) -> int:
    return x * x


@delayed(name="sleep")
async def sleep_long() -> None:
    await anyio.sleep(3600)


async def typed(*words: str) -> str:
    """Return what `grainlike WORDS...` prints in a terminal."""
    return (await anyio.run_process([sys.executable, "-m", "grainlike", *words])).stdout.decode()


async def first_program() -> None:
    async with connect() as ex:
        with anyio.fail_after(30):
            await ex.wait_for_workers(1)
        print("the first program sees 1 worker:", ex.workers()[0].name)
        print("its squares:", await gather((square @ Cores(1))(x) for x in range(4)))
        sleeps_ = start((sleep_long @ Cores(1))())
        while not (jobs := json.loads(await typed("jobs", "--json"))["jobs"]) or jobs[0]["state"] != "running":
            await anyio.sleep(0.05)
        print(f"what a terminal shows: {len(jobs)} job, {jobs[0]['name']}, running on {jobs[0]['worker']}")
        await typed("cancel", str(jobs[0]["job"]))
        try:
            await sleeps_
        except JobCancelledError:
            print("it was cancelled there")
        await second_program()


async def second_program() -> None:
    """In practice, another process."""
    async with connect() as ex:
        print(f"the second program uses {ex.workers()[0].name} as well:", await (square @ Cores(1))(7))


async def main() -> None:
    await typed("head", "start", "--detach", "--listen", "tcp://127.0.0.1:0")
    worker = [sys.executable, "-m", "grainlike", "worker", "start", "--name", "n1", "--resources", "cores=2"]
    with subprocess.Popen([*worker, "--log-level", "warning"]):
        try:
            await first_program()
        finally:
            await typed("head", "stop")  # and with it the worker
    print("the head has stopped")


if __name__ == "__main__":
    anyio.run(main)
