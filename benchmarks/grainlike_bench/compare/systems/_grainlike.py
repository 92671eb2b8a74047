"""grainlike itself: with a worker daemon on loopback TCP, or with the worker embedded in the calling process.

*Far* is a worker that behaves as if on another machine: it shares no memory with the program.

Plain functions run in processes pinned to their core, `async` ones share the worker's event loop. Slots are granted,
recorded and enforced as always; nothing is switched off to be measured. The event loop is that of `run`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from typing import Any

import anyio

from grainlike.eventloop import loop_options
from grainlike.executor import Executor
from grainlike.graph import DelayedFn, delayed, gather
from grainlike.resources import Cores
from grainlike_bench.compare._system import SLOTS, Drive, Session, System

__all__ = ["DaemonAsync", "DaemonPlain", "EmbeddedAsync", "EmbeddedPlain", "FarInsecure", "FarPlain"]

_FAR = "import grainlike.payload as p; p.memory_id = str; from grainlike_worker.__main__ import main; main()"


class _OurSession(Session):
    def __init__(self, made: Callable[[Callable[..., Any]], DelayedFn[..., Any]]) -> None:
        self._of = made

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Await one `gather`."""
        later = self._of(function)
        return await gather([later(item) for item in items])

    async def one(self, function: Callable[..., Any], item: Any) -> Any:
        """Await one placeholder."""
        return await self._of(function)(item)

    async def chain(self, function: Callable[[Any], Any], length: int) -> Any:
        """Pass placeholders as arguments."""
        later = self._of(function)
        value = later(0)
        for _ in range(length - 1):
            value = later(value)
        return await value

    async def tree(self, function: Callable[[Any], Any], pairs: list[Any]) -> Any:
        """Build one graph, without a barrier between levels."""
        later = self._of(function)
        level = [later(pair) for pair in pairs]
        while len(level) > 1:
            level = [later(pair) for pair in zip(level[::2], level[1::2], strict=True)]
        return await level[0]


@cache
def _plain(function: Callable[..., Any]) -> DelayedFn[..., Any]:
    later: DelayedFn[..., Any] = delayed(function)
    return later @ Cores(1)


@cache
def _coroutine(function: Callable[..., Any]) -> DelayedFn[..., Any]:
    async def later(item: Any) -> Any:
        return function(item)

    return delayed(later, name=function.__name__) @ Cores(1)


@asynccontextmanager
async def _daemon(*, far: bool = False, insecure: bool = False) -> AsyncIterator[None]:
    async with Executor(listen="tcp://127.0.0.1:0", insecure=insecure) as executor:
        command = [sys.executable, *(["-c", _FAR] if far else ["-m", "grainlike_worker"])]
        command += ["--head", str(executor.address), *(["--insecure"] if insecure else [])]
        command += ["--resources", f"cores={SLOTS}", "--log-level", "error" if insecure else "warning"]
        process = await asyncio.create_subprocess_exec(*command)
        await executor.wait_for_workers(1)
        yield
    await process.wait()


@asynccontextmanager
async def _embedded() -> AsyncIterator[None]:
    async with Executor(local=Cores(SLOTS)):
        yield


def _ours(
    title: str,
    place: Callable[[], AbstractAsyncContextManager[None]],
    made: Callable[[Callable[..., Any]], DelayedFn[..., Any]],
) -> type[System]:
    class Ours(System):
        name = title

        def run(self, drive: Drive) -> None:
            """Open, measure, close."""
            anyio.run(self._run, drive, backend_options=loop_options())

        async def _run(self, drive: Drive) -> None:
            async with place():
                await drive(_OurSession(made))

    return Ours


DaemonPlain = _ours("grainlike, TCP worker", _daemon, _plain)
DaemonAsync = _ours("grainlike, TCP worker, async jobs", _daemon, _coroutine)
FarPlain = _ours("grainlike, TCP worker of another machine", partial(_daemon, far=True), _plain)
FarInsecure = _ours("grainlike, the same without TLS", partial(_daemon, far=True, insecure=True), _plain)
EmbeddedPlain = _ours("grainlike, embedded worker", _embedded, _plain)
EmbeddedAsync = _ours("grainlike, embedded worker, async jobs", _embedded, _coroutine)
