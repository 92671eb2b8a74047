"""Both schedulers under any sequence of events that links, processes and clocks allow, against a naive model.

The machine decides what happens next: which message is delivered (each link keeps its order, none waits for another),
which process ends its job, dies or obeys, how much time passes. The models (`naive_head`, `naive_node`) say what a head
and a node must make of it, in lists and sums.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from naive_head import NaiveHead
from naive_node import NaiveNode, stale

from grainlike.resources import Cores, GPUs, Limit, Memory, Rate, Resource, Token, WallTime, offer_of
from grainlike.scheduler import (
    AssignJobs,
    CancelJobs,
    FunctionDefined,
    FunctionTimed,
    HeadEvent,
    HeadScheduler,
    JobsCancelled,
    JobsDeadlocked,
    JobsLost,
    JobsMoved,
    JobsOrphaned,
    JobsPending,
    JobsRequeued,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    NodeStopped,
    RetractJobs,
    ShapesForgotten,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
    _catalogue,
)
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Define, FunctionSpec, Retract, Undefine

EXAMPLES = int(os.environ.get("GRAINLIKE_TEST_EXAMPLES", "250"))
STEPS = int(os.environ.get("GRAINLIKE_TEST_STEPS", "50"))
SHRINK = os.environ.get("GRAINLIKE_TEST_SHRINK", "1") != "0"
"""To find the shortest way to a failure takes minutes; whoever only asks whether there is one need not wait for it."""

TINY, TINY_ASYNC, WAITS, LONG, HURRIED, PARENT, KEEPER, TINY_TOO = range(1, 9)
FUNCTIONS = {
    TINY: FunctionSpec(TINY, b"TINY", "tiny", False, None),
    TINY_ASYNC: FunctionSpec(TINY_ASYNC, b"TINY_ASYNC", "tiny_async", True, None),
    WAITS: FunctionSpec(WAITS, b"WAITS", "waits", True, None),
    LONG: FunctionSpec(LONG, b"LONG", "long", False, None),
    HURRIED: FunctionSpec(HURRIED, b"HURRIED", "hurried", False, 0.5),
    PARENT: FunctionSpec(PARENT, b"PARENT", "parent", True, None),
    KEEPER: FunctionSpec(KEEPER, b"KEEPER", "keeper", True, None, keep=True),
    TINY_TOO: FunctionSpec(TINY_TOO, b"TINY_TOO", "tiny_too", False, None),
}
PARENTS = (PARENT, KEEPER)
"""Their jobs submit jobs of their own and wait for them; those of the second keep their cores meanwhile."""
DEEPEST = 3
LATE_S = 5.0
"""Where jobs wait for jobs, one that was sent to a worker and has not started there is taken for stuck in the end: no
message takes this long."""
RETRIES = {LONG: 1}
TINY_S = 0.0002
WALL = dict.fromkeys((TINY, TINY_ASYNC, WAITS, TINY_TOO), TINY_S) | {LONG: 1.0, HURRIED: 0.1, PARENT: 2.0, KEEPER: 2.0}

MOST_WORKERS = 4
OFFERS = (
    Cores(4) & Memory("2G") & GPUs(1) & Resource("lic", 2) & Token("fast"),
    Cores(2),
    Cores(4) & Token("fast"),
)
REQUESTS = (
    Cores(1),
    Cores(1),
    Cores(2),
    Cores(4),
    Cores(1) & Memory("1G"),
    GPUs(0.5),
    Resource("lic", 1) & Cores(1),
    GPUs(1) | Cores(2),
    Cores(4) & Token("fast") | Cores(1) & Memory("1G"),
    Cores(1) & Token("fast"),
    Cores(1) & Limit("db", 2),
    Cores(1) & Rate("api", 20),
    Cores(2) & WallTime(0.5),
)
NESTED = (Cores(1), Cores(2), Cores(2), Cores(4), Cores(1) & Memory("1G"), Memory("1G"), GPUs(1))
PICK = st.integers(0, 10**6)
SIZES = (0, 0, 30 << 20, 100 << 20)


class Minds(RuleBasedStateMachine):
    @initialize(offers=st.lists(st.sampled_from(OFFERS), max_size=2), kept=st.sampled_from([64, 0]))
    def begin(self, offers: list[Any], kept: int = 64) -> None:
        """`kept`: how many classes that nothing uses the head keeps in any case."""
        _catalogue.KEPT_EMPTY = kept
        self.now = 0.0
        self.head = HeadScheduler(closed=False)
        self.naive = NaiveHead()
        self.wake: float | None = None
        self.nodes: dict[int, NaiveNode] = {}
        self.joined = self.submitted = self.done = 0
        self.of: dict[int, tuple[int, tuple[int, int]]] = {}
        """The worker and attempt that wait for a job that another submitted."""
        self.history: list[tuple[int, list[Any]]] = []
        for fn in FUNCTIONS:
            self.head.handle(FunctionDefined(fn, RETRIES.get(fn, 0)), self.now)
        for offer in (OFFERS[0], *offers):
            self.join(offer)

    # --- the head's body ---------------------------------------------------------------------------------------------

    def tell(
        self, event: HeadEvent, settled: Sequence[int] = (), given_up: Sequence[int] = (), refused: Sequence[int] = ()
    ) -> None:
        """Let the head's scheduler answer: nobody is said to have ended but these, and what goes with its parent."""
        settled, given_up, refused = [*settled], [*given_up], [*refused]
        assigned: list[AssignJobs] = []
        said: dict[type, list[int]] = {JobsSettled: [], JobsLost: [], JobsOrphaned: []}
        stuck: list[int] = []
        kept = set(self.head._planner.reserving.by_worker)
        self.whole = False
        for action in self.head.handle(event, self.now):
            match action:
                case AssignJobs():
                    assigned.append(action)
                    self.assign(action)
                case RetractJobs():
                    self.nodes[action.worker].down.append(Retract(action.jobs, action.attempts))
                case CancelJobs():
                    self.nodes[action.worker].down.append(Cancel(action.jobs, action.attempts))
                case JobsSettled():
                    said[JobsSettled] += [action.completed.jobs[row] for row in action.rows]
                case JobsLost():
                    said[JobsLost] += action.jobs
                case ShapesForgotten():
                    for node in self.nodes.values():
                        node.defined.difference_update(action.shapes)
                        node.down.append(Undefine([], action.shapes))
                case WakeAt():
                    self.wake = action.at if self.wake is None else min(self.wake, action.at)
                case JobsOrphaned():
                    said[JobsOrphaned] = sorted(said[JobsOrphaned] + action.jobs)
                case JobsDeadlocked():
                    if action.failed:
                        stuck.append(action.deadlock.job)
                case JobsStarted() | JobsPending() | JobsMoved() | JobsRequeued():
                    pass
                case _:
                    raise AssertionError(action)
        orphans = sorted([*self.naive.take_orphans(), *refused])
        assert said == {JobsSettled: settled, JobsLost: given_up, JobsOrphaned: orphans}
        for job in stuck:
            self.naive.gave_up(job)
        self.answer([*settled, *given_up, *stuck])
        self.naive.leave_queues([job for action in assigned for job in action.jobs])
        self.check_head(assigned, kept | set(self.head._planner.reserving.by_worker))
        self.whole = True

    def answer(self, jobs: list[int]) -> None:
        """Who waits for these is told that they have their outcomes."""
        for job in jobs:
            worker, attempt = self.of.get(job, (0, (0, 0)))
            if worker in self.naive.capacity:
                self.nodes[worker].down.append(attempt)

    def assign(self, action: AssignJobs) -> None:
        node, shape = self.nodes[action.worker], self.head.shapes[action.cls]
        self.naive.assigned(action.worker, shape.request, action.jobs, action.attempts, self.now, ahead=action.ahead)
        if action.cls not in node.defined:
            node.defined.add(action.cls)
            node.down.append(Define([*FUNCTIONS.values()], [ClassSpec(action.cls, str(shape.request), shape.isolate)]))
        blank = [b""] * len(action.jobs)
        node.down.append(
            Assign(
                action.cls,
                action.ahead,
                action.jobs,
                action.attempts,
                action.fns,
                blank,
                [],
                action.hard_s,
                ages=action.ages,
            )
        )

    def check_head(self, assigned: list[AssignJobs], kept: set[int]) -> None:
        """`kept`: the workers that were, or are, kept for somebody. Elsewhere who has room starts."""
        self.head.check()
        naive = self.naive
        assert self.head.jobs.keys() == naive.jobs.keys()
        for number, worker in self.head.workers.items():
            assert worker.free == naive.free(number)
        queued = 0
        for cls in self.head.classes.values():
            queue = naive.queues.get((cls.client, cls.request, cls.priority, cls.isolate, cls.root), [])
            assert [job.id for job in cls.live()] == queue
            queued += len(queue)
        assert sum(map(len, naive.queues.values())) == queued
        naive.check_rations()
        may_start = naive.may_start(kept)
        assert not may_start, f"there is room for jobs (job, worker, option): {may_start}"
        for action in assigned:
            if not action.ahead:
                self.check_preference(action, kept)

    def check_preference(self, action: AssignJobs, kept: set[int]) -> None:
        """Who got another option than its first could not have had that one: less is free now than was then."""
        for job in action.jobs:
            first = self.naive.jobs[job].key[1].options[0]
            if self.naive.jobs[job].shape != first:
                open_to_it = self.naive.capacity.keys() - kept - self.naive.leaving
                chosen = self.naive.jobs[job]
                better = [at for at in open_to_it if self.naive.has_room(self.naive.open_to(chosen, at), at, first)]
                assert not better, f"job {job} has its second choice, and worker {better[0]} has room for its first"

    # --- what users do -----------------------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 12),
        request=st.sampled_from(REQUESTS),
        fn=st.sampled_from(list(FUNCTIONS)),
        priority=st.sampled_from((0, 0, 1)),
        client=st.sampled_from((0, 0, 1)),
        inputs=st.lists(PICK, max_size=4),
    )
    def submit(self, count: int, request: Any, fn: int, priority: int, client: int, inputs: list[int]) -> None:
        """New jobs, of which the first few need older ones; some have large arguments."""
        ages = [1 + pick % self.submitted for pick in inputs[:count] if self.submitted]
        numbers = list(range(self.submitted + 1, self.submitted + count + 1))
        self.submitted += count
        ages += [0] * (count - len(ages)) if ages else []
        sizes = [SIZES[pick % len(SIZES)] for pick in inputs[:1]] * count
        self.naive.submitted((client, request, priority, False, 0), numbers, RETRIES.get(fn, 0), ages=ages)
        self.tell(JobsSubmitted(request, numbers, [fn] * count, priority, client=client, ages=ages, sizes=sizes))

    @precondition(lambda self: self.submitted)
    @rule(picks=st.lists(PICK, min_size=1, max_size=4))
    def cancel(self, picks: list[int]) -> None:
        numbers = [number for pick in picks if (number := 1 + pick % self.submitted) not in self.of]
        self.naive.cancelled(numbers)
        self.tell(JobsCancelled(numbers))

    # --- what workers and links do -----------------------------------------------------------------------------------

    @rule(offer=st.sampled_from(OFFERS))
    def join(self, offer: Any) -> None:
        if len(self.naive.capacity) < MOST_WORKERS:
            self.joined += 1
            given = offer_of(offer, own_cores=range(4))
            self.nodes[self.joined] = NaiveNode(self.joined, given, frozenset((KEEPER,)))
            self.naive.joined(self.joined, given)
            self.tell(WorkerJoined(self.joined, f"n{self.joined}", given))

    def node(self, pick: int) -> NaiveNode | None:
        here = [self.nodes[number] for number in self.naive.capacity]
        return here[pick % len(here)] if here else None

    @precondition(lambda self: len(self.naive.capacity) > 1)
    @rule(pick=PICK, late=st.booleans())
    def lose(self, pick: int, late: bool) -> None:
        """A worker is gone with all its processes; its last reports come too late, if at all."""
        node = self.node(pick)
        assert node is not None
        given_up = self.naive.lost(node.number)
        self.tell(WorkerLost(node.number, "gone"), given_up=given_up)
        for kind, what in node.up if late else ():
            if kind == "report":
                self.tell(WorkerReported(node.number, *what))

    @precondition(lambda self: len(self.naive.capacity) > 1)
    @rule(pick=PICK)
    def stop(self, pick: int) -> None:
        """SIGTERM."""
        node = self.node(pick)
        assert node is not None
        node.up.append(("leaving", ()))
        node.tell(NodeStopped(), self.now)

    @rule(pick=PICK, most=st.sampled_from((1, 1, 3, 10)))
    def deliver_down(self, pick: int, most: int) -> None:
        node = self.node(pick)
        while node is not None and node.down and most:
            node.take(node.down.popleft(), self.now)
            most -= 1

    @rule(pick=PICK, most=st.sampled_from((1, 1, 3, 10)))
    def deliver_up(self, pick: int, most: int) -> None:
        node = self.node(pick)
        while node is not None and node.number in self.naive.capacity and node.up and most:
            self.hear(node)
            most -= 1

    def hear(self, node: NaiveNode) -> None:
        kind, what = node.up.popleft()
        if kind == "leaving":
            self.naive.leaving.add(node.number)
            self.tell(WorkerLeaving(node.number))
            return
        if kind == "nested":
            self.nested(node.number, *what)
            return
        shapes = {number: shape.request for number, shape in self.head.shapes.items()}
        settled, given_up = self.naive.reported(node.number, *what, shapes)
        self.tell(WorkerReported(node.number, *what), settled, given_up)
        self.history = [*self.history, *stale([(node.number, what[1])])][-20:]

    def nested(self, worker: int, of: tuple[int, int], request: Any, fns: list[int]) -> None:
        """Jobs of a job's have come to the head. If its attempt has ended, nobody wants them."""
        numbers = list(range(self.submitted + 1, self.submitted + len(fns) + 1))
        self.submitted += len(fns)
        self.of.update(dict.fromkeys(numbers, (worker, of)))
        parent = self.naive.parent(*of)
        event = JobsSubmitted(request, numbers, fns, parent=of)
        if parent is None:
            self.naive.outcome.update(dict.fromkeys(numbers, "ORPHANED"))
            self.tell(event, refused=numbers)
            return
        self.naive.submitted((parent.key[0], request, 0, False, parent.root), numbers, 0, parent)
        self.tell(event)

    @precondition(lambda self: self.history)
    @rule(pick=PICK)
    def say_again(self, pick: int) -> None:
        """An old outcome once more: it counts for nothing."""
        worker, completed = self.history[pick % len(self.history)]
        self.tell(WorkerReported(worker, [], completed, []))

    # --- what processes do -------------------------------------------------------------------------------------------

    def runner(self, pick: int, *, busy: bool = True) -> tuple[NaiveNode, int] | None:
        here = [self.nodes[number] for number in self.naive.capacity]
        found = [(node, number) for node in here for number in (node.busy() if busy else node.runners)]
        return found[pick % len(found)] if found else None

    @rule(
        pick=PICK,
        times=st.sampled_from((1, 1, 4, 12)),
        code=st.sampled_from((Code.SUCCEEDED,) * 4 + (Code.FAILED,)),
        awaits=st.booleans(),
    )
    def work(self, pick: int, times: int, code: Code, awaits: bool) -> None:
        for _ in range(times):
            found = self.runner(pick)
            if found is not None:
                node, number = found
                node.end_first(number, pick, code, WALL, self.now, awaits=awaits)

    @rule(
        picks=st.lists(PICK, min_size=1, max_size=3),
        count=st.integers(1, 3),
        request=st.sampled_from(NESTED),
        deep=st.sampled_from((0, PARENT, PARENT, KEEPER)),
    )
    def call(self, picks: list[int], count: int, request: Any, deep: int) -> None:
        """Jobs submit jobs of their own, and wait for them."""
        if not self.callers():
            self.submit(count, request, deep or PARENT, 0, 0, [])
            self.deliver_all()
        for pick in picks:
            callers = self.callers()
            if callers:
                node, number, lease = callers[pick % len(callers)]
                node.call(number, lease, request, [deep or TINY] * count, self.now)
                self.deliver_all()

    @precondition(lambda self: self.of)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def end_nested(self, picks: list[int]) -> None:
        """Jobs that others wait for end, and those hear of it."""
        for pick in picks:
            running = [
                (node, number, at)
                for node in self.here()
                for number in node.busy()
                for at, lease in enumerate(node.running(number))
                if next(iter(node.runners[number].leases[lease].values()))[0] in self.of
            ]
            if running:
                node, number, at = running[pick % len(running)]
                node.end_first(number, at, Code.SUCCEEDED, WALL, self.now, awaits=False)
                self.deliver_all()

    def callers(self) -> list[tuple[NaiveNode, int, int]]:
        """Nodes, processes and leases in which a job runs that can submit jobs."""
        return [
            (node, number, lease)
            for node in self.here()
            for number in node.busy()
            for lease in node.running(number)
            if (first := next(iter(node.runners[number].leases[lease].values())))[2] in PARENTS
            and self.depth(first[0]) < DEEPEST
        ]

    def deliver_all(self) -> None:
        """What is on its way arrives, and what is said to it."""
        while any(node.down or node.up for node in self.here()):
            for node in self.here():
                while node.down:
                    node.take(node.down.popleft(), self.now)
                while node.up:
                    self.hear(node)

    def depth(self, job: int) -> int:
        depth = 0
        while job in self.of:
            job, depth = self.of[job][1][0], depth + 1
        return depth

    @rule(pick=PICK)
    def come_up(self, pick: int) -> None:
        found = self.runner(pick, busy=False)
        if found is not None:
            found[0].come_up(found[1], self.now)

    @rule(pick=PICK)
    def crash(self, pick: int) -> None:
        found = self.runner(pick, busy=False)
        if found is not None:
            found[0].die(found[1], self.now)

    @rule(pick=PICK, heeds=st.booleans())
    def obey(self, pick: int, heeds: bool) -> None:
        told = [
            (node, number)
            for node in map(self.nodes.__getitem__, self.naive.capacity)
            for number, runner in node.runners.items()
            if runner.stops or runner.barriers or runner.terminating
        ]
        if told:
            node, number = told[pick % len(told)]
            node.obey(number, self.now, all_of_it=heeds)

    @rule(seconds=st.sampled_from((0.0001, 0.001, 0.02, 0.6, 6.0)))
    def pass_time(self, seconds: float) -> None:
        if self.of and seconds > LATE_S:
            self.deliver_all()
        self.now += seconds
        self.ring()

    def ring(self) -> None:
        for node in map(self.nodes.__getitem__, self.naive.capacity):
            if node.wake is not None and node.wake <= self.now:
                node.wake = None
                node.tell(Ticked(), self.now)
            node.check_time(self.now)
        if self.wake is not None and self.wake <= self.now:
            self.wake = None
            self.tell(Ticked())

    # --- the end -----------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not getattr(self, "whole", False):
            return  # it has failed before, and that is what counts
        for number in [*self.naive.capacity]:  # those who leave have had their time
            if ("leaving", ()) in self.nodes[number].up or number in self.naive.leaving:
                self.tell(WorkerLost(number, "gone"), given_up=self.naive.lost(number))
        if not any("gpus" in capacity for capacity in self.naive.capacity.values()):  # no worker that can run every job
            if len(self.naive.capacity) == MOST_WORKERS:
                number = next(iter(self.naive.capacity))
                self.tell(WorkerLost(number, "gone"), given_up=self.naive.lost(number))
            self.join(OFFERS[0])
        for _ in range(40 + 4 * self.submitted):
            if not self.naive.jobs and all(node.idle() and not node.up for node in self.here()):
                break
            self.settle()
        self.check_end()

    def here(self) -> list[NaiveNode]:
        return [self.nodes[number] for number in self.naive.capacity]

    def settle(self) -> None:
        """Everybody does what is to be done."""
        for node in self.here():
            while node.down:
                node.take(node.down.popleft(), self.now)
            for number in [*node.runners]:
                if number in node.runners:
                    node.obey(number, self.now, all_of_it=True)
            for number in node.busy():
                while number in node.runners and node.running(number) and not node.runners[number].terminating:
                    node.end_first(number, 0, Code.SUCCEEDED, WALL, self.now, awaits=False)
            while node.up:
                self.hear(node)
        done, self.done = self.done, len(self.naive.outcome)
        self.now += 0.06 if self.done > done else 6.0  # who waits in a circle is given up after some time
        self.ring()

    def check_end(self) -> None:
        """Every job has one outcome; what was free is free, to the last bit."""
        assert not self.naive.jobs, f"never ended: {sorted(self.naive.jobs)}"
        assert sorted(self.naive.outcome) == list(range(1, self.submitted + 1))
        for number, worker in self.head.workers.items():
            assert worker.free == worker.capacity
            assert not worker.held
            assert self.nodes[number].idle()
        assert [self.head._planner.shares.used(client) for client in (0, 1)] == [0, 0]
        assert self.head._planner.start_limits.running("db") == 0


class Lenders(Minds):
    """One worker, jobs that wait for jobs, and quick strangers that are sent ahead: who gets the cores that are lent.

    Among all that may happen to both schedulers, this hardly ever comes together.
    """

    cancel = say_again = stop = lose = crash = obey = end_nested = None  # type: ignore[assignment]
    deliver_down = deliver_up = None  # type: ignore[assignment]

    @initialize()
    def begin(self) -> None:  # type: ignore[override]
        super().begin([])
        self.head.handle(FunctionTimed(TINY, [WALL[TINY]] * 8), self.now)

    def join(self, offer: Any) -> None:
        if not self.joined:
            super().join(OFFERS[0])

    @rule(count=st.integers(1, 6), cores=st.integers(1, 2))
    def submit(self, count: int, cores: int) -> None:  # type: ignore[override]
        super().submit(count, Cores(cores), TINY, 0, 0, [])
        self.deliver_all()

    @rule(cores=st.integers(1, 3), more=st.integers(0, 2), children=st.integers(1, 2))
    def call(self, cores: int, more: int, children: int) -> None:  # type: ignore[override]
        """Two jobs come where none can submit any of its own; who can does so."""
        if not self.callers():
            for size in (cores, 1 + more):
                super().submit(1, Cores(size), PARENT, 0, 0, [])
            self.deliver_all()
        for node, number, lease in self.callers():
            node.call(number, lease, Cores(1), [TINY] * children, self.now)
        self.deliver_all()

    @rule(picks=st.lists(PICK, min_size=1, max_size=6))
    def work(self, picks: list[int]) -> None:  # type: ignore[override]
        """Any jobs end, and everybody hears of it."""
        for pick in picks:
            super().work(pick, 1, Code.SUCCEEDED, awaits=False)
            self.deliver_all()


EVERY = settings(
    max_examples=EXAMPLES,
    derandomize="GRAINLIKE_TEST_EXAMPLES" not in os.environ,  # every day the same, and others when there is time
    stateful_step_count=STEPS,
    deadline=None,
    phases=[phase for phase in Phase if SHRINK or phase not in (Phase.shrink, Phase.explain)],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

TestMinds = Minds.TestCase
TestMinds.settings = EVERY
TestLenders = Lenders.TestCase
TestLenders.settings = EVERY
