"""Clients that come with closures of their own, and leave: how many functions are held then, and where.

A head daemon with a journal, a worker in a process of its own, and thirty clients one after another with 200 closures
of 50 kB each. Memory is the resident set, of which an allocator gives back what it can; functions are counted at the
head.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from grainlike import Cores, connect, delayed, gather
from grainlike.head import FunctionTable
from grainlike.head.durable import HeadDaemon
from grainlike_bench._processes import processes

CLIENTS = 30
CLOSURES = 200
SIZE = 50_000
MIB = 1 << 20

CLIENT = f"""
import asyncio
from grainlike import Cores, connect, delayed, gather

def closure(number):
    blob = number.to_bytes(4, "big") * ({SIZE} // 4)
    def f(x):
        return len(blob) + x
    return delayed(f) @ Cores(1)

async def main(first):
    async with connect():
        await gather([closure(first + number)(number) for number in range({CLOSURES})])

import sys
asyncio.run(main(int(sys.argv[1])))
"""


def _resident(pid: int) -> list[float]:
    pages = (int(Path(f"/proc/{found}/statm").read_text(encoding="ascii").split()[1]) for found in processes(pid))
    return [count * resource.getpagesize() / MIB for count in pages]


def _on_disk(journal: Path) -> float:
    return sum(file.stat().st_size for file in journal.rglob("*") if file.is_file()) / MIB


def _held() -> int:
    gc.collect()
    return max(len(found._specs) for found in gc.get_objects() if type(found) is FunctionTable)


def _tell(when: str, worker: int, journal: Path) -> None:
    head, daemon = _resident(os.getpid())[0], _resident(worker)
    print(
        f"{when:24} head {head:5.0f} MiB, {_held():5d} functions; worker {daemon[0]:5.0f} MiB, its runners "
        f"{sum(daemon[1:]):5.0f} MiB; journal {_on_disk(journal):5.0f} MiB"
    )


async def _measure(home: Path) -> None:
    journal = home / "journal"
    async with HeadDaemon("tcp://127.0.0.1:0", journal=journal) as daemon:
        daemon.leaves = True
        arguments = ["-m", "grainlike_worker", "--head", str(daemon.address), "--resources", "cores=1"]
        worker = subprocess.Popen(  # noqa: ASYNC220 - it is waited for when it has been killed
            [sys.executable, *arguments, "--log-level", "warning"]
        )
        try:
            async with connect() as ex:
                await ex.wait_for_workers(1)
                await gather([(delayed(int) @ Cores(1))(1)])
            _tell("before", worker.pid, journal)
            for client in range(CLIENTS):
                run = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, str(client * CLOSURES))
                assert await run.wait() == 0
            await asyncio.sleep(3.0)  # the journal is looked at every second
            _tell(f"{CLIENTS} clients later", worker.pid, journal)
        finally:
            worker.kill()
            worker.wait()
    async with HeadDaemon("tcp://127.0.0.1:0", journal=journal) as daemon:
        daemon.leaves = True
        print(f"{'the next head':24} {_held():5d} functions")


def main() -> None:
    """Print what is held before and after."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_STATE_HOME"] = home
        os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
        asyncio.run(_measure(Path(home)))


if __name__ == "__main__":
    main()
