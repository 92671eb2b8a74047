"""The pipes that a runner process writes its output to, on the worker's side.

Two are the process's standard output and error. Through a third, a runner that many jobs share says whose it is, and
through another, all runners send what jobs log.
"""

import os
import select
import time
from contextlib import ExitStack
from itertools import takewhile

import anyio

from grainlike.wire import OutputStream
from grainlike_worker.daemon._output import Tap
from grainlike_worker.ipc._record_frames import PIPE_BYTES, RecordFrames
from grainlike_worker.ipc._steps import HEADER

__all__ = ["OutputPipes"]


PATIENCE_S = 0.02
"""For how long a lease's output is left to its runner, which may know better whose it is."""

_READ_SIZE = 64 * 1024
"""What a pipe holds: one read takes all that was written before it."""


class OutputPipes:
    """The ends that a daemon reads from. `close_given` when the runner has those that are given to it.

    Example::

        pipes = OutputPipes(framed=False)
        process = start_child(["--own"], os.environ, {"--fd": fd, **pipes.given})
        pipes.close_given()
    """

    def __init__(self, *, framed: bool) -> None:
        self._held = ExitStack()
        self._gifts = ExitStack()
        self._rest = b""
        self._since = 0.0
        self._left: dict[int, None] = {}
        """Ends whose output was left to the runner, in the order in which it came."""
        self._waits: dict[int, anyio.CancelScope] = {}
        """Waits of the ends whose output is being left."""
        pairs = [self._make() for _ in range(3 if framed else 2)]
        self.held = [near for near, _ in pairs]
        self.given: dict[str, int] = dict(
            zip(("--stdout", "--stderr", "--told"), (far for _, far in pairs), strict=False)
        )
        """What the runner gets, by option; with two pipes also the ends from which it may take back what it wrote."""
        if not framed:
            self.given |= {"--unread-out": self.held[0], "--unread-err": self.held[1]}
        self._records, self.given["--records"] = self._make()
        self._record_frames = RecordFrames()
        self._poll = select.poll()
        for fd in (*self.held, self._records):
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    def _make(self) -> tuple[int, int]:
        try:
            near, far = os.pipe()
        except OSError:
            self.close()
            raise
        self._held.callback(os.close, near)
        self._gifts.callback(os.close, far)
        return near, far

    def close_given(self) -> None:
        """Close the runner's ends in this process."""
        self._gifts.close()

    def close(self) -> None:
        """Close everything."""
        self._gifts.close()
        self._held.close()

    async def run(self, tap: Tap) -> None:
        """Read whatever comes, as soon as it comes, until cancelled or all ends are closed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run_records, tap)
            for fd in self.held:
                tasks.start_soon(self._run_one, fd, tap)

    async def _run_one(self, fd: int, tap: Tap) -> None:
        while True:
            await anyio.wait_readable(fd)
            if self._is_runners(tap):
                self._left.setdefault(fd)
                await self._leave(fd, tap)
                if self._is_runners(tap):
                    continue
            if self._read_in_order(fd, tap) == b"":
                return

    def _is_runners(self, tap: Tap) -> bool:
        """Return True if output is left to the runner for now.

        The runner of a run-list, or of a chain, takes its output out of the pipe itself, job by job; and what is a
        chain we do not know, but by the time that it takes.
        """
        return tap.leased and (tap.crowded or time.monotonic() < self._since + PATIENCE_S)

    async def _leave(self, fd: int, tap: Tap) -> None:
        """Leave the output at an end for a while, which is over early when another lease begins."""
        with anyio.CancelScope() as wait:
            self._waits[fd] = wait
            try:
                left = PATIENCE_S if tap.crowded else self._since + PATIENCE_S - time.monotonic()
                await anyio.sleep(max(0.0, left))
            finally:
                del self._waits[fd]

    async def _run_records(self, tap: Tap) -> None:
        while True:
            await anyio.wait_readable(self._records)
            if self._read_records(tap) == b"":
                return

    def begin(self) -> None:
        """Another lease begins."""
        self._since = time.monotonic()
        self._left.clear()
        for wait in self._waits.values():  # else the output of this lease would be seen when that is over
            wait.cancel()

    def drain(self, tap: Tap) -> None:
        """Take what has been written until now."""
        ready = self._poll.poll(0)
        if not (ready or self._left):
            return
        for fd in {**self._left, **dict.fromkeys(fd for fd, _ in ready)}:
            if fd == self._records:
                self._drain_records(tap)
            elif not tap.crowded:
                self._read(fd, tap)  # as much as a pipe holds

    def _read_in_order(self, fd: int, tap: Tap) -> bytes | None:
        """Read once, as `_read` does, and before that what came before it: what was written first is told first."""
        for before in takewhile(lambda other: other != fd, list(self._left)):
            self._read(before, tap)
            if before not in self._waits:  # else more may come meanwhile
                del self._left[before]
        self._left.pop(fd, None)
        return self._read(fd, tap)

    def _read(self, fd: int, tap: Tap) -> bytes | None:
        """Read once and hand the bytes in; return b"" at the end, and None when there is nothing."""
        link = tap.at_link()  # before: a link that has ended has taken its output along
        try:
            data = os.read(fd, _READ_SIZE)
        except BlockingIOError:
            return None
        if fd == self.held[-1] and len(self.held) > 2:
            self._take_frames(data, tap)
        elif data:
            tap.raw(OutputStream.STDOUT if fd == self.held[0] else OutputStream.STDERR, data, link or tap.at_link())
        return data

    def _take_frames(self, data: bytes, tap: Tap) -> None:
        rest = self._rest + data if self._rest else data
        at = 0
        while len(rest) - at >= HEADER.size:
            stream, job, attempt, size = HEADER.unpack_from(rest, at)
            end = at + HEADER.size + size
            if end > len(rest):
                break
            tap.told(job, attempt, OutputStream(stream), rest[at + HEADER.size : end])
            at = end
        self._rest = rest[at:]

    def _drain_records(self, tap: Tap) -> None:
        for _ in range(PIPE_BYTES // _READ_SIZE):  # not for ever: a job may write as fast as we read
            if not self._read_records(tap):
                return

    def _read_records(self, tap: Tap) -> bytes | None:
        """Read once, as `_read` does."""
        try:
            data = os.read(self._records, _READ_SIZE)
        except BlockingIOError:
            return None
        try:
            records = list(self._record_frames.feed(data))
        except ValueError:  # user code wrote into it: what comes next may be understood again, or not
            self._record_frames = RecordFrames()
        else:
            tap.logged(records)
        return data
