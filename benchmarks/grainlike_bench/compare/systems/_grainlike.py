"""grainlike itself: with a worker daemon on loopback TCP, or with the worker embedded in the calling process.

*Far* is a worker that behaves as if on another machine: it shares no memory with the program.

Plain functions run in processes pinned to their core, `async` ones share the worker's event loop. Slots are granted,
recorded and enforced as always; nothing is switched off to be measured. The event loop is that of `run`, but for
`Default`: that is asyncio's own loop with a worker daemon over TLS, as a program has it that says nothing about either.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import anyio

import grainlike
from grainlike import Cores
from grainlike.eventloop import loop_options
from grainlike_bench._pairs import TIMEOUTS_S, nesting_once
from grainlike_bench.compare._system import SLOTS, Drive, Session, System

if TYPE_CHECKING:  # what runs jobs is loaded when it is used: `grainlike bench --list` does without
    from grainlike import DelayedFn

__all__ = ["DaemonAsync", "DaemonPlain", "Default", "EmbeddedAsync", "EmbeddedPlain", "FarInsecure", "FarPlain"]

_FAR = "import grainlike.payload as p; p.memory_id = str; from grainlike_worker.__main__ import main; main()"


class _Make(Protocol):
    """Makes a function delayed; `alone`, so that its calls share no lease once it was called with None."""

    def __call__(self, function: Callable[..., Any], *, alone: bool = False) -> DelayedFn[..., Any]: ...


class _OurSession(Session):
    def __init__(self, made: _Make, daemon: int | None) -> None:
        self.daemon = daemon
        self._of = made
        self._begun: set[Callable[..., Any]] = set()
        """Functions that were called with None, so that none of their calls shares a lease."""

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Await one `gather`."""
        later = self._of(function)
        return await grainlike.gather([later(item) for item in items])

    async def alone(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Await one `gather` of jobs that share no lease; see `_plain` and `_coroutine`."""
        later = self._of(function, alone=True)
        if function not in self._begun:
            self._begun.add(function)
            await later(None)
        return await grainlike.gather([later(item) for item in items])

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


_Main = Callable[[int | None], Coroutine[Any, Any, None]]
"""The measurement; takes the process of the worker's daemon, None for one in the calling process."""


@cache
def _plain(function: Callable[..., Any], *, alone: bool = False) -> DelayedFn[..., Any]:
    """Return a function whose calls are jobs; `alone`, it waits for a job of its own when it is called with None."""
    later: DelayedFn[..., Any] = grainlike.delayed(nesting_once(function) if alone else function)
    return later @ Cores(1)


@cache
def _coroutine(function: Callable[..., Any], *, alone: bool = False) -> DelayedFn[..., Any]:
    """Return a coroutine function whose calls are jobs; `alone`, it has a timeout, with which they share no lease."""

    async def later(item: Any) -> Any:
        return None if item is None else function(item)

    return grainlike.delayed(later, name=function.__name__, timeout=TIMEOUTS_S[0] if alone else None) @ Cores(1)


@asynccontextmanager
async def _daemon(*, far: bool = False, insecure: bool = False) -> AsyncIterator[int]:
    """A worker's daemon, as long as the block runs; its process."""
    async with grainlike.Executor(listen="tcp://127.0.0.1:0", insecure=insecure) as executor:
        command = [sys.executable, *(["-c", _FAR] if far else ["-m", "grainlike_worker"])]
        command += ["--head", str(executor.address), *(["--insecure"] if insecure else [])]
        command += ["--resources", f"cores={SLOTS}", "--log-level", "error" if insecure else "warning"]
        process = await asyncio.create_subprocess_exec(*command)
        await executor.wait_for_workers(1)
        yield process.pid
    await process.wait()


def _by_run(main: _Main) -> None:
    """`run`, with the worker in this process."""
    grainlike.run(main, None, local=Cores(SLOTS))


def _by_asyncio(main: _Main) -> None:
    """Standard library's `asyncio.run`, and a worker's daemon over TLS: what `listen=` gives without options."""

    async def inside() -> None:
        async with _daemon() as daemon:
            await main(daemon)

    asyncio.run(inside())


def _beside(*, far: bool = False, insecure: bool = False) -> Callable[[_Main], None]:
    """The loop of `run`, and a worker's daemon."""

    async def inside(main: _Main) -> None:
        async with _daemon(far=far, insecure=insecure) as daemon:
            await main(daemon)

    return lambda main: anyio.run(inside, main, backend_options=loop_options())


def _ours(title: str, opened: Callable[[_Main], None], made: _Make) -> type[System]:
    class Ours(System):
        name = title

        def run(self, drive: Drive) -> None:
            """Open, measure, close."""
            opened(lambda daemon: drive(_OurSession(made, daemon)))

    return Ours


Default = _ours("grainlike, asyncio.run and TLS worker", _by_asyncio, _plain)
DaemonPlain = _ours("grainlike, TCP worker", _beside(), _plain)
DaemonAsync = _ours("grainlike, TCP worker, async jobs", _beside(), _coroutine)
FarPlain = _ours("grainlike, TCP worker of another machine", _beside(far=True), _plain)
FarInsecure = _ours("grainlike, the same without TLS", _beside(far=True, insecure=True), _plain)
EmbeddedPlain = _ours("grainlike, embedded worker", _by_run, _plain)
EmbeddedAsync = _ours("grainlike, embedded worker, async jobs", _by_run, _coroutine)
