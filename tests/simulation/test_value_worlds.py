"""Worlds with large values that stay at workers: the judge's promises, and what such worlds see."""

import os
from collections import Counter

import pytest

from grainlike.scheduler import (
    HeadScheduler,
    NodeScheduler,
)
from grainlike.scheduler.planning import _planner, _resting
from grainlike.scheduler.values._rooms import KEPT_SCHEMA
from grainlike.simulation import CALM
from simtest import Trial, simulate
from simtest._policies import compare

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


def test_a_job_waits_for_no_worker_that_has_room_for_its_value_and_refused_an_input_long_ago():
    assert simulate(94001024, "real_stores").violations == ()


def test_a_job_runs_once_more_where_its_value_had_no_room_not_because_another_worker_refused_an_input():
    assert simulate(90001059, "large_outputs").violations == ()


def test_an_own_value_travels_with_one_job_if_nothing_could_make_room_for_it():
    assert simulate(84010232, "own_values").violations == ()


def test_the_loss_of_any_worker_of_a_gang_counts_for_the_value_that_it_makes_again():
    assert simulate(61002767, "values").violations == ()


@pytest.mark.parametrize("seed", [9301752, 9502190, 23001295])
def test_room_may_be_kept_for_what_cannot_be_copied_now_or_is_damaged_unheard(seed):
    assert simulate(seed, "large_outputs").violations == ()


def test_room_may_be_kept_for_a_value_of_a_suspected_worker_that_was_damaged_unheard():
    assert simulate(92001573, "real_outputs").violations == ()


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


def test_a_worker_has_no_more_than_it_may_keep_once_its_replicas_are_damaged():
    assert simulate(86400218, "large_outputs").violations == ()


def test_a_replica_that_has_come_again_does_not_count_before_the_head_hears_of_it():
    assert simulate(79011528, "own_values").violations == ()


def test_the_end_of_a_copy_whose_source_was_given_up_leaves_the_next_copy_its_room():
    assert simulate(78005010, "real_stores").violations == ()


def test_a_store_has_no_room_for_others_while_a_replica_is_copied_there_again():
    assert simulate(80030797, "real_stores").violations == ()


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
