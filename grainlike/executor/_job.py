"""What the head keeps of one job, and what `info` tells of it."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from grainlike.graph import State
from grainlike.resources import Allocation, Receipt, Usage, parse_allocation

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.wire import Parcel, ReceiptSpec

__all__ = ["Job"]

_allocation = lru_cache(maxsize=1024)(parse_allocation)


class Job:
    """One call on its way through the cluster. Implements the graph's `Record`.

    Times are on this process's monotonic clock. What the worker said is kept as it came and made readable when
    somebody asks: most jobs are never asked about.
    """

    __slots__ = (
        "attempt",
        "began",
        "ended",
        "fn",
        "job",
        "node",
        "parcel",
        "receipt_spec",
        "slots",
        "used",
        "worker",
    )

    def __init__(self, job: int, fn: int, node: Node, parcel: Parcel) -> None:
        self.job = job
        self.fn = fn
        self.node: Node | None = node
        self.parcel: Parcel | None = parcel
        self.worker: str | None = None
        self.attempt = 0
        self.slots: str | None = None
        self.began: float | None = None
        self.ended: float | None = None
        self.receipt_spec: ReceiptSpec | None = None
        self.used: tuple[float, float, int] | None = None

    def assigned(self, worker: str, attempt: int) -> None:
        """It goes to a worker; whatever an earlier attempt was given is no longer so."""
        self.worker, self.attempt = worker, attempt
        self.slots = self.began = self.ended = None
        if self.node is not None:
            self.node.state = State.PENDING

    def close(self) -> None:
        """Let go of what only a live job needs."""
        self.node = None
        self.parcel = None

    @property
    def allocation(self) -> Allocation | None:
        """What the job was given, with ids."""
        return None if self.slots is None else _allocation(self.slots)

    @property
    def receipt(self) -> Receipt | None:
        """What was enforced, read back in the job's process."""
        spec = self.receipt_spec
        if spec is None:
            return None
        return Receipt(tuple(spec.affinity), dict(spec.threads), tuple(spec.devices), spec.memory_tier)

    @property
    def usage(self) -> Usage | None:
        """What was used."""
        if self.used is None:
            return None
        wall, cpu, rss = self.used
        return Usage(wall, cpu, rss, cpu / wall if wall > 0 else 0.0)

    @property
    def note(self) -> str:
        """The one line that an exception of this job carries: worker, slots, attempt."""
        return f"grainlike: on worker {self.worker}, slots {self.slots or 'none'}, attempt {self.attempt}"

    def elapsed_s(self) -> float | None:
        """Seconds that the job has run, or ran."""
        if self.began is None:
            return None
        return (time.monotonic() if self.ended is None else self.ended) - self.began

    def why_pending(self) -> str | None:
        """One sentence on what a pending job waits for."""
        if self.began is not None or self.node is None:
            return None
        return "waits for its turn at the head" if self.worker is None else f"assigned to {self.worker}"
