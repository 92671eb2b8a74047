"""Requests that no job uses are forgotten: classes and shapes at the head, and what workers were told of them."""

from __future__ import annotations

import random

import pytest
from scheduler_cluster import Cluster
from test_head_many_requests import GIB, calls_of, full_cluster, narrow, of_two, wide
from test_head_nested import Town

from grainlike.resources import Cores, Memory, Request, offer_of
from grainlike.scheduler import (
    FunctionDefined,
    JobsCancelled,
    JobsSubmitted,
    NodeScheduler,
    ShapesForgotten,
    StartsPaused,
    WorkerLost,
    _catalogue,
)
from grainlike.wire import Assign, ClassSpec, Code, Define, FunctionSpec, Undefine

MOST = 3 * 2 * _catalogue.KEPT_EMPTY
"""What may be kept that nothing uses, and as much again until it is looked at."""


def forgotten(cluster: Cluster) -> list[int]:
    return [shape for action in cluster.told(ShapesForgotten) for shape in action.shapes]


@pytest.mark.parametrize("ask", [narrow, wide, of_two])
def test_shapes_that_nobody_uses_are_forgotten_once_each(ask) -> None:
    cluster = full_cluster(0, ask)
    for i in range(1_000):
        cluster.submit(ask(i), 1.0)
        cluster.run()
    head, planner = cluster.head, cluster.head._planner
    assert len(head.shapes) <= MOST
    gone = forgotten(cluster)
    assert len(gone) == len(set(gone)) >= 1_000 - MOST
    assert not head.shapes.keys() & set(gone)
    kept = [planner._candidates, planner.reserving._wide, planner.ahead._holders, head._catalogue._shape_ids]
    kept += [worker._fits for worker in head.workers.values()]
    assert all(len(table) <= MOST for table in kept)


def test_those_that_a_waiting_job_uses_are_kept_and_all_are_forgotten_when_it_was_cancelled() -> None:
    cluster = full_cluster(1_000, narrow)
    assert len(cluster.head.shapes) > 1_000
    assert not forgotten(cluster)
    cluster.tell(JobsCancelled([job for job in cluster.head.jobs if job > 4]))
    assert len(cluster.head.shapes) <= MOST


def test_requests_of_a_job_that_submits_for_ever_are_forgotten_while_it_runs() -> None:
    town = Town(Cores(2) & Memory(8 * GIB))
    parent = town.submit(Cores(1))
    for i in range(1_000):
        town.ends(town.submit(narrow(i), parent=parent))
    assert parent in town.head.jobs
    assert len(town.head.classes) <= MOST
    assert len(town.head.shapes) <= MOST
    assert len(town.head._job_tree.trees[parent]) <= MOST


def test_an_event_costs_as_much_whether_few_or_many_wait_while_starts_are_paused() -> None:
    def cost(waiting: int) -> int:
        cluster = full_cluster(100, narrow)
        cluster.tell(StartsPaused("the disk refuses"))
        for i in range(100, waiting):
            cluster.submit(narrow(i), 1.0)
        event = JobsSubmitted(Memory(1), [10**6], [1])
        return calls_of(lambda: cluster.head.handle(event, 0.0))

    cost(102)
    assert cost(1_000) < 2 * cost(200)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_nothing_is_forgotten_that_is_in_use(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws of the head say so after each event; here, what nothing uses is forgotten at once."""
    monkeypatch.setattr(_catalogue, "KEPT_EMPTY", 0)
    dice = random.Random(seed)
    cluster = Cluster(*[Cores(dice.randint(2, 6)) & Memory(dice.randint(4, 12)) for _ in range(3)])
    cluster.tell(FunctionDefined(1, retries=3, backoff=(0.5, 2.0, 4.0)))
    cluster.function(2, 0.05)
    for _ in range(80):
        _do_something(cluster, dice)
    cluster.run()
    assert forgotten(cluster)


def _do_something(cluster: Cluster, dice: random.Random) -> None:
    match dice.randrange(8):
        case 0 | 1 | 2:
            request: Request = Cores(dice.randint(1, 6)) & Memory(dice.randint(1, 12))
            if dice.random() < 0.3:
                request = request | Cores(1) & Memory(dice.randint(1, 4))
            cluster.submit(request, dice.uniform(0.1, 4.0), fn=dice.randint(1, 2), client=dice.randrange(2))
        case 3 | 4 | 5:
            cluster.run(until=cluster.now + dice.uniform(0.0, 2.0))
        case 6:
            running = [entry[1] for entry in cluster._heap]
            if running:
                _, job, worker, cls, attempt = cluster.take_running(dice.choice(running))
                cluster.finish(job, worker, cls, attempt, Code.FAILED)
        case _:
            waiting = [number for number, job in cluster.head.jobs.items() if job.state.name in ("QUEUED", "BACKOFF")]
            if waiting:
                cluster.tell(JobsCancelled([dice.choice(waiting)]))


def test_a_job_whose_worker_is_lost_finds_its_request_again() -> None:
    cluster = Cluster(Cores(1) & Memory(8 * GIB))
    cluster.function(1)
    job = cluster.submit(narrow(0), 1.0)
    for i in range(1, 1_000):
        cluster.tell(JobsCancelled([cluster.submit(narrow(i), 1.0)]))
    assert len(cluster.head.shapes) <= MOST
    cluster.tell(WorkerLost(1, "it is gone"))
    cluster.take_running(job)
    cluster.join(Cores(1) & Memory(8 * GIB))
    cluster.run()
    assert job in cluster.ended


def test_a_node_drops_the_classes_that_it_is_told_to_drop() -> None:
    scheduler = NodeScheduler(offer_of(Cores(2) & Memory("8Gi"), own_cores=range(2)))
    scheduler.handle(Define([FunctionSpec(1, b"", "f", is_async=True, timeout=None)], []), 0.0)
    for cls in range(1, 10):
        scheduler.handle(Define([], [ClassSpec(cls, str(narrow(cls)), isolate=False)]), 0.0)
    scheduler.handle(Assign(5, False, [1], [1], [1], [b""], []), 0.0)
    scheduler.handle(Undefine([], [1, 2, 3, 77]), 0.0)
    scheduler.check()
    assert sorted(scheduler._classes) == [4, 5, 6, 7, 8, 9]
