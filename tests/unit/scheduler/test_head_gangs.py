"""Gangs in the head's scheduler: all of a gang's workers or none, nobody starves, and nothing stays held for nobody."""

from __future__ import annotations

import pytest
from gang_cluster import PAIR, cluster_of

from grainlike.resources import Cores, Limit, Memory, Nodes, Rate, Token, WallTime
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    JobsCancelled,
    JobsPending,
    JobsSettled,
    JobsStarted,
    JobsUnsatisfiable,
    Ticked,
    WorkerLeaving,
    WorkerLost,
)
from grainlike.wire import Code


def test_a_gang_is_asked_for_on_different_workers_at_once_and_starts_when_all_have_answered():
    cluster = cluster_of(Cores(4), Cores(2), Cores(2), answering=False)
    job = cluster.submit(PAIR, 5)
    (asked,) = cluster.told(AssembleGang)
    assert asked.workers == [2, 3]  # the tightest fit, and only two
    cluster.answer(3)
    assert not cluster.told(AssignJobs)
    assert not cluster.told(JobsStarted)
    cluster.answer(2)
    (assigned,) = cluster.told(AssignJobs)
    assert assigned.worker == 2
    assert assigned.gang == ((2, "cores=[2]"), (3, "cores=[3]"))
    assert [action.start.jobs for action in cluster.told(JobsStarted)] == [[job]]


def test_the_others_let_go_when_the_job_has_ended():
    cluster = cluster_of(Cores(2), Cores(2))
    first, second = cluster.submit(PAIR, 5, n=2)
    cluster.run()
    assert cluster.begun == {first: 0, second: 5}
    assert cluster.is_idle()
    assert [action.worker for action in cluster.told(CancelJobs)] == [2, 2]


@pytest.mark.parametrize("code", [Code.FAILED, Code.TIMED_OUT, Code.CANCELLED])
def test_however_it_ended(code):
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    cluster.end(job, code)
    assert cluster.is_idle()
    assert len(cluster.told(JobsSettled)) == 1


def test_while_one_worker_is_missing_the_others_are_not_taken():
    cluster = cluster_of(Cores(2), Cores(2), Cores(2))
    busy = cluster.submit(Cores(2) & WallTime(10), 10)
    gang = cluster.submit(Nodes(3, each=Cores(1)) & WallTime(60), 5)
    quick = cluster.submit(Cores(2) & WallTime(1), 1)
    assert {busy, quick} <= set(cluster.begun)
    assert not cluster.told(AssembleGang)
    cluster.run()
    assert cluster.begun[gang] == 10


def test_many_gangs_that_want_the_same_workers_all_run():
    cluster = cluster_of(*[Cores(4)] * 5)
    jobs = [cluster.submit(Nodes(2 + at % 4, each=Cores(1 + at % 4)), 1 + at % 3) for at in range(60)]
    cluster.run()
    assert set(cluster.ended) == set(jobs)
    assert cluster.is_idle()


def test_a_gang_starts_although_narrow_jobs_never_stop_coming():
    cluster = cluster_of(*[Cores(2)] * 3)
    cluster.function(1, known_s=1)
    at = iter(range(400))

    def arrivals():
        if next(at, None) is not None:
            cluster.submit(Cores(1), 1.0 + 0.01 * (cluster.now % 7))

    for _ in range(8):
        arrivals()
    gang = cluster.submit(Nodes(3, each=Cores(2)), 1)
    cluster.run(until=20, arrivals=arrivals)
    assert cluster.begun[gang] < 2.5


def test_without_its_reservation_it_would_not(monkeypatch):
    monkeypatch.setattr("grainlike.scheduler.planning._reservations.reserve_on", lambda *_: [])
    with pytest.raises(KeyError):
        test_a_gang_starts_although_narrow_jobs_never_stop_coming()


def test_a_reservation_is_made_on_all_its_workers_and_admits_what_ends_before_the_last_of_them():
    cluster = cluster_of(Cores(2), Cores(2))
    cluster.submit(Cores(2) & WallTime(10), 10)
    cluster.submit(Cores(1) & WallTime(20), 20)
    gang = cluster.submit(Nodes(2, each=Cores(2)), 1)
    reserved = cluster.head._planner.reserving.by_class
    (held,) = reserved.values()
    assert [(claim.worker.id, claim.start) for claim in held] == [(1, 20), (2, 20)]
    early = cluster.submit(Cores(1) & WallTime(19), 19)
    late = cluster.submit(Cores(1) & WallTime(21), 1)
    assert early in cluster.begun
    assert late not in cluster.begun
    cluster.run(until=10)
    long = cluster.submit(Cores(2) & WallTime(9), 9)
    assert long in cluster.begun  # on the first worker, which has to wait for the second
    cluster.run()
    assert cluster.begun[gang] == 20
    assert not reserved


def test_one_that_is_not_wide_is_reserved_for_at_once_too():
    cluster = cluster_of(Cores(4), Cores(4))
    cluster.submit(Cores(4) & WallTime(9), 9)
    gang = cluster.submit(Nodes(2, each=Cores(1)), 1)
    (held,) = cluster.head._planner.reserving.by_class.values()
    assert [claim.job.id for claim in held] == [gang, gang]
    assert {claim.start for claim in held} == {9}


def test_what_may_outlast_it_fits_beside_it_on_each_of_its_workers():
    cluster = cluster_of(Cores(4), Cores(4), Cores(4))
    cluster.submit(Cores(4) & WallTime(10), 10)
    cluster.submit(Cores(2) & WallTime(5), 5)
    cluster.submit(Cores(3) & WallTime(3), 3)
    cluster.submit(Nodes(3, each=Cores(2)), 1)
    (held,) = cluster.head._planner.reserving.by_class.values()
    beside = {claim.worker.id: claim.spare["cores"] // 10**9 for claim in held}
    assert beside == {1: 2, 2: 2, 3: 2}  # all that ends before the last of them can start counts
    pair = cluster.submit(Nodes(2, each=Cores(1)) & WallTime(50), 50)
    assert pair in cluster.begun
    assert sum(claim.spare["cores"] // 10**9 for claim in held) == 4


def test_half_assembled_gangs_count_as_running_for_as_long_as_they_may():
    cluster = cluster_of(Cores(2), Cores(2), answering=False)
    cluster.submit(Nodes(2, each=Cores(1)) & WallTime(10), 5)
    cluster.submit(Cores(2), 1)
    ((claim,),) = cluster.head._planner.reserving.by_class.values()
    assert (claim.start, claim.spare["cores"]) == (10, 0)
    for cluster.now, worker in ((2, 1), (4, 2)):
        cluster.answer(worker)
    assert claim.worker.id == 1
    assert claim.as_of(cluster.now).start == 14  # its time begins when it does


def test_a_half_assembled_gang_counts_once_where_it_leads():
    cluster = cluster_of(Cores(2), Cores(2), answering=False)
    cluster.submit(Nodes(2, each=Cores(1)) & WallTime(10), 5)
    cluster.submit(Cores(1) & WallTime(20), 20)
    cluster.submit(PAIR, 1)
    (held,) = cluster.head._planner.reserving.by_class.values()
    assert [(claim.start, claim.spare["cores"]) for claim in held] == [(20, 0)] * 2


def test_what_was_let_in_beside_a_reservation_counts_on_all_its_workers_at_once():
    cluster = cluster_of(Cores(4), Cores(4), Cores(4))
    for cores, seconds in ((4, 10), (1, 9), (1, 8)):
        cluster.submit(Cores(cores) & WallTime(seconds), seconds, priority=1)
    cluster.submit(Nodes(3, each=Cores(3)), 1)
    fits, waits = cluster.submit(Nodes(2, each=Cores(1)) & WallTime(50) | Cores(1) & WallTime(50), 50, n=2)
    assert fits in cluster.begun
    assert waits not in cluster.begun


@pytest.mark.parametrize("stops", [True, False])
def test_a_reservation_ends_with_the_first_of_its_workers_that_goes(stops):
    cluster = cluster_of(*[Cores(2)] * 4)
    cluster.submit(Cores(2) & WallTime(10), 10, n=4)
    gang = cluster.head.jobs[cluster.submit(PAIR, 1)]
    reserved = cluster.head._planner.reserving.by_class
    gone = reserved[gang.cls.id][0].worker.id
    cluster.tell(WorkerLeaving(gone) if stops else WorkerLost(gone, "gone"))
    after = reserved[gang.cls.id]
    assert len(after) == 2
    assert gone not in [claim.worker.id for claim in after]


def test_one_that_cannot_wait_for_all_its_workers_has_no_reservation():
    cluster = cluster_of(Cores(2) & WallTime(100), Cores(2))
    cluster.submit(Cores(2) & WallTime(60), 60)
    cluster.submit(Nodes(2, each=Cores(2)) & WallTime(50), 1)
    assert not cluster.head._planner.reserving.by_class


def test_a_worker_that_is_kept_for_too_many_gives_up_the_last_of_them_everywhere():
    cluster = cluster_of(Cores(4), Cores(4))
    for _ in range(2):
        cluster.submit(Cores(4), 100)
    gangs = []
    for at in range(6):
        gangs.append(cluster.submit(Nodes(2, each=Cores(4 - at % 4)), 1, priority=at))
        cluster.now += 10
        cluster.tell(Ticked())
    reservations = cluster.head._planner.reserving.by_worker
    for held in reservations.values():
        assert [claim.job.id for claim in held] == gangs[:1:-1]
    cluster.run()
    assert set(gangs) <= set(cluster.ended)


def test_it_is_never_sent_ahead():
    cluster = cluster_of(Cores(1), Cores(1))
    cluster.function(2, known_s=0.001)
    cluster.submit(Nodes(2, each=Cores(1)), 1, fn=2, n=50)
    assert not [action for action in cluster.told(AssignJobs) if action.ahead]


def test_one_that_can_never_start_keeps_nobody_from_being_sent_ahead():
    cluster = cluster_of(Cores(2))
    cluster.function(2, known_s=0.001)
    cluster.submit(Nodes(2, each=Cores(1)), 1, priority=5)
    cluster.submit(Cores(1), 1, fn=2, n=50)
    assert [action for action in cluster.told(AssignJobs) if action.ahead]


def test_limits_and_rates_count_once_for_all_nodes():
    cluster = cluster_of(*[Cores(2)] * 4)
    first, second, third = cluster.submit(Nodes(2, each=Cores(1)) & Limit("db", 2), 5, n=3)
    assert {first, second} == set(cluster.begun)
    cluster.run()
    assert cluster.begun[third] == 5
    assert cluster.head._planner.start_limits.running("db") == 0
    cluster.submit(Nodes(2, each=Cores(1)) & Rate("api", 1), 5, n=2)
    assert len(cluster.told(AssembleGang)) == 4


def test_a_program_is_counted_for_all_its_nodes():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5, client=3)
    assert cluster.head._planner.shares.used(3) == 4 * 10**9
    cluster.end(job)
    assert cluster.head._planner.shares.used(3) == 0


def test_it_may_be_one_side_of_a_choice():
    cluster = cluster_of(Cores(2), Cores(2))
    wide, narrow = cluster.submit(Nodes(2, each=Cores(2)) | Cores(2), 5, n=2)
    assert set(cluster.begun) == {wide}
    cluster.submit(Cores(1), 9, priority=1)
    cluster.end(wide)
    assert cluster.started_on[narrow] == 2  # where one of the two is free, one is enough
    cluster.run()
    assert cluster.is_idle()


def test_tokens_and_times_hold_for_each_node():
    cluster = cluster_of(Cores(2) & Token("ib"), Cores(2), Cores(2) & Token("ib") & WallTime(100))
    cluster.submit(Nodes(2, each=Cores(1) & Token("ib")), 1)
    assert cluster.told(AssembleGang)[0].workers == [1, 3]
    cluster.submit(Nodes(2, each=Cores(1) & Token("ib")) & WallTime(200), 1)
    assert [action.request.walltime for action in cluster.told(JobsPending)] == [200]


# --- cancelling ------------------------------------------------------------------------------------------------------


def test_a_half_assembled_gang_is_gone_at_once_when_it_is_cancelled():
    cluster = cluster_of(Cores(2), Cores(2), answering=False)
    job = cluster.submit(PAIR, 5)
    cluster.answer(2)
    cluster.tell(JobsCancelled([job]))
    assert not cluster.head.jobs
    assert [action.worker for action in cluster.told(CancelJobs)] == [1, 2]
    assert cluster.is_idle()


def test_a_late_answer_of_a_worker_that_was_told_to_let_go_starts_nothing():
    cluster = cluster_of(Cores(2), Cores(2), answering=False)
    job = cluster.submit(PAIR, 5)
    asked = cluster.unanswered
    cluster.unanswered = []  # as if the answers were on their way
    cluster.tell(JobsCancelled([job]))
    cluster.unanswered = asked
    again = cluster.submit(PAIR, 5)
    assert len(cluster.told(AssembleGang)) == 1  # what is on its way may still use the slots
    for worker in (1, 2):
        cluster.answer(worker)
    assert not cluster.told(AssignJobs)
    for worker in (1, 2):
        cluster._release(worker, job, 1)
    assert [action.job for action in cluster.told(AssembleGang)] == [job, again]
    for worker in (1, 2):
        cluster.answer(worker)
    cluster.run()
    assert set(cluster.ended) == {again}
    assert cluster.is_idle()


def test_the_others_hold_their_slots_until_a_cancelled_job_has_ended():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    cluster.tell(JobsCancelled([job]))
    assert [action.worker for action in cluster.told(CancelJobs)] == [1]
    assert (2, job, 1) in cluster.held
    cluster.end(job, Code.CANCELLED)
    assert cluster.is_idle()
    assert not cluster.told(JobsSettled)


# --- what can never run ----------------------------------------------------------------------------------------------


def test_with_too_few_workers_it_is_refused_or_warned_of():
    closed = cluster_of(Cores(4), Cores(2), closed=True)
    closed.submit(Nodes(2, each=Cores(4)), 1)
    (refusal,) = closed.told(JobsUnsatisfiable)
    assert str(refusal.missing).startswith(
        "nodes=2(cores=4) can never be given: it needs 2 workers that can give cores=4; there is 1"
    )
    assert closed.submit(Nodes(2, each=Cores(2)), 1) in closed.begun
    opened = cluster_of(Cores(4))
    late = opened.submit(Nodes(2, each=Cores(4)), 1)
    (warning,) = opened.told(JobsPending)
    assert "there is 1" in str(warning.missing)
    opened.join(Cores(4))
    assert late in opened.begun


def test_in_a_closed_set_the_loss_of_a_worker_may_be_the_end():
    cluster = cluster_of(Cores(2), Cores(2), closed=True)
    job = cluster.submit(PAIR, 5)
    waiting = cluster.submit(PAIR, 5)
    cluster.lose(2)
    assert [action.jobs for action in cluster.told(JobsUnsatisfiable)] == [[waiting]]
    cluster.end(job, Code.CANCELLED)
    assert [action.jobs for action in cluster.told(JobsUnsatisfiable)] == [[waiting], [job]]


def test_one_that_ran_out_of_memory_asks_for_more_on_all_nodes():
    cluster = cluster_of(*[Cores(1) & Memory("8G")] * 2)
    job = cluster.submit(Nodes(2, each=Memory("1G", grow=4)), 1)
    cluster.end(job, Code.OUT_OF_MEMORY)
    shape = cluster.head.shapes[cluster.told(AssembleGang)[-1].cls]
    assert (shape.nodes, str(shape.request)) == (2, "memory=4000000000:grow=4")
