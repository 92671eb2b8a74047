"""Inputs of a job: the values that it needs, which stay at workers."""

from __future__ import annotations

__all__ = ["JobInputs", "RoomTries"]


class JobInputs:
    """The values that a job needs, and its way to them; of a job whose value is made again, that, too.

    Attributes:
        inputs: numbers of the values, each once.
        attempts: those that made the values with which it was sent to a worker last.
        remakes: True while it makes a value again.
        target: the worker that it was sent to, with its inputs; 0 without one.
        claim: the amounts that it is counted with there until it starts.
        lacks: number of its inputs that are on their way to `target`.
    """

    __slots__ = ("attempts", "claim", "inputs", "lacks", "remakes", "target")

    def __init__(self, inputs: tuple[int, ...], *, remakes: bool = False) -> None:
        self.inputs: tuple[int, ...] = inputs
        self.attempts: tuple[int, ...] = ()
        self.remakes: bool = remakes
        self.target: int = 0
        self.claim: tuple[tuple[str, int], ...] = ()
        self.lacks: int = 0


class RoomTries:
    """Workers at which the value of a job, of `size` bytes, found no room, with their stores in words."""

    __slots__ = ("size", "workers")

    def __init__(self) -> None:
        self.size: int = 0
        self.workers: dict[int, str] = {}
