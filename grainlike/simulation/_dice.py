"""Deterministic random numbers: the same seed gives the same numbers on every machine.

SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants
of S. Vigna's public-domain `splitmix64.c`). `random.Random` would do as well, but pure packages do not import `random`.
There is no logarithm here on purpose: mathematical libraries differ in the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

__all__ = ["Dice"]

T = TypeVar("T")

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class Dice:
    """A stream of random numbers.

    Example::

        dice = Dice(7)
        dice.below(6)            # 0 to 5
        dice.fork("network")     # another stream, that no change to this one disturbs
    """

    __slots__ = ("_seed", "_state")

    def __init__(self, seed: int) -> None:
        self._seed = self._state = seed & _MASK

    def fork(self, name: str) -> Dice:
        """Return the stream of that name, which depends on the seed only, not on the numbers drawn before."""
        return Dice(int.from_bytes(blake2b(f"{self._seed}/{name}".encode(), digest_size=8).digest(), "big"))

    def bits(self) -> int:
        """Return 64 random bits."""
        self._state = z = (self._state + _GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, most: int) -> int:
        """Return an integer from 0 to `most - 1`."""
        return (self.bits() * most) >> 64

    def fraction(self) -> float:
        """Return a number from 0 up to, but not including, 1."""
        return (self.bits() >> 11) * 2.0**-53

    def between(self, low: float, high: float) -> float:
        """Return a number uniformly from `low` to `high`."""
        return low + (high - low) * self.fraction()

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return probability > 0.0 and self.fraction() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.below(len(choices))]
