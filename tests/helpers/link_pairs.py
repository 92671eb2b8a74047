"""Pairs of links, whatever carries them, and what arrives at one end."""

import functools
import socket
from dataclasses import dataclass, field

import anyio
import anyio.abc
import anyio.lowlevel

from grainlike.net import (
    Link,
    StreamLink,
    Tls,
    adopt,
    client_tls,
    make_credentials,
    memory_pair,
    server_tls,
    shake_hands,
)
from grainlike.wire import Beat, Frame

KINDS = ["memory", "adopted", "stream", "adopted over TLS", "stream over TLS"]
SOCKETS = ["adopted", "stream"]


@dataclass
class Inbox:
    """Collects batches, and says when `want` frames are there."""

    want: int = 1
    batches: list[list[Frame]] = field(default_factory=list)
    full: anyio.Event = field(default_factory=anyio.Event)

    def __call__(self, frames: list[Frame]) -> None:
        self.batches.append(frames)
        if len(self.frames) >= self.want:
            self.full.set()

    @property
    def frames(self) -> list[Frame]:
        return [frame for batch in self.batches for frame in batch]

    @property
    def numbers(self) -> list[int]:
        return [frame.message.number for frame in self.frames if isinstance(frame.message, Beat)]


async def one_link(kind: str, sock: socket.socket, tls: Tls | None = None) -> Link:
    sock.setblocking(False)
    session = None if tls is None else await shake_hands(sock, tls)
    if kind.startswith("adopted"):
        return await adopt(sock, tls=session)
    from anyio.abc import UNIXSocketStream

    return StreamLink(await UNIXSocketStream.from_socket(sock), "test", session)


@functools.cache
def sides() -> tuple[Tls, Tls]:
    """The head's side of TLS and a worker's."""
    credentials = make_credentials("c1")
    return server_tls("c1", credentials["head"]), client_tls("c1", credentials["worker"])


async def pair(kind: str) -> tuple[Link, Link]:
    links: dict[int, Link] = {}

    async def make(number: int, sock: socket.socket) -> None:
        links[number] = await one_link(kind, sock, sides()[number] if "TLS" in kind else None)

    if kind == "memory":
        near, far = memory_pair()
    else:
        async with anyio.create_task_group() as tasks:
            for number, sock in enumerate(socket.socketpair()):
                tasks.start_soon(make, number, sock)
        near, far = links[0], links[1]
    near.trust()
    far.trust()
    return near, far
