"""A program's connection to a head elsewhere.

Answers: how a head is found and connected to (`_connection`, `_first_link`), what is asked of it (`_queries`), how a
viewer outlives it (`_viewer`), how
jobs are submitted (`_remote_jobs`), what it reports of them (`_events`), and how all of that serves an executor
(`_remote_head`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.client._connection import HeadClient, RefusedQueryError, call
    from grainlike.client._remote_head import ConnectionSettings, RemoteHead
    from grainlike.client._viewer import view

__all__ = [
    "ConnectionSettings",
    "HeadClient",
    "RefusedQueryError",
    "RemoteHead",
    "call",
    "view",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "HeadClient": "_connection",
            "RefusedQueryError": "_connection",
            "call": "_connection",
            "ConnectionSettings": "_remote_head",
            "RemoteHead": "_remote_head",
            "view": "_viewer",
        },
    )
