"""Requests to a keeper to start a runner: one message with descriptors, and a file in memory with the rest.

The daemon sends, over a socket of sequenced packets, the descriptors of a `SpawnRequest`: first the file, then the
status socket, then those that the runner gets, named by options. Over the status socket come the process id with a
descriptor that stands for the process (so that no signal can hit a later process of that number), and at last how it
ended.

The worker's connection to its head is handed over in a message of its own, and answered by nothing. A message that
only asks for an answer gets one on the same socket, so that a keeper which stands still can be told from one that is
idle. No message waits for room: a keeper that reads nothing would hold up the daemon's event loop.
"""

import os
import socket
import struct
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import msgpack

__all__ = [
    "PING",
    "SpawnReply",
    "SpawnRequest",
    "answer",
    "ask",
    "hand_over",
    "has_answered",
    "ping",
    "receive_exit_status",
    "receive_reply",
    "send_exit_status",
    "send_failure",
    "send_reply",
    "take",
]

MOST_FDS = 16

_NUMBER = struct.Struct("<i")
_FORK, _LINK = b"b", b"l"

PING = b"p"
"""A message that asks for an answer, and the answer."""


class SpawnRequest(NamedTuple):
    """Request for a runner: its options, its environment and directory, and its descriptors by option."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str | None
    fds: dict[str, int]


class SpawnReply(NamedTuple):
    """A runner that is there; `watch` is a pidfd."""

    pid: int
    watch: int


def ask(control: socket.socket, spawn_request: SpawnRequest, status: socket.socket) -> None:
    """Ask for a runner; `status` is the keeper's end. All descriptors stay the caller's.

    Raises:
        BlockingIOError: the keeper has not taken what it was asked before.
        ConnectionError: it has ended.
    """
    told = os.memfd_create("grainlike-birth")
    try:
        # Not through a file object: only the bytes matter.
        os.write(told, _written(spawn_request))
        _send(control, _FORK, [told, status.fileno(), *spawn_request.fds.values()])
    finally:
        os.close(told)


def hand_over(control: socket.socket, link: int | None) -> None:
    """Give the keeper a descriptor of the connection to the head, or none, in place of what it has; ours stays ours."""
    _send(control, _LINK, [] if link is None else [link])


def ping(control: socket.socket) -> None:
    """Ask the other end for an answer. One that has not taken earlier messages need not be asked again."""
    with suppress(BlockingIOError):
        control.send(PING, socket.MSG_DONTWAIT)


def answer(control: socket.socket) -> None:
    """Answer `ping`. Nothing, where the daemon has not read earlier answers, or has ended."""
    with suppress(OSError):
        control.send(PING, socket.MSG_DONTWAIT)


def has_answered(control: socket.socket) -> bool:
    """Return whether an answer to `ping` has come.

    Raises:
        OSError: the other end is closed, or this one.
    """
    try:
        data = control.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    if not data:
        raise ConnectionError("closed by the peer")
    return True


def _send(control: socket.socket, kind: bytes, fds: Sequence[int]) -> None:
    # `socket.send_fds` has an argument for flags, and before 3.14 ignores it.
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
    control.sendmsg([kind], ancillary, socket.MSG_DONTWAIT)


def take(control: socket.socket) -> "tuple[SpawnRequest, socket.socket] | list[socket.socket] | bytes | None":
    """Return the next request and its status socket, or the connections to hold from now on, one or none, or `PING`;
    None when no process can ask any more. The descriptors are the caller's.
    """
    try:
        data, fds, _, _ = socket.recv_fds(control, 1, MOST_FDS)
    except ConnectionResetError:  # it died with answers unread, and the signal of that comes later
        return None
    if not data:
        return None
    if data == PING:
        return PING
    if data == _LINK:
        return [socket.socket(fileno=fd) for fd in fds]
    told, status, *rest = fds
    try:
        known = os.pread(told, os.fstat(told).st_size, 0)
    finally:
        os.close(told)
    return _read(known, rest), socket.socket(fileno=status)


def _written(spawn_request: SpawnRequest) -> bytes:
    """Return a request without its descriptors: as bytes, for names of the system may be no text."""
    arguments, environment, directory, fds = spawn_request
    pairs = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    place = None if directory is None else os.fsencode(directory)
    return msgpack.encode((list(map(os.fsencode, arguments)), pairs, place, list(fds)))


def _read(data: bytes, fds: Sequence[int]) -> SpawnRequest:
    arguments, pairs, place, options = msgpack.decode(data)
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs.items()}
    directory = None if place is None else os.fsdecode(place)
    return SpawnRequest(list(map(os.fsdecode, arguments)), environment, directory, dict(zip(options, fds, strict=True)))


def send_reply(status: socket.socket, spawn_reply: SpawnReply) -> None:
    """Tell who asked that the runner is there."""
    socket.send_fds(status, [_NUMBER.pack(spawn_reply.pid)], [spawn_reply.watch])


def send_failure(status: socket.socket, error: OSError) -> None:
    """Tell who asked that there will be no runner."""
    status.send(_NUMBER.pack(-(error.errno or 1)))


def send_exit_status(status: socket.socket, code: int) -> None:
    """Tell who asked that the runner and all its descendants are gone; `code` is as `subprocess` counts."""
    status.send(_NUMBER.pack(code))


def receive_reply(status: socket.socket) -> SpawnReply | None:
    """Return the keeper's answer; None if it ended before. `OSError` when it could not start the runner."""
    data, fds, _, _ = socket.recv_fds(status, _NUMBER.size, 1)
    if not data:
        return None
    (number,) = _NUMBER.unpack(data)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return SpawnReply(number, fds[0])


def receive_exit_status(status: socket.socket) -> int | None:
    """Return how the runner ended; None if the keeper ended before."""
    data = status.recv(_NUMBER.size)
    return _NUMBER.unpack(data)[0] if data else None
