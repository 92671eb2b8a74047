"""Replicas that were asked for: kept, made good, and answered for once they are there."""

import pytest
from value_cluster import MB, Stores, ValueCluster

from grainlike.resources import Cores
from grainlike.scheduler import (
    FetchReplicas,
    FunctionDefined,
    JobsCancelled,
    LineageDropped,
    ReplicasDropped,
    ReplicasGone,
    ReplicasUnfit,
    ReplicationAsked,
    Ticked,
    ValuesReleased,
    WorkerDrained,
    WorkerHeard,
    WorkerStored,
    WorkerSuspected,
)
from grainlike.wire import Code


def cluster(count=3, **options):
    made = ValueCluster(*[Cores(1)] * count, has_data=True, **options)
    made.function(1)
    made.tell(FunctionDefined(2, losses=0))
    return made


def a_value(world, size=50 * MB, *, fn=1):
    job = world.call(Cores(1), 0.0, fn=fn, size=size)
    world.run(world.now)
    return job


def replicate(world, value, copies):
    world.tell(ReplicationAsked([value], copies))


def later(world, seconds):
    world.now += seconds
    world.tell(Ticked())


def test_so_many_replicas_are_made_as_were_asked_for():
    world = cluster()
    value = a_value(world)
    replicate(world, value, 2)
    assert list(world.under_way) == [(value, 2)]
    assert not world.reached
    world.arrive(value, 2)
    assert world.reached == [value]
    assert world.where(value) == [1, 2]
    replicate(world, value, 1)
    assert world.reached == [value, value]
    assert not world.under_way


def test_more_than_there_are_workers_is_reached_with_those_and_made_good_when_one_joins():
    world = cluster(1)
    value = a_value(world)
    replicate(world, value, 2)
    assert world.reached == [value]
    world.join(Cores(1))
    assert list(world.under_way) == [(value, 2)]
    world.arrive(value, 2)
    world.join(Cores(1))
    assert not world.under_way
    assert world.reached == [value]


def test_one_at_every_worker_is_one_at_those_that_join_later_too():
    world = cluster()
    value = a_value(world)
    replicate(world, value, 0)
    world.arrive_all()
    assert world.where(value) == [1, 2, 3]
    world.join(Cores(1))
    world.arrive_all()
    assert world.where(value) == [1, 2, 3, 4]
    assert world.reached == [value]


@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_a_replica_that_goes_is_made_good(how):
    world = cluster()
    value = a_value(world)
    replicate(world, value, 2)
    world.arrive(value, 2)
    if how == "lost":
        world.lose(1)
        assert list(world.under_way) == [(value, 3)]
    else:
        world.stores[1].clear()
        world.tell(ReplicasGone(1, [value], [1]))
        assert len(world.under_way) == 1
    world.arrive_all()
    assert len(world.where(value)) == 2
    assert not world.revived


def test_a_copy_that_fails_is_asked_for_again_elsewhere():
    world = cluster()
    value = a_value(world)
    replicate(world, value, 2)
    world.fail(value, 2)
    assert list(world.under_way) == [(value, 3)]
    world.fail(value, 3)
    assert not world.under_way
    later(world, 1.1)
    world.arrive_all()
    assert len(world.where(value)) == 2
    assert world.reached == [value]


def test_a_copy_that_jobs_asked_for_first_is_kept_when_they_go():
    world = ValueCluster(Cores(1), Cores(8), has_data=True)
    world.function(1)
    fillers = [a_value(world) for _ in range(3)]
    assert {where for filler in fillers for where in world.where(filler)} == {1}
    replicate(world, fillers[0], 2)
    replicate(world, fillers[1], 2)
    world.call(Cores(1), 9.0)
    reader = world.call(Cores(1), 9.0, fillers[2])
    later(world, 0.6)
    assert world.head.jobs[reader].data.target == 2
    replicate(world, fillers[2], 2)
    world.tell(JobsCancelled([reader]))
    world.arrive_all()
    assert [world.where(filler) for filler in fillers] == [[1, 2]] * 3
    assert world.reached == fillers


def test_copies_for_safety_are_spread_over_the_workers_that_have_least():
    world = cluster(5)
    values = [a_value(world) for _ in range(8)]
    world.tell(ReplicationAsked(values, 2))
    world.arrive_all()
    held = [sum(value in [held for held, _ in world.stores[worker]] for value in values) for worker in range(2, 6)]
    assert held == [2, 2, 2, 2]


def test_a_suspect_gets_no_replica_and_loses_none():
    world = cluster()
    value = a_value(world)
    world.tell(WorkerSuspected(2))
    replicate(world, value, 3)
    world.arrive_all()
    assert world.where(value) == [1, 3]
    assert world.reached == [value]
    world.tell(WorkerSuspected(3))
    assert not world.under_way
    world.tell(WorkerHeard(2))
    assert list(world.under_way) == [(value, 2)]


def test_a_wait_ends_when_the_last_worker_that_could_have_one_is_suspected():
    world = cluster(2)
    value = a_value(world)
    world.tell(WorkerSuspected(2))
    world.tell(WorkerHeard(2))
    replicate(world, value, 2)
    assert not world.reached
    world.lose(2)
    assert world.reached == [value]


def test_a_value_that_is_not_known_is_lost_at_once():
    world = cluster()
    replicate(world, 77, 2)
    assert [lost for lost, _ in world.lost] == [77]


@pytest.mark.parametrize("may_be_made_again", [True, False])
def test_a_value_that_is_lost_before_it_has_its_replicas(may_be_made_again):
    world = cluster(2)
    value = a_value(world)
    if not may_be_made_again:
        world.tell(LineageDropped([value]))
    replicate(world, value, 2)
    world.lose(1)
    if may_be_made_again:
        assert world.revived == [value]
        world.run(world.now)
        assert world.reached == [value]
        assert not world.lost
    else:
        assert [lost for lost, _ in world.lost] == [value]
        assert not world.reached
        world.tell(ValuesReleased([value]))
        assert not world.known


def test_replicas_go_with_the_interest_and_are_not_made_good_after():
    world = cluster()
    value = a_value(world)
    replicate(world, value, 2)
    world.arrive_all()
    world.release(value)
    assert world.where(value) == []
    assert sum(len(action.values) for action in world.told(ReplicasDropped)) == 2
    world.lose(2)
    world.join(Cores(1))
    assert not world.under_way
    assert not world.known


def test_a_value_that_is_let_go_before_it_has_its_replicas_goes_at_once():
    """Whoever waits for them refers to it."""
    world = cluster()
    value = a_value(world)
    replicate(world, value, 2)
    world.release(value)
    assert world.where(value) == []
    world.arrive_all()
    assert world.where(value) == []
    assert world.reached == []
    assert not world.known


def test_a_lost_value_that_is_let_go_is_not_made_again_for_its_replicas():
    world = cluster(1)
    value = a_value(world)
    world.lose(1)
    replicate(world, value, 2)
    assert world.revived == [value]
    world.release(value)
    assert not world.known
    assert not world.head.jobs


def test_a_value_that_may_not_be_made_again_gets_its_second_replica_again():
    world = cluster()
    value = a_value(world, fn=2)
    world.arrive(value, 2)
    world.lose(1)
    assert list(world.under_way) == [(value, 3)]
    assert not world.reached


def test_a_worker_that_drains_counts_for_none():
    world = cluster()
    value = a_value(world)
    replicate(world, value, 2)
    world.arrive(value, 2)
    world.tell(WorkerDrained(2))
    assert list(world.under_way) == [(value, 3)]


# --- room ------------------------------------------------------------------------------------------------------------


def told_few(world):
    return [(action.value, action.why) for action in world.told(ReplicasUnfit)]


def test_a_worker_whose_store_could_never_hold_a_value_counts_as_none_and_that_is_told_once():
    world = Stores(100, 20)
    value, other = world.values(1, 50, 30)
    replicate(world, value, 2)
    assert world.reached == [value]
    assert not world.under_way
    assert told_few(world) == [(value, "its value is 50 MB; n2 has room for 20 MB at most")]
    assert world.head.why_few(value) == "its value is 50 MB; n2 has room for 20 MB at most"
    replicate(world, other, 0)
    for _ in range(3):
        world.later(100.0)
    assert world.reached == [value, other]
    assert not world.told(FetchReplicas)
    assert len(told_few(world)) == 1  # of its function
    assert world.head.why_few(world.values(1, 5)[0]) == ""  # one is enough


def test_a_worker_with_a_larger_store_that_joins_gets_the_replica():
    world = Stores(100, 20)
    (value,) = world.values(1, 50)
    replicate(world, value, 2)
    world.join(Cores(1), store=80 * MB)
    assert list(world.under_way) == [(value, 3)]
    assert world.head.why_few(value) == ""
    world.arrive_all()
    assert world.where(value) == [1, 3]


@pytest.mark.parametrize("how", ["dropped", "joined"])
def test_a_replica_waits_until_there_is_room_for_it(how):
    world = Stores(100, 60)
    (value,) = world.values(1, 50)
    (filler,) = world.values(2, 40)
    before = len(world.told(FetchReplicas))
    replicate(world, value, 2)
    for _ in range(3):
        world.later(100.0)
    assert world.reached == []
    assert len(world.told(FetchReplicas)) == before
    assert not told_few(world)
    assert world.head.why_few(value) == "its value is 50 MB; n2 has room for 20 MB of it now"
    if how == "dropped":
        world.release(filler)
    else:
        world.join(Cores(1), store=80 * MB)
    world.arrive_all()
    assert world.where(value) == [1, 2 if how == "dropped" else 3]
    assert world.reached == [value]
    assert world.head.why_few(value) == ""


@pytest.mark.parametrize("backoff", [None, (1.0, 2.0, 1.0)], ids=["at once", "after a while"])
def test_a_replica_gets_the_room_of_a_spare_one_whose_job_is_tried_again(backoff):
    """That job needs the spare one still, but is not there any more: the worker may evict it."""
    world = Stores(100, 60)
    world.tell(FunctionDefined(2, retries=1, backoff=backoff))
    value, shared = world.values(1, 40, 30)
    world.call(Cores(1), 1000.0, value)  # at n1
    reader = world.call(Cores(1), 1.0, shared, fn=2)
    world.later(1.0)
    world.arrive_all()
    assert world.started_on[reader] == 2
    assert world.spare_at() == {2: [shared]}
    replicate(world, value, 2)
    assert not world.under_way
    _, *running = world.take_running(reader)
    world.finish(*running, Code.FAILED)
    assert list(world.under_way) == [(value, 2)]
    world.arrive_all()
    assert world.reached == [value]


@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_a_copy_of_a_value_that_is_lost_keeps_no_room_from_others(how):
    """Nobody waits for the lost value, so it is not made again, and its copy would keep the room for ever."""
    world = Stores(100, 100, 60)
    (value,) = world.values(1, 50)
    (lost,) = world.values(2, 50)
    world.tell(WorkerSuspected(2))
    world.tell(WorkerDrained(2))  # the copy to n3 waits until it is heard again
    replicate(world, value, 2)
    assert not world.under_way
    if how == "lost":
        world.lose(2)
    else:
        world.gone(2, lost)
    assert list(world.under_way) == [(value, 3)]
    assert not world.revived
    world.arrive_all()
    assert world.reached == [value]


def test_a_value_that_is_made_again_is_copied_as_its_lost_copy_was_to_be():
    world = Stores(100, 100, 60)
    (lost,) = world.values(2, 50)
    world.tell(WorkerSuspected(2))
    replicate(world, lost, 2)
    world.lose(2)
    assert world.revived == [lost]
    world.run(world.now)
    world.arrive_all()
    assert world.where(lost) == [1, 3]
    assert world.reached == [lost]


def test_a_value_that_was_made_again_at_a_worker_that_stays_waits_for_no_room_any_more():
    world = Stores(100, 60)
    (value,) = world.values(1, 50)
    world.values(2, 40)
    world.tell(WorkerDrained(1))
    assert world.head._state.values.awaiting_room
    world.lose(1)
    world.call(Cores(1), 1000.0, value)
    world.run(world.now)
    assert world.where(value) == [2]
    world.join(Cores(1), store=80 * MB)
    assert not world.head._state.values.awaiting_room
    assert not world.under_way


def test_a_replica_for_which_there_is_no_room_takes_none_from_others():
    """The replica is asked for when there is room, and not counted before."""
    world = Stores(100, 60)
    (value,) = world.values(1, 50)
    world.values(2, 40)
    replicate(world, value, 0)
    (small,) = world.values(1, 15)
    replicate(world, small, 2)
    world.arrive_all()
    assert world.where(small) == [1, 2]


def test_a_wait_for_room_ends_with_the_disk_that_would_have_it():
    world = Stores(100)
    world.join(Cores(1), store=10 * MB, scratch=60 * MB)
    (value,) = world.values(1, 50)
    world.values(2, 30)
    replicate(world, value, 2)
    assert world.reached == []
    world.tell(WorkerStored(2, over=0, lost=True))
    assert world.reached == [value]
    assert told_few(world) == [(value, "its value is 50 MB; n2 has room for 10 MB at most")]


def test_a_replica_that_waits_for_room_is_forgotten_with_its_value():
    world = Stores(100, 60)
    (value,) = world.values(1, 50)
    world.values(2, 40)
    replicate(world, value, 2)
    world.tell(WorkerSuspected(1))  # so no worker has room when it goes
    world.release(value)
    assert value not in world.known
    assert not world.head._state.values.awaiting_room


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_replica_waits_for_room_that_a_copy_for_a_job_does_not_need_any_more(how):
    world = Stores(200, 60)
    value, *inputs = world.values(1, 50, 20, 21)
    world.call(Cores(1), 1000.0)  # at n1
    reader = world.call(Cores(1), 1.0, *inputs)
    world.later(1.0)
    assert world.head.jobs[reader].data.target == 2
    replicate(world, value, 2)
    assert sorted(world.under_way) == [(number, 2) for number in inputs]
    if how == "cancelled":
        world.tell(JobsCancelled([reader]))
    for number in inputs:
        world.fail(number, 2)
    world.tell(JobsCancelled([reader]))
    world.later(100.0)  # the pair rests after failures
    world.arrive_all()
    assert world.where(value) == [1, 2]
    assert world.reached == [value]


@pytest.mark.parametrize("how", ["dropped", "joined"])
def test_the_second_replica_of_a_value_that_may_not_be_made_again_waits_for_room_without_trying(how):
    world = Stores(100, 60)
    world.tell(FunctionDefined(2, losses=0))
    (filler,) = world.values(2, 40)
    before = len(world.told(FetchReplicas))
    value = world.call(Cores(1), 0.0, fn=2, size=50 * MB)
    world.run(world.now)
    assert world.where(value) == [1]
    for _ in range(5):
        world.later(100.0)
    assert len(world.told(FetchReplicas)) == before
    assert not told_few(world)
    assert world.head.why_few(value) == "its value is 50 MB; n2 has room for 20 MB of it now"
    if how == "dropped":
        world.release(filler)
    else:
        world.join(Cores(1), store=80 * MB)
    world.arrive_all()
    assert world.where(value) == [1, 2 if how == "dropped" else 3]
    assert world.head.why_few(value) == ""


def test_a_copy_that_fails_is_tried_again_and_why_is_told_meanwhile():
    """A worker may have less room than the head counts, as jobs there have been granted its memory."""
    world = Stores(100, 100)
    (value,) = world.values(1, 50)
    replicate(world, value, 2)
    assert world.head.why_few(value, "no room") == ""  # it is under way
    world.fail(value, 2)
    assert world.head.why_few(value) == "a copy to n2 has failed, and is tried again"
    assert world.head.why_few(value, "n2: no room") == "a copy to n2 has failed, and is tried again: n2: no room"
    world.later(1.1)
    assert list(world.under_way) == [(value, 2)]
    assert world.head.why_few(value) == "a copy to n2 has failed, and is tried again"
    world.arrive_all()
    assert world.head.why_few(value) == ""
    assert world.reached == [value]
