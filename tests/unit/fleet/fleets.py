"""A fleet in the hands of a test: events at virtual times, and the actions since the last look."""

from __future__ import annotations

from typing import TypeVar

from grainlike.dialects import ListedBlock
from grainlike.fleet import (
    FleetPool,
    FleetScheduler,
    Joined,
    ListBlocks,
    Listed,
    ListingFailed,
    PoolSet,
    Restored,
    SubmissionAccepted,
    SubmitBlock,
    Tick,
    Wake,
    Wanted,
    Working,
)

DIGEST = "1a2b3c4d"
A = TypeVar("A")


def a_pool(name="cpu", **numbers):
    numbers = {"walltime_s": 3600.0, "cores": 4, "max": 4, **numbers}
    return FleetPool(name, numbers.pop("system", "slurm"), **numbers)


def a_row(number, state="running", native="", **facts):
    return ListedBlock(native or f"id{number}", f"gl{DIGEST}-{number}", state, **facts)


class Fleet:
    """The scheduler, its clock, and what it asked for."""

    def __init__(self, *pools, records=None):
        self.scheduler = FleetScheduler(DIGEST, records)
        self.now = 0.0
        self.actions = []
        self.silent = ""
        self.asked = []
        for pool in pools:
            self(PoolSet(pool))

    @property
    def records(self):
        return self.scheduler.records

    def state(self, name="cpu"):
        return self.records.pools[name]

    def __call__(self, event, at=None):
        if at is not None:
            self.now = max(self.now, at)
        found = self.scheduler.handle(event, self.now)
        self.actions += found
        return found

    def take(self, kind: type[A]) -> list[A]:
        """Return the actions of a kind since the last look at that kind."""
        found = [action for action in self.actions if isinstance(action, kind)]
        self.actions = [action for action in self.actions if not isinstance(action, kind)]
        return found

    def want(self, kept=(), **workers):
        self(Wanted(workers, self.scheduler.version, frozenset(kept)))

    def later(self, seconds):
        """Let time pass, with a tick whenever the fleet asked for one; listings tell nothing new, or are `silent`."""
        end = self.now + seconds
        while True:
            for question in self.take(ListBlocks):
                self.asked.append(self.now)
                self._answer(question.system)
            wakes = [action.at for action in self.take(Wake) if action.at > self.now]
            at = min([*wakes, end])
            self(Tick(), at)
            if at >= end:
                return

    def _answer(self, system):
        if self.silent:
            self(ListingFailed(system, self.silent))
            return
        rows = [
            a_row(block.number, "running" if block.running else "pending", block.native, reason=block.reason)
            for block in self.records.blocks.values()
            if block.native and block.system == system
        ]
        self.list(*rows, system=system)

    def list(self, *rows, system="slurm", asked=None):
        self(Listed(system, rows, self.now if asked is None else asked))

    def accept_all(self):
        """Answer the submissions that have none yet, a second after each; return their labels."""
        labels = []
        while submissions := self.take(SubmitBlock):
            for submission in submissions:
                labels.append(submission.label)
                self.now += 1.0
                self(SubmissionAccepted(submission.label, f"id{submission.number}"))
            self.now += 1.0
            self(Tick())
        return labels

    def bring_up(self, label, *, nodes=1, idle=True):
        for node in range(nodes):
            self(Joined(label, node, 4, idle=idle))

    def work(self, label, node=0, *, idle=False):
        self(Working(label, node, idle))

    def restart(self):
        """Go on with the records in a head that begins now."""
        self.actions = []
        self.scheduler = FleetScheduler(DIGEST, self.records)
        self(Restored())
