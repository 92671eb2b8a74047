"""TLS 1.3 between the processes of one cluster, both sides verified, without a socket and for any event loop.

The handshake is done on the bare socket, before there is a link: so no byte of a peer that has proved nothing ever
reaches a frame decoder. A session then turns what links write into records, and records into what they read.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from grainlike.errors import AuthenticationError, ProtocolError
from grainlike.net._certificates import ROLES, Credentials, Role, name_of
from grainlike.wire import Buffer

__all__ = ["Tls", "TlsSession", "client_tls", "role_of", "server_tls", "tls_context"]

ALPN = "grainlike/1"


class Tls(msgspec.Struct, frozen=True):
    """TLS context of one side of a cluster's connections. `context` holds the key: it is never shown by `repr`."""

    cluster: str
    is_server: bool
    context: ssl.SSLContext

    def __repr__(self) -> str:
        return f"Tls(cluster={self.cluster!r}, is_server={self.is_server!r})"

    def session(self) -> TlsSession:
        """Begin one connection."""
        return TlsSession(self)


def server_tls(cluster: str, credentials: Credentials) -> Tls:
    """Return the head's side, which admits peers with a certificate of its authority.

    Raises `ValueError` for credentials that are none.
    """
    context = tls_context(ssl.PROTOCOL_TLS_SERVER, credentials, ALPN)
    # A ticket would let a session go on after its certificate has expired, and is of no use to links that last.
    context.num_tickets = 0
    return Tls(cluster, True, context)


def client_tls(cluster: str, credentials: Credentials) -> Tls:
    """Return the connecting side, which accepts only the head of `cluster`.

    Raises `ValueError` for credentials that are none.
    """
    context = tls_context(ssl.PROTOCOL_TLS_CLIENT, credentials, ALPN)
    context.check_hostname = True
    return Tls(cluster, False, context)


def tls_context(protocol: int, credentials: Credentials, alpn: str) -> ssl.SSLContext:
    """Return a context that speaks TLS 1.3 alone and verifies the peer. Raises `ValueError` for credentials that are
    none.
    """
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([alpn])
    try:
        context.load_verify_locations(cadata=credentials.authority)
        _load_key(context, credentials)
    except (ssl.SSLError, ValueError, OSError):
        # Without the cause: nothing of a key may reach a traceback.
        raise ValueError("the certificates in this access file are damaged; have it written again") from None
    return context


def _load_key(context: ssl.SSLContext, credentials: Credentials) -> None:
    """`ssl` reads keys from files alone: ours is in memory where the system can do that, and private anyway."""
    with _private_file(f"{credentials.key}\n{credentials.certificate}\n".encode()) as path:
        context.load_cert_chain(path, password="")  # else an encrypted key would ask at the terminal


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("grainlike", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(content)
            file.flush()
            yield file.name


class TlsSession:
    """TLS session of one connection, as bytes in and bytes out; `shaking` makes it ready."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        name = None if tls.is_server else name_of("head", tls.cluster)
        self._ssl = tls.context.wrap_bio(self._incoming, self._outgoing, tls.is_server, name)
        self.role: Role | None = None
        """Role of the peer by its certificate, once the handshake is done."""
        self.ended: bool = False
        """True if the peer has announced that it sends no more."""

    def shake(self, data: Buffer) -> bool:
        """Take a part of the peer's handshake; return True when it is done and the peer is authenticated.

        Raises `AuthenticationError`. Either way `take_outgoing` is what to send.
        """
        self._incoming.write(data)
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise AuthenticationError(_refusal(error)) from None
        if not _speaks_our_protocol(self._ssl.selected_alpn_protocol()):
            raise AuthenticationError(f"the other end does not speak {ALPN}")
        self.role = role_of(self._ssl, self._tls.cluster)
        return True

    def take(self, data: Buffer) -> None:
        """Take received records; `read` deciphers them."""
        self._incoming.write(data)

    def read(self, into: memoryview) -> int:
        """Fill `into` with what the peer wrote, as far as records have come; return how many bytes.

        Raises `AuthenticationError` when the peer has refused our certificate, which TLS 1.3 reports only now, and
        `ProtocolError` for what is no TLS, or was altered.
        """
        filled, size = 0, len(into)
        try:
            while filled < size:
                # With a buffer to read into it returns a count, whatever its stub says.
                count: Any = self._ssl.read(size - filled, into[filled:])
                if not count:
                    self.ended = True
                    break
                filled += count
                if not self._incoming.pending:  # else it would raise once more for every read of a socket
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if "ALERT" in (error.reason or ""):
                raise AuthenticationError(f"the other end refused our certificate: {_words(error)}") from None
            raise ProtocolError(f"what came is no TLS of this connection: {_words(error)}") from None
        return filled

    def seal(self, data: Buffer) -> bytes:
        """Return the records that carry `data`, after pending records of TLS itself, as for a change of keys."""
        self._ssl.write(data)
        return self._outgoing.read()

    def take_outgoing(self) -> bytes:
        """Return what TLS has to send in the handshake."""
        return self._outgoing.read()


def role_of(peer: ssl.SSLObject | ssl.SSLSocket, cluster: str) -> Role:
    """Return the role of the peer of a TLS connection by its certificate. Raises `AuthenticationError` for one that is
    none of this cluster.
    """
    certificate: dict[str, Any] = peer.getpeercert() or {}
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    for role in ROLES:
        if names == {name_of(role, cluster)}:
            return role
    raise AuthenticationError(f"the other end's certificate is none of cluster {cluster}")


def _refusal(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the other end's certificate does not hold here: {error.verify_message}"
    if "ALERT" in (error.reason or ""):
        return f"the other end refused us: {_words(error)}"
    return f"no TLS handshake: {_words(error)}"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or "nothing that TLS has a name for").lower().replace("_", " ")


def _speaks_our_protocol(chosen: str | None) -> bool:
    """A peer that names no protocol, or another, was not looking for us; Python lets it through the handshake."""
    return chosen == ALPN
