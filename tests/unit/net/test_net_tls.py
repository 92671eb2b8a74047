"""Certificates and sessions without a socket: who is let in, and what never leaves the process."""

import contextlib
import os
import socket
import ssl
import traceback
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID
from limits import LIMIT_S
from msgspec.structs import replace

from grainlike.errors import AuthenticationError, ProtocolError
from grainlike.net import (
    Credentials,
    Tls,
    TlsSession,
    _steps,
    client_tls,
    make_credentials,
    server_tls,
    shake_hands,
)

MADE = make_credentials("c1")
HEAD, WORKER = server_tls("c1", MADE["head"]), client_tls("c1", MADE["worker"])


def shake(server: Tls, client: Tls) -> tuple[TlsSession, TlsSession]:
    """Two sessions that have heard each other out."""
    near, far = server.session(), client.session()
    data, done = b"", [False, False]
    while not all(done):
        done[1] = done[1] or far.shake(data)
        done[0] = done[0] or near.shake(far.take_outgoing())
        data = near.take_outgoing()
    assert data == b"", "the server sends nothing after the handshake: no tickets"
    return near, far


def opened(session: TlsSession, records: bytes) -> bytes:
    """What these records carry, read into a piece of memory that is too small for all of it."""
    into = memoryview(bytearray(100_000))
    found = b""
    session.take(records)
    while count := session.read(into):
        found += into[:count]
    return found


def test_both_ends_speak_tls_1_3_and_know_each_others_role() -> None:
    near, far = shake(HEAD, WORKER)
    assert (near.role, far.role) == ("worker", "head")
    assert near._ssl.version() == far._ssl.version() == "TLSv1.3"
    assert not near._ssl.session_reused


def test_what_is_sealed_is_opened_and_not_to_be_read_on_the_way() -> None:
    near, far = shake(HEAD, WORKER)
    secret = b"a word between us" * 1000
    sealed = far.seal(secret)
    assert b"a word" not in sealed
    assert opened(near, sealed) == secret
    assert b"".join(opened(near, b"") for at in range(len(sealed))) == b""


@pytest.mark.parametrize("size", [1, 16_384, 600_000])
def test_any_amount_comes_out_whole_however_it_is_cut(size: int) -> None:
    near, far = shake(HEAD, WORKER)
    data = os.urandom(size)
    sealed = far.seal(data)
    step = max(1, len(sealed) // 7)
    cuts = [sealed[at : at + step] for at in range(0, len(sealed), step)]
    assert b"".join(opened(near, cut) for cut in cuts) == data


def test_records_cannot_be_replayed_reordered_or_left_out() -> None:
    for order in ([0, 0], [1, 0], [1]):
        near, far = shake(HEAD, WORKER)
        records = [far.seal(b"one"), far.seal(b"two")]
        with pytest.raises(ProtocolError, match="no TLS of this connection"):
            opened(near, b"".join(records[number] for number in order))


def test_a_certificate_says_its_role_and_its_cluster_and_nothing_of_a_machine() -> None:
    listens, dials = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    for role, purposes in (("head", [listens]), ("worker", [dials, listens]), ("client", [dials])):
        certificate = x509.load_pem_x509_certificate(MADE[role].certificate.encode())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [name.value for name in names] == [f"{role}.c1.grainlike"]
        assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == purposes
        key = certificate.public_key()
        assert isinstance(key, EllipticCurvePublicKey)
        assert isinstance(key.curve, SECP256R1)
        authority = x509.load_pem_x509_certificate(MADE[role].authority.encode())
        certificate.verify_directly_issued_by(authority)


def test_nobody_has_the_authoritys_key_and_every_role_has_its_own() -> None:
    assert len({proof.key for proof in MADE.values()}) == 3
    authority = x509.load_pem_x509_certificate(MADE["head"].authority.encode()).public_key()
    for proof in MADE.values():
        key = serialization.load_pem_private_key(proof.key.encode(), None)
        assert key.public_key() != authority


@pytest.mark.parametrize("role", ["worker", "client"])
def test_who_is_not_the_head_cannot_pose_as_it(role: str) -> None:
    with pytest.raises(AuthenticationError, match="does not hold here"):
        shake(server_tls("c1", MADE[role]), WORKER)


def test_the_head_of_another_cluster_is_not_ours_though_one_authority_made_both() -> None:
    with pytest.raises(AuthenticationError, match="does not hold here"):
        shake(HEAD, client_tls("c2", MADE["worker"]))


def damaged(**changes: str) -> Credentials:
    return replace(MADE["worker"], **changes)


ENCRYPTED = (
    serialization.load_pem_private_key(MADE["worker"].key.encode(), None)
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"a passphrase"),
    )
    .decode()
)


@pytest.mark.parametrize(
    "credentials",
    [
        damaged(key=""),
        damaged(key=MADE["head"].key),
        damaged(key=ENCRYPTED),
        damaged(certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        damaged(authority="none"),
        damaged(authority=""),
    ],
    ids=["no key", "another's key", "an encrypted key", "no certificate", "no authority", "nothing for it"],
)
def test_credentials_that_are_damaged_are_refused_without_a_word_of_them(credentials: Credentials) -> None:
    with pytest.raises(ValueError, match="damaged") as caught:
        client_tls("c1", credentials)
    told = "".join(traceback.format_exception(caught.value))
    assert not any(line in told for line in MADE["worker"].key.splitlines()[1:-1])


def test_the_key_touches_no_disk_and_no_log_of_keys_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    shake(server_tls("c1", MADE["head"]), client_tls("c1", MADE["worker"]))
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_who_is_refused_can_still_write_and_then_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS 1.3 lets the refused finish its own part and go on to write; a reset would take the answer from it."""
    monkeypatch.setattr(_steps, "_GOODBYE_S", LIMIT_S)  # until the refused hangs up
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=MADE["head"].authority)
    context.set_alpn_protocols(["grainlike/1"])
    far = Tls("c1", False, context).session()
    refusals: list[AuthenticationError] = []

    async def serve(sock: socket.socket) -> None:
        with sock, contextlib.suppress(TimeoutError):
            try:
                await shake_hands(sock, HEAD)
            except AuthenticationError as error:
                refusals.append(error)

    async def hear() -> bytes:
        await anyio.wait_readable(theirs)
        return theirs.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    ours.setblocking(False)
    with theirs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, ours)
            far.shake(b"")
            theirs.sendall(far.take_outgoing())
            assert far.shake(await hear())
            theirs.sendall(far.take_outgoing())
            said = await hear()
            for _ in range(2):
                theirs.sendall(far.seal(b"a hello"))
            with pytest.raises(AuthenticationError, match=r"refused our certificate: .*certificate required"):
                opened(far, said)
            theirs.shutdown(socket.SHUT_WR)
    assert "did not return a certificate" in str(refusals[0])
