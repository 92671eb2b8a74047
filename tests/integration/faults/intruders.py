"""Those who try to come in without leave, and what each of them tries.

An intruder is a blocking function of its `Burglary`: where the head is, and what papers can be had or forged. It is
over when the head has hung up, or there is nothing left to try; what it achieved is for the test to find out.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from limits import LIMIT_S

from grainlike import Cores
from grainlike.net import Access, Credentials, TcpAddress, client_tls, make_credentials
from grainlike.net import _certificates as registrar
from grainlike.wire import Beat, Report, encode_frame
from grainlike_worker.daemon._introduction import introduction

CLUSTER = "quiet-town"

PATIENCE_S = LIMIT_S
"""How long an intruder waits for the head to hang up; the head is told to take a fraction of that."""


class Canary:
    """Sings when it is unpickled, wherever that is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return Path.touch, (self.path,)


class Registry:
    """A cluster's authority that, unlike ours, keeps its key: it makes papers of any kind at any time."""

    def __init__(self) -> None:
        self.cluster = CLUSTER
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        self.good = (now - timedelta(days=1), now + timedelta(days=1))
        self.past = (now - timedelta(days=3), now - timedelta(days=2))
        self.future = (now + timedelta(days=2), now + timedelta(days=3))
        forever = (now - timedelta(days=9), now + timedelta(days=9))
        self._authority = registrar._authority(CLUSTER, self._key, forever)

    def issue(self, role: str, period: tuple[datetime, datetime] | None = None, cluster: str = "") -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = registrar._certificate(
            role, cluster or self.cluster, key, self._authority, self._key, period or self.good
        )
        return Credentials(registrar._pem(self._authority), registrar._pem(certificate), registrar._key_pem(key))

    def access(self, role: str) -> Access:
        return Access(self.cluster, role, (), self.issue(role))


@dataclass
class Burglary:
    """What an intruder has to work with."""

    address: TcpAddress
    registry: Registry
    canary: Path

    @property
    def song(self) -> bytes:
        return pickle.dumps(Canary(self.canary))

    @contextlib.contextmanager
    def plain(self) -> Iterator[socket.socket]:
        with socket.create_connection((self.address.host, self.address.port), PATIENCE_S) as sock:
            yield sock

    def say(self, data: bytes) -> None:
        """Without TLS."""
        with self.plain() as sock, contextlib.suppress(ConnectionError):
            sock.sendall(data)
            wait_for_end(sock)

    def say_sealed(
        self,
        data: bytes,
        papers: Credentials | None,
        *,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        alpn: str | None = "grainlike/1",
    ) -> bytes:
        """Over TLS, with these papers; return what came back."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        if alpn is not None:
            context.set_alpn_protocols([alpn])
        if papers is not None:
            with tempfile.NamedTemporaryFile() as file:
                file.write(f"{papers.key}\n{papers.certificate}".encode())
                file.flush()
                context.load_cert_chain(file.name)
        refused = contextlib.suppress(ssl.SSLError, ConnectionError)
        with self.plain() as sock, refused, context.wrap_socket(sock) as sealed:
            sealed.sendall(data)
            return wait_for_end(sealed)
        return b""


def wait_for_end(sock: socket.socket) -> bytes:
    """Read until the head hangs up, or has let us in and goes on; return what it said."""
    said = b""
    with contextlib.suppress(OSError):
        while data := sock.recv(65536):
            said += data
            if CLUSTER.encode() in said:  # a welcome
                break
    return said


def frame(message: object) -> bytes:
    return b"".join(map(bytes, encode_frame(message)))


def hello(**changes: object) -> bytes:
    return frame(msgspec.structs.replace(introduction("burglar", Cores([0])), **changes))


def in_frame(header: bytes, *lengths: int) -> bytes:
    """A frame whose header is anything, and that declares buffers of these lengths."""
    return struct.pack(f"<II{len(lengths)}Q", len(header), len(lengths), *lengths) + header


# --- who has no papers ---


def silent(burglary: Burglary) -> None:
    burglary.say(b"")


def noise(burglary: Burglary) -> None:
    burglary.say(os.urandom(4096))


def http(burglary: Burglary) -> None:
    burglary.say(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")


def bare_pickle(burglary: Burglary) -> None:
    burglary.say(burglary.song)


def bare_frames(burglary: Burglary) -> None:
    """The right words, without TLS: there is no plaintext to fall back to."""
    burglary.say(hello() + in_frame(burglary.song))


def hangs_up_at_once(burglary: Burglary) -> None:
    with burglary.plain() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half_a_handshake(burglary: Burglary) -> None:
    """The first message of TLS, and then nothing."""
    burglary.say(_first_words(burglary))


def drip(burglary: Burglary) -> None:
    """Byte by byte, so that something always comes: the time is for the handshake as a whole."""
    with burglary.plain() as sock, contextlib.suppress(ConnectionError):
        for byte in _first_words(burglary):
            sock.sendall(bytes([byte]))
            time.sleep(0.01)  # all of it takes several times as long as a handshake may
        raise AssertionError("it was let go on")


def half_closed(burglary: Burglary) -> None:
    """Begins a handshake, and says at once that nothing more will come, without hanging up."""
    with burglary.plain() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(_first_words(burglary))
        sock.shutdown(socket.SHUT_WR)
        wait_for_end(sock)


def flood(burglary: Burglary) -> None:
    """As much as it can, for as long as it is let."""
    begun = time.monotonic()
    with burglary.plain() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(_first_words(burglary))
        while time.monotonic() - begun < PATIENCE_S:
            sock.sendall(b"\x17\x03\x03\x40\x00" + bytes(16_384))
        raise AssertionError("it was let go on")


def giant_record(burglary: Burglary) -> None:
    burglary.say(b"\x16\x03\x01\xff\xff" + bytes(65_535))


def endless_hello(burglary: Burglary) -> None:
    """A handshake message that declares 16 MiB."""
    burglary.say(b"".join(b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16_380) for _ in range(64)))


def replayed(burglary: Burglary) -> None:
    """Every byte that a worker once sent, in a connection of its own."""
    tls = client_tls(burglary.registry.cluster, burglary.registry.issue("worker")).session()
    sent: list[bytes] = []
    with burglary.plain() as sock, contextlib.suppress(ConnectionError):
        data = b""
        while not tls.shake(data):
            sent.append(tls.take_outgoing())
            sock.sendall(sent[-1])
            data = sock.recv(65536)
            if not data:
                return  # in a crowd it may take longer than a handshake may: there is nothing to say again
        sent.append(tls.take_outgoing())
        sock.sendall(sent[-1])
    burglary.say(b"".join(sent) + tls.seal(hello()))


def no_certificate(burglary: Burglary) -> None:
    burglary.say_sealed(hello() + in_frame(burglary.song), None)


# --- who has the wrong papers ---


def foreign_authority(burglary: Burglary) -> None:
    burglary.say_sealed(hello(), make_credentials("elsewhere")["worker"])


def forged_authority(burglary: Burglary) -> None:
    """An authority of the same name, and a certificate of the right one."""
    burglary.say_sealed(hello(), Registry().issue("worker"))


def expired(burglary: Burglary) -> None:
    burglary.say_sealed(hello(), burglary.registry.issue("worker", burglary.registry.past))


def not_yet_valid(burglary: Burglary) -> None:
    burglary.say_sealed(hello(), burglary.registry.issue("worker", burglary.registry.future))


def a_heads_certificate(burglary: Burglary) -> None:
    """What proves a server proves no client."""
    burglary.say_sealed(hello(), burglary.registry.issue("head"))


def another_clusters_name(burglary: Burglary) -> None:
    """Signed by the right authority, for a cluster that is not this one."""
    burglary.say_sealed(hello(), burglary.registry.issue("worker", cluster="elsewhere"))


def old_tls(burglary: Burglary) -> None:
    burglary.say_sealed(hello(), burglary.registry.issue("worker"), version=ssl.TLSVersion.TLSv1_2)


def another_protocol(burglary: Burglary) -> None:
    burglary.say_sealed(hello(), burglary.registry.issue("worker"), alpn="h2")


def no_protocol(burglary: Burglary) -> None:
    burglary.say_sealed(hello(), burglary.registry.issue("worker"), alpn=None)


# --- who has papers, and means ill ---


def a_client_as_worker(burglary: Burglary) -> None:
    assert b"AuthenticationError" in burglary.say_sealed(hello(), burglary.registry.issue("client"))


def a_worker_as_head(burglary: Burglary) -> None:
    assert b"AuthenticationError" in burglary.say_sealed(hello(role="head"), burglary.registry.issue("worker"))


def a_pickle_for_a_hello(burglary: Burglary) -> None:
    burglary.say_sealed(in_frame(burglary.song), burglary.registry.issue("worker"))


def a_giant_header(burglary: Burglary) -> None:
    burglary.say_sealed(struct.pack("<II", 2**32 - 1, 0), burglary.registry.issue("worker"))


def a_giant_buffer(burglary: Burglary) -> None:
    burglary.say_sealed(in_frame(b"", 2**62), burglary.registry.issue("worker"))


def many_buffers(burglary: Burglary) -> None:
    burglary.say_sealed(struct.pack("<II", 8, 2**32 - 1), burglary.registry.issue("worker"))


def results_before_a_welcome(burglary: Burglary) -> None:
    burglary.say_sealed(frame(Report(0.0, [], [], [])), burglary.registry.issue("worker"))


def a_name_for_the_terminal(burglary: Burglary) -> None:
    burglary.say_sealed(hello(name="n1\x1b[2Jroot logged in"), burglary.registry.issue("worker"))


def many_words_before_a_welcome(burglary: Burglary) -> None:
    """Small frames without end, none of which introduces it."""
    burglary.say_sealed(frame(Beat(1)) * 200, burglary.registry.issue("worker"))


def silent_after_the_handshake(burglary: Burglary) -> None:
    burglary.say_sealed(b"", burglary.registry.issue("worker"))


def _first_words(burglary: Burglary) -> bytes:
    session = client_tls(burglary.registry.cluster, burglary.registry.issue("worker")).session()
    session.shake(b"")
    return session.take_outgoing()


Intruder = Callable[[Burglary], None]

STRANGERS: list[Intruder] = [
    silent,
    noise,
    http,
    bare_pickle,
    bare_frames,
    hangs_up_at_once,
    half_a_handshake,
    drip,
    half_closed,
    flood,
    giant_record,
    endless_hello,
    replayed,
    no_certificate,
    foreign_authority,
    forged_authority,
    expired,
    not_yet_valid,
    a_heads_certificate,
    another_clusters_name,
    old_tls,
    another_protocol,
    no_protocol,
]
"""Nothing that they send may reach a frame decoder."""

ENDED_BY_TIME: list[Intruder] = [silent, noise, half_a_handshake, drip, silent_after_the_handshake]
"""Those whom no word of theirs ends; noise may look like the beginning of something long."""

MEMBERS: list[Intruder] = [
    a_client_as_worker,
    a_worker_as_head,
    a_pickle_for_a_hello,
    a_giant_header,
    a_giant_buffer,
    many_buffers,
    results_before_a_welcome,
    a_name_for_the_terminal,
    many_words_before_a_welcome,
    silent_after_the_handshake,
]
"""They have a certificate, and are refused for what they say."""
