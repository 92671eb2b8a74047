"""Call as a backend carries it: packed, performed wherever the backend runs it, and its answer."""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NamedTuple

from grainlike.context import JobInfo, enter_job
from grainlike.payload import Payload, dump_error, dump_value, load_arguments, load_function
from grainlike.resources import Allocation, parse_allocation

__all__ = ["BackendAnswer", "BackendCall", "CallOutcome", "answer", "perform", "where"]


class BackendCall(NamedTuple):
    """Call on the wire: a packed function, its packed arguments, and what the call shall see of itself.

    `timeout` is in seconds; the call then runs in a process of its own, which is killed when they are over. `paths` are
    where the program imports from: looked in last, so that modules beside a script are found where they lie there too.
    """

    function: bytes
    data: bytes
    buffers: tuple[bytes, ...]
    number: int
    name: str
    attempt: int
    worker: str
    slots: str
    timeout: float | None
    paths: tuple[str, ...] = ()


class BackendAnswer(NamedTuple):
    """Answer of a call: a packed value or exception, the name of the worker that performed it, and its usage.

    `wall` and `cpu` are in seconds, `rss` in bytes. With `timed_out` the call was ended, and there is neither value
    nor error.
    """

    good: bool
    data: bytes
    buffers: tuple[bytes, ...]
    worker: str
    wall: float
    cpu: float
    rss: int
    timed_out: bool = False


class CallOutcome(NamedTuple):
    """Result of a call in this process: a value or exception, and its wall and CPU seconds."""

    good: bool
    value: Any
    wall: float
    cpu: float


def answer(call: BackendCall) -> BackendAnswer:
    """Perform a call in this thread, whatever its timeout."""
    sys.path.extend(path for path in call.paths if path not in sys.path)
    try:
        function = load_function(call.function)
        args, kwargs = load_arguments(Payload(call.data, call.buffers))
    except Exception as error:  # noqa: BLE001 - the call's own: its awaiters raise it
        return _answer(CallOutcome(False, error, 0.0, 0.0), call)
    job = JobInfo(call.number, call.name, call.attempt, None)
    return _answer(perform(lambda: function(*args, **kwargs), job, call.worker or where(), call.slots), call)


def perform(
    do: Callable[[], Any],
    job: JobInfo,
    worker: str,
    slots: str,
    context: Context | None = None,
    *,
    whole_process: bool = False,
) -> CallOutcome:
    """Make a call in a context in which it sees its slots; of a coroutine function, in an event loop of its own.

    It is `context`, in which the slots stay set; by default a copy of that of this thread.
    """
    allocation: Allocation = parse_allocation(slots)

    def inside() -> CallOutcome:
        enter_job(allocation, worker, job, whole_process=whole_process)
        wall, cpu = time.monotonic(), time.thread_time()
        try:
            value = do()
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
            good = True
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the call's own: its awaiters raise it
            value, good = error, False
        except KeyboardInterrupt as error:
            if threading.current_thread() is threading.main_thread():
                raise  # somebody pressed Ctrl-C
            value, good = error, False
        return CallOutcome(good, value, time.monotonic() - wall, time.thread_time() - cpu)

    return (copy_context() if context is None else context).run(inside)


def _answer(deed: CallOutcome, call: BackendCall) -> BackendAnswer:
    good, packed = deed.good, None
    if good:
        try:
            packed = dump_value(deed.value, what=f"the value of {call.name}")
        except Exception as error:  # noqa: BLE001 - what cannot travel back is the call's own error
            good, packed = False, dump_error(error)
    else:
        packed = dump_error(deed.value)
    buffers = tuple(bytes(buffer) for buffer in packed.buffers)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return BackendAnswer(good, bytes(packed.data), buffers, call.worker or where(), deed.wall, deed.cpu, rss)


def where() -> str:
    """Return the name of this process, and of the thread if it is not the main one."""
    thread = threading.current_thread()
    tail = "" if thread is threading.main_thread() else f" {thread.name}"
    return f"{socket.gethostname()}:{os.getpid()}{tail}"
