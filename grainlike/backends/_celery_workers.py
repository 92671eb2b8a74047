"""Watch over Celery's workers: one whose heartbeats have ended is lost, with the tasks that it began."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["WorkersWatch"]

LOOK_S = 10.0
"""Seconds between two looks at the heartbeats of workers: as many as between two heartbeats."""

MISSED = 5
"""Number of looks in a row without a new heartbeat after which a worker is lost."""


class WorkersWatch:
    """Looks for the heartbeats of those workers that have begun tasks; for one thread.

    `read` returns what a worker with an id has written last, None where it has written nothing: such a worker's results
    are kept where heartbeats cannot be, and it is not taken to be lost.
    """

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read
        self._begun: dict[str, tuple[str, str]] = {}
        """Id and name of the worker that began a task, by task. Results do not keep it as long as a job may run."""
        self._last: dict[str, object] = {}
        """Last heartbeat, by worker."""
        self._missed: dict[str, int] = {}
        self._next = 0.0

    def began(self, task: str, told: Any) -> None:
        """Take note of the worker that began a task, as the task has told."""
        if isinstance(told, dict) and "worker" in told:
            self._begun[task] = told["worker"], told.get("name") or "of no name"

    def forget(self, task: str) -> None:
        """Take note that a task has ended, or is lost."""
        self._begun.pop(task, None)

    def look(self) -> None:
        """Look at heartbeats, if it is time to.

        Raises:
            Exception: whatever `read` raises.
        """
        if not self._begun or time.monotonic() < self._next:
            return
        workers = {worker for worker, _ in self._begun.values()}
        self._last = {worker: last for worker, last in self._last.items() if worker in workers}
        self._missed = {worker: missed for worker, missed in self._missed.items() if worker in workers}
        try:
            for worker in workers:
                self._look_at(worker)
        finally:
            self._next = time.monotonic() + LOOK_S  # counted from now: no look makes up for one that came late

    def _look_at(self, worker: str) -> None:
        last = self._read(worker)
        if last is not None and last != self._last.get(worker):
            self._last[worker] = last
            self._missed[worker] = 0
        elif worker in self._last:
            self._missed[worker] += 1

    def why_lost(self, task: str) -> str | None:
        """Return why a task will have no result; None if it may have one."""
        if task not in self._begun:
            return None
        worker, name = self._begun[task]
        if self._missed.get(worker, 0) < MISSED:
            return None
        return (
            f"Celery's worker {name} has given no sign of life for {MISSED * LOOK_S:g} s: it was killed, or cut off. "
            "Celery does not run again what such a worker had begun; retries= does"
        )
