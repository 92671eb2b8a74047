"""Every link keeps the same promises, whatever carries it: memory, an event loop's own transport, or a stream."""

import asyncio
import functools
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike.errors import ProtocolError
from grainlike.net import (
    ByteLink,
    Link,
    ProtocolLink,
    StreamLink,
    Tls,
    TlsSession,
    adopt,
    client_tls,
    make_credentials,
    memory_pair,
    server_tls,
    shake_hands,
)
from grainlike.net._writes import CHUNK
from grainlike.wire import FROM_WORKER, Beat, Frame, Goodbye, encode_frame

pytestmark = pytest.mark.anyio

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


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SOCKETS)
def socket_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_what_is_posted_in_one_turn_arrives_in_order_and_in_one_batch(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox(want=100)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        tasks.start_soon(far.run, inbox)
        for number in range(100):
            near.post(Beat(number))
        await inbox.full.wait()
        near.close()
    assert inbox.numbers == list(range(100))
    assert len(inbox.batches) == 1


async def test_nothing_is_delivered_inside_post(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        tasks.start_soon(far.run, inbox)
        await anyio.wait_all_tasks_blocked()
        near.post(Beat(1))
        assert inbox.frames == []
        await inbox.full.wait()
        near.close()


async def test_what_was_posted_before_run_is_not_lost(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox()
    near.post(Beat(7))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(far.run, inbox)
        await inbox.full.wait()
        near.close()
    assert inbox.numbers == [7]


async def test_large_buffers_cross_both_ways_at_once(kind: str) -> None:
    near, far = await pair(kind)
    data = [bytes([n]) * (12 * CHUNK + n) for n in range(3)]
    here, there = Inbox(), Inbox()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, here)
        tasks.start_soon(far.run, there)
        near.post(Beat(1), data)
        far.post(Beat(2), data)
        await here.full.wait()
        await there.full.wait()
        near.close()
    for inbox in (here, there):
        assert [bytes(buffer) for buffer in inbox.frames[0].buffers] == data


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_what_is_interjected_passes_what_is_large_and_nothing_else(kind: str) -> None:
    near, far = await pair(kind)
    assert isinstance(near, ByteLink)
    assert isinstance(far, ByteLink)
    inbox = Inbox(want=6)
    large = bytes(range(256)) * 4096 * 20
    async with anyio.create_task_group() as tasks:
        near.post(Beat(1))
        near.interject(Beat(2))
        near.post(Beat(3), [large])
        near.post(Beat(4))
        tasks.start_soon(near.run, Inbox())
        await anyio.wait_all_tasks_blocked()  # the socket is full, of what is not read yet
        near.interject(Beat(5))
        near.interject(Beat(6))
        tasks.start_soon(far.run, inbox)
        await inbox.full.wait()
        near.close()
    assert inbox.numbers == [1, 2, 5, 6, 3, 4]
    assert bytes(inbox.frames[4].buffers[0]) == large


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


async def test_a_link_tells_what_waits_and_whether_it_leaves(socket_kind: str) -> None:
    near, far = await pair(socket_kind)
    assert (near.waiting(), near.stands_still()) == (0, False)
    inbox = Inbox(want=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        near.post(Beat(1), [bytes(64 * CHUNK)])
        assert near.waiting() >= 64 * CHUNK
        await anyio.wait_all_tasks_blocked()
        near.stands_still()
        assert near.stands_still(), "nobody reads"
        near.post(Beat(2), [bytes(64 * CHUNK)])
        assert near.waiting() >= 64 * CHUNK
        tasks.start_soon(far.run, inbox)
        await inbox.full.wait()
        assert not near.stands_still(), "some has left since"
        assert await near.drain()
        assert (near.waiting(), near.stands_still()) == (0, False)
        near.close()


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


async def test_the_callback_may_answer(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox(want=3)

    def ask_again(frames: list[Frame]) -> None:
        inbox(frames)
        near.post(Beat(len(inbox.frames)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, ask_again)
        tasks.start_soon(far.run, lambda frames: [far.post(*frame) for frame in frames])
        near.post(Beat(0))
        await inbox.full.wait()
        near.close()
    assert inbox.numbers == [0, 1, 2]


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


async def test_a_link_runs_only_once(kind: str) -> None:
    near, far = await pair(kind)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="only once"):
            await near.run(Inbox())
        assert not near.closed
        near.close()
    await far.aclose()


async def test_garbage_is_a_protocol_error(socket_kind: str) -> None:
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    with theirs:
        theirs.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises(ProtocolError):
            await link.run(Inbox())
    assert "protocol error" in (link.reason or "")


async def test_a_stranger_may_not_send_buffers_until_it_is_trusted(socket_kind: str) -> None:
    for trusted in (False, True):
        ours, theirs = socket.socketpair()
        link = await one_link(socket_kind, ours)
        with theirs:
            theirs.sendall(b"".join(encode_frame(Beat(1), [b"buffer"])))
            inbox = Inbox()
            if trusted:
                link.trust()
                theirs.close()
                await link.run(inbox)
                assert inbox.numbers == [1]
            else:
                with pytest.raises(ProtocolError, match="over the limit"):
                    await link.run(inbox)
                assert inbox.frames == []


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


async def test_a_link_knows_the_host_at_its_other_end(kind: str) -> None:
    near, far = await pair(kind)
    assert (near.host, far.host) == ("localhost", "localhost")
    await near.aclose()
    await far.aclose()
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    link = await adopt(ours)
    assert link.host == "127.0.0.1"
    await link.aclose()
    theirs.close()


async def test_frames_that_arrive_in_one_read_are_one_call(socket_kind: str) -> None:
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    inbox = Inbox()
    with theirs:
        theirs.sendall(b"".join(piece for n in range(20) for piece in encode_frame(Beat(n))))
    await link.run(inbox)
    assert [len(batch) for batch in inbox.batches] == [20]


async def test_the_repr_names_the_peer_and_the_end(kind: str) -> None:
    near, far = await pair(kind)
    assert near.peer in repr(near)
    await near.aclose()
    assert "closed here" in repr(near)
    await far.aclose()


class RecordingStream(anyio.abc.ByteStream):
    """A stream that remembers what was sent, and from which nothing comes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._over = anyio.Event()

    async def send(self, item: bytes) -> None:
        self.sent.append(bytes(item))

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await self._over.wait()
        raise anyio.EndOfStream

    async def send_eof(self) -> None:
        self._over.set()

    async def aclose(self) -> None:
        self._over.set()


async def test_what_is_posted_in_one_turn_leaves_in_one_write() -> None:
    stream = RecordingStream()
    link = StreamLink(stream, "test")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run, Inbox())
        await anyio.wait_all_tasks_blocked()
        for number in range(3):
            link.post(Beat(number))
        assert await link.drain()
        link.post(Beat(3))
        assert await link.drain()
        link.close()
    frames = [b"".join(encode_frame(Beat(number))) for number in range(4)]
    assert stream.sent == [b"".join(frames[:3]), frames[3]]


class RecordingTransport(asyncio.Transport):
    """A transport that remembers what was written; it never fills."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_an_asyncio_link_writes_once_in_a_turn_and_answers_in_the_turn_of_the_question() -> None:
    transport = RecordingTransport()
    link = ProtocolLink("test")
    link.connection_made(transport)
    for number in range(3):
        link.post(Beat(number))
    assert transport.written == []
    assert await link.drain()
    frames = [b"".join(encode_frame(Beat(number))) for number in range(4)]
    assert transport.written == [b"".join(frames[:3])]

    link._on_frames = lambda heard: [link.post(*frame) for frame in heard]
    link.get_buffer(-1)[: len(frames[3])] = frames[3]
    link.buffer_updated(len(frames[3]))
    assert transport.written[1:] == [frames[3]]


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


async def test_a_trusted_peer_may_send_what_is_allowed_to_such_as_it_is(socket_kind: str) -> None:
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    link.trust(FROM_WORKER)
    theirs.setblocking(False)
    with theirs:
        theirs.send(encode_frame(Goodbye("z" * FROM_WORKER.header))[0][:1000])
        with anyio.fail_after(LIMIT_S), pytest.raises(ProtocolError, match=f"over the limit of {FROM_WORKER.header}"):
            await link.run(Inbox())


async def test_a_link_tells_whether_more_of_a_large_frame_comes(socket_kind: str) -> None:
    """Beats wait behind it: without this, whoever sends one over a slow line would be taken for dead."""
    ours, theirs = socket.socketpair()
    link = await one_link(socket_kind, ours)
    link.trust()
    small, large = (b"".join(map(bytes, encode_frame(Beat(n), [bytes(n)]))) for n in (1, 3000))
    inbox = Inbox()

    async def seen() -> bool:
        """Whether it told so at last; it is asked in each turn until what was sent must have come."""
        for _ in range(200):
            if link.still_comes():
                return True
            await anyio.lowlevel.checkpoint()
        return False

    with theirs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run, inbox)
            theirs.sendall(small)
            await inbox.full.wait()
            assert not link.still_comes()
            for part in (large[:1000], large[1000:2000]):
                theirs.sendall(part)
                assert await seen()
                assert not link.still_comes()
            theirs.sendall(large[2000:])
            while len(inbox.frames) < 2:
                await anyio.lowlevel.checkpoint()
            assert not link.still_comes()
            link.close()


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
