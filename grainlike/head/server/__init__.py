"""Server side of a head: its endpoint, the handshake, clients and their queries, named sessions.

Answers: when all of that starts and stops (`_service`), where a head is reached (`_endpoint`), how connections are
admitted (`_accept`), what clients query and submit (`_clients`), and what is kept of sessions whose program has left
(`_sessions`, `_outcome_store`), or of the head itself (`_storage`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.head.server._accept import Acceptor
    from grainlike.head.server._client import ClientConnection
    from grainlike.head.server._clients import ClientRegistry
    from grainlike.head.server._endpoint import Endpoint, listened_at, open_durable_endpoint, open_endpoint
    from grainlike.head.server._outcome_store import OutcomeStore
    from grainlike.head.server._service import HeadOwner, HeadService
    from grainlike.head.server._storage import HeadStorage, NoStorage

__all__ = [
    "Acceptor",
    "ClientConnection",
    "ClientRegistry",
    "Endpoint",
    "HeadOwner",
    "HeadService",
    "HeadStorage",
    "NoStorage",
    "OutcomeStore",
    "listened_at",
    "open_durable_endpoint",
    "open_endpoint",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Acceptor": "_accept",
            "Endpoint": "_endpoint",
            "ClientConnection": "_client",
            "ClientRegistry": "_clients",
            "HeadOwner": "_service",
            "HeadService": "_service",
            "HeadStorage": "_storage",
            "NoStorage": "_storage",
            "OutcomeStore": "_outcome_store",
            "listened_at": "_endpoint",
            "open_endpoint": "_endpoint",
            "open_durable_endpoint": "_endpoint",
        },
    )
