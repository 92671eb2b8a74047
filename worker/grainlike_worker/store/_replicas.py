"""Replicas of a worker: one file for each value that stays here, in shared memory or on disk.

Runners write the files, in room that this daemon has made. A replica is noted when the end of its job is reported to
the head. A job that ends in any other way leaves no file. Every step that waits for a disk runs in a thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from grainlike.payload import (
    SPARE_LEAST,
    SharedDirectory,
    SpareFiles,
    copy_replica,
    remove_replica,
    replica_file,
    replica_path,
    seal_replica,
)
from grainlike.resources import MEMORY, UNIT, amount_texts
from grainlike.scheduler.store import (
    CopyLeft,
    EvictReplica,
    GiveRoom,
    LookAt,
    MemoryFree,
    MemoryGranted,
    PaybackDue,
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
    busy_leases,
)
from grainlike.system import spare_memory
from grainlike.wire import Code, Completed, Need
from grainlike_worker.store._held_memory import HeldMemory
from grainlike_worker.store._limits import StoreLimits
from grainlike_worker.store._rooms import LeftRoom, ReplicaRoom, RoomFiles

__all__ = ["StoreFull", "WorkerReplicas", "open_replicas"]

logger = logging.getLogger("grainlike.worker")

UNLIMITED = StoreLimits(1 << 62)

SPARE_S = 1.0
"""Seconds for which a file that nothing needs is kept for the next value."""

_UNWANTED = "nobody waits for it any more"

Start = Callable[..., object]


class StoreFull(Exception):  # noqa: N818 - it is no error of this process
    """Raised if there is no room for a replica, and will be none soon. Names both sizes."""


class WorkerReplicas:
    """Replicas by value and attempt, in a directory that only its owner can enter. Without a directory there are none.

    `start` runs a coroutine function in the background, for copies to disk. `evicted` is called with each replica that
    was removed to make room. `changed` is called when the bytes on disk have changed, or the disk is given up.
    `granted` returns the bytes of memory that jobs have; `computing` the jobs of each lease that does not wait for jobs
    of its own.

    Example::

        with open_replicas() as replicas:
            file = await replicas.room_for_output(7, 1, 200_064)    # for a runner
            replicas.ended(completed)          # jobs have ended; these values stay
            replicas.drop([7], [1])            # the head needs this one no more
    """

    def __init__(
        self,
        path: Path | None,
        limits: StoreLimits = UNLIMITED,
        scratch: SharedDirectory | None = None,
        held: HeldMemory | None = None,
        spare: SpareFiles | None = None,
    ) -> None:
        self.path = path
        self.sizes: dict[Replica, int] = {}
        """Bytes of each replica."""
        self.rooms: dict[Replica, ReplicaRoom] = {}
        """Rooms of replicas that are not whole, given or asked for."""
        self.lost = ""
        """Why nothing more is written to disk; empty while the disk is used."""
        self.start: Start = _nowhere
        self.granted: Callable[[], int] = int
        self._granted = 0
        self.computing: Callable[[], Mapping[int, Iterable[int]]] = dict
        self.evicted: Callable[[Replica], object] = _unheard
        self.changed: Callable[[], object] = bool
        self._place = limits.place
        self._files = RoomFiles(path, limits.place, scratch, held, spare)
        self._held: dict[Replica, Path] = {}
        """Memory of whole replicas that this process holds."""
        self._scheduler = StoreScheduler(
            memory=limits.memory, scratch=limits.scratch, slots=limits.slots, machine=limits.machine
        )
        self._told: dict[Replica, ReplicaRoom] = {}
        """Rooms for which the store scheduler has not answered."""
        self._copies: dict[Replica, tuple[Path, int]] = {}
        """Whole copies on disk with their CRC-32, until the store scheduler keeps or discards them."""
        self.uses: dict[int, list[Replica]] = {}
        """Replicas that each lease uses."""
        self.begun: dict[Replica, LeftRoom] = {}
        """Rooms with the bytes of copies that broke off."""
        self._overdue: set[Replica] = set()
        """Attempts that were reported as timed out while they still run, and may still write a value."""

    @property
    def directory(self) -> str:
        """Path of the directory; empty without one."""
        return "" if self.path is None else str(self.path)

    @property
    def spilled(self) -> int:
        """Bytes on disk."""
        return self._scheduler.records.scratch

    @property
    def budget(self) -> tuple[int, int]:
        """Bytes of shared memory and of disk that replicas may take."""
        return self._scheduler.memory, self._scheduler.scratch

    @property
    def over(self) -> int:
        """Bytes by which outputs exceed the budget of shared memory."""
        return self._scheduler.over

    def file(self, value: int, attempt: int) -> Path:
        """Return the path of a replica, whether or not it exists."""
        assert self.path is not None, "a worker without shared memory was asked for a replica"
        return replica_path(self.path, value, attempt)

    # --- room --------------------------------------------------------------------------------------------------------

    async def room_for_output(self, value: int, attempt: int, size: int) -> Path:
        """Return a file of `size` bytes, all allocated, for the value of a job.

        Raises:
            StoreFull: there is no room for it.
        """
        self.make_way()
        if self._scheduler.records.memory + size <= self._scheduler.limit:
            return await self._room(RoomAsked((value, attempt), size, is_output=True))
        free, busy = spare_memory(), self._busy({value})
        return await self._room(RoomAsked((value, attempt), size, is_output=True, free=free, busy=busy))

    async def room_for_copy(self, value: int, attempt: int, size: int) -> tuple[Path, int]:
        """Return a file of `size` bytes, all allocated, for a replica from another worker, and how many bytes of it an
        unfinished copy has left there. The room is kept until the replica is `whole`, or the room is given back.

        Raises:
            StoreFull: there is no room for it.
        """
        self.make_way()  # this may evict the room that an unfinished copy has left
        left = self.begun.pop((value, attempt), None)
        if left is None or left.size != size:
            self._discard(value, attempt)
            if left is not None:
                self._files.release(left.path)
                left = None
        return await self._room(RoomAsked((value, attempt), size, is_output=False), left), left.at if left else 0

    def left_off(self, value: int, attempt: int) -> int:
        """Return how many bytes of a replica an unfinished copy has left."""
        left = self.begun.get((value, attempt))
        return 0 if left is None else left.at

    def whole(self, value: int, attempt: int, size: int, crc: int) -> None:
        """Note a replica from another worker whose bytes are all in its room; `crc` is their CRC-32, for a room on
        disk. Raises `OSError` if the room is gone.
        """
        room = self.rooms.get((value, attempt))
        if room is None or room.path is None:
            raise FileNotFoundError("it was dropped")
        seal_replica(room.path, self.file(value, attempt), crc)
        self.add(value, attempt, size)

    def give_back(self, value: int, attempt: int) -> None:
        """Release the room of a replica that will not be written."""
        if (value, attempt) in self.rooms:
            self._discard(value, attempt)

    def leave(self, value: int, attempt: int, size: int, at: int) -> None:
        """Keep the first `at` bytes of a copy that broke off for the next copy, until others need their room."""
        room = self.rooms.get((value, attempt))
        if not at or room is None or room.path is None:
            self.give_back(value, attempt)
            return
        del self.rooms[value, attempt]
        self.begun[value, attempt] = LeftRoom(room.path, size, at)
        self._tell(CopyLeft((value, attempt)))

    async def _room(self, event: RoomAsked, left: LeftRoom | None = None) -> Path:
        """Return the file of a room, or the room that was left, if there is any. Raises `StoreFull` without room."""
        room = self.rooms[event.replica] = self._told[event.replica] = ReplicaRoom()
        room.path = None if left is None else left.path
        self._tell(event)
        while True:
            if not room.told.is_set():
                await room.told.wait()
            if not isinstance(room.answer, Tier):
                raise StoreFull(room.answer or _UNWANTED)
            if room.path is not None:
                return room.path
            try:
                free = self._scheduler.limit - self._scheduler.records.memory
                path = await self._files.allocate(self.file(*event.replica), event.size, room.answer, free)
            except OSError as error:
                self._misfit(room, event.replica, room.answer, error)
                continue
            if self.rooms.get(event.replica) is not room:  # the room was given back meanwhile
                self._files.release(path)
                raise StoreFull(_UNWANTED)
            room.path = path

    def _misfit(self, room: ReplicaRoom, replica: Replica, tier: Tier, error: OSError) -> None:
        """Ask the store scheduler for other room, because a file system cannot give the room that it should have."""
        if tier is Tier.SCRATCH:
            self._lose_scratch(error)
        room.told = anyio.Event()
        room.answer = None
        if self.rooms.get(replica) is room:
            self._told[replica] = room
            self._tell(RoomUnfit(replica))
        else:
            room.told.set()

    # --- the ends of jobs --------------------------------------------------------------------------------------------

    def add(self, value: int, attempt: int, size: int) -> None:
        """Note a replica that is whole."""
        left = self.begun.pop((value, attempt), None)
        if left is not None:  # the replica has come another way, so the unfinished copy is not needed
            self._remove_left(value, attempt, left)
        self.sizes[value, attempt] = size
        room = self.rooms.pop((value, attempt), None)
        if room is not None:
            held = self._files.seal(room.path)
            if held is not None:
                self._held[value, attempt] = held
            self._tell(ReplicaWritten((value, attempt)))
        else:
            self._tell(ReplicaFound((value, attempt), size))

    def ended(self, completed: Completed) -> None:
        """Take the ends of attempts as they are reported to the head: note values that stay, and remove other files."""
        sizes = completed.sizes or [0] * len(completed.jobs)
        for job, attempt, code, size in zip(completed.jobs, completed.attempts, completed.codes, sizes, strict=True):
            if not attempt:
                continue  # the job was handed back inside this worker, or its end was reported before
            if size:
                self.add(job, attempt, size)
            elif code != Code.SUCCEEDED or (job, attempt) in self.rooms:
                self._discard(job, attempt)
                if code == Code.TIMED_OUT:
                    self._overdue.add((job, attempt))
        for value in completed.gone:
            self._forget(value)

    def only_told(self, completed: Completed) -> None:
        """Remove values of a runner's message that were not reported to the head: their jobs had been given up."""
        for job, attempt, size in zip(completed.jobs, completed.attempts, completed.sizes, strict=True):
            if size and (job, attempt) not in self.sizes:
                self._discard(job, attempt)

    def runner_gone(self) -> None:
        """Remove the files that jobs which had been given up may have written, after their runner has ended."""
        for job, attempt in self._overdue:
            self._discard(job, attempt)
        self._overdue.clear()

    # --- uses --------------------------------------------------------------------------------------------------------

    def used(self, lease: int, needs: Iterable[Iterable[Need]]) -> None:
        """Record that a lease begins whose jobs need these replicas; they stay as they are until `ended_use`."""
        for need in (need for row in needs for need in row):
            replica = (need.value, need.attempt)
            if replica not in self.sizes:  # the head has linked the file of another worker of this machine here
                self.add(*replica, need.size)
            self.uses.setdefault(lease, []).append(replica)
        if lease in self.uses:
            self._tell(ReplicasUsed(lease, self.uses[lease]))
        if self.sizes:
            self.make_way()

    def ended_use(self, lease: int) -> None:
        """Record that a lease has ended."""
        if self.uses.pop(lease, None) is not None:
            self._tell(ReplicasUnused(lease))

    def make_way(self) -> None:
        """Move values out of memory that is granted to jobs, if that has changed."""
        granted = self.granted()
        if granted != self._granted:
            self._granted = granted
            self._tell(MemoryGranted(granted))

    # --- messages of the head ----------------------------------------------------------------------------------------

    def drop(self, values: Iterable[int], attempts: Iterable[int]) -> None:
        """Remove replicas, noted or not; processes that have mapped a file keep its bytes."""
        for value, attempt in zip(values, attempts, strict=True):
            self._discard(value, attempt)

    def spare(self, values: Iterable[int], attempts: Iterable[int], *, is_spare: bool) -> None:
        """Allow replicas to be evicted, or forbid it again."""
        self._tell(SpareTold(list(zip(values, attempts, strict=True)), is_spare))

    def _forget(self, value: int) -> None:
        for noted, attempt in [one for one in self.sizes if one[0] == value]:
            self._discard(noted, attempt)

    def _discard(self, value: int, attempt: int) -> None:
        replica = (value, attempt)
        size = self.sizes.pop(replica, 0)
        if self.begun and (left := self.begun.pop(replica, None)) is not None:
            self._files.release(left.path)
        if self.path is not None:
            self._remove_file(replica, size)
        room = self.rooms.pop(replica, None)
        if room is not None:
            self._files.release(room.path)
            self._told.pop(replica, None)
            room.told.set()
            self._tell(RoomReturned(replica))
        self._tell(ReplicasRemoved([replica]))

    def _remove_left(self, value: int, attempt: int, left: LeftRoom) -> None:
        self._files.release(left.path)
        self._tell(ReplicasRemoved([(value, attempt)]))

    # --- the store scheduler -----------------------------------------------------------------------------------------

    def _tell(self, event: StoreEvent) -> None:
        before = self._scheduler.records.scratch, self._scheduler.over
        if self._scheduler.late:
            self._do(MemoryFree(spare_memory()))
        self._do(event)
        if (self._scheduler.records.scratch, self._scheduler.over) != before:
            self.changed()

    def _do(self, event: StoreEvent) -> None:
        for action in self._scheduler.handle(event, time.monotonic()):
            self._act(action)

    def _act(self, action: StoreAction) -> None:
        match action:
            case GiveRoom(replica=replica, tier=tier):
                self._answer(replica, tier)
            case RefuseRoom():
                records = self._scheduler.records
                self._answer(action.replica, _why_full(action, (records.memory, records.scratch), self.lost))
                del self.rooms[action.replica]
            case EvictReplica(replica=replica):
                self._evict(replica)
            case SpillReplica(replica=replica):
                self.start(self._spill, replica)
            case SpillKept(replica=replica):
                room, crc = self._copies.pop(replica)
                try:
                    seal_replica(room, self.file(*replica), crc)
                except OSError as error:  # the replica stays in memory, uncounted, until it is dropped
                    self._lose_scratch(error)
                else:
                    self._files.release(self._held.pop(replica, None))
            case SpillDiscarded(replica=replica):
                self._copies.pop(replica)[0].unlink(missing_ok=True)
            case LookAt(at=at):
                self.start(self._look, at)

    async def _look(self, at: float) -> None:
        await anyio.sleep(max(0.0, at - time.monotonic()))
        self._tell(PaybackDue(self._busy()))

    def _busy(self, asking: Iterable[int] = ()) -> list[int]:
        """Return the leases that use replicas and compute, while these jobs ask for room."""
        if not self.uses:
            return []
        return busy_leases(self.computing(), self.uses, {*asking, *(job for job, _ in self._told)})

    def _answer(self, replica: Replica, answer: Tier | str) -> None:
        room = self._told.pop(replica)
        room.answer = answer
        room.told.set()

    def _evict(self, replica: Replica) -> None:
        left = self.begun.pop(replica, None)
        if left is not None:  # the head learns this when the next copy is to go on there
            self._files.release(left.path)
            return
        self._remove_file(replica, self.sizes.pop(replica))
        self.evicted(replica)

    def _remove_file(self, replica: Replica, size: int) -> None:
        """Remove a replica's file, or keep it for a moment, because the next value may be written over it."""
        spare = self._files.spare
        if spare is not None and size >= SPARE_LEAST and spare.keep(self.file(*replica)):
            self.start(self._give_back, spare, spare.count)
            return
        remove_replica(replica_file(self.directory, *replica))
        if self._held:
            self._files.release(self._held.pop(replica, None))

    async def _give_back(self, spare: SpareFiles, count: int) -> None:
        await anyio.sleep(SPARE_S)
        spare.shrink(spare.nbytes, count)

    # --- the disk ----------------------------------------------------------------------------------------------------

    async def _spill(self, replica: Replica) -> None:
        """Copy a replica to disk."""
        try:
            file = self.file(*replica)
            room = self._files.path(file, Tier.SCRATCH)
            copy = await anyio.to_thread.run_sync(copy_replica, file, room, limiter=self._files.limiter())
        except OSError as error:
            if replica in self.sizes:
                self._lose_scratch(error)
            self._tell(SpillEnded(replica, is_whole=False))
        else:
            self._copies[replica] = room, copy
            self._tell(SpillEnded(replica, is_whole=True))

    def _lose_scratch(self, error: OSError) -> None:
        """Write no more to the disk, because it is full or fails."""
        if not self.lost:
            self.lost = f"no value is written to {self._place} any more: {error.strerror or error}"
            logger.warning("%s; values that do not fit into memory have no room now", self.lost)
            self._tell(ScratchLost())
            self.changed()

    def remove(self) -> None:
        """Remove the directory on disk with all that is in it."""
        self._files.remove()


@contextmanager
def open_replicas(limits: StoreLimits = UNLIMITED, *, in_program: bool = False) -> Iterator[WorkerReplicas]:
    """Make a worker's directory of replicas, if there is shared memory. At the end, remove the directory with all
    files, and the directory on disk, if one was made. With `in_program`, this process is a user's program.
    """
    made = SharedDirectory.make()
    if limits.place is not None:
        SharedDirectory.sweep(limits.place)
    held = HeldMemory(in_program=in_program) if limits.is_held else None
    spare = None if made is None or limits.is_held else SpareFiles(made.path)
    replicas = WorkerReplicas(None if made is None else made.path, limits, held=held, spare=spare)
    try:
        yield replicas
    finally:
        replicas.remove()
        if made is not None:
            made.remove()


def _why_full(refusal: RefuseRoom, used: tuple[int, int], lost: str) -> str:
    """Return why a value has no room, with the bytes `used` in each tier, and what would help."""
    beyond = max(0, used[0] - refusal.memory)
    sizes = refusal.size, refusal.memory, refusal.scratch, *used, beyond
    texts = amount_texts(MEMORY, *(UNIT * size for size in sizes))
    size, memory, scratch, in_memory, on_disk, more = (f"{one} bytes" if one.isdecimal() else one for one in texts)
    larger = "give the worker a larger store (--store, --scratch-limit)"
    has = f"the store of its worker has {memory} of shared memory, and {scratch} of disk"
    if refusal.size > max(refusal.memory, refusal.scratch):
        why = f"so it can never hold that: {larger}, or make smaller values"
    else:
        over = f" ({more} beyond the limit, for the last values that found no room)" if beyond else ""
        why = (
            f"of which {in_memory}{over} and {on_disk} are in use: delete placeholders that nothing needs, or {larger}"
        )
    words = f"there is no room for {size}: {has}, {why}"
    return f"{words}; {lost}" if lost else words


def _nowhere(*_: object) -> None:
    raise RuntimeError("these replicas have nowhere to run what waits for a disk")


def _unheard(_: Replica) -> None:
    """Ignore an eviction that nothing needs to know."""
