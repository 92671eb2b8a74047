"""Durable head, which survives its process: journal records of all its inputs, snapshots, recovery.

Answers: the journal's records (`_records`) and snapshots (`_snapshot`), where and when they are written (`_store`),
how the next head is restored from them (`_head`, `_clients`, `_clock`, `_storage`), and how a head is a program of
its own (`_daemon`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.head.durable._clients import DurableClients
    from grainlike.head.durable._daemon import HeadDaemon
    from grainlike.head.durable._head import DurableHead
    from grainlike.head.durable._snapshot import began_here
    from grainlike.head.durable._store import HeadStore, exported

__all__ = [
    "DurableClients",
    "DurableHead",
    "HeadDaemon",
    "HeadStore",
    "began_here",
    "exported",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "DurableClients": "_clients",
            "DurableHead": "_head",
            "HeadDaemon": "_daemon",
            "HeadStore": "_store",
            "began_here": "_snapshot",
            "exported": "_store",
        },
    )
