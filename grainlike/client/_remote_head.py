"""Head elsewhere, on whose workers the jobs of this program run."""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace as replaced

from grainlike.client._connection import LOOK_S, HeadClient, first_link
from grainlike.client._events import RemoteFeed, RemoteLeases
from grainlike.client._introduction import RefusedQueryError, find_client_access, own_copy, telling_of_death
from grainlike.client._remote_fleet import RemoteFleet
from grainlike.client._remote_jobs import RemoteJobs
from grainlike.client._remote_values import RemoteValues
from grainlike.engine import Engine, Fetcher, explain_unsubmitted, maker_again, retrieved_elsewhere
from grainlike.errors import GrainlikeError, HeadLostError, SessionError
from grainlike.eventloop import Changes, here, is_here
from grainlike.graph import Delayed, Info, Node, RemoteValue, node_behind
from grainlike.joblogging import JobLogging
from grainlike.jobs import (
    Events,
    Job,
    JobCounters,
    LogLine,
    Observer,
    OwnArguments,
    WorkerInfo,
    explanation_of,
    worker_info,
)
from grainlike.net import RETURN_S, ByteLink, HeadLocator, ReconnectingLink, waits
from grainlike.payload import SHARED_LEAST, STAY_BYTES
from grainlike.resources import EMPTY, Request
from grainlike.scheduler import Explanation
from grainlike.system import import_paths
from grainlike.wire import (
    LOST_S,
    AskHead,
    AskHistory,
    AskJob,
    AskNamed,
    AskWorkers,
    ClientRecords,
    FleetIs,
    Forget,
    Frame,
    HeadIs,
    HistoryIs,
    ImportsFrom,
    JobIs,
    NamedAre,
    SessionIs,
    StoresAre,
    Totals,
    WorkersAre,
)

if TYPE_CHECKING:
    from grainlike.client._output_to_logger import OutputToLogger

__all__ = ["ConnectionSettings", "RemoteHead"]

logger = logging.getLogger("grainlike")

_AT_ONCE = 2
"""Number of outcomes that are fetched from the head's disk at the same time."""

_NAMES = 100
"""Most names in one question: each may have 255 characters."""

RENEW_S = 0.5
"""Seconds between two questions for the workers, while the program looks at them."""

LOOKED_S = 60.0
"""Seconds after a look at the workers for which they are asked for again and again."""

_WAITS = "It waits for calls of its graph that have not ended."
"""Explanation of a call of a graph that an earlier program has sent to the head."""

_HELD = "It is sent when workers have its large arguments, which are on their way there from this program."
"""Explanation of a call of a session that is held."""

_numbers: set[int] = set()
"""Numbers of the connections of this process."""


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of `connect`, checked. `head` is its `address`; `session` is empty without a session."""

    head: str | None = None
    insecure: bool = False
    session: str = ""
    patience: float = RETURN_S
    wait: float = 0.0
    reconnect: bool = False
    echo: logging.Logger | None = None


class RemoteHead:
    """`JobService` of a head elsewhere. With `reconnect`, the next head takes the place of a lost one."""

    name = "grainlike"

    def __init__(
        self, settings: ConnectionSettings, engine: Engine, changes: Changes, job_logging: JobLogging | None = None
    ) -> None:
        self._settings = settings
        self._logging = job_logging
        self._records_heard = 0
        self._engine = engine
        self._changes = changes
        self._number = 1
        self.observers: list[Observer] = []
        self.named: dict[str, Delayed[Any]] = {}
        """Named calls of the session."""
        self._counters = JobCounters(time.monotonic())
        self._leases = RemoteLeases(self.observers)
        self._output: OutputToLogger | None = None
        if settings.echo is not None:
            from grainlike.client._output_to_logger import OutputToLogger  # few programs have their jobs' output logged

            self._output = OutputToLogger(settings.echo, self._lines_of)
            self._leases.feeds.append(self._output)
        levels = None if job_logging is None else job_logging.levels
        self.runner: RemoteJobs = RemoteJobs(engine, engine.pump, self._counters, self._leases, self._fetch, levels)
        self.runner.caller_of = engine.caller_of
        self._values: RemoteValues
        """Values that stay at workers of the head."""
        self._fetched = 0
        """Bytes that were fetched from earlier heads."""
        self._fetching = anyio.Semaphore(_AT_ONCE)
        self._client: HeadClient | None = None
        self._workers: list[WorkerInfo] = []
        self._looked = -math.inf
        """The moment at which the program looked at the workers last."""
        self._renews = False
        self._lost: HeadLostError | None = None
        self._leaves = False

    @property
    def client(self) -> HeadClient:
        """Connection to the head, once there is one."""
        assert self._client is not None, "it has not connected yet"
        return self._client

    @property
    def address(self) -> str | None:
        """Address of the head; None before there is a connection."""
        return None if self._client is None else self._client.link.peer

    # --- opening and closing -----------------------------------------------------------------------------------------

    @property
    def client_name(self) -> str:
        """Name of this connection in listings: host, process, and a number if the process has several connections."""
        return f"{socket.gethostname()}:{os.getpid()}{f'-{self._number}' if self._number > 1 else ''}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context manager that holds the lowest free number among the connections of this process."""
        self._number = next(number for number in count(1) if number not in _numbers)
        _numbers.add(self._number)
        try:
            yield
        finally:
            _numbers.discard(self._number)

    async def open(self, tasks: TaskGroup) -> None:
        """Connect, and serve the connection in `tasks`; return when the head has admitted this program.

        Raises the exceptions of `connect`.
        """
        locator = self._locator()
        with telling_of_death(lambda: locator.access):
            link = await first_link(locator, self._settings.wait)
        client = self._client_on(locator, link)
        assert self._engine.fetcher is not None
        self._go_on(client, self._engine.fetcher)
        self._tasks = tasks
        self._loop_id = here()
        if self._output is not None:
            self._output.tasks = tasks
        tasks.start_soon(client.run)
        tasks.start_soon(self._follow, client)
        await self._introduce(client)
        self._allow_own(client)

    def detach(self) -> Collection[Node]:
        """Leave the calls of a session to the head: cancelling does not reach the head from now on. Return them."""
        self._leaves = True
        return self.runner.release() if self._settings.session else ()

    async def close(self) -> None:
        """Leave the head, and wait until the head has acknowledged that."""
        self._leaves = True
        if self._output is not None:
            await self._output.drain()
        if self._client is not None:
            if self.runner.held is not None:
                await self.runner.held.leave()
            await self._client.leave()
        self._leases.close()

    def closed(self) -> None:
        """Tell observers that no more events follow, and remove the files of own values."""
        if self._client is not None:
            self._values.close()
        for observer in self.observers:
            observer.closed()

    def _locator(self) -> HeadLocator:
        return HeadLocator(lambda: find_client_access(self._settings.head), insecure=self._settings.insecure)

    def _client_on(self, locator: HeadLocator, link: ByteLink) -> HeadClient:
        """Return the client protocol over a new connection to a head."""
        lasting = ReconnectingLink(link, locator.again, LOST_S, self._settings.patience)
        self._client = client = HeadClient(lasting, self._hear, self._settings.session, self.client_name)
        client.beat = self._renew_if_looked_at
        self._fleet = RemoteFleet(client, self._changes)
        return client

    def _go_on(self, client: HeadClient, fetcher: Fetcher) -> None:
        """Let calls run at this head, and their values be fetched from there."""
        self._engine.fetcher = fetcher

        self._values = RemoteValues(fetcher, client.link, self._counters)
        self._allow_own(client)
        self.runner.go_on(client.link, self._values)

    def _allow_own(self, client: HeadClient) -> None:
        """Let large arguments become own values of the program, once the head has admitted it. Calls of a session,
        which go on without this program, are held until workers have these values.
        """
        values, in_session = self._values, bool(self._settings.session)
        values.first = 0 if client.welcome is None else client.welcome.own_values
        values.lasting = in_session
        least = SHARED_LEAST if in_session else STAY_BYTES
        self.runner.own = OwnArguments(values.fetcher, alone=True, least=least) if values.first else None
        if in_session:
            self.runner.hold_back(values, lambda held: self._tasks.start_soon(held.watch))

    async def _introduce(self, client: HeadClient) -> None:
        """Wait until the head has admitted this program; then send the import paths of jobs, and ask for the workers.
        Raises the exceptions of `welcomed`.
        """
        await client.welcomed()
        client.link.post(ImportsFrom(import_paths()))
        await client.ask(AskWorkers(0), WorkersAre, self._take_workers)

    async def _follow(self, client: HeadClient) -> None:
        """Serve each head until it is lost; with `reconnect`, continue with the next head."""
        while True:
            await client.gone()
            goes_on = self._settings.reconnect and not self._leaves
            self._lose(client.lost, goes_on=goes_on)
            if not goes_on:
                return
            client = await self._next_head()
            logger.info("connected to the next head, at %s", self.address)

    def _lose(self, error: HeadLostError, *, goes_on: bool) -> None:
        self._lost = error
        self.runner.lose(error, postpones=goes_on and self._settings.wait > 0)
        self._values.fetcher.close(error)
        self._leases.workers(())
        self._workers = []
        self._changes.notify()

    async def _next_head(self) -> HeadClient:
        """Connect until a head admits this program; send it the calls that were submitted meanwhile."""
        error, since, pauses, said = self._lost, anyio.current_time(), waits(), ""
        while True:
            try:
                locator = self._locator()
                client = self._client_on(locator, await locator.first())
                # The other names belong to the last head.
                self.named = {name: r_ for name, r_ in self.named.items() if self.runner.is_unsent(node_behind(r_))}
                self._tasks.start_soon(client.run)
                await self._introduce(client)
            except (GrainlikeError, OSError, ValueError) as refusal:
                if str(refusal) != said:
                    said = str(refusal)
                    logger.warning("there is no next head yet: %s", said)
            else:
                self._lost = None
                self._fetched += self._values.fetched
                self._values.close()
                self._go_on(client, self._values.fetcher.renewed())
                self._show_workers()
                return client
            if error is not None and anyio.current_time() - since >= (wait := self._settings.wait):
                words = f"no head came within {wait:g} s" if wait else "there is no next head yet"
                self.runner.lose(HeadLostError(f"{words}: {error}"))
                error = None
            await anyio.sleep(min(next(pauses), LOOK_S))

    def _hear(self, frame: Frame) -> None:
        if isinstance(frame.message, WorkersAre):
            self._take_workers(frame.message)
        elif isinstance(frame.message, StoresAre):
            self._take_stores(frame.message)
        elif isinstance(frame.message, FleetIs):
            self._fleet.take(frame.message)
        elif isinstance(frame.message, SessionIs):
            self._take_session(frame.message)
        elif isinstance(frame.message, ClientRecords):
            self._take_records(frame.message)
        else:
            self.runner.hear(frame)

    def _take_records(self, told: ClientRecords) -> None:
        """Hand records of this program's jobs to its loggers, and report how many were dropped on the way."""
        if self._logging is None:
            return
        lost = told.sent - len(told.records) - self._records_heard
        self._records_heard = told.sent
        if lost > 0:  # a negative number means that the head has begun to count again
            self._logging.lost(lost, "the connection to the head broke")
        if told.dropped:
            self._logging.lost(told.dropped, "this program was away, or did not read them in time")
        self._logging.take(told.worker, told.records)

    def _take_session(self, told: SessionIs) -> None:
        found = self.runner.adopt(told)
        near = [node for node in found.values() if not self.runner.is_far(node)]
        self._engine.adopt(near)
        for node in near:
            self._engine.watch(node, retrieved_elsewhere)
        self.named.update((name, Delayed(node)) for name, node in found.items())

    def _fetch(self, node: Node, child: int) -> None:
        self._tasks.start_soon(self._fetch_one, node, child)

    async def _fetch_one(self, node: Node, child: int) -> None:
        """Fetch an outcome from the head's disk."""
        async with self._fetching:
            try:
                frame = await self.client.outcome(child)
            except RefusedQueryError as error:
                self.runner.not_fetched(node, SessionError(str(error)))
            except GrainlikeError as error:
                self.runner.not_fetched(node, error)
            else:
                self.runner.fetched(node, frame)

    def _take_workers(self, told: WorkersAre) -> None:
        self._workers = [worker_info(row) for row in told.workers]
        if self._lost is None:
            self._show_workers()

    def _show_workers(self) -> None:
        """Show the workers to all who wait for some. Those of the next head are shown once calls go there."""
        self._values.see(self._workers)
        self._leases.workers(self._workers)
        self._changes.notify()

    def _take_stores(self, told: StoresAre) -> None:
        """Take the bytes of values that workers keep; workers that are not in the message keep nothing."""
        rows = zip(told.stored, told.spilled, told.scratch_lost, strict=True)
        stores = dict(zip(told.workers, rows, strict=True))
        self._workers = [
            replace(worker, stored=stored, spilled=spilled, scratch_lost=lost)
            for worker in self._workers
            for stored, spilled, lost in (stores.get(worker.name, (0, 0, "")),)
        ]

    # --- questions ---------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return the workers of the head, and ask for them again and again for the next `LOOKED_S` seconds. There are
        none while the head is lost.

        A first look has what the head told last: when a worker came, left, fell silent or sent something again.
        """
        self._looked = time.monotonic()
        if is_here(self._loop_id):  # another thread can start no task: the next heartbeat does
            self._renew_if_looked_at()
        return self._present()

    def _present(self) -> list[WorkerInfo]:
        return list(self._workers) if self._lost is None else []

    def _is_looked_at(self) -> bool:
        return self._lost is None and not self._leaves and time.monotonic() - self._looked < LOOKED_S

    def _renew_if_looked_at(self) -> None:
        if self._is_looked_at() and not self._renews:
            self._renews = True
            self._tasks.start_soon(self._renew_workers)

    async def _renew_workers(self) -> None:
        """Ask for the workers while the program looks at them: a head tells what they do now only to those who ask."""
        try:
            while self._is_looked_at():
                with suppress(GrainlikeError):
                    await self.client.ask(AskWorkers(0), WorkersAre, self._take_workers)
                await anyio.sleep(RENEW_S)
        finally:
            self._renews = False

    def has_workers(self, n: int) -> bool:
        """Return True if the head has `n` workers.

        Raises:
            HeadLostError: the head is lost, and the program does not look for another.
        """
        if self._lost is not None and not self._settings.reconnect:
            raise own_copy(self._lost)
        return len(self._present()) >= n

    def refusal(self, request: Request) -> str | None:  # noqa: ARG002 - workers may come
        """Return None: a head's workers come and go, so any request may run."""
        return None

    def refusal_of(self, node: Node) -> str | None:  # noqa: ARG002 - workers may come
        """Return None: a head's workers come and go, so any call may run."""
        return None

    async def explain(self, node: Node) -> Explanation:
        """Return where a call stands and what it waits for; the head answers."""
        number = await self._number_of(node)
        request = node.request or EMPTY
        if node.finished or not number:
            found = explain_unsubmitted(node)
            # A call without a number waits for other calls. Those of an earlier program are not known here.
            if found is None:
                return Explanation(0, "inputs", 0, request, words=_HELD if self.runner.is_held(node) else _WAITS)
            again = await self._explain_job(maker_again(node, self._values.fetcher))
            await self._ask_about(node.reference)
            return found if again is None else replaced(found, kept=str(again))
        # Without an answer the job has ended meanwhile, and its outcome is on the way here.
        return await self._explain_job(number) or Explanation(number, node.state.label, 0, request)

    async def _ask_about(self, value: object) -> None:
        """Ask the head why a value has fewer replicas than it is to have, and where its durable copy is: an earlier
        program of the session may have asked for that.
        """
        if isinstance(value, RemoteValue) and value.fetcher is self._values.fetcher:
            with suppress(RefusedQueryError, HeadLostError):
                found = await self.client.ask(AskHistory(0, 1, job=value.id), HistoryIs)
                self._values.few = {value.id: found.few}
                value.copy = value.copy or found.copy

    async def _explain_job(self, number: int) -> Explanation | None:
        """Return the head's explanation of a job; None for a job that has ended, or never existed."""
        if not number:
            return None
        try:
            return explanation_of(await self.client.ask(AskJob(0, number), JobIs))
        except RefusedQueryError:
            return None

    async def _number_of(self, node: Node) -> int:
        """Return the head's number for the job of a node; 0 if the node has no job, or none yet."""
        job = node.record
        if isinstance(job, Job) and not job.id and not node.finished:
            await self.client.ask(AskHead(0), HeadIs)  # answers come in order, so the number comes before this answer
        return _number_at_head(node)

    async def logs(self, node: Node) -> AsyncGenerator[LogLine, None]:
        """Iterate over the lines that a job prints, once the head has it; the head forwards them.

        Raises:
            HeadLostError: the program has lost the head that had the job.
        """
        number = await self._number_once_sent(node)
        if number and self.runner.is_of_lost_head(node):
            raise HeadLostError(f"the head that had {node.function.name} is lost, and no other finds its output")
        if number:
            async with self._lines_of(number) as lines:
                async for line in lines:
                    yield line

    def _lines_of(self, number: int) -> aclosing[AsyncGenerator[LogLine, None]]:
        return aclosing(self.client.logs(number, follow=True))

    async def _number_once_sent(self, node: Node) -> int:
        """Return the head's number for the job of a node: wait for it while the call waits for its inputs, or for a
        head. 0 for one that has ended without a job.
        """
        changes = self.runner.numbered
        if not node.finished:
            self._engine.watch(node, changes.notify)
        try:
            await changes.until(lambda: node.finished or _number_at_head(node) > 0)
        finally:
            self._engine.unwatch(node, changes.notify)
        return _number_at_head(node)

    def events(self) -> Events:
        """Iterate over events of this program's jobs from now on, and of workers that are here, join and leave.

        Times are those at which this program received the event. An attempt that is followed by another has the outcome
        `"retried"`. Jobs that run when the head is lost end as `"lost"`. A worker's silence and quarantine are not
        reported.
        """
        feed = RemoteFeed(self._present(), self.runner.running())
        self._leases.feeds.append(feed)
        return Events(feed, self._leases.drop)

    def fleet(self) -> RemoteFleet:
        """Return the pools of workers of the head."""
        return self._fleet

    def report(self) -> Totals:
        """Return how many jobs of this program ended, by outcome."""
        totals = self._counters.totals(time.monotonic())
        return replace(totals, fetched=self._fetched + self._values.fetched)

    async def history(self, asked: AskHistory) -> HistoryIs:
        """Return a page of the head's jobs that have ended, including those of other programs."""
        return await self.client.ask(asked, HistoryIs)

    async def named_calls(self, session: str, names: tuple[str, ...]) -> dict[str, Info]:
        """Return the named calls of a session, or those with these names, by name."""
        from grainlike.client._named_calls import info_of  # few programs look at names

        found: dict[str, Info] = {}
        for first in range(0, max(1, len(names)), _NAMES):
            asked = AskNamed(0, session, list(names[first : first + _NAMES]))
            while True:
                told = await self.client.ask(asked, NamedAre)
                now = time.monotonic()
                found.update((row.name, info_of(row, now)) for row in told.calls)
                if not told.next:
                    break
                asked = replaced(asked, after=told.next)
        return found

    # --- names of the session ----------------------------------------------------------------------------------------

    def give_name(self, name: str, placeholder: Delayed[Any], node: Node) -> None:
        """Name a call, and send it to the head with all calls that it needs; if they cannot go now, each goes in its
        turn.
        """
        self.runner.names[node] = name
        self.named[name] = placeholder
        self.runner.send_ahead(node, goes_on=not self._engine.fails_fast)

    async def forget(self, names: tuple[str, ...]) -> None:
        """Drop the session's calls with these names; return when the head has dropped them."""
        for name in names:
            self.named.pop(name, None)
        self.runner.forget(names)
        self.client.link.post(Forget(list(names)))
        await self.client.ask(AskHead(0), HeadIs)  # the head handles messages in order, so `Forget` before this one

    # --- observers ---------------------------------------------------------------------------------------------------

    def introduce(self, observer: Observer) -> None:
        """Tell a new observer nothing: to observers, one worker runs all jobs."""

    def record(self, recorder: object) -> None:
        """Record nothing: the head records for all its clients."""

    def copies(self) -> None:
        """Return None: the head records for all its clients."""

    def now(self) -> float:
        """Return the time on this program's monotonic clock, in seconds."""
        return time.monotonic()

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt. Of the running jobs, only those of which
        observers are notified are known.
        """
        return self._leases.live_job(number, attempt)

    def assembles(self, number: int) -> bool:  # noqa: ARG002 - the head reports only jobs that have started
        """Return False: jobs are reported once they have started."""
        return False


def _number_at_head(node: Node) -> int:
    """Return the head's number for the job of a node; 0 if the node has no job, or none yet."""
    return node.record.id if isinstance(node.record, Job) else 0
