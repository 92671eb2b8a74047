"""Room that is kept for a job: copies for safety leave it alone for as long as the job waits, and no longer."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores, Resource
from grainlike.scheduler import JobsCancelled, ReplicationAsked, WorkerDrained, WorkerStored
from grainlike.wire import Code

LEAF = Cores(1) & Resource("leaf", 1)


class Leaves(Stores):
    """A worker with other values, one with no room, and leaves with 103 MB of which a job uses 40 MB. Another job waits
    for room at the leaves, as its two inputs are 98 MB; the worker with no room has them, or that `with_needed`.
    """

    def __init__(self, *others, leaves=2, with_needed=2):
        super().__init__(1000, 40 if with_needed == 1 else 138)
        for name in "ab"[:leaves]:
            self.join(Cores(2) & Resource("leaf", 2) & Resource(name, 1), store=103 * MB)
        self.needed, self.others, used = self.values(with_needed, 54, 44), self.values(1, *others), self.values(2, 40)
        for number, name in enumerate("ab"[:leaves]):
            self.call(Cores(1) & Resource(name, 1), 10.0 + number, *used)
        self.arrive_all()
        self.old = self.call(LEAF, 1.0, *self.needed)
        self.release(*self.needed)
        assert self.why(self.old)[0] == "store"

    def drain(self):
        self.tell(WorkerDrained(1))
        self.arrive_all()

    def goes_on(self, seconds):
        self.run(self.now + seconds)
        self.arrive_all()

    def elsewhere(self):
        """The other values that are at a leaf."""
        return [value for value in self.others if self.where(value) != [1]]

    def asked_for(self):
        """The values of which copies are asked for, and where."""
        return set(self.head._state.transfers.known)


def test_a_worker_that_drains_leaves_the_room_that_is_kept_for_a_job_and_gives_its_values_away_after():
    world = Leaves(48, 45)
    world.drain()
    assert not world.elsewhere()
    world.goes_on(10.0)
    assert world.started_on.get(world.old) == 3
    world.goes_on(1.0)
    assert world.elsewhere() == world.others
    assert world.released == [1]


def test_heads_of_before_took_it_and_the_job_waited_for_ever():
    world = Leaves(48, 45)
    world.head.decide_as(7)
    world.drain()
    for _ in range(10):
        world.goes_on(10.0)
    assert world.elsewhere() == world.others
    assert world.old not in world.started_on


def test_a_value_with_room_beside_what_is_kept_goes_at_once():
    world = Leaves(48, 4)
    world.drain()
    assert world.elsewhere() == world.others[1:]


def test_what_the_job_needs_itself_gets_the_room_that_is_kept_for_it():
    world = Leaves(48, with_needed=1)
    world.drain()
    assert not any(world.where(value) == [1] for value in world.needed)
    assert not world.elsewhere()
    world.goes_on(10.0)
    assert world.started_on.get(world.old) == 3
    world.goes_on(1.0)
    assert world.elsewhere() == world.others


def test_what_comes_of_it_counts_once_beside_other_values():
    world = Leaves(4, leaves=1, with_needed=1)
    world.tell(WorkerDrained(1))
    assert world.asked_for() == {(world.needed[0], 3), (world.others[0], 3)}


def test_values_on_their_way_have_room_beside_what_is_kept():
    world = Leaves(4, 3, leaves=1)
    first, second = world.others
    world.tell(ReplicationAsked([first], 2))
    world.tell(ReplicationAsked([second], 2))
    assert world.asked_for() == {(first, 3)}


def test_a_replica_that_was_asked_for_waits_too_and_that_is_told():
    world = Leaves(48, leaves=1)
    (value,) = world.others
    world.tell(ReplicationAsked([value], 2))
    assert not world.under_way
    assert world.head.why_few(value) == "its value is 48 MB; n3 has room for 5 MB of it now"
    world.goes_on(10.0)
    world.goes_on(1.0)
    assert world.reached == [value]


def is_cancelled(world):
    world.tell(JobsCancelled([world.old]))


def goes_to_the_other(world):
    world.run(world.now + 10.0)
    assert {(value, 3) for value in world.needed} <= world.asked_for()


@pytest.mark.parametrize("end", [is_cancelled, goes_to_the_other])
def test_values_get_the_room_as_soon_as_it_is_kept_no_longer(end):
    world = Leaves(48)
    world.drain()
    assert not world.elsewhere()
    end(world)
    assert set(world.others) <= {value for value, _ in world.asked_for()}


def test_values_get_the_room_of_workers_that_are_to_get_no_jobs():
    world = Leaves(48)
    world.drain()
    assert not world.asked_for()
    for job in world.submit(LEAF, 1.0, n=2):
        _, _, worker, cls, attempt = world.take_running(job)
        world.finish(job, worker, cls, attempt, Code.UNSTARTED)
    assert {value for value, _ in world.asked_for()} == set(world.others)


class SpareLeaf(Stores):
    """A worker with three values, and a leaf with 200 MB. A job there uses spare replicas of one of them, and of one of
    the second worker, with 122 MB. The leaf keeps room for 98 MB until that job has ended.
    """

    def __init__(self):
        super().__init__(1000, 160)
        self.join(Cores(2) & Resource("leaf", 2), store=200 * MB)
        needed, (own,), (other,) = self.values(2, 54, 44), self.values(1, 60), self.values(2, 62)
        self.others = self.values(1, 50, 50)
        self.call(LEAF, 10.0, own, other)
        self.arrive_all()
        self.old = self.call(LEAF, 1.0, *needed)


@pytest.mark.parametrize(("rules", "has_begun"), [(8, True), (7, False)])
def test_a_replica_that_is_spare_no_more_as_a_worker_drains_takes_no_room_that_is_kept(rules, has_begun):
    world = SpareLeaf()
    world.head.decide_as(rules)
    world.tell(WorkerDrained(1))
    world.arrive_all()
    world.run(20.0)
    world.arrive_all()
    world.run(30.0)
    assert (world.old in world.ended) is has_begun


@pytest.mark.parametrize(("rules", "places"), [(8, 1), (7, 0)])
def test_an_overdraft_is_paid_back_with_room_that_was_kept_for_a_job_which_has_ended(rules, places):
    world = Leaves(48, with_needed=1)
    world.head.decide_as(rules)
    world.goes_on(10.0)
    world.goes_on(1.0)
    assert world.old in world.ended
    world.tell(WorkerStored(1, 10 * MB))
    assert len(world.asked_for()) == places
