"""Every link keeps the same promises, whatever carries it: memory, an event loop's own transport, or a stream."""

import asyncio
import socket
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from limits import LIMIT_S
from link_pairs import KINDS, Inbox, one_link, pair

from grainlike.errors import ProtocolError
from grainlike.net import (
    ByteLink,
    ProtocolLink,
    StreamLink,
    adopt,
)
from grainlike.net._writes import CHUNK
from grainlike.wire import FROM_WORKER, Beat, Frame, Goodbye, encode_frame

pytestmark = pytest.mark.anyio


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


async def test_what_is_enqueued_waits_for_a_flush_and_keeps_its_order(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox(want=3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        tasks.start_soon(far.run, inbox)
        await anyio.wait_all_tasks_blocked()
        await anyio.lowlevel.checkpoint()  # a link in memory looks for what came before it ran
        near.enqueue(Beat(1))
        near.enqueue(Beat(2))
        await anyio.wait_all_tasks_blocked()
        assert inbox.frames == []
        near.enqueue(Beat(3))
        near.flush()
        near.flush()
        await inbox.full.wait()
        near.close()
    assert inbox.numbers == [1, 2, 3]


async def test_what_is_enqueued_leaves_with_what_is_posted_behind_it(kind: str) -> None:
    near, far = await pair(kind)
    inbox = Inbox(want=2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        tasks.start_soon(far.run, inbox)
        near.enqueue(Beat(1))
        near.post(Beat(2))
        await inbox.full.wait()
        near.close()
    assert inbox.numbers == [1, 2]


@pytest.mark.asyncio
async def test_a_flush_of_a_memory_link_hands_over_at_once_but_not_into_the_midst_of_what_is_handed_over() -> None:
    near, far = await pair("memory")
    heard: list[object] = []

    def hear(frames: list[Frame]) -> None:
        heard.extend(frame.message for frame in frames)
        if len(heard) == 1:
            near.enqueue(Beat(2))
            near.flush()
            assert len(heard) == 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, Inbox())
        tasks.start_soon(far.run, hear)
        await anyio.wait_all_tasks_blocked()
        await anyio.lowlevel.checkpoint()
        near.enqueue(Beat(1))
        near.flush()
        assert heard == [Beat(1)]
        await anyio.wait_all_tasks_blocked()
        assert heard == [Beat(1), Beat(2)]
        near.close()


@pytest.mark.asyncio
async def test_a_flush_of_an_asyncio_link_writes_before_it_returns() -> None:
    one, other = socket.socketpair()
    other.setblocking(False)
    link = await one_link("adopted", one)
    with other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run, Inbox())
            await anyio.wait_all_tasks_blocked()
            link.enqueue(Beat(1))
            link.flush()
            assert other.recv(1024) == b"".join(encode_frame(Beat(1)))
            link.close()


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
