"""A worker's store in memory that it holds itself: what lets go of descriptors, and where they do not suffice."""

from __future__ import annotations

import resource
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import numpy as np
import pytest
from waiting import until

from grainlike.payload import dump_value, load_value, map_replica, replica_path, replica_size, write_replica
from grainlike.wire import Code, Completed, Need
from grainlike_worker.store import _held_memory, _replicas, _rooms
from grainlike_worker.store._held_memory import HeldMemory
from grainlike_worker.store._limits import StoreLimits
from grainlike_worker.store._replicas import WorkerReplicas

pytestmark = pytest.mark.anyio

LARGE = np.arange(20_000, dtype=np.float64)
SIZE = replica_size(dump_value(LARGE))


def held_here(directory: Path) -> list[str]:
    """Return the names of the replicas whose memory this process holds."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            name = str(one.readlink()).removesuffix(" (deleted)")
            if name.startswith(f"/memfd:{directory.name}-"):
                found.append(name.removeprefix(f"/memfd:{directory.name}-"))
    return sorted(found)


@asynccontextmanager
async def store_of(tmp_path: Path, memory: int, scratch: int = 100) -> AsyncIterator[WorkerReplicas]:
    """Replicas in memory that is held, with room for so many values in each tier."""
    directory, disk = tmp_path / "held-store", tmp_path / "disk"
    for one in (directory, disk):
        one.mkdir()
    replicas = WorkerReplicas(directory, StoreLimits(memory * SIZE, scratch * SIZE, disk), held=HeldMemory())
    try:
        async with anyio.create_task_group() as tasks:
            replicas.start = tasks.start_soon
            yield replicas
    finally:
        replicas.remove()
    assert held_here(directory) == []


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small values, too, in held memory."""
    monkeypatch.setattr(_rooms, "_SMALL", 0)


async def give(replicas: WorkerReplicas, value: int) -> None:
    room = await replicas.room_for_output(value, 1, SIZE)
    assert write_replica(room, replicas.file(value, 1), dump_value(LARGE + value)) == SIZE
    replicas.ended(ended(value, Code.SUCCEEDED, SIZE))
    assert (load_value(map_replica(replicas.file(value, 1))) == LARGE + value).all()


def ended(job: int, code: Code, size: int = 0) -> Completed:
    return Completed(1, [job], [1], [code], [0.0], [0.0], [0.0], [0], [b""], [], 0.0, sizes=[size] if size else [])


async def test_what_is_dropped_spilled_or_evicted_is_held_no_more(tmp_path: Path) -> None:
    async with store_of(tmp_path, memory=2) as replicas:
        for value in range(3):
            await give(replicas, value)
        assert replicas.path is not None
        assert held_here(replicas.path) == ["v1-1", "v2-1"]
        assert replicas.spilled == SIZE
        with replicas.file(2, 1).open("r+b", buffering=0) as sealed, pytest.raises(PermissionError):
            sealed.write(b"x")
        replicas.spare([1], [1], is_spare=True)
        await give(replicas, 3)
        assert held_here(replicas.path) == ["v2-1", "v3-1"]
        replicas.drop([2], [1])
        assert held_here(replicas.path) == ["v3-1"]
        assert (load_value(map_replica(replicas.file(0, 1))) == LARGE).all()


async def test_jobs_and_copies_that_end_without_a_value_leave_nothing_held(tmp_path: Path) -> None:
    async with store_of(tmp_path, memory=2) as replicas:
        assert replicas.path is not None
        for code in (Code.CANCELLED, Code.CRASHED, Code.FAILED, Code.SUCCEEDED):
            await replicas.room_for_output(1, 1, SIZE)
            replicas.ended(ended(1, code))
        await replicas.room_for_copy(2, 1, SIZE)
        replicas.give_back(2, 1)
        assert held_here(replicas.path) == []
        room, _ = await replicas.room_for_copy(3, 1, SIZE)
        replicas.leave(3, 1, SIZE, 100)
        assert held_here(replicas.path) == ["v3-1"]
        assert await replicas.room_for_copy(3, 1, SIZE) == (room, 100)
        replicas.whole(3, 1, SIZE, 0)
        assert replicas.file(3, 1).stat().st_size == SIZE
        assert replicas.spilled == 0
        await replicas.room_for_copy(4, 1, SIZE)
        replicas.leave(4, 1, SIZE, 100)
        await give(replicas, 5)
        assert held_here(replicas.path) == ["v3-1", "v5-1"]


async def test_small_values_are_files_while_shared_memory_is_half_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rooms, "_SMALL", SIZE + 1)
    async with store_of(tmp_path, memory=3) as replicas:
        assert replicas.path is not None
        monkeypatch.setattr(_rooms, "_is_half_free", lambda directory: directory == replicas.path)
        await give(replicas, 1)
        assert held_here(replicas.path) == []
        monkeypatch.setattr(_rooms, "_is_half_free", lambda _: False)
        await give(replicas, 2)
        assert held_here(replicas.path) == ["v2-1"]


async def test_where_descriptors_do_not_suffice_values_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldMemory, "_most", lambda _: 1)
    async with store_of(tmp_path, memory=10) as replicas:
        assert replicas.path is not None
        for value in range(3):
            await give(replicas, value)
        assert held_here(replicas.path) == ["v0-1"]
        assert replicas.spilled == 2 * SIZE
        assert replicas.lost == ""


async def test_a_copy_on_disk_of_what_a_job_uses_meanwhile_leaves_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied_then(path: Path, room: Path) -> int:
        gate.wait(60)
        return real(path, room)

    real, gate = _replicas.copy_replica, threading.Event()
    monkeypatch.setattr(_replicas, "copy_replica", copied_then)
    async with store_of(tmp_path, memory=1) as replicas:
        assert replicas.path is not None
        await give(replicas, 1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give, replicas, 2)
            await until(lambda: (2, 1) in replicas.rooms)
            replicas.used(1, [[Need(1, 1, SIZE)]])
            gate.set()
        assert held_here(replicas.path) == ["v1-1"]
        assert replicas.file(2, 1).is_symlink()
        assert replicas.spilled == SIZE


async def test_memory_that_the_machine_does_not_have_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system of `memfd`s has no limit: the system would end processes first."""
    monkeypatch.setattr(_held_memory, "spare_memory", lambda: SIZE - 1)
    async with store_of(tmp_path, memory=10) as replicas:
        assert replicas.path is not None
        await give(replicas, 1)
        assert held_here(replicas.path) == []
        assert replicas.spilled == SIZE


@pytest.mark.parametrize(("in_program", "raised"), [(False, [(400, 400)]), (True, [])])
def test_a_worker_raises_its_limit_of_descriptors_and_leaves_that_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_program: bool, raised: list[tuple[int, int]]
) -> None:
    limits = [(4, 400)]
    told: list[tuple[int, int]] = []

    def raises(_: int, limit: tuple[int, int]) -> None:
        told.append(limit)
        limits.append(limit)

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", raises)
    held = HeldMemory(in_program=in_program)
    for value in range(2):
        held.make(replica_path(tmp_path, value, 1), SIZE)
    assert told == []
    if in_program:
        with pytest.raises(OSError, match="Too many open files"):
            held.make(replica_path(tmp_path, 2, 1), SIZE)
    else:
        for value in range(2, 200):
            held.make(replica_path(tmp_path, value, 1), SIZE)
        with pytest.raises(OSError, match="Too many open files"):
            held.make(replica_path(tmp_path, 200, 1), SIZE)
    assert told == raised
    held.release_all()
    assert held_here(tmp_path) == []
