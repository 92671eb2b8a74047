"""Jobs that wait for a worker whose values exceed its store, where nothing can pay that back."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores
from grainlike.scheduler import OverdraftUnpaid, Ticked, WorkerStored
from grainlike.scheduler.values._overdrafts import PAYBACK_S


class Overdrawn(Stores):
    """The first worker has `large` and `kept`, 10 MB beyond its store; the second one is full, and has `small`."""

    def __init__(self):
        super().__init__(100, 30)
        (self.large,), (self.kept,) = self.values(1, 80), self.values(1, 30)
        (self.small,), _ = self.values(2, 10), self.values(2, 20)
        self.tell(WorkerStored(1, 10 * MB))

    def wait(self, seconds):
        self.now += seconds
        self.tell(Ticked())

    @property
    def unpaid(self):
        return [job for action in self.told(OverdraftUnpaid) for job in action.jobs]


@pytest.fixture
def world():
    return Overdrawn()


def test_a_job_that_waits_for_an_overdraft_is_given_up_after_a_while_with_what_is_missing(world):
    job = world.call(Cores(1), 1.0, world.large, world.small)
    world.wait(PAYBACK_S - 0.5)
    assert not world.unpaid
    world.wait(0.5)
    (found,) = world.told(OverdraftUnpaid)
    assert found == OverdraftUnpaid(
        [job],
        "its inputs are 90 MB, of which n1 lacks 10 MB;"
        " n1 keeps 10 MB more than it has room for, and nothing can pay that back",
    )
    assert job not in world.head.jobs
    assert not world.under_way


def test_the_youngest_job_is_given_up_whose_end_pays_it_back_and_the_others_go_on(world):
    others = world.call(Cores(1), 1.0, world.large, world.small, n=2)
    last = world.call(Cores(1), 1.0, world.kept, world.small)
    world.release(world.kept)
    world.wait(PAYBACK_S)
    assert world.unpaid == [last]
    world.tell(WorkerStored(1, 0))
    world.arrive_all()
    world.run(100.0)
    assert set(others) <= world.ended.keys()
    assert world.unpaid == [last]


def test_no_job_is_given_up_while_one_computes_that_may_free_room(world):
    world.call(Cores(1), 100.0, world.kept)
    world.call(Cores(1), 1.0, world.large, world.small)
    world.wait(PAYBACK_S)
    world.wait(PAYBACK_S)
    assert not world.unpaid


def test_a_job_that_goes_on_because_room_was_freed_is_not_given_up(world):
    job = world.call(Cores(1), 1.0, world.large, world.small)
    world.wait(PAYBACK_S - 0.5)
    world.release(world.kept)
    world.tell(WorkerStored(1, 0))
    world.wait(0.5)
    world.arrive_all()
    world.run(100.0)
    assert job in world.ended
    assert not world.unpaid


def test_by_the_rule_of_earlier_journals_it_waits_for_ever(world):
    world.head.give_up_unpaid(gives_up=False)
    job = world.call(Cores(1), 1.0, world.large, world.small)
    for _ in range(4):
        world.wait(PAYBACK_S)
    assert not world.unpaid
    assert job in world.head.jobs
