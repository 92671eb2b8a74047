"""Replicas that a worker has: files of its own directory of shared memory, one for each value that stays here.

Runners write them, and each is noted when its job's end is told to the head. A job that ends in any other way leaves no
file, however far it had come: its runner removes what it has written, and this daemon what a dead runner could not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grainlike.payload import SharedDirectory, replica_file, replica_path
from grainlike.wire import Code, Completed

__all__ = ["WorkerReplicas", "open_replicas"]


class WorkerReplicas:
    """Replicas by value and attempt, in a directory that is its owner's alone. Without a directory there are none.

    Example::

        with open_replicas() as replicas:
            replicas.ended(completed)          # jobs have ended; these values stay
            replicas.drop([7], [1])            # the head needs this one no more
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.sizes: dict[tuple[int, int], int] = {}
        """Bytes of each replica."""
        self.begun: dict[tuple[int, int], int] = {}
        """Bytes that are here of replicas which could not be got whole: the next attempt goes on with them."""
        self._overdue: set[tuple[int, int]] = set()
        """Attempts that were told to have ended while they went on, and may write a value yet."""

    @property
    def directory(self) -> str:
        """The path of the directory; empty without one."""
        return "" if self.path is None else str(self.path)

    def file(self, value: int, attempt: int) -> Path:
        """Return where a replica is, or would be."""
        assert self.path is not None, "a worker without shared memory was asked for a replica"
        return replica_path(self.path, value, attempt)

    def add(self, value: int, attempt: int, size: int) -> None:
        """Note a replica that is whole."""
        self.sizes[value, attempt] = size

    def begin(self, value: int, attempt: int) -> None:
        """Make the file that a data server fills, unless it is there; `drop` removes it. Raises `OSError`."""
        if self.path is None:
            raise FileNotFoundError("there is no shared memory")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(f"{self.file(value, attempt)}.part", flags, 0o600))

    def ended(self, completed: Completed) -> None:
        """Take the ends of attempts as they are told to the head: note values that stay, and leave no others."""
        sizes = completed.sizes or [0] * len(completed.jobs)
        for job, attempt, code, size in zip(completed.jobs, completed.attempts, completed.codes, sizes, strict=True):
            if not attempt:
                continue  # it was handed back inside this worker, or its end was told before
            if size:
                self.add(job, attempt, size)
            elif code != Code.SUCCEEDED:
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

    def drop(self, values: Iterable[int], attempts: Iterable[int]) -> None:
        """Remove replicas, noted or not; whoever has mapped one keeps it."""
        for value, attempt in zip(values, attempts, strict=True):
            self._discard(value, attempt)

    def _forget(self, value: int) -> None:
        for noted, attempt in [one for one in self.sizes if one[0] == value]:
            self._discard(noted, attempt)

    def _discard(self, value: int, attempt: int) -> None:
        whole = self.sizes.pop((value, attempt), None)
        if self.begun:
            self.begun.pop((value, attempt), None)
        if self.path is not None:
            file = replica_file(str(self.path), value, attempt)
            for path in (file,) if whole else (file, f"{file}.part"):
                with suppress(OSError):
                    os.unlink(path)  # noqa: PTH108 - a `Path` for each costs as much as all else


@contextmanager
def open_replicas() -> Iterator[WorkerReplicas]:
    """Make a worker's directory of replicas, if there is shared memory; remove it with all that is in it at the end."""
    made = SharedDirectory.make()
    try:
        yield WorkerReplicas(None if made is None else made.path)
    finally:
        if made is not None:
            made.remove()
