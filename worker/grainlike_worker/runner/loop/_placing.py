"""Placing of values that stay at a worker: a coroutine waits for room while its loop turns, and then writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import anyio

from grainlike.context import JobInfo
from grainlike.payload import Payload, replica_size
from grainlike.wire import Message, Room, RoomIs
from grainlike_worker.runner.common._functions import LoadedFunctions
from grainlike_worker.runner.common._outcomes import Stays

__all__ = ["Placed", "ValuePlacing"]


class Placed(NamedTuple):
    """Stands for the value of a job that has been placed: what is told of it."""

    outcome: Payload | Stays


class _AwaitedRoom:
    __slots__ = ("room", "told")

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.room: RoomIs | None = None


class ValuePlacing:
    """Values of `functions` that stay, and wait for room, for which the worker is asked by `post`.

    Example::

        placing = ValuePlacing(functions, link.post)
        placed = await placing.place(payload, info)          # meanwhile: placing.answer(RoomIs(...))
    """

    def __init__(self, functions: LoadedFunctions, post: Callable[[Message], object]) -> None:
        self._functions = functions
        self._post = post
        self._waiting: dict[tuple[int, int], _AwaitedRoom] = {}

    async def place(self, payload: Payload, info: JobInfo, travelling: Callable[[], Payload] | None = None) -> Placed:
        """Write a value once there is room for it; cancelled before, it writes nothing. `travelling`: see
        `LoadedFunctions.written`.

        Raises:
            NoRoomError: there is none.
        """
        asked = Room(info.id, info.attempt, replica_size(payload))
        waiting = self._waiting[info.id, info.attempt] = _AwaitedRoom()
        try:
            self._post(asked)
            await waiting.told.wait()
        finally:
            del self._waiting[info.id, info.attempt]
        assert waiting.room is not None
        outcome = self._functions.written(payload, waiting.room, travelling)
        return Placed(outcome if isinstance(outcome, Stays) else outcome.detached())

    def answer(self, room: RoomIs) -> None:
        """Take the worker's answer; there may be no caller that waits for it any more."""
        waiting = self._waiting.get((room.job, room.attempt))
        if waiting is not None:
            waiting.room = room
            waiting.told.set()
