"""Bytes of the values that workers keep, as clients are told of them when they have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
from anyio.abc import TaskGroup

from grainlike.head._queries import StoreUse
from grainlike.head.server._client import ClientConnection
from grainlike.wire import StoresAre

__all__ = ["STORES_S", "StoreUpdates"]

STORES_S = 0.25
"""Seconds for which changes are collected before a client is told of them."""


class StoreUpdates:
    """Sends `stores()`, by name of the worker, to those of `clients` that submit jobs, after changes.

    Example::

        updates = StoreUpdates(clients, head.view.stores)
        updates.changed()                           # once for all changes of the next quarter of a second
    """

    def __init__(self, clients: Mapping[int, ClientConnection], stores: Callable[[], dict[str, StoreUse]]) -> None:
        self._clients = clients
        self._stores = stores
        self._told: dict[int, dict[str, StoreUse]] = {}
        """Bytes that each client was told of since it has had the workers last."""
        self._due: set[TaskGroup] = set()
        """Tasks of links whose clients are told soon. Those of one that broke end soon, and tell nothing then."""
        self.told_any: bool = False
        """True if some client was told of bytes that are kept."""

    def changed(self) -> None:
        """Tell clients after a while, if something has changed by then."""
        for connection in self._clients.values():
            if connection.paths and connection.tasks is not None and connection.tasks not in self._due:
                self._due.add(connection.tasks)
                connection.tasks.start_soon(self._tell, connection, connection.tasks)

    def listed(self, connection: ClientConnection) -> None:
        """Record that a client is sent the workers, or has left: what it was told before counts no more."""
        self._told.pop(connection.number, None)
        self.told_any = any(self._told.values()) or bool(self._stores())  # the list of workers tells of these, too

    async def _tell(self, connection: ClientConnection, tasks: TaskGroup) -> None:
        try:
            await anyio.sleep(STORES_S)
        finally:
            self._due.discard(tasks)
        stores = self._stores()
        if stores != self._told.get(connection.number):
            self._told[connection.number] = stores
            self.told_any = any(self._told.values())
            uses = stores.values()
            in_memory, spilled = [use.stored for use in uses], [use.spilled for use in uses]
            connection.post(StoresAre(0, list(stores), in_memory, spilled, [use.scratch_lost for use in uses]))
