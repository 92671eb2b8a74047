"""Data servers: what one worker gets from another, what is told to strangers, and what is left when it breaks."""

from __future__ import annotations

import os
import pickle
import socket
import ssl
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from data_ends import CREDENTIALS, KEY, LIMIT_S, TLS, Getter, named, scripted, serving, want_of
from waiting import until_blocking

from grainlike.net import TcpAddress, can_serve, client_tls, listen_tcp, make_credentials
from grainlike.net import _certificates as certificates
from grainlike.payload import allocate_replica, replica_path
from grainlike.wire import (
    Busy,
    Fetched,
    Gone,
    Here,
    PullInto,
    PullReplica,
    Received,
    Unsent,
    Want,
    encode_data,
    read_data,
)
from grainlike_worker.data import _pulling, _receiving, _serving
from grainlike_worker.data._part_files import PartFile
from grainlike_worker.data._reading import PART_BYTES, read_exactly
from grainlike_worker.data._tls import DataTls

LARGE = os.urandom(3_000_000)
HALF = 5 * PART_BYTES


@pytest.fixture
def there(tmp_path: Path) -> Path:
    path = tmp_path / "there"
    path.mkdir()
    replica_path(path, 7, 1).write_bytes(LARGE)
    replica_path(path, 8, 1).write_bytes(b"few")
    return path


@pytest.fixture
def address(there: Path) -> Iterator[TcpAddress]:
    with serving(there) as address:
        yield address


@pytest.fixture
def getter(tmp_path: Path) -> Getter:
    path = tmp_path / "here"
    path.mkdir()
    return Getter(path)


# --- what is got -----------------------------------------------------------------------------------------------------


def test_replicas_are_got_whole_and_one_connection_serves_many(
    address: TcpAddress, getter: Getter, monkeypatch: pytest.MonkeyPatch
) -> None:
    dials: list[TcpAddress] = []
    dial = DataTls.dial
    monkeypatch.setattr(DataTls, "dial", lambda *args: dials.append(args[1]) or dial(*args))
    for value, size in ((7, len(LARGE)), (8, 3), (7, len(LARGE))):
        number = getter.pull(address, value, size)
        assert getter.answer() == Fetched(number, value, 1)
        while not getter.puller._sources[str(address)].idle:  # it is, when its thread comes to wait
            pass
    assert (getter.got(7), getter.got(8)) == (LARGE, b"few")
    assert getter.files() == ["v7-1", "v8-1"]
    assert dials == [address]
    assert not getter.puller.busy


class _MakesDirectory:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


def test_nothing_is_unpickled_at_either_end(there: Path, getter: Getter, address: TcpAddress, tmp_path: Path) -> None:
    stream = pickle.dumps(_MakesDirectory(tmp_path / "unpickled"))
    replica_path(there, 9, 1).write_bytes(stream)
    getter.pull(address, 9, len(stream))
    assert getter.answer() == Fetched(1, 9, 1)
    assert getter.got(9) == stream
    assert not (tmp_path / "unpickled").exists()
    pickle.loads(stream)  # else it proves nothing
    assert (tmp_path / "unpickled").exists()


def test_small_ones_do_not_wait_for_a_large_one(getter: Getter) -> None:
    with listen_tcp(TcpAddress("127.0.0.1", 0)) as listener:
        listener.setblocking(True)
        address = TcpAddress("127.0.0.1", listener.getsockname()[1])
        getter.pull(address, 7, 10)
        with TLS.accept(listener.accept()[0], LIMIT_S) as slow:
            want_of(slow)
            slow.sendall(encode_data(Here(10)) + b"01234")
            getter.pull(address, 8, 3)
            with TLS.accept(listener.accept()[0], LIMIT_S) as quick:
                want_of(quick)
                quick.sendall(encode_data(Here(3)) + b"few")
                assert getter.answer() == Fetched(2, 8, 1)
            slow.sendall(b"56789")
            assert getter.answer() == Fetched(1, 7, 1)


def test_a_data_server_is_reached_by_ipv6(there: Path, getter: Getter) -> None:
    if not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    with serving(there, "::1") as address:
        assert str(address).startswith("tcp://[::1]:")
        getter.pull(address, 8, 3)
        assert getter.answer() == Fetched(1, 8, 1)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


# --- connections that break ------------------------------------------------------------------------------------------


def cut_half_way(connection: ssl.SSLSocket) -> None:
    assert want_of(connection).at == 0
    connection.sendall(encode_data(Here(len(LARGE))) + LARGE[:HALF])


def test_a_copy_goes_on_at_its_offset_when_its_connection_has_broken(getter: Getter) -> None:
    wanted: list[Want] = []

    def the_rest(connection: ssl.SSLSocket) -> None:
        wanted.append(want_of(connection))
        connection.sendall(encode_data(Here(len(LARGE))) + LARGE[HALF:])

    with scripted(cut_half_way, the_rest) as address:
        getter.pull(address, 7, len(LARGE))
        assert getter.answer() == Fetched(1, 7, 1)
    assert wanted == [Want(named(7), 7, 1, HALF)]
    assert getter.got(7) == LARGE


def test_a_source_that_falls_silent_is_unreachable_and_the_next_goes_on(
    tmp_path: Path, address: TcpAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    getter = Getter(tmp_path / "here", patience_s=0.1)
    over = threading.Event()
    limits: list[float | None] = []
    dial = DataTls.dial

    def silent(connection: ssl.SSLSocket) -> None:
        cut_half_way(connection)
        assert over.wait(LIMIT_S)

    def patient_until_half(tls: DataTls, address: TcpAddress, within_s: float) -> ssl.SSLSocket:
        """Begin with the patience when the half is here: on a busy machine it may take longer to come."""
        connection = dial(tls, address, LIMIT_S)
        limits.append(connection.gettimeout())
        receive = connection.recv_into

        def recv_into(buffer: memoryview) -> int:
            if getter.puller._pulls[1].at == HALF:
                connection.settimeout(within_s)
            return receive(buffer)

        patches.setattr(connection, "recv_into", recv_into)
        return connection

    with scripted(silent) as silent_address, monkeypatch.context() as patches:
        patches.setattr(DataTls, "dial", patient_until_half)
        getter.pull(silent_address, 7, len(LARGE))
        told = getter.answer()
        over.set()
    assert limits == [LIMIT_S]
    assert (told.at, told.unreachable, told.gone) == (HALF, True, False)
    assert "no byte came for 0.1 s" in told.why
    assert str(silent_address) in told.why
    assert getter.files() == ["v7-1.0.part"]
    replica_path(tmp_path / "there", 7, 1).write_bytes(bytes(HALF) + LARGE[HALF:])  # of the first half nothing is read
    getter = Getter(tmp_path / "here")
    getter.pull(address, 7, len(LARGE), at=HALF)
    assert getter.answer() == Fetched(1, 7, 1)
    assert getter.got(7) == LARGE


def test_who_breaks_each_time_without_a_byte_is_unreachable(getter: Getter) -> None:
    with scripted(cut_half_way, want_of) as address:
        getter.pull(address, 7, len(LARGE))
        told = getter.answer()
    assert (told.at, told.unreachable) == (HALF, True)


def test_a_port_where_nobody_listens_is_unreachable(getter: Getter) -> None:
    with socket.socket() as bound:  # so that nobody else comes to listen there
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        getter.pull(f"tcp://127.0.0.1:{port}", 7, 10)
        told = getter.answer()
    assert told.unreachable
    assert f"127.0.0.1:{port}" in told.why


def test_what_waits_for_a_source_that_cannot_be_reached_waits_no_longer(
    getter: Getter, monkeypatch: pytest.MonkeyPatch
) -> None:
    dials: list[TcpAddress] = []
    all_wait = threading.Event()

    def silent(tls: DataTls, address: TcpAddress, within_s: float) -> None:
        dials.append(address)
        assert all_wait.wait(LIMIT_S)
        raise TimeoutError

    monkeypatch.setattr(DataTls, "dial", silent)
    numbers = [getter.pull("tcp://127.0.0.1:1", value, 10, at=value) for value in range(3 * _pulling.MOST_CONNECTIONS)]
    until_blocking(lambda: len(dials) == _pulling.MOST_CONNECTIONS)  # one that began later would find nothing to do
    all_wait.set()
    told = [getter.answer() for _ in numbers]
    assert sorted(one.transfer for one in told) == numbers
    assert all(one.unreachable for one in told)
    assert len(dials) == _pulling.MOST_CONNECTIONS, "each takes its time"
    assert not getter.puller.busy


@pytest.mark.parametrize("address", ["", "tcp://nowhere", "unix:///tmp/x", "tcp://host.invalid:1", "tcp://[::1]:0"])
def test_an_address_that_is_none_is_unreachable(getter: Getter, address: str) -> None:
    getter.pull(address, 7, 10)
    assert getter.answer().unreachable


def test_a_stopped_copy_says_nothing_and_another_goes_on_with_it(getter: Getter, address: TcpAddress) -> None:
    cut = threading.Event()

    def until_cut(connection: ssl.SSLSocket) -> None:
        cut_half_way(connection)
        while connection.recv(1):
            pass
        cut.set()

    with scripted(until_cut) as first:
        number = getter.pull(first, 7, len(LARGE))
        while (told := getter.puller.progress()) is None or told.at[-1] < HALF:
            pass
        assert told.transfers == [number]
        getter.puller.stop(number)
        assert cut.wait(LIMIT_S)
    getter.pull(address, 7, len(LARGE), at=HALF)
    assert getter.answer() == Fetched(2, 7, 1)
    assert getter.got(7) == LARGE
    assert getter.said.empty()


def test_a_busy_server_is_asked_again(getter: Getter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_receiving, "BUSY_S", 0.001)

    def busy(connection: ssl.SSLSocket) -> None:
        for _ in range(3):
            want_of(connection)
            connection.sendall(encode_data(Busy()))
        want_of(connection)
        connection.sendall(encode_data(Here(3)) + b"few")

    with scripted(busy) as address:
        getter.pull(address, 8, 3)
        assert getter.answer() == Fetched(1, 8, 1)


# --- what is not believed --------------------------------------------------------------------------------------------


def test_what_is_not_there_is_gone(getter: Getter, address: TcpAddress) -> None:
    getter.pull(address, 9, 10)
    assert getter.answer() == Unsent(1, "it is not there", gone=True)
    getter.pull(address, 8, 3)
    assert getter.answer() == Fetched(2, 8, 1)


def test_the_size_is_the_heads_word_and_not_the_peers(getter: Getter, address: TcpAddress) -> None:
    getter.pull(address, 7, 10)
    assert getter.answer().gone


@pytest.mark.parametrize("role", ["head", "client"])
def test_a_server_that_is_no_worker_gets_no_word(getter: Getter, role: str) -> None:
    heard: list[bytes] = []
    with scripted(lambda connection: heard.append(connection.recv(1)), credentials=CREDENTIALS[role]) as address:
        getter.pull(address, 7, 10)
        assert getter.answer().unreachable
    assert b"".join(heard) == b""


def test_a_server_of_another_cluster_gets_no_word(getter: Getter) -> None:
    heard: list[bytes] = []
    foreign = make_credentials("c1")["worker"]
    with scripted(lambda connection: heard.append(connection.recv(1)), credentials=foreign) as address:
        getter.pull(address, 7, 10)
        assert getter.answer().unreachable
    assert b"".join(heard) == b""


def test_words_that_are_none_end_a_pull(getter: Getter) -> None:
    for words in (b"\xff" * 64, encode_data(Want(b"", 1, 1, 0)), b"\x02\x00\x00\x00\x00\x00\x00\x00\x91\x07"):
        with scripted(lambda connection, words=words: (want_of(connection), connection.sendall(words))) as address:
            getter.pull(address, 7, 10)
            assert getter.answer().unreachable


# --- strangers -------------------------------------------------------------------------------------------------------


def told_to(sock: socket.socket) -> bytes:
    """All that a data server says."""
    told = b""
    try:
        while data := sock.recv(4096):
            told += data
    except OSError:
        pass
    return told


def test_plaintext_is_told_nothing(getter: Getter, address: TcpAddress) -> None:
    want = encode_data(Want(named(7), 7, 1, 0))
    for words in (want, b"GET / HTTP/1.1\r\n\r\n", b"\x80\x04cos\nsystem\n", os.urandom(4096)):
        with socket.create_connection((address.host, address.port), LIMIT_S) as sock:
            sock.sendall(words)
            with suppress(OSError):  # it may have hung up
                sock.shutdown(socket.SHUT_WR)
            assert len(told_to(sock)) <= 7  # an alert of TLS
    getter.pull(address, 8, 3)
    assert getter.answer() == Fetched(1, 8, 1)


def contexts() -> dict[str, ssl.SSLContext]:
    foreign = make_credentials("c1")["worker"]
    naked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    naked.load_verify_locations(cadata=CREDENTIALS["worker"].authority)
    naked.set_alpn_protocols(["grainlike-data/1"])
    older = DataTls("c1", CREDENTIALS["worker"])._client
    older.minimum_version = older.maximum_version = ssl.TLSVersion.TLSv1_2
    mute = DataTls("c1", CREDENTIALS["worker"])._client
    mute.set_alpn_protocols(["http/1.1"])
    roles = {role: DataTls("c1", CREDENTIALS[role])._client for role in ("client", "head")}
    of_head = client_tls("c1", CREDENTIALS["worker"]).context
    return {
        **roles, "foreign": DataTls("c1", foreign)._client, "none": naked, "1.2": older, "alpn": mute, "link": of_head,
    }  # fmt: skip


@pytest.mark.parametrize("who", ["client", "head", "foreign", "none", "1.2", "alpn", "link"])
def test_who_is_no_worker_is_told_nothing(address: TcpAddress, who: str) -> None:
    context = contexts()[who]
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((address.host, address.port), LIMIT_S) as sock:
        try:
            with context.wrap_socket(sock) as peer:
                peer.sendall(encode_data(Want(named(7), 7, 1, 0)))
                assert told_to(peer) == b""
        except (ssl.SSLError, ConnectionError):
            pass  # refused in the handshake


def test_a_wrong_name_is_answered_as_one_that_is_gone_and_the_sixteenth_closes(address: TcpAddress) -> None:
    with TLS.dial(address, LIMIT_S) as peer:
        for number in range(16):
            wrong = b"" if number == 3 else bytes([number]) * 16
            peer.sendall(encode_data(Want(wrong, 7, 1, 0)))
            assert read_data(lambda count: read_exactly(peer, count)) == Gone()
        with pytest.raises(ConnectionError):
            read_exactly(peer, 1)


def test_an_offset_that_is_none_is_answered_as_gone(address: TcpAddress) -> None:
    with TLS.dial(address, LIMIT_S) as peer:
        for at in (-1, len(LARGE) + 1, 1 << 62):
            peer.sendall(encode_data(Want(named(7), 7, 1, at)))
            assert read_data(lambda count: read_exactly(peer, count)) == Gone()


def test_what_is_no_message_ends_its_connection_alone(getter: Getter, address: TcpAddress) -> None:
    for words in (b"\xff" * 32, encode_data(Here(1)), b"\x01\x00\x00\x00\x01\x00\x00\x00\x90"):
        with TLS.dial(address, LIMIT_S) as peer:
            peer.sendall(words)
            assert told_to(peer) == b""
    getter.pull(address, 8, 3)
    assert getter.answer() == Fetched(1, 8, 1)


def test_beyond_the_limit_the_oldest_that_has_proved_nothing_is_cut(
    getter: Getter, address: TcpAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_serving, "MOST_PENDING", 2)
    idle = [socket.create_connection((address.host, address.port), LIMIT_S) for _ in range(3)]
    assert told_to(idle[0]) == b""
    getter.pull(address, 8, 3)
    assert getter.answer() == Fetched(1, 8, 1)
    assert told_to(idle[1]) == b""
    for sock in idle:
        sock.close()


def test_beyond_the_limit_of_workers_one_more_is_told_to_wait(
    address: TcpAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_serving, "MOST_CONNECTIONS", 1)
    with TLS.dial(address, LIMIT_S) as first:
        first.sendall(encode_data(Want(named(9), 9, 1, 0)))
        assert read_data(lambda count: read_exactly(first, count)) == Gone()
        with TLS.dial(address, LIMIT_S) as second:
            assert read_data(lambda count: read_exactly(second, count)) == Busy()


def test_who_proves_nothing_in_time_is_cut(address: TcpAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_serving, "HANDSHAKE_S", 0.05)
    with socket.create_connection((address.host, address.port), LIMIT_S) as sock:
        assert told_to(sock) == b""


def test_a_server_whose_listener_was_closed_before_its_thread_began_ends_at_once(there: Path) -> None:
    listener = listen_tcp(TcpAddress("127.0.0.1", 0))
    server = _serving.ReplicaServer(listener, TLS, there, KEY)
    listener.close()
    server.serve()


# --- certificates ----------------------------------------------------------------------------------------------------


def test_a_worker_may_listen_unless_its_certificate_is_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [can_serve(CREDENTIALS[role]) for role in ("head", "worker", "client")] == [True, True, False]
    made = certificates._certificate
    monkeypatch.setattr(certificates, "_certificate", lambda role, *args: made("client", *args))
    assert not can_serve(make_credentials("c1")["worker"])


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_of_another_size_is_none_of_a_pull(getter: Getter, address: TcpAddress) -> None:
    allocate_replica(getter.room(7), len(LARGE) - 1)
    getter.pull(address, 7, len(LARGE))
    told = getter.answer()
    assert "cannot be written" in told.why
    assert "another size" in told.why
    assert not told.unreachable
    assert getter.room(7).stat().st_size == len(LARGE) - 1


def test_a_file_that_was_removed_is_not_made_again(getter: Getter, address: TcpAddress) -> None:
    """The value was dropped, and the order to stop is on its way."""
    order = PullReplica(1, 7, 1, len(LARGE), 0, str(address), named(7))
    getter.puller.pull(PullInto(order, str(getter.room(7))))
    assert "cannot be written" in getter.answer().why
    assert getter.files() == []


def test_a_copy_that_begins_again_takes_nothing_from_one_that_goes_on(tmp_path: Path) -> None:
    """The order to stop it comes to whoever does it later than another is begun."""
    room = tmp_path / "room"
    allocate_replica(room, 10)
    part = PartFile(room, room, 10)
    part.write(b"01234")
    again = PartFile(room, room, 10)
    assert again.at == 0
    part.write(b"56789")
    assert room.read_bytes() == b"0123456789"
    assert part.crc() == zlib.crc32(b"0123456789")
    for one in (part, again):
        one.close()
    assert PartFileAt(room, 5) == 5
    assert PartFileAt(room, 11) == 0


def PartFileAt(room: Path, at: int) -> int:
    part = PartFile(room, room, 10, at)
    part.close()
    return part.at


def test_a_room_on_disk_is_told_with_the_crc_of_all_its_bytes(
    tmp_path: Path, getter: Getter, address: TcpAddress
) -> None:
    room = tmp_path / "disk.part"
    room.write_bytes(LARGE[:HALF] + bytes(len(LARGE) - HALF))
    order = PullReplica(1, 7, 1, len(LARGE), HALF, str(address), named(7))
    getter.puller.pull(PullInto(order, str(room)))
    assert getter.said.get(timeout=LIMIT_S) == Received(1, zlib.crc32(LARGE))
    assert room.read_bytes() == LARGE
