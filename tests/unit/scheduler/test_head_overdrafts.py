"""Jobs that wait for a worker whose values exceed its store, where nothing can pay that back."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores
from grainlike.scheduler import OverdraftUnpaid, Ticked, WorkerStored
from grainlike.scheduler.values._overdrafts import PAYBACK_S


class Overdrawn(Stores):
    """The first worker has `large` and `kept`, 10 MB beyond its store; the second one is full, and has `small`."""

    def __init__(self, second=30):
        super().__init__(100, second)
        (self.large,), (self.kept,) = self.values(1, 80), self.values(1, 30)
        (self.small,), (self.other,) = self.values(2, 10), self.values(2, second - 10)
        self.tell(WorkerStored(1, 10 * MB))

    def wait(self, seconds):
        self.now += seconds
        self.tell(Ticked())

    def call_both(self):
        """Submit a job that needs `large` and one that needs `kept`: without the program, too, nothing can go."""
        return [self.call(Cores(1), 1.0, self.large, self.small), self.call(Cores(1), 1.0, self.kept, self.small)]

    @property
    def unpaid(self):
        return [job for action in self.told(OverdraftUnpaid) for job in action.jobs]


@pytest.fixture
def world():
    return Overdrawn()


def test_a_job_that_waits_for_an_overdraft_is_given_up_after_a_while_with_what_is_missing(world):
    first, last = world.call_both()
    world.wait(PAYBACK_S - 0.5)
    assert not world.unpaid
    world.wait(0.5)
    (found,) = world.told(OverdraftUnpaid)
    assert found == OverdraftUnpaid(
        [last],
        "its inputs are 40 MB, of which n1 lacks 10 MB;"
        " n1 keeps 10 MB more than it has room for, and nothing can pay that back",
    )
    assert last not in world.head.jobs
    assert first in world.head.jobs
    assert not world.under_way


def test_the_youngest_job_is_given_up_whose_end_lets_the_oldest_go_on_and_the_others_go_on(world):
    first, last = world.call_both()
    youngest = world.call(Cores(1), 1.0, world.large, world.small)
    world.release(world.kept)
    world.wait(PAYBACK_S)
    assert world.unpaid == [last]
    world.tell(WorkerStored(1, 0))
    world.arrive_all()
    world.run(100.0)
    assert {first, youngest} <= world.ended.keys()
    assert world.unpaid == [last]


def test_no_job_is_given_up_while_a_program_may_let_go_of_what_no_job_needs(world):
    job = world.call(Cores(1), 1.0, world.large, world.small)
    for _ in range(4):
        world.wait(PAYBACK_S)
    assert not world.unpaid
    assert world.head.wakes_at is None
    world.release(world.kept)
    world.tell(WorkerStored(1, 0))
    world.arrive_all()
    world.run(100.0)
    assert job in world.ended


def test_no_job_is_given_up_while_a_program_may_let_go_of_values_in_whose_place_others_could_move():
    world = Overdrawn(second=60)
    jobs = world.call_both()
    for _ in range(4):
        world.wait(PAYBACK_S)
    assert not world.unpaid
    world.release(world.other)
    world.arrive_all()
    world.gone(1, world.kept)
    world.tell(WorkerStored(1, 0))
    world.arrive_all()
    world.run(100.0)
    assert set(jobs) <= world.ended.keys()


def test_no_job_is_given_up_while_one_computes_that_may_free_room(world):
    waiting = world.call_both()
    running = world.call(Cores(1), 100.0, world.kept)
    assert world.started_on[running] == 1
    assert set(waiting) <= world.head._state.transfers.rooms.parked.keys()
    world.wait(PAYBACK_S)
    world.wait(PAYBACK_S)
    assert not world.unpaid


def test_the_wait_begins_anew_once_the_overdraft_was_paid_back(world):
    world.call_both()
    world.wait(PAYBACK_S - 0.5)
    world.tell(WorkerStored(1, 0))
    world.wait(1.0)
    world.tell(WorkerStored(1, 10 * MB))
    world.wait(PAYBACK_S - 0.5)
    assert not world.unpaid
    world.wait(0.5)
    assert world.unpaid


def test_by_the_rule_of_earlier_journals_it_waits_for_ever(world):
    world.head.decide_as(5)
    jobs = world.call_both()
    for _ in range(4):
        world.wait(PAYBACK_S)
    assert not world.unpaid
    assert set(jobs) <= world.head.jobs.keys()
