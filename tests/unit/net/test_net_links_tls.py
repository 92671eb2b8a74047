"""Links over TLS, whatever carries them: roles, the first records, and altered ones."""

import socket
import ssl

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from limits import LIMIT_S
from link_pairs import Inbox, one_link, pair, sides

from grainlike.errors import ProtocolError
from grainlike.net import (
    Link,
    Tls,
    TlsSession,
)
from grainlike.wire import Beat, encode_frame

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("tls_kind", ["adopted over TLS", "stream over TLS"])
async def test_over_tls_both_ends_know_each_others_role(tls_kind: str) -> None:
    near, far = await pair(tls_kind)
    assert (near.role, far.role) == ("worker", "head")
    await near.aclose()
    await far.aclose()


async def shaken(kind: str, also: bytes = b"") -> tuple[Link, socket.socket, TlsSession]:
    """A link over TLS, and its far end by hand, which says `also` in one breath with the end of its handshake."""
    ours, theirs = socket.socketpair()
    links: list[Link] = []

    async def make() -> None:
        links.append(await one_link(kind, ours, sides()[0]))

    far = sides()[1].session()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        far.shake(b"")
        theirs.sendall(far.take_outgoing())
        await anyio.wait_readable(theirs)
        assert far.shake(theirs.recv(65536))
        theirs.sendall(far.take_outgoing() + (far.seal(also) if also else b""))
    return links[0], theirs, far


@pytest.mark.parametrize("tls_kind", ["adopted over TLS", "stream over TLS"])
async def test_what_comes_in_one_breath_with_the_handshake_is_heard(tls_kind: str) -> None:
    link, theirs, _ = await shaken(tls_kind, b"".join(map(bytes, encode_frame(Beat(9)))))
    inbox = Inbox()
    with theirs, anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run, inbox)
            await inbox.full.wait()
            link.close()
    assert inbox.numbers == [9]


@pytest.mark.parametrize("tls_kind", ["adopted over TLS", "stream over TLS"])
async def test_a_peer_that_says_goodbye_in_tls_has_closed(tls_kind: str) -> None:
    link, theirs, far = await shaken(tls_kind)
    with theirs:
        with pytest.raises(ssl.SSLWantReadError):  # it would wait for the same from us
            far._ssl.unwrap()
        theirs.sendall(far.take_outgoing())
        with anyio.fail_after(LIMIT_S):
            await link.run(Inbox())
    assert link.reason == "closed by the peer"


@pytest.mark.parametrize("tls_kind", ["adopted over TLS", "stream over TLS"])
async def test_a_record_that_was_altered_on_its_way_ends_the_link(tls_kind: str) -> None:
    ours, wire_near = socket.socketpair()
    wire_far, theirs = socket.socketpair()
    links: list[Link] = []

    async def received(sock: socket.socket) -> bytes:
        await anyio.wait_readable(sock)
        return sock.recv(65536)

    async def pump(one: socket.socket, other: socket.socket) -> None:
        one.setblocking(False)
        while data := await received(one):
            if altering:
                data = data[:-1] + bytes([data[-1] ^ 1])
            other.send(data)

    async def make(sock: socket.socket, tls: Tls) -> None:
        links.append(await one_link(tls_kind, sock, tls))

    altering = False
    inbox = Inbox()
    with wire_near, wire_far:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(pump, wire_near, wire_far)
            pumps.start_soon(pump, wire_far, wire_near)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(make, ours, sides()[0])
                tasks.start_soon(make, theirs, sides()[1])
            altering = True
            links[0].post(Beat(1))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(links[0].run, Inbox())
                with pytest.raises(ProtocolError, match=r"bad record mac|record layer failure"):
                    await links[1].run(inbox)
                tasks.cancel_scope.cancel()
            pumps.cancel_scope.cancel()
    assert inbox.frames == []
