"""Jobs whose inputs cannot be copied for now, as the last copy failed: others do not wait behind them."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores
from grainlike.scheduler import Ticked
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
