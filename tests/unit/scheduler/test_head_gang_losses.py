"""Workers of a gang that are lost or leave, before all have answered and after: nothing runs twice or stays held."""

from __future__ import annotations

import pytest
from gang_cluster import PAIR, cluster_of, ended

from grainlike.resources import Cores, Nodes
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    JobsCancelled,
    JobsLost,
    JobsSettled,
    Ticked,
    WakeAt,
    WorkerLeaving,
    WorkerReported,
)
from grainlike.wire import Code


def test_a_worker_that_is_lost_before_all_have_answered_costs_nothing_but_an_attempt():
    cluster = cluster_of(*[Cores(2)] * 3, answering=False)
    job = cluster.submit(PAIR, 5)
    cluster.answer(1)
    cluster.lose(2)
    first, second = cluster.told(AssembleGang)
    assert (first.workers, first.attempt) == ([1, 2], 1)
    assert second.attempt == 2
    assert 2 not in second.workers
    for worker in second.workers:
        cluster.answer(worker)
    cluster.run()
    assert set(cluster.ended) == {job}
    assert cluster.is_idle()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_worker_that_is_lost_later_ends_the_attempt(lost):
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    if lost == 1:
        cluster.take_running(job)
        cluster.leading.clear()
    cluster.lose(lost)
    told = [(action.worker, action.jobs) for action in cluster.told(CancelJobs)]
    assert told == [(3 - lost, [job])]  # the leader is stopped, or the other lets go
    if lost == 2:
        assert cluster.head.jobs[job].attempt == 1  # not before it has ended
        cluster.end(job, Code.CANCELLED)
    assert cluster.head.jobs[job].attempt == 2
    assert cluster.head.jobs[job].losses == 1
    assert cluster.is_idle()
    cluster.join(Cores(2))
    cluster.run()
    assert cluster.told(AssembleGang)[-1].attempt == 2
    assert not cluster.head.jobs


def test_a_value_that_was_there_before_the_stop_counts():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    cluster.lose(2)
    cluster.end(job)
    assert [action.completed.jobs for action in cluster.told(JobsSettled)] == [[job]]
    assert cluster.is_idle()


def test_after_three_losses_it_is_given_up():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    for worker in (2, 3, 4):
        cluster.lose(worker)
        cluster.end(job, Code.FAILED)  # what it raised because the other was gone
        cluster.join(Cores(2))
    (lost,) = cluster.told(JobsLost)
    assert (lost.jobs, lost.losses, lost.reason) == ([job], 3, "its connection is gone")
    assert not cluster.told(JobsSettled)
    assert cluster.is_idle()


def test_one_that_is_cancelled_while_it_is_stopped_for_a_loss_is_gone():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    cluster.lose(2)
    cluster.tell(JobsCancelled([job]))
    cluster.end(job, Code.CANCELLED)
    assert not cluster.head.jobs
    after = cluster.submit(Cores(2), 5)
    cluster.tell(JobsCancelled([after]))
    assert [action.jobs for action in cluster.told(CancelJobs)] == [[job], [job], [after]]


def test_one_that_loses_all_its_workers_is_stopped_once():
    cluster = cluster_of(*[Cores(2)] * 3)
    job = cluster.submit(Nodes(3, each=Cores(2)), 5)
    cluster.lose(2)
    cluster.lose(3)
    assert [action.jobs for action in cluster.told(CancelJobs)] == [[job]]
    cluster.end(job, Code.CANCELLED)
    assert cluster.head.jobs[job].losses == 1


def test_one_that_was_cancelled_is_not_stopped_again_for_a_loss():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    cluster.tell(JobsCancelled([job]))
    cluster.lose(2)
    assert [action.worker for action in cluster.told(CancelJobs)] == [1]


def test_a_leader_that_is_lost_before_all_have_answered_is_told_nothing():
    cluster = cluster_of(*[Cores(2)] * 2, answering=False)
    cluster.submit(PAIR, 5)
    cluster.lose(1)
    assert [action.worker for action in cluster.told(CancelJobs)] == [2]


def test_a_leader_that_hands_its_job_back_costs_an_attempt_so_that_answers_are_told_apart():
    cluster = cluster_of(Cores(2), Cores(2))
    job = cluster.submit(PAIR, 5)
    cluster.end(job, Code.RETURNED)
    assert [action.attempt for action in cluster.told(AssembleGang)] == [1, 2]
    cluster.run()
    assert not cluster.head.jobs


def test_a_late_answer_to_an_earlier_attempt_does_not_start_the_job_twice():
    cluster = cluster_of(*[Cores(2)] * 3, answering=False)
    job = cluster.submit(PAIR, 5)
    late = cluster.unanswered.pop()
    assert late[0] == 2
    cluster.lose(1)  # the other was not heard to let go yet
    cluster.join(Cores(2))
    assert cluster.told(AssembleGang)[-1].workers == [3, 4]
    for worker in (3, 4):
        cluster.answer(worker)
    cluster.unanswered.append(late)
    cluster.answer(2)
    assert [action.attempts for action in cluster.told(AssignJobs)] == [[2]]
    cluster._release(2, job, 1)
    cluster.run()
    assert cluster.is_idle()


def test_a_worker_that_stops_breaks_the_gang_without_a_loss_before_it_has_begun():
    cluster = cluster_of(*[Cores(2)] * 3, answering=False)
    job = cluster.submit(PAIR, 5)
    cluster.tell(WorkerLeaving(2))
    cluster.unanswered.remove((2, 1, job, 1))
    cluster.tell(WorkerReported(2, [], [ended(0, job, 1, Code.RETURNED)], []))
    assert 2 not in cluster.told(AssembleGang)[-1].workers
    assert cluster.head.jobs[job].losses == 0


@pytest.mark.parametrize("hangs_up", [False, True])
def test_nor_does_it_after(hangs_up):
    cluster = cluster_of(*[Cores(2)] * 3)
    job = cluster.submit(PAIR, 5)
    cluster.tell(WorkerLeaving(2))
    lease, cls = cluster.held.pop((2, job, 1))
    cluster._use(2, cls, -1)
    if hangs_up:
        cluster.lose(2)
    else:
        cluster.tell(WorkerReported(2, [], [ended(lease, job, 1, Code.RETURNED)], [lease]))
    assert [action.worker for action in cluster.told(CancelJobs)] == [1]
    cluster.end(job, Code.CANCELLED)
    assert (cluster.head.jobs[job].losses, cluster.head.jobs[job].attempt) == (0, 2)
    cluster.run()
    assert cluster.is_idle()


def test_a_worker_that_can_never_lay_it_out_is_not_asked_again():
    cluster = cluster_of(*[Cores(2)] * 3, answering=False)
    job = cluster.submit(Nodes(2, each=Cores(2, pack="numa")), 5)
    cluster.answer(1)
    cluster.unanswered.remove((2, 1, job, 1))
    cluster.tell(WorkerReported(2, [], [ended(0, job, 1, Code.UNFIT)], []))
    assert sorted(cluster.told(AssembleGang)[-1].workers) == [1, 3]
    assert (1, job, 1) not in cluster.held


def test_a_half_assembled_gang_makes_room_for_one_that_goes_first():
    cluster = cluster_of(*[Cores(4)] * 2, answering=False)
    first, second = (cluster.submit(PAIR, 5) for _ in range(2))
    for worker in (1, 2):
        held = next(
            asked for asked in cluster.unanswered if asked[0] == worker and asked[2] == (first, second)[worker - 1]
        )
        cluster.unanswered.remove(held)
        cluster.unanswered.insert(0, held)
        cluster.answer(worker)
    assert not cluster.told(AssignJobs)
    assert WakeAt(5.0) in cluster.actions
    cluster.now = 4.9
    cluster.tell(Ticked())
    assert not cluster.told(CancelJobs)
    cluster.now = 5.0
    cluster.tell(Ticked())
    assert {(action.worker, *action.jobs) for action in cluster.told(CancelJobs)} == {(1, second), (2, second)}
    cluster.answer(2)
    assert cluster.told(AssignJobs)[0].jobs == [first]
    assert cluster.told(AssembleGang)[-1].attempt == 2
