"""Workers that leave give away what only they have, and are let go then."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, WallTime
from grainlike.scheduler import Ticked, ValuesReleased, WorkerDrained, WorkerLeaving, WorkerTimed


def cluster(*offers, **options):
    made = ValueCluster(*(offers or (Cores(1), Cores(8))), has_data=True, **options)
    made.function(1)
    return made


def a_value(world, size=50 * MB):
    job = world.call(Cores(1), 0.0, size=size)
    world.run(world.now)
    return job


def later(world, seconds):
    world.now += seconds
    world.tell(Ticked())


def test_a_drained_worker_gives_away_what_only_it_has_and_is_released_then():
    world = cluster()
    value = a_value(world)
    world.tell(WorkerDrained(1))
    assert list(world.under_way) == [(value, 2)]
    assert not world.released
    assert not world.head.may_go(1)
    world.arrive(value, 2)
    assert world.released == [1]
    assert world.head.may_go(1)
    world.lose(1)
    reader = world.call(Cores(1), 1.0, value)
    assert world.started_on[reader] == 2
    assert not world.revived


def test_a_drained_worker_without_values_is_released_when_its_jobs_have_ended():
    world = cluster()
    world.call(Cores(1), 5.0)
    world.tell(WorkerDrained(1))
    assert not world.released
    world.run()
    assert world.released == [1]
    world.tell(WorkerDrained(2))
    assert world.released == [1, 2]


def test_what_its_last_jobs_make_is_given_away_too():
    world = cluster()
    job = world.call(Cores(1), 5.0, size=20 * MB)
    world.tell(WorkerDrained(1))
    world.run()
    assert list(world.under_way) == [(job, 2)]
    assert not world.released
    world.arrive(job, 2)
    assert world.released == [1]


def test_the_largest_goes_first():
    world = cluster()
    values = [a_value(world, size * MB) for size in (5, 80, 20, 50)]
    world.tell(WorkerDrained(1))
    order = []
    while world.under_way:
        order.append(next(iter(world.under_way))[0])
        world.arrive(order[-1], 2)
    assert order == [values[at] for at in (1, 3, 2, 0)]
    assert world.released == [1]


def test_what_others_have_or_nobody_needs_is_not_given_away():
    world = cluster(Cores(1), Cores(1), Cores(1))
    shared, unwanted = a_value(world), a_value(world)
    world.tell(WorkerTimed(3, 1e9))
    world.head._state.replication.keep(world.head._state.values.values[shared], 2)
    later(world, 0.0)
    world.arrive_all()
    assert world.where(shared) == [1, 2]
    world.tell(ValuesReleased([unwanted]))
    world.head._state.values.values[shared].copies = 1
    world.tell(WorkerDrained(1))
    assert not world.under_way
    assert world.released == [1]


def test_a_worker_is_not_held_for_what_is_let_go_meanwhile():
    world = cluster()
    value = a_value(world)
    world.tell(WorkerDrained(1))
    world.release(value)
    assert world.released == [1]


def test_a_worker_is_not_held_where_nobody_else_could_have_its_values():
    world = cluster(Cores(1))
    a_value(world)
    world.tell(WorkerDrained(1))
    assert world.released == [1]


def test_copies_that_do_not_come_to_an_end_hold_a_worker_for_a_while_only():
    world = cluster()
    a_value(world, 100 * MB)
    world.tell(WorkerDrained(1))
    later(world, 61.9)  # a minute, and twice a second at 100 MB/s
    assert not world.released
    assert world.head.wakes_at == pytest.approx(62.0)
    later(world, 0.2)
    assert world.released == [1]


def test_a_worker_that_joins_gets_what_one_that_drains_has():
    world = cluster(Cores(1))
    value = a_value(world)
    world.call(Cores(1), 5.0)
    world.tell(WorkerDrained(1))
    world.join(Cores(1))
    assert list(world.under_way) == [(value, 2)]
    world.run()
    assert not world.released
    world.arrive(value, 2)
    assert world.released == [1]


def test_a_worker_that_said_that_it_stops_gives_away_while_it_may_and_is_not_told_to():
    world = cluster()
    value = a_value(world)
    world.tell(WorkerLeaving(1))
    assert list(world.under_way) == [(value, 2)]
    world.arrive(value, 2)
    assert not world.released


def test_values_go_to_no_worker_that_leaves():
    world = cluster(Cores(1), Cores(1), Cores(1))
    value = a_value(world)
    world.tell(WorkerDrained(2))
    world.tell(WorkerDrained(1))
    assert list(world.under_way) == [(value, 3)]


def test_all_leave_in_good_order():
    """The last keeps what the others have given away."""
    world = cluster(Cores(1), Cores(1), Cores(1))
    value = a_value(world)
    world.tell(WorkerDrained(1))
    world.arrive_all()
    (second,) = set(world.where(value)) - {1}
    world.lose(1)
    world.tell(WorkerDrained(second))
    world.arrive_all()
    assert sorted(world.released) == sorted([1, second])
    world.lose(second)
    assert len(world.where(value)) == 1


# --- ends that are known ----------------------------------------------------------------------------------------------


def timed(seconds, **options):
    world = cluster(Cores(1) & WallTime(seconds), Cores(8), **options)
    return world, a_value(world, 1000 * MB)


def test_a_worker_whose_end_is_known_begins_in_time_for_what_it_has():
    world, value = timed(3600.0)
    assert not world.under_way
    assert world.head.wakes_at == pytest.approx(3600.0 - 10.0 - 20.0)  # twice 1 GB at 100 MB/s, and ten seconds
    later(world, 3569.0)
    assert not world.under_way
    later(world, 1.1)
    assert list(world.under_way) == [(value, 2)]


def test_what_is_made_there_after_that_goes_at_once():
    world, value = timed(100.0)
    later(world, 71.0)
    world.arrive(value, 2)
    world.call(Cores(8), 50.0)
    late = world.call(Cores(1), 1.0, size=5 * MB)
    world.run(80.0)
    assert world.where(late) == [1]
    assert list(world.under_way) == [(late, 2)]


def test_an_end_that_is_put_off_is_waited_for():
    world, value = timed(100.0)
    world.tell(WorkerTimed(1, 1000.0))
    later(world, 71.0)
    assert not world.under_way
    later(world, 900.0)
    assert list(world.under_way) == [(value, 2)]
    world.arrive(value, 2)
    world.tell(WorkerTimed(1, 1000.0))
    world.call(Cores(8), 50.0)
    late = world.call(Cores(1), 0.0, size=5 * MB)
    world.run(world.now)
    assert world.where(late) == [1]
    assert not world.under_way


def test_a_worker_that_is_told_of_an_end_begins_at_once_if_it_is_near():
    world = cluster()
    value = a_value(world)
    world.tell(WorkerTimed(1, 5.0))
    later(world, 0.0)
    assert not world.under_way
    later(world, 3.6)  # a tenth of its time is left for what is not foreseen, and twice half a second for the bytes
    assert list(world.under_way) == [(value, 2)]


def test_replicas_for_safety_go_to_workers_that_last():
    world = cluster(Cores(1), Cores(1) & WallTime(300.0), Cores(1))
    value = a_value(world)
    world.tell(WorkerDrained(1))
    assert list(world.under_way) == [(value, 3)]
