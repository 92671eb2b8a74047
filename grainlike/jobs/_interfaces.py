"""What may be heard of jobs while they run, beside their outcomes: when slots were taken and given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.jobs._job import Job
    from grainlike.resources import Allocation
    from grainlike.wire import Report

__all__ = ["Lease", "Observer", "Outcomes", "Worker"]

Lease = tuple[int, int]
"""A worker's number, and that of one of its leases."""


class Worker(Protocol):
    """Who runs jobs: a worker of ours, or an engine of another kind."""

    number: int
    name: str
    offer: Allocation
    skew: float
    """How far its clock is behind that of this process, in seconds, as its last report showed."""


class Observer(Protocol):
    """Hears of everything in the order in which it came, before anything follows from it; so it only takes note."""

    def joined(self, peer: Worker) -> None:
        """A worker is here."""

    def suspected(self, peer: Worker, why: str) -> None:
        """A worker gets no jobs for now, and why; an empty `why`: it does again."""

    def quarantined(self, peer: Worker, why: str) -> None:
        """A worker fails again and again and gets nothing new for a while, and why; an empty `why`: that is over."""

    def reported(self, peer: Worker, report: Report) -> None:
        """A worker tells of leases begun, attempts ended, and leases ended since its last report."""

    def linked(self, job: Job, *, good: bool) -> None:
        """One call of a chain has run, whether or not it gave a value. Only the first of a chain is in reports."""

    def left(self, peer: Worker) -> None:
        """A worker is gone, and with it all its leases."""

    def called(self, node: Node) -> None:
        """A call without resources has begun, in this process."""

    def closed(self) -> None:
        """The executor has closed: nothing more will be heard."""


class Outcomes(Protocol):
    """Who hears how jobs ended; the engine. It only takes note: what follows is done after the mind's actions are."""

    def succeeded(self, node: Node, value: object) -> None:
        """A job gave a value."""

    def failed(self, node: Node, error: BaseException) -> None:
        """A job will give no value."""
