"""A runner as the daemon holds it: something to post to, whether it is a process or lives in this loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from grainlike._memory import copied
from grainlike.context import JobInfo
from grainlike.eventloop import on_asyncio
from grainlike.net import OnFrames, memory_pair
from grainlike.scheduler import RunnerGone, RunnerKind
from grainlike.system import why_no_processes
from grainlike.wire import Buffer, Message, StopReason
from grainlike_worker.daemon._child import Surroundings
from grainlike_worker.daemon._output import Show, Tap
from grainlike_worker.daemon._runner_supervisor import RunnerSupervisor

if TYPE_CHECKING:
    from grainlike_worker.daemon._keeper import KeeperClient
    from grainlike_worker.daemon._spawn import RunnerProcess
    from grainlike_worker.runner.loop._output import EmbeddedOutput

__all__ = ["RunnerBody", "RunnerMaker", "Spawn", "processes", "runner_at_home", "runner_in_process"]

logger = logging.getLogger("grainlike.worker")


class RunnerBody(Protocol):
    """Interface of a runner, as far as the daemon uses it."""

    defined: set[int]
    """The functions that it was told of."""

    leave_s: float
    """How long it may take to leave the worker's context, when it is cancelled."""

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send it a message; it may not be up yet."""

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send it a message at the next `flush`, or with what is posted before that."""

    def flush(self) -> None:
        """Send what was enqueued."""

    async def run(self, on_frames: OnFrames) -> str:
        """Run the runner until it exits; return how it exited. Cancellation kills it and waits for its end."""
        ...

    def gone(self, runner: int, how: str) -> RunnerGone:
        """Return what is known of its end, with the number that it has here, and how its process exited."""
        ...

    def held_at(self, lease: int) -> int | None:
        """Return the position of the job of a lease behind which its barrier stands; -1 if none has begun, or the lease
        has just ended: its last outcomes are on their way, or the next one is there already. None if it does not stand
        yet; look again after a while. For one that has one lease at a time.
        """
        ...

    def claimed_for(self) -> float:
        """Return for how many seconds it has run the job that `started` is about, if that is one of a run-list whose
        jobs have a time limit; 0 where that is not known.
        """
        ...

    def stepping(self) -> tuple[int, float] | None:
        """Return the job whose step is on in a process that many share, 0 for none, and for how many seconds it has
        been; None for runners of other kinds.
        """
        ...

    def at_work(self) -> tuple[int, Sequence[int]]:
        """Return the id of its process and the jobs that it has and that have not ended; (0, ()) without a process."""
        ...

    async def stack(self) -> str:
        """Return the Python stack of the code that it runs now; "" if it cannot be told."""
        ...

    def works_on(self, lease: int, jobs: Sequence[int], attempts: Sequence[int]) -> int:
        """Record that a lease goes to it, of which it may start every job: what one writes from now on that has one
        lease at a time is theirs. Return the place of the lease in the page of a process that many share, else 0.
        """
        ...

    def works_on_only(self, position: int) -> None:
        """Record that no job but the one at `position` of the run-list may still be running."""

    def drain(self) -> None:
        """Hand in what has been written until now, before it is told that a job has ended."""

    def bar(self) -> None:
        """Keep it from starting more of its run-list, until it `works_on` the next."""

    def terminate(self, reason: StopReason) -> None:
        """Ask it to end; its jobs see the reason."""

    def kill(self) -> None:
        """End it."""


RunnerMaker = Callable[[RunnerKind, Callable[[int], None], Tap], RunnerBody]
"""Makes a runner of a kind; it tells its process id, where it has one, when the process is there."""

Spawn = Callable[[RunnerKind], "Awaitable[RunnerProcess]"]
"""Starts a process for a runner of this kind."""


def processes(keeper: KeeperClient | None, options: Sequence[str]) -> Spawn:
    """Return what starts runners as `RunnerProcess.spawn` does, with these arguments, and all in the same surroundings:
    the keeper's, else those of now.
    """
    surroundings = Surroundings.now() if keeper is None else keeper.surroundings

    async def spawn(kind: RunnerKind) -> RunnerProcess:
        why = why_no_processes()
        if why:
            raise OSError(why)
        if keeper is not None:
            keeper.begin()  # it loads while we do
        # With the first of them: an embedded worker of coroutines has none, and starts sooner without.
        from grainlike_worker.daemon._spawn import RunnerProcess

        return await RunnerProcess.spawn(kind, keeper=keeper, options=options, surroundings=surroundings)

    return spawn


def runner_in_process(spawn: Spawn, kind: RunnerKind, named: Callable[[int], None], tap: Tap) -> RunnerBody:
    """Return a runner in a process of its own, whatever its kind."""
    return RunnerSupervisor(partial(spawn, kind), named, tap, own=kind == "own")


def runner_at_home(
    spawn: Spawn, kind: RunnerKind, named: Callable[[int], None], tap: Tap, *, show: Show | None
) -> RunnerBody:
    """Return the shared runner in the calling loop, whose output `show` shows; others as processes."""
    return _LoopRunner(tap, show) if kind == "shared" else runner_in_process(spawn, kind, named, tap)


class _LoopRunner:
    """The shared runner in the daemon's own loop. It cannot crash alone, so most of the protocol has nothing to do."""

    leave_s = 0.0

    def __init__(self, tap: Tap, show: Show | None) -> None:
        self._show = show
        self.defined: set[int] = set()
        self._near, self._far = memory_pair()
        self._tap = tap
        self._output: EmbeddedOutput | None = None

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self._near.post(message, [copied(buffer) for buffer in buffers])

    enqueue = post  # one that leaves in this turn would begin in the middle of what the daemon does

    def flush(self) -> None:
        """Do nothing: leases leave as all that is posted does."""

    async def run(self, on_frames: OnFrames) -> str:
        # With the first: a daemon of its own has none, nor has a worker whose jobs are all plain functions.
        from grainlike_worker.runner.loop._output import EmbeddedOutput, hooked_streams
        from grainlike_worker.runner.loop._programs import programs_ended
        from grainlike_worker.runner.loop._runner import serve_shared

        # Not before: a runner may be made in a callback of the loop, where nothing tells which loop it is.
        self._output = EmbeddedOutput(_threadsafe(self.drain), self._show)
        with hooked_streams():
            async with programs_ended(self._output), anyio.create_task_group() as tasks:
                tasks.start_soon(serve_shared, self._far, None, self._output, None, _BlockedLoop().tell)
                await self._near.run(on_frames)
        return "its loop ended"

    def gone(self, runner: int, how: str) -> RunnerGone:
        return RunnerGone(runner, how, -1)

    def held_at(self, lease: int) -> int | None:  # noqa: ARG002 - many at a time, of which each hands itself back
        return -1

    def claimed_for(self) -> float:
        return 0.0

    def stepping(self) -> tuple[int, float] | None:
        return None  # it is our own loop: when we look, none is

    def at_work(self) -> tuple[int, Sequence[int]]:
        return 0, ()

    async def stack(self) -> str:
        return ""

    def works_on(self, lease: int, jobs: Sequence[int], attempts: Sequence[int]) -> int:  # noqa: ARG002 - see `Protocol`
        """Return 0: it has many leases at a time, and knows by context whose output is whose."""
        return 0

    def works_on_only(self, position: int) -> None:
        """Record that the runner may work on the jobs up to this one only; see `works_on`."""

    def drain(self) -> None:
        for job, stream, data in self._output.take() if self._output is not None else ():
            self._tap.told(job.id, job.attempt, stream, data, shown=True)

    def bar(self) -> None:
        """Run-lists here hand themselves back."""

    def terminate(self, reason: StopReason) -> None:  # noqa: ARG002 - its jobs were stopped before, with the reason
        self._near.close()

    def kill(self) -> None:
        self._near.close()


class _BlockedLoop:
    """Warns of functions whose coroutines block the event loop of this program, once of each."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, job: JobInfo, place: str, seconds: float) -> None:
        """Warn of the function of a job, which is written at `place`."""
        if (job.name, place) not in self._told:
            self._told.add((job.name, place))
            words = (
                "job %d, %s%s, has blocked the event loop of this program for %.1f s, and all else that runs in it: "
                "make it a plain function, or give it @delayed(isolate=True)"
            )
            logger.warning(words, job.id, job.name, f" ({place})" if place else "", seconds)


def _threadsafe(call: Callable[[], object]) -> Callable[[], None]:
    """`call`, to be called in the running event loop from whatever thread; once that loop is closed, not at all."""
    schedule: Callable[[Callable[[], object]], object]
    if on_asyncio():
        schedule = asyncio.get_running_loop().call_soon_threadsafe
    else:
        import trio

        schedule = trio.lowlevel.current_trio_token().run_sync_soon

    def soon() -> None:
        with suppress(RuntimeError):
            schedule(call)

    return soon
