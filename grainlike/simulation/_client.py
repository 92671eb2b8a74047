"""Client: submits the jobs of a workload when their inputs are there, and cancels some of them.

A job with an empty request is not sent to the head: it is done at the client, in no time.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from grainlike.resources import Request
from grainlike.scheduler import (
    PROGRAM,
    HeadEvent,
    JobsSubmitted,
    OwnValuesAdded,
    ReplicationAsked,
    ValuesGiven,
    ValuesReleased,
    ValuesWanted,
)
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import JobPlan, Workload
from grainlike.simulation._witness import Witness
from grainlike.wire import OWN_VALUES

__all__ = ["Client"]


class _Head(Protocol):
    clock: Clock
    witness: Witness

    def submit(self, batches: list[JobsSubmitted]) -> None:
        """Accept jobs."""

    def cancel(self, jobs: list[int]) -> None:
        """Cancel jobs."""

    def tell(self, event: HeadEvent) -> None:
        """Give the scheduler an event."""


class _Batch(NamedTuple):
    """Columns of jobs with one request: numbers, functions, ages, bytes of arguments, values that each needs."""

    jobs: list[int]
    fns: list[int]
    ages: list[int]
    sizes: list[int]
    inputs: list[tuple[int, ...]]

    def add(self, job: int, plan: JobPlan, age: int, needs: tuple[int, ...]) -> None:
        """Append a job."""
        self.jobs.append(job)
        self.fns.append(plan.fn + 1)
        self.ages.append(age)
        self.sizes.append(plan.sends)
        self.inputs.append(needs)


class Client:
    """Runs a workload. A job's position in it is not its number: numbers are given when jobs are submitted.

    Attributes:
        unsettled: number of jobs without an outcome, submitted or not.
        values: number of values that are here for jobs without an outcome.
        values_most: the most that they ever were.
        number_of: the number of each job that was submitted, by position.
    """

    def __init__(self, head: _Head, workload: Workload) -> None:
        self._head = head
        self._plans = workload.jobs
        self._missing = [len(set(plan.after)) for plan in workload.jobs]
        self._dependents: dict[int, list[int]] = {}
        self._ready: list[int] = []
        self._done: set[int] = set()
        self._position_of: dict[int, int] = {}
        self.number_of: dict[int, int] = {}
        self._last_number = 0
        self._ages: dict[int, int] = {}
        """The number of the oldest job that each job needs, or of its own, by position."""
        self._wanted_by: dict[int, int] = {}
        """Number of the jobs without an outcome that need each value."""
        self.values: int = 0
        self.values_most: int = 0
        self._stays: dict[int, int] = {}
        """Values at workers to which this client refers, by position."""
        self._loose: list[int] = []
        """Those to which it refers no more, and has not said so."""
        self._wants: set[int] = set()
        self._replicates: set[int] = set()
        self._submitting = False
        self.unsettled: int = len(workload.jobs)

    def start(self) -> None:
        """Schedule the submission of all jobs without inputs, and all cancellations."""
        clock = self._head.clock
        moments: dict[float, list[int]] = {}
        for position, plan in enumerate(self._plans):
            for before in dict.fromkeys(plan.after):
                self._dependents.setdefault(before, []).append(position)
            if not plan.after:
                moments.setdefault(plan.at, []).append(position)
            if plan.cancel_at is not None:
                clock.at(plan.cancel_at, self._cancel, position)
        for moment, positions in moments.items():
            clock.at(moment, self._submit, positions)

    def next_number(self) -> int:
        """Return a number for a job, also for one that another job submits."""
        self._last_number += 1
        return self._last_number

    def settled(self, job: int, *, ok: bool) -> None:
        """Record that a job has its outcome. Jobs that became ready wait for `submit_ready`."""
        position = self._position_of.get(job)
        if position is not None and position not in self._done:
            self._settle(position, ok=ok)

    def stayed(self, job: int) -> None:
        """Record that the value of a job stays at its worker, before `settled`."""
        position = self._position_of.get(job)
        if position is not None and position not in self._done:
            self._stays[position] = job

    def given(self, value: int) -> None:
        """Receive the bytes of a value that it wanted."""
        self._head.witness.given(value)
        self._has(value)
        self._head.tell(ValuesGiven([value]))

    def gave_up(self, value: int) -> None:
        """Record that a value is lost."""
        self._replicates.discard(self._position_of[value])
        self._has(value)

    def replicated(self, value: int) -> None:
        """Refer to a value for a while more that has the replicas which were asked for."""
        position = self._position_of[value]
        self._head.clock.after(self._plans[position].holds, self._holds_no_more, position)

    def _holds_no_more(self, position: int) -> None:
        self._replicates.discard(position)
        self._let_go(position)
        self.submit_ready()

    def _has(self, value: int) -> None:
        position = self._position_of[value]
        self._wants.discard(position)
        self._let_go(position)

    def _let_go(self, position: int) -> None:
        """Refer to a value no more, once nothing here needs it any more."""
        if position not in self._stays or position in self._wants or position in self._replicates:
            return
        needing = self._dependents.get(position, ())
        if all(dependent in self.number_of or dependent in self._done for dependent in needing):
            self._loose.append(self._stays.pop(position))

    def _speak(self) -> None:
        """Say which values it wants, and to which it refers no more."""
        if self._loose:
            loose, self._loose = self._loose, []
            for value in loose:
                self._head.witness.let_go(value)
            self._head.tell(ValuesReleased(loose))

    def lose_head(self) -> None:
        """Settle all jobs without an outcome as lost with the head; submit no more."""
        for position, number in self.number_of.items():
            if position not in self._done:
                self._head.witness.lost_with_head(number)
        self._done.update(range(len(self._plans)))
        self._ready.clear()
        self._stays.clear()
        self._loose.clear()
        self._replicates.clear()
        self.unsettled = 0

    def submit_ready(self) -> None:
        """Submit the jobs whose inputs have arrived."""
        if self._ready:
            ready, self._ready = sorted(self._ready), []
            self._submit([position for position in ready if position not in self._done])
        if self._loose and not self._submitting:
            self._speak()

    def _settle(self, position: int, *, ok: bool) -> None:
        stack = [(position, ok)]
        while stack:
            position, ok = stack.pop()
            if position in self._done:
                continue
            self._done.add(position)
            self.unsettled -= 1
            self._count_values(position, ok=ok)
            if self._stays:
                self._settle_value(position)
            for dependent in self._dependents.get(position, ()):
                self._missing[dependent] -= 1
                self._inherit(dependent, self._ages.get(position, 0))
                if not ok and not self._plans[dependent].accepts_failures:
                    stack.append((dependent, False))
                elif not self._missing[dependent]:
                    if self._plans[dependent].request:
                        self._become_ready(dependent)
                    else:
                        stack.append((dependent, True))

    def _count_values(self, position: int, *, ok: bool) -> None:
        """Count the value of a job as here, if others need it, and its inputs as gone that nothing else needs."""
        wanted_by = self._wanted_by
        for before in dict.fromkeys(self._plans[position].after):
            if before in wanted_by:
                wanted_by[before] -= 1
                self.values -= not wanted_by[before]
        waiting = sum(dependent not in self._done for dependent in self._dependents.get(position, ()))
        if ok and waiting:
            wanted_by[position] = waiting
            self.values += 1
            self.values_most = max(self.values_most, self.values)

    def _settle_value(self, position: int) -> None:
        for before in dict.fromkeys(self._plans[position].after):
            self._let_go(before)
        copies = self._plans[position].copies
        if position in self._stays and copies is not None:
            self._replicates.add(position)
            self._head.clock.after(0.0, self._replicate, self._stays[position], copies)
        if position in self._stays and self._plans[position].wants:
            self._wants.add(position)
            self._head.clock.after(0.0, self._want, self._stays[position])
        else:
            self._let_go(position)

    def _want(self, value: int) -> None:
        self._head.witness.wanted(value)
        self._head.tell(ValuesWanted([value]))

    def _replicate(self, value: int, copies: int) -> None:
        self._head.witness.replicating(value, copies)
        self._head.tell(ReplicationAsked([value], copies))

    def _inherit(self, position: int, age: int) -> None:
        if age and age < self._ages.get(position, age + 1):
            self._ages[position] = age

    def _become_ready(self, position: int) -> None:
        at = self._plans[position].at
        if at > self._head.clock.now:
            self._head.clock.at(at, self._submit, [position])
        else:
            self._ready.append(position)

    def _submit(self, positions: list[int]) -> None:
        batches: dict[tuple[Request, int, bool], _Batch] = {}
        for position in positions:
            if position in self._done:
                continue
            plan = self._plans[position]
            if not plan.request:
                if plan.size and not plan.after:
                    self._add_own(position, plan.size)
                self._settle(position, ok=True)
                continue
            number = self.next_number()
            self.number_of[position], self._position_of[number] = number, position
            age = self._ages.setdefault(position, number)
            stays = self._stays
            needs = tuple(stays[before] for before in dict.fromkeys(plan.after) if before in stays) if stays else ()
            if needs:
                self._head.witness.needs(number, needs)
            self._head.witness.submitted(number, plan, age=age)
            batch = batches.setdefault((plan.request, plan.priority, plan.isolate), _Batch([], [], [], [], []))
            batch.add(number, plan, age, needs)
        self._submitting = True
        self._head.submit([_submission(*key, batch) for key, batch in batches.items()])
        self._submitting = False
        for position in positions if self._stays else ():
            for before in dict.fromkeys(self._plans[position].after):
                self._let_go(before)
        self.submit_ready()

    def _add_own(self, position: int, size: int) -> None:
        """Tell the head of a value of the client's own."""
        value = OWN_VALUES + position
        self._stays[position], self._position_of[value] = value, position
        self._head.witness.added(value, size)
        self._head.tell(OwnValuesAdded(PROGRAM, [value], [size]))

    def _cancel(self, position: int) -> None:
        if position in self._done:
            return
        number = self.number_of.get(position)
        self._settle(position, ok=False)
        if number is not None:
            self._head.witness.cancelled(number)
            self._head.cancel([number])


def _submission(request: Request, priority: int, isolate: bool, batch: _Batch) -> JobsSubmitted:
    """Return the event for jobs of a batch, with those columns alone that say something."""
    jobs, fns, ages, sizes, inputs = batch
    return JobsSubmitted(
        *(request, jobs, fns, priority, isolate),
        ages=[] if ages == jobs else ages,
        sizes=sizes if any(sizes) else [],
        inputs=tuple(inputs) if any(inputs) else (),
    )
