"""Jobs on their way to their inputs, or waiting for these: others do not wait behind them for long."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Resource
from grainlike.scheduler import JobsSubmitted, JobState, Ticked
from grainlike.scheduler.values._rooms import LOOKED_AT_MOST

ONLY_2 = Cores(2)
"""Only the second worker could run this."""


@pytest.fixture
def world():
    made = ValueCluster(Cores(1), Cores(2), has_data=True)
    made.function(1)
    return made


@pytest.fixture
def first(world):
    """A value at the first worker."""
    return a_value(world, Cores(1), 20 * MB)


@pytest.fixture
def second(world):
    """A value at the second one."""
    return a_value(world, ONLY_2, 50 * MB)


def a_value(world, request, size):
    job = world.call(request, 0.0, size=size)
    world.run(world.now)
    return job


def resting(world, *inputs):
    """A job that is older than all others, and of which an input could not be copied to the second worker."""
    job = world.call(ONLY_2, 1.0, *inputs)
    world.fail(inputs[0], 2)
    assert not world.under_way
    return job


def test_a_job_that_has_its_inputs_starts_while_those_of_an_older_one_rest(world, first, second):
    old = resting(world, first, second)
    young = world.call(ONLY_2, 1.0, second)
    assert world.started_on[young] == 2
    assert old not in world.started_on


def test_heads_of_before_let_it_wait(world, first, second):
    world.head.decide_as(6)
    resting(world, first, second)
    young = world.call(ONLY_2, 1.0, second)
    assert young not in world.started_on


def test_it_is_told_when_they_are_tried_again(world, first, second):
    old = resting(world, first, second)
    told = str(world.head.explain(old, world.now))
    assert f"Job {old} waits for inputs that could not be copied to n2: tried again in 1.0 s." in told


def test_all_such_jobs_go_on_when_the_pair_has_rested_even_if_nothing_else_happens(world, first, second):
    old = resting(world, first, second)
    others = world.call(ONLY_2, 1.0, first, second, n=LOOKED_AT_MOST + 5)
    rooms = world.head._state.transfers.rooms
    assert rooms.parked.keys() == {old, *others}
    while (at := world.head.wakes_at) is not None:
        world.now = at
        world.tell(Ticked())
    assert list(world.under_way) == [(first, 2)]
    assert not rooms.parked
    world.arrive(first, 2)
    assert world.started_on[old] == 2


# --- how many are on their way ----------------------------------------------------------------------------------------


@pytest.fixture
def leaf():
    """A worker with all values, and one with two cores that alone can run the jobs of a test."""
    made = ValueCluster(Cores(1), Cores(2) & Resource("leaf", 2), has_data=True)
    made.function(1)
    made.function(2)
    return made


ON_LEAF = Cores(1) & Resource("leaf", 1)


def on_their_way(world, jobs):
    return [job for job in jobs if world.head.jobs[job].state is JobState.MOVING]


@pytest.mark.parametrize("apart", [False, True])
def test_no_more_jobs_go_to_an_idle_worker_than_fit_there_and_one_a_slot_beyond(leaf, apart):
    there = a_value(leaf, ON_LEAF, 50 * MB)
    missing = [a_value(leaf, Cores(1), 20 * MB) for _ in range(10 if apart else 1)]
    jobs = [leaf.call(ON_LEAF, 1.0, there, missing[at % len(missing)], fn=2) for at in range(10)]
    assert on_their_way(leaf, jobs) == jobs[:4]
    for _ in jobs:
        leaf.arrive_all()
        leaf.run()
    assert leaf.ended.keys() >= set(jobs)


def test_heads_of_before_send_all_that_fit_one_by_one(leaf):
    leaf.head.decide_as(6)
    there, missing = a_value(leaf, ON_LEAF, 50 * MB), a_value(leaf, Cores(1), 20 * MB)
    jobs = [leaf.call(ON_LEAF, 1.0, there, missing, fn=2) for _ in range(10)]
    assert on_their_way(leaf, jobs) == jobs


def test_an_older_job_goes_there_whatever_younger_ones_claim(leaf):
    there = a_value(leaf, ON_LEAF, 50 * MB)
    first, *missing = [a_value(leaf, Cores(1), 20 * MB) for _ in range(5)]
    young = [leaf.call(ON_LEAF, 1.0, there, value, fn=2) for value in missing]
    assert on_their_way(leaf, young) == young
    old = 1000
    leaf.length[old], leaf.inputs[old] = 1.0, (there, first)
    leaf.tell(JobsSubmitted(ON_LEAF, [old], [2], ages=[1], inputs=((there, first),)))
    assert on_their_way(leaf, [old]) == [old]
