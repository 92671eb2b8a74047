"""Questions of a runner without an event loop for room: it waits until its worker has answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grainlike.wire import Frame, Room, RoomIs
from grainlike_worker.runner.process._pipe import Pipe
from grainlike_worker.runner.process._signals import RunnerSignals

__all__ = ["RoomAsker"]


class RoomAsker:
    """Asks for room over `pipe`, and has everything else that comes meanwhile taken by `handle`.

    Example::

        rooms = RoomAsker(pipe, interrupts, handle)         # `handle` gives answers to `rooms.answer`
        rooms.ask(Room(job=7, attempt=1, size=200_064))     # RoomIs(job=7, attempt=1, path="/dev/shm/.../v7-1.part")
    """

    __slots__ = ("_handle", "_interrupts", "_pipe", "_room")

    def __init__(self, pipe: Pipe, interrupts: RunnerSignals, handle: Callable[[Sequence[Frame]], object]) -> None:
        self._pipe = pipe
        self._interrupts = interrupts
        self._handle = handle
        self._room: RoomIs | None = None

    def ask(self, asked: Room) -> RoomIs:
        """Wait until the worker has said where a value goes. A signal may cut the wait short, and nothing else.

        In a child that a job forked there is no worker to ask: no value of it stays.
        """
        if self._pipe.fd < 0:
            return RoomIs(asked.job, asked.attempt)
        self._interrupts.sheltered(lambda: self._pipe.send(asked))
        while self._room is None or (self._room.job, self._room.attempt) != (asked.job, asked.attempt):
            self._read_on()
        return self._room

    def _read_on(self) -> None:
        self._pipe.wait()
        frames: list[Frame] = []
        self._interrupts.sheltered(lambda: frames.extend(self._pipe.receive()))
        self._handle(frames)

    def answer(self, room: RoomIs) -> None:
        """Take the worker's answer."""
        self._room = room
