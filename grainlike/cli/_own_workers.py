"""Worker daemons of this machine, as processes of their own that end with the block that started them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import anyio
from anyio.abc import Process

from grainlike.resources import Allocation, Cores

__all__ = ["WorkerFailedError", "own_workers", "shares"]

STOP_S = 10.0
"""Seconds that a worker may take to exit after SIGTERM; it ends its runners first."""


class WorkerFailedError(RuntimeError):
    """Raised when a worker exited before it was stopped."""


def shares(cores: Sequence[int], workers: int) -> list[Allocation]:
    """Split cores between workers, as evenly as it goes. Each gets one at least: past the real ones, a logical one."""
    count = max(len(cores), workers)
    ids = [*cores, *range(max(cores) + 1, max(cores) + 1 + count - len(cores))]
    each, more = divmod(count, workers)
    edges = [n * each + min(n, more) for n in range(workers + 1)]
    return [Cores(ids[edges[n] : edges[n + 1]]) for n in range(workers)]


@asynccontextmanager
async def own_workers(address: str, offers: Sequence[Allocation]) -> AsyncIterator[None]:
    """Start one worker for each offer; at the end, also by Ctrl-C, all are stopped and reaped.

    They stand in sessions of their own, so that Ctrl-C reaches this process alone, and its jobs end in order. When one
    ends before it should, the block is cancelled.

    Raises:
        WorkerFailedError: a worker ended too early; its reason is on standard error.
    """
    failure: Exception | None = None
    ended: list[str] = []
    async with AsyncExitStack() as stack:
        processes = [await _start(stack, address, offer, f"worker-{n}") for n, offer in enumerate(offers, 1)]
        async with anyio.create_task_group() as tasks:
            for number, process in enumerate(processes, 1):
                tasks.start_soon(_watch, process, f"worker-{number}", ended, tasks.cancel_scope)
            try:
                yield
            except Exception as error:  # noqa: BLE001 - raised below, outside the group, which would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        for process in processes:
            _tell(process, "terminate")
    if ended:
        raise WorkerFailedError(f"{' and '.join(ended)}, before it was told to") from failure
    if failure is not None:
        raise failure


async def _watch(process: Process, name: str, ended: list[str], scope: anyio.CancelScope) -> None:
    code = await process.wait()
    ended.append(f"{name} ended with exit code {code}")
    scope.cancel()


async def _start(stack: AsyncExitStack, address: str, offer: Allocation, name: str) -> Process:
    command = [sys.executable, "-m", "grainlike", "worker", "start", "--head", address]
    command += ["--resources", str(offer), "--name", name, "--log-level", "error"]
    process = await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=None, stderr=None, start_new_session=True
    )
    stack.push_async_callback(_reap, process)
    return process


def _tell(process: Process, what: Literal["terminate", "kill"]) -> None:
    if process.returncode is None:
        process.terminate() if what == "terminate" else process.kill()


async def _reap(process: Process) -> None:
    _tell(process, "terminate")
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(STOP_S):
            await process.wait()
        _tell(process, "kill")
        await process.aclose()
