"""Unix sockets in the file system: private, never in the way of a living listener, gone when closed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grainlike.net._address import UnixAddress
from grainlike.net._guard import make_private_directory

__all__ = ["UnixListener"]


class UnixListener(msgspec.Struct, frozen=True):
    """A bound socket and the file that leads to it."""

    socket: socket.socket
    path: Path
    inode: tuple[int, int]

    @classmethod
    def open(cls, address: UnixAddress, backlog: int) -> UnixListener:
        """Listen at `address`, replacing a stale socket file."""
        make_private_directory(address.path.parent)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _alone_in(address.path.parent):
                _clear(address)
                sock.bind(str(address.path))
                address.path.chmod(0o600)
                # Between bind and listen a probe would find no listener, and take the file for a stale one.
                sock.listen(backlog)
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)
        return cls(sock, address.path, _inode(address.path))

    def remove(self) -> None:
        """Remove the file, unless it was replaced by another."""
        with contextlib.suppress(FileNotFoundError):
            if _inode(self.path) == self.inode:
                self.path.unlink()


def _inode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep others of us from looking and replacing at the same moment, which could unlink a living socket."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear(address: UnixAddress) -> None:
    try:
        mode = address.path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, f"cannot listen at {address}: a file that is no socket stands there")
    if _answers(address.path):
        raise OSError(errno.EADDRINUSE, f"cannot listen at {address}: another process listens there")
    address.path.unlink(missing_ok=True)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(str(path)) not in {errno.ECONNREFUSED, errno.ENOENT}
