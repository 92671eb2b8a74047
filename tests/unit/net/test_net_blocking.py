"""A connection to a head without an event loop: a client of few queries."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import grainlike.client._blocking
import grainlike.net._blocking
from grainlike.client import BlockingClient, RefusedQueryError, call_blocking, completed
from grainlike.errors import AuthenticationError, HeadLostError, ProtocolError
from grainlike.net import Access, Address, BlockingConnection, TcpAddress, dial_blocking, parse_address, write_access
from grainlike.wire import (
    FROM_CLIENT,
    AskCancel,
    AskHead,
    AskLogs,
    Beat,
    Done,
    FrameDecoder,
    HeadIs,
    Hello,
    LogsAre,
    Message,
    Refused,
    Unable,
    Welcome,
    encode_frame,
)

WELCOME = Welcome("c1", 5.0, [], "me")


class Head:
    """The far end: all that it will say is in the socket before it is asked."""

    def __init__(self) -> None:
        self.sock, self.clients = socket.socketpair()
        self._decoder = FrameDecoder(FROM_CLIENT)

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.sock.sendall(b"".join(encode_frame(message)))

    def heard(self) -> list[Message]:
        self.sock.setblocking(False)
        return [frame.message for frame in self._decoder.feed(self.sock.recv(100_000))]

    def connection(self) -> BlockingConnection:
        return BlockingConnection(self.clients, "tcp://head:1", None)

    def client(self) -> BlockingClient:
        self.say(WELCOME)
        return BlockingClient(self.connection())


@pytest.fixture
def head() -> Iterator[Head]:
    head = Head()
    with head.sock, head.clients:
        yield head


class Clock:
    """A clock on which time passes only while somebody sleeps, and with each look, if it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.look_s = 0.0

    def monotonic(self) -> float:
        self.now += self.look_s
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of those who connect and ask."""
    clock = Clock()
    for module in (grainlike.net._blocking, grainlike.client._blocking):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_client_introduces_itself_asks_and_takes_the_answer_to_its_query_alone(head: Head) -> None:
    client = head.client()
    head.say(Done(7), Done(1), Done(2))
    assert completed(client.ask(AskCancel(0, 17), Done)) == Done(1)
    hello, asked = head.heard()
    assert isinstance(hello, Hello)
    assert (hello.role, hello.received) == ("client", -1)
    assert asked == AskCancel(1, 17)


def test_a_heartbeat_is_answered_while_a_query_waits(head: Head) -> None:
    client = head.client()
    head.say(Beat(5), Done(1))
    completed(client.ask(AskCancel(0, 17), Done))
    assert head.heard()[1:] == [AskCancel(1, 17), Beat(5)]


def test_a_heartbeat_is_answered_in_a_pause(head: Head, clock: Clock) -> None:
    client = head.client()
    head.say(Beat(6))
    clock.look_s = 0.02  # else a busy machine may let the pause be over before it was looked
    completed(client.pause(0.1))
    assert head.heard()[1:] == [Beat(6)]


def test_what_the_head_refuses_is_raised(head: Head) -> None:
    client = head.client()
    head.say(Unable(1, "there is no job 17"))
    with pytest.raises(RefusedQueryError, match="there is no job 17"):
        completed(client.ask(AskCancel(0, 17), Done))


def test_an_answer_of_another_kind_is_a_breach_of_the_protocol(head: Head) -> None:
    client = head.client()
    head.say(Done(1))
    with pytest.raises(ProtocolError, match="Done, and HeadIs was asked for"):
        completed(client.ask(AskHead(0), HeadIs))


def test_a_refused_client_gets_the_reason_as_its_type(head: Head) -> None:
    head.say(Refused("AuthenticationError", "not you"))
    with pytest.raises(AuthenticationError, match="not you"):
        BlockingClient(head.connection())


def test_output_of_a_job_is_read_to_its_end(head: Head) -> None:
    client = head.client()
    head.say(LogsAre(1, ["a"], [1], ["stdout"], False), LogsAre(1, ["b"], [1], ["stderr"], True))

    async def lines() -> list[tuple[str, str]]:
        return [(str(line), line.stream) async for line in client.logs(17, follow=True)]

    assert completed(lines()) == [("a", "stdout"), ("b", "stderr")]
    assert head.heard()[1:] == [AskLogs(1, 17, True)]


def test_a_head_that_goes_is_lost(head: Head) -> None:
    client = head.client()
    head.sock.close()
    with pytest.raises(HeadLostError, match="the head at tcp://head:1 is gone"):
        completed(client.ask(AskCancel(0, 17), Done))


def test_to_wait_for_the_end_of_the_head_ends_with_it(head: Head) -> None:
    client = head.client()
    head.sock.close()
    completed(client.gone())


def test_a_head_that_says_nothing_is_lost(head: Head) -> None:
    with pytest.raises(HeadLostError, match=r"tcp://head:1 is gone: silent for 0.01 s"):
        head.connection().receive(0.01)


def test_what_is_no_frame_is_a_breach_of_the_protocol(head: Head) -> None:
    head.sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ProtocolError):
        head.connection().receive()


def test_one_error_names_all_addresses_where_nobody_listens() -> None:
    free = [TcpAddress("127.0.0.1", 1), TcpAddress("127.0.0.2", 1)]
    with pytest.raises(HeadLostError) as caught:
        dial_blocking(Access("c1", "client", tuple(free)), insecure=True)
    for address in free:
        assert f"nobody listens at {address}: {os.strerror(errno.ECONNREFUSED)}" in str(caught.value)


def test_without_tls_a_head_has_to_be_wanted_so() -> None:
    with pytest.raises(AuthenticationError, match="say --insecure"):
        dial_blocking(Access("c1", "client", (TcpAddress("127.0.0.1", 1),)))


def test_a_host_beyond_this_machine_takes_tls() -> None:
    with pytest.raises(PermissionError, match="not a loopback"):
        dial_blocking(Access("c1", "client", (TcpAddress("no.such.host.invalid", 1),)), insecure=True)


def test_a_listener_that_never_accepts_is_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        path = str(tmp_path / "s")
        busy.bind(path)
        busy.listen(0)
        first.connect(path)
        address = parse_address(f"unix://{path}")
        with pytest.raises(HeadLostError, match=f"no answer from {address} within 0.05 s"):
            dial_blocking(Access("c1", "client", (address,)), timeout=0.05)


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Address, ...]]:
    """Three addresses at which somebody listens who never accepts: whoever connects sleeps, and tries again."""
    with ExitStack() as stack:
        paths = [str(tmp_path / name) for name in "abc"]
        for path in paths:
            listener, first = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
            listener.bind(path)
            listener.listen(0)
            first.connect(path)
        yield tuple(parse_address(f"unix://{path}") for path in paths)


def test_all_addresses_together_get_the_time_that_there_is(clock: Clock, busy: tuple[Address, ...]) -> None:
    with pytest.raises(HeadLostError) as caught:
        dial_blocking(Access("c1", "client", busy), timeout=3.0, within=5.0)
    assert clock.now == pytest.approx(5.0)
    assert all(str(address) in str(caught.value) for address in busy)


def test_connecting_counts_in_the_limit_of_a_call(clock: Clock, busy: tuple[Address, ...], tmp_path: Path) -> None:
    write_access(Access("c1", "client", busy), tmp_path / "client.json")
    with pytest.raises(HeadLostError, match="no answer"), call_blocking(tmp_path / "client.json", limit_s=0.5):
        pass
    assert clock.now == pytest.approx(0.5)


def test_a_query_waits_no_longer_than_the_limit_of_its_call(clock: Clock, head: Head) -> None:
    head.say(WELCOME)
    client = BlockingClient(head.connection(), until=0.5)
    clock.now = 0.499
    with pytest.raises(HeadLostError, match=r"silent for 0\.001 s"):
        completed(client.ask(AskCancel(0, 17), Done))


def test_a_coroutine_that_waits_for_an_event_loop_is_an_error() -> None:
    async def bare() -> None:
        class Never:
            def __await__(self) -> Iterator[None]:
                yield None

        await Never()

    with pytest.raises(RuntimeError, match="waits for an event loop"):
        completed(bare())
