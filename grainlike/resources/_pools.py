"""Which ids are free: cores in a bit mask, devices with what is left of each."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from grainlike.resources._quantity import UNIT


class Pool(Protocol):
    """The free pieces of one kind; amounts are nano-units. `take` follows a `holds` that said yes."""

    def holds(self, units: int) -> bool: ...
    def take(self, units: int) -> tuple[int, ...]: ...
    def give(self, ids: tuple[int, ...], units: int) -> None: ...


class CorePool:
    """Whole pieces: bit i of the mask says that id i is free. A grant costs the size of the request."""

    __slots__ = ("_free",)

    def __init__(self, ids: Iterable[int]) -> None:
        self._free = _mask(ids)

    def holds(self, units: int) -> bool:
        return units % UNIT == 0 and self._free.bit_count() >= units // UNIT

    def take(self, units: int) -> tuple[int, ...]:
        ids = lowest_compact(self._free, units // UNIT)
        self._free &= ~_mask(ids)
        return ids

    def give(self, ids: tuple[int, ...], units: int) -> None:  # noqa: ARG002 -- the same for every pool
        self._free |= _mask(ids)


class DevicePool:
    """Devices that are given whole, or shared by fractions that never span two of them."""

    __slots__ = ("_left", "_whole")

    def __init__(self, ids: tuple[int, ...], units: int) -> None:
        share = units // len(ids)
        self._left = dict.fromkeys(ids, share)
        self._whole = _mask(ids) if share == UNIT else 0

    def holds(self, units: int) -> bool:
        if units < UNIT:
            return any(left >= units for left in self._left.values())
        return units % UNIT == 0 and self._whole.bit_count() >= units // UNIT

    def take(self, units: int) -> tuple[int, ...]:
        # The fullest device that still has room, so that whole devices stay whole.
        ids = (self._fullest(units),) if units < UNIT else lowest_compact(self._whole, units // UNIT)
        for one in ids:
            self._left[one] -= units // len(ids)
        self._whole &= ~_mask(ids)
        return ids

    def give(self, ids: tuple[int, ...], units: int) -> None:
        for one in ids:
            self._left[one] += units // len(ids)
            if self._left[one] == UNIT:
                self._whole |= 1 << one

    def _fullest(self, units: int) -> int:
        return min((left, one) for one, left in self._left.items() if left >= units)[1]


def lowest_compact(mask: int, count: int) -> tuple[int, ...]:
    """Give the lowest `count` neighbouring ids of the mask; where no such run is free, the lowest ids."""
    runs, length = mask, 1  # bit i of runs: the `length` ids from i on are free
    while length < count:
        step = min(length, count - length)
        runs &= runs >> step
        length += step
    if not runs:
        return tuple(one for one, _ in zip(_bits(mask), range(count), strict=False))
    first = (runs & -runs).bit_length() - 1
    return tuple(range(first, first + count))


def _mask(ids: Iterable[int]) -> int:
    mask = 0
    for one in ids:
        mask |= 1 << one
    return mask


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
