"""Driver of a node for a machine that decides what happens next, and what the node's scheduler must never do."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any

from naive_loans import NaiveLoans

from grainlike.resources import NO_ALLOCATION, Allocation, Request, parse_allocation
from grainlike.scheduler import (
    BarrierHeld,
    JobAwaits,
    JobGoesOn,
    KillRunner,
    NodeAction,
    NodeEvent,
    NodeScheduler,
    NodeStopped,
    RaiseBarrier,
    ResumeJob,
    RunnerAnswered,
    RunnerCompleted,
    RunnerGone,
    RunnerReady,
    RunnerRetired,
    SpawnRunner,
    StartLease,
    StopJobs,
    TellCompleted,
    TellEnded,
    TellStarted,
    TellWaits,
    TerminateRunner,
    WakeAt,
)
from grainlike.wire import Assign, Cancel, Code, Completed, Define
from simtest.judge._device_records import DeviceRecords

__all__ = ["NaiveNode"]

_parsed = lru_cache(maxsize=4096)(parse_allocation)

START_S = 60.0
"""How long a process may take to start, before that counts for its job."""

Outcome = tuple[int, int]
"""A message to the attempt of a job: one of its own jobs has its outcome."""


class NaiveNest:
    """An attempt of a job that submitted jobs: where it runs, how many outcomes it had, and how many are to come."""

    def __init__(self, runner: int, lease: int) -> None:
        self.runner = runner
        self.lease = lease
        self.heard = self.left = 0


class NaiveRunner:
    """A process. Of each lease: what has not ended, by position; the first of them runs."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.leases: dict[int, dict[int, tuple[int, int, int]]] = {}
        self.terminating = self.retired = self.ready = False
        self.limits: dict[tuple[int, int], float] = {}
        """For how long what it was given may run, where that may not run for ever."""
        self.stops: set[int] = set()
        self.ended: set[int] = set()
        """All that it was ever told to stop."""
        self.barriers: list[int] = []


class NaiveNode:
    """Carries messages to the scheduler and its actions to runners that somebody else moves."""

    def __init__(self, number: int, offer: Allocation, keeps: frozenset[int]) -> None:
        self.number = number
        self.keeps = keeps
        """The functions that lend nothing while they wait."""
        self.offer = offer
        self.scheduler = NodeScheduler(offer)
        self.down: deque[NodeEvent | Outcome] = deque()
        self.up: deque[tuple[str, tuple[Any, ...]]] = deque()
        self.runners: dict[int, NaiveRunner] = {}
        self.wake: float | None = None
        self.defined: set[int] = set()
        self.told: set[tuple[int, int]] = set()
        self.suspended: set[int] = set()
        """The leases whose jobs wait for jobs of their own, or for their cores."""
        self._nests: dict[Outcome, NaiveNest] = {}
        self._loans = NaiveLoans(offer)
        self._devices = DeviceRecords()
        self._going = False
        self._due: dict[tuple[int, int], float] = {}
        """Until when an attempt may run, if it may not run for ever, reckoned from when its process can begin it."""
        self._planned: list[int] = []
        self._of_devices: set[int] = set()
        """Classes that ask for devices."""
        self._coroutines: set[int] = set()
        """Functions whose jobs are coroutines."""
        self._passable: set[int] = set()
        """Planned jobs that may wait for the memory of devices, for which others do not wait."""
        self._stopped: set[tuple[int, int]] = set()

    def tell(self, event: NodeEvent, now: float) -> None:
        """Let the scheduler answer, and do what it says."""
        if isinstance(event, Define):
            self._of_devices.update(cls.cls for cls in event.classes if "gpus" in cls.request)
            self._coroutines.update(spec.fn for spec in event.functions if spec.is_async)
        if isinstance(event, Assign) and not event.ahead:
            self._planned += event.jobs
            if event.cls in self._of_devices:
                self._passable.update(event.jobs)
        if isinstance(event, Cancel):
            self._stopped.update(zip(event.jobs, event.attempts, strict=True))
        self._going = self._going or isinstance(event, NodeStopped)
        started, completed, ended, waits = [], [], [], []
        for action in self.scheduler.handle(event, now):
            match action:
                case TellStarted(start=start):
                    started.append(start)
                case TellCompleted():
                    self._tell_completed(action.completed, now)
                    completed.append(action.completed)
                case TellEnded(lease=lease):
                    self._free(lease)
                    ended.append(lease)
                case TellWaits(wait=wait):
                    self._loans.told(wait, _parsed(wait.allocation) if wait.allocation else NO_ALLOCATION)
                    waits.append(wait)
                case StartLease():
                    self._grant(action, now)
                case _:
                    self._act(action)
        self.scheduler.check()
        self.check()
        if started or completed or ended or waits:
            self.up.append(("report", (started, completed, ended, waits)))

    def _act(self, action: NodeAction) -> None:
        match action:
            case SpawnRunner():
                self.runners[action.runner] = NaiveRunner(action.kind)
            case StopJobs():
                self.runners[action.runner].stops.update(action.jobs)
                self.runners[action.runner].ended.update(action.jobs)
            case RaiseBarrier():
                self.runners[action.runner].barriers.append(action.lease)
            case TerminateRunner() | KillRunner():
                self.runners[action.runner].terminating = True
                self._loans.terminating(action.runner)
            case ResumeJob():
                self.suspended.remove(self._nests[action.job, action.attempt].lease)
            case RunnerRetired():
                self.runners[action.runner].retired = True
            case WakeAt():
                self.wake = action.at if self.wake is None else min(self.wake, action.at)
            case _:
                raise AssertionError(action)

    def _grant(self, action: StartLease, now: float) -> None:
        runner = self.runners[action.runner]
        assert not runner.terminating, "its process was told to die"
        assert not runner.retired
        assert runner.kind == "shared" or not runner.leases, "a process of its own has one lease at a time"
        assert len({fn in self._coroutines for fn in action.fns}) == 1, "they run in two kinds of process"
        for job, attempt in zip(action.jobs, action.attempts, strict=True):
            assert (job, attempt) not in self.told
            assert (job, attempt) not in self._stopped, "it was to be stopped"
        ahead = action.jobs[0] not in self._planned
        before = self._planned if ahead else self._planned[: self._planned.index(action.jobs[0])]
        assert self._passable.issuperset(before), "planned jobs start in the order in which they came, before others"
        if not ahead:
            self._planned.remove(action.jobs[0])
        allocation = _parsed(action.allocation)
        self._loans.granted(action.lease, allocation, action.runner, ahead=ahead)
        self._devices.granted(action.lease, action.runner, allocation, fresh=action.fresh)
        if action.limit is not None:
            assert len(action.jobs) == 1, "a job with a limit is alone"
            runner.limits[action.jobs[0], action.attempts[0]] = action.limit
            late = 0.0 if runner.ready else START_S
            self._due[action.jobs[0], action.attempts[0]] = now + action.limit + late
        runner.leases[action.lease] = dict(enumerate(zip(action.jobs, action.attempts, action.fns, strict=True)))

    def _tell_completed(self, completed: Completed, now: float) -> None:
        for job, attempt in zip(completed.jobs, completed.attempts, strict=True):
            if attempt:
                code = completed.codes[completed.jobs.index(job)]
                assert code != Code.TIMED_OUT or now >= self._due[job, attempt], "ended before its time"
                if code != Code.RETURNED:
                    assert (job, attempt) not in self.told, "told twice"
                    self.told.add((job, attempt))
                if job in self._planned:
                    self._planned.remove(job)

    def _free(self, lease: int) -> None:
        number = self._loans.rows[lease].runner
        self._loans.ended(lease)
        self._devices.freed(lease)
        runner = self.runners.get(number)
        assert runner is None or not runner.terminating, "its process was told to die, and lives"
        assert runner is None or not runner.leases.get(lease), "a job runs in it"

    def check(self) -> None:
        """No more than there is, and no id twice."""
        used: dict[str, int] = {}
        ids: dict[str, list[int]] = {}
        for allocation in self._loans.held():
            for name, units in allocation.units.items():
                used[name] = used.get(name, 0) + units
            ids.setdefault("cores", []).extend(allocation.cores)
        assert all(units <= self.offer.units[name] for name, units in used.items()), used
        assert all(len(numbers) == len(set(numbers)) for numbers in ids.values()), ids
        self._loans.check(stopped=self._going)

    def check_time(self, now: float) -> None:
        """What has had its time was told to end."""
        for runner in self.runners.values():
            for job, attempt, _ in (row for held in runner.leases.values() for row in held.values()):
                over = now - self._due.get((job, attempt), now + 1.0)
                assert over < 0.0 or runner.terminating or job in runner.ended, (
                    f"job {job} ran out of its time {over} s ago"
                )

    # --- what runners do ---------------------------------------------------------------------------------------------

    def busy(self) -> list[int]:
        """Processes in which a job runs."""
        return [number for number in self.runners if self.running(number)]

    def running(self, number: int) -> list[int]:
        """The leases of a process whose jobs do not wait."""
        return [lease for lease in self.runners[number].leases if lease not in self.suspended]

    def come_up(self, number: int, now: float) -> None:
        """A process is there, and says so if many share it, or if it has a job that may not run for ever."""
        runner = self.runners[number]
        if not runner.ready and (runner.limits or (runner.kind == "shared" and runner.leases)):
            runner.ready = True
            self._due.update((key, now + limit) for key, limit in runner.limits.items())
            self.tell(RunnerReady(number), now)

    def call(self, number: int, lease: int, request: Request, fns: list[int], now: float) -> None:
        """The job that runs in a lease submits jobs of its own, and waits for them."""
        job, attempt, fn = next(iter(self.runners[number].leases[lease].values()))
        self._loans.rows[lease].keep = fn in self.keeps
        nest = self._nests.setdefault((job, attempt), NaiveNest(number, lease))
        nest.left += len(fns)
        self.suspended.add(lease)
        self.up.append(("nested", ((job, attempt), request, fns)))
        self.tell(JobAwaits(number, job, attempt, nest.heard), now)

    def take(self, message: NodeEvent | Outcome, now: float) -> None:
        """A message of the head's arrives."""
        if not isinstance(message, tuple):
            self.tell(message, now)
            return
        nest = self._nests.get(message)
        if nest is not None and nest.runner in self.runners and nest.lease in self.runners[nest.runner].leases:
            nest.heard += 1
            nest.left -= 1
            kind = JobAwaits if nest.left else JobGoesOn
            self.tell(kind(nest.runner, *message, nest.heard), now)

    def say(self, number: int, lease: int, rows: list[tuple[int, Code, float]], now: float) -> None:
        """A runner tells how jobs ended, by their positions."""
        self.runners[number].ready = True
        held = self.runners[number].leases[lease]
        jobs = [held.pop(position) for position, _, _ in rows]
        if not held:
            del self.runners[number].leases[lease]
            self.suspended.discard(lease)
        count = len(rows)
        completed = Completed(
            lease,
            [job for job, _, _ in jobs],
            [attempt for _, attempt, _ in jobs],
            [int(code) for _, code, _ in rows],
            [now] * count,
            [wall for _, _, wall in rows],
            [0.0] * count,
            [0] * count,
            [b""] * count,
            [],
            now,
        )
        self.tell(RunnerCompleted(number, completed), now)

    def end_first(
        self, number: int, pick: int, code: Code, wall: dict[int, float], now: float, *, awaits: bool
    ) -> None:
        """The job that runs in one of its leases ends; with `awaits`, those behind it are handed back first."""
        self.come_up(number, now)
        runner = self.runners[number]
        running = self.running(number)
        lease = running[pick % len(running)]
        positions = list(runner.leases[lease])
        rows = [(positions[0], code, wall[runner.leases[lease][positions[0]][2]])]
        if awaits and runner.kind == "shared":
            rows += [(position, Code.RETURNED, 0.0) for position in positions[1:]]
        self.say(number, lease, rows, now)

    def die(self, number: int, now: float) -> None:
        """A process is gone."""
        runner = self.runners.pop(number)
        self._devices.died(number)
        self.suspended.difference_update(runner.leases)
        first = min((min(held) for held in runner.leases.values() if held), default=-1)
        self.tell(RunnerGone(number, "SIGKILL", first if runner.kind == "own" else -1), now)

    def obey(self, number: int, now: float, *, all_of_it: bool) -> None:
        """A runner does as it was told: steps over what is to be stopped, or ends it, or goes."""
        runner = self.runners[number]
        while runner.barriers:
            lease = runner.barriers.pop()
            if lease in runner.leases:
                started = min(runner.leases[lease])
                runner.leases[lease] = {started: runner.leases[lease][started]}
                self.tell(BarrierHeld(number, lease, started), now)
        if number not in self.runners:
            return
        if runner.terminating:
            self.die(number, now)
            return
        stops, runner.stops = runner.stops, set()
        if stops and runner.kind == "shared":
            self.tell(RunnerAnswered(number), now)
        for lease, held in list(runner.leases.items()):
            positions = list(held)
            if not (all_of_it and runner.kind == "shared") and lease not in self.suspended:
                positions = positions[1:]  # the job that runs takes no notice; one that waits is torn from its waiting
            rows = [(position, Code.CANCELLED, 0.0) for position in positions if held[position][0] in stops]
            if rows:
                self.say(number, lease, rows, now)

    def idle(self) -> bool:
        """Nothing is here, by either's records."""
        return self.scheduler.idle and not self._loans.rows


def stale(reports: list[tuple[int, list[Completed]]]) -> list[tuple[int, list[Completed]]]:
    """Of old reports, what could never be said again in earnest: outcomes that ended an attempt."""
    final = [(worker, [m for m in messages if Code.RETURNED not in m.codes]) for worker, messages in reports]
    return [(worker, messages) for worker, messages in final if messages]
