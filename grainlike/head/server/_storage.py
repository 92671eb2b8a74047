"""Storage of a head: what of its state and of its outcomes outlives its process."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from anyio.abc import TaskGroup

from grainlike.head import Head
from grainlike.head.server._clients import ClientRegistry
from grainlike.jobs import OutcomeListener

if TYPE_CHECKING:  # a head to which no process connects needs neither
    from grainlike.head.server._accept import Acceptor
    from grainlike.head.server._endpoint import Endpoint
    from grainlike.head.server._outcome_store import OutcomeStore

__all__ = ["HeadStorage", "NoStorage"]


class HeadStorage(Protocol):
    """Factory of those parts of a head that depend on what outlives its process.

    `survives` is true if the next head continues what this one leaves.
    """

    survives: bool

    @property
    def fleet_file(self) -> Path | None:
        """Path of the records of pools and blocks; None where they end with the head."""
        ...

    def make_head(self, outcomes: OutcomeListener, alarm: Callable[[float], None], *, closed: bool) -> Head:
        """Return a head that tells `outcomes`; `closed` if no worker may ever join from outside."""
        ...

    def open_endpoint(self, listen: str, access: Path | None, *, insecure: bool) -> AbstractContextManager[Endpoint]:
        """Return the context manager during which the head listens."""
        ...

    def make_clients(
        self,
        head: Head,
        cluster: str,
        cancel: Callable[[int], bool],
        stop: Callable[[bool], bool],
        alone: Callable[[], None] | None,
    ) -> ClientRegistry:
        """Return the registry of clients; the arguments are its own."""
        ...

    def make_store(self, clients: ClientRegistry, cluster: str) -> OutcomeStore:
        """Return the store for outcomes of named calls that do not fit into memory."""
        ...

    def restore(self, acceptor: Acceptor, tasks: TaskGroup) -> None:
        """Restore the state, before connections are admitted."""

    async def record_end(self, clients: ClientRegistry) -> None:
        """Record that all work has ended."""

    def close(self) -> None:
        """Close all files."""


class NoStorage:
    """`HeadStorage` of a head that ends with its process.

    Outcomes of named sessions are kept in the user's state directory meanwhile: `keep` bytes in all, by default half
    of what is free there. With `beside`, another head that is the current one stays so.
    """

    survives = False
    fleet_file = None

    def __init__(self, keep: int | None = None, *, beside: bool = False) -> None:
        self._keep = keep
        self._beside = beside

    def make_head(self, outcomes: OutcomeListener, alarm: Callable[[float], None], *, closed: bool) -> Head:
        """Return a new head."""
        head = Head(outcomes, closed=closed, alarm=alarm)
        head.state.scheduler.defer_records()
        return head

    def open_endpoint(self, listen: str, access: Path | None, *, insecure: bool) -> AbstractContextManager[Endpoint]:
        """Return an endpoint of a new cluster, or of the one of `access`."""
        from grainlike.head.server._endpoint import open_endpoint

        return open_endpoint(listen, access, insecure=insecure, beside=self._beside)

    def make_clients(
        self,
        head: Head,
        cluster: str,
        cancel: Callable[[int], bool],
        stop: Callable[[bool], bool],
        alone: Callable[[], None] | None,
    ) -> ClientRegistry:
        """Return a registry without clients."""
        return ClientRegistry(head, cluster, cancel, stop, alone)

    def make_store(self, clients: ClientRegistry, cluster: str) -> OutcomeStore:
        """Return a store whose files are removed at the end."""
        from grainlike.head.server._outcome_store import OutcomeStore
        from grainlike.net import state_directory

        directory = state_directory() / "outcomes" / f"{cluster}-{secrets.token_hex(4)}"
        return OutcomeStore(lambda: clients.sessions, directory, self._keep, lasting=False)

    def restore(self, acceptor: Acceptor, tasks: TaskGroup) -> None:
        """Restore nothing."""

    async def record_end(self, clients: ClientRegistry) -> None:
        """Record nothing."""

    def close(self) -> None:
        """Close nothing."""
