"""Standard output and error of a process in which many jobs run at once: who writes is found out by context.

What cannot be found out that way (C code, children, threads that copied no context) goes where it always went.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from grainlike.context import JobInfo, author
from grainlike.wire import OutputStream
from grainlike_worker.ipc._steps import HEADER

__all__ = ["EmbeddedOutput", "JobStream", "PipeOutput", "hooked_streams"]

_ATOMIC = 4096 - HEADER.size
"""The kernel does not tear what is written to a pipe at once, up to this (POSIX would allow 512; Linux has 4096)."""

_UNHEARD_BYTES = 2 << 20


class PipeOutput:
    """Sends what jobs write through a pipe, at once: it has left even if the process dies with the next instruction."""

    show = None

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, job: JobInfo, stream: OutputStream, text: str) -> None:
        """`job` wrote `text`. From any thread."""
        data = text.encode(errors="backslashreplace")
        for at in range(0, len(data), _ATOMIC):
            part = data[at : at + _ATOMIC]
            with suppress(OSError):
                os.write(self._fd, HEADER.pack(stream, job.id, job.attempt, len(part)) + part)


class EmbeddedOutput:
    """Keeps what jobs in the user's own loop write until that loop turns; `wake` is called from whatever thread.

    `show` shows it on the program's own streams, too.
    """

    def __init__(self, wake: Callable[[], object], show: Callable[[int, Any, str], object] | None = None) -> None:
        self.show = show
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[tuple[JobInfo, OutputStream, bytes]] = deque()
        self._size = 0

    def write(self, job: JobInfo, stream: OutputStream, text: str) -> None:
        """`job` wrote `text`. From any thread."""
        data = text.encode(errors="backslashreplace")
        with self._lock:
            if self._size > _UNHEARD_BYTES:
                return  # a loop that does not turn must not fill the memory
            self._waiting.append((job, stream, data))
            self._size += len(data)
            first = len(self._waiting) == 1
        if first:
            self._wake()

    def take(self) -> list[tuple[JobInfo, OutputStream, bytes]]:
        """Return what was written since the last time."""
        if not self._waiting:
            return []
        with self._lock:
            taken, self._waiting, self._size = self._waiting, deque(), 0
        return list(taken)


class JobStream:
    """Stands in for a text stream: what a job writes is told to its output, and all the rest is the stream's.

    Where jobs run in the user's own process, the stream still shows what they write, unless `echo=False` was said.
    """

    def __init__(self, stream: Any, kind: OutputStream) -> None:
        self._stream = stream
        self._kind = kind

    @property
    def behind(self) -> Any:
        """The stream that it stands in for."""
        return self._stream

    def write(self, text: str) -> int:
        """Write text as the stream does, for the job that runs."""
        found = author()
        if found is None:
            written: int = self._stream.write(text)
            return written
        output, job = found
        if output.show is not None:
            output.show(job.id, self._stream, text)
        output.write(job, self._kind, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines as the stream does, for the job that runs."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def hooked_streams() -> Iterator[None]:
    """Put `JobStream`s in the place of standard output and error, for a while; once, however many ask at a time.

    Handlers of `logging` that hold these very streams are given the new ones.
    """
    _hooks.enter()
    try:
        yield
    finally:
        _hooks.leave()


class _Hooks:
    def __init__(self) -> None:
        self._users = 0
        self._undo: list[Callable[[], None]] = []

    def enter(self) -> None:
        self._users += 1
        if self._users == 1:
            for name, kind in (("stdout", OutputStream.STDOUT), ("stderr", OutputStream.STDERR)):
                self._replace(name, kind)

    def leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            for undo in self._undo:
                undo()
            self._undo.clear()

    def _replace(self, name: str, kind: OutputStream) -> None:
        old = getattr(sys, name)
        if old is None:
            return
        new = JobStream(old, kind)
        setattr(sys, name, new)
        _hand_over(old, new)

        def undo() -> None:
            if getattr(sys, name) is new:  # else somebody put something over it, which may still use it
                setattr(sys, name, old)
                _hand_over(new, old)

        self._undo.append(undo)


_hooks = _Hooks()


def _hand_over(old: object, new: object) -> None:
    """Let handlers of `logging` write to `new` that wrote to `old`."""
    logging = sys.modules.get("logging")
    if logging is None:
        return
    loggers = [logging.root, *list(logging.root.manager.loggerDict.values())]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is old:
                handler.setStream(new)
