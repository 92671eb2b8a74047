"""Simulated stores, and copies of values between them, without a world around them."""

from types import SimpleNamespace

import pytest

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import FetchReplicas, ReplicasArrived, ReplicasDropped, ReplicasGone, WorkerStored
from grainlike.simulation import CALM, Clock, Dice, Faults, Network, NodePlan, Witness
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._store import SimulatedStore
from grainlike.simulation._value_driver import ValueDriver


def test_a_spare_replica_that_was_damaged_makes_no_way():
    witness = Witness(Clock())
    witness.own_sizes = {1: 60, 2: 60}
    stage = SimpleNamespace(clock=witness.clock, dice=Dice(1), network=Network(), faults=CALM, witness=witness)
    daemon = Daemon(stage, 1, NodePlan(offer_of(Cores(1), own_cores=[0]), store=100, overdraft=0))
    values = ValueDriver(stage, 1, Network(), CALM)
    daemon.store.add((1, 1))
    daemon.spare([(1, 1)], is_spare=True)
    values.damage(daemon, Dice(1))
    daemon.store.add((2, 1))
    assert not values.may_keep(daemon, 60)


def two_sources(faults, scratch):
    """Workers 1 and 2 with two values of 60 bytes, and worker 3 without them, whose store may hold 100: the driver of a
    head with these workers, which keeps what it tells its scheduler, and worker 3.
    """
    witness = Witness(Clock())
    witness.own_sizes = {1: 60, 2: 60}
    stage = SimpleNamespace(clock=witness.clock, dice=Dice(1), network=Network(), faults=faults, witness=witness)
    stage.told = []
    stage.alive, stage.tell, stage.members = True, stage.told.append, {}
    for worker in (1, 2, 3):
        plan = NodePlan(offer_of(Cores(1), own_cores=[0]), has_data=True, store=100, scratch=scratch)
        daemon = Daemon(stage, worker, plan)
        daemon.store.update([(1, 1), (2, 1)] if worker < 3 else [])
        stage.members[worker] = SimpleNamespace(daemon=daemon, down=daemon.up)
    target = stage.members[3].daemon
    values = ValueDriver(stage, 1, Network(bytes_per_s=1000), faults)
    if scratch is not None:
        values.open_store(target)
    return stage, values, target


def lose(stage, values, worker):
    del stage.members[worker]
    values.left(worker)


TWO_STORES = pytest.mark.parametrize("scratch", [None, 0], ids=["simulated store", "real scheduler"])


@TWO_STORES
def test_a_copy_that_fails_takes_no_room_of_a_later_copy_of_the_same_replica(scratch):
    """The first source cannot be reached, and is given up before that is known."""
    stage, values, target = two_sources(Faults(until=1.0, blocked=1.0), scratch)
    values.fetch(FetchReplicas(3, [1], [1], [60], [1], [False]))
    lose(stage, values, 1)
    values.fetch(FetchReplicas(3, [1], [1], [60], [2], [True]))
    while not target.coming:
        assert stage.clock.run(1)
    while not target.store:
        assert target.coming, "the room is taken back while the copy comes"
        assert stage.clock.run(1)


def lose_the_source_of_a_whole_copy(scratch):
    """The copy was whole as its source was given up, and the head did not know."""
    stage, values, target = two_sources(CALM, scratch)
    values.fetch(FetchReplicas(3, [1], [1], [60], [1], [False]))
    while not target.store:
        assert stage.clock.run(1)
    lose(stage, values, 1)
    return stage, values, target


def check_end(stage, target, sizes):
    """Check that a worker has only these replicas in the end, and room for no others."""
    while stage.clock.run(1):
        pass
    assert target.store == sizes.keys()
    assert not target.coming
    if target.rooms is not None:
        target.rooms.check_at_rest(sizes)


@TWO_STORES
def test_a_copy_takes_the_place_of_a_whole_one_of_which_the_head_did_not_hear(scratch):
    stage, values, target = lose_the_source_of_a_whole_copy(scratch)
    values.fetch(FetchReplicas(3, [1], [1], [60], [2], [False]))
    while not target.coming:
        assert target.store, "the replica is removed before there is to be another"
        assert stage.clock.run(1)
    assert not target.store
    while not target.store:
        assert not stage.told, "the head hears of a copy that has ended"
        assert stage.clock.run(1)
    check_end(stage, target, {(1, 1): 60})
    assert stage.told == [ReplicasArrived(3, [1], [1])]
    assert not target.spares


@TWO_STORES
def test_a_copy_that_takes_the_place_of_a_whole_one_and_comes_to_nothing_leaves_no_bytes(scratch):
    stage, values, target = lose_the_source_of_a_whole_copy(scratch)
    values.fetch(FetchReplicas(3, [1], [1], [60], [2], [False]))
    while not target.coming:
        assert stage.clock.run(1)
    lose(stage, values, 2)
    check_end(stage, target, {})
    assert not stage.told


@TWO_STORES
def test_a_replica_of_which_the_head_did_not_hear_makes_way(scratch):
    stage, values, target = lose_the_source_of_a_whole_copy(scratch)
    values.fetch(FetchReplicas(3, [2], [1], [60], [2], [False]))
    check_end(stage, target, {(2, 1): 60})
    assert stage.told == [ReplicasGone(3, [1], [1]), ReplicasArrived(3, [2], [1])]


@TWO_STORES
@pytest.mark.parametrize("how", ["dropped elsewhere", "forgotten"])
def test_a_replica_of_which_the_head_did_not_hear_goes_with_its_value(how, scratch):
    stage, values, target = lose_the_source_of_a_whole_copy(scratch)
    if how == "forgotten":
        values.forget([1])
    else:
        values.drop(ReplicasDropped(2, [1], [1]))
    check_end(stage, target, {})
    assert not stage.told


def test_a_simulated_store_forgets_no_bytes_of_a_whole_replica():
    store = SimulatedStore(Clock(), NodePlan(offer_of(Cores(1), own_cores=[0]), store=100, scratch=0), dict)
    store.ask((1, 1), 60, lambda _: None, is_output=False)
    store.written((1, 1))
    with pytest.raises(AssertionError, match=r"room is asked for \(1, 1\), which is whole"):
        store.ask((1, 1), 60, lambda _: None, is_output=False)
    with pytest.raises(AssertionError, match=r"the room of \(1, 1\) is returned, which is whole"):
        store.returned((1, 1))
    store.removed([(1, 1)])
    store.ask((1, 1), 60, lambda _: None, is_output=False)
    store.returned((1, 1))
    store.check_at_rest({})


def test_one_output_for_each_core_may_exceed_the_budget_of_a_simulated_store():
    store = SimulatedStore(Clock(), NodePlan(offer_of(Cores(2), own_cores=[0, 1]), store=100, scratch=0), dict)
    has_room: list[bool] = []
    for value in (1, 2, 3, 4):
        store.ask((value, 1), 60, has_room.append, is_output=True)
    assert has_room == [True, True, True]
    assert list(store.scheduler.late) == [(4, 1)]


def a_full_store():
    """A worker whose store may hold 100 bytes, with a value of 60, which tells the head what it has beyond that."""
    stage, values, target = two_sources(CALM, None)
    target.on_stored = values.look_at_store
    target.store.add((2, 1))
    return stage, values, target


def test_a_worker_tells_that_a_replica_was_damaged_which_it_had_beyond_what_it_may_keep():
    stage, values, target = a_full_store()
    target.store.add((1, 1))
    target.look_at_store()
    values.damage(target, Dice(1))
    check_end(stage, target, {(1, 1): 60})
    assert stage.told == [WorkerStored(3, 20), ReplicasGone(3, [2], [1]), WorkerStored(3, 0)]


@pytest.mark.parametrize("frozen", [False, True], ids=["", "frozen"])
def test_a_worker_tells_that_a_copy_has_come_to_nothing_which_it_had_beyond_what_it_may_keep(frozen):
    """A job gives a value while the copy is under way."""
    stage, values, target = a_full_store()
    target.store.clear()
    values.fetch(FetchReplicas(3, [1], [1], [60], [1], [False]))
    target.store.add((2, 1))
    target.look_at_store()
    target.frozen = frozen
    lose(stage, values, 1)
    if frozen:
        target.thaw()
    check_end(stage, target, {(2, 1): 60})
    assert stage.told == [WorkerStored(3, 20), WorkerStored(3, 0)]
