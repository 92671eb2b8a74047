"""The head's policy in virtual time: backfill that starves nobody, tight fits, and clear words for the impossible."""

from __future__ import annotations

from heapq import heappop

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Resource
from grainlike.scheduler import (
    MAX_LOSSES,
    AssignJobs,
    FunctionDefined,
    HeadScheduler,
    JobsCancelled,
    JobsLost,
    JobsPending,
    JobsSettled,
    JobsSubmitted,
    JobsUnsatisfiable,
    RetractJobs,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
)
from grainlike.scheduler._states import JobState
from grainlike.scheduler._warnings import NOBODY_S
from grainlike.scheduler.planning import _ahead
from grainlike.scheduler.planning._planner import Planner
from grainlike.scheduler.planning._reservation import PATIENCE_S
from grainlike.wire import Code, Completed, LeaseStart


def test_k5_a_job_behind_blocked_ones_starts_at_once_and_nobody_waits_for_ever():
    cluster = Cluster(Resource("gpu0", 1) & Resource("gpu1", 1))
    cluster.function(1)
    gpu0, gpu1 = Resource("gpu0", 1), Resource("gpu1", 1)
    aaa, bbb = cluster.submit(gpu0, 2), cluster.submit(gpu0, 2)
    ccc, ddd = cluster.submit(gpu0 & gpu1, 2), cluster.submit(gpu1, 2)
    assert cluster.begun == {aaa: 0, ddd: 0}
    cluster.run()
    assert cluster.begun == {aaa: 0, ddd: 0, bbb: 2, ccc: 4}
    assert max(cluster.ended.values()) == 6


def test_k5_a_stream_of_gpu1_jobs_cannot_put_the_wide_job_off():
    cluster = Cluster(Resource("gpu0", 1) & Resource("gpu1", 1))
    cluster.function(1)
    gpu0, gpu1 = Resource("gpu0", 1), Resource("gpu1", 1)
    cluster.submit(gpu0, 2)
    wide = cluster.submit(gpu0 & gpu1, 2)
    cluster.submit(gpu1, 3, n=5)

    def stream():
        if len(cluster.length) < 200:
            cluster.submit(gpu1, 3)

    cluster.run(until=100, arrivals=stream)
    assert cluster.begun[wide] <= 3


@pytest.mark.parametrize("known", [None, 0.1])
def test_a_wide_job_in_a_narrow_stream_starts_after_what_runs_now(known):
    """W6b: the 16-core job, tenth of two hundred. Its bound is the longest remaining run time."""
    cluster = Cluster(Cores(16))
    cluster.function(1, known)
    cluster.function(2)
    cluster.submit(Cores(1), 0.1, n=9)
    wide = cluster.submit(Cores(16), 0.1, fn=2)
    cluster.submit(Cores(1), 0.1, n=190)
    cluster.run()
    makespan = max(cluster.ended.values())
    assert cluster.begun[wide] <= 0.2 + 1e-9
    assert cluster.begun[wide] / makespan <= 0.15
    assert makespan <= 1.45


def test_without_the_reservation_it_would_starve(monkeypatch):
    monkeypatch.setattr("grainlike.scheduler.planning._reservations.reserve_on", lambda *_: None)
    cluster = Cluster(Cores(16))
    cluster.function(1)
    lengths = [0.10, 0.13, 0.11]
    for _ in range(8):
        for seconds in lengths:
            cluster.submit(Cores(1), seconds)
    wide = cluster.submit(Cores(16), 0.1)
    for _ in range(60):
        for seconds in lengths:
            cluster.submit(Cores(1), seconds)
    cluster.run()
    assert cluster.begun[wide] > 1.0


def test_backfill_uses_the_hole_before_a_reservation_only_for_what_ends_in_time():
    cluster = Cluster(Cores(4))
    cluster.function(1, known_s=10.0)
    cluster.function(2, known_s=1.0)
    cluster.function(3, known_s=20.0)
    cluster.submit(Cores(2), 10, fn=1)
    wide = cluster.submit(Cores(4), 1, fn=1)
    long = cluster.submit(Cores(1), 20, fn=3)
    short = cluster.submit(Cores(2), 1, fn=2)
    assert short in cluster.begun, "it ends before the wide job can start"
    assert long not in cluster.begun, "it would put the wide job off"
    cluster.run()
    assert cluster.begun[wide] == 10
    assert cluster.begun[long] == 11


def test_a_narrow_job_is_reserved_for_once_it_was_passed_over_for_long():
    cluster = Cluster(Cores(8))
    cluster.function(1)
    for tenth in range(3, 11):
        cluster.submit(Cores(1), tenth / 100)
    medium = cluster.submit(Cores(3), 0.1)

    def stream():
        if cluster.now < 20:
            cluster.submit(Cores(1), 0.07 + 0.01 * (len(cluster.length) % 7))

    cluster.run(until=100, arrivals=stream)
    assert PATIENCE_S <= cluster.begun[medium] < PATIENCE_S + 0.3


def test_g6_what_does_not_fit_waits_and_never_blocks_what_does():
    cluster = Cluster(Cores(4))
    cluster.function(1)
    first, second = cluster.submit(Cores(3), 5), cluster.submit(Cores(2), 5)
    third = cluster.submit(Cores(1), 1)
    assert cluster.begun == {first: 0, third: 0}
    cluster.run()
    assert cluster.begun[second] == 5


def test_higher_priority_goes_first_and_age_decides_among_equals():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    cluster.submit(Cores(1), 1)
    low = cluster.submit(Cores(1), 1, n=2)
    high = cluster.submit(Cores(1), 1, n=2, priority=5)
    cluster.run()
    assert sorted([*low, *high], key=cluster.begun.__getitem__) == [*high, *low]


def test_the_tightest_fit_keeps_the_big_worker_free():
    cluster = Cluster(Cores(16), Cores(4))
    cluster.function(1)
    small = cluster.submit(Cores(3), 1)
    assert cluster.started_on[small] == 2


def test_k2_a_closed_cluster_refuses_what_it_can_never_give_and_runs_the_rest():
    cluster = Cluster(Cores(2), closed=True)
    cluster.function(1)
    good = cluster.submit(Cores(1), 1)
    bad = cluster.submit(Cores(1) & Resource("zed", 1) & Resource("abc", 2), 1)
    (refusal,) = cluster.told(JobsUnsatisfiable)
    assert refusal.jobs == [bad]
    assert refusal.missing.absent == ("abc", "zed")
    assert refusal.missing.nearest == "n1"
    assert good in cluster.begun
    assert bad not in cluster.head.jobs


def test_k8_an_amount_above_every_capacity_is_refused_at_once():
    cluster = Cluster(Cores(2), Cores(3), closed=True)
    cluster.function(1)
    cluster.submit(Cores(4), 1)
    (refusal,) = cluster.told(JobsUnsatisfiable)
    assert "at most 3" in str(refusal.missing)


def test_an_open_cluster_warns_once_and_waits():
    cluster = Cluster(Cores(2))
    cluster.function(1)
    jobs = cluster.submit(Resource("foo", 1), 1, n=3)
    cluster.submit(Resource("foo", 1), 1)
    (warning,) = cluster.told(JobsPending)
    assert warning.waiting == 3
    cluster.join(Resource("foo", 2))
    assert set(jobs[:2]) <= set(cluster.begun)


def test_with_no_worker_at_all_the_warning_waits_a_little():
    cluster = Cluster()
    cluster.function(1)
    cluster.submit(Cores(1), 1)
    assert cluster.told(WakeAt) == [WakeAt(NOBODY_S)]
    assert not cluster.told(JobsPending)
    cluster.now = NOBODY_S
    cluster.tell(Ticked())
    assert len(cluster.told(JobsPending)) == 1


def test_quick_jobs_are_sent_ahead_and_taken_back_for_a_reservation():
    cluster = Cluster(Cores(2))
    cluster.function(1, known_s=0.001)
    cluster.function(2)
    cluster.submit(Cores(1), 0.001, n=20)
    ahead = [action for action in cluster.told(AssignJobs) if action.ahead]
    assert sum(len(action.jobs) for action in ahead) == 18
    cluster.submit(Cores(2), 1, fn=2, priority=1)
    (taken,) = cluster.told(RetractJobs)
    assert sorted(taken.jobs) == sorted(job for action in ahead for job in action.jobs)


@pytest.mark.parametrize(("seconds", "is_sent"), [(0.2, True), (0.25, True), (0.3, False)])
def test_jobs_are_sent_ahead_whose_function_takes_a_quarter_of_a_second_at_most(seconds, is_sent):
    cluster = Cluster(Cores(1))
    cluster.function(1, known_s=seconds)
    cluster.submit(Cores(1), seconds, n=3)
    assert any(action.ahead for action in cluster.told(AssignJobs)) == is_sent


def test_nothing_is_sent_ahead_of_a_function_that_nobody_knows():
    cluster = Cluster(Cores(2))
    cluster.function(1)
    cluster.submit(Cores(1), 0.001, n=20)
    assert not [action for action in cluster.told(AssignJobs) if action.ahead]


def test_a_job_that_keeps_killing_its_runner_is_isolated_and_then_given_up():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    job = cluster.submit(Cores(1), 1)
    for loss in range(1, MAX_LOSSES + 1):
        _, job, worker, cls, attempt = heappop(cluster._heap)
        assert attempt == loss
        assert cluster.head.shapes[cls].isolate == (loss > 1)
        cluster.finish(job, worker, cls, attempt, Code.CRASHED)
    (lost,) = cluster.told(JobsLost)
    assert (lost.jobs, lost.losses) == ([job], MAX_LOSSES)
    assert not cluster.head.jobs


def test_late_answers_of_an_earlier_attempt_count_for_nothing():
    cluster = Cluster(Cores(1), Cores(1))
    cluster.function(1)
    job = cluster.submit(Cores(1), 1)
    _, _, worker, _, attempt = heappop(cluster._heap)
    cluster.tell(WorkerLost(worker, "gone"))
    assert cluster.started_on[job] != worker
    late = Completed(1, [job], [attempt], [0], [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
    cluster.tell(WorkerReported(worker, [], [late], []))
    cluster.tell(WorkerReported(cluster.started_on[job], [], [late], []))
    assert not cluster.told(JobsSettled)
    cluster.run()
    assert len(cluster.told(JobsSettled)) == 1


def test_a_cancelled_job_keeps_its_slots_until_its_worker_says_it_is_gone():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    first, second = cluster.submit(Cores(1), 5, n=2)
    cluster.tell(JobsCancelled([first]))
    assert second not in cluster.begun
    cluster.run(until=5)
    assert second in cluster.begun
    assert not cluster.told(JobsSettled)


def test_quick_jobs_sent_ahead_let_a_more_urgent_one_pass():
    """It would fit in what the next end gives back, so that end must be seen by the head."""
    cluster = Cluster(Cores(4) & Resource("lic", 1))
    cluster.function(1, known_s=0.001)
    cluster.function(2)
    cluster.submit(Cores(1), 0.001, n=200)
    cluster.actions.clear()
    cluster.submit(Cores(1) & Resource("lic", 0.5), 1, fn=2, priority=1)
    assert len(cluster.told(RetractJobs)) == 1
    assert not [action for action in cluster.told(AssignJobs) if action.ahead]


def test_quick_classes_of_one_priority_are_both_sent_ahead():
    cluster = Cluster(Cores(4) & Resource("lic", 4))
    cluster.function(1, known_s=0.001)
    for _ in range(100):
        cluster.submit(Cores(1), 0.001)
        cluster.submit(Cores(1) & Resource("lic", 1), 0.001)
    assert {action.cls for action in cluster.told(AssignJobs) if action.ahead} == {1, 2}
    assert not cluster.told(RetractJobs)


def test_a_reservation_goes_over_to_a_job_that_goes_first():
    """One device, and a queue for it: each of its jobs asks for all of it, and so takes the reservation in turn."""
    cluster = Cluster(Cores(4) & Resource("device", 1))
    cluster.function(1)
    cluster.submit(Resource("device", 1), 1, n=20)
    cluster.submit(Cores(1), 0.7, n=4)
    wide = cluster.submit(Cores(4), 1, priority=1)

    def stream():
        if len(cluster.length) < 100:
            cluster.submit(Cores(1), 0.7)

    cluster.run(until=30, arrivals=stream)
    assert cluster.begun[wide] <= 1.4


def test_a_job_that_waited_long_gets_a_reservation_beside_those_of_jobs_that_go_first():
    """The jobs of the queue for the device all go before the wide one, and hold the reservation while they wait."""
    cluster = Cluster(Cores(4) & Resource("device", 1))
    cluster.function(1)
    cluster.submit(Resource("device", 1), 0.2, n=500)
    cluster.submit(Cores(1), 0.15, n=4)
    wide = cluster.submit(Cores(4), 1)

    def stream():
        if len(cluster.length) < 1500:
            cluster.submit(Cores(1), 0.1 + 0.01 * (len(cluster.length) % 7))

    cluster.run(until=60, arrivals=stream)
    assert PATIENCE_S <= cluster.begun[wide] <= PATIENCE_S + 0.5


@pytest.mark.parametrize("few", [64, 1], ids=["few classes", "many classes"])
def test_room_kept_for_a_job_that_starts_elsewhere_is_given_to_those_whose_turn_was_before(few, monkeypatch):
    """The other client goes first and finds the room kept; a moment later in the same pass, it is not any more."""
    for module in ("planning._waiting", "planning._planner"):
        monkeypatch.setattr(f"grainlike.scheduler.{module}.FEW", few)
    cluster = Cluster(Cores(2) & Resource("device", 1))
    cluster.function(1)
    cluster.submit(Cores(1), 10)
    wide = cluster.submit(Cores(2), 1)
    other = cluster.submit(Cores(1) & Resource("device", 1), 1, client=1)
    assert other not in cluster.begun
    assert cluster.head._planner.waiting.are_few == (few > 1)
    cluster.join(Cores(2))
    assert cluster.started_on[wide] == 2
    if other not in cluster.begun:
        assert cluster.told(WakeAt)[-1] == WakeAt(cluster.now)
        cluster.tell(Ticked())
    assert cluster.started_on[other] == 1


def test_a_job_handed_back_by_the_last_worker_waits_for_another():
    """A worker that was asked to stop first says so, then hands back its jobs, and goes a moment later."""
    cluster = Cluster(Cores(2))
    cluster.function(1)
    job = cluster.submit(Cores(1), 1)
    cluster.tell(WorkerLeaving(1))
    held = cluster.head.jobs[job]
    cluster.finish(job, 1, held.shape.id, held.attempt, Code.STOPPED)
    assert not cluster.told(JobsPending)
    cluster.now = NOBODY_S
    cluster.tell(Ticked())
    (warning,) = cluster.told(JobsPending)
    assert "no worker has cores" in str(warning.missing)


def test_a_worker_that_leaves_is_not_the_nearest():
    cluster = Cluster(Cores(4), Cores(2))
    cluster.function(1)
    cluster.tell(WorkerLeaving(1))
    cluster.submit(Cores(4), 1)
    (warning,) = cluster.told(JobsPending)
    assert warning.missing.nearest == "n2"


def test_a_cancelled_job_does_not_cost_a_look_at_all_that_was_sent_ahead(monkeypatch):
    """Each of them lets another job come to the front of the queue, for whose sake others might have to make way."""
    looks = []
    goes_first = _ahead._goes_first
    monkeypatch.setattr(_ahead, "_goes_first", lambda *of: looks.append(of) or goes_first(*of))
    cluster = Cluster(Cores(4))
    cluster.function(1, known_s=0.0001)
    jobs = cluster.submit(Cores(1), 0.0001, n=2000)
    waiting = [job for job in jobs if cluster.head.jobs[job].state is JobState.QUEUED]
    assert len(jobs) - len(waiting) > 500
    for job in waiting[:20]:
        cluster.tell(JobsCancelled([job]))
    assert len(looks) < 100


def test_a_lease_that_begins_as_planned_changes_no_free_amount_and_costs_no_pass(monkeypatch):
    passes = []
    plan = Planner.plan

    def counting(self, now, out, **more):
        passes.append(now)
        plan(self, now, out, **more)

    monkeypatch.setattr(Planner, "plan", counting)
    scheduler = HeadScheduler(closed=True)
    scheduler.handle(FunctionDefined(1), 0.0)
    scheduler.handle(WorkerJoined(1, "n1", Cores([0, 1])), 0.0)
    (assigned, *_) = scheduler.handle(JobsSubmitted(Cores(1), [1, 2], [1, 1]), 0.0)
    assert isinstance(assigned, AssignJobs)
    before, version = len(passes), scheduler.workers[1].version
    starts = [LeaseStart(number, assigned.cls, f"cores=[{number - 1}]", [number], [1], 0.0) for number in (1, 2)]
    scheduler.handle(WorkerReported(1, starts, [], []), 0.0)
    scheduler.check()
    assert scheduler.workers[1].version == version
    assert len(passes) == before
    assert sorted(scheduler.workers[1].leases) == [1, 2]
    scheduler.handle(WorkerReported(1, [], [], [1]), 1.0)
    assert len(passes) == before + 1
