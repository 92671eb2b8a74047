"""Memory that the watchdog counts as that of a job, and memory that it does not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from grainlike.payload import (
    SharedDirectory,
    allocate_replica,
    dump_value,
    hold_memory,
    replica_path,
    replica_room,
    replica_size,
    write_replica,
)
from grainlike_worker.ipc._claims import ClaimPage
from grainlike_worker.keeper._memory_watchdog import Watchdog
from grainlike_worker.runner.process._memory_limit import resident

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of memory")

VALUE = dump_value(np.ones(64 * 2**20, dtype=np.uint8))
LIMIT = 32 * 2**20

JOB = """
import os, sys
import numpy as np
from grainlike.payload import load_value, map_replica
value = load_value(map_replica(sys.argv[1]))
print("begun", flush=True)
input()
value.sum()
end, held = os.pipe()
if sys.argv[2] == "forks" and os.fork() == 0:
    os.close(held)
    os.read(end, 1)  # until the other has ended
    os._exit(0)
print("read", flush=True)
input()
value += 1
print("changed", flush=True)
input()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    made = SharedDirectory.make()
    assert made is not None
    yield made.path
    made.remove()


def look_at(pid: int, page: ClaimPage) -> int:
    """Return the bytes for which the watchdog has ended a process, or 0."""
    dog = Watchdog()
    dog.add(pid, page)
    dog.look()
    return page.taken


@pytest.fixture
def value(place: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Path of a value, in a file or, where `request` says so, in memory that this process holds."""
    path, size = replica_path(place, 7, 1), replica_size(VALUE)
    with ExitStack() as stack:
        if request.param:
            fd = hold_memory(path, size)
            stack.callback(os.close, fd)
            room = Path(f"/proc/{os.getpid()}/fd/{fd}")
        else:
            room = replica_room(place, path)
            allocate_replica(room, size)
        assert write_replica(room, path, VALUE) == size
        yield path


@pytest.mark.parametrize("how", ["alone", "forks"])
@pytest.mark.parametrize("value", [False, True], ids=["file", "held"], indirect=True)
def test_a_value_in_shared_memory_is_the_jobs_once_it_has_changed_it(value: Path, how: str) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, value, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with job, closing(ClaimPage.create()) as page:
        assert job.stdin is not None
        assert job.stdout is not None
        for told in ("begun", "read", "changed"):
            assert job.stdout.readline() == f"{told}\n"
            page.limit = page.limit or resident(job.pid) + LIMIT
            taken = look_at(job.pid, page)
            assert (taken > page.limit) == (told == "changed")
            if not taken:
                job.stdin.write("\n")
                job.stdin.flush()
        assert job.wait() == -signal.SIGKILL
