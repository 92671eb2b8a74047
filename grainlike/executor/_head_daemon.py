"""A head that is a program of its own: it has no worker, runs no graph, and ends when it is told to, or is done."""

from __future__ import annotations

from os import PathLike

import anyio

from grainlike.executor._executor import Executor

__all__ = ["HeadDaemon"]


class HeadDaemon(Executor):
    """`Executor(local=None, listen=...)`, which clients may end: then `stop` is set. See `Executor` for the arguments.

    With `run_once`, `stop` is set too when the last program that was connected has left, once there were jobs: those
    end with their programs, so then the queue is empty.

    Example::

        async with HeadDaemon("tcp://0.0.0.0:0") as head:
            print(head.address)
            await head.stop.wait()
    """

    def __init__(
        self,
        listen: str,
        *,
        access: str | PathLike[str] | None = None,
        insecure: bool = False,
        run_once: bool = False,
    ) -> None:
        super().__init__(local=None, listen=listen, access=access, insecure=insecure)
        self.stop = anyio.Event()
        self._run_once = run_once

    def _stop_asked(self) -> bool:
        self.stop.set()
        return True

    def _deserted(self) -> None:
        if self._run_once and self._head.has_had_jobs:
            self.stop.set()
