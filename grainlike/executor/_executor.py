"""`Executor`: what users hold and ask, and what the graph means by an `await`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from contextlib import aclosing
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, NoReturn, Self, cast

import anyio
from msgspec.structs import replace

from grainlike.context import this_job
from grainlike.engine import BaseResolver, Waitable, value_words
from grainlike.errors import GrainlikeError, GraphError
from grainlike.eventloop import EventLoopId, here, is_here
from grainlike.executor._exits import close_at_exit
from grainlike.executor._registry import block_left, current, enclosing, entered, left, standing_in
from grainlike.executor._reports import ExecutorReports
from grainlike.executor._settings import NOT_GIVEN, NotGiven, refuse_attribute, refuse_options, settings_for
from grainlike.graph import Delayed, Node, State, Stream, delayed, node_behind, start
from grainlike.jobs import Events, LogLine, WorkerInfo
from grainlike.resources import Allocation, Request
from grainlike.scheduler import Explanation
from grainlike.wire import BlockRow, PoolRow

if TYPE_CHECKING:
    from grainlike.backends import Backend
    from grainlike.executor._job_service import JobService
    from grainlike.executor._local_head import LocalHead
    from grainlike.executor._pools import Launch, LaunchedPool
    from grainlike.launch import WorkerPool
    from grainlike.telemetry import CallObserver

__all__ = ["Executor", "offer_with"]

logger = logging.getLogger("grainlike")


class Executor(ExecutorReports):
    """Async context manager that runs placeholders: on a worker embedded in this process, on workers that connect, or
    both.

    Args:
        local: offer of the embedded worker, as `Cores(4)`, `Node(4, "8Gi")`, `Cores([6, 7])`; None for no embedded
            worker. By default this process's own cores, and no embedded worker when `listen` is given.
        listen: an address at which workers may connect: `"tcp://0.0.0.0:0"` (all interfaces, any free port),
            `"tcp://127.0.0.1:0"` or `"unix:///path/to/socket"`. What a worker needs to connect is written to an
            access file that only this user can read. TCP is TLS 1.3, with certificates on both sides.
        access: the `head.json` of files made beforehand with `grainlike access generate`, to be the head of that
            cluster. The address is written to the files beside it, which stay.
        insecure: listen without TLS, on this machine's loopback alone. Everybody who can log in to this machine can
            then run code as you.
        backend: run jobs on an engine of another kind: `DaskBackend(...)`, `RayBackend()`, `CeleryBackend(...)`,
            `ThreadBackend(4)`, `ProcessBackend(4)`, or any object with `name`, `submit(fn, *args, **kwargs)`,
            `result(future, timeout=None)` and `shutdown(wait=True)`, sync or async. A request that it cannot honour
            is refused by name. Jobs there cannot submit jobs. It is shut down at the end, and there is no worker here.
        on_failure: at the first failure of a graph, `"fail_fast"` cancels the calls that only that graph still needs;
            `"continue"` lets them run to their end.
        echo: show the output of the embedded worker's jobs, and of calls without resources, on this program's streams.
            `logs` has the output of jobs in any case. For code that runs in this process itself (coroutines, calls
            without resources), the output is what Python prints or logs.
        record: keep when and where jobs ran, for `write_trace`: the last 100 000 jobs, or the number given. Each job
            takes some 7 microseconds and 300 bytes.
        launch: pools of workers in batch systems, by SSH or on this machine: a pool of `grainlike.launch`, the name of
            one in the settings, or a list of these. Blocks of workers are submitted as jobs need them. Unless
            they are given, `local` is none then, and `listen` all interfaces. At the end pending blocks are withdrawn,
            workers end, and nothing is left in the batch system.
        dashboard: serve pages for browsers about this executor, at `"HOST:PORT"`, or with True on this machine's
            loopback at any free port. The link to them is logged; `dashboard` gives more links. It needs asyncio, and
            `pip install 'grainlike[dashboard]'`.
        logging: pass log records of jobs on to this program's loggers, according to their levels; see docs/logging.md.
            With False a job's process handles its records itself, and anything that it writes is the job's output.
        events: append the events of workers, jobs and pools to this file as JSON lines, `"-"` for the standard
            output; docs/monitoring.md has their schema.
        observers: objects of `grainlike.telemetry.CallObserver`, which learn of this program's jobs, or names of
            installed ones, as `"otel"`. `GRAINLIKE_OBSERVERS` names more. See docs/monitoring.md.
        store: shared memory (`"8Gi"`) for large values that stay at the embedded worker; see docs/data.md.
        scratch: a directory on a disk for values that do not fit there.
        scratch_limit: bytes of that disk that values may take (`"100Gi"`).

    Leaving the block, or cancelling it, cancels the calls that still run, `start`ed ones too, waits until they have
    ended, and leaves no process, socket, file or thread behind. An exception that leaves the block is the user's own.
    The executor may be closed in another task than it was opened in, but in the same event loop. An `await` in another
    loop ignores it.

    `ex = await Executor(...)` opens it without a block, for the life of its event loop: for a notebook, or a prompt.
    What awaits after it uses it, and so do all tasks of the loop that are in no block. Where several are open round an
    `await`, with blocks or without, the one that was opened last is used. So one that was opened in a block stays in
    use when the block ends, until it is closed. It closes by `await ex.aclose()`, otherwise with its loop, or when
    Python ends. A program that does not close it itself gets a `ResourceWarning`.

    Raises:
        ResourceSpecError: `local` is no offer, or `store`, `scratch` or `scratch_limit` is not possible here.
        ValueError: `listen` is no address, or `access` no access file of a head; or `backend` is not given alone.
        TypeError: `backend` is no engine, or `launch` no pool, or one of `observers` no observer.
        ImportError: `dashboard` or an observer needs packages that are not installed.
        RuntimeError: `dashboard` is asked for on another event loop than asyncio's; when the executor is opened.
        LaunchError: a pool with `min` above 0 was refused by its batch system; when the executor is opened.
        OSError: the address is in use, or the file for `events` cannot be opened; when the executor is opened.
        PermissionError: TCP beyond loopback with `insecure`, a Unix socket in a directory that others may enter, or an
            access file that others could have read or written.

    Example::

        async with Executor(local=Cores(4)) as executor:
            print(await (square @ Cores(1))(3))

        executor = await Executor(local=Cores(4))  # in a cell of a notebook
        print(await (square @ Cores(1))(3))  # in another
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
        launch: Launch | None = None,
        dashboard: bool | str = False,
        logging: bool = True,
        events: str | PathLike[str] | None = None,
        observers: Iterable[CallObserver | str] = (),
        store: str | None = None,
        scratch: str | PathLike[str] | None = None,
        scratch_limit: str | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_options(unknown)
        super().__init__(
            settings_for(
                local=local,
                listen=listen,
                access=access,
                insecure=insecure,
                backend=backend,
                on_failure=on_failure,
                echo=echo,
                record=record,
                launch=launch,
                dashboard=dashboard,
                logging=logging,
                events=events,
                observers=observers,
                store=store,
                scratch=scratch,
                scratch_limit=scratch_limit,
            )
        )
        self._tokens: list[Any] = []

    @classmethod
    def implicit(cls, loop_id: EventLoopId) -> Executor:
        """Return a new open executor that is never closed: it lives as long as its event loop."""
        executor = cls()
        executor._open(loop_id)
        close_at_exit(executor)
        return executor

    def __repr__(self) -> str:
        where = f" at {self.address}" if self.address else ""
        return f"<Executor {self._state}{where}, {self.offer or 'no embedded worker'}>"

    def _make_service(self) -> JobService:
        adapter = self._settings.manner
        if adapter is None:
            from grainlike.executor._local_head import LocalHead  # a program that is connected to a head has none

            return LocalHead(self._settings, self._engine, self._changes)
        from grainlike.backends import BackendRunner

        self._engine.keeps_contexts = adapter.in_process
        return BackendRunner(adapter, self._engine, self._changes)

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._tokens.append(entered(self, await self._open_here()))
        return self

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._stand().__await__()

    async def _stand(self) -> Self:
        """Open it for the life of its loop."""
        if this_job() is not None:
            self._unopened.excuse()
            raise RuntimeError(f"in a job an executor is opened for a block: write `async with {self._made_by} as ex:`")
        loop_id = await self._open_here()
        before = standing_in(loop_id)
        if before is not None:
            logger.warning(
                "%r is open in this loop, too, and `await` uses %r from now on: `await ex.aclose()` closes the other",
                before,
                self,
            )
        self._stands = True
        entered(self, loop_id, stands=True)
        close_at_exit(self)
        return self

    async def _open_here(self) -> EventLoopId:
        loop_id = here()
        if loop_id is None:
            self._unopened.excuse()
            raise RuntimeError("an Executor is opened inside an event loop: `async with`, or grainlike.run(main)")
        self._open(loop_id)
        await self._wait_until_open()
        self.enclosing: BaseResolver | None = enclosing()
        return loop_id

    async def aclose(self) -> None:
        """Close it, as leaving its block does; no-op if it has closed, or was never opened.

        Cancellation does not interrupt the wait.

        Raises:
            RuntimeError: it lives in another event loop.
            GrainlikeError, OSError: it had failed.

        Example::

            executor = await Executor(local=Cores(4))
            print(await (square @ Cores(1))(3))
            await executor.aclose()
        """
        if self._state == "new":
            self._unopened.excuse()
            return
        self._check_loop("closed", open_only=False)
        self._stands = False
        left(self, self.loop_id)
        await self._close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._check_end(error)
        left(self, self.loop_id)
        block_left(self, self._tokens.pop())
        self._left_in_order = error is None
        await self._close()
        # What failed inside is told rather than what followed from it; an error of the user's own goes first.
        if self._failure is not None and (error is None or isinstance(error, GrainlikeError)):
            raise self._failure

    if not TYPE_CHECKING:  # to a type checker, all of these are wrong

        def __getattr__(self, name: str) -> NoReturn:
            refuse_attribute(self, name)

        def __enter__(self) -> NoReturn:
            self._unopened.excuse()
            raise TypeError(f"an executor is opened in an event loop: write `async with {self._made_by} as ex:`")

        def __exit__(self, *_: object) -> None:
            """Never called: Python looks for it before it calls `__enter__`, which raises."""

    # --- the graph's resolver ----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Return True if an `await` in its block uses it. One that is closing still does, and refuses the work."""
        return self._state in ("open", "closing")

    def wait(self, node: Node) -> Coroutine[Any, Any, Any]:
        """Start what is not started, wait for the node, and return its value or raise its error.

        A cancelled wait cancels the node too, unless another awaiter, a dependent or `start` still needs it.

        Raises:
            RuntimeError: the executor is not open, or lives in another event loop.
            Exception: what the call raised, as it is; `GraphError` for a node that another executor has started.
        """
        if self._state != "open" or not is_here(self._loop_id):
            self._check_loop("awaited")
        return self._engine.wait(node)

    async def ready(self) -> None:
        """Wait until it has opened: an implicit one may be used before its worker is here.

        Raises:
            RuntimeError: the executor is closed, or belongs to another event loop.
        """
        self._check_loop("used")
        await self._opened.wait()

    def refusal(self, request: Request) -> str | None:
        """Return why no call with this request could ever run here; None if it may."""
        return self._service.refusal(request)

    def refusal_of(self, node: Node) -> str | None:
        """Return why the call of `node` could never run here; None if it may."""
        return self._service.refusal_of(node)

    @property
    def backend_name(self) -> str:
        """Name of what runs the jobs, for reports: `"grainlike"`, or the backend's name."""
        return self._service.name

    async def pause(
        self,
        event: Waitable,
        nodes: Callable[[], Iterable[Node]],  # noqa: ARG002 - only jobs care which
        release: Callable[[], None],
    ) -> None:
        """Wait for an event that comes with the end of one of `nodes`; see `JobExecutor`."""
        try:
            await event.wait()
        except BaseException:
            release()
            raise

    # --- what users ask ----------------------------------------------------------------------------------------------

    @property
    def address(self) -> str | None:
        """Address to which workers connect, as `tcp://HOST:PORT` or `unix:///PATH`; None without `listen=`."""
        return None if self._state == "new" else self._service.address

    @property
    def dashboard(self) -> str | None:
        """Link to the dashboard, new each time: it opens one browser, once. None without one, or while not open.

        Example::

            async with Executor(dashboard=True) as executor:
                print(executor.dashboard)  # http://127.0.0.1:35071/?token=...
        """
        has_pages = self._state == "open" and self._settings.dashboard is not None  # as only a head here may
        return cast("LocalHead", self._service).dashboard_link() if has_pages else None

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers, the embedded one too; none if the executor is not open. It never waits: over
        `connect()` a program that looks once a minute sees what the head knew a second ago at most.

        Example::

            for worker in executor.workers():
                print(worker.name, worker.resources, worker.running, worker.silent_s)
        """
        return self._service.workers() if self._state == "open" else []

    async def wait_for_workers(self, n: int = 1) -> None:
        """Wait until `n` workers are connected, counting the embedded one. Bound it with `anyio.fail_after`.

        With `backend=` the workers are the backend's, which takes jobs from the beginning: then it returns at once.
        A cancelled wait changes nothing.

        Raises:
            RuntimeError: the executor is closed, or was before they had connected.

        Example::

            async with Executor(listen="tcp://0.0.0.0:7777") as executor:
                with anyio.fail_after(60):
                    await executor.wait_for_workers(4)
        """
        self._check_loop("awaited")
        await self._changes.until(lambda: self._service.has_workers(n) or self._state != "open")
        if not self._service.has_workers(n):
            raise RuntimeError(f"{self!r} is not open any more, and {n} workers were waited for")

    async def up(self, pool: WorkerPool | str, name: str | None = None) -> LaunchedPool:
        """Have a pool of workers, and return it once its first block was taken, or where none is needed yet.

        The same name again changes the pool. Over `connect()` the pool is the head's, and stays when this program
        leaves. Cancelling it before the answer leaves a pool that is going down, if it was not up before.

        Args:
            pool: a pool of `grainlike.launch`, or the name of one in the settings.
            name: its name; by default that of the settings, or the word for its kind.

        Raises:
            LaunchError: the batch system refused the first block. The pool stays, paused.
            ValueError: the executor does not listen, or has `backend=`; or the name is none.
            RuntimeError: the executor is not open, or lives in another event loop.

        Example::

            pool = await executor.up(Slurm("cores=16", walltime="4:00:00", max=8), name="cpu")
            await pool.scale(0, 16)
            await pool.down()
        """
        from grainlike.executor._pools import LaunchedPool, named_pools  # programs without pools do without

        self._check_loop("used")
        [(usual, chosen)] = named_pools(pool).items()
        fleet = self._service.fleet()
        await fleet.up(name or usual, chosen)
        return LaunchedPool(name or usual, fleet)

    def pool(self, name: str) -> LaunchedPool:
        """Return a pool that is up, such as one of `launch=`, to scale it or to take it down. It never waits.

        Raises:
            LookupError: there is no such pool; or the executor is not open.

        Example::

            async with Executor(launch=Slurm("cores=16", walltime="4:00:00", max=8)) as executor:
                await executor.pool("slurm").scale(2, 8)
        """
        from grainlike.executor._pools import LaunchedPool  # programs without pools do without

        known = [row.pool for row in self.pools()]
        if name not in known:
            raise LookupError(f"there is no pool {name!r}: {', '.join(known) or 'none is up'}")
        return LaunchedPool(name, self._service.fleet())

    def pools(self) -> list[PoolRow]:
        """Return the pools of workers; none if the executor is not open. It never waits.

        Example::

            for pool in executor.pools():
                print(pool.pool, pool.up, pool.pending, pool.paused)
        """
        return self._service.fleet().pools() if self._state == "open" else []

    def blocks(self) -> list[BlockRow]:
        """Return the blocks of the pools that have not ended; none if the executor is not open. It never waits.

        Example::

            for block in executor.blocks():
                print(block.label, block.state, block.reason)
        """
        return self._service.fleet().blocks() if self._state == "open" else []

    async def explain(self, placeholder: Delayed[Any] | Stream[Any]) -> Explanation:
        """Return where a placeholder stands and what it waits for, read from the scheduler's state; `str` of it is a
        sentence.

        It starts nothing, and cancelling it changes nothing.

        Raises:
            GraphError: the placeholder belongs to another executor, and has not finished.
            RuntimeError: the executor is not open, or lives in another event loop.

        Example::

            print(await executor.explain(r_))
            # Job 7 waits for room: nearest is n1, short of cores (asked 16, free 12 of 16), held by jobs 3.
            # It would start now with Cores(12).
        """
        self._check_loop("asked")
        found = await self._service.explain(node := self._own(placeholder))
        return replace(found, kept=self._result_cache.words(node) or value_words(node, found.kept))

    def logs(self, placeholder: Delayed[Any] | Stream[Any]) -> AsyncIterator[LogLine]:
        """Iterate over the lines that a job has printed, and prints until it has ended; over those of all attempts.

        Everything that the job and its children write to standard output and error counts, and what it logs there. Each
        line is a string, without its end, and has `.attempt` (1, 2, ...) and `.stream`: `"stdout"`, `"stderr"`, or
        `"note"` for a remark of grainlike's, such as how much is left out: of long output the first 1 MiB is kept
        and the last 64 KiB, and past the first a live iteration gets at most 64 KiB a second.

        Coroutines share a process, so of theirs only what Python prints or logs can be attributed; for what C code
        and children write, see the worker's log, or use `isolate=True`. Calls without resources are no jobs and have
        no lines. Output lies at the job's workers, and what a worker has not sent yet is lost with it.

        Leaving the iteration, or cancelling it, changes nothing for the job.

        Raises:
            GraphError: another executor started the placeholder; or, when it is iterated, it was not started yet.
            RuntimeError: the executor is not open, or lives in another event loop; or it has `backend=`, whose own
                logs have what its jobs print.
            HeadLostError: the program has lost the head that ran it.

        Example::

            r_ = start((train @ Cores(4))(data))
            async for line in executor.logs(r_):
                print(line.stream, line)
        """
        self._check_loop("asked")
        node = self._own(placeholder, even_finished=True)
        if node.state is State.LAZY:
            return self._logs_from_next_turn(placeholder)
        return self._service.logs(node)

    async def _logs_from_next_turn(self, placeholder: Delayed[Any] | Stream[Any]) -> AsyncIterator[LogLine]:
        """Iterate as `logs`: a task that has just been made for the placeholder starts it in its first turn."""
        await anyio.lowlevel.checkpoint()
        node = self._own(placeholder, even_finished=True)
        if node.state is State.LAZY:
            raise GraphError(f"{node.function.name} has not been started: `start` it, or let a task await it first")
        async with aclosing(self._service.logs(node)) as lines:
            async for line in lines:
                yield line

    def _own(self, placeholder: Delayed[Any] | Stream[Any], *, even_finished: bool = False) -> Node:
        """Return the node of a placeholder; raise if it is another executor's. A finished node may be any executor's,
        unless `even_finished`.
        """
        node = node_behind(placeholder)
        if node.owner not in (None, self) and (even_finished or not node.finished):
            raise GraphError(f"{node.function.name} belongs to another executor ({node.owner}): ask that one")
        return node

    def events(self) -> Events:
        """Iterate over events of the workers from now on: workers that are present, join and leave, jobs that start
        and end; of a job that runs already, its end.

        It ends when the executor has closed. Any number of readers may iterate, each over all events; a reader that
        is dropped, or closed by `aclose()`, receives no more.

        Raises:
            RuntimeError: the executor is not open, or lives in another event loop.

        Example::

            async for event in executor.events():
                print(event.kind, event.worker, event.name, event.allocation, event.outcome)
        """
        self._check_loop("listened to")
        return self._service.events()

    def submit(self, request: Request, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Delayed[Any]:
        """Start `fn(*args, **kwargs)` on `request` without building a graph by hand; returns its placeholder.

        Raises:
            TypeError: the first is no request, or the second no function.
            RuntimeError: the executor is not open, or lives in another event loop.

        Example::

            results = [executor.submit(Cores(1), square, x) for x in range(10)]
            print([await r_ for r_ in results])
        """
        self._check_loop("used")
        if not isinstance(request, Request):
            raise TypeError(
                f"submit takes the request first, then the function: write submit(Cores(1), fn, x), not a "
                f"{type(request).__name__} first; a call without resources is begun by start(fn(x))"
            )
        placeholder: Delayed[Any] = (delayed(fn) @ request)(*args, **kwargs)
        token = current.set(self)
        try:
            return start(placeholder)
        finally:
            current.reset(token)


def offer_with(**options: Any) -> Allocation | None:
    """Return what the embedded worker of an executor with these options would offer; None without one."""
    executor = Executor(**options)
    executor._unopened.excuse()
    return executor.offer
