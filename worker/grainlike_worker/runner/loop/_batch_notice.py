"""Signal of a batch system to every process of its job, as a process of many coroutines takes it.

Programs that jobs have started die of such a signal at once, and the jobs then fail for it, maybe before the daemon has
handled its own. A job that has failed waits a moment for the daemon's word: where it was to be stopped, it counts as
that, and not as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from grainlike_worker.ipc._signals import LATE_S, WORD_S
from grainlike_worker.runner.common._usage import count_of_ended_children

__all__ = ["BatchNotice"]

_TURNS = 4
"""Turns in which an event loop hands on a signal that has come: asyncio's reads it in the next one, and calls the
handler in the one after that.
"""


class BatchNotice:
    """Notice that all processes of the batch job were signalled, and who waits for the daemon's word on it."""

    def __init__(self) -> None:
        self._ended = 0
        self._until = 0.0
        """Time until which jobs that have failed wait: there was a signal, or one may be on its way."""
        self._waiting: dict[int, asyncio.Event] = {}

    def came(self) -> None:
        """Note that the signal has come."""
        self._wait_for(WORD_S)

    def stopped(self, jobs: Iterable[int]) -> None:
        """Take the daemon's word that these jobs are to end."""
        for job in jobs:
            if job in self._waiting:
                self._waiting[job].set()

    async def word_on(self, job: int) -> None:
        """Return once it is known whether a job that has failed was to be stopped: at once where no signal has come,
        and no program of a job's has ended that may have had one.
        """
        ended, self._ended = self._ended, count_of_ended_children()
        if ended != self._ended:
            self._wait_for(LATE_S)
        said = self._waiting[job] = asyncio.Event()
        try:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            while not said.is_set() and asyncio.get_running_loop().time() < self._until:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._until):
                        await said.wait()
        finally:
            del self._waiting[job]

    def _wait_for(self, seconds: float) -> None:
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)
