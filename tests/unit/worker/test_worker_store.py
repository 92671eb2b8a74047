"""A worker's store on real files: where room is made, what is spilled, and what a disk that fails leaves behind."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import numpy as np
import pytest
from waiting import until

from grainlike import SerializationError
from grainlike.payload import (
    SpareFiles,
    _shared_directory,
    dump_value,
    load_value,
    map_replica,
    private_map,
    replica_size,
    write_replica,
)
from grainlike.resources import UNIT, Cores, amount_texts, offer_of
from grainlike.scheduler import NodeScheduler
from grainlike.scheduler.store import Replica, _scheduler
from grainlike.wire import Code, Completed, Evicted, Message, Need, Stored
from grainlike_worker.store import _relay, _replicas, _rooms
from grainlike_worker.store._limits import StoreLimits
from grainlike_worker.store._replicas import StoreFull, WorkerReplicas

pytestmark = pytest.mark.anyio

LARGE = np.arange(20_000, dtype=np.float64)
SIZE = replica_size(dump_value(LARGE))


class Store:
    """A worker's replicas, with what they have said."""

    def __init__(self, path: Path, limits: StoreLimits) -> None:
        self.replicas = WorkerReplicas(path, limits)
        self.evicted: list[Replica] = []
        self.replicas.evicted = self.evicted.append

    async def give(self, value: int) -> Path:
        """Do as a runner does whose job gave a value."""
        room = await self.replicas.room_for_output(value, 1, SIZE)
        assert room.stat().st_size == SIZE
        assert write_replica(room, self.replicas.file(value, 1), dump_value(LARGE + value)) == SIZE
        self.replicas.ended(ended(value, Code.SUCCEEDED, SIZE))
        return room

    def holds(self, value: int) -> bool:
        return bool((load_value(map_replica(self.replicas.file(value, 1))) == LARGE + value).all())

    def is_spilled(self, value: int) -> bool:
        return self.replicas.file(value, 1).is_symlink()


def ended(job: int, code: Code, size: int = 0) -> Completed:
    return Completed(1, [job], [1], [code], [0.0], [0.0], [0.0], [0], [b""], [], 0.0, sizes=[size] if size else [])


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Directories in place of shared memory, and of a disk; nothing is left in the second."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    yield memory, disk
    assert list(disk.iterdir()) == []


@asynccontextmanager
async def opened(
    places: tuple[Path, Path], memory: float = 2, scratch: float = 100, slots: int = 1, machine: float = 0
) -> AsyncIterator[Store]:
    """A store with room for so many values in each tier."""
    sizes = int(memory * SIZE), int(scratch * SIZE)
    store = Store(places[0], StoreLimits(*sizes, places[1], slots, int(machine * SIZE)))
    async with anyio.create_task_group() as tasks:
        store.replicas.start = tasks.start_soon
        yield store
    store.replicas.remove()


async def test_six_times_as_much_as_the_memory_of_the_store_is_there_and_right(places: tuple[Path, Path]) -> None:
    async with opened(places) as store:
        for value in range(12):
            await store.give(value)
            in_memory = sum(not store.is_spilled(value) for value in range(value + 1))
            assert in_memory <= 2
        assert all(map(store.holds, range(12)))
        assert store.replicas.spilled == 10 * SIZE
        store.replicas.drop(range(12), [1] * 12)
        assert store.replicas.spilled == 0
        assert list(places[0].iterdir()) == []
        assert [list(one.iterdir()) for one in places[1].iterdir()] == [[next(places[1].iterdir()) / "owner.lock"]]


async def test_what_was_used_last_stays_in_memory_and_what_is_used_does_so_anyway(places: tuple[Path, Path]) -> None:
    async with opened(places, memory=3) as store:
        for value in range(3):
            await store.give(value)
        store.replicas.used(5, [[Need(0, 1, SIZE)]])
        await store.give(3)
        assert [store.is_spilled(value) for value in range(4)] == [False, True, False, False]
        store.replicas.ended_use(5)
        await store.give(4)
        assert [store.is_spilled(value) for value in range(4)] == [False, True, True, False]


async def test_where_all_is_used_the_value_is_written_to_the_disk(places: tuple[Path, Path]) -> None:
    async with opened(places) as store:
        for value in range(2):
            await store.give(value)
        store.replicas.used(5, [[Need(0, 1, SIZE)], [Need(1, 1, SIZE)]])
        room = await store.give(2)
        assert places[1] in room.parents
        assert [store.is_spilled(value) for value in range(3)] == [False, False, True]
        assert store.holds(2)


async def test_spare_replicas_are_evicted_and_that_is_told(places: tuple[Path, Path]) -> None:
    async with opened(places) as store:
        for value in range(2):
            await store.give(value)
        store.replicas.spare([0], [1], is_spare=True)
        await store.give(2)
        assert store.evicted == [(0, 1)]
        assert not store.replicas.file(0, 1).exists()
        assert (0, 1) not in store.replicas.sizes
        assert not store.is_spilled(1)


async def test_beyond_all_limits_one_output_a_slot_and_then_none(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replicas, "spare_memory", lambda: SIZE)
    async with opened(places, scratch=0, slots=2) as store:
        for value in range(4):
            await store.give(value)
        with pytest.raises(StoreFull) as full:
            await store.give(4)
        one, two, four, _ = amount_texts("memory", *(UNIT * size for size in (SIZE, 2 * SIZE, 4 * SIZE, 0)))
        assert str(full.value).startswith(
            f"there is no room for {one}: the store of its worker has {two} of shared memory, and 0 bytes of disk, of "
            f"which {four} ({two} beyond the limit, for the last values that found no room) and 0 bytes are in use: "
        )
        assert all(map(store.holds, range(4)))
        store.replicas.drop(range(3), [1] * 3)
        await store.give(5)
        assert store.holds(5)


async def test_nothing_goes_beyond_the_limits_where_memory_is_scarce(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replicas, "spare_memory", lambda: SIZE - 1)
    async with opened(places, memory=1, scratch=0) as store:
        await store.give(0)
        with pytest.raises(StoreFull):
            await store.give(1)


async def test_values_give_way_to_memory_that_jobs_are_granted(places: tuple[Path, Path]) -> None:
    async with opened(places, memory=2, machine=3) as store:
        for value in range(2):
            await store.give(value)
        store.replicas.granted = lambda: 2 * SIZE
        store.replicas.used(1, [])
        await until(lambda: store.is_spilled(0))
        assert not store.is_spilled(1)


async def test_memory_that_its_file_system_does_not_have_is_found_on_the_disk(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_64_mb(room: Path, size: int) -> None:
        if room.parent == places[0]:
            raise OSError(28, "No space left on device")
        real(room, size)

    real = _rooms.allocate_replica
    monkeypatch.setattr(_rooms, "allocate_replica", of_64_mb)
    async with opened(places) as store:
        await store.give(0)
        assert store.is_spilled(0)
        assert store.holds(0)


@pytest.mark.parametrize("when", ["at birth", "while it spills"])
async def test_a_disk_that_is_full_is_given_up_and_what_is_there_stays(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def full(fd: int, at: int, size: int) -> None:
        if fills and places[1] in Path(f"/proc/self/fd/{fd}").readlink().parents:
            raise OSError(28, "No space left on device")
        real(fd, at, size)

    real = os.posix_fallocate
    fills: list[int] = []
    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(_replicas, "spare_memory", lambda: SIZE)
    monkeypatch.setattr(_scheduler, "PAYBACK_S", 0.0)
    changes: list[str] = []
    async with opened(places) as store:
        store.replicas.changed = lambda: changes.append(store.replicas.lost)
        for value in range(3):
            await store.give(value)
        fills.append(1)
        if when == "at birth":
            store.replicas.used(1, [[Need(1, 1, SIZE)], [Need(2, 1, SIZE)]])
        await store.give(3)  # beyond the budget
        with pytest.raises(StoreFull, match=r"no value is written to .* any more: No space left"):
            await store.give(4)
        assert [store.is_spilled(value) for value in range(4)] == [True, False, False, False]
        assert all(map(store.holds, range(4)))
        assert "No space left" in changes[-1]


async def test_room_of_a_job_that_ends_without_its_value_is_free_again(places: tuple[Path, Path]) -> None:
    async with opened(places, memory=1, scratch=0) as store:
        for code in (Code.CANCELLED, Code.CRASHED, Code.FAILED, Code.SUCCEEDED):
            room = await store.replicas.room_for_output(1, 1, SIZE)
            assert room.exists()
            store.replicas.ended(ended(1, code))
            assert not room.exists()
        await store.give(1)


async def test_whoever_is_given_up_while_a_value_is_spilled_for_it_hears_that(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied_then(path: Path, room: Path) -> int:
        gate.wait()
        return real(path, room)

    real, gate = _replicas.copy_replica, threading.Event()
    monkeypatch.setattr(_replicas, "copy_replica", copied_then)
    refused: list[str] = []

    async def ask(store: Store) -> None:
        with pytest.raises(StoreFull) as found:
            await store.replicas.room_for_output(1, 1, SIZE)
        refused.append(str(found.value))

    async with opened(places, memory=1) as store:
        await store.give(0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, store)
            await until(lambda: (1, 1) in store.replicas.rooms)
            store.replicas.ended(ended(1, Code.CANCELLED))
        assert refused == ["nobody waits for it any more"]
        gate.set()
        await until(lambda: store.is_spilled(0))


# --- outputs that wait until an overdraft is paid back --------------------------------------------------------------


@asynccontextmanager
async def overdrawn(places: tuple[Path, Path]) -> AsyncIterator[Store]:
    """A store with room for one value, and a second one in it."""
    async with opened(places, memory=1, scratch=0) as store:
        for value in range(2):
            await store.give(value)
        assert store.replicas.over
        yield store


@pytest.mark.parametrize("how", ["dropped", "evicted"])
async def test_an_output_waits_until_an_overdraft_is_paid_back(places: tuple[Path, Path], how: str) -> None:
    async with overdrawn(places) as store:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.give, 2)
            await until(lambda: (2, 1) in store.replicas.rooms)
            if how == "dropped":
                store.replicas.drop([0], [1])
            else:
                store.replicas.spare([0], [1], is_spare=True)
        assert store.holds(2)


async def test_an_output_may_exceed_the_budget_after_its_wait_only_if_memory_is_free_then(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SIZE
    monkeypatch.setattr(_replicas, "spare_memory", lambda: free)
    async with overdrawn(places) as store, anyio.create_task_group() as tasks:
        tasks.start_soon(store.give, 2)
        await until(lambda: (2, 1) in store.replicas.rooms)
        free = 0
        store.replicas.drop([0], [1])
        assert store.replicas.rooms[2, 1].answer is None
        free = SIZE
        store.replicas.used(1, [[Need(1, 1, SIZE)]])
        await until(lambda: (2, 1) in store.replicas.sizes)


async def test_an_output_that_waits_is_given_up_as_it_could_have_room(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SIZE
    monkeypatch.setattr(_replicas, "spare_memory", lambda: free)
    async with overdrawn(places) as store, anyio.create_task_group() as tasks:
        tasks.start_soon(refused, store, 2)
        await until(lambda: (2, 1) in store.replicas.rooms)
        free = 0
        store.replicas.drop([0], [1])
        free = SIZE
        store.replicas.ended(ended(2, Code.CANCELLED))


async def refused(store: Store, value: int) -> None:
    with pytest.raises(StoreFull, match="nobody waits for it any more"):
        await store.give(value)


async def test_an_output_waits_no_longer_than_leases_compute_that_use_values(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scheduler, "PAYBACK_S", 0.0)
    looks: list[int] = []

    def computing() -> dict[int, list[int]]:
        looks.append(1)
        return {7: [70], 8: [2], 9: [90]} if len(looks) < 4 else {8: [2], 9: [90]}

    async with overdrawn(places) as store:
        store.replicas.computing = computing
        for lease in (7, 8):  # that of the output itself, and one that uses nothing, do not count
            store.replicas.used(lease, [[Need(0, 1, SIZE)]])
        with pytest.raises(StoreFull, match="are in use: delete placeholders"):
            await store.give(2)
    assert len(looks) == 5


# --- files that are written over -------------------------------------------------------------------------------------


class TakenFiles(SpareFiles):
    """Files that nobody needs, with the names under which they were taken."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.taken: list[str] = []

    def take(self, path: Path, size: int) -> bool:
        taken = super().take(path, size)
        self.taken += [path.name.partition(".")[0]] if taken else []
        return taken


@pytest.fixture
def kept(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> TakenFiles:
    """Files that nobody needs, of whatever size."""
    monkeypatch.setattr(_replicas, "SPARE_LEAST", 1)
    monkeypatch.setattr(_shared_directory, "SPARE_LEAST", 1)
    return TakenFiles(places[0])


@asynccontextmanager
async def kept_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Have no file that nobody needs go by itself: on a busy machine the while may be over at any moment."""
    start = store.replicas.start
    with monkeypatch.context() as patches:
        patches.setattr(_replicas, "SPARE_S", 3600.0)
        async with anyio.create_task_group() as tasks:
            store.replicas.start = tasks.start_soon
            yield
            tasks.cancel_scope.cancel()
    store.replicas.start = start


async def test_the_next_value_is_written_over_the_file_of_one_that_nobody_needs(
    places: tuple[Path, Path], kept: TakenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(places, memory=1, scratch=0) as store, kept_for_long(store, monkeypatch):
        store.replicas._files.spare = kept
        await store.give(1)
        store.replicas.drop([1], [1])
        assert not store.replicas.file(1, 1).exists()
        await store.give(2)
        assert kept.taken == ["v2-1"]
        assert store.holds(2)
        store.replicas.spare([2], [1], is_spare=True)
        await store.give(3)  # the evicted one's
        assert kept.taken == ["v2-1", "v3-1"]
        assert store.holds(3)
        assert [path.name for path in places[0].iterdir()] == ["v3-1"]
        store.replicas._files.spare = None


async def test_files_that_nobody_needs_are_within_the_budget_and_gone_after_a_while(
    places: tuple[Path, Path], kept: TakenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(places, memory=3, scratch=0) as store:
        store.replicas._files.spare = kept
        async with kept_for_long(store, monkeypatch):
            for value in (1, 2):
                await store.give(value)
            store.replicas.drop([1, 2], [1, 1])
            assert kept.nbytes == 2 * SIZE
            room = await store.replicas.room_for_output(3, 1, 2 * SIZE)  # no file is as large
            assert room.stat().st_size == 2 * SIZE
            assert kept.nbytes == SIZE
            store.replicas.give_back(3, 1)
        await store.give(4)
        store.replicas.drop([4], [1])
        await until(lambda: not list(places[0].iterdir()))
        assert kept.nbytes == 0
        async with kept_for_long(store, monkeypatch):
            await store.give(5)
            store.replicas.drop([5], [1])
            with mapped_by_somebody(places[0]):
                await store.give(6)
            assert store.holds(6)


@contextmanager
def mapped_by_somebody(directory: Path) -> Iterator[None]:
    """Have the one file that nobody needs be mapped by somebody, and left as it is."""
    (spare,) = directory.glob("spare-*")
    before = spare.read_bytes()
    with spare.open("rb") as opened:
        data = private_map(opened.fileno(), SIZE)
    yield
    assert bytes(data) == before


# --- copies ----------------------------------------------------------------------------------------------------------


async def test_a_copy_has_room_on_the_disk_and_is_checked_there(places: tuple[Path, Path]) -> None:
    async with opened(places, memory=0.5) as store:
        room, at = await store.replicas.room_for_copy(7, 1, SIZE)
        assert at == 0
        assert room.stat().st_blocks * 512 >= SIZE
        assert store.replicas.spilled == SIZE
        store.replicas.whole(7, 1, SIZE, 12345)
        assert store.is_spilled(7)
        with pytest.raises(SerializationError, match="damaged"):
            map_replica(store.replicas.file(7, 1))
        with pytest.raises(StoreFull):
            await store.replicas.room_for_copy(8, 1, 1000 * SIZE)


async def test_room_of_a_copy_is_allocated_and_counted_from_its_begin_and_given_back(
    places: tuple[Path, Path],
) -> None:
    async with opened(places, memory=1, scratch=0) as store:
        replicas = store.replicas
        room, _ = await replicas.room_for_copy(7, 1, SIZE)
        assert room.stat().st_blocks * 512 >= SIZE
        with pytest.raises(StoreFull):
            await replicas.room_for_copy(8, 1, SIZE)
        replicas.give_back(7, 1)
        assert not room.exists()
        room, _ = await replicas.room_for_copy(8, 1, SIZE)
        replicas.drop([8], [1])
        with pytest.raises(FileNotFoundError):
            replicas.whole(8, 1, SIZE, 0)
        assert list(places[0].iterdir()) == []
        await store.give(1)


async def test_a_copy_that_is_broken_off_goes_on_in_its_room_unless_others_needed_that(
    places: tuple[Path, Path],
) -> None:
    async with opened(places, memory=1, scratch=0) as store:
        replicas = store.replicas
        room, _ = await replicas.room_for_copy(7, 1, SIZE)
        replicas.leave(7, 1, SIZE, 100)
        assert replicas.left_off(7, 1) == 100
        assert await replicas.room_for_copy(7, 1, SIZE) == (room, 100)
        replicas.leave(7, 1, SIZE, 200)
        await store.give(1)  # there is room for one
        assert not room.exists()
        assert replicas.left_off(7, 1) == 0
        assert store.evicted == []
        replicas.drop([1], [1])
        again, at = await replicas.room_for_copy(7, 1, SIZE)
        assert (again != room, at) == (True, 0)
        replicas.leave(7, 1, SIZE, 0)
        assert not again.exists()
        assert list(places[0].iterdir()) == []


async def test_a_copy_that_goes_on_has_another_room_where_a_job_was_granted_the_memory_of_the_last(
    places: tuple[Path, Path],
) -> None:
    async with opened(places, memory=2, machine=2) as store:
        replicas = store.replicas
        room, _ = await replicas.room_for_copy(7, 1, SIZE)
        replicas.leave(7, 1, SIZE, 100)
        replicas.granted = lambda: 2 * SIZE
        again, at = await replicas.room_for_copy(7, 1, SIZE)
        assert (places[1] in again.parents, at) == (True, 0)
        assert not room.exists()
        replicas.drop([7], [1])
        assert not again.exists()


@pytest.mark.parametrize("tier", ["memory", "disk"])
async def test_a_copy_of_what_is_whole_takes_its_place_and_counts_once(places: tuple[Path, Path], tier: str) -> None:
    memory, disk = (1.0, 0.0) if tier == "memory" else (0.5, 1.0)
    async with opened(places, memory=memory, scratch=disk) as store:
        replicas = store.replicas
        await replicas.room_for_copy(7, 1, SIZE)
        replicas.whole(7, 1, SIZE, 0)
        room, at = await replicas.room_for_copy(7, 1, SIZE)  # there is room for one
        assert at == 0
        assert room.exists()
        assert not replicas.file(7, 1).exists()
        assert not store.is_spilled(7)
        assert replicas.sizes == {}
        with pytest.raises(StoreFull):
            await replicas.room_for_copy(8, 1, SIZE)
        replicas.give_back(7, 1)
        assert [one for place in places for one in place.rglob("*") if one.is_file() and one.name != "owner.lock"] == []
        await replicas.room_for_copy(8, 1, SIZE)
        replicas.give_back(8, 1)


async def test_a_copy_waits_for_a_spill_and_takes_its_room_then(places: tuple[Path, Path]) -> None:
    async with opened(places, memory=1) as store:
        await store.give(1)
        room, _ = await store.replicas.room_for_copy(7, 1, SIZE)
        assert room.parent == places[0]
        assert store.is_spilled(1)


async def test_whoever_asks_again_while_room_is_allocated_has_room_of_its_own(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(room: Path, size: int) -> None:
        real(room, size)
        rooms.append(room)
        assert len(rooms) > 1 or gate.wait(60)

    real, gate = _rooms.allocate_replica, threading.Event()
    rooms: list[Path] = []
    monkeypatch.setattr(_rooms, "allocate_replica", slow)
    refused: list[str] = []

    async def ask(store: Store) -> None:
        with pytest.raises(StoreFull) as found:
            await store.replicas.room_for_copy(7, 1, SIZE)
        refused.append(str(found.value))

    async with opened(places, memory=1, scratch=0) as store:
        store.replicas._files.at_once = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, store)
            await until(lambda: rooms)
            room, _ = await store.replicas.room_for_copy(7, 1, SIZE)
            gate.set()
        assert refused == ["nobody waits for it any more"]
        assert [one.exists() for one in rooms] == [False, True]
        assert room == rooms[1]


async def test_an_overdraft_that_ends_is_reported_before_the_replica_whose_eviction_ended_it(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_relay, "TOLD_WITHIN_S", 0.0)
    said: list[Message] = []
    async with opened(places, memory=1, scratch=0) as store:
        _relay.StoreRelay(store.replicas, said.append, NodeScheduler(offer_of(Cores(1), own_cores=[0])), {})
        for value in range(2):
            await store.give(value)
        await until(lambda: said == [Stored(0, "", SIZE)])
        store.replicas.spare([0], [1], is_spare=True)
        assert said[1:] == [Stored(0, "", 0), Evicted([0], [1])]
        store.replicas.drop([1], [1])
