"""Doors: who may come in, what a door survives, and what it leaves behind."""

import errno
import functools
import logging
import os
import socket
import sys
from pathlib import Path

import anyio
import anyio.abc
import pytest
from limits import LIMIT_S

from grainlike.errors import AuthenticationError, HeadLostError, ProtocolError
from grainlike.net import (
    Access,
    Link,
    TcpAddress,
    Tls,
    UnixAddress,
    client_tls,
    connect,
    dial,
    listen,
    make_credentials,
    parse_address,
    server_tls,
)
from grainlike.net._dial import _follow
from grainlike.net._guard import keep_watch
from grainlike.net._listener import RateLimitedLog
from grainlike.net._steps import _reach
from grainlike.wire import Beat, Frame

pytestmark = pytest.mark.anyio


@pytest.fixture
def unix(tmp_path: Path) -> UnixAddress:
    return UnixAddress(tmp_path / "private" / "head.sock")


@pytest.fixture(params=["unix", "tcp", "tcp6"])
def address(request: pytest.FixtureRequest, unix: UnixAddress) -> str:
    return {"unix": str(unix), "tcp": "tcp://localhost:0", "tcp6": "tcp://[::1]:0"}[request.param]


async def echo(link: Link) -> None:
    await link.run(lambda frames: [link.post(*frame) for frame in frames])


async def ask(address: object, number: int = 1) -> list[Frame]:
    """Say one thing, and return what came back."""
    link = await connect(parse_address(str(address)), LIMIT_S)
    answers: list[Frame] = []

    def take(frames: list[Frame]) -> None:
        answers.extend(frames)
        link.close()

    link.post(Beat(number))
    await link.run(take)
    return answers


async def test_what_goes_in_comes_back(address: str) -> None:
    async with anyio.create_task_group() as tasks:
        with listen(address) as listener:
            tasks.start_soon(listener.serve, echo)
            assert [frame.message for frame in await ask(listener.address, 42)] == [Beat(42)]


async def test_port_zero_becomes_the_real_port() -> None:
    with listen("tcp://127.0.0.1:0") as listener:
        assert isinstance(listener.address, TcpAddress)
        assert listener.address.port > 0
        with pytest.raises(OSError, match=f"cannot listen at {listener.address}: Address already in use") as caught:
            listen(listener.address)
        assert caught.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:0", "tcp://10.1.2.3:1", "tcp://example.org:1", "tcp://[::]:0"])
async def test_tcp_beyond_loopback_without_tls_is_refused_on_both_sides(address: str) -> None:
    with pytest.raises(PermissionError, match="nothing goes without TLS"):
        listen(address)
    with pytest.raises(PermissionError, match="nothing goes without TLS"):
        await connect(address)


async def test_a_unix_socket_is_private_and_gone_when_closed(unix: UnixAddress) -> None:
    previous = os.umask(0)
    try:
        listener = listen(unix)
    finally:
        os.umask(previous)
    assert unix.path.stat().st_mode & 0o777 == 0o600
    assert unix.path.parent.stat().st_mode & 0o777 == 0o700
    listener.close()
    listener.close()
    assert not unix.path.exists()


@pytest.mark.parametrize("bits", [0o750, 0o720, 0o705])
async def test_a_directory_open_to_others_is_refused(tmp_path: Path, bits: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(bits)
    with pytest.raises(PermissionError, match=f"chmod 700 {folder}"):
        listen(f"unix://{folder}/head.sock")


async def test_nobody_is_told_to_close_a_directory_of_all_users(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(PermissionError, match=f"choose a directory of your own in it, such as {folder}/mine") as caught:
        listen(f"unix://{folder}/head.sock")
    assert "chmod" not in str(caught.value)


async def test_a_stale_socket_is_replaced(unix: UnixAddress) -> None:
    unix.path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(unix.path))
    async with anyio.create_task_group() as tasks:
        with listen(unix) as listener:
            tasks.start_soon(listener.serve, echo)
            assert await ask(unix)


async def test_a_living_socket_is_not_replaced(unix: UnixAddress) -> None:
    async with anyio.create_task_group() as tasks:
        with listen(unix) as listener:
            with pytest.raises(OSError, match=f"cannot listen at {unix}: another process listens there"):
                listen(unix)
            tasks.start_soon(listener.serve, echo)
            assert await ask(unix)


async def test_a_file_that_is_no_socket_is_left_alone(unix: UnixAddress) -> None:
    unix.path.parent.mkdir(mode=0o700)
    unix.path.write_text("precious")
    with pytest.raises(FileExistsError, match="no socket"):
        listen(unix)
    assert unix.path.read_text() == "precious"


async def test_closing_leaves_another_listeners_file_alone(unix: UnixAddress) -> None:
    older = listen(unix)
    unix.path.unlink()
    with listen(unix):
        older.close()
        assert unix.path.exists()


@pytest.mark.parametrize("address", ["unix:///nowhere/at.all", "tcp://127.0.0.1:1"])
async def test_nobody_listening_is_said_with_the_address(address: str) -> None:
    with pytest.raises(ConnectionError, match=f"nobody listens at {address}: "):
        await connect(address)


async def test_where_no_address_answers_the_error_says_what_each_did(unix: UnixAddress) -> None:
    access = Access("c1", "worker", (parse_address("tcp://127.0.0.1:1"), unix))
    with pytest.raises(HeadLostError) as caught:
        await dial(access, insecure=True)
    assert "nobody listens at tcp://127.0.0.1:1" in str(caught.value)
    assert f"nobody listens at {unix}" in str(caught.value)


async def test_a_door_that_never_opens_is_given_up(unix: UnixAddress) -> None:
    unix.path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(unix.path))
        busy.listen(0)
        first.connect(str(unix.path))
        with pytest.raises(ConnectionError, match=f"no answer from {unix} within 0.05 s"):
            await connect(unix, 0.05)


async def test_a_connection_to_oneself_is_nobody_listening() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await _follow(_reach(sock, sock.getsockname()))


@pytest.mark.parametrize(
    ("error", "level"),
    [(LookupError("the handler's own"), logging.ERROR), (ProtocolError("the peer's fault"), logging.WARNING)],
    ids=["bug", "peer"],
)
async def test_a_listener_survives_its_handlers_and_logs_once(
    address: str, error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[Link] = []

    async def fail_first(link: Link) -> None:
        if not failed:  # a record comes only after the link is closed, when the next may be here
            failed.append(link)
            raise error
        await echo(link)

    async with anyio.create_task_group() as tasks:
        with listen(address) as listener:
            tasks.start_soon(listener.serve, fail_first)
            assert await ask(listener.address) == []
            assert await ask(listener.address)
    (record,) = caplog.records
    assert record.levelno == level
    assert str(error) in caplog.text


async def test_closing_takes_no_more_and_waits_for_those_inside(address: str) -> None:
    inside, leave, returned = anyio.Event(), anyio.Event(), anyio.Event()

    async def linger(link: Link) -> None:
        inside.set()
        await leave.wait()

    async def serve() -> None:
        await listener.serve(linger)
        returned.set()

    async with anyio.create_task_group() as tasks:
        listener = listen(address)
        tasks.start_soon(serve)
        link = await connect(listener.address)
        await inside.wait()
        listener.close()
        with pytest.raises(ConnectionError):
            await connect(listener.address)
        await anyio.wait_all_tasks_blocked()
        assert not returned.is_set()
        leave.set()
        await returned.wait()
        await link.aclose()


async def test_cancelling_serve_ends_its_connections(address: str) -> None:
    async with anyio.create_task_group() as tasks:
        listener = listen(address)
        tasks.start_soon(listener.serve, echo)
        link = await connect(listener.address)
        link.post(Beat(1))
        # The answer shows that the handler runs; then everything on that side is cancelled.
        await link.run(lambda frames: tasks.cancel_scope.cancel())
    with pytest.raises(ConnectionError):
        await connect(listener.address)


async def test_a_handler_that_returns_closes_its_link(address: str) -> None:
    async def leave(link: Link) -> None:
        pass

    async with anyio.create_task_group() as tasks:
        with listen(address) as listener:
            tasks.start_soon(listener.serve, leave)
            link = await connect(listener.address)
            await link.run(lambda frames: None)
            assert link.reason == "closed by the peer"


async def test_another_users_process_is_turned_away(
    unix: UnixAddress, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ours = os.geteuid()
    async with anyio.create_task_group() as tasks:
        with listen(unix) as listener:
            dialled = await connect(unix)
            monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
            with pytest.raises(AuthenticationError, match=f"belongs to user id {ours}, not to us"):
                await connect(unix)
            tasks.start_soon(listener.serve, echo)
            await dialled.run(lambda frames: None)
            assert dialled.closed
    assert f"belongs to user id {ours}, not to us" in caplog.text


async def test_the_oldest_stranger_makes_room_and_nobody_who_is_trusted(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("grainlike.net._pending._MOST", 2)
    monkeypatch.setattr("grainlike.net._pending._PATIENCE_S", 0.0)
    inside: list[Link] = []

    arrived = anyio.Event()

    async def keep(link: Link) -> None:
        inside.append(link)
        arrived.set()
        await echo(link)

    async with anyio.create_task_group() as tasks:
        with listen(address) as listener:
            tasks.start_soon(listener.serve, keep)
            links = []
            for number in range(5):
                links.append(await connect(listener.address))
                await arrived.wait()
                arrived = anyio.Event()
                if number == 0:
                    inside[0].trust()
            assert [link.closed for link in inside] == [False, True, True, False, False]
            assert await ask(listener.address)
            for link in links:
                await link.aclose()
    assert caplog.text.count("have yet to say who they are") == 1


async def test_complaints_are_said_while_they_are_few_and_counted_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    monkeypatch.setattr("grainlike.net._listener.time.monotonic", lambda: now[0])
    complaints = RateLimitedLog(logging.getLogger("grainlike.net"))
    with caplog.at_level(logging.DEBUG):
        for number in range(1000):
            complaints.say("number %d", number)
        warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert warned == [
            *(f"number {n}" for n in range(20)),
            "for a minute, more of these are told at level debug alone",
        ]
        assert len(caplog.records) == 1001
        caplog.clear()
        now[0] += 60
        complaints.say("later")
    assert [record.getMessage() for record in caplog.records] == [
        "980 more connections ended like those before",
        "later",
    ]


class Starved(socket.socket):
    """A listening socket in a process that is out of file descriptors for a while."""

    left = 2
    code = errno.EMFILE

    def accept(self) -> tuple[socket.socket, object]:
        if self.left:
            self.left -= 1
            raise OSError(self.code, os.strerror(self.code))
        return super().accept()


async def test_out_of_descriptors_accepting_pauses_and_recovers(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("grainlike.net._accept_errors._SHORTAGE_PAUSE_S", 0)
    listener = listen(address)
    listener._socket = Starved(fileno=listener._socket.detach())
    async with anyio.create_task_group() as tasks:
        with listener:
            tasks.start_soon(listener.serve, echo)
            assert await ask(listener.address)
    assert [record.message for record in caplog.records] == [
        f"{listener.address} takes no connections for now: Too many open files"
    ]


# --- TLS ---


@functools.cache
def sides() -> tuple[Tls, Tls]:
    """The head's side of TLS and a worker's."""
    credentials = make_credentials("c1")
    return server_tls("c1", credentials["head"]), client_tls("c1", credentials["worker"])


async def test_over_tls_a_silent_crowd_makes_room_for_one_who_knows_what_to_say(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("grainlike.net._pending._MOST", 8)
    monkeypatch.setattr("grainlike.net._pending._PATIENCE_S", 0.05)
    server, client = sides()
    async with anyio.create_task_group() as tasks:
        with listen("tcp://127.0.0.1:0", tls=server) as listener:
            tasks.start_soon(listener.serve, echo)
            assert isinstance(listener.address, TcpAddress)
            crowd = [socket.create_connection(("127.0.0.1", listener.address.port)) for _ in range(20)]
            link = await connect(listener.address, tls=client)
            answers: list[Frame] = []
            link.post(Beat(3))
            await link.run(lambda frames: (answers.extend(frames), link.close()))
            assert [frame.message for frame in answers] == [Beat(3)]
            for sock in crowd:
                sock.close()
            tasks.cancel_scope.cancel()
    assert caplog.text.count("have yet to say who they are") == 1


async def test_many_honest_ones_at_once_are_all_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("grainlike.net._pending._MOST", 4)
    monkeypatch.setattr("grainlike.net._pending._PATIENCE_S", LIMIT_S)
    monkeypatch.setattr("grainlike.net._pending._LOOK_S", 0.001)
    server, client = sides()
    served: list[int] = []

    async def trust_and_echo(link: Link) -> None:
        link.trust()
        await echo(link)

    async def visit(number: int) -> None:
        link = await connect(listener.address, LIMIT_S, tls=client)
        link.post(Beat(number))
        await link.run(lambda frames: (served.append(number), link.close()))

    async with anyio.create_task_group() as tasks:
        with listen("tcp://127.0.0.1:0", tls=server) as listener:
            tasks.start_soon(listener.serve, trust_and_echo)
            async with anyio.create_task_group() as visits:
                for number in range(40):
                    visits.start_soon(visit, number)
            tasks.cancel_scope.cancel()
    assert sorted(served) == list(range(40))
    assert caplog.records == []


async def test_a_tls_handshake_has_its_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("grainlike.net._listener._HANDSHAKE_S", 0.05)
    async with anyio.create_task_group() as tasks:
        with listen("tcp://127.0.0.1:0", tls=sides()[0]) as listener:
            tasks.start_soon(listener.serve, echo)
            link = await connect(listener.address)  # plain, and silent
            await link.run(lambda frames: None)
            assert link.reason == "closed by the peer"
    assert "no TLS handshake within 0.05 s" in caplog.text


async def test_a_listener_that_is_not_the_head_is_not_believed() -> None:
    other = make_credentials("c1")
    async with anyio.create_task_group() as tasks:
        with listen("tcp://127.0.0.1:0", tls=server_tls("c1", other["head"])) as listener:
            tasks.start_soon(listener.serve, echo)
            with pytest.raises(AuthenticationError, match=f"{listener.address}: .*certificate does not hold"):
                await connect(listener.address, tls=sides()[1])


async def test_a_listener_without_tls_is_not_believed() -> None:
    async with anyio.create_task_group() as tasks:
        with listen("tcp://127.0.0.1:0") as listener:
            tasks.start_soon(listener.serve, echo)
            with pytest.raises((AuthenticationError, ConnectionError), match=str(listener.address)):
                await connect(listener.address, tls=sides()[1])


async def test_the_kernel_keeps_watch_over_tcp_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[socket.socket] = []

    def watch(sock: socket.socket) -> None:
        keep_watch(sock)
        watched.append(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        if sys.platform == "linux":
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 30

    monkeypatch.setattr("grainlike.net._steps.keep_watch", watch)
    monkeypatch.setattr("grainlike.net._listener.keep_watch", watch)
    async with anyio.create_task_group() as tasks:
        with listen("tcp://127.0.0.1:0") as listener:
            tasks.start_soon(listener.serve, echo)
            assert await ask(listener.address)
    assert len(watched) == 2


async def test_a_connection_that_broke_while_it_waited_leaves_the_door_open(address: str) -> None:
    listener = listen(address)
    listener._socket = Starved(fileno=listener._socket.detach())
    listener._socket.code = errno.ENETDOWN
    async with anyio.create_task_group() as tasks:
        with listener:
            tasks.start_soon(listener.serve, echo)
            assert await ask(listener.address)
