"""One direction of a stream: what goes in first comes out first, late, or never.

A stream loses nothing and repeats nothing while it lives, so a channel does neither. It can be *held* (a partition, a
frozen peer: all comes later), and it can be *cut* (the connection is lost, with everything that was under way).
Between two channels there is no order.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice

__all__ = ["Channel", "Delay"]


_Message = tuple[Callable[..., None], tuple[object, ...]]


class Delay(msgspec.Struct, frozen=True):
    """How long a message travels, in seconds: from `least` to `most`, and now and then up to `spike` more."""

    least: float = 0.0
    most: float = 0.0
    spike: float = 0.0
    spiky: float = 0.0
    """How often there is a spike: a probability."""


class Channel:
    """See the module. `send(call, ...)` makes `call(...)` happen at the other end."""

    __slots__ = ("_clock", "_delay", "_dice", "_due", "_epoch", "_held", "_last", "_steady", "_under_way")

    def __init__(self, clock: Clock, dice: Dice, delay: Delay) -> None:
        self._clock = clock
        self._dice = dice
        self._delay = delay
        self._steady = delay.least if delay.most <= delay.least and not delay.spiky else None
        """What every message takes, where there is no chance in it."""
        self._under_way: list[_Message] = []
        self._last = 0.0
        self._held = False
        self._due = 0
        self._epoch = 0

    def send(self, call: Callable[..., None], *arguments: object) -> None:
        """Put a message in."""
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
        call, arguments = self._under_way.pop(0)  # there are few: a deque would be larger than most channels
        call(*arguments)

    def hold(self) -> None:
        """Nothing comes out until `release`."""
        self._held = True

    def release(self) -> None:
        """What was held comes out now, in its order."""
        self._held = False
        for _ in range(self._due):
            self._clock.at(self._clock.now, self._arrive, self._epoch)
        self._due = 0

    def cut(self) -> list[_Message]:
        """Lose what is under way; return it, for those who ask what would have come late."""
        lost, self._under_way = self._under_way, []
        self._epoch += 1
        self._due = 0
        return lost
