"""`Executor`: opens and closes everything, and is what users hold."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec.structs import replace

from grainlike.context import GVAR, JobInfo
from grainlike.errors import GrainlikeError, GraphError
from grainlike.executor._backend import Backend, Manner
from grainlike.executor._door import Door
from grainlike.executor._embedded import embed, offer_for
from grainlike.executor._engine import Engine
from grainlike.executor._events import Event, Events, WorkersFeed
from grainlike.executor._finding import alone, current, entered, left
from grainlike.executor._guests import Guests
from grainlike.executor._head import Head
from grainlike.executor._home import Home, here, soon, spawn_detached
from grainlike.executor._in_job import leave_none
from grainlike.executor._job import Job
from grainlike.executor._job_uplink import Ring
from grainlike.executor._local import LocalCalls
from grainlike.executor._logs import LogLine
from grainlike.executor._memo import Memo
from grainlike.executor._observer import Observer
from grainlike.executor._resolving import Resolving
from grainlike.executor._totals import Totals
from grainlike.graph import Delayed, Node, State, Stream, delayed, node_behind, start
from grainlike.net import Alarm
from grainlike.resources import Allocation, Request
from grainlike.scheduler import Explanation

if TYPE_CHECKING:
    from grainlike.executor._backend_jobs import BackendJobs
    from grainlike.executor._entrance import Entrance
    from grainlike.executor._recorder import Recorder
    from grainlike.executor._workers import WorkerInfo

__all__ = ["NOT_GIVEN", "Executor", "NotGiven", "import_paths"]

logger = logging.getLogger("grainlike")

QUIET_S = 12.0
"""How long closing waits for jobs to be gone: a grace, a signal, and another."""


class NotGiven:
    """Stands for `local=` not given."""

    def __repr__(self) -> str:
        return "<this process's own cores>"


NOT_GIVEN = NotGiven()


class Executor(Resolving):
    """Runs placeholders: on a worker embedded in this process, on workers that dial in, or both.

    Args:
        local: what the embedded worker offers, as `Cores(4)`, `Node(4, "8Gi")`, `Cores([6, 7])`; None for no embedded
            worker. By default this process's own cores, and no embedded worker when `listen` is given.
        listen: an address at which workers may dial in: `"tcp://0.0.0.0:0"` (all interfaces, any free port),
            `"tcp://127.0.0.1:0"` or `"unix:///path/to/socket"`. What a worker needs to be let in is written to an
            access file that only this user can read. TCP is TLS 1.3, with certificates on both sides.
        access: the `head.json` of files made beforehand with `grainlike access generate`, to be the head of that
            cluster. The files beside it are told the address, and stay.
        insecure: listen without TLS, on this machine's loopback alone. Everybody who can log in to this machine can
            then run code as you.
        backend: run jobs on an engine of another kind: `DaskBackend(...)`, `RayBackend()`, `CeleryBackend(...)`,
            `ThreadBackend(4)`, `ProcessBackend(4)`, or anything with `name`, `submit(fn, *args, **kwargs)`,
            `result(future, timeout=None)` and `shutdown(wait=True)`, sync or async. Requests are passed on to it; what
            it can not honour is refused by name. Jobs there can not submit jobs. It is shut down at the end. Then there
            is no embedded worker, and nothing to listen for.
        on_failure: at the first failure of a graph, `"fail_fast"` cancels what only that graph still wants;
            `"continue"` lets it run to its end.
        echo: whether this program's own streams show what jobs of the embedded worker print. `logs` has it in any case.
        record: keep when and where jobs ran, for `write_trace`: the last 100 000, or as many as it says. That takes
            some 7 microseconds and 300 bytes for each.

    Leaving the block cancels what still runs, waits until it is gone, and leaves no process, socket, file or thread
    behind. An exception that leaves the block is the user's own. The executor may be closed in another task than it was
    opened in, but in the same event loop.

    Raises:
        ResourceSpecError: `local` is no offer.
        ValueError: `listen` is no address, or `access` no access file of a head; or `backend` does not stand alone.
        TypeError: `backend` is none.
        OSError: the address is in use.
        PermissionError: TCP beyond loopback with `insecure`, a Unix socket in a directory that others may enter, or an
            access file that others could have read or written.

    Example::

        async with Executor(local=Cores(4)) as executor:
            print(await (square @ Cores(1))(3))
    """

    def __init__(
        self,
        *,
        local: Request | NotGiven | None = NOT_GIVEN,
        listen: str | None = None,
        access: str | PathLike[str] | None = None,
        insecure: bool = False,
        backend: Backend | None = None,
        on_failure: Literal["fail_fast", "continue"] = "fail_fast",
        echo: bool = True,
        record: bool | int = False,
    ) -> None:
        if on_failure not in ("fail_fast", "continue"):
            raise ValueError(f"on_failure= is 'fail_fast' or 'continue', not {on_failure!r}")
        if listen is not None and not isinstance(listen, str):
            raise TypeError(f"listen= is an address such as 'tcp://127.0.0.1:0', not {listen!r}")
        if listen is None and (access is not None or insecure):
            raise ValueError("access= and insecure= say how workers dial in: they go with listen=")
        if access is not None and insecure:
            raise ValueError("access= brings certificates, and insecure= does without: leave one of them out")
        if not isinstance(record, int) or record < 0:
            raise ValueError(f"record= is True, or how many jobs are to be kept, not {record!r}")

        if backend is not None and (listen is not None or not (local is None or isinstance(local, NotGiven))):
            raise ValueError("backend= runs the jobs elsewhere: leave out local= and listen=")
        self._manner = None if backend is None else Manner(backend)
        self.offer: Allocation | None = None
        """What the embedded worker offers, with ids; None without one."""
        if isinstance(local, NotGiven):
            local = None
            if listen is None and backend is None:
                self.offer = offer_for(None)
        if local is not None:
            self.offer = offer_for(local)
        self._listen = listen
        self._access = None if access is None else Path(access)
        self._insecure = insecure
        self._fail_fast = on_failure == "fail_fast"
        self._echo = echo
        self._most_recorded = record
        self._recorder: Recorder | None = None
        self._state: Literal["new", "open", "closing", "closed"] = "new"
        self.opened_in: JobInfo | None = None
        """The job that opened it; jobs inherit the context of a task that may know of other executors."""
        self._failure: BaseException | None = None
        self._address: str | None = None
        self._tokens: list[Any] = []

    @classmethod
    def implicit(cls, home: Home) -> Executor:
        """An executor that nobody opens or closes: it lives as long as its loop."""
        executor = cls()
        executor._open(home)
        return executor

    def __repr__(self) -> str:
        where = f" at {self._address}" if self._address else ""
        return f"<Executor {self._state}{where}, {self.offer or 'no embedded worker'}>"

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        home = here()
        if home is None:
            raise RuntimeError("an Executor is opened inside an event loop: `async with`, or grainlike.run(main)")
        self._open(home)
        try:
            await self._opened.wait()
            if self._failure is not None:
                raise self._failure
        except BaseException:
            await self._close()
            raise
        entered(self, home)
        self._tokens.append(current.set(self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._check_home("closed", open_only=False)
        left(self, self.home)
        with suppress(ValueError):  # opened in another context, as fixtures are: there is nothing to put back here
            current.reset(self._tokens.pop())
        await self._close()
        # What failed inside is told rather than what followed from it; an error of the user's own goes first.
        if self._failure is not None and (error is None or isinstance(error, GrainlikeError)):
            raise self._failure

    def _open(self, home: Home) -> None:
        if self._state != "new":
            raise RuntimeError(f"this executor is {self._state}: make a new one")
        self._state = "open"
        self._home = home
        self.opened_in = GVAR.job
        self._opened = anyio.Event()
        self._stop = anyio.Event()
        self._closed = anyio.Event()
        self._changed = anyio.Event()
        self._engine = Engine(self, lambda call: soon(home, call), fail_fast=self._fail_fast)
        self._alarm = Alarm(self._ring)
        self._head = self._make_head()
        self._calls = LocalCalls(self._engine, current, self, home)
        self._calls.observers = self._head.observers
        self._engine.jobs = self._head
        self._foreign: BackendJobs | None = None
        if self._manner is not None:
            from grainlike.executor._backend_jobs import BackendJobs

            self._foreign = BackendJobs(self._manner, self._engine, self._head.tally, self._head.observers)
            self._foreign.changed = self._settled
            self._engine.jobs = self._foreign
        self._engine.calls = self._calls
        self._engine.cache = self._memo = Memo(self._engine, self.later)
        if self._most_recorded:
            self._record()
        self._task = spawn_detached(home, "grainlike executor", self._serve)

    _returns = False
    """Whether this head outlives its process."""

    def _make_head(self) -> Head:
        return Head(self._engine, closed=self._listen is None, alarm=self._alarm.set)

    def _record(self) -> None:
        from grainlike.executor._recorder import MOST, Recorder

        most = MOST if self._most_recorded is True else self._most_recorded
        self._recorder = self._head.recorder = recorder = Recorder(self.live_job, self.assembles, most)
        self._head.observers.append(recorder)
        self._head.counted = recorder.counted
        if self._foreign is not None:
            self._foreign.counted = recorder.counted
        self._engine.applied = recorder.applied

    async def _close(self) -> None:
        if self._state == "open":
            self._state = "closing"
        self._stop.set()
        self._change()
        with anyio.CancelScope(shield=True):
            await self._closed.wait()

    async def _serve(self) -> None:
        """Everything that waits, in one task group of a task of its own. Raises nothing but its cancellation."""
        try:
            await self._live()
        except Exception as error:
            self._failure = _innermost(error)
            if self._opened.is_set():
                logger.error("%r has failed: %r", self, self._failure, exc_info=self._failure)
        finally:
            self._state = "closed"
            self._change()
            self._engine.cancel_all()
            with anyio.CancelScope(shield=True):
                await self._memo.aclose()
            self._head.depot.close()
            for observer in self._head.observers:
                observer.closed()
            left(self, self.home)
            if alone(self.home):
                await leave_none(self.home)
            self._opened.set()
            self._closed.set()

    async def _live(self) -> None:
        # A loop that ends at once ends here: tasks that were made but never ran would be reported as never awaited.
        await anyio.lowlevel.checkpoint()
        with ExitStack() as stack:
            entrance = None
            if self._listen is not None:
                entrance = stack.enter_context(self._open_entrance(self._listen))
                self._address = str(entrance.address)
            cluster = "embedded" if entrance is None else entrance.cluster
            guests = self._make_guests(cluster)
            joined = partial(self._joined, guests)
            door = Door(self._head, guests, cluster, import_paths(), self._settled, joined, returns=self._returns)
            async with anyio.create_task_group() as tasks:
                self._calls.open(tasks)
                tasks.start_soon(self._alarm.run)
                self._restore(door, tasks)
                if entrance is not None:
                    tasks.start_soon(entrance.listener.serve, door.admit)
                try:
                    if self.offer is not None:
                        await self._embed(tasks, door, self.offer)
                    if self._foreign is not None:
                        await self._foreign.open(tasks, self.home)
                    self._engine.release_hold()
                    self._opened.set()
                    await self._stop.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(guests, entrance)
                    tasks.cancel_scope.cancel()

    def _open_entrance(self, listen: str) -> AbstractContextManager[Entrance]:
        from grainlike.executor._entrance import open_entrance

        return open_entrance(listen, self._access, insecure=self._insecure)

    def _make_guests(self, cluster: str) -> Guests:
        return Guests(self._head, cluster, self._cancel_job, self._stop_asked, self._deserted)

    def _restore(self, door: Door, tasks: TaskGroup) -> None:
        """Before anybody is let in."""

    async def _end(self, guests: Guests, entrance: Entrance | None) -> None:
        """End all work, then all connections."""
        guests.leave_all()
        await self._quieten()
        if self._foreign is not None:
            await self._foreign.close()
        if entrance is not None:
            entrance.withdraw()
        await self._head.farewell()
        await guests.farewell()

    async def _embed(self, tasks: TaskGroup, door: Door, offer: Allocation) -> None:
        link, serve = embed(offer, echo=self._echo)
        tasks.start_soon(door.admit, link)
        tasks.start_soon(serve)
        await self._until(lambda: bool(self._head.peers))

    async def _quieten(self) -> None:
        """Cancel everything, and wait until no job is anywhere."""
        self._state = "closing"  # also when it was the loop that ended us, so that each outcome is looked at below
        self._engine.cancel_all()
        with anyio.move_on_after(QUIET_S):
            await self._until(self._is_quiet)
        if not self._is_quiet():
            logger.warning("some jobs did not end within %g s of being cancelled; their workers are left", QUIET_S)

    def _is_quiet(self) -> bool:
        return self._head.quiet and (self._foreign is None or self._foreign.quiet)

    # --- what happens ------------------------------------------------------------------------------------------------

    def _settled(self) -> None:
        self._engine.pump()
        if self._state != "open":
            self._change()

    def _joined(self, guests: Guests) -> None:
        guests.workers_changed()
        self._change()

    def _change(self) -> None:
        """Let all who wait in `_until` look again."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def _ring(self) -> None:
        self._head.tick()
        self._engine.pump()

    def _cancel_job(self, number: int) -> bool:
        """End a job for everybody; False where there is none."""
        node = self._head.view.node_of(number)
        if node is None:
            return self._head.cancel_nested(number)
        self._engine.cancel([node])
        return True

    def _stop_asked(self) -> bool:
        """A client wants the head to end; False if that is not for clients to say."""
        return False

    def _deserted(self) -> None:
        """The last client has left."""

    # --- the graph's resolver ----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it is what an `await` in its block means; one that is closing refuses the work itself."""
        return self._state in ("open", "closing")

    async def wait(self, node: Node) -> Any:
        """Start what is not started, wait for the node, and return its value or raise its error."""
        self._check_home("awaited")
        return await self._engine.wait(node)

    def observe(self, observer: Observer) -> None:
        """Let `observer` hear of all that happens to jobs from now on, and of the workers that are here."""
        for peer in self._head.peers.values():
            observer.joined(peer)
        if self._foreign is not None:
            self._foreign.introduce(observer)
        self._head.observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """It hears of nothing more."""
        if observer in self._head.observers:
            self._head.observers.remove(observer)

    async def ready(self) -> None:
        """Wait until it has opened: an implicit one may be used before its worker is here.

        Raises:
            RuntimeError: it is closed, or belongs to another event loop.
        """
        self._check_home("used")
        await self._opened.wait()

    def refusal(self, request: Request) -> str | None:
        """Why no call that asks for this would ever run here; None if one may."""
        if self._foreign is not None:
            return self._foreign.refusal(request)
        return self._head.view.refusal(request)

    def refusal_of(self, node: Node) -> str | None:
        """Why the call of `node` would never run here; None if it may."""
        if node.request is None:
            return None
        return self.refusal(node.request) if self._foreign is None else self._foreign.refusal_of(node)

    @property
    def backend_name(self) -> str:
        """What runs the jobs, for reports."""
        return "grainlike" if self._manner is None else self._manner.name

    def live_job(self, number: int, attempt: int) -> Job | None:
        """What is known of a job while it lives and this is its attempt."""
        if self._foreign is not None:
            return self._foreign.live_job(number, attempt)
        return self._head.view.job(number, attempt)

    def assembles(self, number: int) -> bool:
        """Whether slots are held for this job on several workers, and it waits for more: it has not started."""
        return self._head.view.assembles(number)

    async def pause(
        self,
        event: Ring,
        nodes: Callable[[], Iterable[Node]],  # noqa: ARG002 - only jobs care which
        let_go: Callable[[], None],
    ) -> None:
        """Wait for an event that comes with the end of one of `nodes`; see `JobExecutor`."""
        try:
            await event.wait()
        except BaseException:
            let_go()
            raise

    def _check_home(self, what: str, *, open_only: bool = True) -> None:
        if open_only and self._state != "open":
            raise RuntimeError(f"{self!r} is not open")
        now = here()
        if now != self._home:
            raise RuntimeError(f"this executor lives in the {self._home}; it is {what} from {now or 'no event loop'}")

    # --- what users ask ----------------------------------------------------------------------------------------------

    @property
    def address(self) -> str | None:
        """What a worker dials, as `tcp://HOST:PORT` or `unix:///PATH`; None without `listen=`."""
        return self._address

    def workers(self) -> list[WorkerInfo]:
        """The workers that are here, the embedded one too."""
        return self._head.view.workers() if self._state == "open" else []

    async def wait_for_workers(self, n: int = 1) -> None:
        """Wait until `n` workers are here, counting the embedded one. Bound it with `anyio.fail_after`.

        With `backend=` the workers are the engine's, which takes jobs from the beginning: then it returns at once.

        Raises:
            RuntimeError: it is closed, or was before they had come.
        """
        self._check_home("awaited")
        if self._foreign is not None:
            return
        await self._until(lambda: len(self._head.peers) >= n or self._state != "open")
        if len(self._head.peers) < n:
            raise RuntimeError(f"{self!r} is not open any more, and {n} workers were waited for")

    async def explain(self, placeholder: Delayed[Any] | Stream[Any]) -> Explanation:
        """Say where a placeholder stands and what it waits for, from the books that decide; `str` of it is a sentence.

        It starts nothing. Asking about one that belongs to another executor is a `GraphError`.

        Example::

            print(await executor.explain(r_))
            # Job 7 waits for room: nearest is n1, short of cores (asked 16, free 12 of 16), held by jobs 3.
            # It would start now with Cores(12).
        """
        self._check_home("asked")
        node = node_behind(placeholder)
        if node.owner is not None and node.owner is not self and not node.finished:
            raise GraphError(f"{node.function.name} belongs to another executor ({node.owner}): ask that one")
        return replace(self._head.view.explain(node), kept=self._memo.words(node))

    def logs(self, placeholder: Delayed[Any] | Stream[Any]) -> AsyncIterator[LogLine]:
        """Iterate over the lines that a job has printed, and prints until it has ended; over those of all attempts.

        Everything that the job and its children write to standard output and error counts, and what it logs there. Each
        line is a string, without its end, and has `.attempt` (1, 2, ...) and `.stream`: `"stdout"`, `"stderr"`, or
        `"note"` for a remark of grainlike's, such as how much is left out: of long output the first 1 MiB is kept
        and the last 64 KiB, and past the first a live iteration gets at most 64 KiB a second.

        Coroutines share a process, so of theirs only what Python prints or logs can be told apart; for what C code and
        children write, see the worker's log, or use `isolate=True`. Calls without resources are no jobs and have no
        lines. Output lies at the job's workers, and what a worker has not told yet is gone with it.

        Leaving the iteration, or cancelling it, changes nothing for the job.

        Raises:
            GraphError: nobody has started the placeholder yet, or another executor has.
            RuntimeError: the executor is not open, or lives in another event loop; or it has `backend=`, whose own logs
                have what its jobs print.

        Example::

            r_ = start((train @ Cores(4))(data))
            async for line in executor.logs(r_):
                print(line.stream, line)
        """
        self._check_home("asked")
        node = node_behind(placeholder)
        if node.owner is not None and node.owner is not self:
            raise GraphError(f"{node.function.name} belongs to another executor ({node.owner}): ask that one")
        if node.state is State.LAZY:
            raise GraphError(f"{node.function.name} has not been started: `start` it first")
        if self._foreign is not None:
            raise RuntimeError(f"what jobs on {self.backend_name!r} print is in its own logs")
        return self._head.logs.lines(node, self._head.peers.values())

    def events(self) -> AsyncIterator[Event]:
        """What happens on the workers from now on: workers that are here, come and go, jobs that start and end.

        It ends when the executor has closed. Any number of readers may listen, each to all; one that is dropped is
        listened to no more.

        Example::

            async for event in executor.events():
                print(event.kind, event.worker, event.name, event.allocation, event.outcome)
        """
        self._check_home("listened to")
        feed = WorkersFeed(self)
        self.observe(feed)
        return Events(feed, self.unobserve)

    def report(self) -> Totals:
        """How the jobs of this executor have ended so far, and what time they took. Calls without resources are none.

        Example::

            print(executor.report())
            # 98 succeeded, 2 failed in 12.4 s
        """
        self._check_home("asked", open_only=False)
        return self._head.tally.totals()

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write what ran so far as a trace for ui.perfetto.dev and chrome://tracing. The executor must `record`.

        There is a row for each core and each GPU of each worker, and a bar on it for each attempt of a job, with true
        times; calls without resources have rows of their own. Arrows lead from jobs to those that were given their
        values, counters show how many jobs waited and ran, and what memory was held. What still runs is drawn to this
        moment. It may be called at any time, also after the executor has closed.

        A job on several nodes is drawn on the first of them. Calls that `amap` puts together are one bar. Of jobs that
        other programs submit, or other jobs, it is not known what they were given: they have no arrows. It keeps the
        event loop for about a second for 100 000 jobs.

        Raises:
            RuntimeError: the executor was not told to record, or was never opened.
            OSError: the file cannot be written.

        Example::

            async with Executor(local=Cores(4), record=True) as executor:
                await main()
                executor.write_trace("trace.json")
        """
        if self._recorder is None:
            raise RuntimeError(f"{self!r} has recorded nothing: open it with Executor(..., record=True)")
        from grainlike.observe import trace

        Path(path).write_text(trace(self._recorder.stretches(), self._recorder.depths()), encoding="utf-8")

    def submit(self, request: Request, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Delayed[Any]:
        """Start `fn(*args, **kwargs)` on `request` without building a graph by hand; returns its placeholder.

        Example::

            results = [executor.submit(Cores(1), square, x) for x in range(10)]
            print([await r_ for r_ in results])
        """
        self._check_home("used")
        placeholder: Delayed[Any] = (delayed(fn) @ request)(*args, **kwargs)
        token = current.set(self)
        try:
            return start(placeholder)
        finally:
            current.reset(token)


def import_paths() -> list[str]:
    """Where this program imports from, so that a worker's jobs can import the same modules."""
    return [path or str(Path.cwd()) for path in sys.path]  # "" is the directory of a REPL


def _innermost(error: Exception) -> BaseException:
    """One error out of a task group's group: users never see groups of ours."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner
