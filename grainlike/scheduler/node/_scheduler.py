"""The node scheduler: has the last word on the slots of one node, and grants their ids in leases.

Invariants (checked by `NodeScheduler.check` in tests after every step):

1. An id is in one lease at most; what is not in a lease is free.
2. Planned jobs start in the order they came, and before any job sent ahead: by the head's counts they fit, so they
   wait for nothing but jobs that the node itself started ahead, or memory of their devices (`_runners`). One that waits
   for that alone keeps its slots, and others pass it.
3. A lease's ids are free again only when its last job has ended *and* no process that could still run one is left; the
   memory of its devices, when its process is gone, or has the next lease on the same (`_runners`).
4. Exactly one end is reported of every job that came in: completed, returned or cancelled.
5. Slots for a gang (`_holds`) are granted before any job starts.

A lease is one allocation and a *run-list*: jobs of one class that a runner executes one after another without asking
again. There is more than one job only if all functions that they call are known to be tiny (`run_list_of`). When a
running job turns out long, the rest is taken back behind a barrier and stays on this node. Only then is it known which
one runs, and since when: its time limit is counted from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from grainlike.resources import UNIT, Allocation, Grant, Ledger, Topology, parse
from grainlike.scheduler._events import Ticked
from grainlike.scheduler.node._events import (
    AssignSized,
    BarrierHeld,
    CoresTaken,
    JobAwaits,
    JobGoesOn,
    KillRunner,
    NodeAction,
    NodeEvent,
    NodeStopped,
    RaiseBarrier,
    RunnerAnswered,
    RunnerCompleted,
    RunnerGone,
    RunnerReady,
    RunnerRenewed,
    StartApart,
    StartLease,
    TellCompleted,
    TellEnded,
    TellStarted,
)
from grainlike.scheduler.node._holds import NodeHold, NodeHolds
from grainlike.scheduler.node._lending import Lending
from grainlike.scheduler.node._records import (
    NodeClass,
    NodeFunction,
    NodeJob,
    NodeLease,
    NodeRunner,
    by_age,
    end_codes,
    front,
    jobs_of,
    learn,
    limits_of,
    place,
    run_list_of,
    shorter,
)
from grainlike.scheduler.node._runners import Runners
from grainlike.scheduler.node._timers import TimerAction, Timers
from grainlike.wire import Assign, Cancel, Code, Completed, Define, LeaseStart, Need, Retract, Undefine, Wait
from grainlike.wire import Hold as HoldSlots

__all__ = ["NodeScheduler"]

LONG_S = 0.010
"""Seconds after which a run-list that has not ended gives up the jobs that it has not started."""

UNSEEN_S = 1.0
"""Once the time limit of a run-list is over of which no job seems to have begun, the least seconds until the first one
is ended: the driver may have been held up, and not have seen that jobs began or ended.
"""


class NodeScheduler:
    """Scheduler of one node. `offer` is all that the node gives, with ids.

    `killable`: the shared runner is a process, which can be killed; the embedded worker's is not.

    Example::

        scheduler = NodeScheduler(Cores([0, 1]))
        scheduler.handle(Define(functions, classes), now=0.0)
        scheduler.handle(Assign(...), now=0.0)     # [SpawnRunner(...), StartLease(...), TellStarted(...)]
    """

    __slots__ = (
        "_ahead", "_classes", "_functions", "_holds", "_jobs", "_last_lease", "_leases", "_ledger", "_lending",
        "_needs", "_planned", "_runners", "_stopped", "_timers", "busy_cores",
    )  # fmt: skip

    def __init__(self, offer: Allocation, topology: Topology | None = None, *, killable: bool = True) -> None:
        self._ledger = Ledger(offer, topology)
        self._functions: dict[int, NodeFunction] = {}
        self._classes: dict[int, NodeClass] = {}
        self._ahead: dict[int, NodeClass] = {}
        """Classes of which jobs wait here that were sent ahead."""
        self._jobs: dict[int, NodeJob] = {}
        self._needs: dict[int, list[Need]] = {}
        """The values that jobs need, for those that need some."""
        self._planned: deque[NodeJob] = deque()
        self._leases: dict[int, NodeLease] = {}
        self._holds = NodeHolds(self._ledger, self._next_lease)
        self._lending = Lending(self._ledger, self._leases)
        self._timers = Timers(self._leases)
        self._runners = Runners(self._lending, self._timers, self._ledger, killable=killable)
        self._last_lease = 0
        self.busy_cores: int = 0  # those that leases use now, as a mask; read-only for callers
        self._stopped = False

    def handle(self, event: NodeEvent, now: float) -> list[NodeAction]:
        """Handle one event; return the actions to perform, in order."""
        out: list[NodeAction] = []
        # The most frequent events stand first: each class pattern that does not match costs an isinstance call.
        match event:
            case RunnerCompleted():
                self._completed(event, now, out)
            case Assign():
                self._assigned(event, (), now, out)
            case AssignSized():
                self._assigned(event.message, event.sizes, now, out)
            case Define():
                self._define(event)
                return out
            case Undefine():
                self._undefine(event)
                return out
            case HoldSlots():
                self._holds.ask(event, self._classes[event.cls], now, out)
            case Cancel():
                self._holds.cancel(event, now, out)
                self._cancel(event, now, out)
            case Retract():
                self._retract(event, now, out)
            case RunnerAnswered():
                self._runners.answered(event.runner)
            case RunnerReady() | RunnerRenewed():
                self._runners.limit_again(event.runner, now, ready=isinstance(event, RunnerReady))
            case RunnerGone():
                self._runner_gone(event, now, out)
            case BarrierHeld():
                self._barrier_held(event, now, out)
            case JobAwaits() | JobGoesOn():
                self._waits(event, out)
            case NodeStopped():
                self._stopped = True
                self._runners.grace_s, self._runners.reason = event.grace_s, event.reason
            case CoresTaken(cores=cores):
                self._ledger.avoided = cores
            case Ticked():
                self._runners.kill_overdue(now, out)
                for lease, action in self._timers.due(now):
                    self._due(lease, action, now, out)
        if self._stopped:
            self._stop_all(now, out)
        elif self._planned or self._ahead or self._lending.wanting or self._holds.by_job:
            self._grant_all(now, out)
        if self._timers.queue or self._runners.leaving or self._timers.wake is not None:
            self._timers.wind(out, self._runners.kills_at)
        self.busy_cores = self._ledger.busy_cores
        return out

    @property
    def granted_memory(self) -> int:
        """Return the bytes of memory that are granted now."""
        return self._ledger.granted("memory") // UNIT

    @property
    def computing(self) -> dict[int, Collection[int]]:
        """Return the jobs that have not ended of each lease that does not wait for jobs of its own."""
        return {lease.id: lease.jobs.keys() for lease in self._leases.values() if lease.waits is Wait.NOTHING}

    @property
    def idle(self) -> bool:
        """True when no job is here and every slot is free."""
        return not self._jobs and not self._leases and not self._holds.by_job

    def _define(self, event: Define) -> None:
        self._functions.update((spec.fn, NodeFunction(spec)) for spec in event.functions)
        for cls in event.classes:
            request = parse(cls.request)
            fits = self._ledger.fits_ever(request)
            self._classes[cls.cls] = NodeClass(cls.cls, request, isolate=cls.isolate, fits=fits)

    def _undefine(self, event: Undefine) -> None:
        for fn in event.functions:
            self._functions.pop(fn, None)
        for cls in event.classes:
            self._classes.pop(cls, None)

    def _assigned(self, event: Assign, sizes: Sequence[int], now: float, out: list[NodeAction]) -> None:
        """Queue jobs. Those that this node could not grant when idle are refused: they must not block others."""
        cls = self._classes[event.cls]
        if event.needs:
            self._needs.update((job, needs) for job, needs in zip(event.jobs, event.needs, strict=True) if needs)
        held = self._holds.pop(event) if self._holds.by_job else None
        if held is not None:
            self._lead(event, held, now, out)
            return
        queue = cls.ahead if event.ahead else self._planned
        if event.ahead:
            self._ahead[cls.id] = cls
        jobs = jobs_of(event, sizes, cls, self._functions)
        self._jobs.update(jobs)
        cls.varied = cls.varied or bool(event.memory)
        if event.ages:
            cls.aged = True
            place(queue, list(jobs.values()))
        else:
            queue.extend(jobs.values())
        if not cls.fits:
            self._tell_ends(self._named(event.jobs, event.attempts), Code.UNFIT, now, out)

    def _lead(self, event: Assign, hold: NodeHold, now: float, out: list[NodeAction]) -> None:
        """Start the job of a gang on the slots held for it, in a process of its own, which can be given its hosts."""
        fn = event.fns[0]
        function = self._functions[fn]
        limit_s = shorter(function.timeout, event.hard_s)
        job = self._jobs[hold.id] = NodeJob(hold.id, hold.attempt, hold.cls, fn, function, limit_s, hold.id)
        assert hold.grant is not None
        runner = self._runners.own(hold.grant, out, devices=hold.cls.devices)
        self._start(hold.lease, hold.grant, runner, [job], now, out)
        self._leases[hold.lease].keeps = True  # all its nodes are held together, so none of them alone can be lent

    # --- granting ----------------------------------------------------------------------------------------------------

    def _grant_all(self, now: float, out: list[NodeAction]) -> None:
        """Let waiting jobs continue; start planned jobs in order; then those sent ahead, the oldest first job first."""
        if self._lending.wanting:
            self._lending.resume(out)
        if self._holds.by_job and (self._lending.wanted or not self._holds.grant_all(now, out, self._runners)):
            return
        kept: list[Grant] = []
        if (not self._planned or self._grant_planned(kept, now, out)) and self._ahead:
            self._grant_ahead(now, out)
        for grant in kept:
            self._ledger.release(grant)

    def _grant_planned(self, kept: list[Grant], now: float, out: list[NodeAction]) -> bool:
        """Start planned jobs in order, past those that wait for memory; return False if slots of one are not free."""
        passed: list[NodeJob] = []
        while self._planned and (job := front(self._planned)) is not None:
            if self._grant(job, self._planned, now, out, kept):
                continue
            if len(kept) == len(passed):
                break
            passed.append(self._planned.popleft())
        blocked = bool(self._planned)
        self._planned.extendleft(reversed(passed))
        return not blocked

    def _grant_ahead(self, now: float, out: list[NodeAction]) -> None:
        """Start jobs that were sent ahead, the oldest first job first."""
        blocked: list[int] = []
        while len(blocked) < len(self._ahead) and (job := self._oldest_ahead(blocked)) is not None:
            if not self._grant(job, job.cls.ahead, now, out, None):
                blocked.append(job.cls.id)

    def _oldest_ahead(self, blocked: list[int]) -> NodeJob | None:
        oldest: NodeJob | None = None
        empty: list[int] = []
        for cls in self._ahead.values():
            job = front(cls.ahead)
            if job is None:
                empty.append(cls.id)
            elif (oldest is None or by_age(job) < by_age(oldest)) and cls.id not in blocked:
                oldest = job
        for number in empty:
            del self._ahead[number]
        return oldest

    def _grant(
        self, job: NodeJob, queue: deque[NodeJob], now: float, out: list[NodeAction], kept: list[Grant] | None
    ) -> bool:
        """Start a lease for the first of `queue`, or return False: slots that wait for memory are `kept` if it is."""
        if (self._lending.wanting or kept is None) and self._lending.holds_back(job.cls.request, ahead=kept is None):
            return False
        grant = self._ledger.grant(job.cls.request)
        if grant is None:
            return False
        if job.cls.devices and not self._runners.make_room(grant, now, out):
            if kept is None:
                self._ledger.release(grant)
            else:
                kept.append(grant)
            return False
        queue.popleft()
        run_list = run_list_of(job) if job.cls.ahead else [job]
        self._start(self._next_lease(), grant, self._runner_for(job, grant, out), run_list, now, out)
        return True

    def _next_lease(self) -> int:
        self._last_lease += 1
        return self._last_lease

    def _start(
        self, number: int, grant: Grant, runner: NodeRunner, run_list: list[NodeJob], now: float, out: list[NodeAction]
    ) -> None:
        first, several = run_list[0], len(run_list) > 1
        cls = first.cls
        limit, limits = limits_of(run_list) if cls.limited and several else (first.limit_s, ())
        lease = NodeLease(number, cls, grant, runner, timed=not several)
        self._leases[number] = runner.leases[number] = lease
        for position, job in enumerate(run_list):
            job.lease, job.position = lease, position
            lease.jobs[job.id] = job
        attempts, fns = [job.attempt for job in run_list], [job.fn_id for job in run_list]
        jobs, allocation = list(lease.jobs), str(grant.allocation)
        deadlines = [None if limit is None else now + limit] * len(jobs)
        memory = tuple(job.memory for job in run_list) if cls.varied else ()
        some = self._needs and not self._needs.keys().isdisjoint(jobs)
        needs = [self._needs.get(job, []) for job in jobs] if some else []
        start = StartApart if cls.isolate and several else StartLease
        fresh = cls.devices and self._runners.hold_devices(runner, grant)
        rest = limit, memory, needs, fresh, limits
        out.append(start(runner.id, number, allocation, jobs, attempts, fns, deadlines, *rest))
        out.append(TellStarted(LeaseStart(number, cls.id, allocation, jobs, attempts, now, memory)))
        if limit is not None:
            self._runners.limit(lease, now)
        if several and runner.kind == "own":
            self._timers.add(now + LONG_S, number, "bar")

    def _runner_for(self, job: NodeJob, grant: Grant, out: list[NodeAction]) -> NodeRunner:
        # Devices are made visible by environment variables, which coroutines in one process share.
        if job.fn.is_async and not job.cls.isolate and not job.cls.devices:
            return self._runners.shared(out)
        return self._runners.own(grant, out, devices=job.cls.devices)

    # --- reports of runners ------------------------------------------------------------------------------------------

    def _completed(self, event: RunnerCompleted, now: float, out: list[NodeAction]) -> None:
        completed = event.completed
        lease = self._leases.get(completed.lease)
        if lease is None:
            return
        lease.runner.ready = True
        if self._all_good(lease, completed):
            out.append(TellCompleted(completed, forwarded=True))
            self._maybe_end(lease, now, out)
            return
        codes = list(completed.codes)
        told: list[int] = []
        ended: list[NodeJob] = []
        back: list[NodeJob] = []
        good: list[NodeJob] = []
        walls: list[float] = []
        for row, number in enumerate(completed.jobs):
            job = lease.jobs.pop(number, None)
            if job is None or job.gone:
                continue  # its end was reported when it would not stop; now it has stopped
            code = codes[row]
            if code == Code.SUCCEEDED:
                good.append(job)
                walls.append(completed.wall[row])
            elif code == Code.RETURNED and job.stopped is None:
                back.append(job)
                continue
            elif code in (Code.CANCELLED, Code.RETURNED):
                codes[row] = self._settle_stopped(job, lease, now, out)
                if codes[row] == Code.STOPPED and not completed.begun[row]:
                    codes[row] = Code.RETURNED  # nobody wants it ended, and nothing of it has run
            elif code == Code.FAILED and job.stopped is Code.STOPPED:
                codes[row] = job.stopped  # a program of its died of the node's signal, or its clean-up has failed
            ended.append(job)
            told.append(row)
        self._forget(ended)
        learn(good, walls, awaited=completed.awaited)
        for job in lease.jobs.values() if completed.awaited else ():
            job.fn.times.awaits = True  # it has suspended: what stood behind it in the run-list is in this batch
        if back:
            self._keep(back)
        if told:
            out.append(TellCompleted(completed.told(told, codes), forwarded=True))
        self._maybe_end(lease, now, out)

    def _all_good(self, lease: NodeLease, completed: Completed) -> bool:
        """Record a batch of jobs that all succeeded and are all current; return False for any other, unrecorded.

        Fast path for most batches: the runner's message is passed on as it is, without lists of rows and codes.
        """
        ended = [job for job in map(lease.jobs.get, completed.jobs) if job is not None and not job.gone]
        if any(completed.codes) or not ended or len(ended) < len(completed.jobs):
            return False
        for job in ended:
            del lease.jobs[job.id]
        self._forget(ended)
        learn(ended, completed.wall, awaited=completed.awaited)
        return True

    def _settle_stopped(self, job: NodeJob, lease: NodeLease, now: float, out: list[NodeAction]) -> Code:
        """Return how a job ended that was interrupted. If not by this node, its process is ended here, too."""
        if job.stopped is None:  # not stopped by this node: the process was signalled from outside, and is about to end
            self._runners.terminate(lease, now, out)
            return Code.CRASHED
        return job.stopped

    def _waits(self, event: JobAwaits | JobGoesOn, out: list[NodeAction]) -> None:
        """Handle a job's report that it waits for its own jobs, or no longer has to."""
        job = self._jobs.get(event.job)
        if job is None or job.attempt != event.attempt or job.lease is None or job.lease.runner.terminating:
            return
        if isinstance(event, JobAwaits):
            self._lending.awaits(job.lease, job, event.heard, out)
        else:
            self._lending.goes_on(job.lease, job, event.heard, out)

    def _maybe_end(self, lease: NodeLease, now: float, out: list[NodeAction]) -> None:
        """End a lease that has no jobs left, unless its process was asked to die and is not gone yet. Else, if the job
        whose time limit counted has ended, start that of the next one.
        """
        if not lease.jobs and not lease.runner.terminating:
            self._end(lease, out)
            self._runners.released(lease.runner, out)
        elif lease.clocked is not None and lease.clocked.id not in lease.jobs:
            lease.timed = False
            self._runners.limit(lease, now)

    def _end(self, lease: NodeLease, out: list[NodeAction]) -> None:
        del self._leases[lease.id], lease.runner.leases[lease.id]
        if lease.waits is not Wait.NOTHING or lease.grant.lent:
            self._lending.ends(lease)
        self._ledger.release(lease.grant)
        out.append(TellEnded(lease.id))

    def _runner_gone(self, event: RunnerGone, now: float, out: list[NodeAction]) -> None:
        runner = self._runners.gone(event.runner)
        if runner is None:
            return
        leases = list(runner.leases.values())
        found = end_codes(event, leases)
        for lease in leases:
            self._abandon(lease, event, found, now, out)
            self._end(lease, out)

    def _abandon(
        self, lease: NodeLease, event: RunnerGone, found: Mapping[int, Code], now: float, out: list[NodeAction]
    ) -> None:
        """Report the ends of the jobs of a lease whose runner died, and queue those that had not begun."""
        ended: list[NodeJob] = []
        codes: list[Code] = []
        back: list[NodeJob] = []
        for job in lease.jobs.values():
            if job.gone:
                continue
            if job.stopped is None and found[job.id] == Code.RETURNED:
                back.append(job)
            else:
                ended.append(job)
                codes.append(found[job.id])
        lease.jobs.clear()
        self._keep(back)
        if ended:
            unbegun = f"{event.how}, before it had begun"
            details = {
                job.id: unbegun if code is Code.UNBEGUN else event.how for job, code in zip(ended, codes, strict=True)
            }
            told = Completed.without_payloads(lease.id, ended, codes, now, details)
            told = replace(told, never_ran=event.never_ran) if event.never_ran else told
            out.append(TellCompleted(told, forwarded=False))
            self._forget(ended)

    def _barrier_held(self, event: BarrierHeld, now: float, out: list[NodeAction]) -> None:
        """Queue the jobs behind the barrier for a later lease; report those to be stopped, or end their process."""
        lease = self._leases.get(event.lease)
        if lease is None:
            return
        later = [job for job in lease.jobs.values() if job.position > event.started]
        for job in later:
            del lease.jobs[job.id]
        self._tell_ends([job for job in later if job.stopped is Code.STOPPED], Code.RETURNED, now, out)
        self._tell_ends([job for job in later if job.stopped not in (None, Code.STOPPED)], Code.CANCELLED, now, out)
        self._keep([job for job in later if job.stopped is None])
        lease.running = max(event.started, 0)
        if lease.jobs and all(job.stopped is not None for job in lease.unended()):
            self._runners.terminate(lease, now, out)
        elif lease.clocked is not None:
            self._runners.limit(lease, now - event.ran_s)
        lease.timed = True
        self._maybe_end(lease, now, out)

    def _keep(self, jobs: list[NodeJob]) -> None:
        """Put jobs that were handed back to the front of those that wait here."""
        for job in sorted(jobs, key=by_age, reverse=True):
            job.lease = None
            place(job.cls.ahead, [job]) if job.cls.aged else job.cls.ahead.appendleft(job)
            self._ahead[job.cls.id] = job.cls

    def _forget(self, jobs: list[NodeJob]) -> None:
        for job in jobs:
            job.gone = True
            del self._jobs[job.id]
            if self._needs:
                self._needs.pop(job.id, None)

    # --- cancelling, returning and stopping --------------------------------------------------------------------------

    def _cancel(self, event: Cancel, now: float, out: list[NodeAction]) -> None:
        waiting: list[NodeJob] = []
        running: dict[NodeLease, list[NodeJob]] = {}
        for job in self._named(event.jobs, event.attempts):
            if job.stopped is not None:
                continue
            job.stopped = Code.CANCELLED
            if job.lease is None:
                waiting.append(job)
            else:
                running.setdefault(job.lease, []).append(job)
        self._tell_ends(waiting, Code.CANCELLED, now, out)
        for lease, jobs in running.items():
            self._stop(lease, jobs, now, out)

    def _retract(self, event: Retract, now: float, out: list[NodeAction]) -> None:
        waiting = [job for job in self._named(event.jobs, event.attempts) if job.lease is None]
        self._tell_ends(waiting, Code.RETURNED, now, out)

    def _named(self, jobs: list[int], attempts: list[int]) -> list[NodeJob]:
        found = [(self._jobs.get(number), attempt) for number, attempt in zip(jobs, attempts, strict=True)]
        return [job for job, attempt in found if job is not None and job.attempt == attempt]

    def _tell_ends(self, jobs: list[NodeJob], code: Code, now: float, out: list[NodeAction], lease: int = 0) -> None:
        """Report one end of all these jobs, if there are any; `lease` is 0 for jobs that have not begun."""
        if jobs:
            ended = Completed.without_payloads(lease, jobs, [code] * len(jobs), now, {})
            out.append(TellCompleted(ended, forwarded=False))
            self._forget(jobs)

    def _stop_all(self, now: float, out: list[NodeAction]) -> None:
        """Return the jobs that wait, and end those that run."""
        self._holds.release(now, out)
        waiting = [job for job in self._jobs.values() if job.lease is None]
        self._tell_ends(waiting, Code.RETURNED, now, out)
        for lease in list(self._leases.values()):
            running = [job for job in lease.jobs.values() if job.stopped is None]
            for job in running:
                job.stopped = Code.STOPPED
            if running:
                self._stop(lease, running, now, out)

    def _stop(self, lease: NodeLease, jobs: list[NodeJob], now: float, out: list[NodeAction]) -> None:
        """Stop jobs that may be running: inside the shared runner, or by a signal if the process has no other jobs."""
        if lease.runner.kind == "own" and all(job.stopped is not None for job in lease.unended()):
            self._runners.terminate(lease, now, out)
        else:
            self._runners.stop(lease, jobs, now, out)

    def _retire(self, lease: NodeLease, now: float, out: list[NodeAction]) -> None:
        """Retire the runner of coroutines that ignore that they were stopped. They keep their slots.

        A timeout is reported at once, without waiting for the coroutine to end.
        """
        stalled = [job for job in lease.jobs.values() if job.stopped is not None and not job.gone]
        if not stalled:
            return
        self._runners.retire(lease.runner, stalled, out)
        overdue = [job for job in stalled if job.stopped is Code.TIMED_OUT]
        self._tell_ends(overdue, Code.TIMED_OUT, now, out, lease.id)
        self._runners.end_retired(lease.runner, out)

    # --- time --------------------------------------------------------------------------------------------------------

    def _due(self, lease: NodeLease, action: TimerAction, now: float, out: list[NodeAction]) -> None:
        runner = lease.runner
        if action == "bar" and lease.jobs and not lease.barred and not runner.terminating:
            lease.barred = True
            out.append(RaiseBarrier(runner.id, lease.id))
        elif action == "kill":
            out.append(KillRunner(runner.id))
        elif action == "retire":
            self._retire(lease, now, out)
        elif action == "timeout" and now >= lease.due and not runner.terminating:
            job = lease.clocked
            assert job is not None
            if not lease.timed:  # no barrier was held: which of its jobs runs, and since when, is not known
                lease.timed = True
                self._runners.limit(lease, now, UNSEEN_S)
            elif runner.kind == "own":
                job.stopped = job.stopped or Code.TIMED_OUT  # those behind it have not begun
                self._runners.terminate(lease, now, out)
            elif job.stopped is None:
                job.stopped = Code.TIMED_OUT
                self._stop(lease, [job], now, out)

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless the invariants above hold. For tests: walks over everything."""
        used = dict.fromkeys(self._ledger.capacity.units, 0)
        cores: list[int] = []
        for allocation in (*(lease.grant.allocation for lease in self._leases.values()), *self._holds.allocations()):
            for name, amount in allocation.units.items():
                used[name] += amount
            cores += allocation.cores
        assert len(cores) == len(set(cores)), f"cores granted twice: {sorted(cores)}"
        for lease in self._leases.values():
            assert lease.jobs or lease.runner.terminating, "an empty lease holds slots"
        for name, capacity in self._ledger.capacity.units.items():
            assert self._ledger.free[name] == capacity - used[name], name
        self._lending.check()
        self._runners.check()
        queued = [job for cls in self._classes.values() for job in cls.ahead if not job.gone]
        queued += [job for job in self._planned if not job.gone]
        leased = [job for lease in self._leases.values() for job in lease.jobs.values() if not job.gone]
        assert sorted(job.id for job in queued + leased) == sorted(self._jobs), "a job is in exactly one place"
