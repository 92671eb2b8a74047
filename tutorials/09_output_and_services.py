"""What jobs print, and workers that bring a service to their jobs.

Whatever a job writes to standard output and error is kept at its worker, attempt by attempt: what it prints and logs,
what its libraries and the programs that it starts write. `executor.logs(r_)` gives the lines that are there, and then
those that come, until the job has ended. Each line is a string that also knows its `.attempt` and `.stream`. Nothing
travels that nobody asks for. Of long output the first mebibyte is kept and the end.

Coroutines share a process, so there only what Python prints and logs can be told apart. What else is written there is
put into the worker's log. `isolate=True` gives a coroutine a process, and all its output a name.

A worker is more than its cores: started with `--context module:factory` it brings something along for its jobs, such
as a connection, a model that takes long to load, or a server. The factory makes an async context manager. Each of the
worker's processes that run jobs enters it before its first job, and leaves it when it ends; jobs find what it yields in
`GVAR.context`. All coroutines of a worker run in one such process, so here they share one server.

It prints::

    stdout: epoch 1
    stderr: the learning rate is low
    stdout: epoch 2
    and all of it again: 3 lines
    both attempts: ['attempt 1', 'OSError: not yet', 'attempt 2']
    answers of one server to three jobs: [1, 2, 3]
    the server has ended with its worker: True
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from grainlike import GVAR, Cores, Executor, delayed, gather, start

# --- output ----------------------------------------------------------------------------------------------------------


@delayed
async def train() -> None:
    print("epoch 1")
    print("the learning rate is low", file=sys.stderr)
    print("epoch 2")


@delayed(retries=1)
def flaky() -> None:
    print("attempt", GVAR.job.attempt)
    if GVAR.job.attempt == 1:
        raise OSError("not yet")


async def output(executor: Executor) -> None:
    train_ = start((train @ Cores(1))())
    async for line in executor.logs(train_):
        print(f"{line.stream}: {line}")
    print("and all of it again:", len([line async for line in executor.logs(train_)]), "lines")

    flaky_ = start((flaky @ Cores(1))())
    lines = [str(line) async for line in executor.logs(flaky_)]  # with the traceback of the first attempt
    print("both attempts:", [line for line in lines if line.startswith(("attempt", "OSError"))])


# --- a worker with a server of its own -------------------------------------------------------------------------------

SERVER = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1])
    server.listen()
    print("ready", flush=True)
    for count in range(1, 1000):
        connection, _ = server.accept()
        connection.sendall(f"{count} {os.getpid()}".encode())
        connection.close()
"""


@asynccontextmanager
async def counting_server() -> AsyncIterator[str]:
    """What the worker brings along: a program that listens on a socket for as long as its jobs may need it."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "counter.sock"))
        server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, path, stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            yield path
        finally:
            server.terminate()
            await server.wait()


@delayed
async def ask() -> tuple[int, int]:
    reader, writer = await asyncio.open_unix_connection(GVAR.context)
    count, pid = (await reader.read()).split()
    writer.close()
    return int(count), int(pid)


def start_worker(head: str) -> subprocess.Popen[bytes]:
    """`grainlike worker start --context ...`; the module is looked for in the directory where the worker starts."""
    here = Path(__file__).resolve()
    command = [sys.executable, "-m", "grainlike", "worker", "start", "--log-level", "warning", "--head", head]
    return subprocess.Popen([*command, "--context", f"{here.stem}:counting_server"], cwd=here.parent)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def service() -> int:
    answers = await gather((ask @ Cores(1))() for _ in range(3))
    print("answers of one server to three jobs:", sorted(count for count, _ in answers))
    return answers[0][1]


async def main() -> None:
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        worker = start_worker(executor.address)
        with anyio.fail_after(30):
            await executor.wait_for_workers(1)
        await output(executor)
        server = await service()
    worker.wait()
    print("the server has ended with its worker:", not runs(server))


if __name__ == "__main__":
    anyio.run(main)
