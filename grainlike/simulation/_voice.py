"""Half of a connection that outlives its link: a channel in one direction, with the resend buffers that both ends
keep.
"""

from __future__ import annotations

from collections.abc import Callable

from grainlike.simulation._channel import Channel, Delay
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
from grainlike.wire import ResendBuffer

__all__ = ["Voice", "go_on"]

_Said = tuple[Callable[..., None], tuple[object, ...]]


class Voice(Channel):
    """The messages of one end. `transcript` is that end's resend buffer: what it has sent, and how much it has
    received.

    There is none in worlds where no link is opened again (`lasts` is False), as it would never be used. `back` is the
    opposite direction, once there is one. `say` is for messages of the link itself, such as its end.
    """

    __slots__ = ("back", "transcript")

    def __init__(self, clock: Clock, dice: Dice, delay: Delay, *, lasts: bool) -> None:
        super().__init__(clock, dice, delay)
        self.transcript: ResendBuffer[_Said] | None = ResendBuffer() if lasts else None
        self.back: Voice | None = None

    def answers(self, other: Voice) -> None:
        """Make the two the directions of one connection."""
        self.back, other.back = other, self

    def send(self, call: Callable[..., None], *arguments: object) -> None:
        """Send a message that is delivered once, however often the link breaks."""
        if self.transcript is None:
            self._put((call, arguments))
        else:
            self.transcript.sent((call, arguments), 1)
            self._put((self._come, (call, arguments)))

    def say(self, call: Callable[..., None], *arguments: object) -> None:
        """Send a message that is lost if the link breaks."""
        self._put((call, arguments))

    def again(self, missed: list[_Said]) -> None:
        """Send messages again that did not arrive over the last link."""
        for call, arguments in missed:
            self.say(self._come, call, arguments)

    def _come(self, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
        theirs = None if self.back is None else self.back.transcript
        if theirs is not None:
            theirs.came(1)
            if theirs.owes:
                # It draws no random number, so worlds in which no link breaks are the same as without acknowledgements.
                self._clock.after(self._delay.least, self._acknowledged, self._epoch, theirs.acknowledge())
        call(*arguments)

    def _acknowledged(self, epoch: int, count: int) -> None:
        if epoch == self._epoch and self.transcript is not None:
            self.transcript.acknowledged(count)


def go_on(one: Voice, other: Voice) -> None:
    """Open a new link: messages that did not arrive over the last one are sent again."""
    for voice in (one, other):
        voice.cut()
        voice.release()
    for voice, far in ((one, other), (other, one)):
        assert voice.transcript is not None, "a link was opened again in a world where none is"
        assert far.transcript is not None
        missed = voice.transcript.since(far.transcript.received)
        assert missed is not None, "more messages were on the way than are kept"
        voice.again(missed)
