"""Server side of a head: its endpoint, the handshake, clients and their queries, named sessions.

Answers: where a head is reached (`_endpoint`), how connections are admitted (`_accept`), what clients query and
submit (`_clients`), and what is kept of sessions whose program has left (`_sessions`, `_outcome_store`).
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.head.server._accept import Door, software
    from grainlike.head.server._client import Guest
    from grainlike.head.server._clients import Guests
    from grainlike.head.server._endpoint import Entrance, open_entrance, open_lasting_entrance
    from grainlike.head.server._outcome_store import OutcomeStore
    from grainlike.head.server._sessions import MOST_NAMES
    from grainlike.head.server._trace_rows import drawn

__all__ = [
    "MOST_NAMES",
    "Door",
    "Entrance",
    "Guest",
    "Guests",
    "OutcomeStore",
    "drawn",
    "open_entrance",
    "open_lasting_entrance",
    "software",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Door": "_accept",
            "Entrance": "_endpoint",
            "Guest": "_client",
            "Guests": "_clients",
            "MOST_NAMES": "_sessions",
            "OutcomeStore": "_outcome_store",
            "drawn": "_trace_rows",
            "open_entrance": "_endpoint",
            "open_lasting_entrance": "_endpoint",
            "software": "_accept",
        },
    )
