"""Storage of a head that survives its process: its journal, access files, and outcomes, in one directory."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anyio.abc import TaskGroup

from grainlike.errors import JournalError
from grainlike.head import Head
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._snapshot import began_here
from grainlike.head.durable._store import HeadStore
from grainlike.head.server import (
    Acceptor,
    ClientRegistry,
    Endpoint,
    OutcomeStore,
    open_durable_endpoint,
    open_endpoint,
)
from grainlike.jobs import OutcomeListener
from grainlike.net import forget_journal, note_journal

__all__ = ["JournalStorage"]

logger = logging.getLogger("grainlike")


class JournalStorage:
    """`HeadStorage` in `directory`. `salvage` sets aside what is damaged there; `keep` is how many bytes of outcomes
    named sessions may keep, by default half of what is free.

    Raises, from `make_head`:
        JournalError: the journal is damaged, in use, of a schema that is not read here, or open to others; or the disk
            refuses.
    """

    survives = True

    def __init__(self, directory: Path, *, salvage: bool = False, keep: int | None = None) -> None:
        self._directory = directory
        self._salvage = salvage
        self._keep = keep
        self._files: HeadStore | None = None
        self._outcomes: OutcomeStore | None = None
        self.not_recorded: JournalError | None = None
        """Error for which the head's end is not in the journal; None if there was none."""

    @property
    def files(self) -> HeadStore:
        """Journal and snapshots, once there is a head."""
        assert self._files is not None, "make_head comes first"
        return self._files

    @property
    def fleet_file(self) -> Path:
        """Path of the records of pools and blocks, beside the journal."""
        return self._directory / "fleet.json"

    def make_head(self, outcomes: OutcomeListener, alarm: Callable[[float], None], *, closed: bool) -> Head:  # noqa: ARG002 - workers may come back
        """Open the journal, and return the head that continues what it holds."""
        began = began_here(secrets.randbits(64), time.monotonic())
        self._files = files = HeadStore(self._directory, began, salvage=self._salvage)
        self._head = DurableHead(outcomes, files.began, files.clock, alarm)
        return self._head

    @contextmanager
    def open_endpoint(self, listen: str, access: Path | None, *, insecure: bool) -> Iterator[Endpoint]:
        """Open the endpoint of the cluster whose access files are here, or of `access`, and note where its journal
        is.
        """
        if access is not None:
            opened = open_endpoint(listen, access, insecure=insecure)
        else:
            opened = open_durable_endpoint(listen, self._directory / "access", insecure=insecure)
        with opened as endpoint:
            try:
                note_journal(endpoint.cluster, self._directory)
            except OSError as error:  # with access files of its own a head does without that directory
                logger.warning("who finds this head no more is not told of its journal: %s", error)
            yield endpoint

    def make_clients(
        self,
        head: Head,
        cluster: str,
        cancel: Callable[[int], bool],
        stop: Callable[[bool], bool],
        alone: Callable[[], None] | None,
    ) -> ClientRegistry:
        """Return a registry that journals what clients send."""
        assert isinstance(head, DurableHead)
        clients = DurableClients(head, cluster, cancel, stop, alone)
        clients.directory = str(self._directory)
        return clients

    def make_store(self, clients: ClientRegistry, cluster: str) -> OutcomeStore:  # noqa: ARG002 - the directory is its
        """Return a store whose files stay."""
        where, safe = self._directory / "outcomes", self.files.safe
        self._outcomes = OutcomeStore(lambda: clients.sessions, where, self._keep, lasting=True, safe=safe)
        return self._outcomes

    def restore(self, acceptor: Acceptor, tasks: TaskGroup) -> None:
        """Restore the state, keep the journal in `tasks`, and wait there for the peers that were connected."""
        head, clients = acceptor.head, acceptor.clients
        assert isinstance(head, DurableHead)
        assert isinstance(clients, DurableClients)
        self.files.restore(head, clients)
        tasks.start_soon(self.files.run)
        acceptor.await_returns(tasks)

    async def record_end(self, clients: ClientRegistry) -> None:
        """Record that all work has ended; an error of the disk is in `not_recorded`."""
        assert isinstance(clients, DurableClients)
        self._head.end(clients)
        try:
            await self.files.finish()
        except JournalError as error:
            self.not_recorded = error
        else:
            forget_journal(self._directory)
            if self._outcomes is not None:
                self._outcomes.remove()

    def stop(self) -> None:
        """Write nothing more: what follows is the end of this process, and not of its jobs."""
        self.files.stop()

    def close(self) -> None:
        """Close the journal."""
        self.files.close()
