"""Who has dialled in to a head, worker or client, and outlives the link that it came by."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from grainlike.net import ByteLink, Link, Session
from grainlike.wire import Buffer, Hello, Message

__all__ = ["Party"]


class Party:
    """One that was let in at the moment `now`, as `hello` says, over `link`."""

    def __init__(self, number: int, name: str, link: Link, hello: Hello, now: float) -> None:
        self.number = number
        self.name = name
        self.link = link
        self.hello = hello
        self.session = Session(link) if isinstance(link, ByteLink) and hello.received >= 0 else None
        """What outlives its link; None where a link that breaks is the end."""
        self.taken_over = anyio.Event()
        """Set, and made anew, when it has dialled anew."""
        self.heard = now

    @property
    def over(self) -> bool:
        """Whether it has said goodbye."""
        return self.session is not None and self.session.over is not None

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message; what a broken link swallows goes with the next one, or it is lost."""
        if self.session is None:
            self.link.post(message, buffers)
        else:
            self.session.post(message, buffers)

    def go_on(self, link: ByteLink, received: int) -> None:
        """Go on over another link, after a `Welcome`: its conversation can, for not too much was on the way."""
        assert self.session is not None
        self.session.go_on(link, received)
        self.link, old = link, self.link
        old.close("it has dialled anew")
        self.taken_over.set()
        self.taken_over = anyio.Event()
