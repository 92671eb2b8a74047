"""Two amounts of memory in words that show how they differ."""

from grainlike.resources._quantity import UNIT, quantity, short

__all__ = ["beside"]

_MOST_DIGITS = 9


def beside(asked: int, taken: int) -> tuple[str, str]:
    """Write bytes that were asked for as a request would, and those that were taken in the same unit.

    The second has as few digits as tell the two apart.

    Example::

        beside(200 * 2**20, 210_763_776)  # ("200Mi", "201Mi")
    """
    words = short(asked * UNIT) or str(asked)
    count = words.rstrip("EGKMPTik")
    unit = words[len(count) :]
    scale = quantity(f"1{unit}") // UNIT
    if asked == taken:
        return words, words
    tries = (f"{taken / scale:.{digits}f}" for digits in range(_MOST_DIGITS))
    return words, next((told for told in tries if float(told) != int(count)), count) + unit
