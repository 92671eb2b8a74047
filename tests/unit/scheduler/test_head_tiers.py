"""Room in memory and on disk together: inputs fit where each has room whole, in one of the two."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores, Resource
from grainlike.scheduler.values._rooms import PACKED_MOST

LEAF = Cores(1) & Resource("leaf", 1)


class Tiers(Stores):
    """A worker with 156 MB in memory and 60 MB on disk that keeps values of these megabytes, one with room for all, and
    a job that only the first can run, which needs a value that only the second has. Heads of before are of `schema`.
    """

    def __init__(self, *kept, needed=34, schema=8, disk=60):
        super().__init__()
        self.head.decide_as(schema)
        self.join(Cores(2) & Resource("leaf", 2), store=156 * MB, scratch=disk * MB)
        self.join(Cores(1), store=1000 * MB)
        self.kept, (self.needed,) = self.values(1, *kept), self.values(2, needed)
        self.job = self.call(LEAF, 1.0, self.needed)


def test_a_value_makes_way_where_memory_and_disk_have_room_together_and_neither_has_it():
    world = Tiers(48, 38, 37, 59)  # of the 34 MB left, 33 MB are free in memory, and 1 MB on disk
    assert set(world.under_way) == {(world.kept[3], 2)}
    world.arrive_all()
    assert world.started_on[world.job] == 1
    assert [world.where(value) for value in world.kept[:3]] == [[1]] * 3


def test_heads_of_before_sent_it_where_it_was_refused():
    world = Tiers(48, 38, 37, 59, schema=7)
    assert set(world.under_way) == {(world.needed, 1)}


def test_why_such_a_job_waits_is_told():
    world = Tiers(48, 38, 37, 59)
    reason, words = world.why(world.job)
    assert reason == "store"
    assert words.endswith("n1 has room for 34 MB of them now, and not for each whole in memory or on disk.")


@pytest.mark.parametrize(
    ("kept", "disk"), [((48, 38, 36, 59), 60), ((48, 38, 37, 59), 85), ((110, 12), 0), ((48, 38, 37, 26), 60)]
)
def test_it_is_sent_where_it_fits_whole(kept, disk):
    world = Tiers(*kept, disk=disk)
    assert set(world.under_way) == {(world.needed, 1)}


@pytest.mark.parametrize(("last", "is_walked"), [(59, True), (26, True), (25, False)])
def test_the_values_of_a_worker_are_walked_only_where_room_is_scarce(last, is_walked):
    world = Tiers(48, 38, 37, last)  # with 25 MB, as many bytes stay free as the value has
    assert bool(world.head._state.values.primaries.listed) is is_walked


def test_more_values_than_are_packed_count_as_fitting():
    world = Tiers(*[3] * (PACKED_MOST + 1))
    assert world.under_way
