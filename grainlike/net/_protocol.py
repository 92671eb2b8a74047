"""A link on asyncio's own transports: half the latency of a stream, and no task of its own."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import anyio

from grainlike.eventloop import LOOP_POLL_S, LoopRhythm, fairness_of, polling_of
from grainlike.net._byte_link import READ_SIZE, ByteLink, ReadBuffer
from grainlike.net._link import OnFrames
from grainlike.net._tls import TlsSession
from grainlike.wire import Buffer, Frame

__all__ = ["ProtocolLink"]

_incoming = ReadBuffer()  # one for all links of a thread: a buffer of its own for each would be most of its memory

_QUICK_S = 0.001
"""Seconds of one read after which no more of this socket is read in the turn."""

_LONG_S = 0.01
"""Seconds that one read should take at most; none is smaller than `_LEAST` bytes for that."""

_LEAST = 4 * 1024

_HEAVY = 32 * 1024
"""A read of so many bytes may be thousands of tiny calls, and long also where there are few links."""

_SLICE = 4
"""Number of messages that are passed on between two checks of whether the turn is over."""

_ROW = 8
"""Number of reads in a row, without a message of ours between them, after which their rate is looked at."""

_ROW_S = 0.004
"""Seconds within which so many reads are many, and come too often."""

_SMALL = 16 * 1024
"""Bytes of a read beyond which it is worth its turn, however often there is one."""

_REST_S = 0.001
"""Seconds that small reads that come too often are let gather."""


class _Gathering:
    """Gathering of small reads: `on` while none is taken; how often they come was last `looked` at then (monotonic)."""

    __slots__ = ("looked", "on")

    def __init__(self) -> None:
        self.looked = 0.0
        self.on = False


class ProtocolLink(ByteLink, asyncio.BufferedProtocol):
    """Frames over an asyncio transport, which it owns once connected; `adopt` and `connect` make these."""

    def __init__(self, peer: str, tls: TlsSession | None = None) -> None:
        super().__init__(peer, tls)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._early = b""
        self._later: list[Frame] = []
        """Frames that have been read and are passed on in a later turn; `_early` follows them."""
        self._on_frames: OnFrames | None = None
        self._in_room = False
        self._full = False
        self._fairness = fairness_of(self._loop)
        self._gathering = _Gathering()
        # The polling is kept there: with 30 attributes, those of a link take a kilobyte more.
        self._rhythm = LoopRhythm(LOOP_POLL_S, polling_of(self._loop))
        self._cost = 0.0
        """Seconds that a read takes, as they do of late."""
        self._portion = READ_SIZE
        self._gone = anyio.Event()

    # --- what owners of a link do ------------------------------------------------------------------------------------

    def _write_soon(self) -> None:
        self._flushing = True
        if self._gathering.on:
            # What gathered is read before: a write to a peer that has gone meanwhile ends the link without it. The loop
            # looks at its sockets after the calls of a turn.
            self._end_rest()
            self._loop.call_soon(self._loop.call_soon, self._flush)
        else:
            self._loop.call_soon(self._flush)

    def flush(self) -> None:
        if self._gathering.on:
            super().flush()
        else:
            self._write()

    def fileno(self) -> int:
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if sock is None else int(sock.fileno())

    async def run(self, on_frames: OnFrames) -> None:
        self._begin()
        self._on_frames = on_frames
        try:
            if self._transport is not None and not self.closed:
                self._transport.resume_reading()
                early, self._early = self._early, b""
                self._receive(early, on_frames)
            await self._gone.wait()
        finally:
            await self.aclose()
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        self.close()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()

    # --- what the transport does -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By its word, not its class: uvloop's transports are no subclasses of asyncio's.
        transport = self._transport = cast("asyncio.Transport", transport)
        # Nothing waits in the transport beside the one write under way: what drains and what is dropped is ours to say.
        transport.set_write_buffer_limits(high=0)
        self._fairness.enter(1)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the transport's signature
        if self._decoder.filling is None or self._tls is not None:
            self._in_room = False
            return _incoming.buffer if self._portion == READ_SIZE else self._scratch()
        room = self._decoder.room()
        self._in_room = room is not None
        return self._scratch() if room is None else room

    def _scratch(self) -> memoryview:
        return _incoming.buffer if self._portion == READ_SIZE else _incoming.buffer[: self._portion]

    def buffer_updated(self, nbytes: int) -> None:
        until = self._rhythm.next()
        if until:
            self._rhythm.polling.poll(until)
        self._row += 1
        if self._row >= _ROW:
            self._moderate(nbytes)
        if self._in_room:
            assert self._on_frames is not None
            self._receive(None, self._on_frames, nbytes)
            return
        received = _incoming.buffer[:nbytes]
        if self._on_frames is None or self._early or self._later:
            # No reader is set yet, so no more for now. Pausing in `connection_made` would not do: uvloop reads all the
            # same.
            self._early += bytes(received)
            self._pause()
        elif not self._fairness.crowded and nbytes < _HEAVY:
            # Without `_take`, which looks at the clock twice: few links keep no other waiting.
            self._receive(received, self._on_frames)
        elif self._fairness.over:
            self._early = bytes(received)
            self._pause()
            self._wait()
        else:
            self._take(received)

    def _moderate(self, nbytes: int) -> None:
        """Let what comes gather for a moment, where small reads come one upon the other and we send nothing between.

        As network cards moderate interrupts: a turn of the loop for each of a few thousand reports a second would take
        longer than all that is in them. A peer that waits for us has a message of ours between two of its own.
        """
        gathering, now = self._gathering, time.monotonic()
        often = now - gathering.looked < _ROW_S
        gathering.looked = now
        self._row = 0
        if often and nbytes < _SMALL:
            self._row = _ROW - 1  # the next is looked at again: it has what gathered
            gathering.on = True
            self._pause()
            self._loop.call_later(_REST_S, self._end_rest)

    def _end_rest(self) -> None:
        if self._gathering.on:
            self._gathering.on = False
            self._read_on()

    def _take(self, data: Buffer) -> None:
        """Take a read, or continue one, and yield to others where that took long.

        A loop may read one socket again and again while bytes are there, and thousands of tiny calls may be in one
        read: so the next one waits for another turn, and is smaller; and so do messages for which this one has no time.
        """
        begun = time.thread_time()
        if self._later:
            self._go_on(self._hand_on)
        if self._later:
            self._early = bytes(data)
        elif data:
            self._receive(data, self._hand_on)
        took = time.thread_time() - begun
        self._fairness.spend(took, self.role or "")
        self._cost = (self._cost + took) / 2
        if self._later:
            self._pause()
            self._wait()
        elif took > _QUICK_S:
            self._pause()
            self._loop.call_soon(self._read_on)
        if took > _LONG_S:
            self._portion = max(_LEAST, self._portion // 2)
        elif took < _QUICK_S and self._portion < READ_SIZE:
            self._portion *= 2

    def _hand_on(self, frames: list[Frame]) -> None:
        """Hand on as many messages as this turn has time for; all of them if they are the last."""
        assert self._on_frames is not None
        if len(frames) <= _SLICE or (self._tls is not None and self._tls.ended):
            self._on_frames(frames)
            return
        until = time.thread_time() + self._fairness.left
        for at in range(0, len(frames), _SLICE):
            if at and time.thread_time() >= until:
                self._later = frames[at:]
                return
            self._on_frames(frames[at : at + _SLICE])

    def _go_on(self, on_frames: OnFrames) -> None:
        frames, self._later = self._later, []
        try:
            on_frames(frames)
        except Exception as error:  # noqa: BLE001 - as in `_receive`
            self._fails(error)
        except (KeyboardInterrupt, SystemExit) as stop:
            self._stopped(stop)
            raise
        if self._flushing:
            self._write()

    def _wait(self) -> None:
        self._fairness.wait(self._catch_up, self._cost, self.role or "")

    def _catch_up(self) -> None:
        """Take reads that had to wait."""
        if self._on_frames is not None and self.reason is None:
            kept, self._early = self._early, b""
            self._take(kept)
            if not self._later:
                self._loop.call_soon(self._read_on)

    def _pause(self) -> None:
        if self._transport is not None and self.reason is None:
            self._transport.pause_reading()

    def _read_on(self) -> None:
        # While something waits for its turn nothing is read: it might pass what waits, or end the link before that.
        if self._transport is not None and self.reason is None and not (self._early or self._later):
            self._transport.resume_reading()

    def _receive(self, data: Buffer | None, on_frames: OnFrames, count: int = 0) -> None:
        # An answer leaves in the turn that asked for it: a trip through the selector would double the latency. So what
        # is posted meanwhile needs no write of its own.
        scheduled, self._flushing = self._flushing, True
        try:
            super()._receive(data, on_frames, count)
        finally:
            self._flushing = scheduled
        if self._outbox.frames:
            if self._gathering.on:
                self._end_rest()
            self._write()

    def eof_received(self) -> None:
        self._hung_up()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._on_frames is not None and self.reason is None:
            if self._later:
                self._go_on(self._on_frames)
            if self._early:
                self._receive(self._early, self._on_frames)
        self._end(f"connection lost: {exc or 'closed by the system'}")
        self._fairness.enter(-1)
        self._gone.set()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        # Not at once: asyncio's transport asks for more in the midst of a write, and ends twice if another breaks it.
        self._full = False
        if not self._flushing:
            self._write_soon()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._flushing = False
        self._write()

    def _write(self) -> None:
        """Write until the socket is full; `resume_writing` comes back here."""
        transport, outbox, again = self._transport, self._outbox, False
        while transport is not None and not self._full and self.reason is None:
            data = outbox.next()
            if data is not None:
                # One that broke in the last write tells us in a later turn, and complains of each write until then.
                if again and transport.is_closing():
                    return
                transport.write(data if self._tls is None else self._tls.seal(data))
                until = self._rhythm.begin()
                if until:
                    self._rhythm.polling.poll(until)
                again = True
                if outbox.more or self._full:
                    continue
            if self._emptied is not None:
                self._wake_drainers()
            return

    def waiting(self) -> int:
        return super().waiting() + self._headway()[1]

    def _headway(self) -> tuple[int, int]:
        size = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._outbox.taken, size

    def _has_unsent(self) -> bool:
        return self._full or bool(self._outbox)

    def _drop(self) -> None:
        self._outbox.clear()
        if self._transport is None:
            self._gone.set()
        else:
            self._transport.abort()
