"""Jobs with a request each: a step costs what it changes and gives out, not what waits."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from counting import calls_of
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Memory, Request, WallTime
from grainlike.scheduler import (
    AssignJobs,
    HeadAction,
    HeadScheduler,
    JobsCancelled,
    JobsSubmitted,
    Ticked,
    WakeAt,
    WorkerLost,
)
from grainlike.scheduler.planning import _class_index, _kinds, _planner, _reservations, _search
from grainlike.scheduler.planning._reservation import Reservation

FEW, MANY = 100, 3_000
GIB = 1 << 30


def tell(head: HeadScheduler, event: object, now: float = 0.0) -> list[AssignJobs]:
    """What an event assigns, with all that follows at once."""
    given: list[AssignJobs] = []
    while True:
        actions = head.handle(event, now)  # type: ignore[arg-type]
        given += [action for action in actions if isinstance(action, AssignJobs)]
        if not any(isinstance(action, WakeAt) and action.at <= now for action in actions):
            return given
        event = Ticked()


def full_cluster(waiting: int, ask: Callable[[int], Request]) -> Cluster:
    """A cluster that is full, where so many jobs wait, with a request each."""
    cluster = Cluster(Cores(2) & Memory(8 * GIB), Cores(2) & Memory(8 * GIB))
    cluster.function(1)
    cluster.head.check = lambda: None
    for _ in range(4):
        cluster.submit(Cores(1) & Memory(3 * GIB), 1.0)
    for i in range(waiting):
        cluster.submit(ask(i), 1.0)
    return cluster


def same(_: int) -> Request:
    return Cores(1) & Memory(GIB)


def narrow(i: int) -> Request:
    # Memory that grows is never rounded, so each request has a class of its own.
    return Cores(1) & Memory(GIB + i, grow=2)


def wide(i: int) -> Request:
    return Cores(1) & Memory(5 * GIB + i, grow=2)


def of_all_sizes(i: int) -> Request:
    return Cores(1) & Memory(2 * GIB + (i * 7_919 % 10_007) * 600_000, grow=2)


def of_two(i: int) -> Request:
    return Cores(2) & Memory(GIB + i) | narrow(i)


def with_walltimes(i: int) -> Request:
    return narrow(i) & WallTime(60 + i)


@pytest.mark.parametrize("ask", [narrow, wide, of_all_sizes, of_two, with_walltimes])
def test_an_end_costs_as_much_whether_few_or_many_wait(ask: Callable[[int], Request]) -> None:
    def cost(waiting: int) -> float:
        cluster = full_cluster(waiting, ask)
        return calls_of(lambda: cluster.run(until=4.0))

    cost(2)
    assert cost(MANY) < 2 * cost(FEW)


def nearly_alike(i: int) -> Request:
    return Cores(1) & Memory(GIB + i)


def spread(i: int) -> Request:
    return Cores(1) & Memory((1 << 20) * (100 + i * 7_919 % 20_000))


def tight(i: int) -> Request:
    return Cores(1) & Memory(GIB + i * 7_919 % 100_003 * 600_000)


def of_other_times(i: int) -> Request:
    return Cores(1) & WallTime(60 + i)


@pytest.mark.parametrize(
    ("ask", "times"),
    # Those of which few fit beside each other cost more: passes reserve workers for some, and each end starts one.
    [(nearly_alike, 1.2), (narrow, 1.5), (of_other_times, 1.45), (spread, 1.65), (tight, 2.9)],
)
def test_jobs_with_a_request_each_cost_a_few_times_what_those_of_one_do(
    ask: Callable[[int], Request], times: float
) -> None:
    def cost(ask: Callable[[int], Request]) -> float:
        requests = [ask(i) for i in range(1_000)]
        cluster = Cluster(*[Cores(16) & Memory(64 * GIB)] * 4)
        cluster.function(1)
        cluster.head.check = lambda: None

        def work() -> None:
            for request in requests:
                cluster.submit(request, 1.0)
            cluster.run()

        calls = calls_of(work)
        assert not cluster.head.jobs
        return calls

    cost(lambda _: Cores(1))
    assert cost(ask) < times * cost(lambda _: Cores(1) & Memory(GIB))


@pytest.mark.parametrize(
    ("schema", "waiting", "are_few"), [(9, 16, True), (9, 17, False), (8, 64, True), (8, 65, False)]
)
def test_the_index_of_waiting_classes_is_used_by_the_rules_of_who_wrote_the_journal(
    schema: int, waiting: int, are_few: bool
) -> None:
    cluster = full_cluster(0, narrow)
    cluster.head.decide_as(schema)
    for i in range(waiting):
        cluster.submit(narrow(i), 1.0)
    assert cluster.head._planner.waiting.are_few == are_few
    cluster.head.decide_as(9)
    cluster.tell(Ticked())
    assert cluster.head._planner.waiting.are_few == (waiting <= 16)


@pytest.mark.parametrize("ask", [narrow, wide, of_all_sizes])
def test_it_costs_as_much_when_all_have_waited_for_long(ask: Callable[[int], Request]) -> None:
    def cost(waiting: int) -> float:
        cluster = full_cluster(waiting, ask)
        for step in range(10):
            cluster.now = 1_000.0
            tell(cluster.head, Ticked(), 1_000.0 + step)
        return calls_of(lambda: tell(cluster.head, Ticked(), 2_000.0))

    assert cost(MANY) < 2 * cost(FEW)


def test_a_job_of_another_client_costs_as_much_whether_few_or_many_wait() -> None:
    def cost(waiting: int) -> float:
        cluster = full_cluster(waiting, narrow)
        event = JobsSubmitted(Memory(1), [10**6], [1], client=2)
        return calls_of(lambda: tell(cluster.head, event))

    cost(2)
    assert cost(MANY) < 2 * cost(FEW)


@pytest.mark.parametrize("kinds", [_kinds.KINDS_MOST, 1], ids=["", "many-kinds"])
def test_it_costs_as_much_where_all_are_wide_on_some_worker_that_cannot_run_them(
    kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a small worker's cores is less than one: nothing may be kept for them there, as it has no memory."""
    monkeypatch.setattr(_kinds, "KINDS_MOST", kinds)

    def cost(waiting: int) -> float:
        cluster = full_cluster(waiting, narrow)
        cluster.join(Cores(1))
        return calls_of(lambda: tell(cluster.head, JobsSubmitted(narrow(10**6), [10**6], [1])))

    cost(2)
    assert cost(MANY) < 2 * cost(FEW)
    assert cost(MANY) < 500 or kinds == 1


def test_a_worker_that_leaves_costs_as_much_whatever_ran_before() -> None:
    def cost(ran: int) -> float:
        cluster = full_cluster(ran, narrow)
        cluster.run()
        assert not cluster.head.jobs
        return calls_of(lambda: cluster.head.handle(WorkerLost(1, "it is gone"), cluster.now))

    assert cost(1_000) < 3 * cost(FEW)


@pytest.mark.parametrize("waiting", [narrow, wide])
@pytest.mark.parametrize("ask", [narrow, with_walltimes, same])
def test_jobs_that_come_while_nothing_is_free_make_no_pass(
    ask: Callable[[int], Request], waiting: Callable[[int], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where workers are reserved for jobs that ask for more than half of one."""
    cluster = full_cluster(FEW, waiting)
    assert bool(cluster.head._planner.reserving.by_worker) == (waiting is wide)
    passes: list[float] = []
    place_all = _planner.Planner._place_all

    def counted_pass(planner: _planner.Planner, now: float, out: list[HeadAction]) -> bool:
        passes.append(now)
        return place_all(planner, now, out)

    monkeypatch.setattr(_planner.Planner, "_place_all", counted_pass)
    for i in range(FEW, 2 * FEW):
        cluster.submit(ask(i), 1.0)
    assert not passes
    cluster.run(until=1.0)
    assert passes


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_out_of_passes_changes_no_action(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same history again, with a pass after each event, and a look at each class while they are few."""
    monkeypatch.setattr(_planner, "FEW", (1, 4, 16)[seed % 3])
    monkeypatch.setattr(_planner, "PLACED_MOST", (2, 256)[seed % 2])

    def actions() -> list[object]:
        dice = random.Random(seed)
        offers = [Cores(dice.randint(1, 6)) & Memory(dice.randint(4, 12)) for _ in range(3)]
        cluster = Cluster(*offers)
        for fn, known_s in (1, None), (2, 0.05), (3, 3.0):
            cluster.function(fn, known_s, quick_s=0.1)
        for _ in range(60):
            _do_something(cluster, dice)
            if dice.random() < 0.5:
                tell_all(cluster)
        cluster.run()
        return cluster.actions

    found = actions()
    monkeypatch.setattr(_planner.Planner, "_nothing_can_start", lambda *_: False)
    monkeypatch.setattr(_planner.Planner, "_set_aside", lambda _, jobs, *__: (jobs, []))
    assert found == actions()


@pytest.mark.parametrize("seed", range(30))
def test_reservations_that_are_computed_when_asked_for_change_no_action(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same history again, with all of them computed when a pass begins, and all rooms compared with all classes."""
    monkeypatch.setattr(_planner, "FEW", (1, 4, 16)[seed % 3])
    monkeypatch.setattr(_class_index, "BLOCK", 2 + seed % 2)
    renewed = _reservations.renewed

    def history() -> tuple[list[object], int]:
        dice = random.Random(seed)
        cluster = Cluster(*[Cores(dice.randint(3, 6)) & Memory(dice.randint(8, 12)) for _ in range(3)])
        for fn, known_s in (1, 1.0), (2, None), (3, 3.0):
            cluster.function(fn, known_s)
        reserved = 0
        for _ in range(80):
            _do_something(cluster, dice)
            reserved += len(cluster.head._planner.reserving.by_worker)
            if dice.random() < 0.5:
                tell_all(cluster)
        cluster.run()
        return cluster.actions, reserved

    def renewed_at_once(reservations: list[Reservation], now: float) -> bool:
        stands = renewed(reservations, now)
        for reservation in reservations:
            reservation.as_of(now)
        return stands

    found, reserved = history()
    assert reserved
    monkeypatch.setattr(_reservations, "renewed", renewed_at_once)
    monkeypatch.setattr(_search.Search, "_roomy", lambda search, _: search._changed)
    monkeypatch.setattr(_search.Search, "may_reserve", lambda *_, **__: True)
    assert (found, reserved) == history()


def test_no_event_looks_at_all_that_waits() -> None:
    """Also those that come at once, while nothing fits, are looked at a few thousand at a time."""
    cluster = full_cluster(0, narrow)
    head = cluster.head
    most = max(calls_of(lambda i=i: head.handle(JobsSubmitted(narrow(i), [1_000 + i], [1]), 0.0)) for i in range(MANY))
    assert most < 10_000


def test_very_many_that_come_at_once_may_ask_for_different_resources() -> None:
    """The block of new classes that is cut in two has requests with memory, and others without."""
    cluster = full_cluster(0, narrow)
    for i in range(3 * _class_index.BLOCK):
        more = i + 1 < 3 * _class_index.BLOCK
        request = of_other_times(i) if i % 2 else narrow(i)
        cluster.tell(JobsSubmitted(request, [1_000 + i], [1], more=more))
    assert cluster.head._planner.waiting.count == 3 * _class_index.BLOCK


def test_classes_that_are_empty_are_forgotten() -> None:
    cluster = full_cluster(1_000, narrow)
    cluster.run()
    assert not cluster.head.jobs
    cluster.submit(Memory(1), 1.0)
    assert len(cluster.head.classes) < 200
    assert not cluster.head._planner.waiting.of_shape
    assert all(len(worker.using) < 3 for worker in cluster.head.workers.values())


def test_what_was_cancelled_waits_no_more() -> None:
    cluster = full_cluster(MANY, narrow)
    cluster.tell(JobsCancelled([job for job in cluster.head.jobs if job > 4]))
    (queue,) = cluster.head._planner.waiting.queues.values() or [()]
    assert not list(queue)


@pytest.mark.parametrize("seed", range(30))
def test_a_look_at_everything_finds_no_more_than_what_was_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each event of a random history, a pass that compares all with all gives nothing out."""
    monkeypatch.setattr(_class_index, "BLOCK", 2)
    monkeypatch.setattr(_planner, "FEW", 1 if seed % 2 == 0 else 6)
    monkeypatch.setattr(_search, "FAILED_MOST", 2)
    monkeypatch.setattr(_planner, "VISITS_MOST", 5)
    dice = random.Random(seed)
    offers = [Cores(dice.randint(1, 6)) & Memory(dice.randint(4, 12)) for _ in range(3)]
    cluster = Cluster(*offers)
    for fn, known_s in (1, None), (2, 0.05), (3, 3.0):
        cluster.function(fn, known_s, quick_s=0.1)  # most jobs of these histories are longer
    for _ in range(60):
        _do_something(cluster, dice)
        tell_all(cluster)
        planner = cluster.head._planner
        assert planner.whole
        before = {number: job.state for number, job in cluster.head.jobs.items()}
        for cls in list(cluster.head.classes.values()):
            job = cls.head()
            if job is not None and not planner.waiting.are_few:
                planner.waiting.leave(cls)
                planner.waiting.add_new(cls, job)
        planner._read = (-1, 0)
        tell_all(cluster)
        assert {number: job.state for number, job in cluster.head.jobs.items()} == before
    cluster.run()


def tell_all(cluster: Cluster) -> None:
    """Let the head do all that it has to do now."""
    while True:
        at = len(cluster.actions)
        cluster.tell(Ticked())
        if not any(isinstance(action, WakeAt) and action.at <= cluster.now for action in cluster.actions[at:]):
            return


def _do_something(cluster: Cluster, dice: random.Random) -> None:
    match dice.randrange(6):
        case 0 | 1 | 2:
            request = Cores(dice.randint(1, 6)) & Memory(dice.randint(1, 12))
            if dice.random() < 0.3:
                request = request | (Cores(1) & Memory(dice.randint(1, 12)))
            if dice.random() < 0.2:
                request = Cores(1) & WallTime(dice.randint(1, 9)) & Memory(dice.randint(1, 12))
            which = {"fn": dice.randint(1, 3), "priority": dice.randrange(2), "client": dice.randrange(2)}
            for _ in range(dice.randint(1, 4)):
                cluster.submit(request, dice.uniform(0.1, 4.0), n=1, **which)
        case 3 | 4:
            cluster.run(until=cluster.now + dice.uniform(0.0, 2.0))
        case _:
            waiting = [number for number, job in cluster.head.jobs.items() if job.state.name == "QUEUED"]
            if waiting:
                cluster.tell(JobsCancelled([dice.choice(waiting)]))
