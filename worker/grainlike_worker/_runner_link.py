"""A runner as the daemon holds it: something to post to, whether it is a process or lives in this loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import anyio

from grainlike.errors import ProtocolError
from grainlike.net import OnFrames, memory_pair
from grainlike.wire import Buffer, Message
from grainlike_worker._claims import NO_BARRIER, Claims
from grainlike_worker._shared import serve_shared
from grainlike_worker._spawn import RunnerProcess, describe_exit

__all__ = ["RunnerBody", "RunnerKind", "RunnerMaker", "runner_at_home", "runner_in_process"]

RunnerKind = Literal["shared", "own"]


class RunnerBody(Protocol):
    """What the daemon does with a runner."""

    defined: set[int]
    """The functions that it was told of."""

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send it a message; it may not be up yet."""

    async def run(self, on_frames: OnFrames) -> str:
        """Be it until it ends; return how it ended. Cancelled, it ends it and leaves nothing behind."""
        ...

    def started(self) -> int:
        """The position in its run-list that it claimed last; -1 for none."""
        ...

    def bar(self) -> None:
        """Keep it from starting more of its run-list, until `unbar`."""

    def unbar(self) -> None:
        """A new run-list may be started."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


RunnerMaker = Callable[[RunnerKind, Callable[[int], None]], RunnerBody]
"""Makes a runner of a kind; it tells its process id, where it has one, when the process is there."""


def runner_in_process(kind: RunnerKind, named: Callable[[int], None]) -> RunnerBody:
    """A runner in a process of its own, whatever its kind."""
    return _ProcessRunner(kind, named)


def runner_at_home(kind: RunnerKind, named: Callable[[int], None]) -> RunnerBody:
    """The shared runner in the calling loop; any other in a process of its own."""
    return _LoopRunner() if kind == "shared" else _ProcessRunner(kind, named)


class _LoopRunner:
    """The shared runner in the daemon's own loop. It cannot crash alone, so most of the protocol has nothing to do."""

    def __init__(self) -> None:
        self.defined: set[int] = set()
        self._near, self._far = memory_pair()

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self._near.post(message, [bytearray(buffer) for buffer in buffers])

    async def run(self, on_frames: OnFrames) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_shared, self._far)
            await self._near.run(on_frames)
        return "its loop ended"

    def started(self) -> int:
        return -1

    def bar(self) -> None:
        """Run-lists here hand themselves back."""

    def unbar(self) -> None:
        """Nothing was barred."""

    def terminate(self) -> None:
        self._near.close()

    def kill(self) -> None:
        self._near.close()


class _ProcessRunner:
    """A runner process. What is posted before it is up waits here."""

    def __init__(self, kind: RunnerKind, named: Callable[[int], None]) -> None:
        self.defined: set[int] = set()
        self._kind: RunnerKind = kind
        self._named = named
        self._process: RunnerProcess | None = None
        self._early: list[tuple[Message, Sequence[Buffer]]] = []
        self._last_claim = -1
        self._end_wanted: Literal["terminate", "kill"] | None = None

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if self._process is None:
            self._early.append((message, buffers))
        else:
            self._process.link.post(message, buffers)

    async def run(self, on_frames: OnFrames) -> str:
        try:
            process = await RunnerProcess.spawn(self._kind)
        except OSError as error:
            return f"no process could be started: {error}"
        self._process = process
        self._named(process.pid)
        try:
            for message, buffers in self._early:
                process.link.post(message, buffers)
            self._early.clear()
            if self._end_wanted is not None:
                self.kill()
            rubbish = await self._listen(process, on_frames)
            # The link ends first: a process that closed it and lives on is of no more use.
            with anyio.move_on_after(1.0):
                await process.wait()
            process.kill()
            return rubbish or describe_exit(await process.wait())
        finally:
            if process.claims is not None:
                self._last_claim = process.claims.started
            await process.aclose()

    async def _listen(self, process: RunnerProcess, on_frames: OnFrames) -> str | None:
        """Until the link ends. Its process holds user code, which may write anything there: that is its end alone."""
        try:
            await process.link.run(on_frames)
        except ProtocolError as error:
            return f"it said what no runner says: {error}"
        return None

    def started(self) -> int:
        claims = self._claims
        return claims.started if claims is not None else self._last_claim

    def bar(self) -> None:
        claims = self._claims
        if claims is not None and self._process is not None:
            claims.barrier = claims.started + 1
            self._process.flush()

    def unbar(self) -> None:
        claims = self._claims
        if claims is not None:
            claims.barrier = NO_BARRIER

    @property
    def _claims(self) -> Claims | None:
        """The page shared with the process, while there is one: a shared runner has none."""
        claims = self._process.claims if self._process is not None else None
        return claims if claims is not None and claims.fd >= 0 else None

    def terminate(self) -> None:
        self._end_wanted = self._end_wanted or "terminate"
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        self._end_wanted = "kill"
        if self._process is not None:
            self._process.kill()
