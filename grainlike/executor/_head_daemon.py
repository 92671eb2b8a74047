"""A head as a program of its own: it has no worker, runs no graph, and ends when it is stopped or its work is done."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from grainlike.errors import JournalError
from grainlike.executor._executor import Executor
from grainlike.head import Head
from grainlike.head.durable import DurableClients, DurableHead, HeadStore, began_here
from grainlike.head.server import Acceptor, ClientRegistry, Endpoint, OutcomeStore, open_durable_endpoint, open_endpoint

__all__ = ["HeadDaemon"]

logger = logging.getLogger("grainlike")


class HeadDaemon(Executor):
    """`Executor(local=None, listen=...)`, which clients may end: then `stop` is set. See `Executor` for the arguments.

    With `run_once`, `stop` is set too when the last program that was connected has left, once there were jobs: those
    end with their programs, so then the queue is empty. Named sessions keep it, until nothing is left of them.

    With `journal`, a directory, it survives its process: all input is journaled there first, with the access files of
    its cluster. When it was killed, the next one with this directory resumes; workers continue their jobs meanwhile,
    and they and the clients reconnect. `salvage` sets aside what is damaged there. When it is closed it ends the
    work, as always; unless `leaves` is set, which keeps all for the next.

    Named sessions keep outcomes in memory and, beyond that, in files in the journal's directory, else in the user's
    state directory: `keep` bytes in all, by default half of what is free there. Then new calls with names are refused.

    Raises, besides what `Executor` does:
        JournalError: the journal is damaged, in use, of a schema that is not read here, or open to others; or the disk
            refuses. From closing: its end is not in the journal, so the next head will find its jobs.

    Example::

        async with HeadDaemon("tcp://0.0.0.0:0") as head:
            print(head.address)
            await head.stop.wait()
    """

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
    ) -> None:
        super().__init__(local=None, listen=listen, access=access, insecure=insecure, record=record)
        if salvage and journal is None:
            raise ValueError("salvage= is about a journal")
        self.stop = anyio.Event()
        self.leaves = False
        """True if closing leaves the work as it is, for the next head with this journal."""
        self._unkept: JournalError | None = None
        """Error for which the head's end is not in the journal; None if there was none."""
        self._returns = journal is not None
        self._run_once = run_once
        self._journal = None if journal is None else Path(journal).expanduser().absolute()
        self._keeping: HeadStore | None = None
        self._salvage = salvage
        self._keep = keep
        self._store: OutcomeStore | None = None

    def _stop_asked(self) -> bool:
        self.stop.set()
        return True

    def _deserted(self) -> None:
        if self._run_once and self._head.view.last_job:
            self.stop.set()

    # --- with a journal ----------------------------------------------------------------------------------------------

    def _make_head(self) -> Head:
        if self._journal is None:
            return super()._make_head()
        began = began_here(secrets.randbits(64), time.monotonic())
        self._keeping = keeping = HeadStore(self._journal, began, salvage=self._salvage)
        return DurableHead(self._engine, keeping.began, keeping.clock, self._alarm.set)

    def _open_endpoint(self, listen: str) -> AbstractContextManager[Endpoint]:
        if self._journal is None:
            return super()._open_endpoint(listen)
        if self._settings.access is not None:
            return open_endpoint(listen, self._settings.access, insecure=self._settings.insecure)
        return open_durable_endpoint(listen, self._journal / "access", insecure=self._settings.insecure)

    def _make_clients(self, cluster: str) -> ClientRegistry:
        if not isinstance(self._head, DurableHead):
            return super()._make_clients(cluster)
        return DurableClients(self._head, cluster, self._cancel_job, self._stop_asked, self._deserted)

    def _make_store(self, clients: ClientRegistry, cluster: str) -> OutcomeStore:
        if self._keeping is None or self._journal is None:
            return super()._make_store(clients, cluster)
        where, safe = self._journal / "outcomes", self._keeping.safe
        self._store = OutcomeStore(lambda: clients.sessions, where, self._keep, lasting=True, safe=safe)
        return self._store

    def _restore(self, acceptor: Acceptor, tasks: TaskGroup) -> None:
        if self._keeping is None:
            return
        assert isinstance(self._head, DurableHead)
        assert isinstance(acceptor.clients, DurableClients)
        self._keeping.restore(self._head, acceptor.clients)
        tasks.start_soon(self._keeping.run)
        for peer in self._head.peers.values():
            tasks.start_soon(acceptor.await_return, peer)
        for connection in acceptor.clients.here.values():
            tasks.start_soon(acceptor.await_return, connection)

    async def _end(self, acceptor: Acceptor, endpoint: Endpoint | None) -> None:
        if not (self.leaves and self._keeping):
            await super()._end(acceptor, endpoint)
            if isinstance(self._head, DurableHead) and isinstance(acceptor.clients, DurableClients):
                self._head.end(acceptor.clients)
                await self._finish()
            return
        logger.info("leaving %d jobs for the next head with this journal", self._head.view.unended)
        self._keeping.stop()
        acceptor.close("the head is about to be started again")  # so that nothing follows from what is not kept
        if endpoint is not None:
            endpoint.withdraw()

    async def _finish(self) -> None:
        assert self._keeping is not None
        try:
            await self._keeping.finish()
        except JournalError as error:
            self._unkept = error
        else:
            if self._store is not None:
                self._store.remove()

    async def _live(self) -> None:
        try:
            await super()._live()
        finally:
            if self._keeping is not None:
                self._keeping.close()
        if self._unkept is not None:
            raise self._unkept
