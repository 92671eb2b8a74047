"""The standard output and error of a runner of its own, told apart by job though many run one after another.

The worker reads both from pipes, and knows whose turn it is where a lease has one job. In a run-list or a chain it
cannot know, so there the runner takes what is in the pipes after each job, and sends it on with the job's number.
"""

import io
import os
import select
import sys
from collections.abc import Iterable

from grainlike.wire import Output, OutputStream

__all__ = ["ProcessOutput"]

_READ_SIZE = 64 * 1024


class ProcessOutput:
    """`unread` are the reading ends of the pipes that are this process's standard output and error."""

    def __init__(self, unread: Iterable[int] = ()) -> None:
        self._streams = dict(zip(unread, (OutputStream.STDOUT, OutputStream.STDERR), strict=False))
        self._poll = select.poll()
        for fd in self._streams:
            self._poll.register(fd, select.POLLIN)
        self.printed = False
        """True if anything was printed since the last `flush`: asking so is cheaper than a flush."""
        self._printers: list[_Printer] = []
        if self._streams:
            # A pipe is no terminal, and Python would keep back what is printed until there is more of it.
            sys.stdout, sys.stderr = self._printers = [_Printer(1, self), _Printer(2, self)]

    @property
    def unread(self) -> Iterable[int]:
        """Return the descriptors to poll: there is something after a job that wrote anything, by whatever means."""
        return self._streams

    def opened(self, fd: int) -> io.TextIOWrapper:
        """Return a new standard stream of a descriptor in place of one that a job has closed."""
        if fd and self._printers:
            self._printers[fd - 1] = printer = _Printer(fd, self)
            return printer
        return open(fd, "w" if fd else "r", 1 if fd else -1, errors="backslashreplace", closefd=False)

    def flush(self) -> None:
        """Let all go out that Python holds back, also what was not printed, but written to what lies under a stream."""
        self.printed = False
        for printer in self._printers:
            try:  # noqa: SIM105 - each lease passes here
                printer.flush()
            except (OSError, ValueError):  # a job may have closed the stream, or what is behind it
                pass

    def waiting(self) -> list[int]:
        """Return those of `unread` in which there is something now."""
        found = self._poll.poll(0)
        return [fd for fd, _ in found] if found else []

    def collect(self, fds: Iterable[int], job: int, attempt: int) -> Output:
        """Take what is in these pipes: it is this job's."""
        pieces = [(self._streams[fd], _read(fd)) for fd in fds]
        return Output(job, attempt, [stream for stream, _ in pieces], [data for _, data in pieces])


class _Printer(io.TextIOWrapper):
    """A standard stream, in lines, that notes in `noted` that it was written to."""

    def __init__(self, fd: int, noted: ProcessOutput) -> None:
        binary = open(fd, "wb", closefd=False)  # noqa: SIM115 - it stays open
        super().__init__(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self._noted = noted

    def write(self, text: str) -> int:
        self._noted.printed = True
        return super().write(text)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_SIZE)
    except BlockingIOError:  # the worker was faster
        return b""
