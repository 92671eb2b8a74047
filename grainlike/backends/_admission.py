"""Admission of jobs to a backend: by priority, then by age; those that do not fit are passed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, Protocol, TypeVar

from grainlike.resources import Request

__all__ = ["PASSES", "AdmissionQueue", "QueuedCall"]

PASSES = 16
"""Number of jobs that may pass an older one of no lower priority that does not fit; then all wait."""


class QueuedCall(Protocol):
    """Queued job."""

    @property
    def request(self) -> Request:
        """Request of the job."""
        ...

    @property
    def rank(self) -> int:
        """The higher, the earlier."""
        ...


E = TypeVar("E", bound=QueuedCall)


class AdmissionQueue(Generic[E]):
    """A queue for each request and rank. What asks for the same waits for the same, so only the heads are looked at."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, Request], deque[tuple[int, E]]] = {}
        self._passed: dict[tuple[int, Request], int] = {}
        self._numbers = count()

    def add(self, entry: E) -> None:
        """Let it wait behind all others like it."""
        queue = self._queues.setdefault((-entry.rank, entry.request), deque())
        queue.append((next(self._numbers), entry))

    def remove(self, entry: E) -> bool:
        """Let it wait no more; False if it does not."""
        key = (-entry.rank, entry.request)
        queue = self._queues.get(key, deque())
        for at, (_, waiting) in enumerate(queue):
            if waiting is entry:
                del queue[at]
                self._drop_empty(key)
                return True
        return False

    def admit(self, take: Callable[[E], bool]) -> Iterator[E]:
        """Iterate over the jobs that may start now, in order. `take` takes the slots of one, or returns False if it
        does not fit.
        """
        while True:
            chosen = self._first(take)
            if chosen is None:
                return
            yield chosen

    def _first(self, take: Callable[[E], bool]) -> E | None:
        refused: list[tuple[int, Request]] = []
        for key in sorted(self._queues, key=lambda key: (key[0], self._queues[key][0][0])):
            _, entry = self._queues[key][0]
            if take(entry):
                self._queues[key].popleft()
                self._passed.pop(key, None)
                for older in refused:
                    self._passed[older] = self._passed.get(older, 0) + 1
                self._drop_empty(key)
                return entry
            if self._passed.get(key, 0) >= PASSES:
                return None
            refused.append(key)
        return None

    def _drop_empty(self, key: tuple[int, Request]) -> None:
        if not self._queues[key]:
            del self._queues[key]
            self._passed.pop(key, None)
