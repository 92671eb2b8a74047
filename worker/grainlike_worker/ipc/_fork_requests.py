"""How a keeper is told to start a runner: one message with descriptors, and a file in memory with the rest.

The daemon sends, over a socket of sequenced packets, the descriptors of a `Birth`: first the file, then the status
socket, then those that the runner gets, named by options. Over the status socket come the process id with a descriptor
that stands for the process (so that no signal can hit a later process of that number), and at last how it ended.

The worker's connection to its head is handed over in a message of its own, and answered by nothing.
"""

import json
import os
import socket
import struct
from typing import NamedTuple

__all__ = [
    "Birth",
    "Born",
    "ask",
    "hand_over",
    "say_born",
    "say_failed",
    "say_status",
    "take",
    "told_born",
    "told_status",
]

MOST_FDS = 16

_NUMBER = struct.Struct("<i")
_BIRTH, _LINK = b"b", b"l"


class Birth(NamedTuple):
    """One runner to be: its options, its environment and directory, and its descriptors by option."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str | None
    fds: dict[str, int]


class Born(NamedTuple):
    """A runner that is there; `watch` is a pidfd."""

    pid: int
    watch: int


def ask(control: socket.socket, birth: Birth, status: socket.socket) -> None:
    """Ask for a runner; `status` is the keeper's end. All descriptors stay the caller's."""
    rest = {**birth._asdict(), "fds": list(birth.fds)}
    told = os.memfd_create("grainlike-birth")
    try:
        # Not through a file object: only the bytes matter. Surrogates of names that are no text survive JSON's escapes.
        os.write(told, json.dumps(rest).encode())
        socket.send_fds(control, [_BIRTH], [told, status.fileno(), *birth.fds.values()])
    finally:
        os.close(told)


def hand_over(control: socket.socket, link: int | None) -> None:
    """Give the keeper a descriptor of the connection to the head, or none, in place of what it has; ours stays ours."""
    socket.send_fds(control, [_LINK], [] if link is None else [link])


def take(control: socket.socket) -> "tuple[Birth, socket.socket] | list[socket.socket] | None":
    """The next request and its status socket, or the connections to hold from now on, one or none; None when nobody
    can ask any more. The descriptors are the caller's.
    """
    data, fds, _, _ = socket.recv_fds(control, 1, MOST_FDS)
    if not data:
        return None
    if data == _LINK:
        return [socket.socket(fileno=fd) for fd in fds]
    told, status, *rest = fds
    try:
        known = json.loads(os.pread(told, os.fstat(told).st_size, 0))
    finally:
        os.close(told)
    known["fds"] = dict(zip(known["fds"], rest, strict=True))
    return Birth(**known), socket.socket(fileno=status)


def say_born(status: socket.socket, born: Born) -> None:
    """The runner is there."""
    socket.send_fds(status, [_NUMBER.pack(born.pid)], [born.watch])


def say_failed(status: socket.socket, error: OSError) -> None:
    """There will be no runner."""
    status.send(_NUMBER.pack(-(error.errno or 1)))


def say_status(status: socket.socket, code: int) -> None:
    """The runner and all of its descendants are gone; `code` is as `subprocess` counts."""
    status.send(_NUMBER.pack(code))


def told_born(status: socket.socket) -> Born | None:
    """What the keeper answered; None when it did not live to. `OSError` when it could not start the runner."""
    data, fds, _, _ = socket.recv_fds(status, _NUMBER.size, 1)
    if not data:
        return None
    (number,) = _NUMBER.unpack(data)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return Born(number, fds[0])


def told_status(status: socket.socket) -> int | None:
    """How the runner ended; None when the keeper did not live to tell."""
    data = status.recv(_NUMBER.size)
    return _NUMBER.unpack(data)[0] if data else None
