"""Workers: programs of their own that offer resources to yours.

So far one worker was embedded in the program. With `Executor(listen=...)` the program takes workers that connect to
it. Each is started with `grainlike worker start`, by hand, by a script, or, as here, by the program itself.

`listen="tcp://127.0.0.1:0"` takes any free port of this machine; `listen="unix:///path/to/socket"` a socket in a
directory that is yours alone (mode 700). Other machines cannot connect yet.

A worker proves that it belongs to you by a secret. The program writes it into an *access file* that only you can read,
under `~/.local/state/grainlike` (or `$XDG_STATE_HOME/grainlike`), and removes it at the end. A worker that is started
without `--head` takes the newest.

Workers may come and go while jobs run. When one is lost, what ran there is started again elsewhere, so let jobs be
safe to repeat. When the program closes its executor, the workers end by themselves.

It prints::

    two workers are here: ['big', 'small'] with [3, 1] cores
    where a job of 3 cores ran: big
    where jobs of one core ran: ['big', 'small']
    only one of them offers the data set: small
    a worker was stopped: ['big'] is left
    and still: 9
    the workers have ended with exit codes [0, 0]
    over a Unix socket: n1
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from grainlike import GVAR, Cores, Executor, Resource, delayed, gather


@delayed
def where(seconds: float = 0.0) -> str | None:
    time.sleep(seconds)
    return GVAR.instance


@delayed
def square(x: int) -> int:
    return x * x


def start_worker(head: str, name: str, resources: str) -> subprocess.Popen[bytes]:
    """What `grainlike worker start` does in a terminal. It runs in the foreground until its head closes."""
    command = [sys.executable, "-m", "grainlike", "worker", "start", "--log-level", "warning"]
    return subprocess.Popen([*command, "--head", head, "--name", name, "--resources", resources])


async def over_tcp() -> None:
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        big = start_worker(executor.address, "big", "cores=3")
        small = start_worker(executor.address, "small", "cores=1 dataset=1")
        with anyio.fail_after(30):
            await executor.wait_for_workers(2)
        workers = sorted(executor.workers(), key=lambda worker: worker.name)
        print(f"two workers are here: {[w.name for w in workers]} with {[w.resources.N for w in workers]} cores")

        print("where a job of 3 cores ran:", await (where @ Cores(3))())
        names = await gather((where @ Cores(1))(0.5) for _ in range(4))
        print("where jobs of one core ran:", sorted(set(names)))
        print("only one of them offers the data set:", await (where @ (Cores(1) & Resource("dataset", 1)))())

        small.terminate()
        await anyio.to_thread.run_sync(small.wait)
        while len(executor.workers()) > 1:  # the program hears of it a moment later
            await anyio.sleep(0.01)
        print(f"a worker was stopped: {[worker.name for worker in executor.workers()]} is left")
        print("and still:", await (square @ Cores(1))(3))
    print("the workers have ended with exit codes", [big.wait(), small.wait()])


async def over_a_unix_socket() -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:  # a temporary directory has mode 700
        async with Executor(listen=f"unix://{Path(folder, 'head.sock')}") as executor:
            stack.enter_context(start_worker(executor.address, "n1", "cores=1"))
            print("over a Unix socket:", await (where @ Cores(1))())


if __name__ == "__main__":
    anyio.run(over_tcp)
    anyio.run(over_a_unix_socket)
