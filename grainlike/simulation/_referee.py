"""The independent judge: books of its own on what truly happens, held against what the minds say.

It believes nothing that a mind has in its books. It sees leases granted and freed, jobs begin and end in runners,
answers reach awaiters; and raises `AssertionError` when one of these promises is broken:

1. Every job that was accepted has one outcome, and one only; and that outcome truly came about.
2. What is granted on a node is never more than it has, and no id is granted twice.
3. A job runs only inside a lease that covers its request, and no lease is freed while a job runs in it.
4. An attempt begins once at most, and only on the worker that it was assigned to.
5. Jobs that ask for the same are first assigned in the order in which they came.
6. A job is given up only after it was lost three times, one of them at most by a neighbour's fault.
7. A job that was said to be returned had not begun.

How long jobs were passed over is measured by `Patience`; how long that may be is for each test to say.
"""

from __future__ import annotations

from collections import deque

from grainlike.resources import Allocation, Missing, Request, parse_allocation
from grainlike.scheduler import AssignJobs, StartLease
from grainlike.simulation._books import NodeBooks
from grainlike.simulation._clock import Clock
from grainlike.simulation._patience import Key, Patience, key_of
from grainlike.simulation._plans import FunctionPlan, JobPlan
from grainlike.simulation._witness import Witness
from grainlike.wire import Code

__all__ = ["MOST_LOSSES", "Referee"]

MOST_LOSSES = 3


class _Lease:
    __slots__ = ("allocation", "attempts", "runner")

    def __init__(self, action: StartLease, allocation: Allocation) -> None:
        self.runner = action.runner
        self.allocation = allocation
        self.attempts = dict(zip(action.jobs, action.attempts, strict=True))


class Referee(Witness):
    """See the module. `functions` are the workload's; `closed` says that lost nodes do not come back."""

    def __init__(self, clock: Clock, functions: tuple[FunctionPlan, ...], *, closed: bool) -> None:
        super().__init__(clock)
        self.outcome: dict[int, str] = {}
        self.warned: set[Request] = set()
        self._functions = functions
        self._closed = closed
        self._nodes: dict[int, NodeBooks] = {}
        self._gone: set[int] = set()
        self._leases: dict[tuple[int, int], _Lease] = {}
        self._lease_of: dict[tuple[int, int], _Lease] = {}
        self._running: dict[tuple[int, int], int] = {}
        self._truth: dict[tuple[int, int], Code | None] = {}
        self._assigned_to: dict[tuple[int, int], int] = {}
        self._unassigned: dict[Key, deque[int]] = {}
        self._patience = Patience(self.plans, self._fits)
        self._failures: dict[int, int] = {}
        self._blame: dict[tuple[int, int], str] = {}
        self._losses: dict[int, dict[int, str]] = {}
        """What cost each lost attempt of a job."""
        self._last: dict[int, tuple[int, int]] = {}
        """The worker and attempt of a job's last assignment."""

    # --- workers -----------------------------------------------------------------------------------------------------

    def joined(self, worker: int, offer: Allocation) -> None:
        """See `Witness`."""
        self._nodes[worker] = NodeBooks(offer)

    def given_up(self, worker: int) -> None:
        """See `Witness`."""
        super().given_up(worker)
        self._count_losses(worker)

    def died(self, worker: int) -> None:
        """See `Witness`."""
        super().died(worker)
        self._count_losses(worker)
        self._nodes.pop(worker, None)
        for key in [key for key in self._leases if key[0] == worker]:
            del self._leases[key]
        assert not any(at == worker for at, _ in self._running), f"jobs outlived worker {worker}"

    def _count_losses(self, worker: int) -> None:
        if worker not in self._gone:
            self._gone.add(worker)
            for (at, job), lease in self._lease_of.items():
                attempt = lease.attempts[job]
                if at == worker and job not in self.outcome and self._last.get(job) == (worker, attempt):
                    self._losses.setdefault(job, {}).setdefault(attempt, "worker")

    def runner_died(self, worker: int, runner: int, killer: int) -> None:
        """See `Witness`."""
        super().runner_died(worker, runner, killer)
        for (at, _), lease in self._leases.items():
            if at == worker and lease.runner == runner:
                for job, attempt in lease.attempts.items():
                    self._blame[job, attempt] = "neighbour" if killer not in (0, job) else "own"

    # --- what the head does ------------------------------------------------------------------------------------------

    def submitted(self, job: int, plan: JobPlan) -> None:
        """See `Witness`."""
        super().submitted(job, plan)
        key = key_of(plan)
        self._unassigned.setdefault(key, deque()).append(job)
        self._patience.waiting(key, self._front(key))

    def assigned(self, action: AssignJobs) -> None:
        """See `Witness`."""
        for job, attempt in zip(action.jobs, action.attempts, strict=True):
            assert job not in self.outcome, f"job {job} was assigned after it was {self.outcome[job]}"
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} had begun; it was assigned again"
            self._assigned_to[job, attempt] = action.worker
            self._last[job] = (action.worker, attempt)
            key = key_of(self.plans[job])
            first, queue = self._front(key), self._unassigned[key]
            if first == job:
                queue.popleft()
            else:
                assert job not in queue, f"job {job} was assigned before {first}, which asks for the same"
        self._patience.assigned(action, self.clock.now, self._front)

    def _front(self, key: Key) -> int | None:
        """The first job of a class that was never assigned."""
        queue = self._unassigned.get(key)
        while queue and queue[0] in self.outcome:
            queue.popleft()
        return queue[0] if queue else None

    def _fits(self, worker: int, job: int) -> bool:
        return worker in self._nodes and self._nodes[worker].fits_ever(self.plans[job].request)

    @property
    def passed_over(self) -> tuple[float, int]:
        """See `Witness`."""
        return self._patience.longest

    def settled(self, job: int, attempt: int, code: int) -> None:
        """See `Witness`."""
        super().settled(job, attempt, code)
        self._close(job, Code(code).name)
        truth = self._truth.get((job, attempt))
        function = self._functions[self.plans[job].fn]
        if code == Code.TIMED_OUT:
            assert function.timeout is not None, f"job {job} timed out without a timeout"
            assert truth is not None, f"job {job} is said to have timed out, and it did not end"
        else:
            assert code in (Code.SUCCEEDED, Code.FAILED), f"job {job} was settled as {Code(code).name}"
            assert truth == code, f"attempt {attempt} of job {job} is said to be {Code(code).name}, in truth {truth!r}"
        if code != Code.SUCCEEDED:
            self._failures[job] = self._failures.get(job, 0)
            assert self._failures[job] >= function.retries, f"job {job} failed with retries left"

    def lost(self, job: int, losses: int) -> None:
        """See `Witness`."""
        super().lost(job, losses)
        self._close(job, "LOST")
        blames = list(self._losses.get(job, {}).values())
        assert len(blames) >= losses >= MOST_LOSSES, f"job {job} was given up after {blames}"
        assert blames.count("neighbour") <= 1, f"job {job} was given up for its neighbours: {blames}"

    def refused(self, job: int, why: Missing | None) -> None:
        """See `Witness`."""
        super().refused(job, why)
        self._close(job, "REFUSED")
        assert self._closed, f"job {job} was refused although a worker might join"

    def cancelled(self, job: int) -> None:
        """See `Witness`."""
        super().cancelled(job)
        self._close(job, "CANCELLED")

    def pending(self, jobs: list[int]) -> None:  # type: ignore[override]
        """See `Witness`."""
        super().pending(jobs)
        self.warned.update(self.plans[job].request for job in jobs)

    def _close(self, job: int, outcome: str) -> None:
        assert job in self.plans, f"job {job} was never submitted"
        assert job not in self.outcome, f"job {job} was {self.outcome[job]}, and now {outcome}"
        self.outcome[job] = outcome

    # --- what the nodes do -------------------------------------------------------------------------------------------

    def granted(self, worker: int, action: StartLease) -> None:
        """See `Witness`."""
        super().granted(worker, action)
        allocation = parse_allocation(action.allocation)
        self._nodes[worker].take(action.lease, allocation)
        lease = self._leases[worker, action.lease] = _Lease(action, allocation)
        for job, attempt in lease.attempts.items():
            self._lease_of[worker, job] = lease
            assert self._assigned_to.get((job, attempt)) == worker, f"job {job} was not assigned to worker {worker}"
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} got a lease after it had begun"
            assert self.plans[job].request.units == allocation.units, f"{allocation} is not what job {job} asked for"

    def freed(self, worker: int, lease: int) -> None:
        """See `Witness`."""
        for job in self._leases.pop((worker, lease)).attempts:
            held_by = self._running.get((worker, job))
            assert held_by != lease, f"lease {lease} of worker {worker} was freed while job {job} runs in it"
        self._nodes[worker].give(lease)

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """See `Witness`."""
        super().told(worker, job, attempt, code)
        if not attempt:
            return
        if code == Code.RETURNED:
            assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} had begun; it was returned"
        elif code == Code.CRASHED:
            self._losses.setdefault(job, {}).setdefault(attempt, self._blame.get((job, attempt), "own"))
        elif code in (Code.FAILED, Code.TIMED_OUT):
            self._failures[job] = self._failures.get(job, -1) + 1

    # --- what is true ------------------------------------------------------------------------------------------------

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """See `Witness`."""
        super().began(worker, lease, job, attempt)
        held = self._leases.get((worker, lease))
        assert held is not None, f"job {job} began in lease {lease}, which worker {worker} has freed"
        assert held.attempts.get(job) == attempt, f"job {job} began in a lease that is not its own"
        assert (job, attempt) not in self._truth, f"attempt {attempt} of job {job} began twice"
        self._truth[job, attempt] = None
        self._running[worker, job] = lease

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """See `Witness`."""
        super().ended(worker, lease, job, attempt, code)
        assert self._running.pop((worker, job)) == lease
        self._truth[job, attempt] = code

    # --- at the end --------------------------------------------------------------------------------------------------

    def check_idle(self) -> None:
        """Nothing runs, nothing is held, and every job that somebody could run has its outcome."""
        assert not self._running, f"still running: {list(self._running)}"
        assert not self._leases, f"still held: {list(self._leases)}"
        for worker, books in self._nodes.items():
            books.check_empty(worker)
        for job, plan in self.plans.items():
            if job not in self.outcome:
                fits = [worker for worker, books in self._nodes.items() if books.fits_ever(plan.request)]
                assert not fits, f"job {job} never ended, and worker {fits[0]} could have run it"
                assert plan.request in self.warned, f"job {job} waits for ever, and nobody was told"
