"""The node's mind: the authority on one node. It owns the concrete ids, and grants them in leases.

Laws (checked by `NodeMind.check` in tests after every step):

1. An id is in one lease at most; what is not in a lease is free.
2. Planned jobs start in the order they came, and before any job sent ahead: the head's books say that they fit, so
   they wait for nothing but jobs that the node itself started ahead.
3. A lease's ids are free again only when its last job has ended *and* no process that could still run one is left.
4. Every job that came in is told of exactly once: completed, returned or cancelled.

A lease is one allocation and a *run-list*: jobs of one function that a runner executes one after another without asking
again. Only functions known to be tiny get more than one job (`_run_list`); when a running job turns out long, the rest
is taken back behind a barrier and stays on this node.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Literal

from grainlike.resources import Allocation, Ledger, Topology, parse
from grainlike.scheduler._events import (
    BarrierHeld,
    KillRunner,
    NodeAction,
    NodeEvent,
    NodeStopped,
    RaiseBarrier,
    RunnerAnswered,
    RunnerCompleted,
    RunnerGone,
    RunnerRetired,
    SpawnRunner,
    StartLease,
    StopJobs,
    TellCompleted,
    TellEnded,
    TellStarted,
    TerminateRunner,
    Ticked,
    WakeAt,
)
from grainlike.scheduler._node_books import Function, Job, Lease, NodeClass, Runner, RunnerKind, by_age, front
from grainlike.scheduler._outcomes import told_rows, without_payloads
from grainlike.wire import Assign, Cancel, Code, Define, LeaseStart, Retract

__all__ = ["GRACE_S", "NodeMind"]

RUN_LIST_TINY_S = 0.005
"""Only functions whose mean + 2σ is under this get run-lists."""

RUN_LIST_S = 0.002
"""The most expected work in one run-list."""

RUN_LIST_MOST = 256

LONG_S = 0.010
"""A run-list that has not ended after this long gives up what it has not started."""

SOFT_STOP_S = 0.05
"""How long a process with several tiny jobs may take to step over a cancelled one before a barrier settles it."""

GRACE_S = 5.0
"""From SIGTERM to SIGKILL."""

_Timer = Literal["timeout", "bar", "retire", "kill"]


class NodeMind:
    """Decides for one node. `offer` is all that the node gives, with ids.

    `mortal` says that the shared runner is a process, which can be killed; the embedded worker's is not.

    Example::

        mind = NodeMind(Cores([0, 1]))
        mind.handle(Define(functions, classes), now=0.0)
        mind.handle(Assign(...), now=0.0)     # [SpawnRunner(...), StartLease(...), TellStarted(...)]
    """

    def __init__(self, offer: Allocation, topology: Topology | None = None, *, mortal: bool = True) -> None:
        self._mortal = mortal
        self._ledger = Ledger(offer, topology)
        self._functions: dict[int, Function] = {}
        self._classes: dict[int, NodeClass] = {}
        self._jobs: dict[int, Job] = {}
        self._planned: deque[Job] = deque()
        self._runners: dict[int, Runner] = {}
        self._idle: list[Runner] = []
        self._leases: dict[int, Lease] = {}
        self._shared: Runner | None = None
        self._last_runner = 0
        self._last_lease = 0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._wake: float | None = None
        self._stopped = False

    def handle(self, event: NodeEvent, now: float) -> list[NodeAction]:
        """Take one event; return what to do, in order."""
        out: list[NodeAction] = []
        match event:
            case Define():
                self._define(event)
                return out
            case Assign():
                self._assigned(event, now, out)
            case Cancel():
                self._cancel(event, now, out)
            case Retract():
                self._retract(event, now, out)
            case RunnerAnswered():
                if event.runner in self._runners:
                    self._runners[event.runner].answers = True
            case RunnerCompleted():
                self._completed(event, now, out)
            case RunnerGone():
                self._runner_gone(event, now, out)
            case BarrierHeld():
                self._barrier_held(event, now, out)
            case NodeStopped():
                self._stopped = True
            case Ticked():
                self._ticked(now, out)
        if self._stopped:
            self._stop_all(now, out)
        else:
            self._grant_all(now, out)
        self._set_timer(out)
        return out

    @property
    def idle(self) -> bool:
        """True when no job is here and every slot is free."""
        return not self._jobs and not self._leases

    def _define(self, event: Define) -> None:
        for spec in event.functions:
            self._functions[spec.fn] = Function(is_async=spec.is_async, timeout=spec.timeout)
        for cls in event.classes:
            self._classes[cls.cls] = NodeClass(cls.cls, parse(cls.request), isolate=cls.isolate)

    def _assigned(self, event: Assign, now: float, out: list[NodeAction]) -> None:
        """Queue jobs. What this node could not even grant when idle is told of at once: it must not block others."""
        cls = self._classes[event.cls]
        fits = self._ledger.fits_ever(cls.request)
        queue = cls.ahead if event.ahead else self._planned
        for number, attempt, fn in zip(event.jobs, event.attempts, event.fns, strict=True):
            function = self._functions[fn]
            limits = [limit for limit in (function.timeout, event.hard_s) if limit is not None]
            job = self._jobs[number] = Job(number, attempt, cls, fn, function, min(limits, default=None))
            queue.append(job)
        if not fits:
            self._tell_unstarted(self._named(event.jobs, event.attempts), Code.UNFIT, now, out)

    # --- granting ----------------------------------------------------------------------------------------------------

    def _grant_all(self, now: float, out: list[NodeAction]) -> None:
        """Start planned jobs in order; when none waits, start what was sent ahead, the oldest class first."""
        while (job := front(self._planned)) is not None:
            if not self._grant(job, self._planned, now, out):
                return
        blocked: set[int] = set()
        while (job := self._oldest_ahead(blocked)) is not None:
            if not self._grant(job, job.cls.ahead, now, out):
                blocked.add(job.cls.cls)

    def _oldest_ahead(self, blocked: set[int]) -> Job | None:
        oldest: Job | None = None
        for cls in self._classes.values():
            if cls.cls in blocked or not cls.ahead:
                continue
            job = front(cls.ahead)
            if job is not None and (oldest is None or job.job < oldest.job):
                oldest = job
        return oldest

    def _grant(self, job: Job, queue: deque[Job], now: float, out: list[NodeAction]) -> bool:
        """Start a lease for `job`, the first of `queue`; False if its slots are not free."""
        grant = self._ledger.grant(job.cls.request)
        if grant is None:
            return False
        queue.popleft()
        run_list = self._run_list(job)
        runner = self._runner_for(job, out)
        self._last_lease += 1
        lease = Lease(self._last_lease, job.cls, grant, runner, run_list)
        self._leases[lease.lease] = runner.leases[lease.lease] = lease
        for member in run_list:
            member.lease = lease
        self._begin(lease, run_list, now, out)
        return True

    def _begin(self, lease: Lease, run_list: list[Job], now: float, out: list[NodeAction]) -> None:
        jobs = [job.job for job in run_list]
        attempts = [job.attempt for job in run_list]
        allocation = str(lease.grant.allocation)
        deadlines = [None if job.limit_s is None else now + job.limit_s for job in run_list]
        out.append(
            StartLease(
                lease.runner.runner, lease.lease, allocation, jobs, attempts, [j.fn_id for j in run_list], deadlines
            )
        )
        out.append(TellStarted(LeaseStart(lease.lease, lease.cls.cls, allocation, jobs, attempts, now)))
        if deadlines[0] is not None:
            self._timer(deadlines[0], lease.lease, "timeout")
        if len(run_list) > 1 and lease.runner.kind == "own":
            self._timer(now + LONG_S, lease.lease, "bar")

    def _run_list(self, first: Job) -> list[Job]:
        """`first` and the jobs behind it that may ride on the same lease."""
        run_list = [first]
        times = first.fn.times
        if not times.known or times.awaits or times.upper > RUN_LIST_TINY_S:
            return run_list
        if first.limit_s is not None or first.cls.alone or first.cls.isolate:
            return run_list
        most = min(RUN_LIST_MOST, int(RUN_LIST_S / max(times.mean, 1e-6)))
        queue = first.cls.ahead
        while len(run_list) < most:
            job = front(queue)
            if job is None or job.fn is not first.fn:
                break
            run_list.append(queue.popleft())
        return run_list

    def _runner_for(self, job: Job, out: list[NodeAction]) -> Runner:
        # Devices are shown by the environment, which coroutines that share a process cannot each have.
        if job.fn.is_async and not job.cls.isolate and not job.cls.devices:
            if self._shared is None:
                self._shared = self._spawn("shared", out)
            return self._shared
        return self._idle.pop() if self._idle else self._spawn("own", out)

    def _spawn(self, kind: RunnerKind, out: list[NodeAction]) -> Runner:
        self._last_runner += 1
        runner = self._runners[self._last_runner] = Runner(self._last_runner, kind)
        out.append(SpawnRunner(runner.runner, kind))
        return runner

    # --- what runners say --------------------------------------------------------------------------------------------

    def _completed(self, event: RunnerCompleted, now: float, out: list[NodeAction]) -> None:
        lease = self._leases.get(event.completed.lease)
        if lease is None:
            return
        completed = event.completed
        codes = list(completed.codes)
        told: list[int] = []
        back: list[Job] = []
        positions = {job.job: position for position, job in lease.jobs.items()}
        walls: dict[Function, list[float]] = {}
        for row, number in enumerate(completed.jobs):
            position = positions.get(number)
            if position is None:
                continue
            job = lease.jobs.pop(position)
            if job.gone:
                continue  # told of when it would not stop; now it has
            if codes[row] == Code.RETURNED and job.stopped is None:
                back.append(job)
                continue
            if codes[row] in (Code.CANCELLED, Code.RETURNED) and job.stopped is not None:
                codes[row] = job.stopped
            elif codes[row] == Code.CANCELLED:
                # Not by us: somebody else told the process to end, and it is about to.
                codes[row] = Code.CRASHED
                self._terminate(lease.runner, lease, now, out)
            elif codes[row] == Code.SUCCEEDED:
                walls.setdefault(job.fn, []).append(completed.wall[row])
            self._forget(job)
            told.append(row)
        for fn, samples in walls.items():
            fn.times.add(samples)
            fn.times.awaits = fn.times.awaits or completed.awaited
        self._keep(back)
        if told:
            out.append(TellCompleted(told_rows(completed, told, codes), forwarded=True))
        self._maybe_end(lease, out)

    def _maybe_end(self, lease: Lease, out: list[NodeAction]) -> None:
        """Free a lease's slots when nothing of it is left, unless its process has been told to die and has not yet."""
        runner = lease.runner
        if lease.jobs or runner.doomed:
            return
        self._end(lease, out)
        if runner.kind == "own":
            self._idle.append(runner)
        self._end_retired(runner, out)

    def _end(self, lease: Lease, out: list[NodeAction]) -> None:
        del self._leases[lease.lease], lease.runner.leases[lease.lease]
        self._ledger.release(lease.grant)
        out.append(TellEnded(lease.lease))

    def _runner_gone(self, event: RunnerGone, now: float, out: list[NodeAction]) -> None:
        runner = self._runners.pop(event.runner, None)
        if runner is None:
            return
        if runner is self._shared:
            self._shared = None
        if runner in self._idle:
            self._idle.remove(runner)
        for lease in list(runner.leases.values()):
            self._abandon(lease, event, now, out)
            self._end(lease, out)

    def _abandon(self, lease: Lease, event: RunnerGone, now: float, out: list[NodeAction]) -> None:
        """Say what became of the jobs of a lease whose runner died. In the shared runner all of them are suspects.

        One that died before it claimed anything is the first job's crash: a process that cannot even start must not be
        tried for ever.
        """
        suspect = max(event.started, min(lease.jobs, default=0))
        ended: list[Job] = []
        codes: list[Code] = []
        back: list[Job] = []
        for position, job in lease.jobs.items():
            if job.gone:
                continue
            if job.stopped is not None:
                ended.append(job)
                codes.append(job.stopped)
            elif lease.runner.kind == "own" and position > suspect:
                back.append(job)
            else:
                ended.append(job)
                codes.append(Code.CRASHED)
        lease.jobs.clear()
        self._keep(back)
        if ended:
            details = {job.job: event.how for job in ended}
            out.append(TellCompleted(without_payloads(lease.lease, ended, codes, now, details), forwarded=False))
            for job in ended:
                self._forget(job)

    def _barrier_held(self, event: BarrierHeld, now: float, out: list[NodeAction]) -> None:
        """Keep what has not begun behind the barrier for a later lease; what was to be stopped is told of, or ended."""
        lease = self._leases.get(event.lease)
        if lease is None:
            return
        later = [lease.jobs.pop(position) for position in list(lease.jobs) if position > event.started]
        self._tell_unstarted([job for job in later if job.stopped is not None], Code.CANCELLED, now, out)
        self._keep([job for job in later if job.stopped is None])
        if lease.jobs and all(job.stopped is not None for job in lease.jobs.values()):
            self._terminate(lease.runner, lease, now, out)
        self._maybe_end(lease, out)

    def _keep(self, jobs: list[Job]) -> None:
        """Take jobs that were handed back to the front of what waits here."""
        for job in sorted(jobs, key=by_age, reverse=True):
            job.lease = None
            job.cls.ahead.appendleft(job)

    def _forget(self, job: Job) -> None:
        job.gone = True
        del self._jobs[job.job]

    # --- what the head wants back ------------------------------------------------------------------------------------

    def _cancel(self, event: Cancel, now: float, out: list[NodeAction]) -> None:
        waiting: list[Job] = []
        running: dict[Lease, list[Job]] = {}
        for job in self._named(event.jobs, event.attempts):
            if job.stopped is not None:
                continue
            job.stopped = Code.CANCELLED
            if job.lease is None:
                waiting.append(job)
            else:
                running.setdefault(job.lease, []).append(job)
        self._tell_unstarted(waiting, Code.CANCELLED, now, out)
        for lease, jobs in running.items():
            self._stop(lease, jobs, now, out)

    def _retract(self, event: Retract, now: float, out: list[NodeAction]) -> None:
        waiting = [job for job in self._named(event.jobs, event.attempts) if job.lease is None]
        self._tell_unstarted(waiting, Code.RETURNED, now, out)

    def _named(self, jobs: list[int], attempts: list[int]) -> list[Job]:
        found = [(self._jobs.get(number), attempt) for number, attempt in zip(jobs, attempts, strict=True)]
        return [job for job, attempt in found if job is not None and job.attempt == attempt]

    def _tell_unstarted(self, jobs: list[Job], code: Code, now: float, out: list[NodeAction]) -> None:
        if jobs:
            out.append(TellCompleted(without_payloads(0, jobs, [code] * len(jobs), now, {}), forwarded=False))
            for job in jobs:
                self._forget(job)

    def _stop_all(self, now: float, out: list[NodeAction]) -> None:
        """Give back what waits, and end what runs."""
        waiting = [job for job in self._jobs.values() if job.lease is None]
        self._tell_unstarted(waiting, Code.RETURNED, now, out)
        for lease in list(self._leases.values()):
            running = [job for job in lease.jobs.values() if job.stopped is None]
            for job in running:
                job.stopped = Code.STOPPED
            if running:
                self._stop(lease, running, now, out)

    def _stop(self, lease: Lease, jobs: list[Job], now: float, out: list[NodeAction]) -> None:
        """Stop jobs that may be running: inside the shared runner, by signal where the process holds nothing else."""
        runner = lease.runner
        if runner.kind == "own" and all(job.stopped is not None for job in lease.jobs.values()):
            self._terminate(runner, lease, now, out)
            return
        out.append(StopJobs(runner.runner, [job.job for job in jobs]))
        if runner.kind == "own":
            self._timer(now + SOFT_STOP_S, lease.lease, "bar")
        else:
            runner.answers = False
            self._timer(now + GRACE_S, lease.lease, "retire")

    def _retire(self, lease: Lease, now: float, out: list[NodeAction]) -> None:
        """Coroutines have not ended though they were told to. They keep their slots, and get no company any more.

        Whoever waits for one that ran past its timeout need not wait for its end too.
        """
        deaf = [job for job in lease.jobs.values() if job.stopped is not None and not job.gone]
        if not deaf:
            return
        runner = lease.runner
        runner.retired = True
        if runner is self._shared:
            self._shared = None
        out.append(RunnerRetired(runner.runner, [job.fn_id for job in deaf]))
        overdue = [job for job in deaf if job.stopped is Code.TIMED_OUT]
        if overdue:
            codes = [Code.TIMED_OUT] * len(overdue)
            out.append(TellCompleted(without_payloads(lease.lease, overdue, codes, now, {}), forwarded=False))
            for job in overdue:
                self._forget(job)
        self._end_retired(runner, out)

    def _end_retired(self, runner: Runner, out: list[NodeAction]) -> None:
        """Kill a retired runner once nobody in it is worth waiting for, or at once when its loop stands still."""
        if not runner.retired or runner.doomed:
            return
        worth = [job for lease in runner.leases.values() for job in lease.jobs.values() if job.stopped is None]
        if not runner.leases or (self._mortal and (not worth or not runner.answers)):
            runner.doomed = True
            out.append(KillRunner(runner.runner))

    def _terminate(self, runner: Runner, lease: Lease, now: float, out: list[NodeAction]) -> None:
        if not runner.doomed:
            runner.doomed = True
            out.append(TerminateRunner(runner.runner))
            self._timer(now + GRACE_S, lease.lease, "kill")

    # --- time --------------------------------------------------------------------------------------------------------

    def _timer(self, at: float, lease: int, what: _Timer) -> None:
        heappush(self._timers, (at, lease, what))

    def _set_timer(self, out: list[NodeAction]) -> None:
        while self._timers and self._timers[0][1] not in self._leases:
            heappop(self._timers)
        if not self._timers:
            self._wake = None
        elif self._wake is None or self._timers[0][0] < self._wake:
            self._wake = self._timers[0][0]
            out.append(WakeAt(self._wake))

    def _ticked(self, now: float, out: list[NodeAction]) -> None:
        self._wake = None
        while self._timers and self._timers[0][0] <= now:
            _, number, what = heappop(self._timers)
            lease = self._leases.get(number)
            if lease is not None:
                self._due(lease, what, now, out)

    def _due(self, lease: Lease, what: _Timer, now: float, out: list[NodeAction]) -> None:
        runner = lease.runner
        if what == "bar" and lease.jobs and not lease.barred and not runner.doomed:
            lease.barred = True
            out.append(RaiseBarrier(runner.runner, lease.lease))
        elif what == "kill":
            out.append(KillRunner(runner.runner))
        elif what == "retire":
            self._retire(lease, now, out)
        elif what == "timeout":
            overdue = [job for job in lease.jobs.values() if job.stopped is None]
            for job in overdue:
                job.stopped = Code.TIMED_OUT
            if overdue:
                self._stop(lease, overdue, now, out)

    # --- laws --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless the laws above hold. Costs a walk over everything; for tests."""
        used = dict.fromkeys(self._ledger.capacity.units, 0)
        seen: dict[str, list[int]] = {}
        for lease in self._leases.values():
            allocation = lease.grant.allocation
            for name, amount in allocation.units.items():
                used[name] += amount
            seen.setdefault("cores", []).extend(allocation.cores)
            assert lease.jobs or lease.runner.doomed, "an empty lease holds slots"
        for name, ids in seen.items():
            assert len(ids) == len(set(ids)), f"{name} granted twice: {sorted(ids)}"
        for name, capacity in self._ledger.capacity.units.items():
            assert self._ledger.free[name] == capacity - used[name], name
        queued = [job for cls in self._classes.values() for job in cls.ahead if not job.gone]
        queued += [job for job in self._planned if not job.gone]
        leased = [job for lease in self._leases.values() for job in lease.jobs.values() if not job.gone]
        assert sorted(job.job for job in queued + leased) == sorted(self._jobs), "a job is in exactly one place"
