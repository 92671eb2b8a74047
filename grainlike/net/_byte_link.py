"""What links over bytes have in common, whatever carries the bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from grainlike.errors import AuthenticationError, ProtocolError
from grainlike.net._link import Link, OnFrames
from grainlike.net._tls import TlsSession
from grainlike.wire import TRUSTED, Buffer, FrameDecoder, FrameLimits, Message, encode_frame

__all__ = ["ByteLink"]


class ByteLink(Link):
    """A link that makes frames of what it reads, and keeps `_pieces` of frames until they can be written.

    With `tls`, whose handshake is done, what is read and written are its records.
    """

    def __init__(self, peer: str, tls: TlsSession | None = None) -> None:
        super().__init__(peer)
        if tls is not None:
            self.role = tls.role
        self._tls = tls
        self._decoder = FrameDecoder()
        self._pieces: list[Buffer] = []
        self._reads = self._reads_seen = 0

    @abstractmethod
    def push(self, pieces: Sequence[Buffer]) -> None:
        """Send what `encode_frame` made of a message; else as `post`."""

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if self.reason is None:
            self.push(encode_frame(message, buffers))

    def trust(self, limits: FrameLimits = TRUSTED) -> None:
        super().trust(limits)
        self._decoder.limits = limits

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor of the socket below; -1 where there is none any more."""

    def still_comes(self) -> bool:
        seen, self._reads_seen = self._reads_seen, self._reads
        return self._reads > seen and not self._decoder.idle

    def _receive(self, data: Buffer, on_frames: OnFrames) -> None:
        """Hand on the frames that `data` completes. Nothing is raised from here: it ends the link, and `run` tells."""
        self._reads += 1
        try:
            if self._tls is None:
                frames = self._decoder.feed(data)
            else:
                frames = [frame for plain in self._tls.open(data) for frame in self._decoder.feed(plain)]
            if frames:
                on_frames(frames)
            if self._tls is not None and self._tls.ended:
                self._hung_up()
        except AuthenticationError as error:
            self._end(str(error), error)
        except ProtocolError as error:
            self._end(f"protocol error: {error}", error)
        except Exception as error:  # noqa: BLE001 - `run` raises it, outside transports and task groups
            self._end(f"failed here: {error!r}", error)

    def _hung_up(self) -> None:
        """The peer sends no more."""
        self._end("closed by the peer" if self._decoder.idle else "closed by the peer inside a frame")
