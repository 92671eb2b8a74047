"""A program's connection to a head elsewhere, and the executor on it.

Answers: how a head is found and connected to (`_connection`, `_first_link`), what is asked of it (`_queries`), how
jobs are submitted (`_remote_jobs`), what it reports of them (`_events`, `_leases`), and what `connect()` gives
(`_connected_executor`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.client._connected_executor import connect
    from grainlike.client._connection import HeadClient, RefusedQueryError, call

__all__ = [
    "HeadClient",
    "RefusedQueryError",
    "call",
    "connect",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "HeadClient": "_connection",
            "RefusedQueryError": "_connection",
            "call": "_connection",
            "connect": "_connected_executor",
        },
    )
