"""The shared runner as a process: an event loop of its own, uvloop's where there is one."""

import asyncio
import signal
import socket
from collections.abc import Callable

import anyio

from grainlike.net import adopt
from grainlike_worker._interrupts import TERMINATED
from grainlike_worker._shared import serve_shared

__all__ = ["serve_process"]


def serve_process(fd: int) -> int:
    """Serve the link that came as descriptor `fd`; return the exit code. SIGTERM cancels the jobs and ends it."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(fd))


async def _serve(fd: int) -> int:
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scope.cancel)
        link = await adopt(socket.socket(fileno=fd), "worker")
        # The other end is the process that started this one.
        link.trust()
        await serve_shared(link)
    return TERMINATED if scope.cancel_called else 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
