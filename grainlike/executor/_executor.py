"""`Executor`: opens and closes everything, and is what users hold."""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from grainlike.context import GVAR, JobInfo
from grainlike.errors import GrainlikeError, GraphError
from grainlike.executor._door import Door
from grainlike.executor._embedded import embed, offer_for
from grainlike.executor._engine import Engine, Waiter
from grainlike.executor._finding import current, entered, last_in_job, left
from grainlike.executor._head import Head
from grainlike.executor._home import Home, here, soon, spawn_detached
from grainlike.executor._local import LocalCalls
from grainlike.executor._no_workers import NoWorkers
from grainlike.executor._workers import WorkerInfo
from grainlike.graph import Delayed, Node, delayed, node_of, start
from grainlike.net import Access, Alarm, Listener, listen, publish_access, withdraw_access
from grainlike.resources import Allocation, Request
from grainlike.scheduler import Explanation

__all__ = ["NOT_GIVEN", "Executor", "NotGiven"]

logger = logging.getLogger("grainlike")

T = TypeVar("T")

QUIET_S = 12.0
"""How long closing waits for jobs to be gone: a grace, a signal, and another."""


class NotGiven:
    """Stands for `local=` not given."""

    def __repr__(self) -> str:
        return "<this process's own cores>"


NOT_GIVEN = NotGiven()


class Executor:
    """Runs placeholders: on a worker embedded in this process, on workers that dial in, or both.

    Args:
        local: what the embedded worker offers, as `Cores(4)`, `Node(4, "8Gi")`, `Cores([6, 7])`; None for no embedded
            worker. By default this process's own cores, and no embedded worker when `listen` is given.
        listen: an address at which workers may dial in: `"tcp://127.0.0.1:0"` or `"unix:///path/to/socket"`. What a
            worker needs to be let in is written to an access file that only this user can read.
        on_failure: at the first failure of a graph, `"fail_fast"` cancels what only that graph still wants;
            `"continue"` lets it run to its end.

    Leaving the block cancels what still runs, waits until it is gone, and leaves no process, socket, file or thread
    behind. An exception that leaves the block is the user's own. The executor may be closed in another task than it was
    opened in, but in the same event loop.

    Raises:
        ResourceSpecError: `local` is no offer.
        ValueError: `listen` is no address.
        OSError: the address is in use.
        PermissionError: TCP beyond loopback, or a Unix socket in a directory that others may enter.

    Example::

        async with Executor(local=Cores(4)) as executor:
            print(await (square @ Cores(1))(3))
    """

    def __init__(
        self,
        *,
        local: Request | NotGiven | None = NOT_GIVEN,
        listen: str | None = None,
        on_failure: Literal["fail_fast", "continue"] = "fail_fast",
    ) -> None:
        if on_failure not in ("fail_fast", "continue"):
            raise ValueError(f"on_failure= is 'fail_fast' or 'continue', not {on_failure!r}")
        if listen is not None and not isinstance(listen, str):
            raise TypeError(f"listen= is an address such as 'tcp://127.0.0.1:0', not {listen!r}")
        self.offer: Allocation | None = None
        """What the embedded worker offers, with ids; None without one."""
        if isinstance(local, NotGiven):
            local = None
            if listen is None:
                self.offer = offer_for(None)
        if local is not None:
            self.offer = offer_for(local)
        self._listen = listen
        self._in_job = False
        self._fail_fast = on_failure == "fail_fast"
        self._home: Home | None = None
        self._state: Literal["new", "open", "closing", "closed"] = "new"
        self.opened_in: JobInfo | None = None
        """The job that opened it; jobs inherit the context of a task that may know of other executors."""
        self._failure: BaseException | None = None
        self._address: str | None = None
        self._tokens: list[Any] = []

    @classmethod
    def implicit(cls, home: Home, *, in_job: bool) -> Executor:
        """An executor that nobody opens or closes: it lives as long as its loop. Inside a job it has no workers."""
        executor = cls(local=None) if in_job else cls()
        executor._in_job = in_job
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
        assert self._home is not None
        left(self, self._home)
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
        self._head = Head(self._engine, closed=self._listen is None, alarm=self._alarm.set)
        self._calls = LocalCalls(self._engine, current, self, home)
        self._engine.jobs = NoWorkers(self._engine) if self._in_job else self._head
        self._engine.calls = self._calls
        self._task = spawn_detached(home, "grainlike executor", self._serve)

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
            if self._home is not None:
                left(self, self._home)
                in_job = last_in_job(self._home)
                if in_job is not None:
                    await in_job._close()
            self._opened.set()
            self._closed.set()

    async def _live(self) -> None:
        # A loop that ends at once ends here: tasks that were made but never ran would be reported as never awaited.
        await anyio.lowlevel.checkpoint()
        with ExitStack() as stack:
            secret = secrets.token_bytes(32)
            cluster = secrets.token_hex(6)
            door = Door(self._head, secret, cluster, _import_paths(), self._settled, self._change)
            listener = self._listen_at(stack, secret, cluster)
            async with anyio.create_task_group() as tasks:
                self._calls.open(tasks)
                tasks.start_soon(self._alarm.run)
                if listener is not None:
                    tasks.start_soon(listener.serve, door.admit)
                try:
                    if self.offer is not None:
                        await self._embed(tasks, door, self.offer, secret)
                    self._engine.release_hold()
                    self._opened.set()
                    await self._stop.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._quieten()
                    tasks.cancel_scope.cancel()

    def _listen_at(self, stack: ExitStack, secret: bytes, cluster: str) -> Listener | None:
        if self._listen is None:
            return None
        listener = stack.enter_context(listen(self._listen))
        access = Access(listener.address, cluster, secret)
        stack.callback(withdraw_access, access)
        publish_access(access)
        self._address = str(listener.address)
        return listener

    async def _embed(self, tasks: TaskGroup, door: Door, offer: Allocation, secret: bytes) -> None:
        link, serve = embed(offer, secret)
        tasks.start_soon(door.admit, link)
        tasks.start_soon(serve)
        await self._until(lambda: bool(self._head.peers))

    async def _quieten(self) -> None:
        """Cancel everything, and wait until no job is anywhere."""
        self._state = "closing"  # also when it was the loop that ended us, so that each outcome is looked at below
        self._engine.cancel_all()
        with anyio.move_on_after(QUIET_S):
            await self._until(lambda: self._head.quiet)
        if not self._head.quiet:
            logger.warning("some jobs did not end within %g s of being cancelled; their workers are left", QUIET_S)

    # --- what happens ------------------------------------------------------------------------------------------------

    def _settled(self) -> None:
        self._engine.pump()
        if self._state != "open":
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

    # --- the graph's resolver ----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it is what an `await` in its block means; one that is closing refuses the work itself."""
        return self._state in ("open", "closing")

    async def wait(self, node: Node) -> Any:
        """Start what is not started, wait for the node, and return its value or raise its error."""
        self._check_home("awaited")
        return await self._engine.wait(node)

    def start(self, nodes: Sequence[Node]) -> None:
        """Start the nodes and what they need, without waiting."""
        self._check_home("started")
        self._engine.start(nodes)

    def cancel(self, node: Node) -> None:
        """End the work of a node."""
        self._check_home("cancelled")
        self._engine.cancel([node])

    def watch(self, node: Node, waiter: Waiter) -> None:
        """Call `waiter.set()` when the node has finished."""
        self._engine.watch(node, waiter)

    def release(self, nodes: Sequence[Node]) -> None:
        """Take back what `start` put in: nodes that nobody else wants are cancelled."""
        if self.is_open:
            self._engine.release(nodes)

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
        return self._head.workers() if self._state == "open" else []

    async def wait_for_workers(self, n: int = 1) -> None:
        """Wait until `n` workers are here, counting the embedded one. Bound it with `anyio.fail_after`.

        Raises:
            RuntimeError: it is closed, or was before they had come.
        """
        self._check_home("awaited")
        await self._until(lambda: len(self._head.peers) >= n or self._state != "open")
        if len(self._head.peers) < n:
            raise RuntimeError(f"{self!r} is not open any more, and {n} workers were waited for")

    async def explain(self, placeholder: Delayed[Any]) -> Explanation:
        """Say where a placeholder stands and what it waits for, from the books that decide; `str` of it is a sentence.

        It starts nothing. Asking about one that belongs to another executor is a `GraphError`.

        Example::

            print(await executor.explain(r_))
            # Job 7 waits for room: nearest is n1, short of cores (asked 16, free 12 of 16), held by jobs 3.
            # It would start now with Cores(12).
        """
        self._check_home("asked")
        node = node_of(placeholder)
        if node.owner is not None and node.owner is not self and not node.finished:
            raise GraphError(f"{node.function.name} belongs to another executor ({node.owner}): ask that one")
        return self._head.explain(node)

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


def _import_paths() -> list[str]:
    """Where this program imports from, so that a worker's jobs can import the same modules."""
    return [path or str(Path.cwd()) for path in sys.path]  # "" is the directory of a REPL


def _innermost(error: Exception) -> BaseException:
    """One error out of a task group's group: users never see groups of ours."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner
