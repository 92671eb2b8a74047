"""Ends of links: closed, cancelled or broken, the far end hears of it, and nothing is written behind that."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from limits import LIMIT_S
from link_pairs import Inbox, one_link, pair

from grainlike.errors import ProtocolError
from grainlike.net import (
    StreamLink,
    adopt,
    memory_pair,
)
from grainlike.net._writes import CHUNK
from grainlike.wire import Beat, Frame, encode_frame

pytestmark = pytest.mark.anyio


async def test_the_far_end_of_a_closed_link_returns_and_says_why(kind: str) -> None:
    near, far = await pair(kind)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        tasks.start_soon(far.run, Inbox())
        await anyio.wait_all_tasks_blocked()
        near.close()
        near.close("too late")
    assert near.reason == "closed here"
    assert far.reason == "closed by the peer"
    assert near.closed
    assert far.closed


async def test_what_was_drained_before_close_arrives(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox(want=50)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        for number in range(50):
            near.post(Beat(number), [b"x" * 100_000])
        tasks.start_soon(far.run, inbox)
        assert await near.drain()
        near.close()
    assert inbox.numbers == list(range(50))


@pytest.mark.parametrize("size", [50_000, 64 * CHUNK])
async def test_drain_gives_up_on_a_peer_that_does_not_read(socket_kind: str, size: int) -> None:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    link = await one_link(socket_kind, ours)
    with theirs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run, Inbox())
            link.post(Beat(1), [bytes(size)])
            assert not await link.drain(0.05)
            link.close()


async def test_drain_ends_with_the_link(socket_kind: str) -> None:
    near, far = await pair(socket_kind)
    drained: list[bool] = []

    async def drain() -> None:
        drained.append(await near.drain())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        near.post(Beat(1), [bytes(64 * CHUNK)])
        tasks.start_soon(drain)
        await anyio.wait_all_tasks_blocked()
        await far.aclose()
    assert drained == [False]
    assert near.closed


async def test_cancelling_a_half_written_send_closes_the_link(socket_kind: str) -> None:
    near, far = await pair(socket_kind)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        near.post(Beat(1), [bytes(64 * CHUNK)])
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert near.closed
    inbox = Inbox()
    await far.run(inbox)
    assert inbox.frames == []
    assert far.closed


async def test_cancelling_run_closes_the_link(kind: str) -> None:
    near, far = await pair(kind)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert near.closed
    await far.run(Inbox())
    assert far.reason == "closed by the peer"


async def test_a_closed_link_takes_posts_in_silence_and_returns_at_once(kind: str) -> None:
    near, far = await pair(kind)
    near.close("enough")
    near.post(Beat(1))
    await near.run(Inbox())
    assert near.reason == "enough"
    assert not await near.drain()
    inbox = Inbox()
    await far.run(inbox)
    assert inbox.frames == []


async def test_a_link_that_never_ran_can_be_closed(kind: str) -> None:
    near, far = await pair(kind)
    await near.aclose()
    await near.aclose()
    await far.run(Inbox())
    assert far.reason == "closed by the peer"


async def test_the_callback_may_close(kind: str) -> None:
    near, far = await pair(kind)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, lambda frames: near.close("said so"))
        far.post(Beat(1))
        tasks.start_soon(far.run, Inbox())
    assert near.reason == "said so"


@pytest.mark.parametrize("error", [LookupError, ConnectionError, anyio.EndOfStream])
async def test_what_the_callback_raises_leaves_run_bare_and_closes(kind: str, error: type[Exception]) -> None:
    near, far = await pair(kind)

    def fail(frames: list[Frame]) -> None:
        raise error("the callback's own")

    far.post(Beat(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(far.run, Inbox())
        with pytest.raises(error, match="the callback's own"):
            await near.run(fail)
    assert near.closed
    assert far.reason == "closed by the peer"


class Interrupt(BaseException):
    """As `KeyboardInterrupt`, which pytest would take for its own."""


async def test_an_interrupt_in_a_callback_of_a_memory_link_ends_it() -> None:
    # What was left of its frames is lost: a link that went on would keep their receivers waiting for ever.
    def interrupted(_: list[Frame]) -> None:
        raise Interrupt

    near, far = memory_pair()
    near.post(Beat(1))
    with anyio.fail_after(LIMIT_S), pytest.raises(Interrupt):
        await far.run(interrupted)
    assert far.closed
    await near.run(Inbox())
    assert near.reason == "closed by the peer"


async def test_garbage_is_a_protocol_error(socket_kind: str) -> None:
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    with theirs:
        theirs.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises(ProtocolError):
            await link.run(Inbox())
    assert "protocol error" in (link.reason or "")


async def test_a_peer_that_dies_inside_a_frame_is_a_loss_and_no_error(socket_kind: str) -> None:
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    whole = b"".join(encode_frame(Beat(5)))
    theirs.sendall(whole + whole[:-1])
    theirs.close()
    inbox = Inbox()
    await link.run(inbox)
    assert inbox.numbers == [5]
    assert link.reason == "closed by the peer inside a frame"


@pytest.mark.parametrize("wrap", [adopt, pytest.param(None, id="stream")])
async def test_a_reset_connection_is_a_loss_and_no_error(wrap: Callable[..., Any] | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    link = await adopt(ours) if wrap else StreamLink(await anyio.abc.SocketStream.from_socket(ours), "test")
    # A linger of zero makes close send RST.
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    await link.run(Inbox())
    assert "connection lost" in (link.reason or "")
    assert "reset" in (link.reason or "")


async def test_a_link_that_breaks_inside_a_large_frame_writes_no_more_and_complains_of_nothing(
    socket_kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    link.trust()
    theirs.close()
    link.post(Beat(0), [bytes(8 * CHUNK)])
    await link.run(Inbox())
    assert link.closed
    assert caplog.messages == []


class BreaksBehindOneWrite(socket.socket):
    """Takes nothing at first, then one write, behind which it is broken."""

    full = True

    def send(self, data: Any, flags: int = 0, /) -> int:
        if self.full:
            self.full = False
            raise BlockingIOError
        sent = super().send(data, flags)
        self.shutdown(socket.SHUT_WR)
        return sent


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_link_that_breaks_as_its_socket_has_room_again_ends_once(anyio_backend: str) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    ours, theirs = socket.socketpair()
    with theirs:
        sock = BreaksBehindOneWrite(fileno=ours.detach())
        sock.setblocking(False)
        near = await adopt(sock)
        near.trust()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(near.run, Inbox())
            near.post(Beat(1))
            await anyio.lowlevel.checkpoint()
            near.post(Beat(2), [b"x" * (CHUNK + 1)])  # waits in the link, behind what waits in the transport
    assert near.closed
    assert "Broken pipe" in str(near.reason)
    assert not complaints
