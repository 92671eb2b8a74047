"""Reasons for which a worker stops: signals, the end of its batch job, and that it has had no jobs for a while."""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from grainlike_worker.ipc._signals import NOTICES, in_batch_job

__all__ = ["EndTimer", "IdleTimer", "stop_at_signal"]

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


class EndTimer:
    """Calls `expired` a margin before the end of the worker's batch job; `tell` changes that moment at any time.

    `left_s`: seconds until then, None where no end is known; `grace_s`: how long what runs then has to end.

    Example::

        timer = EndTimer(3540.0, 30.0, stop.set)
        tasks.start_soon(timer.run)
        timer.tell(7140.0, 30.0)    # an operator has extended the job
    """

    def __init__(self, left_s: float | None, grace_s: float, expired: Callable[[], object]) -> None:
        self._at = math.inf if left_s is None else anyio.current_time() + left_s
        self._expired = expired
        self._changed = anyio.Event()
        self.grace_s = grace_s
        self.over = False
        """True from the moment that the time is over."""

    @property
    def left_s(self) -> float | None:
        """Seconds until the time is over; None where no end is known."""
        return None if self._at == math.inf else max(0.0, self._at - anyio.current_time())

    def tell(self, left_s: float, grace_s: float) -> None:
        """Change the moment to `left_s` seconds from now."""
        self._at, self.grace_s = anyio.current_time() + left_s, grace_s
        self._changed.set()

    async def run(self) -> None:
        """Wait until the time is over; cancelled, it is over never."""
        while True:
            self._changed = anyio.Event()
            left_s = self.left_s
            with anyio.move_on_after(math.inf if left_s is None else left_s) as waited:
                await self._changed.wait()
            if waited.cancelled_caught:
                break
        logger.info("stopping: the batch job ends")
        self.over = True
        self._expired()


class IdleTimer:
    """Calls `expired` once the worker has been idle for `seconds` without a break. It is not before it is said to be:
    while it connects to its head, no head could send it a job. `clock` returns seconds, as the event loop counts them.

    Jobs may come and go thousands of times a second. So they wake nothing: `run` sleeps for as long as the time cannot
    be over, and looks then.

    Example::

        timer = IdleTimer(300.0, stop.set)
        tasks.start_soon(timer.run)
        timer.look(idle=True)       # it has joined
        timer.look(idle=False)      # a job has come: the time begins again when the last one has ended
    """

    def __init__(
        self, seconds: float, expired: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._expired = expired
        self._clock = clock
        self._idle = False
        self._since = 0.0

    def look(self, *, idle: bool) -> None:
        """Note whether it is idle now."""
        if idle is not self._idle:
            self._idle = idle
            self._since = self._clock()

    async def run(self) -> None:
        """Wait until the time is over; cancelled, it is over never."""
        while (left := self._left_s()) > 0.0:  # noqa: ASYNC110 - it is time that is waited for
            await anyio.sleep(left)
        logger.info("no job for %g s: the worker ends", self._seconds)
        self._expired()

    def _left_s(self) -> float:
        """Return the seconds until the time can be over at the earliest."""
        return self._since + self._seconds - self._clock() if self._idle else self._seconds
