"""Packing of payloads: many small ones into one header, large ones beside it.

A parcel is an opaque payload: the in-band bytes and the out-of-band buffers. Small in-band bytes travel in the header's
`data` column; large ones join the frame's buffers, where no decoder copies them again. So do small ones when the column
is full (`BATCH_BYTES`): however a batch was cut, its header stays small. `counts` says how many of the frame's buffers
belong to each parcel; it is empty when none does, which is the common case.

Batches are cut so that each fits well into one frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter

from grainlike.errors import ProtocolError
from grainlike.wire._large import Buffer

__all__ = [
    "BATCH_BYTES",
    "ROW_BYTES",
    "Parcel",
    "fit_together",
    "nbytes_of",
    "pack_parcels",
    "plain_column",
    "split_by_bytes",
    "split_by_count",
    "unpack_parcels",
    "weight_of",
]


Parcel = tuple[bytes, Sequence[Buffer]]

_INBAND, _BUFFERS = itemgetter(0), itemgetter(1)

BATCH_BYTES = 256 * 1024
"""The most bytes of rows with small payloads that a sender puts into one message: a quarter of the header's limit for
all senders (`FROM_WORKER`), because the size of a row is estimated.
"""

ROW_BYTES = 64
"""Bytes that a row of a message counts beside its payload: its share of all columns."""

_BUFFER_WEIGHS = 256
_WEIGHS_A_BYTE = 64
"""Bytes that a buffer beside the header counts (`_BUFFER_WEIGHS`), and how many bytes of it count as one more. The
number of buffers in a message is limited too, and large ones travel alone, so that they are acknowledged, sent again,
or refused one by one.
"""

_INLINE_LIMIT = 16 * 1024


def weight_of(buffers: Sequence[Buffer]) -> int:
    """Return how many bytes of `BATCH_BYTES` these buffers of a message count."""
    size = sum([memoryview(buffer).nbytes for buffer in buffers])
    return _BUFFER_WEIGHS * len(buffers) + size // _WEIGHS_A_BYTE


def pack_parcels(parcels: Iterable[Parcel]) -> tuple[list[bytes], list[int], list[Buffer]]:
    """Return the `data` and `counts` columns and the frame's buffers."""
    data: list[bytes] = []
    counts: list[int] = []
    buffers: list[Buffer] = []
    room = BATCH_BYTES
    for inband, outband in parcels:
        size = len(inband)
        if size > _INLINE_LIMIT or size > room:
            data.append(b"")
            counts.append(len(outband) + 1)
            buffers.append(inband)
        else:
            data.append(inband)
            counts.append(len(outband))
            room -= size
        buffers.extend(outband)
    if not buffers:
        counts.clear()
    return data, counts, buffers


def plain_column(parcels: Sequence[Parcel]) -> list[bytes] | None:
    """Return the `data` column if all parcels are small, without buffers, and fit into one message; else None."""
    if any(map(_BUFFERS, parcels)):
        return None
    data = list(map(_INBAND, parcels))
    return data if fit_together(data) else None


def fit_together(data: Sequence[bytes]) -> bool:
    """Return True if payloads without buffers are small, and fit into one message."""
    size = sum(map(len, data))
    if size + ROW_BYTES * len(data) > BATCH_BYTES:
        return False
    return size <= _INLINE_LIMIT or max(map(len, data)) <= _INLINE_LIMIT


def unpack_parcels(data: Sequence[bytes], counts: Sequence[int], buffers: Sequence[Buffer]) -> list[Parcel]:
    """Undo `pack_parcels`. Raises `ProtocolError` if columns and buffers do not match."""
    if not counts:
        if buffers:
            raise ProtocolError(f"{len(buffers)} buffers belong to no payload")
        return list(zip(data, repeat(())))
    if len(counts) != len(data) or sum(counts) != len(buffers) or min(counts) < 0:
        raise ProtocolError(f"{len(data)} payloads declare {sum(counts)} buffers, the frame has {len(buffers)}")
    parcels: list[Parcel] = []
    at = 0
    for inband, count in zip(data, counts, strict=True):
        own = buffers[at : at + count]
        at += count
        if not inband and count:
            parcels.append((bytes(own[0]), own[1:]))
        else:
            parcels.append((inband, own))
    return parcels


def nbytes_of(parcel: Parcel) -> int:
    """Return the bytes of a payload."""
    data, buffers = parcel
    return len(data) + sum(memoryview(buffer).nbytes for buffer in buffers)


MOST_NUMBERS = 32_768
"""The most job numbers in one message that carries nothing else."""


def split_by_bytes(parcels: Sequence[Parcel], also: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Cut a batch so that the rows, the small payloads, and the number of large ones stay well under the limits of a
    frame, and large payloads travel alone. `also`: bytes that each row has beside its payload.
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


def split_by_count(numbers: list[int]) -> Iterator[list[int]]:
    """Cut a list of numbers so that each part fits well into one frame."""
    for first in range(0, len(numbers), MOST_NUMBERS):
        yield numbers[first : first + MOST_NUMBERS]
