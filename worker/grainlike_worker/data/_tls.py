"""TLS 1.3 between the data servers of a cluster, on blocking sockets. The certificates of both ends are workers'."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress

from grainlike.errors import AuthenticationError
from grainlike.net import Credentials, TcpAddress, keep_watch, name_of, role_of, tls_context

__all__ = ["DataTls"]

_ALPN = "grainlike-data/1"


class DataTls:
    """Both ends of connections between data servers, with a worker's `credentials` in `cluster`.

    Raises `ValueError` if the credentials are no certificate and key.

    Example::

        tls = DataTls("c1", make_credentials("c1")["worker"])
        with tls.dial(TcpAddress("n2", 7777), within_s=10.0) as peer:
            peer.sendall(encode_data(Want(name, 7, 1, 0)))
    """

    def __init__(self, cluster: str, credentials: Credentials) -> None:
        self._cluster = cluster
        self._server = tls_context(ssl.PROTOCOL_TLS_SERVER, credentials, _ALPN)
        self._server.num_tickets = 0  # no session is resumed, like at a head's listener
        self._client = tls_context(ssl.PROTOCOL_TLS_CLIENT, credentials, _ALPN)
        self._client.check_hostname = True

    def dial(self, address: TcpAddress, within_s: float) -> ssl.SSLSocket:
        """Connect to a data server, and authenticate it as a worker. `within_s` limits all of this; afterwards it is
        the time limit of each read and write.

        Raises:
            OSError: no peer answers in time, or the peer is no worker of this cluster.
        """
        until = time.monotonic() + within_s
        sock = socket.create_connection((address.numeric, address.port), within_s)
        try:
            keep_watch(sock)
            sock.settimeout(max(until - time.monotonic(), 0.001))
            peer = self._shake(self._client, sock, name_of("worker", self._cluster))
        except BaseException:
            sock.close()
            raise
        peer.settimeout(within_s)
        return peer

    def accept(self, sock: socket.socket, within_s: float) -> ssl.SSLSocket:
        """Authenticate a peer that has connected, within `within_s` seconds. The result owns the socket from then on.

        Raises:
            OSError: the peer is no worker of this cluster, or is too slow.
        """
        keep_watch(sock)
        sock.settimeout(within_s)  # `ssl` applies this to the handshake as a whole
        return self._shake(self._server, sock, None)

    def _shake(self, context: ssl.SSLContext, sock: socket.socket, name: str | None) -> ssl.SSLSocket:
        peer = context.wrap_socket(sock, server_side=name is None, server_hostname=name)
        try:
            if peer.selected_alpn_protocol() != _ALPN:
                raise AuthenticationError(f"the other end does not speak {_ALPN}")
            role = role_of(peer, self._cluster)
            if role != "worker":
                raise AuthenticationError(f"the other end has the certificate of a {role}")
        except BaseException:
            with suppress(OSError):
                peer.close()
            raise
        return peer
