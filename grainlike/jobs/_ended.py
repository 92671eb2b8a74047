"""Placements of jobs that a worker's message has ended together: few are ever asked for, so they are made then.

A record for each, with its times and its usage, would take twice as long as all else that is done with such an end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from grainlike.jobs._job import Placement
from grainlike.wire import Completed, ReceiptSpec

__all__ = ["ended_placements"]


class _Ends(msgspec.Struct, eq=False, gc=False):
    """Columns of a message on jobs that shared `placement`, and gave values. Its clock is `skew` behind ours."""

    placement: Placement
    skew: float
    begun: list[float]
    wall: list[float]
    cpu: list[float]
    rss: list[int]
    sizes: list[int]
    receipt: ReceiptSpec | None


class _EndedPlacement(msgspec.Struct, eq=False, gc=False):
    """Stands for the placement of one of these jobs. Nothing is set here: see `own`."""

    ends: _Ends
    row: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own(), name)

    def own(self) -> Placement:
        """Return the placement itself."""
        ends, row = self.ends, self.row
        began, wall, size = ends.begun[row] + ends.skew, ends.wall[row], ends.sizes[row]
        used = wall, ends.cpu[row], ends.rss[row]
        return replace(ends.placement, began=began, ended=began + wall, used=used, size=size, receipt=ends.receipt)


def ended_placements(
    shared: Placement, completed: Completed, skew: float, receipt: ReceiptSpec | None
) -> Iterator[Placement]:
    """Return the placement of each row of a message about jobs that `shared` one, without an end. All gave values,
    which are in the message.
    """
    columns = completed.begun, completed.wall, completed.cpu, completed.rss
    ends = _Ends(shared, skew, *columns, list(map(len, completed.data)), receipt)
    return cast("Iterator[Placement]", map(_EndedPlacement, repeat(ends), count()))
