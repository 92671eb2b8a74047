"""Room in memory and on disk together: inputs fit where each has room whole, in one of the two."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores, Resource
from grainlike.scheduler import JobsCancelled
from grainlike.scheduler.values._reach import REST_S
from grainlike.scheduler.values._rooms import PACKED_MOST

LEAF = Cores(1) & Resource("leaf", 1)


class Tiers(Stores):
    """A worker with 156 MB in memory and 60 MB on disk that keeps values of these megabytes, one with room for all, and
    a job that only the first can run, which needs a value that only the second has. Heads of before are of `schema`.
    If it `uses` what it keeps, a job there computes with that.
    """

    def __init__(self, *kept, needed=34, schema=8, disk=60, uses=False):
        super().__init__()
        self.head.decide_as(schema)
        self.join(Cores(2) & Resource("leaf", 2), store=156 * MB, scratch=disk * MB)
        self.join(Cores(1), store=1000 * MB)
        self.kept, (self.needed,) = self.values(1, *kept), self.values(2, needed)
        if uses:
            self.call(LEAF, 1e6, *self.kept)
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


# --- what a worker refuses although it should have room --------------------------------------------------------------


def refused(**known):
    """The worker keeps 149 MB, of which 26 MB are on disk: 34 MB are free there, and 33 MB in memory. If another lay on
    disk, it would have room for a value of 35 MB.
    """
    world = Tiers(48, 38, 37, 26, needed=35, **known)
    assert set(world.under_way) == {(world.needed, 1)}
    world.fail(world.needed, 1, refused=True)
    return world


def test_a_value_makes_way_where_a_worker_could_not_write_an_input():
    world = refused()
    assert set(world.under_way) == {(world.kept[0], 2)}
    world.arrive(world.kept[0], 2)
    assert set(world.under_way) == {(world.needed, 1)}
    world.arrive_all()
    assert world.started_on[world.job] == 1
    assert [world.where(value) for value in world.kept[1:]] == [[1]] * 3


def test_another_makes_way_where_it_could_not_write_that_then():
    world = refused()
    world.arrive(world.kept[0], 2)
    world.fail(world.needed, 1, refused=True)
    assert set(world.under_way) == {(world.kept[1], 2)}


def test_an_input_is_tried_again_after_a_while_where_nothing_can_make_way():
    world = refused(uses=True)
    assert not world.under_way
    assert world.head.wakes_at == pytest.approx(world.now + REST_S)
    world.later(REST_S)
    assert set(world.under_way) == {(world.needed, 1)}


def test_it_is_tried_again_as_soon_as_the_worker_keeps_less():
    world = refused(uses=True)
    world.gone(1, world.kept[3])
    assert set(world.under_way) == {(world.needed, 1)}


def test_inputs_of_others_are_copied_meanwhile():
    world = refused(uses=True)
    (small,) = world.values(2, 1)
    job = world.call(LEAF, 1.0, small)
    assert set(world.under_way) == {(small, 1)}
    world.arrive_all()
    assert world.started_on[job] == 1


def test_no_others_were_by_the_rule_of_heads_of_before():
    world = refused(uses=True, schema=7)
    (small,) = world.values(2, 1)
    world.call(LEAF, 1.0, small)
    assert not world.under_way


def test_a_worker_without_limits_that_could_not_write_an_input_rests():
    world = Stores(1000)
    world.join(LEAF)
    (value,) = world.values(1, 5)
    world.call(LEAF, 1.0, value)
    world.fail(value, 2, refused=True)
    assert not world.under_way
    world.later(REST_S)
    assert set(world.under_way) == {(value, 2)}


# --- jobs that wait in queues where a worker has room, and their inputs have none -------------------------------------

HERE = Cores(1) & Resource("here", 1)


class Unequal(Stores):
    """Two workers; the second has a value, and less room than jobs of function 2 gave. Heads are of `schema`."""

    def __init__(self, *kept, needed, others, gave, schema=9, store=60, cores=1):
        super().__init__()
        self.head.decide_as(schema)
        self.join(Cores(2) & Resource("leaf", 2), store=156 * MB, scratch=60 * MB)
        self.join(Cores(cores) & Resource("here", cores), store=store * MB)
        self.kept, (self.needed, *self.others) = self.values(1, *kept), self.values(2, needed, *others)
        self.function(2)
        self.head._functions[2].gives = gave * MB

    def refused(self):
        """Have the first worker refuse the value, for a job that is cancelled then."""
        job = self.call(LEAF, 1.0, self.needed)
        self.fail(self.needed, 1, refused=True)
        self.tell(JobsCancelled([job]))
        assert not self.under_way
        return self


def roomy(**known):
    return Unequal(needed=39, others=[], gave=59, store=95, **known)


@pytest.mark.parametrize(("schema", "begins"), [(9, True), (8, False)])
def test_a_job_starts_at_its_inputs_if_they_have_no_room_where_its_value_would_have_some(schema, begins):
    world = Unequal(119, 38, needed=38, others=[3], gave=20, schema=schema)  # 37 MB are free in memory, 22 MB on disk
    job, _ = world.call(Cores(1), 1.0, world.needed, fn=2, n=2)
    assert (world.started_on.get(job) == 2, world.under_way) == (begins, {})


@pytest.mark.parametrize(("schema", "begins"), [(9, True), (8, False)])
def test_a_job_starts_at_its_inputs_while_they_are_refused_where_its_value_would_have_room(schema, begins):
    world = roomy(schema=schema).refused()
    job, _ = world.call(Cores(1), 1.0, world.needed, fn=2, n=2)
    assert (world.started_on.get(job) == 2, world.under_way) == (begins, {})


@pytest.mark.parametrize(("schema", "goes"), [(9, True), (8, False)])
def test_a_refusal_lapses_while_no_job_waits_outside_its_queue(schema, goes):
    world = roomy(schema=schema).refused()
    world.later(REST_S)
    jobs = world.call(Cores(1), 1.0, world.needed, fn=2, n=2)
    assert (set(world.under_way) == {(world.needed, 1)}) is goes
    world.arrive_all()
    assert [world.started_on.get(job) == 1 for job in jobs] == [goes] * 2


@pytest.mark.parametrize(("schema", "goes"), [(9, True), (8, False)])
def test_jobs_that_wait_in_a_queue_are_looked_at_when_a_refusal_lapses(schema, goes):
    world = Unequal(needed=35, others=[15], gave=0, schema=schema, cores=2)
    world.call(HERE, 1e6, *world.others)  # whose end would free a value: others do not start at a crowded worker
    world.refused()
    world.call(Cores(1), 1.0, world.needed, n=2)
    world.later(REST_S / 2)
    assert not world.under_way
    assert world.head.wakes_at == (pytest.approx(REST_S) if goes else None)
    world.later(REST_S / 2)
    assert (set(world.under_way) == {(world.needed, 1)}) is goes


def test_why_a_job_waits_is_told_of_the_worker_that_has_its_inputs():
    world = roomy()
    world.call(LEAF, 1e6, *world.values(2, 1), n=4)  # on their way to the first worker, which gets no more for now
    job, _ = world.call(Cores(1), 1.0, world.needed, fn=2, n=2)
    reason, words = world.why(job)
    assert (reason, job in world.begun) == ("store", False)
    assert words.endswith("its function gave 59 MB, for which n2 has no room; n1 has.")
