"""Times, sizes and lists of nodes as batch systems write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

__all__ = ["clock", "expand_hosts", "mebibytes", "seconds"]

_MOST_HOSTS = 2**16
_MEBIBYTE = 2**20


def clock(whole: int) -> str:
    """Write seconds as `H:MM:SS`.

    Example::

        >>> clock(14400)
        '4:00:00'
    """
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def seconds(text: str) -> float | None:
    """Read `[[D-]H:]M:S`, `D-H`, or seconds; None for words such as `UNLIMITED`.

    Example::

        >>> seconds("1-02:00:00"), seconds("59:30"), seconds("INVALID")
        (93600.0, 3570.0, None)
    """
    match = re.fullmatch(r"(?:([0-9]{1,9})-)?((?:[0-9]{1,9}:){0,2})([0-9]{1,9})", text.strip())
    if match is None:
        return None
    parts = [int(part) for part in f"{match[2]}{match[3]}".split(":")]
    if match[1] is not None:  # behind days stand hours first
        parts += [0] * (3 - len(parts))
    return float(int(match[1] or 0) * 86400 + sum(part * 60**place for place, part in enumerate(reversed(parts))))


def mebibytes(size: int) -> int:
    """Return bytes in MiB, rounded up."""
    return -(-size // _MEBIBYTE)


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of a list as Slurm writes it, 65536 at most; what cannot be read stays as it is.

    Example::

        >>> expand_hosts("n[1-3,07],gpu1")
        ('n1', 'n2', 'n3', 'n07', 'gpu1')
    """
    return tuple(islice((host for piece in _pieces(text) for host in _expanded(piece)), _MOST_HOSTS))


def _pieces(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    begin = depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


def _expanded(piece: str) -> Iterator[str]:
    match = re.fullmatch(r"([^\[\]]*)\[([0-9,\-]+)\](.*)", piece, re.DOTALL)
    if match is None:
        if piece:
            yield piece
        return
    for number in _numbers(match[2]):
        for rest in _expanded(match[3]) if match[3] else [""]:
            yield f"{match[1]}{number}{rest}"


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first or len(part) > 40 or (dash and not last.isdecimal()):
            yield part
        elif not dash:
            yield first
        else:
            for number in islice(range(int(first), int(last) + 1), _MOST_HOSTS):
                yield str(number).zfill(len(first))
