"""Pools of grainlike's in place of the standard library's, for the tests of `concurrent.futures`; a pytest plugin."""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from concurrent import futures
from typing import Any

from grainlike import ProcessBackend, ThreadBackend
from grainlike.adapters import GrainlikePool
from grainlike.resources import Cores

logging.getLogger("grainlike").setLevel(logging.ERROR)  # that there are five workers on two cores is said each time

MOST_POOLS = 5

_open: weakref.WeakSet[GrainlikePool] = weakref.WeakSet()


class ThreadPoolExecutor(GrainlikePool):
    """A pool on a `ThreadBackend`, with the constructor of the standard library's."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "", **options: Any) -> None:
        self._max_workers = min(32, (os.cpu_count() or 1) + 4) if max_workers is None else max_workers
        self._backend = ThreadBackend(self._max_workers)
        super().__init__(backend=self._backend, **options)
        _open.add(self)

    @property
    def _threads(self) -> set[threading.Thread]:
        return self._backend._pool._threads


class ProcessPoolExecutor(GrainlikePool):
    """A pool with the constructor of the standard library's: on a worker for `fork`, else on a `ProcessBackend`."""

    def __init__(self, max_workers: int | None = None, mp_context: Any = None, **options: Any) -> None:
        processes = (os.cpu_count() or 1) if max_workers is None else max_workers
        if mp_context is None or mp_context.get_start_method() == "fork":
            super().__init__(local=Cores(processes), **options)
        else:
            super().__init__(backend=ProcessBackend(processes), **options)
        _open.add(self)


def pytest_configure() -> None:
    """Replace the pools before the tests' module is imported, and in the programs that its tests start."""
    from test.support import script_helper, threading_helper

    futures.ThreadPoolExecutor = ThreadPoolExecutor
    futures.ProcessPoolExecutor = ProcessPoolExecutor
    run = script_helper.assert_python_ok

    def assert_python_ok(option: str, code: str) -> Any:
        return run(option, code.replace("from concurrent.futures import", f"from {__name__} import"))

    script_helper.assert_python_ok = assert_python_ok
    # Otherwise the programs do not see PYTHONPATH, by which they find the shim.
    script_helper.__dict__["__cached_interp_requires_environment"] = True
    # It fails nothing: it waits for threads, with a hundred collections of garbage, and warns of those that stay.
    threading_helper.threading_cleanup = lambda *_: None


def pytest_runtest_setup(item: Any) -> None:
    """Start five pools beside a thread that submits without end, not fifty: each of ours is a worker."""
    # By a name of the module, before that of the language.
    if item.name == "test_hang_global_shutdown_lock":
        item.module.range = lambda count: range(min(count, MOST_POOLS))


def pytest_runtest_teardown(item: Any) -> None:
    """Take that back."""
    vars(item.module).pop("range", None)


def pytest_runtest_logfinish() -> None:
    """Close what a failed test has left open."""
    sys.last_value = sys.last_traceback = sys.last_exc = None  # type: ignore[attr-defined]
    for pool in list(_open):
        pool.shutdown(wait=False, cancel_futures=True)
