"""Inputs of a job: the values that the job needs."""

from __future__ import annotations

__all__ = ["JobInputs", "RoomTries"]


class JobInputs:
    """Record of the values that a job needs, and of the worker to which the job was sent with them.

    Attributes:
        inputs: numbers of the values, each once.
        attempts: attempts that had made the values when the job was last sent to a worker to run.
        remakes: True while the job makes a lost value again.
        target: worker to which the job was sent while its inputs are copied there; 0 without one.
        claim: amounts that are counted for the job at `target` until it starts.
        lacks: number of inputs that are on their way to `target`.
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
    """Workers at which the value of a job, of `size` bytes, found no room, with their stores in words.

    A worker at which the job may run once more, or did, is a key with its negated number: images need no field for it.
    """

    __slots__ = ("size", "workers")

    def __init__(self) -> None:
        self.size: int = 0
        self.workers: dict[int, str] = {}

    def may_repeat(self, worker: int) -> bool:
        """Return True if the job ran at a worker, and was not allowed to run there once more."""
        return worker in self.workers and -worker not in self.workers

    def repeat(self, worker: int) -> None:
        """Let the job run once more at a worker."""
        self.workers[-worker] = self.workers.pop(worker)
