"""The way of jobs to the head, as runners offer it (`grainlike.net.Uplink`)."""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grainlike.net import NestedSubmitter
from grainlike.wire import Buffer, Message, Outcomes, Resumed

__all__ = ["LoopUplink", "Post", "WatchedUplink"]

Post = Callable[[Message, Sequence[Buffer]], object]


class LoopUplink:
    """For a runner whose event loop reads its link anyway."""

    __slots__ = ("_post", "nestings")

    def __init__(self, post: Post) -> None:
        self._post = post
        self.nestings: dict[int, NestedSubmitter] = {}
        """Of the jobs that have used it and not ended."""

    def attach(self, job: int, nesting: NestedSubmitter) -> bool:
        """Attach the submitter of a job. What was there before, for an earlier part of the job or an earlier loop,
        ends.
        """
        before = self.nestings.get(job)
        self.nestings[job] = nesting
        if before is not None:
            before.close()
        return True

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message, as `Uplink` says."""
        self._post(message, buffers)

    def hear(self, message: Outcomes | Resumed, buffers: Sequence[Buffer]) -> None:
        """Hand on what concerns a job; one that has ended hears of nothing."""
        if isinstance(message, Outcomes):
            nesting = self.nestings.get(message.parent)
            if nesting is not None:
                nesting.outcomes(message, buffers)
        else:
            nesting = self.nestings.get(message.job)
            if nesting is not None:
                nesting.resumed(message)

    def stop(self, jobs: Iterable[int]) -> None:
        """These jobs are about to be cancelled."""
        for job in jobs:
            nesting = self.nestings.get(job)
            if nesting is not None:
                nesting.stop()

    def ended(self, job: int) -> bool:
        """The job has ended; tell whether it ever used this."""
        nesting = self.nestings.pop(job, None)
        if nesting is not None:
            nesting.close()
        return nesting is not None


class WatchedUplink(LoopUplink):
    """For a runner that has no event loop: that of the job watches the link, descriptor `fd`, and calls `readable`.

    Only the process's main thread may use it, for all others would read and write beside it.
    """

    __slots__ = ("_fd", "_loop", "_pid", "_readable")

    def __init__(self, post: Post, fd: int, readable: Callable[[], object]) -> None:
        super().__init__(post)
        self._fd = fd
        self._readable = readable
        self._loop: Any = None
        self._pid = os.getpid()

    def attach(self, job: int, nesting: NestedSubmitter) -> bool:
        """Attach the submitter of a job."""
        if threading.current_thread() is not threading.main_thread() or os.getpid() != self._pid:
            return False
        trio = sys.modules.get("trio")
        if trio is not None and _in_trio(trio):
            trio.lowlevel.spawn_system_task(self._watch_on_trio, trio)
        else:
            import asyncio

            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._fd, self._readable)
        return super().attach(job, nesting)

    def stop_all(self) -> None:
        """Note that all jobs are to end, from a signal handler."""
        self.stop(list(self.nestings))

    async def _watch_on_trio(self, trio: Any) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            self._readable()

    def ended(self, job: int) -> bool:
        """Record the end of the loop, as `LoopUplink` says."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None
        return super().ended(job)


def _in_trio(trio: Any) -> bool:
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return False
    return True
