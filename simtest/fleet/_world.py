"""World of a fleet: pools, work, batch systems and a head that ends at times, all decided by one seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush

from grainlike.dialects import native_name
from grainlike.fleet import (
    EndBlocks,
    FleetAction,
    FleetEvent,
    FleetPool,
    FleetScheduler,
    Joined,
    Leave,
    Left,
    ListBlocks,
    Listed,
    ListingFailed,
    LogRead,
    PoolGone,
    PoolResumed,
    PoolSet,
    ReadLog,
    Restored,
    StraysGone,
    SubmissionAccepted,
    SubmissionRefused,
    SubmissionUnclear,
    SubmitBlock,
    Tick,
    Wake,
    Wanted,
    Working,
)
from grainlike.simulation import Dice
from simtest.fleet._batch_system import ANOTHER_WAY, BatchSystem, BatchSystems, NativeJob, SimWorker
from simtest.fleet._judge import FleetJudge
from simtest.fleet._weather import Weather
from simtest.fleet._work import MARGIN_S, Work

__all__ = ["DIGEST", "FleetWorld"]

DIGEST = "1a2b3c4d"
SETTLED_S = 40000.0
"""Time from the calm until all that can end must have ended: some blocks last hours, and waits double to 15 minutes."""
DOWN_S = 20000.0


class FleetWorld:
    """Virtual time, the batch systems, the head's body and the users of a fleet."""

    def __init__(self, dice: Dice, weather: Weather, pools: list[FleetPool], work: Work) -> None:
        self.dice = dice
        self.weather = weather
        self.pools = pools
        self.work = work
        self.now = 0.0
        self.judge = FleetJudge()
        names = sorted({pool.system for pool in pools})
        self.systems = BatchSystems((name, BatchSystem(name, weather)) for name in names)
        self.workers: dict[tuple[str, int], SimWorker] = {}
        self.fleet = FleetScheduler(DIGEST)
        self.alive = True
        self.head = 0
        self.submissions = 0
        self.heads = 1
        self.show: Callable[[str], None] | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._wake: float | None = None
        self._recounting = False

    # --- time ------------------------------------------------------------------------------------------------------

    def later(self, wait: float, do: Callable[[], None]) -> None:
        """Do something after a while."""
        self._sequence += 1
        heappush(self._heap, (self.now + wait, self._sequence, do))

    def wait(self, mean: float) -> float:
        """Return a drawn wait."""
        return -mean * math.log(1.0 - self.dice.fraction())

    def run(self, until: float) -> None:
        """Run until a time."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, do = heappop(self._heap)
            do()
            self.judge.look(self.systems, self.fleet, self.now)
            if self.judge.violations:
                return
        self.now = until

    @property
    def calm(self) -> bool:
        """True once nothing goes wrong any more."""
        return self.now >= self.weather.calm_at

    # --- the head --------------------------------------------------------------------------------------------------

    def tell(self, event: FleetEvent) -> None:
        """Give the fleet an event, as a head that is alive does; it may end before it acts."""
        if not self.alive:
            return
        must = self.judge.before(event, self.fleet, self.systems, self.now)
        actions = self.fleet.handle(event, self.now)
        self.judge.after(event, actions, self.fleet, self.systems, must, self.workers, self.now)
        if self.show is not None:
            self.show(f"{self.now:9.1f} {event} -> {[one for one in actions if not isinstance(one, Wake)]}")
        if self.weather.mean_head is not None and not self.calm and self.dice.chance(0.002):
            self.end_head()
            return
        for action in actions:
            self.perform(action)
        if not isinstance(event, Wanted):
            self.recount()

    def answer(self, head: int, event: FleetEvent) -> Callable[[], None]:
        """Return what gives an event to the head that asked, if it is still there."""

        def give() -> None:
            if self.head == head:
                self.tell(event)

        return give

    def end_head(self) -> None:
        """End the head; another one takes its records after a while."""
        if not self.alive:
            return
        self.alive = False
        self.head += 1
        for worker in self.workers.values():
            worker.connected = False
        self.later(self.dice.between(0.5, self.weather.down_s), self.begin_head)

    def begin_head(self) -> None:
        """Begin the next head, on the records of the last."""
        self.alive = True
        self.heads += 1
        self._wake = None
        self.tell(Restored())
        for worker in list(self.workers.values()):
            self.later(self.dice.between(0.1, 20.0), self._joins(worker))
        if self.weather.mean_head is not None and not self.calm:
            self.later(self.wait(self.weather.mean_head), self._ends_head)

    def _ends_head(self) -> None:
        if not self.calm:
            self.end_head()

    def recount(self) -> None:
        """Count what is wanted, soon."""
        if not self._recounting:
            self._recounting = True
            self.later(self.dice.between(0.01, 1.0), self._recounted)

    def _recounted(self) -> None:
        self._recounting = False
        if not self.alive:
            return
        self.place()
        version = self.fleet.version
        known = [pool for pool in self.pools if pool.name in self.fleet.records.pools]
        room = {pool.name: self.fleet.room(pool.name) for pool in known}
        workers, kept = self.work.wanted(known, room, list(self.workers.values()), self.now)
        self.tell(Wanted(workers, version, kept))
        if self.fleet.version != version:
            self.recount()

    # --- actions ---------------------------------------------------------------------------------------------------

    def perform(self, action: FleetAction) -> None:
        """Perform an action of the fleet."""
        if isinstance(action, SubmitBlock):
            self._submit(action)
        elif isinstance(action, ListBlocks):
            self._list(action.system)
        elif isinstance(action, EndBlocks):
            for native in action.natives:
                self.later(self.wait(self.weather.mean_answer), self._ends_native(action.system, native))
        elif isinstance(action, Leave):
            self.later(self.wait(0.05), self._leaves(action))
        elif isinstance(action, ReadLog):
            block = self.fleet.records.ended.get(action.label)
            broken = block is not None and not block.joined
            tail = "bash: /nonexistent: No such file or directory\nexit code 127" if broken else "ended"
            event = LogRead(action.label, tail if self.dice.chance(0.5) else None, "/home/log")
            self.later(self.wait(1.0), self.answer(self.head, event))
        elif isinstance(action, Wake) and (self._wake is None or action.at < self._wake or self._wake <= self.now):
            self._wake = action.at
            self.later(action.at - self.now, self._ticks(action.at))

    def _ticks(self, at: float) -> Callable[[], None]:
        def tick() -> None:
            if self._wake == at:
                self._wake = None
                self.tell(Tick())

        return tick

    def _submit(self, action: SubmitBlock) -> None:
        weather, dice = self.weather, self.dice
        self.submissions += 1
        pool = self.fleet.records.pools[action.pool].pool
        takes = self.wait(weather.mean_answer)
        after = takes + self.wait(weather.mean_answer)
        if not self.calm and dice.chance(weather.limited):
            refusal = SubmissionRefused(action.label, "QOSMaxSubmitJobPerUserLimit", waits=True)
            self.later(after, self.answer(self.head, refusal))
            return
        if weather.elsewhere and not self.calm and dice.chance(weather.elsewhere):
            refusal = SubmissionRefused(action.label, "n1: Permission denied (publickey).", elsewhere=True)
            self.later(after, self.answer(self.head, refusal))
            return
        unclear = not self.calm and dice.chance(weather.unclear)
        if unclear and dice.chance(0.5):
            self.later(after, self.answer(self.head, SubmissionUnclear(action.label, "Socket timed out")))
            return
        late = not self.calm and dice.chance(weather.late)
        twice = not self.calm and dice.chance(weather.twice)

        def taken() -> None:
            shown_at = self.now + (dice.between(40.0, 400.0) if late else 0.0)
            job = self._take(action, pool, shown_at, extra=late)
            if twice:
                self._take(action, pool, self.now, extra=True)
                job.extra = True
            event = (
                SubmissionUnclear(action.label, "Socket timed out")
                if unclear
                else SubmissionAccepted(action.label, job.native)
            )
            self.later(after - takes, self.answer(head, event))

        head = self.head
        self.later(takes, taken)

    def _take(self, action: SubmitBlock, pool: FleetPool, shown_at: float, *, extra: bool) -> NativeJob:
        name = native_name(DIGEST, action.number)
        job = self.systems[pool.system].take(name, action.label, pool, self.now, shown_at=shown_at, extra=extra)
        self.later(self.wait(self.weather.mean_queue), self._starts(job))
        if self.weather.mean_cancelled is not None and not self.calm:
            self.later(self.wait(self.weather.mean_cancelled), self._cancelled_by_others(job))
        return job

    def _cancelled_by_others(self, job: NativeJob) -> Callable[[], None]:
        def cancel() -> None:
            if job.state == "pending" and not self.calm:
                job.by_others = True
                self.end_native(job, "CANCELLED by 1001")

        return cancel

    def _list(self, system: str) -> None:
        asked, head = self.now, self.head
        takes = self.wait(self.weather.mean_answer)

        def told() -> None:
            if self.weather.is_silent(self.now):
                event: FleetEvent = ListingFailed(system, "slurm_load_jobs error: Unable to contact slurm controller")
            else:
                event = Listed(system, self.systems[system].listing(self.now), asked)
            self.later(self.wait(self.weather.mean_answer), self.answer(head, event))
            if not self.calm and self.dice.chance(0.02):
                self.later(self.wait(self.weather.mean_answer), self.answer(head, event))

        self.later(takes, told)

    def _ends_native(self, system: str, native: str) -> Callable[[], None]:
        def end() -> None:
            job = self.systems[system].jobs.get(native)
            if job is None or not job.alive or (self.weather.is_silent(self.now) and self.dice.chance(0.5)):
                return
            self.later(
                0.0 if job.state == "pending" else self.dice.between(0.0, 20.0), self._is_ended(job, "CANCELLED")
            )

        return end

    def _is_ended(self, job: NativeJob, reason: str) -> Callable[[], None]:
        return lambda: self.end_native(job, reason)

    # --- native jobs and their workers -----------------------------------------------------------------------------

    def _starts(self, job: NativeJob) -> Callable[[], None]:
        def start() -> None:
            if job.state != "pending":
                return
            if self.weather.is_stuck(self.now):
                job.stuck = True
                return
            job.state, job.started_at = "running", self.now
            job.broken = self.weather.is_broken(self.now)
            if job.broken:
                self.later(self.dice.between(0.0, 20.0), self._is_ended(job, "FAILED"))
                return
            job.workers = [SimWorker(job, node) for node in range(job.pool.nodes)]
            for worker in job.workers:
                self.later(self.wait(self.weather.mean_boot), self._joins(worker))
                if self.weather.mean_crash is not None:
                    self.later(self.wait(self.weather.mean_crash), self._crashes(worker))
            if job.pool.walltime_s is not None:
                begun = job.started_at
                self.later(job.pool.walltime_s - MARGIN_S / 2, self._margin(job, begun))
                self.later(job.pool.walltime_s, self._walltime(job, begun))
            if self.weather.mean_preempted is not None:
                self.later(self.wait(self.weather.mean_preempted), self._preempts(job))

        return start

    def _joins(self, worker: SimWorker) -> Callable[[], None]:
        def join() -> None:
            key = worker.label, worker.node
            if not worker.alive or worker.connected or not worker.native.alive:
                return
            other = self.workers.get(key)
            if other is not None and other is not worker and other.alive and other.connected:
                self.exit_worker(worker, "refused")  # of a job that was taken twice
                return
            if not self.alive and self.workers.get(key) is not worker:
                worker.native.headless = True
                self.exit_worker(worker, "it finds no head")
                return
            self.workers[key] = worker
            if not self.alive:
                return  # it comes when the next head does
            worker.connected = True
            cores = worker.native.pool.cores or 4
            self.tell(Joined(worker.label, worker.node, cores, idle=worker.job is None))
            if self.weather.mean_blink is not None and not self.calm:
                self.later(self.wait(self.weather.mean_blink), self._blinks(worker))

        return join

    def _blinks(self, worker: SimWorker) -> Callable[[], None]:
        def blink() -> None:
            if worker.alive and worker.connected and not self.calm:
                worker.connected = False  # it was given up, and what ran on it waits again
                if worker.job is not None:
                    self.requeue(worker.job)
                self.tell(Left(worker.label, worker.node, "the connection broke"))
                self.later(self.dice.between(0.1, 100.0), self._joins(worker))

        return blink

    def _crashes(self, worker: SimWorker) -> Callable[[], None]:
        def crash() -> None:
            if worker.alive and not self.calm:
                self.exit_worker(worker, "it was killed")

        return crash

    def _leaves(self, action: Leave) -> Callable[[], None]:
        def leave() -> None:
            worker = self.workers.get((action.label, action.node))
            if worker is None or not worker.alive or not worker.connected:
                return
            worker.leaving = True
            if not self.calm and self.dice.chance(0.02):
                return  # it does not hear, or does not manage
            if worker.job is None or action.at_once:
                self.later(self.dice.between(0.0, 2.0), lambda: self.exit_worker(worker, "it left"))

        return leave

    def exit_worker(self, worker: SimWorker, how: str) -> None:
        """End a worker; what ran on it waits again, and its native job ends with its last worker."""
        if not worker.alive:
            return
        worker.alive = False
        if worker.job is not None:
            self.requeue(worker.job)
        if worker.connected:
            worker.connected = False
            self.tell(Left(worker.label, worker.node, how))
        if not any(other.alive for other in worker.native.workers):
            self.later(1.0, self._is_ended(worker.native, "COMPLETED"))

    def end_native(self, job: NativeJob, reason: str) -> None:
        """End a native job, with its workers."""
        if not job.alive:
            return
        job.state, job.reason, job.ended_at = "ended", reason, self.now
        for worker in job.workers:
            self.exit_worker(worker, reason)

    def _margin(self, job: NativeJob, begun: float | None) -> Callable[[], None]:
        def near() -> None:
            if job.alive and job.started_at == begun:
                for worker in job.workers:
                    self.exit_worker(worker, "its time is over")

        return near

    def _walltime(self, job: NativeJob, begun: float | None) -> Callable[[], None]:
        def over() -> None:
            if job.started_at == begun:
                self.end_native(job, "TIMEOUT")

        return over

    def _preempts(self, job: NativeJob) -> Callable[[], None]:
        def preempt() -> None:
            if job.state != "running" or self.calm:
                return
            if not self.dice.chance(self.weather.requeues):
                self.end_native(job, "PREEMPTED")
                return
            job.state = "pending"
            for worker in job.workers:
                if worker.alive:
                    worker.alive = False
                    if worker.job is not None:
                        self.requeue(worker.job)
                    if worker.connected:
                        worker.connected = False
                        self.tell(Left(worker.label, worker.node, "PREEMPTED"))
            if job.state == "pending":
                job.extra = True  # it takes more than one walltime, by the batch system's doing
                self.later(self.wait(self.weather.mean_queue), self._starts(job))

        return preempt

    # --- work ------------------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Start the jobs that can start."""
        for item, workers in self.work.placements(list(self.workers.values()), self.now):
            item.running = True
            for worker in workers:
                worker.job = item.number
                self.tell(Working(worker.label, worker.node))
            self.later(item.seconds, self._done(item.number, workers))

    def _done(self, number: int, workers: list[SimWorker]) -> Callable[[], None]:
        def done() -> None:
            if any(worker.job != number or not worker.alive for worker in workers):
                return  # it was lost meanwhile
            self.work.items[number].done = True
            self._free(number)
            self.recount()

        return done

    def requeue(self, number: int) -> None:
        """Have a job wait again that lost a worker."""
        self.work.items[number].running = False
        self._free(number)

    def _free(self, number: int) -> None:
        for worker in list(self.workers.values()):
            if worker.job == number:
                worker.job = None
                if worker.alive and worker.connected:
                    if worker.leaving:
                        self.exit_worker(worker, "it left")
                    else:
                        self.tell(Working(worker.label, worker.node, idle=True))

    # --- the story -------------------------------------------------------------------------------------------------

    def story(self) -> None:
        """Set the pools, let things go wrong, let them settle, and take the pools down."""
        for pool in self.pools:
            self.later(self.dice.between(0.0, 5.0), self._sets(pool))
        self.later(1500.0, self._operator)
        if self.weather.moved_at is not None:
            self.later(self.weather.moved_at, self._moves)
        if self.weather.mean_head is not None:
            self.later(self.wait(self.weather.mean_head), self._ends_head)
        self.run(self.weather.calm_at)
        self.run(self.weather.calm_at + SETTLED_S)
        if self.judge.violations:
            return
        self.judge.quiet(self.fleet, self.systems, self.work, self.now)
        at_once = self.dice.chance(0.5)
        for pool in self.pools:
            self.tell(PoolGone(pool.name, at_once))
        self.tell(StraysGone())
        self.run(self.now + DOWN_S)
        self.judge.down(self.fleet, self.systems, self.now)

    def _operator(self) -> None:
        """Resume pools that failures have paused, once the environment is mended."""
        if self.alive and not self.weather.is_broken(self.now):
            for name, state in self.fleet.records.pools.items():
                if state.paused and "core-hours" not in state.paused:
                    self.tell(PoolResumed(name))
        self.later(1500.0, self._operator)

    def _moves(self) -> None:
        """Have all pools reach their batch systems in another way."""
        self.pools = [replace(pool, system=pool.system + ANOTHER_WAY) for pool in self.pools]
        for pool in self.pools:
            self._sets(pool)()

    def _sets(self, pool: FleetPool) -> Callable[[], None]:
        def give() -> None:
            if self.alive:
                self.tell(PoolSet(pool))
            else:
                self.later(60.0, give)

        return give
