"""Ways of copies: from data server to data server where these reach one another, else through the head."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores
from grainlike.scheduler import FetchReplicas, FunctionDefined, ReplicasDropped, Ticked


def cluster(count, has_data=True, **options):
    made = ValueCluster(*[Cores(1)] * count, has_data=has_data, **options)
    made.function(1)
    made.tell(FunctionDefined(2, losses=0))
    return made


def a_value(world, size=50 * MB, *, fn=1):
    job = world.call(Cores(1), 0.0, fn=fn, size=size)
    world.run(world.now)
    return job


def later(world, seconds):
    world.now += seconds
    world.tell(Ticked())


def read_elsewhere(world, value):
    """Readers of a value, one more than the workers that have it: it is copied once moving pays."""
    readers = [world.call(Cores(1), 100.0, value) for _ in range(len(world.where(value)) + 1)]
    later(world, 0.6)
    return readers


@pytest.mark.parametrize(("one", "two", "way"), [(1, 1, "direct"), (1, 0, "relayed"), (0, 1, "relayed")])
def test_a_copy_is_direct_where_both_ends_have_a_data_server(one, two, way):
    world = ValueCluster(Cores(1), has_data=bool(one))
    world.function(1)
    world.join(Cores(1), has_data=bool(two))
    value = a_value(world)
    read_elsewhere(world, value)
    assert world.ways == [(value, 1, 2, way)]


def test_a_pair_that_does_not_reach_one_another_is_relayed_for_a_minute():
    world = cluster(2)
    first, second, third = (a_value(world) for _ in range(3))
    read_elsewhere(world, first)
    world.fail(first, 2, unreachable=True)
    assert world.ways == [(first, 1, 2, "direct"), (first, 1, 2, "relayed")]
    world.arrive(first, 2)
    later(world, 58.9)
    world.head._state.transfers.copy(world.head._state.values.values[second], 2)
    later(world, 0.0)
    assert world.ways[2:] == [(second, 1, 2, "relayed")]
    world.arrive(second, 2)
    later(world, 1.2)
    world.head._state.transfers.copy(world.head._state.values.values[third], 2)
    later(world, 0.0)
    assert world.ways[3:] == [(third, 1, 2, "direct")]


def test_another_source_that_can_be_reached_goes_on_before_one_is_relayed():
    world = cluster(3)
    value = a_value(world)
    state = world.head._state
    state.transfers.copy(state.values.values[value], 2)
    later(world, 0.0)
    world.arrive(value, 2)
    world.call(Cores(1), 100.0, value)
    world.call(Cores(1), 100.0, value)
    reader = world.call(Cores(1), 100.0, value)
    later(world, 0.6)
    assert world.ways[1:] == [(value, 2, 3, "direct")]
    world.fail(value, 3, unreachable=True)
    assert world.ways[2:] == [(value, 1, 3, "direct")]
    world.fail(value, 3, unreachable=True)
    assert [way for *_, way in world.ways[3:]] == ["relayed"]
    world.arrive(value, 3)
    assert world.started_on[reader] == 3


def test_a_busy_source_that_can_be_reached_is_waited_for():
    world = ValueCluster(Cores(1), Cores(8), Cores(8), has_data=True)
    world.function(1)
    value, second, third = (a_value(world) for _ in range(3))
    state = world.head._state
    state.transfers.copy(state.values.values[value], 3)
    later(world, 0.0)
    world.arrive(value, 3)
    state.transfers.reach.unreachable(3, 2, world.now)
    state.transfers.copy(state.values.values[second], 3)
    state.transfers.copy(state.values.values[third], 3)
    later(world, 0.0)
    state.transfers.copy(state.values.values[value], 2)
    later(world, 0.0)
    assert (value, 2) not in world.under_way  # n1 sends two, n3 could relay
    world.arrive(second, 3)
    assert world.ways[-1] == (value, 1, 2, "direct")


def test_a_relayed_copy_counts_as_others_do():
    world = ValueCluster(Cores(1), Cores(8), has_data=False)
    world.function(1)
    values = [a_value(world) for _ in range(4)]
    state = world.head._state
    for value in values:
        state.transfers.copy(state.values.values[value], 2)
    later(world, 0.0)
    assert len(world.under_way) == 2
    assert {way for *_, way in world.ways} == {"relayed"}


def test_rates_of_direct_and_relayed_copies_are_measured_apart():
    world = cluster(2)
    values = [a_value(world) for _ in range(2)]
    state = world.head._state
    transfers = state.transfers
    transfers.copy(state.values.values[values[0]], 2)
    later(world, 0.0)
    world.now += 0.05
    world.arrive(values[0], 2)
    assert transfers.seconds([values[1]], 2, world.now) == pytest.approx(0.05)
    transfers.reach.unreachable(1, 2, world.now)
    assert transfers.seconds([values[1]], 2, world.now) == pytest.approx(0.5)


def test_each_whole_replica_of_a_broadcast_is_a_source_at_once():
    """Eight workers: three rounds, and no more than three copies out of the first."""
    world = cluster(8)
    value = a_value(world)
    state = world.head._state
    for worker in range(2, 9):
        state.transfers.copy(state.values.values[value], worker)
    later(world, 0.0)
    rounds = 0
    while world.under_way:
        rounds += 1
        for number, worker in list(world.under_way):
            world.arrive(number, worker)
    assert world.where(value) == list(range(1, 9))
    sources = [source for _, source, _, _ in world.ways]
    assert sources.count(1) <= 3
    assert max(map(sources.count, sources)) <= 3
    assert rounds <= 3
    assert not world.told(ReplicasDropped)
    assert sum(len(action.values) for action in world.told(FetchReplicas)) == 7
