"""Base of links over bytes, whatever carries the bytes.

A link that is no more, for a conversation that waits for the next one.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence

from grainlike.errors import AuthenticationError, ProtocolError
from grainlike.net._certificates import Role
from grainlike.net._link import Link, OnFrames
from grainlike.net._tls import TlsSession
from grainlike.net._writes import Outbox
from grainlike.payload import stand_in
from grainlike.wire import TRUSTED, Buffer, Frame, FrameDecoder, FrameLimits, Message, encode_frame

__all__ = ["READ_SIZE", "ByteLink", "ClosedLink", "ReadBuffer"]

READ_SIZE = 256 * 1024
"""The most bytes in one read."""


class ReadBuffer(threading.local):
    """Read buffer of a thread, one for all its links: a thousand workers shall not cost a thousand of them. `buffer`
    holds the last read until it is decoded, which is done before this thread reads again.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_SIZE))


_plain = ReadBuffer()


class ByteLink(Link):
    """Link that decodes frames from what it reads, and keeps those that it sends until they can be written.

    With `tls`, whose handshake is done, what is read and written are its records.
    """

    def __init__(self, peer: str, tls: TlsSession | None = None) -> None:
        super().__init__(peer)
        if tls is not None:
            self.role: Role | None = tls.role
        self._tls = tls
        self._decoder = FrameDecoder(stand_in=stand_in)
        self._outbox = Outbox()
        self._flushing = False
        """True if a write is scheduled for the end of this turn."""
        self._reads = self._reads_seen = 0
        self._row = 0
        """Number of reads since the last message that was sent."""
        self._headway_seen: tuple[int, int] | None = None

    def push(self, pieces: Sequence[Buffer]) -> bool:
        """Send an encoded frame, as the result of `encode_frame`; else as `post`. Return True if a large message waits
        to be written.
        """
        if self.reason is None:
            self._row = 0
            self._outbox.add(pieces)
            if not self._flushing:
                self._write_soon()
        return self._outbox.large > 0

    def add(self, pieces: Sequence[Buffer]) -> bool:
        """Send an encoded frame, as `push`, at the next `flush`."""
        if self.reason is None:
            self._row = 0
            self._outbox.add(pieces)
        return self._outbox.large > 0

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self.push(encode_frame(message, buffers))

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        pieces = encode_frame(message, buffers)
        if self.reason is None:  # as `add`: each lease leaves by here
            self._row = 0
            self._outbox.add(pieces)

    def flush(self) -> None:
        if self.reason is None and not self._flushing:
            self._write_soon()

    def interject(self, message: Message) -> None:
        """Send a message that is in no order with others, as `post`: it need not wait behind large ones."""
        if self.reason is None:
            self._outbox.let_pass(encode_frame(message))
            if not self._flushing:
                self._write_soon()

    @abstractmethod
    def _write_soon(self) -> None:
        """Schedule a write."""

    def trust(self, limits: FrameLimits = TRUSTED) -> None:
        super().trust(limits)
        self._decoder.limits = limits

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor of the socket below; -1 where there is none any more."""

    def still_comes(self) -> bool:
        seen, self._reads_seen = self._reads_seen, self._reads
        return self._reads > seen and not self._decoder.idle

    def waiting(self) -> int:
        return self._outbox.size()

    def stands_still(self) -> bool:
        seen, self._headway_seen = self._headway_seen, self._headway() if self._has_unsent() else None
        return seen is not None and seen == self._headway_seen

    def _headway(self) -> tuple[int, int]:
        """Value that changes whenever more of what is being written was sent."""
        return self._outbox.taken, 0

    def _receive(self, data: Buffer | None, on_frames: OnFrames, count: int = 0) -> None:
        """Pass on the frames that `data` completes, or, without data, so many bytes in the decoder's buffer.

        Errors are not raised from here: they end the link, and `run` reports them.
        """
        self._reads += 1
        try:
            if data is None:
                frames = self._decoder.filled(count)
            elif self._tls is None:
                frames = self._decoder.feed(data)
            else:
                frames = self._opened(data, self._tls)
            if frames:
                on_frames(frames)
            if self._tls is not None and self._tls.ended:
                self._hung_up()
        except Exception as error:  # noqa: BLE001 - `run` raises it, outside transports and task groups
            self._fails(error)
        except (KeyboardInterrupt, SystemExit) as stop:
            self._stopped(stop)
            raise

    def _stopped(self, stop: BaseException) -> None:
        """End the link: the rest of what was received is lost, and a program that goes on would wait for it."""
        words = f"{type(stop).__name__} came in the middle of a read, of which the rest is lost"
        self._end(words, ProtocolError(words))

    def _fails(self, error: Exception) -> None:
        """End the link for an error in what was received."""
        match error:
            case AuthenticationError():
                self._end(str(error), error)
            case ProtocolError():
                self._end(f"protocol error: {error}", error)
            case _:
                self._end(f"failed here: {error!r}", error)

    def _opened(self, records: Buffer, tls: TlsSession) -> list[Frame]:
        """The frames that TLS records complete, deciphered straight into a large buffer where one is under way."""
        tls.take(records)
        frames: list[Frame] = []
        while self._open_into(tls, frames):
            pass
        return frames

    def _open_into(self, tls: TlsSession, frames: list[Frame]) -> bool:
        """Decipher as much as there is memory for; whether there may be more."""
        room = None if self._decoder.filling is None else self._decoder.room()
        into = _plain.buffer if room is None else room
        count = tls.read(into)
        if not count:
            return False
        frames += self._decoder.feed(into[:count]) if room is None else self._decoder.filled(count)
        return count == len(into)

    def _hung_up(self) -> None:
        """The peer sends no more."""
        self._end("closed by the peer" if self._decoder.idle else "closed by the peer inside a frame")


class ClosedLink(ByteLink):
    """Closed placeholder of the link to `peer` on machine `host` from before this program was started: it sends and
    receives nothing.
    """

    def __init__(self, peer: str, host: str) -> None:
        super().__init__(peer)
        self.host = host
        self.close("the head was started again")

    def _write_soon(self) -> None:
        """Do nothing: there is no far end. `Session` keeps what it sends."""

    def fileno(self) -> int:
        return -1

    async def run(self, on_frames: OnFrames) -> None:  # noqa: ARG002 - nothing comes
        raise RuntimeError(f"{self!r} has ended")

    async def aclose(self) -> None:
        """Return at once: the link is closed."""

    def _has_unsent(self) -> bool:
        return False

    def _drop(self) -> None:
        """Do nothing: there is no connection to drop."""
