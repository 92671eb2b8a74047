"""Threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from grainlike.backends._base import ClosesItself
from grainlike.resources import Cores, Request

__all__ = ["ThreadBackend"]


class ThreadBackend(ClosesItself):
    """Runs jobs in threads of this process: for work that waits, or that releases Python's lock.

    It honours `cores`, counted and not pinned: jobs hold at most `threads` of them at a time. Arguments and values
    are the objects themselves, not copies, and calls see the context variables of their caller. A thread cannot be
    ended: `timeout=` is refused, the slots of a cancelled job are free when it returns, and closing waits for that.

    Args:
        threads: number of threads, and of cores.

    Example::

        async with Executor(backend=ThreadBackend(8)):
            report = await dag.run()
    """

    name = "threads"
    honours: frozenset[str] = frozenset({"cores"})
    in_process = True

    def __init__(self, threads: int) -> None:
        self.offer: Request = Cores(threads)
        self._threads = threads
        self._pool = self._make_pool()
        self._over = False

    def _make_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="grainlike")

    def open(self) -> None:
        """Have threads again after a shutdown: a program may use one backend in one block after another."""
        if self._over:
            self._over, self._pool = False, self._make_pool()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have `fn(*args, **kwargs)` called in a thread."""
        return self._pool.submit(fn, *args, **kwargs)

    def on_done(self, future: Future[Any], call: Callable[[], None]) -> None:
        """Call when there is a result."""
        future.add_done_callback(lambda _: call())

    def result(self, future: Future[Any], timeout: float | None = None) -> Any:
        """Return the result, or raise the exception; TimeoutError when it is not there in so many seconds."""
        return future.result(timeout)

    def cancel(self, future: Future[Any]) -> None:
        """Cancel the call if it has not begun."""
        future.cancel()

    def shutdown(self, wait: bool = True) -> None:
        """End the threads, when they have returned."""
        self._over = True
        self._pool.shutdown(wait=wait, cancel_futures=True)
