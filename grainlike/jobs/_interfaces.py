"""Interfaces to observe jobs while they run, beside their outcomes: when slots were taken and given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.jobs._job import Job
    from grainlike.resources import Allocation
    from grainlike.wire import Report

__all__ = ["Lease", "Observer", "OutcomeListener", "Worker"]

Lease = tuple[int, int]
"""A worker's number, and that of one of its leases."""


class Worker(Protocol):
    """Worker that runs jobs: a grainlike worker, or a backend."""

    number: int
    name: str
    offer: Allocation
    skew: float
    """Seconds by which its clock is behind that of this process, as of its last report."""


class Observer(Protocol):
    """Receives all events in the order of arrival, before they are acted on; so it must only take note."""

    def joined(self, peer: Worker) -> None:
        """A worker is here."""

    def suspected(self, peer: Worker, why: str) -> None:
        """A worker gets no jobs for now, and why; an empty `why`: it does again."""

    def quarantined(self, peer: Worker, why: str) -> None:
        """A worker fails again and again and gets nothing new for a while, and why; an empty `why`: that is over."""

    def reported(self, peer: Worker, report: Report) -> None:
        """Handle a worker's report: leases begun, attempts ended, and leases ended since its last report."""

    def linked(self, job: Job, *, good: bool) -> None:
        """Handle the end of one call of a chain, successful or not. Only the first of a chain is in reports."""

    def left(self, peer: Worker) -> None:
        """Handle that a worker has left, with all its leases."""

    def called(self, node: Node) -> None:
        """A call without resources has begun, in this process."""

    def closed(self) -> None:
        """Handle the end: the executor has closed, and no more events come."""


class OutcomeListener(Protocol):
    """Receiver of outcomes of jobs: the engine. It only takes note: it acts after the scheduler's actions are
    performed.
    """

    def succeeded(self, node: Node, value: object) -> None:
        """A job gave a value."""

    def all_succeeded(self, nodes: Sequence[Node], values: Sequence[object]) -> None:
        """The jobs of these nodes gave these values, in the same order."""

    def stayed(self, node: Node, job: int, size: int) -> None:
        """Job `job` gave a value of so many bytes that stays at workers."""

    def failed(self, node: Node, error: BaseException) -> None:
        """A job will give no value."""
