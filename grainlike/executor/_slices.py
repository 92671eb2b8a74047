"""Batches of payloads, cut so that each fits well into one frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grainlike.wire import BATCH_BYTES, BUFFER_COUNTS, Parcel

__all__ = ["slices"]


def slices(parcels: Sequence[Parcel | None]) -> Iterator[tuple[int, int]]:
    """Cut a batch so that the small payloads, and the number of large ones, stay well under the limits of a frame."""
    first = size = 0
    for at, parcel in enumerate(parcels):
        size += len(parcel[0]) + BUFFER_COUNTS * len(parcel[1]) if parcel is not None else 0
        if size > BATCH_BYTES and at > first:
            yield first, at
            first, size = at, 0
    yield first, len(parcels)
