"""Workers where shared memory has 64 MB, as in containers: large values are in memory that their daemons hold."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from far import far_workers
from limits import LIMIT_S
from mounts import SMALL_SHARED_MEMORY, may_mount, with_mount
from test_faults_data import data_servers as data_servers_of
from value_calls import crc_of, make_random
from waiting import until

from grainlike import delayed, info, parse, start, wait

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(not may_mount(), reason="takes a mount of one's own")]

ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio, gc, json, os
from pathlib import Path
import numpy as np
from grainlike import Cores, Executor, delayed, info, wait
from grainlike.net import _protocol
from grainlike_worker.runner.process import _pipe

came = []
updated = _protocol.ProtocolLink.buffer_updated
_protocol.ProtocolLink.buffer_updated = lambda link, count: (came.append(count), updated(link, count))[1]

@delayed
def made():
    return np.full(25_000_000, 3.0)

@delayed
def total(*values):
    return float(sum(value.sum() for value in values))

def held():
    links = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(str(one).startswith("/memfd:grainlike-store-") for one in links)

async def main():
    async with Executor(local=Cores(2)) as executor:
        said = {}
        a_ = (made @ Cores(1))()
        await wait(a_)
        said["where"], said["size"] = info(a_).where, info(a_).size
        said["used"] = await (total @ Cores(1))(a_)
        value = await a_
        said["sum"] = float(value.sum())
        said["sockets"] = sum(came)
        (worker,) = executor.workers()
        said["stored"], said["spilled"], said["held"] = worker.stored, worker.spilled, held()
        said["here"] = executor.report().fetched
        del a_
        gc.collect()
        while held():
            await asyncio.sleep(0.01)
        said["left"] = [path.name for path in Path("/dev/shm").glob("grainlike-store-*/v*")]
        said["kept"] = float(value.sum())
    said["end"] = [path.name for path in Path("/dev/shm").glob("grainlike-store-*")]
    print(json.dumps(said))

asyncio.run(main())
"""


async def test_200_mb_on_one_node_are_given_and_read_without_a_socket(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        *with_mount("-t tmpfs -o size=64m none /dev/shm", sys.executable, str(program)),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
        stdout=subprocess.PIPE,
    )
    told, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert process.returncode == 0
    said = json.loads(told)
    assert said["size"] > 200_000_000
    assert said.pop("sockets") < 1_000_000
    assert said == {
        "where": ["local"], "size": said["size"], "used": 75e6, "sum": 75e6, "stored": said["size"], "spilled": 0,
        "held": 1, "here": 0, "left": [], "kept": 75e6, "end": [],
    }  # fmt: skip


# --- two machines with 64 MB each ------------------------------------------------------------------------------------

SIZE = 80_000_000


def both(start_worker, disk: Path):
    """Two workers of whom each has 64 MB of shared memory of its own."""
    first = dict.fromkeys(("n1", "n2"), SMALL_SHARED_MEMORY)
    more = ("--store", "300M", "--scratch", str(disk))
    return far_workers(start_worker, "n1", "n2", resources="cores=2 {name}=2", first=first, more=more)


def held_by(worker) -> list[str]:
    """Return the values whose memory a worker's daemon holds."""
    found = []
    for one in Path(f"/proc/{worker.process.pid}/fd").iterdir():
        name = ""
        with suppress(FileNotFoundError):  # a connection that the daemon has closed meanwhile
            name = str(one.readlink())
        if name.startswith("/memfd:grainlike-store-"):
            found.append(name.removesuffix(" (deleted)").rpartition("-v")[2])
    return sorted(found)


def data_servers(workers) -> list[psutil.Process]:
    return [server for worker in workers.values() for server in data_servers_of(worker)]


@pytest.mark.skipif(os.geteuid() != 0, reason="takes a worker that root starts")
async def test_values_outlive_data_servers_and_runners_and_leave_nothing_when_dropped_or_killed(
    start_worker, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    async with both(start_worker, disk) as (executor, workers):
        a_ = (make_random @ parse("cores=1 n1=1"))(SIZE)
        await wait(a_)
        crc = await (crc_of @ parse("cores=1 n2=1"))(a_)
        assert info(a_).where == ("n1", "n2")
        assert [len(held_by(worker)) for worker in workers.values()] == [1, 1]
        assert (executor.report().relayed, [worker.spilled for worker in executor.workers()]) == (0, [0, 0])

        servers = data_servers(workers)
        assert len(servers) == 2
        for server in servers:
            server.kill()
        await until(lambda: not any(map(psutil.pid_exists, (server.pid for server in servers))))
        dies_ = start((_dies @ parse("cores=1 n2=1"))(a_))
        await wait(dies_)
        for name in workers:
            assert await (crc_of @ parse(f"cores=1 {name}=1"))(a_) == crc
        assert executor.report().recomputed == 0
        b_ = (make_random @ parse("cores=1 n2=1"))(SIZE)
        assert await (crc_of @ parse("cores=1 n1=1"))(b_) != crc
        assert [len(held_by(worker)) for worker in workers.values()] == [2, 2]

        del a_, dies_
        await until(lambda: [len(held_by(worker)) for worker in workers.values()] == [1, 1])
        pids = [process.pid for process in workers["n1"].tree()]
        workers["n1"].process.send_signal(signal.SIGKILL)
        await until(lambda: not any(map(psutil.pid_exists, pids)))  # and their descriptors with them
        assert len(held_by(workers["n2"])) == 1
        del b_
        await until(lambda: held_by(workers["n2"]) == [])


@delayed(retries=0)
def _dies(value: bytearray) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
