"""Workers: programs of their own that offer resources to yours.

So far one worker was embedded in the program. With `Executor(listen=...)` the program takes workers that connect to
it. Each is started with `grainlike worker start`, by hand, by a script, or, as here, by the program itself.

`listen="tcp://127.0.0.1:0"` takes any free port of this machine; `listen="unix:///path/to/socket"` a socket in a
directory that is yours alone (mode 700); `listen="tcp://0.0.0.0:0"` takes workers from other machines too.

A worker proves that it belongs to you by a certificate. The program writes it into an *access file* that only you can
read, under `~/.local/state/grainlike` (or `$XDG_STATE_HOME/grainlike`), and removes it at the end. A worker that is
started without `--head` takes the newest. Elsewhere, copy `worker.json` there and say `--head worker.json`.

Workers may come and go while jobs run. When one is lost, what ran there is started again elsewhere, so let jobs be
safe to repeat. When the program closes its executor, the workers end by themselves.

A job may have slots on several workers at the same time: `Nodes(2, each=Cores(8))` gets eight cores on each of two
workers, or waits until it can. It runs on one of them, in a process of its own; the other keeps its cores free for
what the job starts there. `GVAR.job.nodes` tells the name, the host and the slots of each. A program that the job
starts finds the path of a host file in `GRAINLIKE_HOSTFILE`, with a line `HOST slots=CORES` for each host. The path of
a rank file is in `GRAINLIKE_RANKFILE`, with a line for each core, and the number of nodes in `GRAINLIKE_NODES`. So
where MPI is installed, this is a job on two nodes, with a rank on each of its cores::

    @delayed
    def solve(case: str) -> None:
        hosts = ["--hostfile", os.environ["GRAINLIKE_HOSTFILE"], "--rankfile", os.environ["GRAINLIKE_RANKFILE"]]
        subprocess.run(["mpirun", *hosts, "-n", "16", "solver", case], check=True)

    await (solve @ Nodes(2, each=Cores(8)))("wing")

If one of its workers is lost, the job is stopped, and started again on others.

It prints::

    two workers are here: ['big', 'small'] with [3, 1] cores
    where a job of 3 cores ran: big
    where jobs of one core ran: ['big', 'small']
    only one of them offers the data set: small
    a job on both: big with 1 core, small with 1 core
    what its programs find: 2 nodes, localhost slots=2
    ranks of an MPI program there: 2
    a worker was stopped: ['big'] is left
    and still: 9
    the workers have ended with exit codes [0, 0]
    over a Unix socket: n1
"""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from grainlike import GVAR, Cores, Executor, Nodes, Resource, delayed, gather


@delayed
def where(seconds: float = 0.0) -> str | None:
    time.sleep(seconds)
    return GVAR.instance


@delayed
def square(x: int) -> int:
    return x * x


@delayed
def on_both() -> tuple[list[str], str]:
    nodes = GVAR.job.nodes if GVAR.job is not None else ()
    show = 'echo "$GRAINLIKE_NODES nodes"; cat "$GRAINLIKE_HOSTFILE"'
    shown = subprocess.run(["sh", "-c", show], capture_output=True, text=True, check=True).stdout
    return sorted(f"{node.name} with {node.allocation.N} core" for node in nodes), ", ".join(shown.splitlines())


@delayed
def ranks() -> int:
    """An MPI program with a rank for each node, where MPI is installed: Open MPI's, whose host file this is."""
    mpirun = ["mpirun", "--hostfile", os.environ["GRAINLIKE_HOSTFILE"], "-n", os.environ["GRAINLIKE_NODES"]]
    alone = ["sh", "-c", 'for node in $(seq "$GRAINLIKE_NODES"); do "$@"; done', "sh"]
    program = [*(mpirun if shutil.which("mpirun") else alone), "echo", "a rank"]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    return done.stdout.splitlines().count("a rank")


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

        nodes, shown = await (on_both @ Nodes(2, each=Cores(1)))()
        print("a job on both:", ", ".join(nodes))
        print("what its programs find:", shown)
        print("ranks of an MPI program there:", await (ranks @ Nodes(2, each=Cores(1)))())

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
