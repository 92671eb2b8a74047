"""A runner's end of its socket, blocking: for a process that has no event loop and wants none."""

import os
import select
import socket
import time
from collections.abc import Iterable, Sequence

from grainlike.eventloop import RUNNER_POLL_S, Rhythm
from grainlike.payload import stand_in
from grainlike.wire import TRUSTED, Buffer, Frame, FrameDecoder, Message, encode_frame

__all__ = ["LinkEndedError", "Pipe"]

_READ_SIZE = 256 * 1024
_SMALL = 64 * 1024


class LinkEndedError(Exception):
    """The worker is gone, or wants this runner gone: there is no worker left to work for."""


class Pipe:
    """Frames over a blocking socket that came with the process: the other end is its parent, and trusted."""

    __slots__ = ("_decoder", "_incoming", "_poll", "_rhythm", "_socket", "_watched", "look", "ready")

    def __init__(self, sock: socket.socket) -> None:
        self._watched: set[int] = set()
        self.ready: list[int] = []
        """Those of the descriptors to `watch` that the last `poll` has found readable."""
        sock.setblocking(True)
        self._socket = sock
        self._rhythm = Rhythm(RUNNER_POLL_S)
        self._decoder = FrameDecoder(TRUSTED, stand_in)
        self._incoming = memoryview(bytearray(_READ_SIZE))  # kept: the system would map and unmap it for every read
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.look = self._poll.poll
        """Returns what `take` is to be given; `look(0)` waits for nothing."""

    def watch(self, fds: Iterable[int]) -> None:
        """Look at these too whenever there is a `poll`: that costs less than another system call."""
        for fd in fds:
            self._watched.add(fd)
            self._poll.register(fd, select.POLLIN)

    @property
    def fd(self) -> int:
        """The descriptor, for an event loop that watches it; -1 once closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this process's descriptor; a process that shares the socket keeps its own."""
        self._socket.close()

    def receive(self) -> list[Frame]:
        """Wait for bytes; return the frames that they complete. `LinkEndedError` at the end of the stream."""
        until = self._rhythm.begin()
        if until:
            while not self.look(0) and time.monotonic() < until:
                os.sched_yield()  # others with work for this processor go first: it may be the daemon
        frames = self._read()
        self._rhythm.next()
        return frames

    def _read(self) -> list[Frame]:
        room = self._decoder.room()
        try:
            count = self._socket.recv_into(self._incoming if room is None else room)
        except ConnectionError:
            count = 0
        if not count:
            raise LinkEndedError
        return self._decoder.feed(self._incoming[:count]) if room is None else self._decoder.filled(count)

    def wait(self) -> None:
        """Wait for bytes, or the end of the stream, whatever else is watched."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.poll()

    def poll(self) -> list[Frame]:
        """Return the frames that have come; an empty list at once where none has."""
        found = self.look(0)
        return self.take(found) if found else []

    def take(self, found: Sequence[tuple[int, int]]) -> list[Frame]:
        """Return the frames that have come, and note in `ready` where else there is something; `found` is not empty."""
        self.ready = [fd for fd, _ in found if fd in self._watched]
        return self._read() if len(self.ready) < len(found) else []

    def send(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a frame, and wait until the system has all of it. `LinkEndedError` if it will not be read."""
        pieces = encode_frame(message, buffers)
        try:
            if sum(map(len, pieces)) <= _SMALL:
                self._socket.sendall(b"".join(pieces))
            else:
                for piece in pieces:
                    self._socket.sendall(piece)
        except ConnectionError:
            raise LinkEndedError from None
