"""Who may talk to whom: without TLS loopback only, and processes of one user."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

from grainlike.errors import AuthenticationError
from grainlike.net._address import TcpAddress

__all__ = ["check_loopback", "check_same_user", "keep_watch", "make_private_directory", "name_peer"]

_CREDENTIALS = struct.Struct("3i")

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_USER_TIMEOUT_MS = 30_000
"""How long what was written may go without an answer; after 30 s of silence a peer counts as lost anyway."""


def check_loopback(address: TcpAddress) -> None:
    """Raise `PermissionError` for a TCP address, meant without TLS, that is not this machine's own loopback."""
    if not address.is_loopback:
        raise PermissionError(
            f"{address} is not a loopback address: beyond this machine nothing goes without TLS; "
            "use the access file of the head, or tcp://127.0.0.1:PORT"
        )


def keep_watch(sock: socket.socket) -> None:
    """Let the kernel notice, within about 30 s, that the machine at the other end of a TCP connection is gone."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**_KEEPALIVE, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}.items():
        if hasattr(socket, name):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def make_private_directory(path: Path) -> None:
    """Make `path`, for its owner alone, unless it is there; then see that it is private."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private_directory(path)


def _check_private_directory(path: Path) -> None:
    """Raise `PermissionError`, with the command that mends it, unless `path` is ours and closed to everybody else."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to user id {status.st_uid}, not to us ({os.geteuid()}); choose another")
    if status.st_mode & stat.S_ISVTX:  # such as /tmp: closing it would lock everybody out
        raise PermissionError(f"{path} is for all users; choose a directory of your own in it, such as {path}/mine")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{path} is open to other users; close it with: chmod 700 {path}")


def check_same_user(sock: socket.socket) -> None:
    """Raise `AuthenticationError` if the process at the other end of a Unix socket is another user's."""
    _, uid, _ = _peer_credentials(sock)
    if uid != os.geteuid():
        raise AuthenticationError(f"the process at the other end belongs to user id {uid}, not to us ({os.geteuid()})")


def name_peer(sock: socket.socket) -> str:
    """What a log line calls the other end."""
    if sock.family == socket.AF_UNIX:
        pid, uid, _ = _peer_credentials(sock)
        return f"process {pid} of user {uid}"
    host, port = sock.getpeername()[:2]
    return f"{host}:{port}"


def _peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """The pid, uid and gid that the kernel noted when the other end connected or began to listen."""
    pid, uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid
