"""Free ids: cores in a bit mask, devices with what is left of each. Bit i of a mask says that id i is in it."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from grainlike.resources._quantity import UNIT

Ids = tuple[int, ...]


def lowest_compact(mask: int, count: int) -> tuple[int, ...]:
    """Give the lowest `count` neighbouring ids of the mask; where no such run is free, the lowest ids."""
    runs, length = mask, 1  # bit i of runs: the `length` ids from i on are free
    while length < count:
        step = min(length, count - length)
        runs &= runs >> step
        length += step
    if not runs:
        return tuple(one for one, _ in zip(bits(mask), range(count), strict=False))
    first = (runs & -runs).bit_length() - 1
    return tuple(range(first, first + count))


def mask_of(ids: Iterable[int]) -> int:
    """Give the mask of some ids."""
    mask = 0
    for one in ids:
        mask |= 1 << one
    return mask


def bits(mask: int) -> Iterator[int]:
    """Give the ids of a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Pool(Protocol):
    """The free pieces of one kind; amounts are nano-units.

    Attributes:
        free: a mask of the ids that are wholly free.
    """

    free: int

    def holds(self, units: int) -> bool:
        """Tell whether so much could be taken."""
        ...

    def has(self, ids: Ids, units: int) -> bool:
        """Tell whether so much could be taken as just these ids."""
        ...

    def take(self, units: int, ids: Ids | None = None) -> Ids:
        """Take so much, after a `holds` that said yes: the lowest ids, or those that are given."""
        ...

    def give(self, ids: Ids, units: int) -> None:
        """Take back what `take` gave."""
        ...


class CorePool:
    """Whole pieces. A grant costs the size of the request."""

    __slots__ = ("free",)

    def __init__(self, ids: Iterable[int]) -> None:
        self.free = mask_of(ids)

    def holds(self, units: int) -> bool:
        return units % UNIT == 0 and self.free.bit_count() >= units // UNIT

    def has(self, ids: Ids, units: int) -> bool:  # noqa: ARG002 -- the same for every pool
        return not mask_of(ids) & ~self.free

    def take(self, units: int, ids: Ids | None = None) -> Ids:
        if ids is None and units == UNIT:  # as most take
            lowest = self.free & -self.free
            self.free ^= lowest
            return (lowest.bit_length() - 1,)
        found = lowest_compact(self.free, units // UNIT) if ids is None else ids
        self.free &= ~mask_of(found)
        return found

    def give(self, ids: Ids, units: int) -> None:  # noqa: ARG002 -- the same for every pool
        self.free |= 1 << ids[0] if len(ids) == 1 else mask_of(ids)


class DevicePool:
    """Devices that are given whole, or shared by fractions that never span two of them.

    Attributes:
        free: a mask of the devices that are wholly free.
        shares: what is left of each device, in nano-units.
    """

    __slots__ = ("free", "shares")

    def __init__(self, ids: Ids, units: int) -> None:
        share = units // len(ids) if ids else 0
        self.shares = dict.fromkeys(ids, share)
        self.free = mask_of(ids) if share == UNIT else 0

    def holds(self, units: int) -> bool:
        if units < UNIT:
            return any(left >= units for left in self.shares.values())
        return units % UNIT == 0 and self.free.bit_count() >= units // UNIT

    def has(self, ids: Ids, units: int) -> bool:
        return all(self.shares[one] >= units // len(ids) for one in ids)

    def take(self, units: int, ids: Ids | None = None) -> Ids:
        if ids is None:
            # The fullest device that still has room, so that whole devices stay whole.
            ids = (self._fullest(units),) if units < UNIT else lowest_compact(self.free, units // UNIT)
        for one in ids:
            self.shares[one] -= units // len(ids)
        self.free &= ~mask_of(ids)
        return ids

    def give(self, ids: Ids, units: int) -> None:
        for one in ids:
            self.shares[one] += units // len(ids)
            if self.shares[one] == UNIT:
                self.free |= 1 << one

    def _fullest(self, units: int) -> int:
        return min((left, one) for one, left in self.shares.items() if left >= units)[1]
