"""Consumers first: at workers whose stores are nearly full, jobs that free nothing wait for those that do."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Limit, Resource
from grainlike.scheduler import (
    AssignJobs,
    JobsSubmitted,
    ReplicasGone,
    ValuesReleased,
    WorkerReported,
    WorkerStored,
    WorkerSuspected,
)
from grainlike.wire import LeaseStart, LeaseWait, Wait


class Crowded(ValueCluster):
    """A worker with two cores and a store of 100 MB, and others with plenty."""

    def __init__(self, *others, cores=2):
        super().__init__(has_data=True)
        self.join(Cores(cores) & Resource("here", 9), store=100 * MB)
        self.function(1)
        self.function(9)
        for offer in others:
            self.join(offer, store=10_000 * MB)

    def join(self, offer, **known):
        self.stores[len(self.free_at_work) + 1] = set()
        super(ValueCluster, self).join(offer, **{"has_data": True, **known})

    def filled(self, *megabytes):
        """Return values of these sizes at the first worker."""
        found = []
        for size in megabytes:
            found.append(self.call(Cores(1) & Resource("here", 1), 0.0, fn=9, size=size * MB))
            self.run(self.now)
        assert {worker for value in found for worker in self.where(value)} <= {1}
        return found

    def gone(self, worker, value):
        self.stores[worker].discard((value, 1))
        self.tell(ReplicasGone(worker, [value], [1]))

    def start_lease(self, job, worker, cls, attempt):
        """Let the head hear that a job has begun."""
        self.tell(WorkerReported(worker, [LeaseStart(job, cls, "", [job], [attempt], self.now)], [], []))

    def told_assignments(self):
        return self.told(AssignJobs)

    def why(self, job):
        return self.head.explain(job, self.now)


def test_beyond_four_fifths_a_job_that_frees_nothing_waits_while_a_consumer_runs():
    world = Crowded()
    (value, _) = world.filled(40, 41)
    consumer = world.call(Cores(1), 5.0, value)
    other = world.submit(Cores(1), 1.0)
    assert consumer in world.begun
    assert other not in world.begun
    assert world.why(other).reason == "store"
    assert world.why(other).why == "n1 has little left for values, and jobs go first whose ends free some"
    world.run()
    assert world.begun[other] == 5.0


def test_at_four_fifths_it_does_not():
    world = Crowded()
    (value, _) = world.filled(40, 40)
    world.call(Cores(1), 5.0, value)
    other = world.submit(Cores(1), 1.0)
    assert other in world.begun


def test_an_older_job_that_frees_nothing_waits_for_a_younger_consumer():
    world = Crowded(cores=1)
    values = world.filled(40, 41)
    world.submit(Cores(1), 1.0)
    old = world.submit(Cores(1), 1.0)
    consumer = world.call(Cores(1), 1.0, *values)
    world.run()
    assert world.begun[consumer] < world.begun[old]


def test_where_no_consumer_runs_or_can_start_the_others_go_on():
    world = Crowded()
    (value, _) = world.filled(40, 41)
    wide = world.call(Cores(2) & Limit("one", 1), 5.0, value)
    held = world.submit(Cores(1) & Limit("one", 1), 1.0)
    other = world.submit(Cores(1), 1.0)
    assert wide in world.begun
    world.run()
    assert world.ended.keys() >= {wide, held, other}


def test_a_consumer_that_waits_for_a_limit_holds_up_nobody():
    world = Crowded(Cores(1))
    (value, _) = world.filled(40, 41)
    world.submit(Cores(1), 3.0, n=3)
    limit = Limit("one", 1)
    world.run(1.0)
    first = world.submit(Cores(1) & limit, 100.0)
    consumer = world.call(Cores(1) & limit, 1.0, value)
    other = world.submit(Cores(1), 1.0)
    world.run(50.0)
    assert first in world.begun
    assert consumer not in world.begun
    assert other in world.ended


def test_one_that_shares_its_inputs_with_others_is_none():
    world = Crowded()
    (value, _) = world.filled(40, 41)
    readers = world.call(Cores(1), 1.0, value, n=2)
    other = world.submit(Cores(1), 1.0)
    world.run()
    assert world.begun[readers[1]] == 0.0
    assert world.begun[other] == 1.0


def test_elsewhere_jobs_start_as_ever():
    world = Crowded(Cores(1))
    (value, _) = world.filled(40, 41)
    world.call(Cores(1), 5.0, value)
    other = world.submit(Cores(1), 1.0)
    assert world.started_on[other] == 2


def test_jobs_of_a_consumer_that_runs_go_on_and_it_holds_up_nobody_while_it_waits():
    world = Crowded()
    (value, _) = world.filled(40, 41)
    consumer = world.call(Cores(1), 5.0, value)
    _, _, worker, cls, attempt = world.take_running(consumer)
    world.start_lease(consumer, worker, cls, attempt)
    child = next(world._number)
    world.length[child] = 1.0
    world.tell(JobsSubmitted(Cores(1), [child], [1], parent=(consumer, attempt)))
    assert child in world.begun


def test_what_makes_a_lost_value_again_goes_on():
    world = Crowded(Cores(1))
    (value, *_) = world.filled(10, 40, 41)
    world.call(Cores(1), 5.0, world.filled(5)[0])
    busy = world.submit(Cores(1), 100.0)
    assert world.started_on[busy] == 2
    world.now += 1.0
    world.gone(1, value)
    world.call(Cores(1), 1.0, value)
    assert world.revived == [value]
    assert world.begun[value] == world.now


def test_what_waits_for_consumers_keeps_no_worker_from_them():
    world = Crowded()
    (value, other) = world.filled(40, 41)
    world.call(Cores(1), 5.0, value)
    world.submit(Cores(2), 1.0, priority=1)
    world.now += 1.0
    late = world.call(Cores(1), 100.0, other)
    assert world.begun[late] == world.now


def test_a_consumer_whose_inputs_are_on_their_way_is_waited_for():
    world = Crowded(Cores(1))
    (value, _) = world.filled(40, 41)
    away = world.call(Cores(1), 0.0, size=5 * MB)
    world.run(world.now)
    assert world.where(away) == [2]
    world.submit(Cores(1), 100.0)
    consumer = world.call(Cores(1), 1.0, value, away)
    assert set(world.under_way) == {(away, 1)}
    other = world.submit(Cores(1), 1.0)
    assert other not in world.begun
    world.arrive_all()
    assert consumer in world.begun


def test_a_consumer_that_waits_for_jobs_of_its_own_holds_up_nobody():
    world = Crowded(cores=3)
    (value, _) = world.filled(40, 41)
    consumer = world.call(Cores(1), 5.0, value)
    _, _, worker, cls, attempt = world.take_running(consumer)
    world.start_lease(consumer, worker, cls, attempt)
    other = world.submit(Cores(1), 1.0)
    assert other not in world.begun
    child = next(world._number)
    world.length[child] = 1.0
    world.tell(JobsSubmitted(Cores(1), [child], [1], parent=(consumer, attempt)))
    waits = LeaseWait(consumer, consumer, attempt, int(Wait.CHILDREN), 0, True, "")
    world.tell(WorkerReported(worker, [], [], [], [waits]))
    assert other in world.begun


def test_nothing_is_sent_ahead_to_a_crowded_worker_but_consumers():
    world = Crowded(cores=1)
    world.function(2, known_s=0.01)
    (value, _) = world.filled(40, 41)
    world.call(Cores(1), 0.01, value, fn=2)
    world.submit(Cores(1), 0.01, fn=2, n=5)
    assert not any(action.ahead for action in world.told_assignments())


def test_a_disk_that_is_given_up_may_crowd_a_worker():
    world = Crowded()
    world.head.workers[1].store = 60 * MB, 60 * MB
    (value,) = world.filled(50)
    assert not world.head.workers[1].crowded
    world.tell(WorkerStored(1, 0, lost=True))
    assert world.head.workers[1].crowded
    world.release(value)
    assert not world.head.workers[1].crowded


# --- what jobs give --------------------------------------------------------------------------------------------------


def full_and(*others):
    """A first worker with 95 of 100 MB, of which a job of function 2 gave 30, and others."""
    world = Crowded(*others)
    world.function(2)
    world.filled(65)
    world.call(Cores(1) & Resource("here", 1), 0.0, fn=2, size=30 * MB)
    world.run(world.now)
    return world


def test_what_gives_more_than_a_full_worker_has_room_for_starts_at_one_with_room():
    world = full_and(Cores(1))
    first, second = world.call(Cores(1), 5.0, fn=2, size=30 * MB, n=2)
    assert world.started_on[first] == 2
    assert second not in world.begun  # though the first worker has two cores
    assert world.why(second).reason == "store"
    assert world.why(second).why == "its function gave 30 MB, for which n1 has no room; n2 has"
    world.run(5.0)
    assert world.started_on[second] == 2


def test_what_gives_little_or_is_not_known_starts_at_a_full_worker():
    world = full_and(Cores(1))
    world.function(3)
    world.call(Cores(1), 0.0, fn=3, size=5 * MB)
    world.run(world.now)
    world.submit(Cores(1), 50.0, fn=2)
    jobs = [world.submit(Cores(1), 5.0, fn=fn) for fn in (1, 3)]
    assert [world.started_on[job] for job in jobs] == [1, 1]


def test_it_starts_at_a_full_worker_where_no_other_has_room_or_could_run_it():
    world = full_and()
    assert world.started_on[world.submit(Cores(1), 5.0, fn=2)] == 1
    world = full_and(Cores(1))
    assert world.started_on[world.submit(Cores(1) & Resource("here", 1), 5.0, fn=2)] == 1
    world = full_and(Cores(1))
    world.tell(WorkerSuspected(2, broke=False))
    assert world.started_on[world.submit(Cores(1), 5.0, fn=2)] == 1


@pytest.mark.parametrize("ends", ["the other worker", "a value"])
def test_it_starts_at_the_full_worker_once_the_one_with_room_is_gone_or_a_value_is(ends):
    world = full_and(Cores(1))
    running, waiting = world.submit(Cores(1), 50.0, fn=2, n=2)
    assert (world.started_on[running], waiting in world.begun) == (2, False)
    if ends == "a value":
        world.tell(ValuesReleased([1]))
    else:
        world.lose(2)
    assert world.started_on[waiting] == 1


def test_what_frees_a_value_starts_there_whatever_it_gives():
    world = full_and(Cores(1))
    job = world.call(Cores(1), 5.0, 1, fn=2, size=30 * MB)
    assert world.started_on[job] == 1
