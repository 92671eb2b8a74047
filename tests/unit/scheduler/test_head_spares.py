"""Spare replicas: all but those that are kept, as workers are told."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Resource
from grainlike.scheduler import (
    AssignJobs,
    JobsCancelled,
    ReplicasGone,
    ReplicasSpared,
    ReplicationAsked,
    Ticked,
    WorkerDrained,
)


class Spared(ValueCluster):
    """As `ValueCluster`, with the replicas that each worker may give up."""

    def __init__(self, *offers):
        self.spares = {}
        super().__init__(*offers, has_data=True)

    def _note(self, action):
        super()._note(action)
        if isinstance(action, ReplicasSpared):
            here = self.spares.setdefault(action.worker, set())
            for value in action.values:
                assert (value in here) != action.is_spare, "a worker is told what it was told"
                (here.add if action.is_spare else here.discard)(value)

    def spare_at(self, value):
        return sorted(worker for worker, values in self.spares.items() if value in values)


def world_with(count=3):
    world = Spared(*[Cores(1)] * count)
    world.function(1)
    value = world.call(Cores(1), 0.0, size=50 * MB)
    world.run(world.now)
    return world, value


def copy(world, value, worker):
    state = world.head._state
    state.transfers.copy(state.values.values[value], worker)
    world.tell(Ticked())
    world.arrive(value, worker)


def test_the_only_replica_is_not_spare_and_further_ones_are():
    world, value = world_with()
    assert not world.told(ReplicasSpared)
    copy(world, value, 2)
    assert world.spare_at(value) == [2]
    copy(world, value, 3)
    assert world.spare_at(value) == [2, 3]


def test_one_that_is_the_last_is_spare_no_longer():
    world, value = world_with()
    copy(world, value, 2)
    world.lose(1)
    assert world.spare_at(value) == []


def test_one_that_was_given_up_is_gone_and_the_other_stays():
    world, value = world_with()
    copy(world, value, 2)
    world.stores[2].clear()
    world.tell(ReplicasGone(2, [value], [1]))
    assert world.spare_at(value) == [2]  # it has it no more, and need not hear so
    assert world.where(value) == [1]
    copy(world, value, 3)
    assert 3 in world.spare_at(value)


def test_replicas_that_were_asked_for_are_not_spare():
    world, value = world_with()
    copy(world, value, 2)
    world.tell(ReplicationAsked([value], 2))
    assert world.spare_at(value) == []
    copy(world, value, 3)
    assert world.spare_at(value) == [3]


def test_of_several_the_one_at_a_worker_that_leaves_is_spare():
    world, value = world_with()
    copy(world, value, 2)
    world.tell(WorkerDrained(1))
    assert world.spare_at(value) == [1]
    assert world.released == [1]


def at(name):
    return Cores(1) & Resource(name, 1)


@pytest.mark.parametrize("ends", ["starts", "cancelled"])
def test_one_that_was_sent_for_a_job_is_spare_only_once_that_has_started_or_goes(ends):
    """Its worker learns of the job when that starts there, and might give it up before."""
    world = Spared(at("n1"), at("n2"))
    world.function(1)
    first, second = (world.call(at("n1"), 0.0, size=50 * MB) for _ in range(2))
    world.run(world.now)
    job = world.call(at("n2"), 1.0, first, second)
    assert sorted(world.under_way) == [(first, 2), (second, 2)]
    world.arrive(first, 2)
    assert world.spare_at(first) == []  # the job waits for the other one
    if ends == "cancelled":
        world.tell(JobsCancelled([job]))
        assert world.spare_at(first) == [2]
        return
    world.arrive(second, 2)
    assert world.started_on[job] == 2
    assert [world.spare_at(number) for number in (first, second)] == [[2], [2]]
    kinds = [type(action) for action in world.actions]
    assert kinds.index(ReplicasSpared) > max(row for row, kind in enumerate(kinds) if kind is AssignJobs)


def test_one_that_is_spare_already_is_so_no_longer_while_a_job_waits_there():
    world = Spared(at("n1"), at("n2"))
    world.function(1)
    first, second = (world.call(at("n1"), 0.0, size=50 * MB) for _ in range(2))
    world.run(world.now)
    copy(world, first, 2)
    assert world.spare_at(first) == [2]
    jobs = world.call(at("n2"), 1.0, first, second, n=2)
    assert world.spare_at(first) == []
    world.tell(JobsCancelled(jobs[:1]))
    assert world.spare_at(first) == []
    world.tell(JobsCancelled(jobs[1:]))
    assert world.spare_at(first) == [2]
