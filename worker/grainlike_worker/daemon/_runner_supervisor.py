"""A runner that is a process, and when that is used up, another: to the daemon it is one and the same.

A process is used up when its job left it unfit for the next (it says `Renew`), was killed for taking too much
memory, or has imported code that was edited since. What the dead one had not begun goes to its successor. Its last
words are passed on only when it is gone, for slots are given out again when they are heard.

Two amounts of memory in words that show how they differ.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio

from grainlike.errors import JobMemoryError, ProtocolError
from grainlike.net import OnFrames
from grainlike.payload import Payload
from grainlike.scheduler import RunnerGone
from grainlike.wire import (
    Buffer,
    Code,
    Completed,
    Define,
    Frame,
    FunctionSpec,
    Gang,
    Message,
    Renew,
    Run,
    Setup,
    StopReason,
    Undefine,
)
from grainlike_worker.daemon._child import describe_exit
from grainlike_worker.daemon._output import Tap
from grainlike_worker.ipc._claims import NO_BARRIER, ClaimPage
from grainlike_worker.ipc._steps import CalledPlaces
from grainlike_worker.runner.common._failures import failure
from grainlike_worker.runner.common._job_directories import keeps
from grainlike_worker.runner.common._outcomes import OutcomeBatch

if TYPE_CHECKING:
    from grainlike_worker.daemon._spawn import RunnerProcess
from grainlike.resources._quantity import UNIT, quantity, short

__all__ = ["RunnerSupervisor", "beside"]

logger = logging.getLogger("grainlike.worker")


class RunnerSupervisor:
    """A `RunnerBody`. What is posted while no process is up waits here.

    Only a runner of plain functions (`own`), which holds one lease at a time, can have successors.
    """

    def __init__(
        self, spawn: Callable[[], Awaitable[RunnerProcess]], named: Callable[[int], None], tap: Tap, *, own: bool
    ) -> None:
        self.defined: set[int] = set()
        self.leave_s = 0.0
        self.never_ran = self.never_spawned = True
        self._tap = tap
        self._spawn = spawn
        self._named = named
        self._own = own
        self._process: RunnerProcess | None = None
        self._first: list[Frame] = []
        """What every process of this runner must hear first: its set-up, and functions."""
        self._early: list[Frame] = []
        self._lease: _SentLease | None = None
        self._gang: Gang | None = None
        """Where the job that comes next has its other nodes."""
        self._barred = False
        """True if the next process begins nothing of the run-list: a barrier was asked for before it was up."""
        self._barrier_stands = False
        """True if one was raised that the next run-list must not find."""
        self._last_claim = -1
        self._last_step = 0
        self._places = CalledPlaces()
        self._called: dict[int, int] = {}
        """Position of the job that was called last, by lease, when a process has ended."""
        self._unsent = ""
        """Why a message to the process could not be sent."""
        self._end_wanted: Literal["terminate", "kill"] | None = None
        self._why_ended = "its job was cancelled, or out of time"

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self._keep(message, buffers)
        if self._process is not None:
            self._send(self._process.link.post, message, buffers)

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self._keep(message, buffers)
        if self._process is not None:
            self._send(self._process.link.enqueue, message, buffers)

    def flush(self) -> None:
        if self._process is not None:
            self._process.link.flush()

    def _keep(self, message: Message, buffers: Sequence[Buffer]) -> None:
        """Keep what the process that comes next has to hear."""
        if self._own and isinstance(message, Run):
            self._lease, self._gang = _SentLease(message, buffers, self._gang), None
        elif self._own and isinstance(message, Gang):
            self._gang = message
        elif self._own and isinstance(message, (Setup, Define)):
            self._first.append(Frame(message, list(buffers)))
        elif self._own and isinstance(message, Undefine):
            self._first = list(_without(self._first, set(message.functions).difference(self._running())))
        elif self._process is None:
            self._early.append(Frame(message, list(buffers)))

    def _send(
        self, send: Callable[[Message, Sequence[Buffer]], None], message: Message, buffers: Sequence[Buffer]
    ) -> None:
        """Send a message to the process. One that cannot be encoded ends this process alone, which waits for it."""
        try:
            send(message, buffers)
        except Exception as error:  # noqa: BLE001 - anything else would end the worker, and with it all jobs
            self._unsent = f"a message to it cannot be sent: {error}"
            if self._process is not None:
                self._process.kill()

    async def run(self, on_frames: OnFrames) -> str:
        while True:
            frame_filter = _FrameFilter(on_frames, self._answered)
            how = await self._live(frame_filter)
            again = frame_filter.renewed and self._end_wanted is None
            if again:
                self._last_claim, self._called = -1, {}
            frame_filter.tell_held()
            if not again:
                return how
            on_frames([Frame(Renew(), [])])

    async def _live(self, frame_filter: _FrameFilter) -> str:
        """The life of one process."""
        try:
            process = await self._spawn()
        except OSError as error:
            return f"no process could be started: {error}"
        self._process = process
        self.never_spawned = False
        if self._barred and process.claims is not None:
            process.claims.barrier = 0
            self._barrier_stands = True
        self._named(process.pid)
        try:
            self._introduce(process)
            if self._end_wanted is not None:
                self.kill()
            how = ""
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.output.run, self._tap)
                rubbish = await self._listen(process, frame_filter)
                # The link ends first: a process that closed it and lives on is of no more use.
                with anyio.move_on_after(self.leave_s or 1.0):
                    await process.wait()
                process.kill()
                how = (self._unsent or rubbish or describe_exit(await process.wait())) + self._why_told()
                how += _kept(process.scratch)
                tasks.cancel_scope.cancel()
            if process.claims is not None and process.claims.taken and self._end_wanted is None:
                frame_filter.hold(self._out_of_memory(process.claims))
            return how
        finally:
            self.never_ran = self.never_ran and not frame_filter.heard
            if self.leave_s:
                with anyio.CancelScope(shield=True), anyio.move_on_after(self.leave_s):
                    process.terminate()
                    await process.wait()
            self._take_leave(process)
            self._process = None
            await process.aclose()

    def _take_leave(self, process: RunnerProcess) -> None:
        """Note what only a process that is there can tell."""
        if process.claims is not None:
            self._last_claim = self._begun(process.claims)
            self._called = self._called_of_own(process.claims)
            self.never_ran = self.never_ran and self._last_claim < 0
            self._tap.link = None  # a chain that is lost is its first link's
            self._tap.only(self._last_claim)
        if process.steps is not None:
            self._last_step = process.steps.suspect()
            self._called = self._places.called(process.steps.words)
            self.never_ran = self.never_ran and not self._last_step
        process.output.drain(self._tap)

    def _introduce(self, process: RunnerProcess) -> None:
        if process.claims is not None:
            self._tap.link = partial(getattr, process.claims, "link")
        if self._lease is not None:
            self._tap.lease(self._lease.run.jobs, self._lease.run.attempts)
            process.output.begin()
        frames = [*self._first, *(self._lease.frames() if self._lease is not None else []), *self._early]
        self._early.clear()
        for message, buffers in frames:
            self._send(process.link.post, message, buffers)

    async def _listen(self, process: RunnerProcess, frame_filter: _FrameFilter) -> str | None:
        """Serve the link until it ends. User code may write anything there: that ends its process alone."""
        try:
            await process.link.run(frame_filter.hear)
        except ProtocolError as error:
            return f"it said what no runner says: {error}"
        return None

    def _answered(self, completed: Completed) -> None:
        """Jobs of the run-list have ended; they are answered for in order."""
        if not self._own:
            self._places.answered(completed.lease, len(completed.jobs), self._shared_words)
        lease = self._lease
        if lease is not None and completed.lease == lease.run.lease:
            lease.answered += len(completed.jobs)
            lease.since = time.monotonic()
            if lease.answered >= len(lease.run.jobs):
                self._lease = None

    def _out_of_memory(self, claims: ClaimPage) -> list[Frame]:
        """Return what the process would have reported of its run-list, had it known its end."""
        lease, self._lease = self._lease, None
        if lease is None:
            return []
        run, now = lease.run, time.monotonic()
        columns = OutcomeBatch(run.lease, now)
        # One that died before it began anything is its first job's doing: that must not be tried for ever.
        started = max(claims.begun(run.lease), lease.answered)
        for position in range(lease.answered, len(run.jobs)):
            job, attempt = run.jobs[position], run.attempts[position]
            if position > started:
                columns.never_ran(job, attempt, Code.RETURNED)
            elif position < started:
                columns.never_ran(job, attempt, Code.CRASHED)  # it had ended, but its value died with the process
            else:
                error = self._memory_error(run.fns[position], claims)
                columns.ran(job, attempt, Code.OUT_OF_MEMORY, error, lease.since, now - lease.since, 0.0)
                if not self._spec(run.fns[position]).on_memory:
                    columns.is_final(job)
        return [Frame(*columns.take(claims.taken))]

    def _memory_error(self, fn: int, claims: ClaimPage) -> Payload:
        messages = [message for message, _ in self._first]
        worker = next((message.instance for message in messages if isinstance(message, Setup)), "")
        name = self._spec(fn).name
        asked, peak = claims.limit - claims.base, claims.taken - claims.base
        words, taken = beside(asked, peak)
        if claims.kernel:  # which lets no process take more, so what it would have taken is not known
            told = f"{name} had asked for {words} of memory, and wanted more: worker {worker}'s kernel ended it"
        else:
            told = f"{name} took {taken} of memory on worker {worker}, and had asked for {words}"
        return failure(JobMemoryError(told, asked, peak))

    def _running(self) -> Sequence[int]:
        """Return the functions of the lease that is here."""
        return () if self._lease is None else self._lease.run.fns

    def _spec(self, fn: int) -> FunctionSpec:
        defined = (message for message, _ in self._first if isinstance(message, Define))
        return next(spec for message in defined for spec in message.functions if spec.fn == fn)

    # --- what the daemon does with it --------------------------------------------------------------------------------

    def gone(self, runner: int, how: str) -> RunnerGone:
        stepping = self._last_step
        return RunnerGone(runner, how, self.started(), stepping, self.never_ran, self.never_spawned, self._called)

    def started(self) -> int:
        """Return the position in its run-list that it claimed last; -1 for none."""
        claims = self._claims
        return self._begun(claims) if claims is not None else self._last_claim

    def _called_of_own(self, claims: ClaimPage) -> dict[int, int]:
        """Return the position of the job of the run-list that was called last, by lease."""
        run = None if self._lease is None else self._lease.run
        return {} if run is None or claims.lease != run.lease or claims.called < 0 else {run.lease: claims.called}

    def _begun(self, claims: ClaimPage) -> int:
        """Return the position of the job that the process has begun last, of the run-list that is here."""
        return claims.started if self._lease is None else claims.begun(self._lease.run.lease)

    def held_at(self, lease: int) -> int | None:
        if self._lease is None or self._lease.run.lease != lease:
            return -1
        claims, started = self._claims, self.started()
        if claims is None or claims.barrier <= started + 1:
            # One that is claimed may yet be handed back, or has to wait until we have read what was told before it.
            waits = started >= 0 and claims is not None and self._waits_to_begin(claims, started)
            return None if waits else started
        # It was raised while the process still showed what it had begun of the lease before. What stands between the
        # job that has begun and the barrier may begin, too.
        if started >= 0:
            self.bar()
        return None

    def _waits_to_begin(self, claims: ClaimPage, started: int) -> bool:
        """Return True if the job at that position, which was claimed last, has a time limit, and has not begun."""
        return self._lease is not None and self._lease.run.limit_of(started) is not None and not claims.since

    def claimed_for(self) -> float:
        claims = self._claims
        since = 0 if claims is None or self._lease is None or self._lease.run.limit is None else claims.since
        return (time.monotonic_ns() - since) / 1e9 if since else 0.0

    def stepping(self) -> tuple[int, float] | None:
        if self._own:
            return None
        steps = self._process.steps if self._process is not None else None
        return (0, 0.0) if steps is None else steps.stepping()

    def at_work(self) -> tuple[int, Sequence[int]]:
        if self._process is None:
            return 0, ()
        own = () if self._lease is None else self._lease.run.jobs[self._lease.answered :]
        return self._process.pid, own if self._own else self._places.unended()

    async def stack(self) -> str:
        return await self._process.stack() if self._process is not None else ""

    def works_on(self, lease: int, jobs: Sequence[int], attempts: Sequence[int]) -> int:
        if not self._own:
            return self._places.give(lease, jobs)
        self._barred = False
        if self._barrier_stands:
            self._unbar()
        self._tap.lease(jobs, attempts)
        if self._process is not None:
            self._process.output.begin()
        return 0

    def works_on_only(self, position: int) -> None:
        self._tap.only(position)

    def drain(self) -> None:
        if self._process is not None:
            self._process.output.drain(self._tap)

    def bar(self) -> None:
        claims = self._claims
        # A process that comes up may as well begin what it was given, unless a time limit counts from the barrier. It
        # may be the successor of the one that is here, which has begun nothing, and gives up.
        self._barred = self._lease is not None and self._lease.run.limit is not None
        if claims is not None and self._process is not None:
            claims.barrier = claims.started + 1
            self._barrier_stands = True
            self._process.flush()

    def _unbar(self) -> None:
        self._barrier_stands = False
        claims = self._claims
        if claims is not None:
            claims.barrier = NO_BARRIER

    @property
    def _shared_words(self) -> memoryview[float] | None:
        """The page of a process that many leases share, while there is one."""
        steps = self._process.steps if self._process is not None else None
        return None if steps is None else steps.words

    @property
    def _claims(self) -> ClaimPage | None:
        """The page shared with the process, while there is one: a shared runner has none."""
        return self._process.claims if self._process is not None else None

    def _why_told(self) -> str:
        return "" if self._end_wanted is None else f", as it was told to end: {self._why_ended}"

    def terminate(self, reason: StopReason) -> None:
        if self._end_wanted is None and self._lease is None:
            self._why_ended = "another job is given a device whose memory it may hold"
        self._end_wanted = self._end_wanted or "terminate"
        if self._process is not None:
            self._process.terminate(reason)

    def kill(self) -> None:
        self._end_wanted = "kill"
        if self._process is not None:
            self._process.kill()


class _SentLease:
    """Jobs that a process was sent to run, how many of them are answered for, and since when it is at the rest."""

    __slots__ = ("_buffers", "_gang", "answered", "run", "since")

    def __init__(self, run: Run, buffers: Sequence[Buffer], gang: Gang | None) -> None:
        self.run = run
        self.answered = 0
        self.since = time.monotonic()
        self._buffers = buffers
        self._gang = gang

    def frames(self) -> Iterator[Frame]:
        """Return the frames that a process needs to begin it."""
        if self._gang is not None:
            yield Frame(self._gang, [])
        yield Frame(self.run, list(self._buffers))


class _FrameFilter:
    """Forwards frames of one process; holds those after `Renew` until it has exited."""

    def __init__(self, on_frames: OnFrames, answered: Callable[[Completed], None]) -> None:
        self.heard = self.renewed = False
        self._on_frames = on_frames
        self._answered = answered
        self._held: list[Frame] = []

    def hear(self, frames: list[Frame]) -> None:
        """Take one read."""
        self.heard = True
        passed = 0 if self.renewed else len(frames)
        for at, (message, _) in enumerate(frames):
            if isinstance(message, Completed):
                self._answered(message)
            elif isinstance(message, Renew):
                passed = min(passed, at)
                if message.why:
                    logger.info("a fresh process takes the place of one for jobs: %s", message.why)
        if passed < len(frames):
            self.hold([frame for frame in frames[passed:] if not isinstance(frame[0], Renew)])
        if passed:
            self._on_frames(frames[:passed])

    def hold(self, frames: list[Frame]) -> None:
        """Keep the last frames of a process, for when it is gone."""
        self.renewed = True
        self._held += frames

    def tell_held(self) -> None:
        """Record that the runner is gone."""
        if self._held:
            self._on_frames(self._held)


def _without(frames: Iterable[Frame], functions: set[int]) -> Iterator[Frame]:
    """Return the definitions without these functions."""
    for frame in frames:
        message, buffers = frame
        if isinstance(message, Define):
            kept = [at for at, spec in enumerate(message.functions) if spec.fn not in functions]
            if kept:
                specs = [message.functions[at] for at in kept]
                yield Frame(Define(specs, message.classes), [buffers[at] for at in kept])
        else:
            yield frame


def _kept(scratch: str) -> str:
    """Return words for scratch directories that jobs of a dead process have left and that are to be kept."""
    try:
        left = keeps() and os.listdir(scratch)  # noqa: PTH208 - whether there is anything
    except OSError:
        return ""
    return f"; its scratch directories are kept: {scratch}" if left else ""


_MOST_DIGITS = 9


def beside(asked: int, taken: int) -> tuple[str, str]:
    """Write bytes that were asked for as a request would, and those that were taken in the same unit.

    The second has as few digits as tell the two apart.

    Example::

        beside(200 * 2**20, 210_763_776)  # ("200Mi", "201Mi")
    """
    words = short(asked * UNIT) or str(asked)
    count = words.rstrip("EGKMPTik")
    unit = words[len(count) :]
    scale = quantity(f"1{unit}") // UNIT
    if asked == taken:
        return words, words
    tries = (f"{taken / scale:.{digits}f}" for digits in range(_MOST_DIGITS))
    return words, next((told for told in tries if float(told) != int(count)), count) + unit
