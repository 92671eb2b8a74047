"""Judge of a fleet: the ten rules of docs/internals.md, checked from records of its own."""

from __future__ import annotations

from collections.abc import Sequence

from grainlike.fleet import (
    FleetAction,
    FleetEvent,
    FleetScheduler,
    Joined,
    Leave,
    Listed,
    ListingFailed,
    Pause,
    PoolResumed,
    PoolSet,
    Restored,
    SubmissionRefused,
    SubmitBlock,
)
from simtest.fleet._batch_system import BatchSystem, NativeJob, SimWorker
from simtest.fleet._work import Work

__all__ = ["FleetJudge"]

_DEATHS = 3
_SHOWN, _SHOWN_S = 8, 300.0
"""Listings, and seconds, for which a job may be shown that is to end, or belongs to no block: ends are told again."""


class FleetJudge:
    """Violations of a world, as lines for people."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._numbers: set[int] = set()
        self._most: dict[str, int] = {}
        self._deaths: dict[str, int] = {}
        self._known_ended: set[str] = set()
        self._may_count: dict[str, int] = {}
        self._restored_at = 0.0
        self._seen_pending: set[str] = set()
        self._counted: set[str] = set()
        self._failing: set[str] = set()
        self._leaving: set[str] = set()
        self._unknown: dict[str, list[float]] = {}
        self._ending: dict[str, list[float]] = {}

    def blame(self, rule: int, now: float, what: str) -> None:
        """Note a violation."""
        self.violations.append(f"rule {rule} at {now:.0f}: {what}")

    def before(self, event: FleetEvent, fleet: FleetScheduler, systems: dict[str, BatchSystem], now: float) -> set[str]:
        """Take an event before it is handled; return the labels of the blocks that must be there after it."""
        if isinstance(event, PoolSet):
            name = event.pool.name
            self._most[name] = max(self._most.get(name, 0), event.pool.max)
            self._forget_deaths(name)
        elif isinstance(event, PoolResumed):
            self._forget_deaths(event.name)
        elif isinstance(event, Joined) and event.label in fleet.records.blocks:
            self._forget_deaths(event.label.rpartition("-")[0])
        elif isinstance(event, Restored):
            self._ending.clear()  # no worker could be told meanwhile
            self._restored_at = now
            self._seen_pending.clear()
        elif isinstance(event, ListingFailed):
            self._failing.add(event.system)
        elif isinstance(event, Listed):
            self._failing.discard(event.system)
            self._count_deaths(event, fleet, systems[event.system])
        spared = event.label if isinstance(event, SubmissionRefused) else ""
        # One that is reached in another way now has an answer by that.
        told = {row.native for row in event.rows} if isinstance(event, Listed) else set[str]()
        return {
            block.label
            for block in fleet.records.blocks.values()
            if block.system in self._failing and block.label != spared and block.native not in told
        }

    def _forget_deaths(self, pool: str) -> None:
        self._deaths[pool] = self._may_count[pool] = 0

    def _count_deaths(self, event: Listed, fleet: FleetScheduler, system: BatchSystem) -> None:
        """Count the blocks that an early death must be concluded from: a head was there when they began."""
        there = {row.native for row in event.rows if row.state != "ended"}
        self._seen_pending |= {row.native for row in event.rows if row.state == "pending"}
        for job in system.jobs.values():
            block = fleet.records.blocks.get(job.label)
            if block is None or block.native != job.native or block.joined or block.leave_reason:
                continue
            if (
                block.accepted_at < event.asked
                and job.broken
                and not job.alive
                and (block.submitted_at >= self._restored_at or job.native in self._seen_pending)
                and job.native not in there | self._counted
            ):
                self._counted.add(job.native)
                self._deaths[job.pool.name] = self._deaths.get(job.pool.name, 0) + 1

    def after(
        self,
        event: FleetEvent,
        actions: Sequence[FleetAction],
        fleet: FleetScheduler,
        systems: dict[str, BatchSystem],
        must: set[str],
        workers: dict[tuple[str, int], SimWorker],
        now: float,
    ) -> None:
        """Check what an event led to."""
        for label in must - set(fleet.records.blocks):
            self.blame(8, now, f"{label} was closed while its batch system does not answer ({event})")
        if isinstance(event, Listed):
            self._look_for_unknown(event, fleet, now)
            self._look_for_ending(event, fleet, now)
        self._look_for_pauses(actions, fleet, systems, now)
        if isinstance(event, SubmissionRefused) and event.elsewhere:
            for pause in [action for action in actions if isinstance(action, Pause)]:
                self.blame(10, now, f"{pause.pool} is paused, as one machine refused {event.label}: {pause.why}")
        for action in actions:
            if isinstance(action, SubmitBlock):
                self._submission(action, fleet, now)
            elif isinstance(action, Leave) and action.reason.startswith("idle"):
                worker = None if action.label in self._leaving else workers.get((action.label, action.node))
                if worker is not None and worker.alive and worker.job is not None:
                    self.blame(5, now, f"{action.label}.{action.node} has a job and is to leave: {action.reason}")
        self._leaving |= {action.label for action in actions if isinstance(action, Leave)}

    def _look_for_pauses(
        self, actions: Sequence[FleetAction], fleet: FleetScheduler, systems: dict[str, BatchSystem], now: float
    ) -> None:
        """Blame pauses for early deaths that are none: of blocks whose workers found no head."""
        for label in fleet.records.ended.keys() - self._known_ended:
            self._known_ended.add(label)
            ended = fleet.records.ended[label]
            headless = any(job.headless for system in systems.values() for job in system.of_label(label))
            self._may_count[ended.pool] = self._may_count.get(ended.pool, 0) + (not ended.joined and not headless)
        for pause in [action for action in actions if isinstance(action, Pause) and "in a row" in action.why]:
            failing = [
                block for block in fleet.records.blocks_of(pause.pool) if block.leave_reason and not block.joined
            ]
            if self._may_count.get(pause.pool, 0) + len(failing) < _DEATHS:
                self.blame(7, now, f"{pause.pool} is paused, and had too few early deaths: {pause.why}")

    def _submission(self, action: SubmitBlock, fleet: FleetScheduler, now: float) -> None:
        if action.number in self._numbers:
            self.blame(1, now, f"{action.label} is submitted again")
        self._numbers.add(action.number)
        if self._deaths.get(action.pool, 0) >= _DEATHS:
            self.blame(7, now, f"{action.label} after {self._deaths[action.pool]} early deaths")
        if fleet.records.pools[action.pool].pool.system in self._failing:
            self.blame(8, now, f"{action.label} is submitted while its batch system does not answer")

    def _look_for_unknown(self, event: Listed, fleet: FleetScheduler, now: float) -> None:
        """Blame jobs that listings have shown for long although no block has them."""
        known = {block.native for block in fleet.records.blocks.values()}
        for row in event.rows:
            if row.state == "ended" or row.native in known:
                self._unknown.pop(row.native, None)
                continue
            since = _shown_since(self._unknown, row.native, now)
            if since is not None:
                self.blame(3, now, f"{row.native} ({row.name}) has belonged to no block since {since:.0f}")

    def _look_for_ending(self, event: Listed, fleet: FleetScheduler, now: float) -> None:
        """Blame jobs that listings have shown for long although their block is to end and has no workers."""
        ending = {block.native for block in fleet.records.blocks.values() if block.leave_reason and not block.connected}
        for row in event.rows:
            if row.state == "ended" or row.native not in ending:
                self._ending.pop(row.native, None)
                continue
            since = _shown_since(self._ending, row.native, now)
            if since is not None:
                self.blame(4, now, f"{row.native} ({row.name}) was to end at {since:.0f}, and has no workers")

    def look(self, systems: dict[str, BatchSystem], fleet: FleetScheduler | None, now: float) -> None:
        """Check what the batch systems have, at any instant."""
        nodes: dict[str, int] = {}
        names: dict[str, str] = {}
        for system in systems.values():
            for job in system.jobs.values():
                if not job.alive or job.extra:
                    continue
                nodes[job.pool.name] = nodes.get(job.pool.name, 0) + job.pool.nodes
                if job.name in names:
                    self.blame(1, now, f"{job.name} is there as {names[job.name]} and {job.native}")
                names[job.name] = job.native
        for pool, count in nodes.items():
            if count > self._most.get(pool, 0):
                self.blame(2, now, f"{pool} has {count} workers, more than {self._most.get(pool, 0)}")
        if fleet is not None:
            for name, state in fleet.records.pools.items():
                budget = state.pool.budget
                if budget is not None:
                    self._budget(name, budget, systems[state.pool.system], now)

    def _budget(self, pool: str, budget: float, system: BatchSystem, now: float) -> None:
        spent = sum(job.core_hours(now) for job in system.jobs.values() if job.pool.name == pool and not job.extra)
        if spent > budget * (1 + 1e-9):
            self.blame(2, now, f"{pool} has spent {spent:.3f} of {budget:.3f} core-hours")

    def quiet(self, fleet: FleetScheduler, systems: dict[str, BatchSystem], work: Work, now: float) -> None:
        """Check a world that had time to settle, before its pools are taken down."""
        for system in systems.values():
            for job in system.alive():
                block = fleet.records.blocks.get(job.label)
                if block is None or block.native != job.native:
                    self.blame(3, now, f"{job.native} ({job.name}) belongs to no block")
        for item in work.items.values():
            if not item.done:
                self.blame(9, now, f"job {item.number} ({item.seconds:.0f} s on {item.width}) did not end")

    def down(self, fleet: FleetScheduler, systems: dict[str, BatchSystem], now: float) -> None:
        """Check a world whose pools were taken down a while ago."""
        left: list[NativeJob] = [job for system in systems.values() for job in system.alive()]
        for job in left:
            self.blame(4, now, f"{job.native} ({job.name}) is left after `down`")
        if fleet.records.blocks or fleet.records.pools:
            self.blame(4, now, f"{list(fleet.records.pools)} with {list(fleet.records.blocks)} are left after `down`")


def _shown_since(shown: dict[str, list[float]], native: str, now: float) -> float | None:
    """Return the time of the first listing that showed a job, once that is too long ago; note this one."""
    times = shown.setdefault(native, [])
    times.append(now)
    return times[0] if len(times) > _SHOWN and now > times[0] + _SHOWN_S else None
