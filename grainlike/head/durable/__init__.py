"""A head that outlives its process: records of all that it was told, snapshots, recovery.

Answers: what is written down (`_records`, `_snapshot`), where and when (`_store`), how the next head is made of it
(`_head`, `_clients`, `_clock`), and how a journal is read by people (`_export`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.head.durable._clients import DurableGuests
    from grainlike.head.durable._export import exported
    from grainlike.head.durable._head import DurableHead
    from grainlike.head.durable._snapshot import began_here
    from grainlike.head.durable._store import Keeping

__all__ = [
    "DurableGuests",
    "DurableHead",
    "Keeping",
    "began_here",
    "exported",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "DurableGuests": "_clients",
            "DurableHead": "_head",
            "Keeping": "_store",
            "began_here": "_snapshot",
            "exported": "_export",
        },
    )
