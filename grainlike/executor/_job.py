"""What the head keeps of one job, and what `info` tells of it."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from grainlike.graph import State
from grainlike.payload import MARK, drop
from grainlike.resources import Allocation, Receipt, Usage, parse_allocation

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.wire import Parcel, ReceiptSpec

__all__ = ["Job", "allocation_of"]

allocation_of = lru_cache(maxsize=1024)(parse_allocation)
"""Slots as a worker writes them, made readable; most are written again and again."""


class Job:
    """One call on its way through the cluster. Implements the graph's `Record`.

    Times are on this process's monotonic clock. What the worker said is kept as it came and made readable when
    somebody asks: most jobs are never asked about.
    """

    __slots__ = (
        "again_at",
        "attempt",
        "began",
        "blocks_since",
        "earlier",
        "ended",
        "fn",
        "job",
        "last_words",
        "links",
        "node",
        "parcel",
        "receipt_spec",
        "sent_as",
        "slots",
        "streamed",
        "used",
        "worker",
    )

    def __init__(self, job: int, fn: int, node: Node | None, parcel: Parcel | None) -> None:
        self.job = job
        self.fn = fn
        self.node = node
        self.parcel = parcel
        self.worker: str | None = None
        self.earlier: tuple[tuple[str, int], ...] = ()
        """Workers that it was sent to before, with the attempt."""
        self.last_words: str | None = None
        """What it wrote last before its process died, as a note."""
        self.blocks_since: float | None = None
        """Since when it has blocked the event loop that it shares with others."""
        self.attempt = 0
        self.slots: str | None = None
        self.began: float | None = None
        self.ended: float | None = None
        self.again_at: float | None = None
        """When its next attempt may begin, while it waits for that."""
        self.streamed = False
        self.receipt_spec: ReceiptSpec | None = None
        self.used: tuple[float, float, int] | None = None
        self.sent_as = fn
        """The number of the function that travels: its own, or that which runs a chain."""
        self.links: list[Job] | None = None
        """The calls that travel with this one, as links of a chain that begins with it."""

    def assigned(self, worker: str, attempt: int) -> None:
        """It goes to a worker; whatever an earlier attempt was given is no longer so."""
        if self.worker is not None:
            self.earlier = tuple(self.places())
            self.last_words = self.blocks_since = None
        self.worker, self.attempt = worker, attempt
        self.slots = self.began = self.ended = self.again_at = None
        if self.node is not None:
            self.node.state = State.PENDING

    def backs_off(self, seconds: float) -> None:
        """Its attempt is over, and the next one may begin in so many seconds."""
        self.slots = self.began = self.ended = self.blocks_since = None
        self.again_at = time.monotonic() + seconds
        if self.node is not None:
            self.node.state = State.PENDING

    def begin(self, worker: str, attempt: int, slots: str) -> None:
        """Somebody else, who assigned it, says that it runs."""
        self.assigned(worker, attempt)
        self.slots, self.began = slots, time.monotonic()
        if self.node is not None:
            self.node.state = State.RUNNING

    def places(self) -> list[tuple[str, int]]:
        """The workers that it was sent to, in order, with the first attempt for which it was."""
        places = dict(self.earlier)
        if self.worker is not None:
            places.setdefault(self.worker, self.attempt)
        return list(places.items())

    def close(self) -> None:
        """Let go of what only a live job needs."""
        if self.parcel is not None and self.parcel[0][:1] == MARK[:1]:
            drop(self.parcel[0])
        self.node = None
        self.parcel = None

    @property
    def allocation(self) -> Allocation | None:
        """What the job was given, with ids."""
        return None if self.slots is None else allocation_of(self.slots)

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
        if self.again_at is not None:
            return f"tries again in {max(0.0, self.again_at - time.monotonic()):.1f} s"
        return "waits for its turn at the head" if self.worker is None else f"assigned to {self.worker}"
