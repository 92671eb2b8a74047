"""Relocations: primaries that make way for a job that would never have room in a store."""

from counting import counted
from value_cluster import MB, Stores

from grainlike.resources import Cores, Resource
from grainlike.scheduler import JobsCancelled, Ticked
from grainlike.scheduler.values import _relocations


def filled(*sizes, others=(200,), input_mb=20):
    """A world where the first worker, of 60 MB, keeps primaries of these sizes, and one more, which the second has, is
    needed there by jobs that are `bound` to it.
    """
    world = Stores()
    world.join(Cores(2) & Resource("leaf", 2), store=60 * MB)
    for size in others:
        world.join(Cores(1), store=size * MB)
    primaries = world.values(1, *sizes)
    (needed,) = world.values(2, input_mb)
    return world, primaries, needed


def bound(world, *inputs, seconds=1.0, to="leaf"):
    return world.call(Cores(1) & Resource(to, 1), seconds, *inputs)


def look_again(world):
    """Let the head look whenever it wants to, while nothing else happens."""
    while (at := world.head.wakes_at) is not None:
        world.later(at - world.now)


def test_primaries_make_way_for_a_job_that_would_never_have_room_largest_first_and_no_more():
    world, (small, large, middle), needed = filled(10, 25, 15)
    job = bound(world, needed)  # it lacks 10 MB
    assert set(world.under_way) == {(large, 2)}
    world.arrive(large, 2)
    assert world.spare_at() == {1: [large]}
    assert set(world.under_way) == {(needed, 1)}
    world.arrive_all()
    assert world.started_on[job] == 1
    assert world.where(small) == world.where(middle) == [1]


def test_of_several_that_make_way_one_is_on_its_way_at_a_time():
    world, (first, second, third, fourth), needed = filled(16, 15, 14, 13, input_mb=40)
    job, _ = bound(world, needed), bound(world, needed)  # it lacks 38 MB, and so does a younger one
    for moved in (first, second, third):
        assert set(world.under_way) == {(moved, 2)}
        world.later(1.0)
        assert set(world.under_way) == {(moved, 2)}
        world.arrive(moved, 2)
    assert set(world.under_way) == {(needed, 1)}
    world.arrive_all()
    assert world.started_on[job] == 1
    assert world.where(fourth) == [1]


def test_primaries_stay_where_all_that_could_go_is_too_little():
    world, _, needed = filled(30, 25, others=(45,), input_mb=40)
    job = bound(world, needed)  # it lacks 35 MB, and the other has room for 5
    look_again(world)
    assert not world.under_way
    assert world.why(job)[0] == "store"


def test_primaries_stay_where_the_other_has_room_for_as_many_bytes_but_not_for_the_values():
    world, _, needed = filled(30, 30, others=(52,), input_mb=20)
    bound(world, needed)  # it lacks 20 MB, the other has room for 32, and for one of the two
    assert len(world.under_way) == 1
    world, _, needed = filled(30, 30, others=(85,), input_mb=40)
    bound(world, needed)  # it lacks 40 MB, and the other has room for 45
    look_again(world)
    assert not world.under_way


def test_primaries_that_a_job_uses_or_the_one_that_waits_needs_stay():
    world, (used, needed_here, small), needed = filled(20, 25, 10)
    running = bound(world, used, seconds=100.0)
    assert world.started_on[running] == 1
    job = bound(world, needed_here, needed)  # it lacks 15 MB
    look_again(world)
    assert not world.under_way
    world.run(world.now + 100.0)
    assert set(world.under_way) == {(used, 2)}
    world.arrive_all()
    assert world.started_on[job] == 1
    assert world.where(needed_here) == world.where(small) == [1]


def test_primaries_that_a_job_needs_for_which_room_is_kept_there_stay():
    world, (promised, other), needed = filled(25, 15, others=(200, 200), input_mb=45)
    (spare, more) = world.values(3, 10, 15)
    running = bound(world, spare, seconds=100.0)  # with a spare replica there, which makes way when it has ended
    world.arrive_all()
    assert world.started_on[running] == 1
    young = world.call(Cores(1) & Resource("leaf", 1), 1.0, promised, more)
    assert world.head._state.transfers.rooms.claims[1].id == young
    old = world.head.jobs[bound(world, needed)]  # it lacks 30 MB once that is spare
    old.age = old.remembered().tree_age = 0
    world.later(1.0)
    assert set(world.under_way).isdisjoint({(promised, 2), (promised, 3)})
    assert world.where(other) == [1]


def test_primaries_stay_where_a_job_that_runs_frees_enough():
    world, (consumed, other), needed = filled(25, 25)
    running = bound(world, consumed, seconds=100.0)
    world.release(consumed)
    job = bound(world, needed)
    look_again(world)
    assert not world.under_way
    world.run(world.now + 100.0)
    assert running in world.ended
    assert set(world.under_way) == {(needed, 1)}
    world.arrive_all()
    assert world.started_on[job] == 1
    assert world.where(other) == [1]


def two_leaves():
    """A job that two workers could run, of which the first has a value moved away for it, and lacks least."""
    world = Stores()
    for _ in range(2):
        world.join(Cores(1) & Resource("leaf", 1), store=60 * MB)
    world.join(Cores(2), store=300 * MB)
    first, second, (needed,) = world.values(1, 30, 20), world.values(2, 35, 20), world.values(3, 20)
    job = bound(world, needed)
    assert set(world.under_way) == {(first[0], 3)}
    return world, job, first, second, needed


def test_no_room_is_made_elsewhere_for_a_job_while_a_value_is_on_its_way_for_it():
    world, _, first, _, _ = two_leaves()
    world.later(1.0)
    assert set(world.under_way) == {(first[0], 3)}


def test_what_is_moved_for_a_job_that_has_room_elsewhere_meanwhile_stays_kept_where_it_was():
    world, job, first, second, needed = two_leaves()
    world.release(second[0])
    assert (needed, 2) in world.under_way
    world.arrive(first[0], 3)
    assert world.spare_at() == {3: [first[0]]}
    world.arrive_all()
    assert world.started_on[job] == 2


def test_nothing_is_moved_to_where_room_was_made_for_a_job_that_still_waits():
    world = Stores()
    for name, size in (("one", 60), ("two", 60), ("three", 95)):
        world.join(Cores(1) & Resource(name, 1), store=size * MB)
    (moved, _), (other,), (first, second) = world.values(1, 40, 10), world.values(2, 50), world.values(3, 30, 20)
    bound(world, first, to="one")
    filler = world.submit(Cores(1) & Resource("one", 1), 100.0)  # so it cannot start there at once
    assert filler in world.begun
    world.arrive(moved, 3)
    bound(world, second, to="two")
    world.later(1.0)
    assert (other, 1) not in world.under_way


def test_a_younger_job_is_helped_where_the_oldest_cannot_be():
    world = Stores()
    for name, size in (("one", 60), ("two", 60), ("three", 100)):
        world.join(Cores(1) & Resource(name, 1), store=size * MB)
    world.values(1, 50)
    (small,) = world.values(2, 50)
    large, needed = world.values(3, 45, 15)
    old = bound(world, large, to="one")  # it lacks 35 MB, and the third has room for 40, but the value has 50
    young = bound(world, needed, to="two")
    look_again(world)
    assert not world.under_way
    world.release(small)
    assert set(world.under_way) == {(needed, 2)}
    (other,) = world.values(2, 38)
    assert old not in world.begun
    assert young not in world.begun
    world.arrive_all()
    world.run()
    younger = bound(world, large, to="two")  # it lacks 23 MB once its replica is spare
    assert set(world.under_way) == {(other, 3)}
    world.arrive_all()
    assert world.started_on[younger] == 2


def three_with_room_for_little():
    world = Stores()
    for name, size in (("one", 50), ("two", 50), ("three", 40)):
        world.join(Cores(1) & Resource(name, 1), store=size * MB)
    return world, world.values(1, 20, 15), world.values(2, 15), world.values(3, 20, 20)


def test_a_primary_comes_back_for_another_job_only_when_the_one_has_ended_for_which_it_was_moved():
    world, (moved, other), kept, (first, second) = three_with_room_for_little()
    old = bound(world, first, seconds=100.0, to="one")
    assert set(world.under_way) == {(moved, 2)}
    world.arrive_all()
    assert world.started_on[old] == 1
    world.gone(1, moved)
    world.release(other)  # it would have room there again
    young = bound(world, second, kept[0], to="two")
    look_again(world)
    assert (moved, 1) not in world.under_way
    assert young not in world.begun
    world.run(world.now + 100.0)
    assert (moved, 1) in world.under_way
    world.arrive_all()
    assert world.started_on[young] == 2


def test_two_jobs_that_want_each_other_s_room_do_not_move_the_same_values_to_and_fro():
    world, (moved, other), (kept,), (first, second) = three_with_room_for_little()
    old, young = bound(world, first, other, to="one"), bound(world, second, kept, to="two")
    seen = []
    for _ in range(50):
        if not world.under_way:
            break
        (copy,) = world.under_way
        seen.append(copy)
        world.arrive(*copy)
        look_again(world)
    assert len(seen) == len(set(seen))
    assert world.started_on[old] == 1
    assert (moved, 2) in seen
    world.run()
    look_again(world)
    world.arrive_all()
    assert world.started_on[young] == 2


def test_a_primary_of_which_another_worker_has_a_spare_replica_with_room_needs_no_copy():
    world, (shared, _), needed = filled(25, 25)
    value = world.head._state.values.values[shared]
    world.head._state.transfers.copy(value, 2)
    world.tell(Ticked())
    world.arrive_all()
    assert world.spare_at() == {2: [shared]}
    job = bound(world, needed)
    assert world.spare_at() == {1: [shared]}
    assert not world.under_way
    look_again(world)
    assert set(world.under_way) == {(needed, 1)}
    world.arrive_all()
    assert world.started_on[job] == 1


def test_a_copy_that_fails_is_asked_for_again_from_elsewhere_if_that_can_be():
    world, (_, large), needed = filled(20, 35, others=(200, 100))
    job = bound(world, needed)
    assert set(world.under_way) == {(large, 2)}
    world.fail(large, 2)
    assert set(world.under_way) == {(large, 3)}
    world.arrive_all()
    assert world.started_on[job] == 1


def test_what_is_moved_for_a_job_that_is_cancelled_meanwhile_stays_kept_where_it_was():
    world, (large, _), needed = filled(25, 15, input_mb=30)
    job = bound(world, needed)
    assert set(world.under_way) == {(large, 2)}
    world.tell(JobsCancelled([job]))
    world.arrive(large, 2)
    assert world.spare_at() == {2: [large]}
    assert not world.head._state.relocations.moves


def test_where_a_job_goes_once_there_is_room_the_moves_are_forgotten_with_its_end():
    world, _, needed = filled(25, 25)
    bound(world, needed)
    world.arrive_all()
    assert world.head._state.relocations.moves
    world.run()
    relocations = world.head._state.relocations
    assert (relocations.moves, relocations.jobs, relocations.under_way) == ({}, {}, {})


# --- costs ------------------------------------------------------------------------------------------------------------


def calls_of_a_turn(world):
    """Return how many Python calls a turn makes in which nothing has happened."""
    with counted() as count:
        world.head.handle(Ticked(), world.now)
    return count.python


def crowd(count, *, fits):
    """A world where one job waits in vain, or nobody, and the first worker keeps so many primaries, of which the other
    has room for three, or the bytes of three and a third.
    """
    world = Stores()
    world.join(Cores(2) & Resource("leaf", 2), store=(count * 3 + fits * 10) * MB)
    world.join(Cores(1), store=20 * MB)
    world.values(1, *[3] * count)
    (needed,) = world.values(2, 10)
    job = bound(world, needed, seconds=1e6)
    if fits:
        world.arrive_all()
        assert world.started_on[job] == 1
    else:
        assert world.why(job)[0] == "store"
    return world


def test_a_turn_costs_the_same_however_many_values_there_are():
    for fits in (True, False):
        assert calls_of_a_turn(crowd(20, fits=fits)) == calls_of_a_turn(crowd(200, fits=fits))


def test_nothing_is_listed_before_a_job_is_without_room():
    assert not crowd(20, fits=True).head._state.values.primaries.listed
    assert [*crowd(20, fits=False).head._state.values.primaries.listed] == [1]


def test_a_turn_makes_few_plans_in_vain_and_the_next_one_goes_on_with_the_other_jobs(monkeypatch):
    monkeypatch.setattr(_relocations, "PLANS_MOST", 1)
    world, (moved, _), needed = filled(30, 30, others=(110,))
    relocations = world.head._state.relocations
    plans = []
    monkeypatch.setattr(type(relocations), "_first_of_plan", lambda _self, _source, job, *_: plans.append(job.id))
    old, young = bound(world, needed), bound(world, needed)
    plans.clear()
    for _ in range(4):
        world.later(1.0)
    assert plans in ([young, old, young, old], [old, young, old, young])
    monkeypatch.undo()
    world.later(1.0)
    assert {value for value, _ in world.under_way} == {moved}
