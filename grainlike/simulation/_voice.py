"""One direction of a conversation that outlives its link: a channel, with the transcripts that both ends keep."""

from __future__ import annotations

from collections.abc import Callable

from grainlike.simulation._channel import Channel, Delay
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
from grainlike.wire import ResendBuffer

__all__ = ["Voice", "go_on"]

_Said = tuple[Callable[..., None], tuple[object, ...]]


class Voice(Channel):
    """What one end says. `transcript` is that end's own: what it has said, and how much it has heard.

    There is none where no link breaks that is made anew (`lasts` is False): what nobody ever asks for need not be kept.
    The other end's voice is `back`, from when there is one. `say` is for what is of the link alone, as its end is.
    """

    __slots__ = ("back", "transcript")

    def __init__(self, clock: Clock, dice: Dice, delay: Delay, *, lasts: bool) -> None:
        super().__init__(clock, dice, delay)
        self.transcript: ResendBuffer[_Said] | None = ResendBuffer() if lasts else None
        self.back: Voice | None = None

    def answers(self, other: Voice) -> None:
        """The two are the ways of one conversation."""
        self.back, other.back = other, self

    def send(self, call: Callable[..., None], *arguments: object) -> None:
        """Put a message in, to come once, however often the link breaks."""
        if self.transcript is None:
            self._put((call, arguments))
        else:
            self.transcript.sent((call, arguments), 1)
            self._put((self._come, (call, arguments)))

    def say(self, call: Callable[..., None], *arguments: object) -> None:
        """Put a message in that is lost if the link breaks."""
        self._put((call, arguments))

    def again(self, missed: list[_Said]) -> None:
        """Put in what did not come over the last link."""
        for call, arguments in missed:
            self.say(self._come, call, arguments)

    def _come(self, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
        theirs = None if self.back is None else self.back.transcript
        if theirs is not None:
            theirs.came(1)
            if theirs.owes:
                # On the way it costs no chance: worlds in which no link breaks are as they were without it.
                self._clock.after(self._delay.least, self._acknowledged, self._epoch, theirs.acknowledge())
        call(*arguments)

    def _acknowledged(self, epoch: int, count: int) -> None:
        if epoch == self._epoch and self.transcript is not None:
            self.transcript.acknowledged(count)


def go_on(one: Voice, other: Voice) -> None:
    """There is a new link: what was said on the last one and did not come is said again."""
    for voice in (one, other):
        voice.cut()
        voice.release()
    for voice, far in ((one, other), (other, one)):
        assert voice.transcript is not None, "a link was made anew in a world where none is"
        assert far.transcript is not None
        missed = voice.transcript.since(far.transcript.received)
        assert missed is not None, "more messages were on the way than are kept"
        voice.again(missed)
