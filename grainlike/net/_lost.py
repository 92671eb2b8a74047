"""A link that is no more, for a conversation that waits for the next one."""

from __future__ import annotations

from grainlike.net._byte_link import ByteLink
from grainlike.net._link import OnFrames

__all__ = ["LostLink"]


class LostLink(ByteLink):
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
