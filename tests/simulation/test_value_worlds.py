"""Worlds with large values that stay at workers: the judge's promises, and what such worlds see."""

import os
from collections import Counter
from types import SimpleNamespace

import pytest

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    FetchReplicas,
    HeadScheduler,
    NodeScheduler,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasGone,
    WorkerStored,
)
from grainlike.scheduler.planning import _planner, _resting, _waiting
from grainlike.scheduler.values._rooms import KEPT_SCHEMA
from grainlike.simulation import CALM, Clock, Dice, Faults, FunctionPlan, JobPlan, Network, NodePlan, Witness
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._store import SimulatedStore
from grainlike.simulation._value_driver import ValueDriver
from grainlike.wire import Code, Completed
from simtest import Trial, simulate
from simtest._policies import compare
from simtest.judge._referee import Referee
from simtest.judge._remakes import Remakes
from simtest.judge._replica_records import ReplicaRecords
from simtest.judge._store_records import StoreRecords
from simtest.judge._stored_bytes import StoredBytes
from simtest.judge._value_records import ValueRecords

SEEDS = int(os.environ.get("GRAINLIKE_TEST_SEEDS", "1000"))
"""With this, some 2 300 worlds; each takes about 20 ms of CPU time."""

BLOCK = 25

WIDE_BLOCK = 100
"""So many worlds where a path is to be seen that few take."""


@pytest.mark.parametrize("workload", ["values", "shared_values", "own_values"])
@pytest.mark.parametrize("first", range(0, SEEDS // 2, BLOCK))
def test_no_promise_is_broken(workload, first):
    for seed in range(first, first + BLOCK):
        outcome = simulate(seed, workload)
        assert outcome.violations == (), f"python -m simtest --seed {seed} --workload {workload}"


@pytest.mark.parametrize("workload", ["full_stores", "real_stores"])
@pytest.mark.parametrize("first", range(0, SEEDS // 20, 5))
def test_no_promise_is_broken_where_stores_are_full(workload, first):
    for seed in range(first, first + 5):
        calm = seed % 2 == 0  # how long the oldest job waits is judged until the first fault
        outcome = simulate(seed, workload, faults=CALM if calm else None)
        words = f"python -m simtest --seed {seed} --workload {workload}{' --calm' if calm else ''}"
        assert outcome.violations == (), words


@pytest.mark.parametrize("first", range(0, SEEDS // 3, BLOCK))
def test_no_promise_is_broken_where_outputs_find_no_room(first):
    seen = Counter()
    for seed in [*range(first, first + BLOCK), *([380, 960] if not first else [])]:
        calm = seed % 2 == 0  # where a value could have room is judged until the first fault
        outcome = simulate(seed, "large_outputs", faults=CALM if calm else None)
        seen += Counter(outcome.seen)
        words = f"python -m simtest --seed {seed} --workload large_outputs{' --calm' if calm else ''}"
        assert outcome.violations == (), words
    assert min(seen["lacked room"], seen["homeless"], seen["value"]) > 0


@pytest.mark.parametrize("first", range(0, SEEDS // 3, WIDE_BLOCK))
def test_no_promise_is_broken_where_outputs_wait_for_room_in_a_real_store(first):
    seen = Counter()
    for seed in range(first, first + WIDE_BLOCK):
        calm = seed % 2 == 0
        outcome = simulate(seed, "real_outputs", faults=CALM if calm else None)
        seen += Counter(outcome.seen)
        words = f"python -m simtest --seed {seed} --workload real_outputs{' --calm' if calm else ''}"
        assert outcome.violations == (), words
    assert min(seen[what] for what in ("waits for room", "refused room", "overdraft", "evicted", "no room")) > 0


@pytest.mark.parametrize("seed", [5169, 5259, 5955, 202031])
def test_values_that_are_kept_make_way_where_a_job_would_wait_for_ever(seed):
    assert simulate(seed, "full_stores").violations == ()


@pytest.mark.parametrize(("seed", "calm"), [(7310251, False), (7311011, True), (7312539, False)])
def test_replicas_are_lacking_only_where_some_store_could_hold_them_and_its_worker_lives(seed, calm):
    assert simulate(seed, "large_outputs", faults=CALM if calm else None).violations == ()


@pytest.mark.parametrize("seed", [8000473, 8001871])
def test_room_may_be_kept_for_what_only_a_suspected_worker_has(seed):
    assert simulate(seed, "large_outputs").violations == ()


@pytest.mark.parametrize("seed", [8002106, 8003064])
def test_a_replica_gets_the_room_of_a_spare_one_whose_job_is_tried_again(seed):
    assert simulate(seed, "large_outputs", faults=CALM).violations == ()


def test_a_replica_gets_the_room_that_was_kept_for_a_copy_of_a_lost_value():
    assert simulate(9300871, "large_outputs").violations == ()


def test_a_copy_of_a_value_that_is_freed_keeps_no_room():
    assert simulate(24000698, "own_values").violations == ()


def test_a_value_that_was_made_again_waits_for_no_room_that_it_does_not_need():
    assert simulate(23000650, "large_outputs").violations == ()


def test_jobs_that_wait_for_each_others_room_run_once_more_where_their_values_found_none():
    assert simulate(31003283, "large_outputs").violations == ()


def test_room_that_is_free_since_this_moment_does_not_count_for_a_job_that_was_let_run_once_more_before():
    assert simulate(61000639, "large_outputs").violations == ()


@pytest.mark.parametrize(
    ("seed", "workload"), [(71100490, "real_stores"), (71200643, "real_stores"), (71100716, "real_outputs")]
)
def test_a_replica_that_came_in_the_place_of_a_damaged_one_stays_while_a_job_uses_it(seed, workload):
    assert simulate(seed, workload).violations == ()


@pytest.mark.parametrize(("seed", "workload"), [(73200591, "real_stores"), (73201320, "real_outputs")])
def test_a_worker_is_asked_for_room_after_it_was_told_which_replicas_stay(seed, workload):
    assert simulate(seed, workload).violations == ()


def test_a_job_whose_inputs_find_no_room_on_a_disk_in_parts_holds_up_none_of_those_that_use_what_is_there():
    assert simulate(75100263, "real_stores").violations == ()


def test_the_oldest_job_waits_for_no_crowd_that_was_sent_to_an_idle_worker_while_one_value_came():
    assert simulate(75001020, "full_stores", faults=CALM).violations == ()


def test_a_worker_that_drains_leaves_the_room_that_the_oldest_job_was_promised():
    assert simulate(79010430, "full_stores").violations == ()


def test_what_waits_for_a_lost_value_keeps_no_room_that_its_maker_needs():
    assert simulate(86002351, "real_stores").violations == ()


def test_a_replica_waits_for_no_room_that_is_kept_for_a_job_no_longer():
    assert simulate(81010124, "large_outputs", faults=CALM).violations == ()


def test_a_value_that_a_worker_gives_away_has_the_room_that_is_kept_for_the_job_that_needs_it():
    assert simulate(88000684, "real_outputs").violations == ()


def test_the_oldest_job_may_wait_for_as_long_as_copies_take_over_the_links_of_its_world():
    assert simulate(88501863, "real_outputs").violations == ()


def test_a_worker_may_give_up_what_the_head_had_it_remove_though_a_job_needs_the_value_again_before_it_hears():
    assert simulate(73200994, "values").violations == ()


def test_a_copy_of_an_older_attempt_that_comes_late_ends_no_copy_of_the_newer_one():
    assert simulate(78005346, "values").violations == ()


def test_a_job_runs_once_more_where_it_ran_while_another_worker_has_room_for_its_inputs_alone():
    assert simulate(79014009, "large_outputs").violations == ()


@pytest.mark.parametrize(("schema", "kind"), [(KEPT_SCHEMA, "takes along"), (KEPT_SCHEMA - 1, "unpaid")])
def test_one_job_of_those_that_wait_for_an_overdraft_travels_or_is_given_up_if_nothing_can_pay_it_back(
    schema, kind, monkeypatch
):
    """No own value travelled by the rules of earlier journals."""
    began = Trial.begin
    monkeypatch.setattr(Trial, "begin", lambda trial: (trial.head.scheduler.decide_as(schema), began(trial)))
    outcome = simulate(72201580, "own_values")
    assert outcome.violations == ()
    assert [outcome.seen.get(one, 0) for one in ("takes along", "unpaid")] == [kind == "takes along", kind == "unpaid"]


@pytest.mark.parametrize(
    ("workload", "seed"),
    [
        ("large_outputs", 75000399),
        ("real_outputs", 75000774),
        ("real_outputs", 75100000),
        ("real_outputs", 75100008),
    ],
)
def test_no_job_is_given_up_for_an_overdraft_that_the_client_may_pay_back(workload, seed):
    outcome = simulate(seed, workload)
    assert outcome.violations == ()
    assert not outcome.seen.get("unpaid")


def test_values_make_way_for_an_input_that_a_worker_could_not_write_as_neither_memory_nor_disk_had_room():
    assert simulate(88502733, "real_stores").violations == ()


def test_a_job_runs_once_more_where_its_value_had_no_room_not_because_another_worker_refused_an_input():
    assert simulate(90001059, "large_outputs").violations == ()


def test_an_own_value_travels_with_one_job_if_nothing_could_make_room_for_it():
    assert simulate(84010232, "own_values").violations == ()


def test_the_loss_of_any_worker_of_a_gang_counts_for_the_value_that_it_makes_again():
    assert simulate(61002767, "values").violations == ()


@pytest.mark.parametrize("seed", [9301752, 9502190, 23001295])
def test_room_may_be_kept_for_what_cannot_be_copied_now_or_is_damaged_unheard(seed):
    assert simulate(seed, "large_outputs").violations == ()


def test_an_end_that_the_head_hears_of_a_dead_worker_counts_until_that_is_given_up():
    assert simulate(8002786, "values").violations == ()


def test_a_replica_that_the_head_hears_of_a_dead_worker_counts_until_that_is_given_up():
    assert simulate(31001150, "shared_values").violations == ()


def test_nothing_is_told_of_the_failure_of_a_copy_that_has_ended():
    assert simulate(8003126, "shared_values").violations == ()


def test_a_replica_that_came_before_its_worker_answers_is_not_gone():
    assert simulate(7326250, "own_values").violations == ()


@pytest.mark.parametrize(("workload", "seed"), [("full_stores", 31006950), ("large_outputs", 31006010)])
def test_no_room_is_taken_of_a_spare_replica_that_was_damaged(workload, seed):
    assert simulate(seed, workload).violations == ()


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


def test_a_worker_has_no_more_than_it_may_keep_once_its_replicas_are_damaged():
    assert simulate(86400218, "large_outputs").violations == ()


def test_a_replica_that_has_come_again_does_not_count_before_the_head_hears_of_it():
    assert simulate(79011528, "own_values").violations == ()


def test_the_end_of_a_copy_whose_source_was_given_up_leaves_the_next_copy_its_room():
    assert simulate(78005010, "real_stores").violations == ()


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


def test_a_store_has_no_room_for_others_while_a_replica_is_copied_there_again():
    assert simulate(80030797, "real_stores").violations == ()


def test_one_output_for_each_core_may_exceed_the_budget_of_a_simulated_store():
    store = SimulatedStore(Clock(), NodePlan(offer_of(Cores(2), own_cores=[0, 1]), store=100, scratch=0), dict)
    has_room: list[bool] = []
    for value in (1, 2, 3, 4):
        store.ask((value, 1), 60, has_room.append, is_output=True)
    assert has_room == [True, True, True]
    assert list(store.scheduler.late) == [(4, 1)]


def test_the_worlds_see_every_path():
    """Copies, losses, values made again and given up: a world without them proves nothing."""
    paths = {"copy", "damage", "give", "input lost", "revived", "value lost", "told INPUT_GONE"}
    paths |= {"direct copy", "unreachable", "replicated", "let off", "evicted"}
    seen = Counter()
    for seed in range(400):
        seen += Counter(simulate(seed, "values", judged=False).seen)
        if paths <= seen.keys():
            return
    raise AssertionError(paths - seen.keys())


def test_one_seed_gives_one_world():
    assert simulate(7, "shared_values").digest == simulate(7, "shared_values").digest


@pytest.mark.parametrize(
    ("workload", "seeds"),
    [
        ("values", range(SEEDS // 33)),
        ("shared_values", range(SEEDS // 33)),
        ("full_stores", [28, 42, 49, 64, 72, 111, *range(SEEDS // 200)]),
        ("large_outputs", range(SEEDS // 33)),
    ],
    ids=["values", "shared_values", "full_stores", "large_outputs"],
)
def test_looks_that_are_left_out_would_change_nothing(workload, seeds, monkeypatch):
    """With the index of classes in use from the first class on, as in worlds with very many. The first worlds with full
    stores are those where room counts which others had taken meanwhile.
    """
    monkeypatch.setattr(_waiting, "FEW", 0)
    monkeypatch.setattr(_planner, "FEW", 0)
    worlds = [simulate(seed, workload).digest for seed in seeds]
    monkeypatch.setattr(_resting.Resting, "let_rest", lambda *_: None)
    for scheduler in (HeadScheduler, NodeScheduler):  # the same worlds were held to the laws above
        monkeypatch.setattr(scheduler, "check", lambda _: None)
    assert worlds == [simulate(seed, workload).digest for seed in seeds]


def test_a_broadcast_moves_its_value_once_to_each_node():
    outcome = simulate(3, "broadcast", workers=3, jobs=120, faults=CALM)
    assert outcome.violations == ()
    assert 0 < outcome.moved <= 2 * 50e6


def test_waiting_as_long_as_moving_takes_is_never_far_from_the_best_of_all_policies():
    rows = compare()
    best = {}
    for row in rows:
        key = row.workload, row.bytes_per_s
        best[key] = min(best.get(key, row.makespan), row.makespan)
    worst = dict.fromkeys({row.policy for row in rows}, 0.0)
    for row in rows:
        worst[row.policy] = max(worst[row.policy], row.makespan / best[row.workload, row.bytes_per_s])
    assert worst["near"] <= 1.3
    assert min(ratio for policy, ratio in worst.items() if policy in ("first free", "preferred only", "no wait")) >= 2.0
    moved = {(row.workload, row.policy): row.moved for row in rows}
    assert moved["cheap", "near"] == moved["chains", "near"] == 0


# --- the judge --------------------------------------------------------------------------------------------------------


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


def test_room_may_be_kept_for_a_value_whose_copy_has_just_failed(replicas):
    replicas.judge.copied(1, 2, whole=False, unreachable=False)
    replicas.judge.decided()
