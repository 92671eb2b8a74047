"""Batches cut so that each fits well into one frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grainlike.wire import BATCH_BYTES, ROW_BYTES, Parcel, weight_of

__all__ = ["portions", "slices"]

MOST_NUMBERS = 32_768
"""The most numbers of jobs in one message that carries nothing else."""


def slices(parcels: Sequence[Parcel], also: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Cut a batch so that the rows, the small payloads, and the number of large ones, stay well under the limits of a
    frame; and what is large travels alone. `also` are bytes that rows bring with them beside the payloads.
    """
    first = size = 0
    for at, (inband, outband) in enumerate(parcels):
        own = ROW_BYTES + len(inband) + (also[at] if also else 0)
        if outband:
            own += weight_of(outband)
        size += own
        if size > BATCH_BYTES and at > first:
            yield first, at
            first, size = at, own
    yield first, len(parcels)


def portions(numbers: list[int]) -> Iterator[list[int]]:
    """Cut a list of numbers so that each part fits well into one frame."""
    for first in range(0, len(numbers), MOST_NUMBERS):
        yield numbers[first : first + MOST_NUMBERS]
