"""Limit of unauthenticated connections: how many there may be, and which of them makes room for the next."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import anyio

from grainlike.net._address import Address
from grainlike.net._link import Link

__all__ = ["Crowd", "Stranger"]

logger = logging.getLogger("grainlike.net")

_MOST = 256
"""Most unauthenticated connections."""

_PATIENCE_S = 1.0
"""Seconds before a connection may be evicted: enough for an honest handshake when all others shake hands as well."""

_LOOK_S = 0.02


@dataclass(eq=False, slots=True)
class Stranger:
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


class Crowd:
    """Unauthenticated connections of one listener.

    When there are too many, the next waits until one is authenticated, or closed, or has had its time: the one that
    has tried for longest is evicted then. So many silent connections cannot keep out one that needs a few
    milliseconds, and many honest ones that come at once are all served.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._strangers: list[Stranger] = []
        self._told = False

    async def room(self) -> None:
        """Wait until one more may come in."""
        while not self._make_room():  # noqa: ASYNC110 - time makes room, too
            await anyio.sleep(_LOOK_S)

    def enter(self) -> Stranger:
        """Register a new connection."""
        stranger = Stranger()
        self._strangers.append(stranger)
        return stranger

    def leave(self, stranger: Stranger) -> None:
        """Remove a connection."""
        if stranger in self._strangers:
            self._strangers.remove(stranger)

    def _make_room(self) -> bool:
        self._strangers = [stranger for stranger in self._strangers if stranger.remains]
        if len(self._strangers) < _MOST:
            self._told = self._told and len(self._strangers) > _MOST // 2
            return True
        if anyio.current_time() - self._strangers[0].since < _PATIENCE_S:
            return False
        self._strangers.pop(0).push_out()
        if not self._told:
            self._told = True
            logger.warning(
                "%s: %d connections have yet to say who they are; for more, the oldest are dropped",
                self._address,
                _MOST,
            )
        return True
