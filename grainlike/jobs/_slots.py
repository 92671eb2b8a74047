"""Slots of jobs: as a worker writes them, and those of the jobs of one lease, with the memory that each asked for.

Viewers of a head read slots, and have no jobs: no graph is loaded here.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from grainlike.resources import Allocation, parse_allocation, with_memory_text
from grainlike.wire import LeaseStart

__all__ = ["allocation_of", "slots_of"]

allocation_of: Callable[[str], Allocation] = lru_cache(maxsize=1024)(parse_allocation)
"""Slots as a worker writes them, made readable; most are written again and again."""


def slots_of(start: LeaseStart) -> Iterator[tuple[int, int, str]]:
    """Iterate over number, attempt and slots of each job of a lease that began."""
    lease = start.allocation
    if not start.memory:
        return zip(start.jobs, start.attempts, [lease] * len(start.jobs), strict=True)
    slots = [with_memory_text(lease, memory) if memory else lease for memory in start.memory]
    return zip(start.jobs, start.attempts, slots, strict=True)
