"""Referee: the independent judge, with records of its own of what truly happens in a world.

It uses no state of a scheduler. It observes leases granted and freed, jobs that begin and end in runners, and answers
that reach awaiters; and raises `AssertionError` when one of these promises is broken:

1. Every job that was accepted has one outcome, and one only; and that outcome truly came about.
2. What is granted on a node is never more than it has, and no id is granted twice.
3. A job runs only inside a lease that covers its request, and no lease is freed while a job runs in it.
4. An attempt begins once at most, and only on the worker that it was assigned to.
5. Jobs with the same request are first assigned in the order in which they came; one that needs others goes when the
   oldest of those would.
6. A job is given up only after it was lost more often than its function allows, at most once because of another job in
   the same process.
7. A job that was reported as returned had not begun.
8. A gang is asked for on as many different workers as it has nodes; it begins when all of them hold its slots, and none
   of them that is there releases them while it runs on a leader that the head has not given up. When the head gives
   one of them up, it stops the job.
9. Of the jobs that name a limit, no more run at once than it allows; those that name a rate are launched evenly.
10. A job runs where the tokens are that it asked for, and starts where there is as much time left as it asked for.
11. No job is ended for its time limit before that is over. A job that is to end gets no slots any more, and ends soon
    if it obeys a cancellation, or else after the grace time if it has a process of its own.
12. Of jobs with the same request and function, the more urgent are assigned first.
13. A worker that has announced that it stops gets no more jobs, and the jobs that it ends do not count as lost.
14. The slots of a process that was asked to die are free when it is gone, and not before.
15. A job that waits lends its cores and nothing else, and none if its function keeps them. It continues only when its
    lease has again all that it was granted, and receives the ids.
16. A job is failed for a deadlock only if no node could make room for it, whatever ends. (Checked until the first
    fault: the head cannot know of events whose reports have not arrived.)
17. Jobs that an attempt has submitted have their outcome before it has, or end with it and without one.
18. When the head dies, all jobs that it had accepted are lost for their awaiters. A worker notices within the time of a
    silence, begins nothing from then on, and has ended its jobs after the grace time.
19. A worker that reports that nothing is left has all its slots free.
20. A job with a backoff is not assigned before that is over. A job that failed for good, or whose function allows no
    loss, is not tried again.
21. A worker whose link is broken, or that is silent for long, or in quarantine, gets nothing new; and messages that
    were on the way when a link broke that is opened again arrive once, in order. (That it costs no attempt is checked
    by the tests of such worlds.)
22. What `_value_records` says of values that stay at workers, and `_store_records` of those with limits.

`Patience` measures how long jobs were passed over; each test decides how long that may be.
"""

from __future__ import annotations

from collections.abc import Sequence

from grainlike.resources import NO_ALLOCATION, Allocation, Missing, Request, parse_allocation, with_memory
from grainlike.scheduler import AssembleGang, AssignJobs, CancelJobs, Deadlock, StartLease
from grainlike.simulation import Clock, FunctionPlan, JobPlan
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait
from simtest.judge._aftermath import Aftermath
from simtest.judge._circles import Circles
from simtest.judge._endings import Endings
from simtest.judge._gang_records import GangRecords
from simtest.judge._loans import Loans
from simtest.judge._order import Order
from simtest.judge._patience import Patience
from simtest.judge._rationing import Rationing, first_of
from simtest.judge._records import NodeRecords
from simtest.judge._replica_records import ReplicaRecords
from simtest.judge._store_records import StoreRecords
from simtest.judge._stored_bytes import StoredBytes
from simtest.judge._value_records import ValueRecords
from simtest.judge._value_witness import ValueWitness

__all__ = ["Referee"]

_NOT_KNOWN_AT_ONCE = ("runner died", "worker died", "worker given up")
"""Events after which the head plans with outdated knowledge."""

_FAULTS = ("damage", "unreachable", "worker leaving", "draining", "quarantined")
"""Other events after which copies and starts take longer."""


class _Lease:
    __slots__ = ("allocation", "attempts", "runner")

    def __init__(self, action: StartLease, allocation: Allocation) -> None:
        self.runner = action.runner
        self.allocation = allocation
        self.attempts = dict(zip(action.jobs, action.attempts, strict=True))


class Referee(ValueWitness):
    """Checks all promises of the module. `functions` are the workload's; `closed`: lost nodes do not come back. A copy
    of a value has `slowest` bytes in a second, at the least.
    """

    def __init__(self, clock: Clock, functions: tuple[FunctionPlan, ...], *, closed: bool, slowest: float) -> None:
        super().__init__(clock)
        self.outcome: dict[int, str] = {}
        self.warned: set[Request] = set()
        self._functions = functions
        self._closed = closed
        self._nodes: dict[int, NodeRecords] = {}
        self._gangs = GangRecords()
        self._gone: set[int] = set()
        self._leases: dict[tuple[int, int], _Lease] = {}
        self._lease_of: dict[tuple[int, int], _Lease] = {}
        self._running: dict[tuple[int, int], int] = {}
        self._truth: dict[tuple[int, int], Code | None] = {}
        self._assigned_to: dict[tuple[int, int], int] = {}
        self._order = Order(clock, self.plans, self.outcome)
        self._roots: dict[int, int] = {}
        self._parent: dict[int, int] = {}
        self._loans = Loans(self.plans, functions)
        self._circles = Circles(self.plans, self.outcome, self._nodes)
        self._patience = Patience(self.plans, self._roots, self._fits)
        self._failures: dict[int, int] = {}
        self._blame: dict[tuple[int, int], str] = {}
        self._losses: dict[int, dict[int, str]] = {}
        """Cause of the loss of each lost attempt of a job."""
        self._told_in_time: set[tuple[int, int]] = set()
        """Attempts whose end the head received from a worker that it had not given up."""
        self._last: dict[int, tuple[int, int]] = {}
        """Worker and attempt of a job's last assignment."""
        self._rationing = Rationing()
        self._leaving: set[int] = set()
        self._suspects: set[int] = set()
        self._quarantined: set[int] = set()
        self._given_up: set[int] = set()
        self._terminating: set[tuple[int, int]] = set()
        """Processes that were asked to die and still live."""
        self._until: dict[int, float] = {}
        self._assigned_at: dict[tuple[int, int], float] = {}
        self._again_at: dict[int, float] = {}
        """Times before which jobs may not be assigned."""
        self._endings = Endings(clock, self.plans, functions)
        self._aftermath = Aftermath(clock)
        self._values = ValueRecords(clock, self.plans, functions, self.outcome, closed=closed)
        self._room = StoreRecords(
            clock, self.plans, functions, self._values, self._fits, self._is_spare, lambda: self._is_calm, slowest
        )
        self._replicas = ReplicaRecords(clock, self._values, self._room)
        self._bytes = StoredBytes(self.size_of, self._values.replicas_at)

    # --- workers -----------------------------------------------------------------------------------------------------

    def joined(self, worker: int, offer: Allocation) -> None:
        """Record a new worker and its offer."""
        self._nodes[worker] = NodeRecords(offer)
        self._values.joined(worker)
        self._until[worker] = self.clock.now + (offer.walltime or float("inf"))
        self._replicas.joined(worker, self._until[worker])

    def given_up(self, worker: int) -> None:
        """Record a worker that the head has given up, and the losses of its jobs."""
        super().given_up(worker)
        stops = worker in self._leaving
        for job, attempt, leader in self._gangs.with_member(worker):
            if leader != worker:
                self._values.remakes.broken(job, attempt, stops=stops)
        self._values.remakes.given_up(worker, stops=stops)
        self._count_losses(worker)
        self._gangs.given_up(worker, self.outcome)
        self._rationing.given_up(worker)
        self._given_up.add(worker)
        for job, (at, _) in self._last.items():
            if at == worker:
                self._order.came_back(job)

    def limited(self, worker: int, store: int, overdraft: int | None, scratch: int = 0) -> None:
        """Record how much a worker may keep, and may have beyond that."""
        super().limited(worker, store, overdraft, scratch)
        self._bytes.limited(worker, store + scratch, overdraft, cores=len(self._nodes[worker].offer.cores))

    def suspected(self, worker: int) -> None:
        """Record that a worker may get nothing new."""
        super().suspected(worker)
        self._suspects.add(worker)

    def trusted(self, worker: int) -> None:
        """Record that a suspected worker may get jobs again."""
        super().trusted(worker)
        self._suspects.discard(worker)

    def quarantined(self, worker: int) -> None:
        """Record that a worker may get nothing new."""
        super().quarantined(worker)
        self._quarantined.add(worker)

    def released(self, worker: int) -> None:
        """Record that a worker's quarantine is over."""
        self._quarantined.discard(worker)

    def leaving(self, worker: int) -> None:
        """Record that the head has received that a worker stops."""
        super().leaving(worker)
        self._leaving.add(worker)

    def stalled(self, worker: int) -> None:
        """Excuse delays of a worker that stands still."""
        super().stalled(worker)
        self._values.trouble = True
        self._endings.stalled(worker)
        self._aftermath.stalled(worker)

    def told_to_stop(self, worker: int) -> None:
        """Record that a worker has to end its jobs, and may release what it holds for gangs."""
        super().told_to_stop(worker)
        self._endings.stopping(worker)
        self._gangs.excused(worker)

    def headless(self, worker: int) -> None:
        """Record that a worker has noticed the head's death, and has to end its jobs."""
        super().headless(worker)
        self._aftermath.noticed(worker)
        self._endings.stopping(worker)
        self._gangs.excused(worker)

    def at_rest(self, worker: int) -> None:
        """Check that a worker that reports that nothing is left runs no job and has all its slots free."""
        assert not any(at == worker for at, _ in self._running), f"worker {worker} is at rest while jobs run on it"
        self._nodes[worker].check_empty(worker)

    def terminating(self, worker: int, runner: int) -> None:
        """Record that a process was asked to die."""
        self._terminating.add((worker, runner))

    def to_be_ended(self, worker: int, jobs: list[int], attempts: list[int]) -> None:
        """Record that a worker has received the cancellation of these attempts."""
        self._endings.asked(worker, jobs, attempts)

    def died(self, worker: int) -> None:
        """Record the death of a worker, and the losses of its jobs."""
        super().died(worker)
        self._values.died(worker)
        self._values.trouble = True
        self._count_losses(worker)
        self._nodes.pop(worker, None)
        self._gangs.died(worker)
        for key in [key for key in self._leases if key[0] == worker]:
            del self._leases[key]
        assert not any(at == worker for at, _ in self._running), f"jobs outlived worker {worker}"

    def _count_losses(self, worker: int) -> None:
        if worker not in self._gone:
            self._gone.add(worker)
            if worker in self._leaving:
                return
            for (at, job), lease in self._lease_of.items():
                attempt = lease.attempts[job]
                if at == worker and job not in self.outcome and self._last.get(job) == (worker, attempt):
                    self._losses.setdefault(job, {}).setdefault(attempt, "worker")
            for job, attempt, leader in self._gangs.with_member(worker):
                if job not in self.outcome and self._last.get(job) == (leader, attempt):
                    self._losses.setdefault(job, {}).setdefault(attempt, "worker")

    def runner_died(self, worker: int, runner: int, killer: int) -> None:
        """Record the death of a process, and which job caused it."""
        super().runner_died(worker, runner, killer)
        self._terminating.discard((worker, runner))
        if worker in self._nodes:
            self._nodes[worker].devices.died(runner)
        for (at, _), lease in self._leases.items():
            if at == worker and lease.runner == runner:
                for job, attempt in lease.attempts.items():
                    self._blame[job, attempt] = "neighbour" if killer not in (0, job) else "own"

    # --- the head ----------------------------------------------------------------------------------------------------

    def submitted(self, job: int, plan: JobPlan, parent: int = 0, age: int = 0) -> None:
        """Record a job that was accepted."""
        super().submitted(job, plan, parent, age)
        if parent:  # those of a tree do not go by age: the deepest are first
            self._parent[job] = parent
            self._circles.submitted(parent, job)
            self._roots[job] = self._roots.get(parent, parent)
            return
        if age and age != job:
            self._roots[job] = age
        if self._values.has_needs(job):  # it goes where its inputs are
            self._room.submitted(job, age or job)
            return
        key = self._order.submitted(job, age or job)
        self._patience.waiting(key, self._order.front(key))

    def assigning(self, jobs: Sequence[int]) -> None:
        """Record which jobs leave the queue at this moment."""
        self._order.assigning(jobs)

    def assembled(self, action: AssembleGang) -> None:
        """Check the workers of a gang that is placed, and its turn."""
        super().assembled(action)
        shut = (self._suspects | self._quarantined).intersection(action.workers)
        assert not shut, f"slots of job {action.job} were asked of {shut}, which are suspected or in quarantine"
        self._gangs.asked(action, self.plans[action.job].request.nodes)
        if not self._values.has_needs(action.job):
            self._order.leaves_queue(action.job)
        self._patience.assigned([action.job], action.workers, self.clock.now, self._order.front)

    def assigned(self, action: AssignJobs) -> None:
        """Check the worker, the time, the rate, the turn and the attempt of jobs that are assigned."""
        late = action.worker in self._leaving and not action.gang
        assert not late, f"worker {action.worker} got jobs after it had announced that it stops"
        shut = action.worker in self._suspects | self._quarantined and not action.gang
        assert not shut, f"worker {action.worker} got jobs while it was suspected or in quarantine"
        for job, attempt in zip(action.jobs, action.attempts, strict=True):
            known = self.outcome.get(job)
            assert known is None or self._values.is_reviving(job), f"job {job} was assigned after it was {known}"
            early = self._again_at.pop(job, 0.0) - self.clock.now
            assert early <= 0, f"job {job} was assigned {early:.3f} s before it was to be tried again"
            self._room.assigned(action.worker, job)
            self._room.settled(job)
            self._rationing.launched(job, self.plans[job].request, self.clock.now)
            self._assigned_at[job, attempt] = self.clock.now
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} had begun; it was assigned again"
            self._assigned_to[job, attempt] = action.worker
            self._values.assigned(action.worker, job, attempt)
            self._last[job] = (action.worker, attempt)
            self._circles.assigned(job)
            if not action.gang and job not in self._parent and not self._values.has_needs(job):
                self._order.leaves_queue(job, ahead=action.ahead)
        if action.gang:
            self._gangs.assigned(action)
        else:
            self._patience.assigned(action.jobs, [action.worker], self.clock.now, self._order.front)

    def stopping(self, action: CancelJobs) -> None:
        """Record a cancellation that is sent to a worker."""
        self._gangs.stopping(action)

    def heard(self, worker: int, completed: Completed) -> None:
        """Record ends of attempts that the head receives."""
        if worker not in self._given_up:  # what a dead worker has sent arrives until then, and counts
            self._gangs.heard(worker, completed)
            self._told_in_time.update(zip(completed.jobs, completed.attempts, strict=True))
            self._values.remakes.heard(worker, completed)

    def lost_with_head(self, job: int) -> None:
        """Record that a job is lost with the head."""
        super().lost_with_head(job)
        self._close(job, "LOST WITH THE HEAD")

    def head_died(self) -> None:
        """Record the head's death; check that every job has an outcome."""
        super().head_died()
        self._values.trouble = True
        self._aftermath.head_died()
        self._gangs.head_died()
        for job in self.plans:
            if job not in self.outcome:
                assert job in self._parent, f"the head died with job {job}, which has no outcome"
                self.outcome[job] = "LOST WITH THE HEAD"  # its awaiter is a job that is about to be ended

    def decided(self) -> None:
        """Check priorities once all actions of an event are performed."""
        super().decided()
        self._order.decided()

    def _fits(self, worker: int, job: int) -> bool:
        """Return True if a job is promised to run on this worker: no walltime, limit or rate may keep it waiting."""
        records, request = self._nodes.get(worker), self.plans[job].request
        if records is None or not records.fits_ever(request) or first_of(request).limits or first_of(request).rates:
            return False
        return records.offer.walltime is None or all(option.walltime_soft is None for option in request.options)

    def _is_spare(self, worker: int, value: int) -> bool:
        return self._replicas.is_spare(worker, value)

    @property
    def _is_calm(self) -> bool:
        """True until the first fault."""
        return not (self._values.trouble or any(self.seen[what] for what in (*_NOT_KNOWN_AT_ONCE, *_FAULTS)))

    @property
    def passed_over(self) -> tuple[float, int]:
        """The longest time for which a job was passed over, in seconds, and its number."""
        return self._patience.longest

    def settled(self, job: int, attempt: int, code: int) -> None:
        """Check that an outcome is true, and that a job that failed had no retries left."""
        super().settled(job, attempt, code)
        if self._values.is_reviving(job):
            assert self._truth.get((job, attempt)) == code or code == Code.TIMED_OUT, f"job {job} has another outcome"
            if code != Code.SUCCEEDED:
                self._values.unmade(job)
            return
        self._close(job, Code(code).name)
        truth = self._truth.get((job, attempt))
        function = self._functions[self.plans[job].fn]
        if code == Code.TIMED_OUT:
            self._endings.timed_out(job, attempt)
        else:
            assert code in (Code.SUCCEEDED, Code.FAILED), f"job {job} was settled as {Code(code).name}"
            assert truth == code, f"attempt {attempt} of job {job} is reported as {Code(code).name}, in truth {truth!r}"
        if code != Code.SUCCEEDED:
            self._failures[job] = self._failures.get(job, 0)
            final = code == Code.FAILED and self.plans[job].final
            final = final or (code == Code.TIMED_OUT and not function.on_timeout)
            assert final or self._failures[job] >= function.retries, f"job {job} failed with retries left"

    def lost(self, job: int, losses: int) -> None:
        """Check that a job that is given up was lost often enough, and not because of others."""
        super().lost(job, losses)
        if self._values.is_reviving(job):
            self._values.remakes.lost(job, losses)
            self._values.unmade(job)
            return
        self._close(job, "LOST")
        # For a worker that was given up before it reported, the head cannot know the cause.
        told = self._told_in_time
        losses_of = self._losses.get(job, {}).items()
        blames = [blame if (job, attempt) in told else "worker" for attempt, blame in losses_of]
        most = self._functions[self.plans[job].fn].losses
        if not most:
            return  # it may have begun, and the report not have arrived
        assert len(blames) >= losses > most, f"job {job} was given up after {blames}"
        assert blames.count("neighbour") <= 1, f"job {job} was given up for its neighbours: {blames}"

    def backed_off(self, job: int, seconds: float) -> None:
        """Check the length of a backoff."""
        super().backed_off(job, seconds)
        backoff = self._functions[self.plans[job].fn].backoff
        assert backoff is not None, f"job {job} has to wait, and its function has no backoff"
        assert 0.75 * backoff[0] <= seconds <= backoff[2], f"job {job} has to wait {seconds:.3f} s of {backoff}"
        self._again_at[job] = self.clock.now + seconds
        self._order.came_back(job)

    def refused(self, job: int, why: Missing | None) -> None:
        """Check that a job is refused only in a closed world."""
        super().refused(job, why)
        if self._values.is_reviving(job):
            self._values.unmade(job)
            return
        self._close(job, "REFUSED")
        assert self._closed, f"job {job} was refused although a worker might join"

    def stuck(self, deadlock: Deadlock) -> None:
        """Check that a job failed for a deadlock could indeed never start."""
        super().stuck(deadlock)
        self._close(deadlock.job, "STUCK")
        if not any(self.seen[what] for what in _NOT_KNOWN_AT_ONCE):
            running = {job for _, job in self._running}
            self._circles.check(deadlock.job, self._loans.waiting, running, lambda key: self._lease_of[key].allocation)

    def cancelled(self, job: int) -> None:
        """Record that a job was cancelled."""
        super().cancelled(job)
        self._endings.unwanted(job)
        self._close(job, "CANCELLED")

    def pending(self, jobs: list[int]) -> None:  # type: ignore[override]
        """Record the requests for which there was a warning."""
        super().pending(jobs)
        self.warned.update(self.plans[job].request for job in jobs)

    def _close(self, job: int, outcome: str) -> None:
        assert job in self.plans, f"job {job} was never submitted"
        assert job not in self.outcome, f"job {job} was {self.outcome[job]}, and now {outcome}"
        parents = self.outcome.get(self._parent.get(job, 0), "CANCELLED")  # a cancelled job may take some time to end
        assert outcome == "CANCELLED" or parents == "CANCELLED", f"job {job} outlived its parent, which was {parents}"
        self.outcome[job] = outcome
        self._room.settled(job)
        self._values.ended(job)

    # --- values that stay --------------------------------------------------------------------------------------------

    def input_lost(self, job: int, value: int) -> None:
        """Record that a job can never run."""
        super().input_lost(job, value)
        self._values.check_lost(value)
        if self._values.is_reviving(job):
            self._values.unmade(job)
        else:
            self._close(job, "INPUT LOST")

    def unfit(self, job: int) -> None:
        """Check that a job whose inputs fit into no store is given up only in a closed world."""
        super().unfit(job)
        assert self._closed, f"job {job} was given up although a worker might join"
        if self._values.is_reviving(job):
            self._values.unmade(job)
        else:
            self._close(job, "UNFIT")

    def lacked_room(self, worker: int, job: int, attempt: int) -> None:
        """Record that an attempt which came to its end has failed, for want of room."""
        super().lacked_room(worker, job, attempt)
        self._truth[job, attempt] = Code.FAILED

    def homeless(self, job: int) -> None:
        """Record the end of a job whose value found no room."""
        super().homeless(job)
        if self._values.is_reviving(job):
            self._values.unmade(job)
        else:
            self._close(job, "HOMELESS")

    def unpaid(self, job: int) -> None:
        """Record the end of a job that waited for an overdraft; check that nothing runs that might pay it back."""
        super().unpaid(job)
        waiting = {waits for _, waits in self._loans.waiting}
        running = {one for worker, one in self._running if worker not in self._given_up} - waiting
        assert not running, f"job {job} is given up for want of room, and jobs {sorted(running)} run"
        if self._values.is_reviving(job):
            self._values.unmade(job)
        else:
            self._close(job, "UNPAID")

    # --- the nodes ---------------------------------------------------------------------------------------------------

    def granted(self, worker: int, action: StartLease) -> None:
        """Check that granted ids are free, and that the jobs belong on this worker."""
        super().granted(worker, action)
        allocation = parse_allocation(action.allocation)
        if not self._gangs.leads(worker, action.lease, allocation):
            self._nodes[worker].take(action.lease, allocation)
        self._nodes[worker].devices.granted(action.lease, action.runner, allocation, fresh=action.fresh)
        lease = self._leases[worker, action.lease] = _Lease(action, allocation)
        memory = dict(zip(action.jobs, action.memory, strict=True)) if action.memory else {}
        for job, attempt in lease.attempts.items():
            self._lease_of[worker, job] = lease
            assert self._assigned_to.get((job, attempt)) == worker, f"job {job} was not assigned to worker {worker}"
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} got a lease after it had begun"
            self._check_choice(worker, job, attempt, self._part(allocation, memory.get(job, 0)))

    def _part(self, allocation: Allocation, memory: int) -> Allocation:
        """Return what a job of a lease is told that it has, which may be a sixteenth less memory than the lease has."""
        if not memory:
            return allocation
        assert memory < allocation.memory <= memory + memory // 16, f"{allocation} is far more than {memory} bytes"
        return with_memory(allocation, memory)

    def _check_choice(self, worker: int, job: int, attempt: int, allocation: Allocation) -> None:
        plan, carried = self.plans[job], set(self._nodes[worker].offer.tokens)
        at, until = self._assigned_at[job, attempt], self._until[worker]
        options = [option for option in plan.request.options if option.units == allocation.units]
        assert options, f"{allocation} is not what job {job} asked for"
        options = [option for option in options if set(option.tokens) <= carried]
        assert options, f"job {job} is on worker {worker}, which does not carry its tokens"
        options = [option for option in options if (soft := option.walltime_soft) is None or at + soft <= until + 1e-9]
        assert options, f"job {job} is on worker {worker}, which has not enough time left"
        times = [time for time in (self._functions[plan.fn].timeout, options[0].walltime) if time is not None]
        self._endings.granted(worker, job, attempt, min(times, default=float("inf")))

    def lent(self, worker: int, wait: LeaseWait) -> None:
        """Check what the lease of a waiting job has lent."""
        super().lent(worker, wait)
        kept = parse_allocation(wait.allocation) if wait.allocation else NO_ALLOCATION
        self._loans.lent(worker, wait, kept, runs=(worker, wait.job) in self._running)
        whole = self._leases[worker, wait.lease].allocation
        if kept.memory < whole.memory:  # its own part; the rest stays with the lease all the same
            kept = with_memory(kept, whole.memory)
        self._nodes[worker].change(wait.lease, kept)
        self._leases[worker, wait.lease].allocation = kept

    def waits(self, worker: int, job: int) -> None:
        """Record that a job waits for its own jobs."""
        super().waits(worker, job)
        self._loans.waits(worker, job)

    def went_on(self, worker: int, job: int, allocation: str) -> None:
        """Check that a job that continues has all its cores again."""
        super().went_on(worker, job, allocation)
        self._loans.went_on(worker, job, parse_allocation(allocation), self._lease_of[worker, job].allocation)

    def held(self, worker: int, start: LeaseStart) -> None:
        """Check the ids that are held for a gang."""
        super().held(worker, start)
        allocation = parse_allocation(start.allocation)
        self._nodes[worker].take(start.lease, allocation)
        self._nodes[worker].devices.held(start.lease, allocation)
        self._gangs.held(worker, start, allocation)
        assert self.plans[start.jobs[0]].request.units == allocation.units, f"{allocation} is not what was asked for"

    def freed(self, worker: int, lease: int) -> None:
        """Check that no job runs in a lease that is freed, and that its process is gone if it was asked to die."""
        self._nodes[worker].devices.freed(lease)
        if self._gangs.release(worker, lease, self._runs_for_the_head):
            self._nodes[worker].give(lease)
            return
        held = self._leases.pop((worker, lease))
        assert (worker, held.runner) not in self._terminating, (
            f"lease {lease} of worker {worker} was freed before its process"
        )
        for job in held.attempts:
            held_by = self._running.get((worker, job))
            assert held_by != lease, f"lease {lease} of worker {worker} was freed while job {job} runs in it"
        self._nodes[worker].give(lease)

    def _runs_for_the_head(self, job: int, attempt: int, leader: int) -> bool:
        """Return True if an attempt runs on a worker that the head has not given up."""
        at = self._leases.get((leader, self._running.get((leader, job), 0)))
        return leader not in self._gone and at is not None and at.attempts[job] == attempt

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """Check a reported end of an attempt, and record losses and failures."""
        super().told(worker, job, attempt, code)
        if not attempt:
            return
        self._circles.told(job)
        self._rationing.ended(worker, job)
        if code != Code.SUCCEEDED:
            self._order.came_back(job)
        leads = first_of(self.plans[job].request).nodes == 1 or self._assigned_to.get((job, attempt)) == worker
        if code == Code.RETURNED and leads:  # other workers of a gang report the end of their holds
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} had begun; it was returned"
        elif code == Code.UNSTARTED:
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} had begun; it was not started"
            self._losses.setdefault(job, {}).setdefault(attempt, "start")
        elif code == Code.CRASHED:
            self._losses.setdefault(job, {}).setdefault(attempt, self._blame.get((job, attempt), "own"))
        elif code in (Code.FAILED, Code.TIMED_OUT):
            self._failures[job] = self._failures.get(job, -1) + 1

    # --- the runners -------------------------------------------------------------------------------------------------

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """Check that a job begins once, in a lease of its own."""
        super().began(worker, lease, job, attempt)
        held = self._leases.get((worker, lease))
        assert held is not None, f"job {job} began in lease {lease}, which worker {worker} has freed"
        assert held.attempts.get(job) == attempt, f"job {job} began in a lease that is not its own"
        assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} began twice"
        if first_of(self.plans[job].request).nodes > 1:
            self._gangs.began(worker, lease, job, attempt)
        self._truth[job, attempt] = None
        self._values.began(worker, job)
        self._running[worker, job] = lease
        self._endings.began(job, attempt)
        self._aftermath.began(worker, job)
        if worker not in self._given_up:
            self._rationing.began(worker, job, self.plans[job].request)

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """Record the true outcome of an attempt; check that it ended in time."""
        super().ended(worker, lease, job, attempt, code)
        assert self._running.pop((worker, job)) == lease
        self._loans.ended(worker, job)
        self._truth[job, attempt] = code
        self._values.stopped(worker, job)
        self._rationing.ended(worker, job)
        self._endings.ended(job, attempt, code)
        self._aftermath.ended(worker, job)

    # --- at the end --------------------------------------------------------------------------------------------------

    def check_idle(self) -> None:
        """Check that nothing runs or is held, and that every job that a worker could run has its outcome."""
        assert not self._running, f"still running: {list(self._running)}"
        assert not self._leases, f"still held: {list(self._leases)}"
        self._gangs.check_empty()
        for worker, records in self._nodes.items():
            records.check_empty(worker)
        for job, plan in self.plans.items():
            if job not in self.outcome and not self._values.waits_for_ever(job, self._can_run):
                fits = [worker for worker, records in self._nodes.items() if records.fits_ever(plan.request)]
                enough = len(fits) >= first_of(plan.request).nodes
                assert not enough, f"job {job} never ended, and worker {fits[0]} could have run it"
                assert plan.request in self.warned, f"job {job} waits for ever, and there was no warning"

    def check_values(self, joined: list[int], known: int) -> None:
        """Check that no value is left at the connected workers, nor waited for; `known` are at the head."""
        if self._values.check_rest(joined, known, self._can_run):
            self._replicas.check_rest()

    def _can_run(self, job: int) -> bool:
        request = self.plans[job].request
        return sum(records.fits_ever(request) for records in self._nodes.values()) >= first_of(request).nodes
