"""Requests that differ by a few percent of memory share a queue, and each job keeps what it asked for."""

from __future__ import annotations

from scheduler_cluster import Cluster

from grainlike.resources import Cores, Memory, Request, offer_of
from grainlike.scheduler import (
    AssignJobs,
    FunctionDefined,
    HeadScheduler,
    JobsPending,
    JobsSubmitted,
    JobsUnsatisfiable,
    NodeScheduler,
    StartLease,
    TellStarted,
    Ticked,
    WorkerJoined,
    WorkerLost,
    WorkerReported,
)
from grainlike.scheduler._catalogue import ALIKE_MOST
from grainlike.wire import Assign, ClassSpec, Code, Completed, Define, FunctionSpec, LeaseStart

GIB = 1 << 30


def asks(i: int) -> Request:
    return Cores(1) & Memory(GIB + 1 + i)


def rounded() -> Request:
    return Cores(1) & Memory(GIB + GIB // 16)


def full_cluster(jobs: int) -> Cluster:
    cluster = Cluster(Cores(2) & Memory(64 * GIB))
    cluster.function(1)
    for i in range(jobs):
        cluster.submit(asks(i), 10.0)
    return cluster


def test_many_alike_share_one_queue_and_each_job_is_sent_with_its_own_memory():
    cluster = full_cluster(100)
    assert len(cluster.head.classes) == ALIKE_MOST + 1
    cluster.run()
    sent = {
        job: memory
        for action in cluster.told(AssignJobs)
        if action.memory
        for job, memory in zip(action.jobs, action.memory, strict=True)
    }
    assert sent == {i + 1: GIB + 1 + i for i in range(ALIKE_MOST, 100)}
    assert len(cluster.ended) == 100


def test_a_few_are_counted_exactly():
    cluster = full_cluster(ALIKE_MOST)
    assert [cls.request for cls in cluster.head.classes.values()] == [asks(i) for i in range(ALIKE_MOST)]
    assert all(job.own is None for job in cluster.head.jobs.values())


def test_requests_that_ask_for_just_the_rounded_amount_join_the_class_and_have_nothing_of_their_own():
    cluster = full_cluster(10)
    cluster.submit(rounded(), 0.001)
    job = cluster.head.jobs[11]
    assert job.cls is cluster.head.jobs[10].cls
    assert (job.own, job.memory) == (None, 0)


def test_nothing_is_rounded_up_beyond_what_the_workers_have():
    cluster = Cluster(Cores(4) & Memory(GIB + 10), closed=True)
    cluster.function(1)
    for i in range(10):
        cluster.submit(asks(i), 1.0)
    assert [cls.request for cls in cluster.head.classes.values()][-1] == asks(9)
    cluster.run()
    assert len(cluster.ended) == 10
    assert not cluster.told(JobsUnsatisfiable)


def two_workers(*, closed: bool) -> HeadScheduler:
    head = HeadScheduler(closed=closed)
    head.handle(FunctionDefined(1), 0.0)
    for number, memory in ((1, GIB + 100), (2, 2 * GIB)):
        offer = offer_of(Cores(1) & Memory(memory), own_cores=range(1))
        head.handle(WorkerJoined(number, f"n{number}", offer), 0.0)
    for i in range(20):
        head.handle(JobsSubmitted(asks(i), [i + 1], [1]), 0.0)
    return head


def left_to_run(head: HeadScheduler) -> tuple[set[int], list[object]]:
    """Run all that the workers are given, and return which jobs ran, and all actions."""
    ran: set[int] = set()
    told: list[object] = []
    actions = [action for worker in head.workers.values() for action in held_by(worker)]
    while actions:
        told += actions
        begun = [action for action in actions if isinstance(action, AssignJobs)]
        actions = []
        for action in begun:
            for job, attempt in zip(action.jobs, action.attempts, strict=True):
                ran.add(job)
                start = LeaseStart(job, action.cls, "", [job], [attempt], 0.0)
                done = Completed(job, [job], [attempt], [Code.SUCCEEDED], [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
                actions += head.handle(WorkerReported(action.worker, [start], [done], [job]), 100.0)
        actions += head.handle(Ticked(), 100.0)
        head.check()
    return ran, told


def held_by(worker) -> list[AssignJobs]:
    return [
        AssignJobs(worker.id, job.shape.id, False, [job.id], [job.attempt], [job.fn.id]) for job in worker.held.values()
    ]


def test_when_the_last_worker_with_room_for_the_rounded_amount_is_lost_jobs_are_counted_exactly_again():
    for closed in (False, True):
        head = two_workers(closed=closed)
        assert any(job.own is not None for job in head.jobs.values())
        told: list[object] = [*head.handle(WorkerLost(2, "gone"), 50.0)]
        while True:
            more = head.handle(Ticked(), 100.0)
            told += more
            if not any(isinstance(action, AssignJobs) for action in more):
                break
        ran, later = left_to_run(head)
        assert len(ran) == 20, closed
        assert not head.jobs
        assert not [action for action in told + later if isinstance(action, (JobsUnsatisfiable, JobsPending))]


def test_jobs_that_came_before_any_worker_run_on_one_that_has_just_enough():
    head = HeadScheduler(closed=False)
    head.handle(FunctionDefined(1), 0.0)
    for i in range(20):
        head.handle(JobsSubmitted(asks(i), [i + 1], [1]), 0.0)
    offer = offer_of(Cores(1) & Memory(GIB + 100), own_cores=range(1))
    head.handle(WorkerJoined(1, "n1", offer), 1.0)
    head.handle(Ticked(), 1.0)
    ran, told = left_to_run(head)
    assert len(ran) == 20
    assert not [action for action in told if isinstance(action, JobsPending)]


def test_explain_and_a_crash_know_the_request_as_it_was_written():
    head = two_workers(closed=False)
    waiting = next(job for job in head.jobs.values() if job.own is not None)
    said = head.explain(waiting.id, 0.0)
    assert said is not None
    assert said.request == asks(waiting.id - 1)


def test_a_job_that_crashed_is_tried_alone_with_the_request_as_it_was_written():
    cluster = full_cluster(20)
    running = next(number for number, job in cluster.head.jobs.items() if job.worker)
    _, number, worker, cls, attempt = cluster.take_running(running)
    cluster.finish(number, worker, cls, attempt, Code.CRASHED)
    job = cluster.head.jobs[number]
    assert job.cls.isolate
    assert job.request == asks(number - 1)


def test_a_node_tells_runner_and_head_what_each_job_of_a_lease_asked_for():
    node = NodeScheduler(offer_of(Cores(1) & Memory(8 * GIB), own_cores=range(1)))
    node.handle(Define([FunctionSpec(1, b"", "f", False, None)], [ClassSpec(1, str(rounded()), False)]), 0.0)
    node._functions[1].times.add([1e-6] * 50)
    out = node.handle(Assign(1, True, [1, 2, 3], [1, 1, 1], [1, 1, 1], [b""] * 3, [], None, (GIB + 1, 0, GIB + 3)), 0.0)
    lease = next(action for action in out if isinstance(action, StartLease))
    told = next(action for action in out if isinstance(action, TellStarted))
    assert lease.jobs == [1, 2, 3]
    assert lease.memory == told.start.memory == (GIB + 1, 0, GIB + 3)
    assert f"memory={GIB + GIB // 16}" in lease.allocation
