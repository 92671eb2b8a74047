"""Restrictions on connections: without TLS loopback only, and processes of one user. Directories of that user alone."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from grainlike._private import ANY_ACCESS, folder
from grainlike.errors import AuthenticationError

if TYPE_CHECKING:  # who only asks where files are loads no addresses
    from grainlike.net._address import TcpAddress

__all__ = ["check_loopback", "check_same_user", "keep_watch", "make_private_directory", "name_peer", "state_directory"]

_CREDENTIALS = struct.Struct("3i")

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_USER_TIMEOUT_MS = 30_000
"""Milliseconds without an answer to what was written; after 30 s of silence a peer counts as lost anyway."""


def check_loopback(address: TcpAddress) -> None:
    """Raise `PermissionError` for a TCP address, meant without TLS, that is not this machine's own loopback."""
    if not address.is_loopback:
        raise PermissionError(
            f"{address} is not a loopback address: beyond this machine nothing goes without TLS; "
            "use the access file of the head, or tcp://127.0.0.1:PORT"
        )


def keep_watch(sock: socket.socket) -> None:
    """Enable keep-alive: the kernel notices, within about 30 s, that the machine at the other end of a TCP connection
    is lost.
    """
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**_KEEPALIVE, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}.items():
        if hasattr(socket, name):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def state_directory() -> Path:
    """Return the directory of this user's access files: `$XDG_STATE_HOME/grainlike` or `~/.local/state/grainlike`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state, "grainlike")
    home = os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir
    return Path(home, ".local", "state", "grainlike")


def make_private_directory(path: Path) -> None:
    """Make `path` and its missing parents, for the owner alone; raise `PermissionError` unless it is private."""
    os.close(folder(path, ANY_ACCESS, make=True, follow=True))


def check_same_user(sock: socket.socket) -> None:
    """Raise `AuthenticationError` if the process at the other end of a Unix socket is another user's."""
    _, uid, _ = _peer_credentials(sock)
    if uid != os.geteuid():
        raise AuthenticationError(f"the process at the other end belongs to user id {uid}, not to us ({os.geteuid()})")


def name_peer(sock: socket.socket) -> str:
    """Return the name of the other end for log lines."""
    if sock.family == socket.AF_UNIX:
        pid, uid, _ = _peer_credentials(sock)
        return f"process {pid} of user {uid}"
    host, port = sock.getpeername()[:2]
    return f"{host}:{port}"


def _peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """Return the pid, uid and gid that the kernel noted when the other end connected or began to listen."""
    pid, uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid
