"""What links over bytes have in common, whatever carries the bytes."""

from __future__ import annotations

from grainlike.errors import ProtocolError
from grainlike.net._link import Link, OnFrames
from grainlike.wire import AUTHENTICATED, Buffer, FrameDecoder

__all__ = ["READ_SIZE", "ByteLink"]

READ_SIZE = 256 * 1024
"""The most bytes in one read."""


class ByteLink(Link):
    """A link that makes frames of what it reads, and keeps `_pieces` of frames until they can be written."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self._decoder = FrameDecoder()
        self._pieces: list[Buffer] = []

    def trust(self) -> None:
        super().trust()
        self._decoder.limits = AUTHENTICATED

    def _receive(self, data: Buffer, on_frames: OnFrames) -> None:
        """Hand on the frames that `data` completes. Nothing is raised from here: it ends the link, and `run` tells."""
        try:
            frames = self._decoder.feed(data)
            if frames:
                on_frames(frames)
        except ProtocolError as error:
            self._end(f"protocol error: {error}", error)
        except Exception as error:  # noqa: BLE001 - `run` raises it, outside transports and task groups
            self._end(f"failed here: {error!r}", error)

    def _hung_up(self) -> None:
        """The peer sends no more."""
        self._end("closed by the peer" if self._decoder.idle else "closed by the peer inside a frame")
