"""Head in the program's own process, with its embedded worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup
from msgspec.structs import replace

from grainlike.engine import Engine, maker_again
from grainlike.eventloop import Changes
from grainlike.executor._echo import echo_here
from grainlike.executor._embedded import embed
from grainlike.executor._settings import Settings
from grainlike.graph import Node
from grainlike.head import Head
from grainlike.head.server import HeadOwner, HeadService, NoStorage
from grainlike.joblogging import JobLogging
from grainlike.jobs import Events, Job, LogLine, Observer, WorkerInfo, WorkersFeed
from grainlike.resources import Request
from grainlike.scheduler import Explanation
from grainlike.wire import AskHistory, HistoryIs, Totals

if TYPE_CHECKING:
    from grainlike.client import HeadClient
    from grainlike.dashboard import Dashboard
    from grainlike.head import Recorder
    from grainlike.head.server import HeadStorage
    from grainlike.jobs import Fleet
    from grainlike.observe import Stretch

__all__ = ["LocalHead"]

logger = logging.getLogger("grainlike")


class LocalHead:
    """`JobService` of a head in this process, which may listen, and an embedded worker, if `settings` has an offer."""

    name = "grainlike"

    def __init__(
        self, settings: Settings, engine: Engine, changes: Changes, storage: HeadStorage | None = None
    ) -> None:
        owner = HeadOwner(outcomes=engine, cancel=lambda node: engine.cancel([node]), settled=engine.pump)
        self._service = HeadService(
            owner,
            NoStorage(beside=bool(settings.launch)) if storage is None else storage,
            changes,
            listen=settings.listen,
            access=settings.access,
            insecure=settings.insecure,
            silence_s=settings.silence_s,
        )
        self._settings = settings
        self._changes = changes
        self.head: Head = self._service.head
        self._show = echo_here(engine, self.head.view.submitter) if settings.echo else None
        self.runner = self.head
        if engine.fetcher is not None:
            self.head.keep_values(engine.fetcher, shares=settings.listen is not None)
        self.observers = self.head.observers
        self._dashboard: Dashboard | None = None
        if settings.logging:
            job_logging = JobLogging(quiet=not settings.echo)
            self.head.state.functions.levels = job_logging.levels
            self.head.records.own, self.head.records.lost = job_logging.take, job_logging.lost

    @property
    def address(self) -> str | None:
        """Address at which workers connect; None without `listen=`."""
        return self._service.address

    # --- from the first moment to the last ---------------------------------------------------------------------------

    def held(self) -> AbstractContextManager[None]:
        """Return the context manager that holds the address and all files."""
        return self._service.held()

    async def open(self, tasks: TaskGroup) -> None:
        """Serve in `tasks` from now on; return when the embedded worker has joined."""
        self._service.start(tasks)
        if self._settings.events is not None:
            from grainlike.telemetry import EventFile  # programs without do without

            self._service.write_events(EventFile(self._settings.events))
        offer = self._settings.offer
        if offer is not None:
            link, serve = embed(offer, self._show, self._settings.store_limits)
            tasks.start_soon(self._service.admit, link)
            tasks.start_soon(serve)
            await self._changes.until(lambda: bool(self.head.peers))
        for name, pool in self._settings.launch.items():
            await self._service.fleet().up(name, pool, asks=False)
        if self._settings.dashboard is not None:
            await self._open_dashboard(tasks, self._settings.dashboard)

    async def _open_dashboard(self, tasks: TaskGroup, address: tuple[str, int]) -> None:
        from grainlike.dashboard import Dashboard, in_process  # programs without pages do without

        dashboard = Dashboard(in_process(self.connect_viewer), address)
        await tasks.start(dashboard.serve)
        self._dashboard = dashboard
        # A warning: programs that have not set up logging see it.
        logger.warning("dashboard: %s", dashboard.link())

    def dashboard_link(self) -> str | None:
        """Return a new link to the dashboard, for one browser; None without one."""
        return None if self._dashboard is None else self._dashboard.link()

    def detach(self) -> Collection[Node]:
        """Cancel what clients have submitted; return none: the program's own jobs end with it."""
        self._service.detach()
        return ()

    async def close(self) -> None:
        """Wait until all jobs have ended, and close all connections."""
        await self._service.end()
        await self._service.end_events()

    def closed(self) -> None:
        """Release shared memory, and tell observers that nothing follows."""
        self._service.close()

    # --- questions ---------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers, the embedded one too."""
        return self.head.view.workers()

    def has_workers(self, n: int) -> bool:
        """Return True if `n` workers are connected, counting the embedded one."""
        return len(self.head.peers) >= n

    def refusal(self, request: Request) -> str | None:
        """Return why no call with this request could ever run with the workers that are here; None if one may."""
        return self.head.view.refusal(request)

    def refusal_of(self, node: Node) -> str | None:
        """Return why this call could never run; None if it may."""
        return None if node.request is None else self.refusal(node.request)

    async def explain(self, node: Node) -> Explanation:
        """Return where a call stands and what it waits for, from the scheduler's state."""
        found = self._with_pools(self.head.view.explain(node))
        again = self.head.view.explain_job(maker_again(node, self.head.program_values.fetcher))
        return found if again is None else replace(found, kept=str(self._with_pools(again)))

    def _with_pools(self, found: Explanation) -> Explanation:
        """Add what the pools of workers do about a job."""
        driver = self._service.launched
        return found if driver is None or not found.job else replace(found, pools=driver.view.explain(found.job))

    def logs(self, node: Node) -> AsyncGenerator[LogLine, None]:
        """Iterate over the lines that a job prints."""
        return self.head.logs.lines(node, self.head.peers.values())

    def events(self) -> Events:
        """Iterate over events of workers and jobs from now on."""
        feed = WorkersFeed(self)
        self.introduce(feed)
        state = self.head.state
        held = chain.from_iterable(worker.held for worker in state.scheduler.workers.values())
        feed.under_way(job for job in map(state.jobs.get, held) if job is not None)
        self.observers.append(feed)
        return Events(feed, self._drop)

    def _drop(self, feed: WorkersFeed) -> None:
        if feed in self.observers:
            self.observers.remove(feed)

    def fleet(self) -> Fleet:
        """Return the pools of workers of this head."""
        from grainlike.executor._pools import LocalFleet  # programs without pools do without

        return LocalFleet(self._service, self._changes)

    def report(self) -> Totals:
        """Return how many jobs ended how, those of clients too."""
        return self.head.totals()

    async def history(self, asked: AskHistory) -> HistoryIs:
        """Return a page of the jobs that have ended, those of clients too."""
        return self.head.history.page(asked)

    async def connect_viewer(self, tasks: TaskGroup) -> HeadClient:
        """Return a client of this head in the same process, which is served in `tasks`."""
        return await self._service.connect_viewer(tasks)

    # --- observers ---------------------------------------------------------------------------------------------------

    def introduce(self, observer: Observer) -> None:
        """Tell a new observer of the workers that are connected."""
        for peer in self.head.peers.values():
            observer.joined(peer)

    def record(self, recorder: Recorder) -> None:
        """Have a recorder told of all that runs."""
        self._service.record(recorder)

    def copies(self) -> Callable[[], Iterator[Stretch]]:
        """Return what gives the copies of large values, of which a record is kept from now on."""
        return self._service.copies().stretches

    def now(self) -> float:
        """Return the time on the head's clock, in seconds."""
        return self.head.now()

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        return self.head.view.job(number, attempt)

    def assembles(self, number: int) -> bool:
        """Return True if slots are held for this job on several workers while it waits for more."""
        return self.head.view.assembles(number)
