"""Own values of a program make way at workers without room for two of them: which do, for whom, and when."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores, Resource
from grainlike.scheduler import (
    PROGRAM,
    JobsCancelled,
    OwnValuesAdded,
    OwnValuesLost,
    ReplicasDropped,
    ReplicationAsked,
    Ticked,
    ValuesWanted,
    WakeAt,
)
from grainlike.scheduler.values import _rooms

FIRST, SECOND = 1 << 40, (1 << 40) + 1
CLIENT = -7


class Own(Stores):
    """As `Stores`, with two own values of 60 MB of a program; copies arrive at once."""

    def __init__(self, *megabytes, cores=1, origin=PROGRAM):
        super().__init__(*megabytes, cores=cores)
        self.stores[origin] = set()
        self.add(FIRST, origin)
        self.add(SECOND, origin)

    def add(self, value, origin=PROGRAM, size=60):
        self.stores[origin].add((value, 1))
        self.tell(OwnValuesAdded(origin, [value], [size * MB]))

    def work(self, until):
        """Let time go on, and copies arrive."""
        while self.now < until:
            self.arrive_all()
            self.run(self.now)
            self.later(0.25)

    @property
    def sent(self):
        """The values in the order in which they left their program."""
        return [value for value, source, *_ in self.ways if source < 0]

    @property
    def removed(self):
        return [value for action in self.told(ReplicasDropped) for value in action.values]


@pytest.mark.parametrize("origin", [PROGRAM, CLIENT])
def test_two_that_fit_one_at_a_time_are_used_in_turn(origin):
    world = Own(100, origin=origin)
    for value in (FIRST, SECOND, FIRST):
        job = world.call(Cores(1), 1.0, value)
        world.work(world.now + 5.0)
        assert job in world.ended
        assert world.where(value) == [origin, 1]
    assert world.sent == [FIRST, SECOND, FIRST]
    assert world.removed == [FIRST, SECOND]


def test_none_makes_way_while_there_is_room():
    world = Own(200)
    for value in (FIRST, SECOND, FIRST):
        world.call(Cores(1), 1.0, value)
        world.work(world.now + 5.0)
    assert (world.sent, world.removed) == ([FIRST, SECOND], [])


def test_jobs_that_are_given_in_turns_use_each_value_together():
    world = Own(100)
    jobs = [world.call(Cores(1), 1.0, value) for _ in range(5) for value in (FIRST, SECOND)]
    world.work(20.0)
    assert all(job in world.ended for job in jobs)
    assert world.sent == [FIRST, SECOND]


def test_a_job_is_not_passed_over_for_ever_by_later_jobs_with_the_other_value(monkeypatch):
    monkeypatch.setattr(_rooms, "AHEAD_MOST", 10)
    world = Own(100, cores=2)
    world.call(Cores(1), 1.0, FIRST)
    world.work(0.5)
    second = world.call(Cores(1), 1.0, SECOND)
    later = []
    while second not in world.ended:
        later.append(world.call(Cores(1), 1.0, FIRST))
        world.work(world.now + 0.5)
        assert len(later) < 40
    world.work(world.now + 40.0)
    assert all(job in world.ended for job in later)
    assert world.sent == [FIRST, SECOND, FIRST]


def test_the_job_for_which_one_has_made_way_starts_soon_though_nothing_happens():
    world = Own(100)
    world.call(Cores(1), 1.0, FIRST)
    world.work(2.0)
    world.call(Cores(1), 1.0, SECOND)
    assert world.removed == [FIRST]
    assert not world.under_way
    world.now = world.told(WakeAt)[-1].at
    assert world.now < 2.5
    world.tell(Ticked())
    assert list(world.under_way) == [(SECOND, 1)]


@pytest.mark.parametrize("why", ["it runs", "it is on its way", "asked", "replicated", "lost by its program"])
def test_one_that_is_in_use_makes_no_way(why):
    world = Own(100, cores=2)
    world.call(Cores(1), 50.0 if why == "it runs" else 1.0, FIRST)
    world.work(2.0)
    if why == "asked":
        world.tell(ValuesWanted([FIRST]))
    elif why == "replicated":
        world.tell(ReplicationAsked([FIRST], 2))
    elif why == "lost by its program":
        world.tell(OwnValuesLost([FIRST]))
    elif why == "it is on its way":
        world.join(Cores(1) & Resource("there", 1), store=100 * MB)
        world.call(Cores(1) & Resource("there", 1), 1.0, FIRST)
        assert world.under_way
    there = Cores(1) if why != "it is on its way" else Cores(2)
    job = world.call(there, 1.0, SECOND)
    for _ in range(5):
        world.later(1.0)
    assert job not in world.started_on
    assert (world.where(FIRST), world.removed) == ([PROGRAM, 1], [])
    reason, words = world.why(job)
    assert (reason, "n1 has room for 40 MB of them now" in words) == ("store", True)


def test_only_as_many_make_way_as_have_to_and_the_larger_go_first():
    world = Own(200)
    world.add(SECOND + 1, size=20)
    for value in (FIRST, SECOND, SECOND + 1):
        world.call(Cores(1), 1.0, value)
        world.work(world.now + 5.0)
    world.add(SECOND + 2, size=100)
    job = world.call(Cores(1), 1.0, SECOND + 2)
    world.work(world.now + 5.0)
    assert job in world.ended
    assert world.removed == [FIRST]


def test_a_job_that_cannot_start_anyway_lets_none_make_way():
    world = Own(100)
    world.call(Cores(1), 1.0, FIRST)
    world.work(2.0)
    busy = world.call(Cores(1), 1e6)
    job = world.call(Cores(1), 1.0, SECOND)
    for _ in range(5):
        world.later(1.0)
    assert world.removed == []
    world.tell(JobsCancelled([busy]))
    world.tell(Ticked())
    assert job not in world.ended


def test_values_of_jobs_do_not_make_way():
    world = Own(100)
    (made,) = world.values(1, 60)
    job = world.call(Cores(1), 1.0, FIRST)
    for _ in range(5):
        world.later(1.0)
    assert job not in world.started_on
    assert world.where(made) == [1]
    world.release(made)
    world.work(world.now + 5.0)
    assert job in world.ended
