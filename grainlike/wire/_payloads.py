"""Many small payloads in one header, large ones beside it.

A parcel is an opaque payload on its way: the in-band bytes and the out-of-band buffers. Small in-band bytes travel in
the header's `data` column; large ones join the frame's buffers, where no decoder copies them twice. So do small ones
when the column is full (`BATCH_BYTES`): however a batch was cut, its header stays small. `counts` says how many of the
frame's buffers belong to each parcel; it is empty when none does, which is the common case.

Batches cut so that each fits well into one frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from grainlike.errors import ProtocolError
from grainlike.wire._large import Buffer

__all__ = [
    "BATCH_BYTES",
    "ROW_BYTES",
    "Parcel",
    "fit_together",
    "pack_parcels",
    "plain_column",
    "split_by_bytes",
    "split_by_count",
    "unpack_parcels",
    "weight_of",
]


Parcel = tuple[bytes, Sequence[Buffer]]

BATCH_BYTES = 256 * 1024
"""The most rows with small payloads, in bytes, that a sender puts into one message: a quarter of what the header of a
frame may hold from anybody (`FROM_WORKER`), for what a row weighs is estimated.
"""

ROW_BYTES = 64
"""What a row of a message counts as, in bytes, beside its payload: its share of all columns."""

_BUFFER_WEIGHS = 256
_WEIGHS_A_BYTE = 64
"""What a buffer beside the header weighs there, and how many of its bytes weigh one more: their number in one message
is limited too, and what is large travels alone, to be acknowledged, sent again, or refused for itself.
"""

_INLINE_LIMIT = 16 * 1024


def weight_of(buffers: Sequence[Buffer]) -> int:
    """What these buffers of a message count as of `BATCH_BYTES`, beside the header."""
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
    """The `data` column of parcels that are small, without buffers, and fit into one message; None for all others."""
    inband, outband = zip(*parcels, strict=True)
    if any(outband):
        return None
    return list(inband) if fit_together(inband) else None


def fit_together(data: Sequence[bytes]) -> bool:
    """Whether payloads without buffers are small, and fit into one message."""
    sizes = list(map(len, data))
    return sum(sizes) + ROW_BYTES * len(sizes) <= BATCH_BYTES and max(sizes, default=0) <= _INLINE_LIMIT


def unpack_parcels(data: Sequence[bytes], counts: Sequence[int], buffers: Sequence[Buffer]) -> list[Parcel]:
    """Undo `pack_parcels`; a `ProtocolError` when columns and buffers do not go together."""
    if not counts:
        if buffers:
            raise ProtocolError(f"{len(buffers)} buffers belong to no payload")
        return [(inband, ()) for inband in data]
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


MOST_NUMBERS = 32_768
"""The most numbers of jobs in one message that carries nothing else."""


def split_by_bytes(parcels: Sequence[Parcel], also: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
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


def split_by_count(numbers: list[int]) -> Iterator[list[int]]:
    """Cut a list of numbers so that each part fits well into one frame."""
    for first in range(0, len(numbers), MOST_NUMBERS):
        yield numbers[first : first + MOST_NUMBERS]
