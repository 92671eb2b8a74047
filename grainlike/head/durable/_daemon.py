"""A head as a program of its own: it has no worker, runs no graph, and ends when it is stopped or its work is done."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from grainlike import telemetry
from grainlike.errors import GrainlikeError
from grainlike.eventloop import Lifespan, here
from grainlike.head.durable._no_listener import NoListener
from grainlike.head.server import HeadOwner, HeadService, NoStorage
from grainlike.jobs import WorkerInfo
from grainlike.subprocesses import reserve_standard_descriptors
from grainlike.wire import MetricsAre, Totals

if TYPE_CHECKING:  # heads without viewers do without
    from grainlike.client import HeadClient
    from grainlike.graph import Node
    from grainlike.head import Head
    from grainlike.head.durable._storage import JournalStorage

__all__ = ["HeadDaemon"]

logger = logging.getLogger("grainlike")


class HeadDaemon(Lifespan):
    """Head at `listen` for workers and clients, which clients may end: then `stop` is set.

    See `Executor` for `listen`, `access` and `insecure`. With `record`, what ran is kept for `grainlike trace`.

    With `run_once`, `stop` is set too when the last program that was connected has left, once there were jobs: those
    end with their programs, so then the queue is empty. Named sessions keep it, until nothing is left of them.

    With `journal`, a directory, it survives its process: all input is journaled there first, with the access files of
    its cluster. When it was killed, the next one with this directory resumes; workers continue their jobs meanwhile,
    and they and the clients reconnect. `salvage` sets aside what is damaged there. When it is closed it ends the
    work, as always; unless `leaves` is set, which keeps all for the next: a client that stops it sets that where named
    sessions have names or jobs, unless it says to forget them.

    Named sessions keep outcomes in memory and, beyond that, in files in the journal's directory, else in the user's
    state directory: `keep` bytes in all, by default half of what is free there. Then new calls with names are refused.

    With `no_launch`, clients may have no pools of workers started here. With `events`, a path or `-`, all events are
    appended there as JSON lines, and at `metrics`, as `127.0.0.1:9464`, it answers Prometheus: docs/monitoring.md.

    With `ends_process`, its process ends with it: a caller that stops it waits for that.

    Raises, besides what `Executor` does:
        OSError: `events` cannot be opened, or the port of `metrics` is in use.
        ValueError: `metrics` is not HOST:PORT.
        JournalError: the journal is damaged, in use, of a schema that is not read here, or open to others; or the disk
            refuses. From closing: its end is not in the journal, so the next head will find its jobs.

    Example::

        async with HeadDaemon("tcp://0.0.0.0:0") as head:
            print(head.address)
            await head.stop.wait()
    """

    _task_name = "grainlike head"

    def __init__(
        self,
        listen: str,
        *,
        access: str | PathLike[str] | None = None,
        insecure: bool = False,
        run_once: bool = False,
        journal: str | PathLike[str] | None = None,
        salvage: bool = False,
        record: bool = False,
        keep: int | None = None,
        no_launch: bool = False,
        events: str | PathLike[str] | None = None,
        metrics: str | None = None,
        ends_process: bool = False,
    ) -> None:
        super().__init__()
        self._ends_process = ends_process
        self._no_launch = no_launch
        if salvage and journal is None:
            raise ValueError("salvage= is about a journal")
        if access is not None and insecure:
            raise ValueError("access= brings certificates, and insecure= does without: leave one of them out")
        self.stop: anyio.Event = anyio.Event()
        self.leaves: bool = False
        """True if closing leaves the work as it is, for the next head with this journal."""
        self._listen = listen
        self._access = None if access is None else Path(access)
        self._insecure = insecure
        self._run_once = run_once
        self._record = record
        self._events = events
        self._metrics = None if metrics is None else telemetry.parse_endpoint(metrics)
        self.metrics_address: str | None = None
        """Address at which metrics are served; None where they are not."""
        self._journal: JournalStorage | None = None
        if journal is not None:
            # Without a journal, nothing is loaded that writes one.
            from grainlike.head.durable._storage import JournalStorage

            self._journal = JournalStorage(Path(journal).expanduser().absolute(), salvage=salvage, keep=keep)
        self._storage = NoStorage(keep) if self._journal is None else self._journal
        self._service: HeadService | None = None

    def __repr__(self) -> str:
        return f"<HeadDaemon {self._state} at {self.address or self._listen}>"

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        loop_id = here()
        if loop_id is None or self._state != "new":
            raise RuntimeError(f"{self!r} is opened once, inside an event loop")
        reserve_standard_descriptors()
        self._open(loop_id)
        await self._wait_until_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        if self._failure is not None and (error is None or isinstance(error, GrainlikeError)):
            raise self._failure

    async def _live(self) -> None:
        async with anyio.create_task_group() as monitors:
            # First: where these cannot be, no journal is opened, and no access file is written.
            if self._metrics is not None:
                self.metrics_address = str(await telemetry.MetricsServer(self._metrics, self._figures).start(monitors))
            with ExitStack() as unused:
                file = None if self._events is None else telemetry.EventFile(self._events)
                if file is not None:
                    unused.callback(file.close)
                self._service = service = self._make_service()
                with service.held():
                    await self._serve_peers(service, file, unused)
            monitors.cancel_scope.cancel()
        if self._journal is not None and self._journal.not_recorded is not None:
            raise self._journal.not_recorded

    def _make_service(self) -> HeadService:
        owner = HeadOwner(
            outcomes=NoListener(),
            cancel=_has_none,
            stop=self.end_soon,
            deserted=self._deserted,
            ends_process=self._ends_process,
        )
        service = HeadService(
            owner,
            self._storage,
            self._changes,
            listen=self._listen,
            access=self._access,
            insecure=self._insecure,
            no_launch=self._no_launch,
        )
        if self._record:
            from grainlike.head import MOST, Recorder  # and here, nothing that records

            view = service.head.view
            service.record(Recorder(view.job, view.assembles, MOST, service.head.now))
        return service

    def _figures(self) -> MetricsAre:
        assert self._service is not None
        return self._service.metrics()

    async def _serve_peers(self, service: HeadService, file: telemetry.EventFile | None, unused: ExitStack) -> None:
        async with anyio.create_task_group() as tasks:
            service.start(tasks)
            if file is not None:
                unused.pop_all()  # who writes there closes it
                service.write_events(file)
            self._opened.set()
            try:
                await self._stop.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end(service)
                    await service.end_events()
                tasks.cancel_scope.cancel()

    async def _end(self, service: HeadService) -> None:
        if self.leaves and self._journal is not None:
            logger.info("leaving %d jobs for the next head with this journal", service.head.view.unended)
            self._journal.stop()
            service.leave("the head is about to be started again")  # so that nothing follows from what is not kept
        else:
            service.detach()
            await service.end()

    async def _ended(self) -> None:
        self.stop.set()  # also where it has failed: who waits for its end would else wait for ever
        if self._service is not None:
            self._service.close()

    def end_soon(self, forget: bool = False) -> bool:
        """Set `stop`, and `leaves` where there is a journal and sessions have names or jobs, unless these are to be
        dropped (`forget`); return True.
        """
        assert self._service is not None, "it has not been opened"
        self.leaves = not forget and self._journal is not None and self._service.sessions_hold
        self.stop.set()
        return True

    def _deserted(self) -> None:
        if self._run_once and self.head.view.last_job:
            self.stop.set()

    async def connect_viewer(self, tasks: TaskGroup) -> HeadClient:
        """Return a client of this head in the same process, which is served in `tasks`."""
        assert self._service is not None, "it has not been opened"
        return await self._service.connect_viewer(tasks)

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def head(self) -> Head:
        """The head itself, once it has opened."""
        assert self._service is not None, "it has not been opened"
        return self._service.head

    @property
    def address(self) -> str | None:
        """Address at which it listens; None before."""
        return None if self._service is None else self._service.address

    @property
    def has_journal(self) -> bool:
        """True if it survives its process."""
        return self._journal is not None

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers."""
        return self.head.view.workers()

    def report(self) -> Totals:
        """Return how many jobs ended how so far."""
        return self.head.totals()


def _has_none(node: Node) -> None:
    raise AssertionError(f"a head daemon has no job of its own, and {node} is one")
