"""Slots of the jobs of one lease: those of the lease, with the memory that each job asked for."""

from collections.abc import Iterator

from grainlike.resources import with_memory_text
from grainlike.wire import LeaseStart

__all__ = ["slots_of"]


def slots_of(start: LeaseStart) -> Iterator[tuple[int, int, str]]:
    """Iterate over number, attempt and slots of each job of a lease that began."""
    lease = start.allocation
    if not start.memory:
        return zip(start.jobs, start.attempts, [lease] * len(start.jobs), strict=True)
    slots = [with_memory_text(lease, memory) if memory else lease for memory in start.memory]
    return zip(start.jobs, start.attempts, slots, strict=True)
