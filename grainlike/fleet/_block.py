"""Blocks: jobs of a batch system, each with one worker on each of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Block", "BlockPhase", "EndedBlock"]

BlockPhase = Literal["intent", "pending", "starting", "up", "leaving", "ended"]
"""Steps of a block. `intent`: its submission has no clear answer yet. `leaving`: it is to end, its workers first."""


@dataclass(slots=True)
class Block:
    """Block that lives, or may live.

    Attributes:
        label: name for people, and for the block's workers.
        pool: name of the pool.
        system: key of the batch system.
        number: number in the native name.
        nodes: how many workers the block should have.
        walltime_s: seconds after which the block ends, as it was submitted; None if it has no end.
        cores: cores of one worker, as it was submitted; 0 if unknown.
        submitted_at: time of the submission.
        answered_at: time at which the submission had an answer, clear or not; None without an answer yet.
        native: id in the batch system; empty if unknown.
        accepted_at: time at which the id became known; an older listing does not have the block.
        looks: listings without the block since the unclear answer, asked 30 s apart.
        looked_at: time at which the last of these was asked.
        running: True if the batch system said that the block runs, or a worker joined.
        started_at: time at which that became known.
        idle_before: last time at which the block was known not to run; its use is counted from here.
        connected: nodes whose workers are connected, with the time since which each worker has no job; None if it has
            one.
        joined: True once a worker has joined.
        worked: True once a worker had a job.
        seen: nodes whose worker has joined once.
        awaited: nodes whose workers were connected to an earlier head, and have not come back.
        awaited_since: time at which this head began.
        headless: True if workers may have begun while there was no head; then their failure says nothing about the
            pool.
        away_since: time since which the block has no connected worker, after it had one.
        leave_reason: why the block is to end; empty if it is not.
        leaving_since: time at which its end was decided.
        at_once: True if its jobs are not waited for.
        end_asked_at: time at which the batch system was last told to end it.
        ends_at: time at which the batch system ends it, according to its listing.
        reason: the batch system's words for the block's state.
        place: nodes of a running block, or its expected start, in the batch system's words.
    """

    label: str
    pool: str
    system: str
    number: int
    nodes: int
    walltime_s: float | None
    cores: int
    submitted_at: float
    answered_at: float | None = None
    native: str = ""
    accepted_at: float = 0.0
    looks: int = 0
    looked_at: float | None = None
    running: bool = False
    started_at: float | None = None
    idle_before: float = 0.0
    connected: dict[int, float | None] = field(default_factory=dict)
    joined: bool = False
    worked: bool = False
    seen: set[int] = field(default_factory=set)
    awaited: set[int] = field(default_factory=set)
    awaited_since: float = 0.0
    headless: bool = False
    away_since: float | None = None
    leave_reason: str = ""
    leaving_since: float = 0.0
    at_once: bool = False
    end_asked_at: float | None = None
    ends_at: float | None = None
    reason: str = ""
    place: str = ""

    @property
    def phase(self) -> BlockPhase:
        """Step at which the block is."""
        if self.leave_reason:
            return "leaving"
        if self.running:
            return "up" if self.joined else "starting"
        return "pending" if self.native else "intent"

    def missing(self, now: float, join_s: float) -> int:
        """Return how many workers are still to come: none once the time to join is over, or if the block is to end."""
        if self.leave_reason:
            return 0
        if self.joined and now >= (self.started_at or 0.0) + join_s:
            return 0
        return self.nodes - len(self.seen)

    @property
    def is_idle(self) -> bool:
        """True if the block has connected workers, none of them has a job, and no worker is expected back with one."""
        return bool(self.connected) and None not in self.connected.values() and not self.awaited

    @property
    def idle_since(self) -> float:
        """Time since which no connected worker has a job; only for idle blocks."""
        return max(since for since in self.connected.values() if since is not None)

    def price(self, cores: int) -> float:
        """Return the most core-hours that the block takes; `cores` of one worker count if its own are unknown."""
        return (self.cores or cores) * self.nodes * (self.walltime_s or 0.0) / 3600

    def taken(self, cores: int, now: float) -> float:
        """Return the most core-hours that the block can have taken until now, when it has ended: never too few."""
        began = max(self.submitted_at, self.idle_before)
        took = (self.cores or cores) * self.nodes * max(0.0, now - began) / 3600
        return min(took, self.price(cores)) if self.walltime_s is not None else took


@dataclass(frozen=True, slots=True)
class EndedBlock:
    """Block that has ended, and how."""

    label: str
    pool: str
    number: int
    native: str
    reason: str
    submitted_at: float
    ended_at: float
    joined: bool
