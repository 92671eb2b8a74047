"""Interface of every connection, whatever carries it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import anyio

from grainlike.net._certificates import Role
from grainlike.wire import TRUSTED, Buffer, Frame, FrameLimits, Message

__all__ = ["Link", "OnFrames"]

OnFrames = Callable[[list[Frame]], object]
"""Takes the frames of one read, in order; what it returns is ignored. Runs in the event loop: it must not block."""


class Link(ABC):
    """An ordered, reliable, two-way way to another process or task.

    The hot path is synchronous: `post` appends to the batch that leaves at the end of this turn of the event loop, and
    `run` hands each read's frames to a callback. What is enqueued leaves at `flush`, without another turn of the loop.
    A link lives in one event loop and is not thread-safe.

    The receiver of a link owns it: run it, or `await link.aclose()`. Cancelling `run` closes the link, because a
    frame that was half written can never be finished.

    Example::

        link = await connect("unix:///run/user/1000/grainlike/head.sock")
        link.post(hello)
        await link.run(lambda frames: print(frames))
        print(link.reason)
    """

    def __init__(self, peer: str) -> None:
        self.peer: str = peer
        self.host = "localhost"
        """The machine at the other end, by the address that it has from here."""
        self.role: Role | None = None
        """Role of the peer by its certificate; None on links that have none, between processes of one user."""
        self.reason: str | None = None
        self.trusted: bool = False
        self._failure: BaseException | None = None
        self._ran = False
        self._emptied: anyio.Event | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self.peer}{'' if self.reason is None else f', {self.reason}'}>"

    @property
    def closed(self) -> bool:
        """True once the link has ended, for whatever `reason`."""
        return self.reason is not None

    @property
    def broken(self) -> bool:
        """True while nothing can reach the far end: the link has ended, or connects again."""
        return self.closed

    @abstractmethod
    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send `message` with `buffers`; never waits. On a closed link this does nothing: `run` reports the end.

        The buffers are not copied: do not change them until they have left (`drain`).
        """

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Add a message, as `post` does, to what leaves at the next `flush`, or with what is posted before that."""
        self.post(message, buffers)

    def flush(self) -> None:  # noqa: B027 - of a link that sends at once, nothing waits
        """Send now what was enqueued; where that cannot be, it leaves as what is posted does. It never waits."""

    @abstractmethod
    async def run(self, on_frames: OnFrames) -> None:
        """Receive until the link ends; call `on_frames` once for each read. May be called once.

        Returns when the peer closed, when the connection broke, or after `close`; `reason` is which. Raises
        `ProtocolError` for bytes that are no frames, and whatever `on_frames` raises. Either way the link is closed.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close, and wait until the socket is closed. Not cut short by cancellation; it waits for nothing remote."""

    def close(self, reason: str = "closed here") -> None:
        """End the link now; the second time does nothing. What has not left is dropped: `drain` first to keep it."""
        self._end(reason)

    def give_up(self, reason: str) -> None:
        """End the link, as the far end has been silent for too long. A link that reconnects does so."""
        self.close(reason)

    def trust(self, limits: FrameLimits = TRUSTED) -> None:  # noqa: ARG002 - what it means is said by those that decode
        """Allow frames of any kind, up to `limits`: the peer has proved who it is. Until then only a handshake fits
        through.
        """
        self.trusted = True

    def still_comes(self) -> bool:
        """Return True if more of an incomplete frame has come since the last call: its sender is alive."""
        return False

    def waiting(self) -> int:
        """Return about how many bytes that were posted wait on this side, behind the batch that is being written.
        They are recounted on each call: this is not for the hot path.
        """
        return 0

    def unacknowledged(self) -> int:
        """Return about how many bytes the far end has not received for certain, as far as this is known here."""
        return self.waiting()

    def stands_still(self) -> bool:
        """Return True if something waits to be sent, and nothing was sent since the last call: the far end does not
        read.
        """
        return False

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds until all that was posted has left; False if it has not, or the link ended."""
        with anyio.move_on_after(timeout):
            while not self.closed and self._has_unsent():
                if self._emptied is None:
                    self._emptied = anyio.Event()
                await self._emptied.wait()
        return not self.closed and not self._has_unsent()

    @abstractmethod
    def _has_unsent(self) -> bool:
        """Return True if something posted is still on this side."""

    @abstractmethod
    def _drop(self) -> None:
        """Drop the connection, without waiting. Called once."""

    def _begin(self) -> None:
        if self._ran:
            raise RuntimeError(f"{self!r} can be run only once")
        self._ran = True

    def _end(self, reason: str, failure: BaseException | None = None) -> None:
        """The one way out: the first reason stays, and `failure` is what `run` raises."""
        if self.reason is not None:
            return
        self.reason = reason
        self._failure = failure
        self._drop()
        self._wake_drainers()

    def _wake_drainers(self) -> None:
        if self._emptied is not None:
            self._emptied.set()
            self._emptied = None
