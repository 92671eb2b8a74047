"""A program's connection to a head elsewhere.

Answers: how a head is found and connected to (`_introduction`, `_connection`), also without an event loop
(`_blocking`), what is asked of it (`_queries`), how a viewer outlives it (`_viewer`), how
jobs are submitted (`_remote_jobs`), what it reports of them (`_events`), and how all of that serves an executor
(`_remote_head`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.client._blocking import BlockingClient, call_blocking, completed
    from grainlike.client._connection import HeadClient, call
    from grainlike.client._introduction import Asker, RefusedQueryError, hello_of_client
    from grainlike.client._remote_head import ConnectionSettings, RemoteHead
    from grainlike.client._viewer import view

__all__ = [
    "Asker",
    "BlockingClient",
    "ConnectionSettings",
    "HeadClient",
    "RefusedQueryError",
    "RemoteHead",
    "call",
    "call_blocking",
    "completed",
    "hello_of_client",
    "view",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Asker": "_introduction",
            "BlockingClient": "_blocking",
            "HeadClient": "_connection",
            "RefusedQueryError": "_introduction",
            "call": "_connection",
            "call_blocking": "_blocking",
            "completed": "_blocking",
            "hello_of_client": "_introduction",
            "ConnectionSettings": "_remote_head",
            "RemoteHead": "_remote_head",
            "view": "_viewer",
        },
    )
