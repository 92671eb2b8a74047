"""Connection of a worker or client to a head; it survives the link over which it was made."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from grainlike.net import ByteLink, Link, ResumableSession
from grainlike.wire import Buffer, Hello, Message

__all__ = ["Connection"]


class Connection:
    """Remote end that was admitted at the moment `now`, as described by `hello`, over `link`."""

    def __init__(self, number: int, name: str, link: Link, hello: Hello, now: float) -> None:
        self.number = number
        self.name = name
        self.link = link
        self.hello = hello
        self.session = ResumableSession(link) if isinstance(link, ByteLink) and hello.received >= 0 else None
        """Resumable session; None where a link that breaks is the end."""
        self.taken_over = anyio.Event()
        """Set when the remote end has reconnected; replaced by a new event then."""
        self.heard = now

    @property
    def over(self) -> bool:
        """True if the remote end has said goodbye."""
        return self.session is not None and self.session.over is not None

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message; what a broken link swallows goes with the next one, or it is lost."""
        if self.session is None:
            self.link.post(message, buffers)
        else:
            self.session.post(message, buffers)

    def go_on(self, link: ByteLink, received: int) -> None:
        """Resume over another link, after a `Welcome`: the session can, as not too much was unacknowledged."""
        assert self.session is not None
        self.session.go_on(link, received)
        self.link, old = link, self.link
        old.close("it has dialled anew")
        self.taken_over.set()
        self.taken_over = anyio.Event()
