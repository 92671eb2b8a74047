"""Limit of unauthenticated connections: how many there may be, and which of them makes room for the next."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import anyio

from grainlike.net._address import Address
from grainlike.net._link import Link

__all__ = ["PendingConnection", "PendingConnections"]

logger = logging.getLogger("grainlike.net")

_MOST = 256
"""Most unauthenticated connections."""

_PATIENCE_S = 1.0
"""Seconds before a connection may be evicted: enough for an honest handshake when all others shake hands as well."""

_LOOK_S = 0.02


@dataclass(eq=False, slots=True)
class PendingConnection:
    """Unauthenticated connection. `shaking` is the scope of its TLS handshake."""

    since: float = field(default_factory=anyio.current_time)
    shaking: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    link: Link | None = None
    pushed_out: bool = False

    @property
    def remains(self) -> bool:
        """True while it is unauthenticated and open."""
        return self.link is None or not (self.link.trusted or self.link.closed)

    def push_out(self) -> None:
        """Make it make room."""
        self.pushed_out = True
        self.shaking.cancel()
        if self.link is not None:
            self.link.close("others came, and it had yet to say who it is")


class PendingConnections:
    """Unauthenticated connections of one listener.

    When there are too many, the next waits until one is authenticated, or closed, or has had its time: the one that
    has tried for longest is evicted then. So many silent connections cannot keep out one that needs a few
    milliseconds, and many honest ones that come at once are all served.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._pending: list[PendingConnection] = []
        self._told = False

    async def room(self) -> None:
        """Wait until one more may come in."""
        while not self._make_room():  # noqa: ASYNC110 - time makes room, too
            await anyio.sleep(_LOOK_S)

    def enter(self) -> PendingConnection:
        """Register a new connection."""
        pending = PendingConnection()
        self._pending.append(pending)
        return pending

    def leave(self, pending: PendingConnection) -> None:
        """Remove a connection."""
        if pending in self._pending:
            self._pending.remove(pending)

    def _make_room(self) -> bool:
        self._pending = [pending for pending in self._pending if pending.remains]
        if len(self._pending) < _MOST:
            self._told = self._told and len(self._pending) > _MOST // 2
            return True
        if anyio.current_time() - self._pending[0].since < _PATIENCE_S:
            return False
        self._pending.pop(0).push_out()
        if not self._told:
            self._told = True
            logger.warning(
                "%s: %d connections have yet to say who they are; for more, the oldest are dropped",
                self._address,
                _MOST,
            )
        return True
