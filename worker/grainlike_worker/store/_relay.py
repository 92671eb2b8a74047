"""Relay between a worker's store, its runners and the head: runners ask for room, and the head is told what is on disk
and what was evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import anyio

from grainlike.scheduler import NodeScheduler
from grainlike.scheduler.store import Replica
from grainlike.wire import DropReplicas, Evicted, Message, Room, RoomIs, SpareReplicas, Stored
from grainlike_worker.store._replicas import StoreFull, WorkerReplicas

__all__ = ["StoreRelay"]

TOLD_WITHIN_S = 0.1
"""Seconds after which the head is told, at the latest, how much is on disk."""

Say = Callable[[Message], object]


class StoreRelay:
    """Messages of the store `replicas` to the head (`say`), and its answers to runners of the `jobs` that are here.
    `scheduler` is that of the node, which grants memory to jobs.

    Example::

        relay = StoreRelay(replicas, link.post, scheduler, jobs)
        relay.give_room(Room(job=7, attempt=1, size=200_064), runner.post)      # posts a RoomIs, at once or later
    """

    def __init__(self, replicas: WorkerReplicas, say: Say, scheduler: NodeScheduler, jobs: Container[int]) -> None:
        self._jobs = jobs
        self._replicas = replicas
        self._say = say
        self._told = Stored(0)
        self._is_due = False
        replicas.granted = lambda: scheduler.granted_memory
        replicas.computing = lambda: scheduler.computing
        replicas.evicted = self._evicted
        replicas.changed = self._changed

    def give_room(self, asked: Room, post: Say) -> None:
        """Answer a runner's request for room. A job that is not here any more gets no room, because nothing would give
        it back.
        """
        if asked.job in self._jobs and self._replicas.directory:
            self._replicas.start(self._answer, asked, post)
        else:
            post(RoomIs(asked.job, asked.attempt))

    def hear(self, message: DropReplicas | SpareReplicas) -> None:
        """Take a message of the head about replicas."""
        match message:
            case DropReplicas(values=values, attempts=attempts):
                self._replicas.drop(values, attempts)
            case SpareReplicas(values=values, attempts=attempts, is_spare=is_spare):
                self._replicas.spare(values, attempts, is_spare=is_spare)

    def link_returned(self) -> None:
        """Report the bytes on disk again, because the last report over the broken link may be lost."""
        self._told = Stored(0)
        self._changed()

    async def _answer(self, asked: Room, post: Say) -> None:
        if asked.job not in self._jobs:  # the job has ended meanwhile, so nothing would give the room back
            post(RoomIs(asked.job, asked.attempt))
            return
        try:
            file = await self._replicas.room_for_output(asked.job, asked.attempt, asked.size)
        except StoreFull as error:
            post(RoomIs(asked.job, asked.attempt, full=str(error)))
        else:
            post(RoomIs(asked.job, asked.attempt, path=str(file)))

    def _evicted(self, replica: Replica) -> None:
        value, attempt = replica
        self._report()  # first: without the replica, the head would move another value for an overdraft that has ended
        self._say(Evicted([value], [attempt]))

    def _changed(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._replicas.start(self._tell)

    async def _tell(self) -> None:
        await anyio.sleep(TOLD_WITHIN_S)
        self._is_due = False
        self._report()

    def _report(self) -> None:
        stored = Stored(self._replicas.spilled, self._replicas.lost, self._replicas.over)
        if stored != self._told:
            self._told = stored
            self._say(stored)
