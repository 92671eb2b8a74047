"""The judge of worlds with large values: what it sees, and what it does not hold against them."""

from types import SimpleNamespace

import pytest

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    ReplicasDropped,
    ReplicasGone,
)
from grainlike.simulation import CALM, Clock, Dice, FunctionPlan, JobPlan, Network, NodePlan, Witness
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._value_driver import ValueDriver
from grainlike.wire import Code, Completed
from simtest.judge._referee import Referee
from simtest.judge._remakes import Remakes
from simtest.judge._replica_records import ReplicaRecords
from simtest.judge._store_records import StoreRecords
from simtest.judge._stored_bytes import StoredBytes
from simtest.judge._value_records import ValueRecords


@pytest.fixture
def records():
    """Records of a worker on which job 2 uses the first replica of value 1."""
    made = ValueRecords(Clock(), {}, (), {})
    made.joined(1)
    made.stored(1, 1, 1)
    made.needs(2, (1,))
    made.began(1, 2)
    return made


def test_the_judge_sees_that_a_replica_is_removed_which_a_job_uses(records):
    with pytest.raises(AssertionError, match=r"worker 1 removed value 1, which job \[2\] uses there"):
        records.removed(1, 1, 1)


def test_the_judge_sees_that_a_copy_never_ends(records):
    records.made(1, 1, 1)
    records.joined(2)
    records.copying(1, 2, 1, 1, 60)
    records.let_go(1)
    records.stopped(1, 2)
    records.removed(1, 1, 1)
    with pytest.raises(AssertionError, match=r"copies .*\(1, 2\).* have not ended"):
        records.check_rest([1, 2], 0, lambda _: True)
    records.copied(2, 1, 1, whole=False)
    assert records.check_rest([1, 2], 0, lambda _: True)


def test_a_replica_that_came_after_a_job_began_may_be_removed(records):
    records.damaged(1, 1, 1)
    records.stored(1, 1, 2)
    records.removed(1, 1, 2)


def test_the_judge_sees_that_the_last_replica_is_given_up_unless_the_head_had_it_removed():
    made = ValueRecords(Clock(), {}, (), {})
    made.joined(1)
    made.stored(1, 1, 1)
    made.made(1, 1, 1)
    with pytest.raises(AssertionError, match="worker 1 gives up value 1, which is nowhere else"):
        made.evicted(1, 1, 1)
    made.let_go(1)
    made.dropping(ReplicasDropped(1, [1], [1]))
    made.needs(2, (1,))
    made.evicted(1, 1, 1)


def test_the_last_replica_may_be_given_up_if_the_head_will_not_hear_of_it():
    made = ValueRecords(Clock(), {}, (), {})
    made.joined(1)
    made.stored(1, 1, 1)
    made.made(1, 1, 1)
    made.unheard(1, 1, 1)
    made.stored(1, 1, 1)  # another has taken its place
    with pytest.raises(AssertionError, match="worker 1 gives up value 1, which is nowhere else"):
        made.evicted(1, 1, 1)
    made.unheard(1, 1, 1)
    made.evicted(1, 1, 1)


def test_the_judge_counts_a_copy_of_which_the_head_hears_after_the_death_of_its_worker(records):
    records.made(1, 1, 1)
    records.joined(2)
    records.copying(1, 2, 1, 1, 60)
    records.stored(2, 1, 1)
    records.died(2)
    records.copied(2, 1, 1, whole=True)
    assert records.holders(1) == {1, 2}
    records.gone(2)
    assert records.holders(1) == {1}


def test_the_judge_does_not_count_a_copy_that_was_damaged_before_its_worker_died(records):
    records.made(1, 1, 1)
    records.joined(2)
    records.copying(1, 2, 1, 1, 60)
    records.stored(2, 1, 1)
    records.damaged(2, 1, 1)
    records.died(2)
    records.copied(2, 1, 1, whole=True)
    assert records.holders(1) == {1}


def test_the_judge_counts_a_copy_as_under_way_until_it_hears_of_the_same_attempt(records):
    records.joined(2)
    records.made(1, 1, 1)
    records.copying(1, 2, 1, 1, 60)
    records.gone(1)  # the copy had come, and worker 2 could not say so yet
    records.joined(3)
    records.stored(3, 1, 2)
    records.made(3, 1, 2)
    records.copying(3, 2, 1, 2, 60)
    records.copied(2, 1, 1, whole=True)
    assert records.is_coming(1)
    assert records.holders(1) == {3}
    records.stored(2, 1, 2)
    records.copied(2, 1, 2, whole=True)
    assert not records.is_coming(1)
    assert records.holders(1) == {2, 3}


def test_the_judge_does_not_count_a_replica_of_whose_loss_the_head_hears_until_it_hears_of_the_next(records):
    records.joined(2)
    records.made(1, 1, 1)
    records.stored(2, 1, 1)
    records.damaged(2, 1, 1)
    records.stored(2, 1, 1)  # another copy, and the head has heard of nothing
    records.copied(2, 1, 1, whole=True)
    assert records.holders(1) == {1, 2}
    records.heard_gone(2, 1, 2)
    assert records.holders(1) == {1, 2}
    records.heard_gone(2, 1, 1)
    assert records.holders(1) == {1}
    records.copied(2, 1, 1, whole=True)
    assert records.holders(1) == {1, 2}


def test_a_witness_learns_when_the_head_hears_that_a_replica_was_lost(monkeypatch):
    clock = Clock()
    witness = Witness(clock)
    stage = SimpleNamespace(clock=clock, dice=Dice(1), network=Network(), faults=CALM, witness=witness)
    daemon = Daemon(stage, 1, NodePlan(offer_of(Cores(1), own_cores=[0])))
    daemon.store.add((1, 1))
    heard: list[object] = []
    stage.alive, stage.tell, stage.members = True, heard.append, {1: SimpleNamespace(daemon=daemon)}
    monkeypatch.setattr(witness, "heard_gone", lambda *replica: heard.append(replica))
    ValueDriver(stage, 1, Network(), CALM).damage(daemon, Dice(1))
    assert not heard
    assert clock.run(1)
    assert heard == [(1, 1, 1), ReplicasGone(1, [1], [1])]


@pytest.fixture
def remakes():
    """Counts of value 1, whose function may be lost once: it is made again at worker 7 as attempt 2."""
    made = Remakes({1: JobPlan(0, Cores(1), 1.0)}, [FunctionPlan("once more", losses=1)], closed=False)
    made.begin(1)
    made.assigned(7, 1, 2)
    return made


def lost_with_its_worker(remakes):
    remakes.leased(7, 1, 2)
    remakes.given_up(7, stops=False)


def lost_with_another_worker_of_its_gang(remakes):
    remakes.leased(7, 1, 2)
    remakes.broken(1, 2, stops=False)
    remakes.heard(7, Completed(1, [1], [2], [Code.CANCELLED], [0.0], [0.0], [0.0], [0], [b""], [], 0.0))


def lost_with_its_runner(remakes):
    remakes.heard(7, Completed(1, [1], [2], [Code.CRASHED], [0.0], [0.0], [0.0], [0], [b""], [], 0.0))


@pytest.mark.parametrize("lose", [lost_with_its_worker, lost_with_its_runner, lost_with_another_worker_of_its_gang])
def test_the_judge_sees_that_a_value_is_made_again_too_often(remakes, lose):
    lose(remakes)
    with pytest.raises(AssertionError, match="value 1 is made again after 2 losses"):
        remakes.assigned(8, 1, 3)


def test_the_judge_sees_that_a_value_is_given_up_too_early(remakes):
    with pytest.raises(AssertionError, match="value 1 is given up after 1 losses, not 2"):
        remakes.lost(1, 2)
    lost_with_its_worker(remakes)
    remakes.lost(1, 2)


@pytest.mark.parametrize("excuse", ["not begun", "stopped", "another attempt", "another of its workers stopped"])
def test_an_attempt_that_had_not_begun_or_was_stopped_is_no_loss(remakes, excuse):
    if excuse == "another attempt":
        remakes.leased(7, 1, 1)
    elif excuse == "stopped":
        remakes.leased(7, 1, 2)
    elif excuse == "another of its workers stopped":
        remakes.broken(1, 2, stops=True)
        remakes.heard(7, Completed(1, [1], [2], [Code.CRASHED], [0.0], [0.0], [0.0], [0], [b""], [], 0.0))
    remakes.given_up(7, stops=excuse == "stopped")
    remakes.assigned(8, 1, 3)


@pytest.fixture
def stored():
    """Sums of the bytes of two workers with one core each, of which the second may exceed its limit by 50."""
    held = {1: set(), 2: set()}
    sizes = {1: 60, 2: 60, 3: 60, 4: 40}
    sums = StoredBytes(sizes.__getitem__, held.__getitem__)
    sums.limited(1, 100, None, cores=1)
    sums.limited(2, 100, 50, cores=1)

    def store(worker, *values, is_output):
        for value in values:
            held[worker].add((value, 1))
            sums.stored(worker, value, 1, is_output=is_output)

    return store


def test_one_output_a_core_may_exceed_the_limit_of_a_worker(stored):
    stored(1, 4, 1, is_output=False)
    stored(1, 2, is_output=True)
    with pytest.raises(AssertionError, match="worker 1 has 220 bytes, and may have 100 and 60 beyond"):
        stored(1, 3, is_output=True)


def test_the_judge_knows_how_many_cores_a_worker_has():
    judge = Referee(Clock(), (), closed=False, slowest=1e9)
    judge.own_sizes = dict.fromkeys((1, 2, 3, 4), 60)
    judge.joined(1, offer_of(Cores(2), own_cores=[0, 1]))
    judge.limited(1, 100, None)
    for value in (1, 2, 3):
        judge.stored(1, value, 1, is_output=True)
    with pytest.raises(AssertionError, match="worker 1 has 240 bytes, and may have 100 and 120 beyond"):
        judge.stored(1, 4, 1, is_output=True)


def test_outputs_exceed_a_limit_by_so_many_bytes(stored):
    stored(2, 1, 2, is_output=True)
    with pytest.raises(AssertionError, match="worker 2 has 160 bytes, and may have 100 and 50 beyond"):
        stored(2, 4, is_output=True)


def test_a_copy_does_not_exceed_the_limit_of_a_worker(stored):
    stored(1, 1, is_output=False)
    with pytest.raises(AssertionError, match="worker 1 has 120 bytes, and may have 100 and 0 beyond"):
        stored(1, 2, is_output=False)


@pytest.fixture
def tries():
    """Records of job 2, whose value of 60 bytes found no room at worker 1, where its input of 20 bytes is. The store of
    worker 2 can hold 100 bytes.
    """
    plans = {number: JobPlan(0, Cores(1), 1.0, size=size) for number, size in ((1, 20), (2, 60), (3, 30))}
    functions = (FunctionPlan("once more", losses=1),)
    values = ValueRecords(Clock(), plans, functions, {})
    made = StoreRecords(Clock(), plans, functions, values, lambda *_: True, lambda *_: False, lambda: True, 1e9)
    for worker in (1, 2):
        made.limited(worker, 100)
        values.joined(worker)
    values.stored(1, 1, 1)
    values.made(1, 1, 1)
    values.needs(2, (1,))
    made.lacked(1, 2)
    return SimpleNamespace(stores=made, values=values)


AGAIN = "job 2 is tried at worker 1 again, and worker 2 could hold its value"


def test_the_judge_sees_that_a_job_runs_once_more_while_another_worker_has_room_for_its_input_and_its_value(tries):
    with pytest.raises(AssertionError, match=AGAIN):
        tries.stores.assigned(1, 2)


def test_a_job_may_run_once_more_while_another_worker_has_room_for_its_input_alone(tries):
    tries.values.stored(2, 3, 1)
    tries.values.made(2, 3, 1)
    tries.stores.assigned(1, 2)
    tries.stores.lacked(1, 2)
    with pytest.raises(AssertionError, match=AGAIN):  # twice at most
        tries.stores.assigned(1, 2)


def test_a_job_may_run_once_more_if_another_worker_had_more_than_it_may_keep_since_its_value_found_no_room(tries):
    tries.stores.exceeds(2, 40)
    tries.stores.exceeds(2, 0)
    tries.stores.assigned(1, 2)
    tries.stores.lacked(1, 2)
    with pytest.raises(AssertionError, match=AGAIN):  # twice at most
        tries.stores.assigned(1, 2)


def test_the_judge_sees_that_the_oldest_job_waits_for_longer_than_its_input_takes():
    """At 20 bytes a second its input takes 3 s, and what may be before it, twice the largest value, 6 s."""
    clock = Clock()
    plans = {number: JobPlan(0, Cores(1), 1.0, size=60) for number in (1, 2)}
    values = ValueRecords(clock, plans, (), {})
    stores = StoreRecords(clock, plans, (), values, lambda *_: True, lambda *_: False, lambda: True, 20.0)
    stores.limited(2, 100)
    values.joined(1)
    values.stored(1, 1, 1)
    values.made(1, 1, 1)
    values.needs(2, (1,))
    stores.submitted(2, 2)
    stores.decided()
    clock.at(13.0, stores.decided)
    clock.run(1)
    clock.at(13.1, stores.decided)
    with pytest.raises(AssertionError, match="job 2 has not begun, and worker 2 could have had its inputs for long"):
        clock.run(1)


@pytest.fixture
def replicas():
    """Value 1 is at worker 3 only, which drains, and values 2 and 3 at worker 1, which exceeds what it may keep; worker
    2 has room for one of them.
    """
    plans = {number: JobPlan(0, Cores(1), 1.0, size=60) for number in (1, 2, 3, 4)}
    values = ValueRecords(Clock(), plans, (), {})
    stores = StoreRecords(Clock(), plans, (), values, lambda *_: True, lambda *_: False, lambda: True, 1e9)
    made = ReplicaRecords(Clock(), values, stores)
    for worker in (1, 2, 3):
        values.joined(worker)
        made.joined(worker, float("inf"))
        stores.limited(worker, 100)
    for worker, value in ((3, 1), (1, 2), (1, 3)):
        values.stored(worker, value, 1)
        values.made(worker, value, 1)
    made.replicating(1, 1)
    stores.exceeds(1, 20)
    made.draining(3)
    return SimpleNamespace(judge=made, values=values, stores=stores)


def test_the_judge_sees_that_a_worker_that_drains_does_not_give_what_only_it_has(replicas):
    with pytest.raises(AssertionError, match=r"value 1 is at workers \[3\] only, and nothing is done about that"):
        replicas.judge.decided()


def is_waited_for(replicas, job, *inputs):
    replicas.values.needs(job, inputs)
    replicas.stores.submitted(job, job)


def test_room_may_be_kept_for_the_inputs_of_a_job_that_waits(replicas):
    is_waited_for(replicas, 4, 3)
    replicas.judge.decided()


@pytest.mark.parametrize("inputs", [(1,), (2, 3)], ids=["the value itself", "more than there is room for"])
def test_no_room_is_kept_for_a_job_from_its_own_input_or_that_will_have_none(replicas, inputs):
    is_waited_for(replicas, 4, *inputs)
    with pytest.raises(AssertionError, match="nothing is done about that"):
        replicas.judge.decided()


def test_room_may_be_kept_for_values_until_the_head_hears_that_they_were_damaged(replicas):
    replicas.judge.suspected(1)
    replicas.judge.decided()
    for value in (2, 3):
        replicas.values.damaged(1, value, 1)
    replicas.judge.decided()
    for value in (2, 3):
        replicas.values.heard_gone(1, value, 1)
    with pytest.raises(AssertionError, match="nothing is done about that"):
        replicas.judge.decided()


def test_room_may_be_kept_for_a_job_until_the_head_hears_that_its_input_was_damaged(replicas):
    is_waited_for(replicas, 4, 3)
    replicas.values.damaged(1, 3, 1)
    replicas.judge.decided()
    replicas.values.heard_gone(1, 3, 1)
    with pytest.raises(AssertionError, match="nothing is done about that"):
        replicas.judge.decided()


def test_a_damaged_value_takes_room_until_the_head_hears_of_it_and_no_longer(replicas):
    replicas.values.stored(2, 4, 1)
    replicas.values.made(2, 4, 1)
    replicas.values.damaged(2, 4, 1)
    replicas.judge.decided()
    replicas.values.heard_gone(2, 4, 1)
    with pytest.raises(AssertionError, match="nothing is done about that"):
        replicas.judge.decided()


def test_the_head_hears_of_no_loss_of_a_worker_that_it_has_given_up_or_whose_value_was_made_again(records):
    records.made(1, 1, 1)
    records.damaged(1, 1, 1)
    assert records.is_counted(1)
    records.gone(1)
    assert not records.is_counted(1)
    records.joined(2)
    records.made(2, 1, 2)  # it was damaged before the head heard of it
    assert records.is_counted(1)
    assert records.holders(1) == set()
    records.joined(3)
    records.stored(3, 1, 3)
    records.made(3, 1, 3)
    assert records.gone_unheard(2) == []


def test_room_may_be_kept_for_a_value_whose_copy_has_just_failed(replicas):
    replicas.judge.copied(1, 2, whole=False, unreachable=False)
    replicas.judge.decided()
