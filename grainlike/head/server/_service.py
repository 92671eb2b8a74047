"""Head with all by which workers and clients reach it: endpoint, acceptor, clients, stored outcomes, and its alarm."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from grainlike._version import __version__
from grainlike.engine import QUIET_S
from grainlike.eventloop import Alarm, Changes, held_up
from grainlike.head.server._accept import Acceptor
from grainlike.head.server._storage import HeadStorage
from grainlike.jobs import OutcomeListener
from grainlike.net import Link, memory_pair
from grainlike.system import import_paths
from grainlike.wire import LOST_S

if TYPE_CHECKING:  # only a head to which others connect has one
    from grainlike.client import HeadClient
    from grainlike.graph import Node
    from grainlike.head import EventLog, Head, Recorder
    from grainlike.head.fleet import FleetDriver
    from grainlike.head.server._endpoint import Endpoint
    from grainlike.head.server._outcome_store import OutcomeStore
    from grainlike.head.values._copy_spans import CopySpans
    from grainlike.telemetry import EventFile, EventWriter
    from grainlike.wire import MetricsAre

__all__ = ["HeadOwner", "HeadService"]

logger = logging.getLogger("grainlike")


def _nothing() -> None:
    pass


def _refuse(forget: bool) -> bool:  # noqa: ARG001 - the hook's signature
    return False


def _admit_all(label: str) -> None:  # noqa: ARG001 - the hook's signature
    return None


class HeadOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks of the program in which a head runs.

    Attributes:
        outcomes: receives the outcomes of the program's own jobs.
        cancel: cancels a job of the program's own for everybody, by its node.
        settled: called when outcomes may have come.
        stop: called when a client asks the head to end, with whether what sessions keep is to be dropped; returns False
            where clients may not ask for that.
        deserted: called when there is no client left, and no named session.
        ends_process: the process ends with the head, and is no program that goes on.
    """

    outcomes: OutcomeListener
    cancel: Callable[[Node], object]
    settled: Callable[[], object] = _nothing
    stop: Callable[[bool], bool] = _refuse
    deserted: Callable[[], None] | None = None
    ends_process: bool = False


class HeadService:
    """Head that serves workers and clients, at `listen` or, with None, over links that are given to `admit` alone.

    It is used in this order: `held` around all, `start`, then `detach` and `end`; or `leave`, to end it as if it had
    been killed. `changes` is notified when workers, clients or jobs have come or gone.

    Raises as `Executor`.
    """

    def __init__(
        self,
        owner: HeadOwner,
        storage: HeadStorage,
        changes: Changes,
        *,
        listen: str | None,
        access: Path | None = None,
        insecure: bool = False,
        no_launch: bool = False,
        silence_s: float = LOST_S,
    ) -> None:
        self._pace = silence_s / LOST_S
        self._no_launch = no_launch
        self._owner = owner
        self._storage = storage
        self._changes = changes
        self._listen = listen
        self._access = access
        self._insecure = insecure
        self._alarm = Alarm(self._ring)
        self._endpoint: Endpoint | None = None
        self._store: OutcomeStore | None = None
        self._running: dict[int, str] = {}
        self._fleet: FleetDriver | None = None
        self._tasks: TaskGroup | None = None
        self._event_log: EventLog | None = None
        self._event_writer: EventWriter | None = None
        self.admit_block: Callable[[str], str | None] = _admit_all
        """Hook: the words with which workers of the block of this label are refused, which then end; None lets them in.
        """
        self.head: Head = storage.make_head(owner.outcomes, self._alarm.set, closed=listen is None)

    @property
    def address(self) -> str | None:
        """Address at which it listens; None where it does not."""
        return None if self._endpoint is None else str(self._endpoint.address)

    def record(self, recorder: Recorder) -> None:
        """Have a recorder told of all that runs."""
        self.head.recorder = recorder
        self.head.values.spans = recorder.copies
        self.head.observers.append(recorder)
        self.head.counted = recorder.counted

    def copies(self) -> CopySpans:
        """Return the record of copies of large values, which is kept from now on."""
        spans = self.head.values.spans
        if spans is None:
            from grainlike.head import MOST
            from grainlike.head.values._copy_spans import CopySpans

            spans = self.head.values.spans = CopySpans(MOST, self.head.now)
        return spans

    # --- from the first moment to the last ---------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context manager: hold the address and all files."""
        with ExitStack() as stack:
            stack.callback(self._storage.close)
            if self._listen is not None:
                opened = self._storage.open_endpoint(self._listen, self._access, insecure=self._insecure)
                self._endpoint = stack.enter_context(opened)
            cluster = "embedded" if self._endpoint is None else self._endpoint.cluster
            owner = self._owner
            clients = self._storage.make_clients(self.head, cluster, self._cancel_job, owner.stop, owner.deserted)
            clients.ends_process = owner.ends_process
            if self._endpoint is not None:
                self._store = clients.store = self._storage.make_store(clients, cluster)
                stack.callback(self._store.close)
            self._clients = clients
            clients.pools.make = self._fleet_of_clients
            self._acceptor = Acceptor(
                self.head,
                clients,
                cluster,
                import_paths(),
                self._settled,
                self._joined,
                self._asked_for_block,
                returns=self._storage.survives,
                pace=self._pace,
            )
            yield

    def start(self, tasks: TaskGroup) -> None:
        """Serve in `tasks` from now on."""
        self._tasks = tasks
        tasks.start_soon(self._alarm.run)
        self._storage.restore(self._acceptor, tasks)
        file = self._storage.fleet_file
        if file is not None and file.exists():
            self.fleet()  # the blocks of the head before
        if self._store is not None:
            tasks.start_soon(self._store.run)
        if self._endpoint is not None:
            tasks.start_soon(self._endpoint.listener.serve, self._acceptor.admit)

    def metrics(self) -> MetricsAre:
        """Return the head in figures."""
        return self._clients.metrics()

    def write_events(self, file: EventFile) -> None:
        """Write all events to `file` from now on, until `end_events`."""
        from grainlike.telemetry import EventWriter  # heads that write none do without

        assert self._tasks is not None, "it serves already"
        self._event_log = log = self.head.log_events()
        cluster = "embedded" if self._endpoint is None else self._endpoint.cluster
        about = {"version": __version__, "cluster": cluster, "host": socket.gethostname(), "pid": os.getpid()}
        self._event_writer = EventWriter(log, file, **about)
        self._tasks.start_soon(self._event_writer.run)
        self._fleet_changed()

    async def end_events(self) -> None:
        """Write the last events."""
        if self._event_writer is not None:
            await self._event_writer.close()

    @property
    def launched(self) -> FleetDriver | None:
        """Driver of the pools of workers, if there have been any."""
        return self._fleet

    def fleet(self) -> FleetDriver:
        """Return the driver of the pools of workers, a new one where there was none.

        Raises:
            ValueError: it does not listen, so that no worker could connect.
            JournalError: the records of the head before are damaged.
        """
        if self._fleet is None:
            from grainlike.head.fleet import FleetDriver, RecordsFile  # heads without pools do without

            if self._endpoint is None or self._tasks is None:
                raise ValueError("workers of a pool connect to an address: open the executor with listen=, or launch=")
            path = self._storage.fleet_file
            file = None if path is None else RecordsFile(path)
            access = self._endpoint.worker_access
            self._fleet = FleetDriver(self.head, access, self._changes, file, self._fleet_changed)
            self._clients.pools.driver = self._fleet
            self.admit_block = self._fleet.view.refusal_of
            self._fleet.workers_changed()
            self._fleet.start(self._tasks)
        return self._fleet

    def _fleet_of_clients(self) -> FleetDriver:
        """Return the driver for a client that asks for a pool; the blocks of a head before are looked after anyway."""
        if self._no_launch:
            raise PermissionError("this head was started with --no-launch")
        return self.fleet()

    @property
    def admit(self) -> Callable[[Link], Coroutine[Any, Any, None]]:
        """Coroutine function that serves the peer at the other end of a link, until the link ends."""
        return self._acceptor.admit

    async def connect_viewer(self, tasks: TaskGroup) -> HeadClient:
        """Return a client of this head in the same process, which is served in `tasks`."""
        from grainlike.client import HeadClient  # heads without viewers do without

        near, far = memory_pair()
        client = HeadClient(far)
        tasks.start_soon(self.admit, near)
        tasks.start_soon(client.run)
        await client.welcomed()
        return client

    def detach(self) -> None:
        """Cancel what clients have submitted; the program's own jobs are its owner's to cancel."""
        self._clients.leave_all()
        self._running = self.head.view.running()

    async def end(self) -> None:
        """Wait until all jobs have ended, for `QUIET_S` at most, and close all connections."""
        with anyio.move_on_after(QUIET_S):
            await self._changes.until(lambda: self.head.quiet)
        if not self.head.quiet:
            logger.warning(
                "some jobs did not end within %g s of being cancelled: %s; workers of their own are left, and the "
                "embedded one goes on cancelling",
                QUIET_S,
                "; ".join(self._not_ended()),
            )
        if self._fleet is not None:
            await self._fleet.close()
        self._withdraw()
        await self.head.send_goodbye()
        await self._clients.send_goodbye()
        await self._storage.record_end(self._clients)

    @property
    def sessions_hold(self) -> bool:
        """True if a named session has names, or jobs that have not ended."""
        return any(session.holds for session in self._clients.sessions)

    def leave(self, reason: str) -> None:
        """Break all connections for `reason`, and read and admit nothing from now on; what runs goes on."""
        self._acceptor.close(reason)
        self._withdraw()

    def close(self) -> None:
        """Release shared memory, and tell observers that nothing follows."""
        self.head.object_store.close()
        for observer in self.head.observers:
            observer.closed()

    def _withdraw(self) -> None:
        if self._endpoint is not None:
            self._endpoint.withdraw()

    def _not_ended(self) -> list[str]:
        """Return the jobs that have not ended, by number, and where they stand: their place in this process, or the
        worker.
        """
        here = held_up()
        rows = [row for row in self.head.view.rows(None) if row.worker]
        names = {row.job: f"{self._running.get(row.job) or row.name or 'a job'} (job {row.job})" for row in rows}
        return [f"{names[row.job]} at {here.get(names[row.job], f'worker {row.worker}')}" for row in rows]

    # --- notifications -----------------------------------------------------------------------------------------------

    def _settled(self) -> None:
        self._owner.settled()
        if self._clients.here and (self.head.state.scheduler.values_known or self._clients.stores.told_any):
            self._clients.stores.changed()
        if self._changes.awaited is not None:  # rarely so: each batch of frames passes here
            self._changes.notify()

    def _joined(self) -> None:
        self._clients.workers_changed()
        if self._fleet is not None:
            self._fleet.workers_changed()
        self._changes.notify()

    def _fleet_changed(self) -> None:
        self._clients.fleet_changed()
        if self._event_log is not None and self._fleet is not None:
            view = self._fleet.view
            self._event_log.fleet(view.pool_rows(), view.block_rows(ended=True))

    def _asked_for_block(self, label: str) -> str | None:
        return self.admit_block(label)  # the hook of this moment: it may be set later than the acceptor is made

    def _ring(self) -> None:
        self.head.tick()
        self._owner.settled()

    def _cancel_job(self, number: int) -> bool:
        """End a job for everybody; False where there is none."""
        node = self.head.view.node_of(number)
        if node is None:
            return self.head.cancel_nested(number)
        self._owner.cancel(node)
        return True
