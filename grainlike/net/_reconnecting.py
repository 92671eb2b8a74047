"""Link to a head that reconnects when it breaks: its users notice nothing but the delay."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import anyio
from msgspec.structs import replace

from grainlike.errors import AuthenticationError, GrainlikeError, HeadLostError
from grainlike.net._byte_link import ByteLink
from grainlike.net._certificates import Role
from grainlike.net._link import Link, OnFrames
from grainlike.net._process import is_gone
from grainlike.net._resumable_session import ResumableSession
from grainlike.wire import TRUSTED, Buffer, ConnectingHandshake, Frame, FrameLimits, Hello, Message, Welcome

__all__ = ["RETURN_S", "ReconnectingLink", "Redial", "waits"]

logger = logging.getLogger("grainlike.net")

Redial = Callable[[], Awaitable[Link]]
"""Connects to the same head again; raises `OSError` when it does not answer."""

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0

GREETING_S = 10.0
"""Seconds that a head may take to answer a reconnection."""

RETURN_S = 300.0
"""Seconds for which a head that survives its process may be away."""


class ReconnectingLink(Link):
    """Link that reconnects. `first` is connected; `redial` makes the next ones, until `patience_s` after the last
    message, or, of a head that announces that it returns, `return_s`.

    What is posted before the welcome belongs to `first` alone; if that breaks there is no session to resume. `reason`
    is why it ended: the head sent `Goodbye`, was found dead, or did not answer for that long. What belongs to the link
    alone, as queries do, is lost with it: `returned` is called when there is another.

    Raises, from `run`:
        HeadLostError: the head has given us up meanwhile; a new connection would be a new worker or client to it.
        AuthenticationError, VersionMismatchError: it is another head now, which refuses us.
    """

    def __init__(self, first: ByteLink, redial: Redial, patience_s: float, return_s: float = RETURN_S) -> None:
        super().__init__(first.peer)
        self.host: str = first.host
        self.role: Role | None = first.role
        self.trusted: bool = first.trusted
        self._link = first
        self._redial = redial
        self._patience_s = patience_s
        self._return_s = return_s
        self.admitted: Callable[[], object] | None = None
        """Called when a head has admitted us over it, before what else it says is heard."""
        self.returned: Callable[[], object] | None = None
        self.in_vain: bool = False
        """True if it ended because the head was dead or away for too long, or another had taken its place."""
        self._heard = time.monotonic()
        self._silent = False
        self._hello: Hello | None = None
        self._welcome: Welcome | None = None
        self._session: ResumableSession | None = None
        self._waits = waits()
        self._on_carrier: Callable[[ByteLink], None] | None = None
        self._scope = anyio.CancelScope()

    @property
    def broken(self) -> bool:
        """True while nothing can reach the head: the link has ended, or connects again."""
        return self.closed or self._link.closed

    @property
    def joined(self) -> bool:
        """True if a head has admitted us over it."""
        return self._welcome is not None

    @property
    def returns(self) -> bool:
        """True if that head survives its process."""
        return self._welcome is not None and self._welcome.returns

    def carried_by(self, tell: Callable[[ByteLink], None]) -> None:
        """Call `tell` with the link that carries it now, and with each that does so later."""
        self._on_carrier = tell
        tell(self._link)

    def fileno(self) -> int:
        """Return the descriptor of the socket that carries it now; -1 without one."""
        return self._link.fileno()

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if isinstance(message, Hello):
            self._hello = message
        if self.reason is not None:
            return
        if self._session is None:
            self._link.post(message, buffers)
        else:
            self._session.post(message, buffers)

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if self._session is None:
            self.post(message, buffers)
        elif self.reason is None:
            self._session.enqueue(message, buffers)

    def flush(self) -> None:
        self._link.flush()

    async def run(self, on_frames: OnFrames) -> None:
        self._begin()
        try:
            with self._scope:
                await self._run(on_frames)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        self.close()
        await self._link.aclose()

    async def _run(self, on_frames: OnFrames) -> None:
        await self._link.run(partial(self._hear, on_frames=on_frames))
        while not self.closed and (link := await self._next_link()) is not None:
            with anyio.move_on_after(GREETING_S) as patience:
                await link.run(partial(self._hear_anew, on_frames=on_frames, link=link, patience=patience))
            await link.aclose()

    async def _next_link(self) -> Link | None:
        """Connect until the head answers; return None, with `reason` set, when retrying is of no use any more."""
        told = False
        while True:
            why = self._why_over(dialled=told)
            if why is not None:
                self._end(why)
                return None
            if not told:
                logger.warning("the link to %s has broken (%s); connecting again", self.peer, self._link.reason)
                told = True
            await anyio.sleep(next(self._waits))
            try:
                link = await self._redial()
            except (AuthenticationError, PermissionError) as error:
                self.in_vain = True
                self._end(f"what answers there is not our head any more: {error}")
                return None
            except (OSError, GrainlikeError, ValueError) as error:
                logger.debug("connecting to %s again: %s", self.peer, error)
            else:
                assert self._hello is not None
                assert self._session is not None
                link.post(replace(self._hello, received=self._session.received, resumes=True))
                return link

    def _hear(self, frames: list[Frame], on_frames: OnFrames) -> None:
        self._heard = time.monotonic()
        self._silent = False
        at = 0
        if self._session is None and frames and isinstance(frames[0].message, Welcome):
            at = 1
            self._welcomed(frames[0].message)  # first: what is said in answer is numbered already
            on_frames(frames[:1])
        heard = frames[at:] if self._session is None else self._session.hear(frames[at:])
        if heard:
            on_frames(heard)
        if self._session is not None and self._session.over is not None:
            self._end(f"the head at {self.peer} said that {self._session.over}")

    def _hear_anew(self, frames: list[Frame], on_frames: OnFrames, link: Link, patience: anyio.CancelScope) -> None:
        """Take a read of a reconnected link: the welcome comes first."""
        if self._link is not link:
            assert self._hello is not None
            assert self._session is not None
            dialer = ConnectingHandshake(self._hello)
            dialer.receive(frames[0].message)
            assert dialer.welcome is not None
            received = dialer.welcome.received
            if not (isinstance(link, ByteLink) and self._session.go_on(link, received)):
                raise HeadLostError(f"the head at {self.peer} cannot go on with us: {self._session.why_not(received)}")
            self._link, self._welcome, frames = link, dialer.welcome, frames[1:]
            self.peer: str = link.peer
            self.host = link.host
            if self._on_carrier is not None:
                self._on_carrier(link)
            self._waits = waits()
            patience.deadline = math.inf
            logger.warning("the link to %s is there again", self.peer)
            if self.returned is not None:
                self.returned()
        self._hear(frames, on_frames)

    def _welcomed(self, welcome: Welcome) -> None:
        self._welcome = welcome
        if welcome.received >= 0:
            self._session = ResumableSession(self._link)
        if self.admitted is not None:
            self.admitted()

    def _why_over(self, *, dialled: bool) -> str | None:
        """Return why retrying is of no use, or None.

        A link that broke and was not found silent may have broken because this process was suspended: the head has to
        decide then.
        """
        if self._session is None or self._welcome is None:
            return f"the head at {self.peer} is gone: {self._link.reason or 'closed'}"
        returns = self._welcome.returns
        if not returns and is_gone(self._welcome.process):
            self.in_vain = True
            return f"the head at {self.peer} is dead"
        patience_s = self._return_s if returns else self._patience_s
        if (dialled or self._silent) and time.monotonic() - self._heard >= patience_s:
            self.in_vain = True
            silence = f"nothing was heard of the head at {self.peer} for {patience_s:g} s"
            return silence if self._silent else f"{silence}: {self._link.reason}"
        return None

    def give_up(self, reason: str) -> None:
        if not self._link.closed and time.monotonic() - self._heard >= self._patience_s:  # or it was made again
            logger.warning("giving up the link to %s: %s", self.peer, reason)
            self._silent = True
            self._link.close(reason)

    def _has_unsent(self) -> bool:
        return self._link._has_unsent()

    async def drain(self, timeout: float | None = None) -> bool:
        return await self._link.drain(timeout)  # what waits for another link is not waited for

    def trust(self, limits: FrameLimits = TRUSTED) -> None:
        super().trust(limits)
        self._link.trust(limits)

    def waiting(self) -> int:
        return self._link.waiting()

    def unacknowledged(self) -> int:
        return self._link.waiting() if self._session is None else self._session.unacknowledged

    def stands_still(self) -> bool:
        return self._link.stands_still()

    def still_comes(self) -> bool:
        comes = self._link.still_comes()
        if comes:
            self._heard = time.monotonic()
        return comes

    def _drop(self) -> None:
        self._link.close(self.reason or "closed")
        self._scope.cancel()


def waits() -> Iterator[float]:
    """Iterate over the seconds to wait before each further try: they double, and chance takes off up to half."""
    wait = FIRST_WAIT_S
    while True:
        yield wait * random.uniform(0.5, 1.0)  # noqa: S311 - so that many do not come at once
        wait = min(2 * wait, LONGEST_WAIT_S)
