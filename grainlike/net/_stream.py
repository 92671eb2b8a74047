"""A link over any byte stream of anyio's: on trio, and for streams that are no plain sockets."""

from __future__ import annotations

from typing import cast

import anyio
from anyio.abc import ByteStream, SocketAttribute

from grainlike.net._byte_link import READ_SIZE, ByteLink
from grainlike.net._link import OnFrames
from grainlike.net._tls import TlsSession
from grainlike.wire import Buffer

__all__ = ["StreamLink"]


class StreamLink(ByteLink):
    """Frames over `stream`, which it owns from now on. Inside `run`, one task reads and one writes."""

    def __init__(self, stream: ByteStream, peer: str, tls: TlsSession | None = None) -> None:
        super().__init__(peer, tls)
        self._stream = stream
        self._posted = anyio.Event()
        self._writing = False
        self._scope = anyio.CancelScope()

    def _write_soon(self) -> None:
        self._posted.set()

    def fileno(self) -> int:
        sock = self._stream.extra(SocketAttribute.raw_socket, None)  # noqa: S610 - no database here
        return -1 if sock is None else int(sock.fileno())

    async def run(self, on_frames: OnFrames) -> None:
        self._begin()
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    await self._read(on_frames)
        finally:
            await self.aclose()
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        self.close()
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()

    async def _read(self, on_frames: OnFrames) -> None:
        """Feed the callback until the stream ends. Nothing is raised from here: a task group would wrap it."""
        try:
            if self._tls is not None:
                self._receive(b"", on_frames)  # what came together with the end of the handshake
            while not self.closed:
                self._receive(await self._stream.receive(READ_SIZE), on_frames)
        except anyio.EndOfStream:
            self._hung_up()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError) as error:
            self._end(_why(error))
        except Exception as error:  # noqa: BLE001 - `run` raises it, outside the task group
            self._end(f"failed here: {error!r}", error)

    async def _write(self) -> None:
        try:
            while True:
                await self._posted.wait()
                self._posted = anyio.Event()
                self._writing = True
                while (data := self._outbox.next()) is not None:
                    await self._send(data if self._tls is None else self._tls.seal(data))
                self._writing = False
                self._wake_drainers()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError) as error:
            self._end(_why(error))

    async def _send(self, data: Buffer) -> None:
        await self._stream.send(cast("bytes", data))  # every stream takes views, and says bytes

    def _has_unsent(self) -> bool:
        return self._writing or bool(self._outbox)

    def _drop(self) -> None:
        self._outbox.clear()
        self._scope.cancel()


def _why(error: Exception) -> str:
    """Return the system's own words, where anyio wrapped them."""
    return f"connection lost: {str(error.__cause__ or error) or type(error).__name__}"
