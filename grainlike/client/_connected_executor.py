"""`connect`: an executor whose jobs run on the workers of a head elsewhere."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, cast

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from grainlike.client._connection import LOOK_S, HeadClient, RefusedQueryError, find_client_access, first_link
from grainlike.client._events import RemoteFeed, RemoteLeases
from grainlike.client._remote_jobs import RemoteJobs
from grainlike.engine import retrieved_elsewhere
from grainlike.errors import GrainlikeError, GraphError, HeadLostError, SessionError
from grainlike.executor import Executor
from grainlike.graph import (
    Delayed,
    Node,
    RunsIn,
    State,
    Stream,
    StreamNode,
    excuse,
    node_behind,
    unfinished_nodes,
)
from grainlike.head import LogLine
from grainlike.head.server import MOST_NAMES
from grainlike.jobs import Event, Events, Job, WorkerInfo, explanation_of, worker_info
from grainlike.net import RETURN_S, ByteLink, HeadLocator, ReconnectingLink, waits
from grainlike.resources import EMPTY, Request
from grainlike.scheduler import Explanation
from grainlike.system import import_paths
from grainlike.wire import (
    LOST_S,
    AskHead,
    AskJob,
    AskWorkers,
    Forget,
    Frame,
    HeadIs,
    ImportsFrom,
    JobIs,
    SessionIs,
    WorkersAre,
)

__all__ = ["ConnectedExecutor", "connect"]

logger = logging.getLogger("grainlike")

T = TypeVar("T")

NAME_LIMIT = 255

_AT_ONCE = 2
"""Number of outcomes that are fetched from the head's disk at a time."""


def connect(
    address: str | PathLike[str] | None = None,
    *,
    insecure: bool = False,
    on_failure: Literal["fail_fast", "continue"] = "fail_fast",
    session: str | None = None,
    patience: float = RETURN_S,
    wait: float = 0.0,
    reconnect: bool = False,
) -> ConnectedExecutor:
    """Connect to a running head: `async with connect() as ex` is an `Executor` whose jobs run on that head's workers.

    Several programs may be connected at a time, and share the workers fairly: the one that uses least goes first. A
    head is started with `grainlike head start`; a program with `Executor(listen=...)` is one, too.

    Args:
        address: the head's address (`"tcp://login1:7777"`), or the path of its `client.json`; by default the current
            head of this user, found by its access file.
        insecure: the head listens without TLS, on this machine's loopback.
        on_failure: as `Executor`'s.
        session: the name of a session to which the jobs belong, rather than to this program: they continue when it
            leaves or dies, and the next one that names the session finds them, see `ConnectedExecutor.name`. One
            program may have it at a time. It ends when no job, name or outcome of it is left.
        patience: for how many seconds a head that keeps a journal may be away: one that was killed and is restarted.
        wait: for how many seconds a head is waited for that is not there yet, when the block is entered and, with
            `reconnect`, when the head is lost. By default not at all.
        reconnect: continue with the next head when this one is lost. What was in flight fails with `HeadLostError`;
            what is submitted afterwards waits for the next head, for at most `wait` seconds after the loss, and then
            fails until there is one. For services that outlive their heads.

    All of `Executor` is there, but `events()` are of this program's own jobs. Leaving the block cancels what still
    runs, unless it belongs to a session, and does not wait until workers have ended it; so does the head when the
    program dies. Streams end with the program in any case, for nobody else could read them.

    Raises, when it is opened:
        HeadLostError: no head is there, nor was one within `wait` seconds.
        AuthenticationError: another head answered, the head refused us, or others may read the access file.
        VersionMismatchError: its Python, serializers or protocol do not go with ours.
        SessionError: another program has this session.
        ValueError: `address` is none, or not an access file; `session` is no name; or `wait` or `patience` is negative.

    A connection that breaks is retried for 30 s: meanwhile jobs continue, what is submitted waits, and nothing is
    lost or done twice. When the head is lost, what waits for it fails with `HeadLostError`, and so does all that is
    submitted then, unless `reconnect` is true.

    Example::

        async with connect() as ex:
            await ex.wait_for_workers(1)
            print(await (square @ Cores(1))(3))
    """
    head = None if address is None else fspath(address)
    return ConnectedExecutor(
        head,
        insecure=insecure,
        on_failure=on_failure,
        session=session,
        patience=patience,
        wait=wait,
        reconnect=reconnect,
    )


class ConnectedExecutor(Executor):
    """Executor whose jobs run at a head that `connect` has reached."""

    _made_by = "connect(...)"

    def __init__(
        self,
        head: str | None,
        *,
        insecure: bool = False,
        on_failure: Literal["fail_fast", "continue"] = "fail_fast",
        session: str | None = None,
        patience: float = RETURN_S,
        wait: float = 0.0,
        reconnect: bool = False,
    ) -> None:
        _check_seconds("wait", wait)
        _check_seconds("patience", patience)
        super().__init__(local=None, on_failure=on_failure)
        self._wanted = head
        self._plain = insecure
        if session is not None:
            check_name(session, "a session")
        self._session = session or ""
        self._patience = patience
        self._wait = wait
        self._reconnect = reconnect
        self._named: dict[str, Delayed[Any]] = {}
        self._bringing = anyio.Semaphore(_AT_ONCE)
        self._caller: HeadClient | None = None
        self._workers: list[WorkerInfo] = []
        self._lost: HeadLostError | None = None

    def __repr__(self) -> str:
        return f"<Executor {self._state}, connected to {self._address or 'no head'}>"

    # --- life --------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        await anyio.lowlevel.checkpoint()
        way = self._way()
        caller = self._caller_on(way, await first_link(way, self._wait))
        self._leases = RemoteLeases(self._head.observers)
        engine, counters = self._engine, self._head.counters
        self._jobs = RemoteJobs(caller.link, engine, engine.pump, counters, self._leases, self._fetch)
        self._engine.jobs = self._jobs
        async with anyio.create_task_group() as tasks:
            self._calls.open(tasks)
            self._tasks = tasks
            tasks.start_soon(caller.run)
            tasks.start_soon(self._follow, caller)
            try:
                await self._introduce(caller)
                self._engine.release_hold()
                self._opened.set()
                await self._stop.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._leave()
                self._leases.close()
                tasks.cancel_scope.cancel()

    def _way(self) -> HeadLocator:
        return HeadLocator(lambda: find_client_access(self._wanted), insecure=self._plain)

    def _caller_on(self, way: HeadLocator, link: ByteLink) -> HeadClient:
        """Run the client protocol over a new connection to a head."""
        lasting = ReconnectingLink(link, way.again, LOST_S, self._patience)
        self._caller = caller = HeadClient(lasting, self._hear, self._session)
        self._address = caller.link.peer
        return caller

    async def _introduce(self, caller: HeadClient) -> None:
        """Wait until the head has admitted us; then send what jobs import, and query the workers. Raises as
        `welcomed`.
        """
        await caller.welcomed()
        caller.link.post(ImportsFrom(import_paths()))
        self._take_workers(await caller.ask(AskWorkers(0), WorkersAre))

    async def _follow(self, caller: HeadClient) -> None:
        """Serve each head until it is lost, and continue with the next where `reconnect` asks for it."""
        while True:
            await caller.gone()
            goes_on = self._reconnect and self._state == "open"
            self._lose(caller.lost, goes_on=goes_on)
            if not goes_on:
                return
            caller = await self._next_head()
            logger.info("connected to the next head, at %s", self._address)

    def _lose(self, error: HeadLostError, *, goes_on: bool) -> None:
        self._lost = error
        self._jobs.lose(error, holds=goes_on and self._wait > 0)
        self._leases.workers(())
        self._workers = []
        self._change()

    async def _next_head(self) -> HeadClient:
        """Connect until a head admits us; what was submitted meanwhile is sent to it."""
        error, since, pauses, said = self._lost, anyio.current_time(), waits(), ""
        while True:
            try:
                way = self._way()
                caller = self._caller_on(way, await way.first())
                self._named.clear()  # of the head before
                self._tasks.start_soon(caller.run)
                await self._introduce(caller)
            except (GrainlikeError, OSError, ValueError) as refusal:
                if str(refusal) != said:
                    said = str(refusal)
                    logger.warning("there is no next head yet: %s", said)
            else:
                self._lost = None
                self._jobs.go_on(caller.link)
                self._change()
                return caller
            if error is not None and anyio.current_time() - since >= self._wait:
                self._jobs.lose(error)
                error = None
            await anyio.sleep(min(next(pauses), LOOK_S))

    async def _leave(self) -> None:
        """Cancel everything, unless it belongs to a session, and wait until the head has acknowledged it."""
        self._state = "closing"
        if self._session:
            self._jobs.release()
        self._engine.cancel_all()
        await self._link.leave()

    def _hear(self, frame: Frame) -> None:
        if isinstance(frame.message, WorkersAre):
            self._take_workers(frame.message)
        elif isinstance(frame.message, SessionIs):
            self._take_session(frame.message)
        else:
            self._jobs.hear(frame)

    def _take_session(self, told: SessionIs) -> None:
        found = self._jobs.adopt(told)
        near = [node for node in found.values() if not self._jobs.is_far(node)]
        self._engine.adopt(near)
        for node in near:
            self._engine.watch(node, retrieved_elsewhere)
        self._named.update((name, Delayed(node)) for name, node in found.items())

    def _fetch(self, node: Node, child: int) -> None:
        self._tasks.start_soon(self._bring, node, child)

    async def _bring(self, node: Node, child: int) -> None:
        """Have an outcome brought that lies on the head's disk."""
        async with self._bringing:
            try:
                frame = await self._link.outcome(child)
            except RefusedQueryError as error:
                self._jobs.not_fetched(node, SessionError(str(error)))
            except GrainlikeError as error:
                self._jobs.not_fetched(node, error)
            else:
                self._jobs.fetched(node, frame)

    def _take_workers(self, told: WorkersAre) -> None:
        self._workers = [worker_info(row) for row in told.workers]
        self._leases.workers(self._workers)
        self._change()

    # --- what users ask ----------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return the workers of the head, as of the last time one joined or left."""
        return list(self._workers) if self._state == "open" else []

    async def wait_for_workers(self, n: int = 1) -> None:
        """Wait until the head has `n` workers. Bound it with `anyio.fail_after`.

        Raises:
            HeadLostError: the head is lost, and no other is looked for.
            RuntimeError: the executor is closed, or was before they had connected.
        """
        self._check_loop("awaited")
        await self._until(lambda: len(self._workers) >= n or self._state != "open" or self._is_lost)
        if self._is_lost and self._lost is not None:
            raise self._lost
        if len(self._workers) < n:
            raise RuntimeError(f"{self!r} is not open any more, and {n} workers were waited for")

    @property
    def _is_lost(self) -> bool:
        return self._lost is not None and not self._reconnect

    def refusal(self, request: Request) -> str | None:  # noqa: ARG002 - workers may come
        """Return None: a head's workers come and go, so any request may run."""
        return None

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, as `Executor.live_job`; of those that run,
        only the one of which observers are notified.
        """
        return self._leases.live_job(number, attempt)

    async def explain(self, placeholder: Delayed[Any] | Stream[Any]) -> Explanation:
        """Return where a placeholder stands and what it waits for, as `Executor.explain`; the head answers."""
        self._check_loop("asked")
        node = self._own(placeholder)
        number = await self._number_of(node)
        if node.finished or not number:
            return replace(self._head.view.explain(node), kept=self._result_cache.words(node))
        try:
            told = await self._link.ask(AskJob(0, number), JobIs)
        except RefusedQueryError:  # it has ended meanwhile, and we are about to hear of it
            return Explanation(number, node.state.label, 0, node.request or EMPTY)
        return explanation_of(told)

    async def _number_of(self, node: Node) -> int:
        """The head's number for the job of a node; 0 for what is no job (yet)."""
        job = node.record
        if isinstance(job, Job) and not job.id and not node.finished:
            await self._link.ask(AskHead(0), HeadIs)  # answers come in order: the number comes before this one
        return job.id if isinstance(job, Job) else 0

    # --- in a named session ------------------------------------------------------------------------------------------

    def name(self, name: str, placeholder: Delayed[T]) -> Delayed[T]:
        """Start a call with resources under a name in this session, and return its placeholder.

        The head keeps its outcome until `forget`, and any program that has the session finds it in `placeholders`.
        The call is sent to the head once its arguments are there: until then it lives in this program alone. A call
        that is cancelled loses its name.

        Raises:
            SessionError: the name is taken, or the session has 10 000 names; or there is no session. Awaiting it
                raises this, too, where the head has no room for more outcomes.
            GraphError: the placeholder is no call with resources, or has been started already.
            ValueError: an invalid name: it takes 1 to 255 printable characters.

        Example::

            async with connect(session="sweep") as ex:
                r_ = ex.name("fit", (fit @ Cores(4))(data))
        """
        node = node_behind(placeholder)
        try:
            self._check_loop("used")
            self._check_session()
            check_name(name, "a call")
            self._check_free(name)
        except (RuntimeError, ValueError):
            excuse(unfinished_nodes([node]))  # the error says it all
            raise
        if node.place is not RunsIn.REMOTE or isinstance(node, StreamNode) or node.state is not State.LAZY:
            raise GraphError(
                f"{node.function.name} can not be given a name: that takes a call with resources, unstarted"
            )
        self._jobs.names[node] = name
        self._named[name] = placeholder
        self.watch(node, retrieved_elsewhere)
        self.start([node])
        return placeholder

    def placeholders(self) -> dict[str, Delayed[Any]]:
        """Return the named calls of this session, from this program or from an earlier one, by name; finished or not.

        They can be awaited, queried and cancelled like any other. The arguments of one that an earlier program
        submitted are not available here. Outcomes that the head keeps on disk, beyond 128 MiB of the session, are
        fetched when they are awaited or started: until then such a placeholder is lazy.

        Raises:
            SessionError: there is no session.

        Example::

            async with connect(session="sweep") as ex:
                for name, r_ in ex.placeholders().items():
                    print(name, info(r_).state)
        """
        self._check_session()
        return dict(self._named)

    async def forget(self, *names: str) -> None:
        """Drop what is kept under these names, and wait until the head has acknowledged that. Calls that run
        continue.

        Raises:
            SessionError: a name is not there; or there is no session.
            HeadLostError: the head is lost.

        Example::

            print(await ex.placeholders()["fit"])
            await ex.forget("fit")
        """
        self._check_loop("used")
        self._check_session()
        unknown = [name for name in names if name not in self._named]
        if unknown:
            raise SessionError(f"session {self._session!r} has nothing named {', '.join(map(repr, unknown))}")
        for name in names:
            self._named.pop(name, None)
        self._link.link.post(Forget(list(names)))
        await self._link.ask(AskHead(0), HeadIs)  # it is heard in order

    def _check_session(self) -> None:
        if not self._session:
            raise SessionError("names are of a session: open it with connect(session=...)")

    def _check_free(self, name: str) -> None:
        known = self._named.get(name)
        if known is not None and node_behind(known).state is not State.CANCELLED:
            raise SessionError(f"session {self._session!r} has something named {name!r}: take it, or forget it")
        if len(self._named) >= MOST_NAMES:
            raise SessionError(f"session {self._session!r} has {MOST_NAMES} names: forget some")

    # --- questions ---------------------------------------------------------------------------------------------------

    def logs(self, placeholder: Delayed[Any] | Stream[Any]) -> AsyncIterator[LogLine]:
        """Iterate over the lines that a job has printed, as `Executor.logs`; the head forwards them."""
        self._check_loop("asked")
        node = self._own(placeholder)
        if node.state is State.LAZY:
            raise GraphError(f"{node.function.name} has not been started: `start` it first")
        return self._lines(node)

    async def _lines(self, node: Node) -> AsyncIterator[LogLine]:
        number = await self._number_of(node)
        if number:
            async for line in self._link.logs(number, follow=True):
                yield line

    def events(self) -> AsyncIterator[Event]:
        """Iterate over events of this program's jobs from now on, and of workers that are here, join and leave. As
        `Executor.events`.

        Times are those at which this program received the event. Of an attempt that is followed by another the
        outcome is `"retried"`; jobs that run when the head is lost end as `"lost"`. Workers that are silent or in
        quarantine for a while are not reported.
        """
        self._check_loop("listened to")
        feed = RemoteFeed(self._workers)
        self._leases.feeds.append(feed)
        return Events(feed, self._leases.drop)

    def write_trace(self, path: str | PathLike[str]) -> None:  # noqa: ARG002 - nothing is written
        """Raise `RuntimeError`: the head records, for all its clients. See `Executor.write_trace`."""
        why = "write_trace() is for the program that is the head; `grainlike trace` draws what a head has recorded"
        raise RuntimeError(why)

    @property
    def _link(self) -> HeadClient:
        return cast("HeadClient", self._caller)


def check_name(name: object, of: str) -> None:
    """Raise `ValueError` for an invalid name."""
    if not (isinstance(name, str) and name.isprintable() and 0 < len(name) <= NAME_LIMIT):
        raise ValueError(f"the name of {of} takes 1 to {NAME_LIMIT} printable characters, which {name!r} has not")


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"{name} is a number of seconds, zero or more; {value!r} is not")
