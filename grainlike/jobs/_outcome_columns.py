"""The columns of `Outcomes`: built from what is known of jobs, taken apart again, and read back, all in this file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grainlike.jobs._job import Job, Placement
from grainlike.wire import Buffer, Outcomes, Parcel, pack_parcels

__all__ = ["outcome_alone", "outcomes_message", "placement_in"]

_NOWHERE = Placement(None, 0)
_COLUMNS = tuple(name for name in Outcomes.__struct_fields__ if name not in ("parent", "attempt", "data", "counts"))


def outcomes_message(
    parent: int, attempt: int, rows: Iterable[tuple[int, Job, bool, Parcel]]
) -> tuple[Outcomes, Sequence[Buffer]]:
    """Return how jobs ended, as one message for their submitter, with its buffers.

    Args:
        parent: the job that submitted them, 0 for a client.
        attempt: the attempt of that job.
        rows: the submitter's number of each job, the job, whether it has a value, and its value or exception.
    """
    children, jobs, good, parcels = zip(*rows, strict=True)
    data, counts, buffers = pack_parcels(parcels)
    placements = [job.placement or _NOWHERE for job in jobs]
    used = [placement.used or (0.0, 0.0, 0) for placement in placements]
    message = Outcomes(
        parent,
        attempt,
        children=list(children),
        good=list(good),
        workers=[placement.worker or "" for placement in placements],
        slots=[placement.slots or "" for placement in placements],
        attempts=[placement.attempt for placement in placements],
        wall=[wall for wall, _, _ in used],
        cpu=[cpu for _, cpu, _ in used],
        rss=[rss for _, _, rss in used],
        receipts=[placement.receipt for placement in placements],
        data=data,
        counts=counts,
    )
    return message, buffers


def outcome_alone(message: Outcomes, row: int, parcel: Parcel) -> tuple[Outcomes, Sequence[Buffer]]:
    """Return one row of a message as a message of its own, to be kept; `parcel` is what it brought."""
    data, counts, buffers = pack_parcels([parcel])
    columns = {name: [getattr(message, name)[row]] for name in _COLUMNS}
    return Outcomes(0, 0, **columns, data=data, counts=counts), buffers


def placement_in(message: Outcomes, row: int, ended: float) -> Placement | None:
    """Return what a row says of where its job ran; None for a job that never did. `ended` is on our clock."""
    if not message.attempts[row]:
        return None
    return Placement(
        message.workers[row],
        message.attempts[row],
        slots=message.slots[row] or None,
        began=ended - message.wall[row],
        ended=ended,
        used=(message.wall[row], message.cpu[row], message.rss[row]),
        receipt=message.receipts[row],
    )
