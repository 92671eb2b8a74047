"""Gangs in the head's scheduler: all of a gang's workers or none, nobody starves, and nothing stays held for nobody."""

from __future__ import annotations

from collections import deque

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Limit, Memory, Nodes, Rate, Token, WallTime
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    JobsCancelled,
    JobsLost,
    JobsPending,
    JobsSettled,
    JobsStarted,
    JobsUnsatisfiable,
    Ticked,
    WakeAt,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
)
from grainlike.wire import Code, Completed, LeaseStart

PAIR = Nodes(2, each=Cores(2))


def ended(lease, job, attempt, code):
    return Completed(lease, [job], [attempt], [int(code)], [0.0], [0.0], [0.0], [0], [b""], [], 0.0)


class GangCluster(Cluster):
    """Workers that also hold what they are asked to; with `answering` off, when the test says so."""

    def __init__(self, *offers, answering=True, **options):
        self.answering = answering
        self.held, self.unanswered, self._events, self._lease = {}, [], deque(), 10**6
        super().__init__(*offers, **options)

    def tell(self, event):
        self._events.append(event)
        if len(self._events) > 1:
            return
        while self._events:
            for action in self.head.handle(self._events[0], self.now):
                self.actions.append(action)
                self._obey(action)
            self.head.check()
            self._events.popleft()

    def _obey(self, action):
        match action:
            case AssembleGang():
                self.unanswered += [(worker, action.cls, action.job, action.attempt) for worker in action.workers]
                while self.answering and self.unanswered:
                    self.answer(self.unanswered[0][0])
            case CancelJobs():
                for job, attempt in zip(action.jobs, action.attempts, strict=True):
                    self._release(action.worker, job, attempt)
            case AssignJobs() if not action.ahead:
                for job, attempt in zip(action.jobs, action.attempts, strict=True):
                    self._start(action.worker, action.cls, job, attempt)
            case _:
                pass

    def answer(self, worker):
        """A worker grants the oldest hold that it was asked for."""
        asked = next(asked for asked in self.unanswered if asked[0] == worker)
        self.unanswered.remove(asked)
        _, cls, job, attempt = asked
        self._use(worker, cls, 1)
        self._lease += 1
        self.held[worker, job, attempt] = self._lease, cls
        slots = f"cores=[{worker}]"
        self.tell(WorkerReported(worker, [LeaseStart(self._lease, cls, slots, [job], [attempt], self.now)], [], []))

    def _release(self, worker, job, attempt):
        asked = [found for found in self.unanswered if found[0] == worker and found[2:] == (job, attempt)]
        self.unanswered = [found for found in self.unanswered if found not in asked]
        lease, cls = self.held.pop((worker, job, attempt), (0, 0))
        if lease:
            self._use(worker, cls, -1)
        if lease or asked:
            self.tell(WorkerReported(worker, [], [ended(lease, job, attempt, Code.CANCELLED)], [lease] * bool(lease)))

    def _use(self, worker, cls, sign):
        for name, amount in self.head.shapes[cls].units:
            self.free_at_work[worker][name] -= sign * amount
            assert self.free_at_work[worker][name] >= 0, f"{name} of n{worker} is over-allocated"

    def _start(self, worker, cls, job, attempt):
        self.leading = getattr(self, "leading", {})
        if (worker, job, attempt) in self.held:
            lease, _ = self.leading[job, attempt] = self.held.pop((worker, job, attempt))
            self._use(worker, cls, -1)
            self.tell(WorkerReported(worker, [LeaseStart(lease, cls, "", [job], [attempt], self.now)], [], []))
        super()._start(worker, cls, job, attempt)

    def finish(self, job, worker, cls, attempt, code=Code.SUCCEEDED):
        if (job, attempt) not in self.leading:
            super().finish(job, worker, cls, attempt, code)
            return
        self.ended[job] = self.now
        self._use(worker, cls, -1)
        lease, _ = self.leading.pop((job, attempt))
        self.tell(WorkerReported(worker, [], [ended(lease, job, attempt, code)], [lease]))

    def lose(self, worker):
        self.held = {key: value for key, value in self.held.items() if key[0] != worker}
        self.unanswered = [asked for asked in self.unanswered if asked[0] != worker]
        self.tell(WorkerLost(worker, "its connection is gone"))

    def end(self, job, code=Code.SUCCEEDED):
        _, _, worker, cls, attempt = self.take_running(job)
        self.finish(job, worker, cls, attempt, code)

    def is_idle(self):
        return not self.held and all(worker.free == worker.capacity for worker in self.head.workers.values())


def cluster_of(*offers, **options):
    cluster = GangCluster(*offers, **options)
    cluster.function(1)
    return cluster


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


# --- losses ----------------------------------------------------------------------------------------------------------


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


# --- why it waits ----------------------------------------------------------------------------------------------------


def test_explain_says_which_workers_would_take_part_and_how_many_are_missing():
    cluster = cluster_of(*[Cores(4)] * 3)
    busy = cluster.submit(Cores(3) & WallTime(10), 10)
    gang = cluster.submit(Nodes(3, each=Cores(2)), 1)
    said = cluster.head.explain(gang, cluster.now)
    assert (said.reason, said.nearest, said.members, said.lacking) == ("room", "n1", ("n2", "n3"), 1)
    assert said.holders == (busy,)
    assert said.would_start_with == Nodes(2, each=Cores(2))
    assert str(said) == (
        f"Job {gang} waits for room on 1 worker more: there is room on n2, n3; next is n1, short of cores (asked 2, "
        f"free 1 of 4), held by jobs {busy}. It can start in about 10 s. "
        "It would start now with Nodes(2, each=Cores(2))."
    )


def test_explain_tells_who_has_not_answered_and_where_it_runs():
    cluster = cluster_of(*[Cores(2)] * 3, answering=False)
    gang = cluster.submit(PAIR, 5)
    said = cluster.head.explain(gang, 0.0)
    assert (said.state, said.worker, said.members, said.lacking) == ("planned", "n1", ("n1", "n2"), 2)
    assert str(said) == f"Job {gang} waits for 2 of n1, n2 to hold its slots there."
    for worker in (1, 2):
        cluster.answer(worker)
    said = cluster.head.explain(gang, 0.0)
    assert (said.state, said.lacking) == ("leased", 0)
    assert str(said) == f"Job {gang} runs on n1, n2, attempt 1."
    cluster.submit(Cores(2), 5)
    other = cluster.submit(Nodes(2, each=Cores(1)), 5)
    said = cluster.head.explain(other, 0.0)
    assert (said.members, said.lacking, said.would_start_with) == ((), 2, None)
    assert "waits for room on 2 workers more: there is room on none" in str(said)


def test_explain_names_a_gang_as_the_holder_on_each_of_its_workers():
    cluster = cluster_of(Cores(2), Cores(4))
    gang = cluster.submit(PAIR, 5)
    other = cluster.submit(Cores(3), 5)
    said = cluster.head.explain(other, 0.0)
    assert (said.nearest, said.holders) == ("n2", (gang,))


def test_explain_of_one_that_can_never_run_or_is_kept_waiting():
    cluster = cluster_of(*[Cores(2)] * 2)
    never = cluster.submit(Nodes(3, each=Cores(1)), 1)
    said = cluster.head.explain(never, 0.0)
    assert said.reason == "never"
    assert "it needs 3 workers that can give cores=1; there are 2" in str(said)
    cluster.submit(Cores(1), 10)
    wide = cluster.submit(Nodes(2, each=Cores(2)), 1)
    kept = cluster.submit(Nodes(2, each=Cores(1)), 1)
    said = cluster.head.explain(kept, 0.0)
    assert (said.reason, said.holders) == ("reservation", (wide,))


def test_explain_knows_when_the_last_of_its_workers_is_free():
    cluster = cluster_of(*[Cores(2)] * 2)
    cluster.submit(Cores(2) & WallTime(10), 10)
    cluster.submit(Cores(2) & WallTime(30), 30)
    first, second = cluster.submit(PAIR, 1, n=2)
    assert cluster.head.explain(first, 0.0).starts_in_s == 30
    assert cluster.head.explain(second, 0.0).starts_in_s is None, "nobody knows for how long the first runs"


def test_explain_of_one_for_which_too_few_workers_have_time_left():
    cluster = cluster_of(Cores(2) & WallTime(100), Cores(2))
    cluster.now = 60
    gang = cluster.submit(PAIR & WallTime(50), 1)
    said = cluster.head.explain(gang, 60.0)
    assert (said.reason, said.nearest) == ("walltime", "n2")


def test_explain_of_one_that_too_few_workers_can_lay_out():
    cluster = cluster_of(Cores(2), Cores(2), answering=False)
    job = cluster.submit(PAIR, 5)
    cluster.unanswered.remove((2, 1, job, 1))
    cluster.tell(WorkerReported(2, [], [ended(0, job, 1, Code.UNFIT)], []))
    said = cluster.head.explain(job, 0.0)
    assert (said.reason, said.missing) == ("never", None)
    assert "pack=" in str(said)
