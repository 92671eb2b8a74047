"""Channel: one direction of a simulated stream, first in, first out, with delays.

As a stream loses and repeats nothing while it is open, so does a channel. It can be *held* (a partition, a frozen peer:
all messages come later), and it can be *cut* (the connection is lost, with all messages under way). The order of
messages in different channels is undefined.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice

__all__ = ["Channel", "Delay"]


_Message = tuple[Callable[..., None], tuple[object, ...]]


class Delay(msgspec.Struct, frozen=True):
    """Travel time of a message, in seconds: from `least` to `most`, and sometimes up to `spike` more."""

    least: float = 0.0
    most: float = 0.0
    spike: float = 0.0
    spiky: float = 0.0
    """Probability of a spike."""


class Channel:
    """A one-way stream. `send(call, ...)` makes `call(...)` happen at the other end."""

    __slots__ = ("_clock", "_delay", "_dice", "_due", "_epoch", "_held", "_last", "_steady", "_under_way")

    def __init__(self, clock: Clock, dice: Dice, delay: Delay) -> None:
        self._clock = clock
        self._dice = dice
        self._delay = delay
        self._steady = delay.least if delay.most <= delay.least and not delay.spiky else None
        """The delay of every message, where it does not depend on chance."""
        self._under_way: list[_Message] = []
        self._last = 0.0
        self._held = False
        self._due = 0
        self._epoch = 0

    def send(self, call: Callable[..., None], *arguments: object) -> None:
        """Send a message."""
        self._put((call, arguments))

    def _put(self, message: _Message) -> None:
        self._under_way.append(message)
        clock, steady = self._clock, self._steady
        at = clock.now + (self._travel() if steady is None else steady)
        if at < self._last:
            at = self._last
        self._last = at
        clock.at(at, self._arrive, self._epoch)

    def _travel(self) -> float:
        delay = self._delay
        seconds = self._dice.between(delay.least, delay.most)
        if self._dice.chance(delay.spiky):
            seconds += self._dice.between(0.0, delay.spike)
        return seconds

    def _arrive(self, epoch: int) -> None:
        if epoch != self._epoch:
            return
        if self._held:
            self._due += 1
            return
        call, arguments = self._under_way.pop(0)  # few messages: a deque would be larger than most channels
        call(*arguments)

    @property
    def is_held(self) -> bool:
        """True while it delivers nothing."""
        return self._held

    def hold(self) -> None:
        """Deliver nothing until `release`."""
        self._held = True

    def release(self) -> None:
        """Deliver the held messages now, in their order."""
        self._held = False
        for _ in range(self._due):
            self._clock.at(self._clock.now, self._arrive, self._epoch)
        self._due = 0

    def cut(self) -> list[_Message]:
        """Drop the messages under way; return them, for callers that deliver them late."""
        lost, self._under_way = self._under_way, []
        self._epoch += 1
        self._due = 0
        return lost
