"""Children that a program forks while it has an executor open: they end where they would come back to it.

Such a child has its parent's sockets, its event loop with all that waits in it, and what is to be removed at the end.
Nothing of that is the child's: it would close the executor for its parent. So it may leave by `os._exit`, or become
another program; where it leaves the executor's block, by whatever way, or comes back to the event loop, it ends.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

from grainlike.eventloop import EventLoopId
from grainlike.executor._registry import loops

__all__ = ["end_forked"]


def end_forked(loop_id: EventLoopId, error: BaseException | None) -> None:
    """End this process if it is a child of the one that an event loop is of; return if it is that one.

    The exit status is that of `error`, as at the end of a program; 1 without one, for what the child would have done
    next is not done. Nothing runs at this end but a flush of the standard streams.
    """
    if loop_id.pid != os.getpid():
        _end(error)


def _after_fork() -> None:
    for loop_id in loops():
        if loop_id.thread != threading.get_ident():
            continue  # it has no thread in the child
        # Before all that the child has this loop do, and before what its sockets bring:
        loop: Any = loop_id.loop
        if loop_id.backend == "trio":
            with suppress(RuntimeError):  # it does not run now
                sys.modules["trio"].lowlevel.add_instrument(_TrioInstrument())
        elif not loop.is_closed():
            loop.call_soon(_came_back)


os.register_at_fork(after_in_child=_after_fork)


class _TrioInstrument:
    """Instrument of a trio loop in a child: it is called before any task goes on."""

    def before_task_step(self, _: object) -> None:
        _came_back()


def _came_back() -> None:
    _end(sys.exception())  # that of `sys.exit`, which passes through the loop, and after which `asyncio.run` goes on


def _end(error: BaseException | None) -> NoReturn:
    status = 1
    with suppress(Exception):  # streams of the user's, and whatever hook there is
        if isinstance(error, SystemExit):
            code = 0 if error.code is None else error.code
            status = code if isinstance(code, int) else 1
            if code is not status:
                print(code, file=sys.stderr)  # noqa: T201 - as Python does
        elif error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            print(_CAME_BACK.format(os.getpid()), file=sys.stderr)  # noqa: T201 - no caller takes an exception here
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)


_CAME_BACK = (
    "grainlike: process {} was forked from one that has an executor open, and ends here, as the executor and its event "
    "loop are its parent's: let such a child leave by `os._exit`, or start programs by `subprocess`"
)
