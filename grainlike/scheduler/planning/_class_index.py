"""Line of request classes in order, with the least amounts that each needs.

A line is cut into blocks, each with the least amounts that its classes ask for, so that the first class that fits into
given amounts is found without a look at those that do not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterator, Sequence
from operator import le

__all__ = ["ClassIndex", "Entry", "Kind", "Order", "Room", "fits"]

BLOCK = 256
"""Approximate number of classes in a block of a line."""

Order = tuple[int, int]
"""Priority and age: the smallest goes first."""

Entry = tuple[int, int, int, tuple[int, ...]]
"""A class in its line: the order of its oldest job, its number, the least amounts that it needs."""

Kind = tuple[tuple[str, ...], int, bool]
"""Properties that classes of a line share: names of resources, function (0 where a walltime counts), tree or not."""

Room = tuple[tuple[int, ...], Order | None]
"""Amounts, in the order of the names of a line, and up to which job in order they are open; None for all."""


_END: Entry = (1 << 200, 0, 1 << 200, ())
"""After all entries; its end makes an order one that is after all entries of that order."""


class ClassIndex:
    """Classes in order. Finding the first that fits costs a step for each block, and a look into one of them."""

    __slots__ = ("_lasts", "_least", "blocks", "floor")

    def __init__(self) -> None:
        self.blocks: list[list[Entry]] = []
        """Its classes, in blocks; empty if there are none."""
        self._lasts: list[Entry] = []
        self._least: list[tuple[int, ...]] = []
        """The least amounts of each block; they may be too low after a class has left."""
        self.floor: tuple[int, ...] = ()
        """The least amounts of all blocks; they may be too low, too."""

    def __iter__(self) -> Iterator[Entry]:
        return (entry for block in self.blocks for entry in block)

    def add(self, entry: Entry) -> None:
        """Insert a class at its place."""
        if not self.blocks:
            self.blocks, self._lasts, self._least, self.floor = [[entry]], [entry], [entry[3]], entry[3]
            return
        self.floor = tuple(map(min, self.floor, entry[3]))
        at = min(bisect_left(self._lasts, entry), len(self._lasts) - 1)
        block = self.blocks[at]
        insort(block, entry)
        self._lasts[at] = block[-1]
        self._least[at] = tuple(map(min, self._least[at], entry[3]))
        if len(block) > 2 * BLOCK:
            self.blocks[at : at + 1] = halves = [block[:BLOCK], block[BLOCK:]]
            self._lasts[at : at + 1] = [half[-1] for half in halves]
            self._least[at : at + 1] = [_least_of(half) for half in halves]

    def remove(self, entry: Entry) -> None:
        """Remove a class."""
        at = bisect_left(self._lasts, entry)
        block = self.blocks[at]
        del block[bisect_left(block, entry)]
        if block:
            self._lasts[at] = block[-1]
        else:
            del self.blocks[at], self._lasts[at], self._least[at]

    def after(self, entry: Entry | None, but: Container[int] = ()) -> Entry | None:
        """Return the class that comes next after `entry`, or the first, of those whose numbers are not in `but`."""
        begin = 0 if entry is None else bisect_right(self._lasts, entry)
        for at in range(begin, len(self.blocks)):
            block = self.blocks[at]
            skipped = 0 if entry is None or at > begin else bisect_right(block, entry)
            for place in range(skipped, len(block)):
                if block[place][2] not in but:
                    return block[place]
        return None

    def first_fitting(self, rooms: Sequence[Room], after: Entry | None) -> Entry | None:
        """Return the first class that fits into one of the rooms, of those that come later than `after`."""
        found: Entry | None = None
        for room, until in rooms:
            if until is None or after is None or after[:2] <= until:
                end = found if until is None else min(found or _END, (*until, *_END[2:]))
                found = self._first_before(end, room, after) or found
        if found is None and after is None and rooms:
            self.floor = tuple(map(min, zip(*self._least, strict=True)))
        return found

    def _first_before(self, end: Entry | None, room: tuple[int, ...], after: Entry | None) -> Entry | None:
        """Return the first class before `end` that fits into a room, of those that come later than `after`."""
        begin = 0 if after is None else bisect_right(self._lasts, after)
        for at in range(begin, len(self.blocks)):
            block = self.blocks[at]
            if end is not None and block[0] >= end:
                break
            if all(map(le, self._least[at], room)):
                skipped = bisect_right(block, after) if after is not None and at == begin else 0
                stop = None if end is None or block[-1] < end else bisect_left(block, end)
                last = room[-1] if room else 0  # names are sorted: often memory, which rules most out
                for entry in block[skipped:stop] if skipped or stop else block:
                    if (not room or entry[3][-1] <= last) and all(map(le, entry[3], room)):
                        return entry
                if not (skipped or stop):
                    self._least[at] = _least_of(block)
        return None


def _least_of(block: list[Entry]) -> tuple[int, ...]:
    # In lines that are not searched by amounts, as that of new classes, these are of different resources.
    return tuple(map(min, zip(*(entry[3] for entry in block), strict=False)))


def fits(entry: Entry, amounts: tuple[int, ...], rooms: Sequence[Room]) -> bool:
    """Return True if amounts of the class, or a bound of a block that begins with it, fit into one of the rooms."""
    for room, until in rooms:
        if all(map(le, amounts, room)) and (until is None or entry[:2] <= until):
            return True
    return False
