"""Replicas that a worker has: a file for each value that stays here, in shared memory or on disk.

Runners write them, in room that this daemon has made, and each is noted when its job's end is told to the head. A job
that ends in any other way leaves no file, however far it had come. Whatever waits for a disk does so in a thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from grainlike.payload import (
    SharedDirectory,
    allocate_replica,
    copy_replica,
    remove_replica,
    replica_file,
    replica_path,
    replica_room,
    seal_replica,
)
from grainlike.scheduler.store import (
    EvictReplica,
    GiveRoom,
    MemoryGranted,
    RefuseRoom,
    Replica,
    ReplicaFound,
    ReplicasRemoved,
    ReplicasUnused,
    ReplicasUsed,
    ReplicaWritten,
    RoomAsked,
    RoomReturned,
    RoomUnfit,
    ScratchLost,
    SpareTold,
    SpillDiscarded,
    SpillEnded,
    SpillKept,
    SpillReplica,
    StoreAction,
    StoreEvent,
    StoreScheduler,
    Tier,
)
from grainlike.system import free_bytes, spare_memory
from grainlike.wire import Code, Completed, Need
from grainlike_worker.store._limits import StoreLimits

__all__ = ["StoreFull", "WorkerReplicas", "open_replicas"]

logger = logging.getLogger("grainlike.worker")

UNLIMITED = StoreLimits(1 << 62)

_AT_ONCE = 4 * 1024 * 1024
"""Bytes of shared memory that are allocated without a thread: it takes a millisecond or two."""

_THREADS = 2

Start = Callable[..., object]


class StoreFull(Exception):  # noqa: N818 - it is no error of this process
    """Raised where there is no room for a replica, nor will be soon. Says both sizes."""


class _RoomAnswer:
    """Room that was asked for: `told` once the mind has answered, by a tier, or None and why."""

    __slots__ = ("answer", "told")

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.answer: Tier | str | None = None


class WorkerReplicas:
    """Replicas by value and attempt, in a directory that is its owner's alone. Without a directory there are none.

    `start` runs a coroutine function in the background: copies to disk need one. `evicted` is told of replicas that
    made room for others, and `changed` that there is more on disk, or less, or that the disk is given up. `granted`
    tells how many bytes of memory jobs have.

    Example::

        with open_replicas() as replicas:
            file = await replicas.room_for_output(7, 1, 200_064)    # for a runner
            replicas.ended(completed)          # jobs have ended; these values stay
            replicas.drop([7], [1])            # the head needs this one no more
    """

    def __init__(
        self, path: Path | None, limits: StoreLimits = UNLIMITED, scratch: SharedDirectory | None = None
    ) -> None:
        self.path = path
        self.sizes: dict[Replica, int] = {}
        """Bytes of each replica."""
        self.rooms: set[Replica] = set()
        """Those for which room was asked, and that are not whole."""
        self.lost = ""
        """Why nothing more is written to disk; empty while it is."""
        self.start: Start = _nowhere
        self.granted: Callable[[], int] = int
        self._granted = 0
        self.evicted: Callable[[Replica], object] = _unheard
        self.changed: Callable[[], object] = bool
        self._place = limits.place
        self._scratch = scratch
        self._mind = StoreScheduler(
            memory=limits.memory, scratch=limits.scratch, slots=limits.slots, machine=limits.machine
        )
        self._told: dict[Replica, _RoomAnswer] = {}
        self._copies: dict[Replica, tuple[Path, int]] = {}
        """Copies on disk that are whole, with their CRC-32, until the mind has said what becomes of them."""
        self.uses: dict[int, list[Replica]] = {}
        """Replicas that leases use."""
        self._threads: anyio.CapacityLimiter | None = None
        self.begun: dict[Replica, int] = {}
        """Bytes that are here of replicas which could not be got whole: the next attempt goes on with them."""
        self._overdue: set[Replica] = set()
        """Attempts that were told to have ended while they went on, and may write a value yet."""

    @property
    def directory(self) -> str:
        """The path of the directory; empty without one."""
        return "" if self.path is None else str(self.path)

    @property
    def spilled(self) -> int:
        """Return the bytes on disk."""
        return self._mind.books.scratch

    @property
    def budget(self) -> tuple[int, int]:
        """Return the bytes of shared memory and of disk that replicas may take."""
        return self._mind.memory, self._mind.scratch

    @property
    def over(self) -> int:
        """Return the bytes by which outputs exceed what they may take of shared memory."""
        return self._mind.over

    def file(self, value: int, attempt: int) -> Path:
        """Return where a replica is, or would be."""
        assert self.path is not None, "a worker without shared memory was asked for a replica"
        return replica_path(self.path, value, attempt)

    # --- room --------------------------------------------------------------------------------------------------------

    async def room_for_output(self, value: int, attempt: int, size: int) -> Path:
        """Return a file of `size` bytes for what a job gave, all of them allocated.

        Raises:
            StoreFull: there is no room for it.
        """
        free = 0 if self._mind.books.memory + size <= self._mind.limit else spare_memory()
        room = self._ask(RoomAsked((value, attempt), size, is_output=True, free=free))
        while True:
            await room.told.wait()
            if not isinstance(room.answer, Tier):
                raise StoreFull(room.answer or "nobody waits for it any more")
            try:
                return await self._allocated(value, attempt, size, room.answer)
            except OSError as error:
                self._misfit(room, (value, attempt), room.answer, error)

    def room_for(self, value: int, attempt: int, size: int) -> Path | None:
        """Return where to write a replica that comes from elsewhere, until it is `whole` or given back; None where
        there is no room. No file is there yet.
        """
        self._discard(value, attempt)
        room = self._ask(RoomAsked((value, attempt), size, is_output=False))
        while isinstance(tier := room.answer, Tier):
            try:
                file = self._room_file(value, attempt, tier)
                if free_bytes(file.parent) >= size:
                    return file
                raise OSError(f"{file.parent} has no room for {size} bytes")
            except OSError as error:
                self._misfit(room, (value, attempt), tier, error)
        return None

    def whole(self, value: int, attempt: int, size: int, crc: int, room: Path) -> None:
        """Note a replica from elsewhere whose bytes are all in its room; `crc` is their CRC-32. `OSError` where it is
        gone.
        """
        seal_replica(room, self.file(value, attempt), crc)
        self.add(value, attempt, size)

    def give_back(self, value: int, attempt: int) -> None:
        """Take back the room of a replica that will not be written."""
        if (value, attempt) in self.rooms:
            self._discard(value, attempt)

    def _ask(self, event: RoomAsked) -> _RoomAnswer:
        room = self._told[event.replica] = _RoomAnswer()
        self.make_way()
        self.rooms.add(event.replica)
        self._tell(event)
        return room

    async def _allocated(self, value: int, attempt: int, size: int, tier: Tier) -> Path:
        """Return the file for a replica, allocated; `OSError` where that is not possible."""
        file = self._room_file(value, attempt, tier)
        if tier is Tier.MEMORY and size <= _AT_ONCE:
            allocate_replica(file, size)
        else:
            await anyio.to_thread.run_sync(allocate_replica, file, size, limiter=self._limiter())
        if (value, attempt) not in self.rooms:  # it was given back meanwhile
            file.unlink(missing_ok=True)
            raise StoreFull("nobody waits for it any more")
        return file

    def _misfit(self, room: _RoomAnswer, replica: Replica, tier: Tier, error: OSError) -> None:
        """A file system cannot give the room that there should be: have the mind find another."""
        if tier is Tier.SCRATCH:
            self._lose_scratch(error)
        room.told = anyio.Event()
        room.answer = None
        if replica in self.rooms:
            self._told[replica] = room
            self._tell(RoomUnfit(replica))
        else:
            room.told.set()

    def _room_file(self, value: int, attempt: int, tier: Tier) -> Path:
        file = self.file(value, attempt)
        return replica_room(file.parent if tier is Tier.MEMORY else self._disk(), file)

    def _disk(self) -> Path:
        """Return the directory on disk, made when it is first needed; `OSError` where that is not possible."""
        if self._scratch is None and self._place is not None:
            self._scratch = SharedDirectory.make(self._place)
        if self._scratch is None:
            raise OSError(f"no directory can be made in {self._place}")
        return self._scratch.path

    # --- the ends of jobs --------------------------------------------------------------------------------------------

    def add(self, value: int, attempt: int, size: int) -> None:
        """Note a replica that is whole."""
        self.sizes[value, attempt] = size
        if (value, attempt) in self.rooms:
            self.rooms.discard((value, attempt))
            self._tell(ReplicaWritten((value, attempt)))
        else:
            self._tell(ReplicaFound((value, attempt), size))

    def begin(self, value: int, attempt: int) -> None:
        """Make the file that a data server fills, unless it is there; `drop` removes it. Raises `OSError`."""
        if self.path is None:
            raise FileNotFoundError("there is no shared memory")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(replica_room(self.path, self.file(value, attempt)), flags, 0o600))

    def ended(self, completed: Completed) -> None:
        """Take the ends of attempts as they are told to the head: note values that stay, and leave no others."""
        sizes = completed.sizes or [0] * len(completed.jobs)
        for job, attempt, code, size in zip(completed.jobs, completed.attempts, completed.codes, sizes, strict=True):
            if not attempt:
                continue  # it was handed back inside this worker, or its end was told before
            if size:
                self.add(job, attempt, size)
            elif code != Code.SUCCEEDED or (job, attempt) in self.rooms:
                self._discard(job, attempt)
                if code == Code.TIMED_OUT:
                    self._overdue.add((job, attempt))
        for value in completed.gone:
            self._forget(value)

    def only_told(self, completed: Completed) -> None:
        """Remove values of a runner's message that were not told to the head: their jobs had been given up."""
        for job, attempt, size in zip(completed.jobs, completed.attempts, completed.sizes, strict=True):
            if size and (job, attempt) not in self.sizes:
                self._discard(job, attempt)

    def runner_gone(self) -> None:
        """A runner is gone: remove what jobs that had been given up may have written."""
        for job, attempt in self._overdue:
            self._discard(job, attempt)
        self._overdue.clear()

    # --- uses --------------------------------------------------------------------------------------------------------

    def used(self, lease: int, needs: Iterable[Iterable[Need]]) -> None:
        """A lease begins whose jobs need these replicas: they stay as they are until it has `ended_use`."""
        for need in (need for row in needs for need in row):
            replica = (need.value, need.attempt)
            if replica not in self.sizes:  # another worker of this machine has given it a name here
                self.add(*replica, need.size)
            self.uses.setdefault(lease, []).append(replica)
        if lease in self.uses:
            self._tell(ReplicasUsed(self.uses[lease]))
        if self.sizes:
            self.make_way()

    def ended_use(self, lease: int) -> None:
        """A lease has ended."""
        uses = self.uses.pop(lease, None)
        if uses is not None:
            self._tell(ReplicasUnused(uses))

    def make_way(self) -> None:
        """Have values give way to what is granted to jobs of memory, if that has changed."""
        granted = self.granted()
        if granted != self._granted:
            self._granted = granted
            self._tell(MemoryGranted(granted))

    # --- what the head says ------------------------------------------------------------------------------------------

    def drop(self, values: Iterable[int], attempts: Iterable[int]) -> None:
        """Remove replicas, noted or not; whoever has mapped one keeps it."""
        for value, attempt in zip(values, attempts, strict=True):
            self._discard(value, attempt)

    def spare(self, values: Iterable[int], attempts: Iterable[int], *, is_spare: bool) -> None:
        """Let replicas be evicted, or no longer."""
        self._tell(SpareTold(list(zip(values, attempts, strict=True)), is_spare))

    def _forget(self, value: int) -> None:
        for noted, attempt in [one for one in self.sizes if one[0] == value]:
            self._discard(noted, attempt)

    def _discard(self, value: int, attempt: int) -> None:
        replica = (value, attempt)
        whole = self.sizes.pop(replica, None)
        if self.begun:
            self.begun.pop(replica, None)
        if self.path is not None:
            remove_replica(replica_file(str(self.path), value, attempt))
            if not whole:
                self._remove_rooms(self.file(value, attempt))
        if replica in self.rooms:
            self.rooms.discard(replica)
            room = self._told.pop(replica, None)
            if room is not None:
                room.told.set()
            self._tell(RoomReturned(replica))
        self._tell(ReplicasRemoved([replica]))

    def _remove_rooms(self, file: Path) -> None:
        for place in (file.parent, *([] if self._scratch is None else [self._scratch.path])):
            replica_room(place, file).unlink(missing_ok=True)

    # --- what the mind says ------------------------------------------------------------------------------------------

    def _tell(self, event: StoreEvent) -> None:
        before = self._mind.books.scratch, self._mind.over
        for action in self._mind.handle(event):
            self._act(action)
        if (self._mind.books.scratch, self._mind.over) != before:
            self.changed()

    def _act(self, action: StoreAction) -> None:
        match action:
            case GiveRoom(replica=replica, tier=tier):
                self._answer(replica, tier)
            case RefuseRoom():
                self._answer(action.replica, _why_full(action, self.lost))
                self.rooms.discard(action.replica)
            case EvictReplica(replica=replica):
                del self.sizes[replica]
                remove_replica(self.file(*replica))
                self.evicted(replica)
            case SpillReplica(replica=replica):
                self.start(self._spill, replica)
            case SpillKept(replica=replica):
                room, crc = self._copies.pop(replica)
                try:
                    seal_replica(room, self.file(*replica), crc)
                except OSError as error:  # the replica in memory is as it was, beyond the books until it is dropped
                    self._lose_scratch(error)
            case SpillDiscarded(replica=replica):
                self._copies.pop(replica)[0].unlink(missing_ok=True)

    def _answer(self, replica: Replica, answer: Tier | str) -> None:
        room = self._told.pop(replica)
        room.answer = answer
        room.told.set()

    # --- the disk ----------------------------------------------------------------------------------------------------

    async def _spill(self, replica: Replica) -> None:
        """Copy a replica to disk."""
        try:
            room = self._room_file(*replica, Tier.SCRATCH)
            copy = await anyio.to_thread.run_sync(copy_replica, self.file(*replica), room, limiter=self._limiter())
        except OSError as error:
            if replica in self.sizes:
                self._lose_scratch(error)
            self._tell(SpillEnded(replica, is_whole=False))
        else:
            self._copies[replica] = room, copy
            self._tell(SpillEnded(replica, is_whole=True))

    def _lose_scratch(self, error: OSError) -> None:
        """The disk is full, or errs: write no more to it."""
        if not self.lost:
            self.lost = f"no value is written to {self._place} any more: {error.strerror or error}"
            logger.warning("%s; what does not fit into memory has no room now", self.lost)
            self._tell(ScratchLost())
            self.changed()

    def _limiter(self) -> anyio.CapacityLimiter:
        """Return what lets these threads wait for each other, and not for those of the user's program."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return self._threads

    def remove(self) -> None:
        """Remove the directory on disk with all that is in it."""
        if self._scratch is not None:
            self._scratch.remove()


@contextmanager
def open_replicas(limits: StoreLimits = UNLIMITED) -> Iterator[WorkerReplicas]:
    """Make a worker's directory of replicas, if there is shared memory; remove it with all that is in it at the end,
    and the one on disk, if one was made.
    """
    made = SharedDirectory.make()
    if limits.place is not None:
        SharedDirectory.sweep(limits.place)
    replicas = WorkerReplicas(None if made is None else made.path, limits)
    try:
        yield replicas
    finally:
        replicas.remove()
        if made is not None:
            made.remove()


def _why_full(refusal: RefuseRoom, lost: str) -> str:
    has = f"the store of its worker has {refusal.memory:,} bytes of shared memory, and {refusal.scratch:,} of disk"
    words = f"there is no room for {refusal.size:,} bytes: {has}, all in use, or too small"
    return f"{words}; {lost}" if lost else words


def _nowhere(*_: object) -> None:
    raise RuntimeError("these replicas have nowhere to run what waits for a disk")


def _unheard(_: Replica) -> None:
    """Take an eviction of which nobody is to hear."""
