"""Doors: who may come in, what a door survives, and what it leaves behind."""

import errno
import logging
import os
import socket
from pathlib import Path

import anyio
import anyio.abc
import pytest

from grainlike.errors import AuthenticationError, ProtocolError
from grainlike.net import Link, TcpAddress, UnixAddress, connect, listen, parse_address
from grainlike.net._dial import _dial
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
    link = await connect(parse_address(str(address)), 5)
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
async def test_tcp_beyond_loopback_is_refused_on_both_sides(address: str) -> None:
    with pytest.raises(PermissionError, match="needs TLS, which this version does not have"):
        listen(address)
    with pytest.raises(PermissionError, match="needs TLS, which this version does not have"):
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
            await _dial(sock, sock.getsockname())


@pytest.mark.parametrize(
    ("error", "level"),
    [(LookupError("the handler's own"), logging.ERROR), (ProtocolError("the peer's fault"), logging.WARNING)],
    ids=["bug", "peer"],
)
async def test_a_listener_survives_its_handlers_and_logs_once(
    address: str, error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_first(link: Link) -> None:
        if not caplog.records:
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


async def test_strangers_are_counted_until_they_are_trusted(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("grainlike.net._listener._STRANGERS", 1)
    inside: list[Link] = []

    async def keep(link: Link) -> None:
        inside.append(link)
        await echo(link)

    async with anyio.create_task_group() as tasks:
        with listen(address) as listener:
            tasks.start_soon(listener.serve, keep)
            first = await connect(listener.address)
            await anyio.wait_all_tasks_blocked()
            assert await ask(listener.address) == []
            assert "have yet to say who they are" in caplog.text
            inside[0].trust()
            assert await ask(listener.address)
            await first.aclose()


class Starved(socket.socket):
    """A listening socket in a process that is out of file descriptors for a while."""

    left = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


async def test_out_of_descriptors_accepting_pauses_and_recovers(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("grainlike.net._listener._SHORTAGE_PAUSE_S", 0)
    listener = listen(address)
    listener._socket = Starved(fileno=listener._socket.detach())
    async with anyio.create_task_group() as tasks:
        with listener:
            tasks.start_soon(listener.serve, echo)
            assert await ask(listener.address)
    assert [record.message for record in caplog.records] == [
        f"{listener.address} takes no connections for now: Too many open files"
    ]
