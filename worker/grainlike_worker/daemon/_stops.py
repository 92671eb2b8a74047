"""Reasons for which a worker stops: signals, the end of its batch job, and that it has had no jobs for a while."""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from grainlike_worker.ipc._signals import NOTICES, in_batch_job

__all__ = ["IdleTimer", "stop_after", "stop_at_signal"]

logger = logging.getLogger("grainlike.worker")


async def stop_at_signal(*stops: Callable[[], None], task_status: TaskStatus[None]) -> None:
    """At the first signal stop in good order, at the second at once.

    Batch systems tell a job several times that it shall end: there only a second SIGINT hurries, and the notices that
    they send count as SIGTERM.
    """
    first = stops[0]
    notices = NOTICES if in_batch_job() else ()
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, *notices) as signals:
        task_status.started()
        async for number in signals:
            logger.info("stopping: %s", number.name)
            if notices and number != signal.SIGINT:
                first()
                continue
            stop, *rest = stops
            stop()
            stops = tuple(rest) or (stop,)


async def stop_after(seconds: float, stop: Callable[[], None]) -> None:
    """Stop in good order when the time of the batch job is over but for the margin."""
    await anyio.sleep(seconds)
    logger.info("stopping: the batch job ends")
    stop()


class IdleTimer:
    """Calls `expired` once the worker has been idle for `seconds` without a break, from the moment that `run` begins.

    Example::

        timer = IdleTimer(300.0, stop.set)
        tasks.start_soon(timer.run)
        timer.look(idle=False)      # a job has come: the time begins anew when the last one has ended
    """

    def __init__(self, seconds: float, expired: Callable[[], object]) -> None:
        self._seconds = seconds
        self._expired = expired
        self._idle = True
        self._changed = anyio.Event()

    def look(self, *, idle: bool) -> None:
        """Note whether there are jobs now."""
        if idle is not self._idle:
            self._idle = idle
            self._changed.set()

    async def run(self) -> None:
        """Wait until the time is over; cancelled, it is over never."""
        while True:
            self._changed = anyio.Event()
            with anyio.move_on_after(self._seconds if self._idle else math.inf) as waited:
                await self._changed.wait()
            if waited.cancelled_caught:
                break
        logger.info("no job for %g s: the worker ends", self._seconds)
        self._expired()
