"""Sets of ids as integers: bit i of a mask says that id i is in it."""

from collections.abc import Iterable, Iterator


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
