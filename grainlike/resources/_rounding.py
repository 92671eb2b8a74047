"""Amounts of memory that are nearly the same, counted as one: jobs then wait in one queue and share leases.

Users ask for `Memory(size of the input)`, so that each job has a request of its own. Rounded up to one of sixteen steps
between two powers of two, at most 6.25 % more is set aside than a job asked for; it sees, and is held to, its own
amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from grainlike.resources._allocation import Allocation
from grainlike.resources._kinds import MEMORY
from grainlike.resources._quantity import UNIT
from grainlike.resources._request import Request, build, by_name

__all__ = ["memory_rounded", "with_amounts", "with_memory", "with_memory_text"]

_STEPS_BITS = 4
"""Sixteen steps between two powers of two."""

_MEMORY_TEXT = re.compile(r"(?<![^ ])memory=[^ ]+")


def memory_rounded(request: Request) -> Request | None:
    """Return the request with its memory rounded up to the next step; None where nothing may be rounded.

    That is a request without memory, with several options, of a gang, or for memory that grows.

    Example:
        >>> from grainlike import Cores, Memory
        >>> str(memory_rounded(Cores(1) & Memory(1_000_001)))
        'cores=1 memory=1015808'
    """
    if request._several:
        return None
    terms = request.terms
    if terms.nodes > 1 or terms.growth is not None:
        return None
    amount = request.units.get(MEMORY, 0) // UNIT
    if not amount:
        return None
    step = 1 << max(0, amount.bit_length() - 1 - _STEPS_BITS)
    rounded = -(-amount // step) * step
    if rounded == amount:
        return request
    return build(Request, {**request.units, MEMORY: rounded * UNIT}, terms=request.terms)


def with_amounts(request: Request, amounts: Mapping[str, int]) -> Request:
    """Return the request with these amounts, in nano-units, in place of its own or beside them; for one of one option.

    Example:
        >>> from grainlike import Cores, WallTime
        >>> str(with_amounts(Cores(4) & WallTime("1h"), {"cores": 10**9, "memory": 2**20 * 10**9}))
        'cores=1 memory=1048576 walltime=1:00:00'
    """
    return build(Request, by_name({**request.units, **amounts}), terms=request.terms)


def with_memory(allocation: Allocation, memory: int) -> Allocation:
    """Return the part of an allocation that has `memory` bytes of its memory, and all else."""
    return build(Allocation, {**allocation.units, MEMORY: memory * UNIT}, allocation.ids, allocation.terms)


def with_memory_text(allocation: str, memory: int) -> str:
    """Return the text of `with_memory` for the text of an allocation.

    Example:
        >>> with_memory_text("cores=[3] memory=2048", 2000)
        'cores=[3] memory=2000'
    """
    return _MEMORY_TEXT.sub(f"memory={memory}", allocation)
