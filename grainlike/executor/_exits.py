"""Ends of programs whose event loop is neither closed nor runs any more: prompts, and kernels of notebooks.

`asyncio.run` ends what is left in its loop. A REPL, and the kernel of a notebook, leave theirs as it is; executors that
are open in it are closed here, before Python ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from grainlike.eventloop import EventLoopId

__all__ = ["close_at_exit"]

logger = logging.getLogger("grainlike")


class _Closeable(Protocol):
    @property
    def loop_id(self) -> EventLoopId: ...

    @property
    def is_open(self) -> bool: ...

    def aclose(self) -> Coroutine[Any, Any, None]: ...


_open: WeakKeyDictionary[_Closeable, None] = WeakKeyDictionary()  # in the order in which they were opened


def close_at_exit(executor: _Closeable) -> None:
    """Close an open executor of an asyncio loop when Python ends, unless it has closed by then.

    That is possible in the main thread alone, and where its loop is not closed. Ctrl-C ends the wait: processes of
    workers end with this one in any case.
    """
    if not _open:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open[executor] = None


def _close_all() -> None:
    for executor in reversed(list(_open)):  # a program may be connected to its own head
        backend, loop, thread, pid = executor.loop_id
        ours: Any = loop
        if backend != "asyncio" or thread != threading.main_thread().ident or pid != os.getpid():
            continue
        if not executor.is_open or ours.is_closed() or ours.is_running():
            continue
        try:
            ours.run_until_complete(executor.aclose())
        except KeyboardInterrupt:
            return
        except Exception as error:  # noqa: BLE001 - no caller is left to raise it to
            logger.warning("%r was not closed in order: %r", executor, error)
