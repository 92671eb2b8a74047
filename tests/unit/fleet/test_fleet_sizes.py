"""Sizes of pools: what is wanted, limits, budgets, idleness, early deaths, and counts that do not hold any more."""

from __future__ import annotations

import copy
import itertools

import pytest
from fleets import Fleet, a_pool, a_row

from grainlike.fleet import (
    EndBlocks,
    FleetPool,
    Joined,
    Leave,
    Left,
    LogRead,
    Pause,
    PoolGone,
    PoolPaused,
    PoolResumed,
    PoolSet,
    ReadLog,
    SubmissionAccepted,
    SubmissionRefused,
    SubmissionUnclear,
    SubmitBlock,
    Tick,
    Wanted,
    Working,
)
from grainlike.fleet._endings import hold
from grainlike.fleet._turn import Turn


def proven(*pools):
    fleet = Fleet(*pools)
    for state in fleet.records.pools.values():
        state.proven = True
    return fleet


def run_up(fleet, seconds=20):
    """Let submissions be taken for a while; return their labels."""
    labels = []
    for _ in range(seconds):
        labels += fleet.accept_all()
        fleet.later(1)
    return [*labels, *fleet.accept_all()]


def test_one_block_a_second_and_a_few_in_the_queue():
    fleet = proven(a_pool(max=10, pending=4))
    fleet.want(cpu=10)
    assert len(fleet.take(SubmitBlock)) == 1
    times = [fleet.now]
    fleet(SubmissionAccepted("cpu-1", "id1"))
    for _ in range(40):
        fleet.later(0.25)
        for submission in fleet.take(SubmitBlock):
            times.append(fleet.now)
            fleet(SubmissionAccepted(submission.label, f"id{submission.number}"))
    assert len(times) == 4
    assert all(after - before >= 1.0 for before, after in itertools.pairwise(times))
    assert fleet.scheduler.why("cpu", fleet.now) == "4 blocks are in the batch queue"


def test_never_more_than_max_and_in_whole_blocks():
    fleet = proven(a_pool(max=6, nodes=3, pending=9))
    fleet.want(cpu=4)
    assert len(run_up(fleet)) == 2
    fleet.want(cpu=50)
    assert not run_up(fleet)
    assert fleet.scheduler.room("cpu") == 6


def test_blocks_on_their_way_count_as_there():
    fleet = proven(a_pool(max=6, pending=9))
    fleet.want(cpu=2)
    assert len(run_up(fleet)) == 2
    fleet.want(cpu=2)
    assert not run_up(fleet)


def test_the_workers_of_a_block_that_are_still_to_come_count_as_there():
    fleet = proven(a_pool(max=9, nodes=3))
    fleet.want(cpu=3)
    run_up(fleet)
    fleet(Joined("cpu-1", 0, 4))
    fleet.want(cpu=2)
    assert not run_up(fleet)
    fleet.later(400)  # they do not come
    fleet.want(cpu=2)
    assert len(run_up(fleet)) == 1


def test_a_count_from_before_a_join_does_not_hold():
    fleet = proven(a_pool(max=6))
    version = fleet.scheduler.version
    fleet(Wanted({"cpu": 1}, version))
    run_up(fleet)
    late = Wanted({"cpu": 1}, fleet.scheduler.version)
    fleet(Joined("cpu-1", 0, 4))
    fleet(late)
    assert not run_up(fleet)
    fleet.want(cpu=1)
    assert len(run_up(fleet)) == 1


def test_a_constant_demand_submits_nothing_anew():
    fleet = proven(a_pool(max=8, idle_s=60.0, walltime_s=None))
    fleet.want(cpu=3)
    labels = run_up(fleet)
    for label in labels:
        fleet(Joined(label, 0, 4, idle=False))
    for _ in range(200):
        fleet.want(cpu=0)
        fleet.later(30)
        fleet.list(*(a_row(number) for number in (1, 2, 3)))
    assert not fleet.take(SubmitBlock)
    assert not fleet.take(EndBlocks)
    assert not fleet.take(Leave)


def test_pending_blocks_are_withdrawn_after_a_minute_without_a_break_the_youngest_first():
    fleet = proven(a_pool(max=8, pending=8))
    fleet.want(cpu=3)
    assert run_up(fleet) == ["cpu-1", "cpu-2", "cpu-3"]
    fleet.want(cpu=1)
    fleet.later(40)
    fleet.want(cpu=3)
    fleet.want(cpu=1)
    fleet.later(59)
    assert not fleet.take(EndBlocks)
    fleet.later(2)
    assert [action.natives for action in fleet.take(EndBlocks)] == [("id3",), ("id2",)]
    fleet.list(a_row(1, "pending"))
    assert list(fleet.records.blocks) == ["cpu-1"]
    assert fleet.state().deaths == 0


def test_idle_blocks_end_but_for_min_and_for_those_that_a_gang_waits_for():
    fleet = proven(a_pool(max=8, idle_s=60.0))
    fleet.want(cpu=3)
    for label in run_up(fleet):
        fleet.bring_up(label, idle=False)
        fleet.work(label, idle=True)
    fleet(PoolSet(a_pool(max=8, min=1, idle_s=60.0)))
    fleet.want(cpu=0, kept=["cpu-2"])
    fleet.later(61)
    ended = {leave.label for leave in fleet.take(Leave)}
    assert "cpu-2" not in ended
    assert len(ended) == 2


def test_a_block_whose_worker_has_just_joined_is_not_idle_for_long_before_it_is_known_who_waits_for_it():
    fleet = proven(a_pool(max=8, idle_s=1.0))
    fleet.want(cpu=2)
    first, second = run_up(fleet)
    fleet.bring_up(first)
    fleet.list(a_row(1), a_row(2, "pending"))
    fleet.later(5)  # a gang waits for both; nobody has counted since
    assert not fleet.take(Leave)
    fleet.want(cpu=1, kept=[first])
    fleet.later(5)
    assert not fleet.take(Leave)
    fleet.bring_up(second)
    fleet.want(cpu=0)
    fleet.later(1)
    assert {leave.label for leave in fleet.take(Leave)} == {first, second}


def test_an_idle_block_that_serves_no_waiting_job_makes_room_even_below_min():
    fleet = proven(a_pool(max=2, min=2, idle_s=60.0))
    for label in run_up(fleet):
        fleet.bring_up(label, idle=False)
        fleet.work(label, idle=True)
    fleet.want(cpu=2)  # a gang: both are too old for it
    fleet.later(61)
    assert {leave.label for leave in fleet.take(Leave)} == {"cpu-1", "cpu-2"}


def test_a_crippled_block_makes_room_even_where_a_gang_waits_for_its_idle_worker():
    fleet = proven(a_pool(max=3, nodes=3, idle_s=60.0, walltime_s=None))
    fleet.want(cpu=3)
    (label,) = run_up(fleet)
    fleet.bring_up(label, nodes=3)
    fleet.work(label, 1)
    fleet.work(label, 2)
    fleet(Left(label, 0))
    fleet.want(cpu=0, kept=[label])  # the gang is wider than what is left, and there is no room for more
    fleet.work(label, 1, idle=True)
    fleet.work(label, 2, idle=True)
    fleet.later(400)
    assert {leave.node for leave in fleet.take(Leave)} == {1, 2}


def test_a_pool_that_nobody_uses_dies_out_and_comes_back_with_the_first_job():
    fleet = proven(a_pool(max=4, min=1))
    run_up(fleet)
    fleet.bring_up("cpu-1")
    fleet(Left("cpu-1", 0))
    fleet.now += 20
    fleet.list()
    fleet.want(cpu=0)
    assert not run_up(fleet, 100)
    fleet.want(cpu=1)
    assert run_up(fleet) == ["cpu-2"]


def test_min_is_kept_where_there_is_work():
    fleet = proven(a_pool(max=4, min=1))
    run_up(fleet)
    fleet.bring_up("cpu-1", idle=False)
    fleet(Left("cpu-1", 0))
    fleet.now += 20
    fleet.list(a_row(1, "ended", reason="TIMEOUT"))
    fleet.want(cpu=0)
    assert run_up(fleet) == ["cpu-2"]


def test_a_smaller_max_ends_what_costs_least_first():
    fleet = proven(a_pool(max=4, pending=8))
    fleet.want(cpu=4)
    run_up(fleet)
    fleet.list(*(a_row(number) for number in (1, 2, 3)), a_row(4, "pending"))
    fleet.bring_up("cpu-1", idle=False)
    fleet.bring_up("cpu-2")
    fleet.bring_up("cpu-3", idle=False)
    fleet(PoolSet(a_pool(max=2)))
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("id4",))]
    assert [leave.label for leave in fleet.take(Leave)] == ["cpu-2"]
    fleet(PoolSet(a_pool(max=1)))
    assert [(leave.label, leave.at_once) for leave in fleet.take(Leave)] == [("cpu-3", False)]


def early_deaths(fleet, count):
    """Have the next blocks end at once; return the labels of those that were submitted."""
    labels = []
    for _ in range(count):
        for _ in range(4000):
            fleet.later(1)
            found = fleet.take(SubmitBlock)
            if found:
                break
        else:
            return labels
        fleet(SubmissionAccepted(found[0].label, f"id{found[0].number}"))
        fleet.now += 12
        fleet.list(a_row(found[0].number, "ended", reason="FAILED"))
        labels.append(found[0].label)
    return labels


def test_three_early_deaths_pause_with_the_last_words_and_resuming_starts_anew():
    fleet = Fleet(a_pool(max=9, pending=9))
    fleet.state().proven = True
    fleet.want(cpu=1)
    fleet.actions = [action for action in fleet.actions if isinstance(action, SubmitBlock)]
    assert early_deaths(fleet, 5) == ["cpu-1", "cpu-2", "cpu-3"]
    assert [read.label for read in fleet.take(ReadLog)] == ["cpu-1", "cpu-2", "cpu-3"]
    (pause,) = fleet.take(Pause)
    assert "3 blocks in a row" in pause.why
    fleet(LogRead("cpu-3", "ImportError: no module\nof this name\n", "/log"))
    assert "of this name" in fleet.state().paused
    fleet(PoolResumed("cpu"))
    fleet.later(1)
    assert len(fleet.take(SubmitBlock)) == 1


def test_before_the_first_worker_has_joined_three_blocks_are_the_most():
    fleet = Fleet(a_pool(max=9, pending=9))
    fleet.want(cpu=9)
    assert len(run_up(fleet, 60)) == 3
    fleet(Joined("cpu-1", 0, 4, idle=False))
    fleet.want(cpu=8)
    assert len(run_up(fleet, 60)) == 6


def test_a_death_of_a_young_pool_leaves_room_for_fewer_at_once():
    fleet = Fleet(a_pool(max=9, pending=9))
    fleet.want(cpu=9)
    run_up(fleet)
    fleet.list(a_row(1, "ended", reason="FAILED"), a_row(2, "pending"), a_row(3, "pending"))
    assert not run_up(fleet, 100)


@pytest.mark.parametrize("words", ["exit code 127", "x\nexit code 2", "worker: no access file at /x"])
def test_words_that_no_other_block_would_change_pause_a_young_pool_at_once(words):
    fleet = Fleet(a_pool())
    fleet.want(cpu=1)
    assert early_deaths(fleet, 1) == ["cpu-1"]
    fleet(LogRead("cpu-1", f"bash: /nonexistent: No such file or directory\n{words}\n", "/log"))
    assert "/nonexistent" in fleet.state().paused
    assert len(fleet.take(Pause)) == 1


@pytest.mark.parametrize("words", ["no such file or directory\nexit code 1", "exit code 20", "said exit code 127"])
def test_other_words_do_not(words):
    fleet = Fleet(a_pool())
    fleet.want(cpu=1)
    early_deaths(fleet, 1)
    fleet(LogRead("cpu-1", words, "/log"))
    assert not fleet.state().paused


def test_a_block_without_a_log_asks_for_its_directory():
    fleet = Fleet(a_pool())
    fleet.want(cpu=1)
    early_deaths(fleet, 1)
    fleet(LogRead("cpu-1", None, "/home/me/log"))
    assert "is /home/me/log shared with the nodes?" in fleet.scheduler.why("cpu", fleet.now)


def test_ends_after_a_join_and_ends_by_others_are_no_early_deaths():
    fleet = proven(a_pool(max=2))
    for number in range(1, 11):
        fleet.want(cpu=1)
        (label,) = run_up(fleet, 40)
        if number % 2:
            fleet(Joined(label, 0, 4, idle=False))
            fleet(Left(label, 0))
        fleet.now += 20
        fleet.list(a_row(number, "ended", reason="CANCELLED by 1001"))
        assert fleet.state().deaths == 0
        fleet.later(31)
    assert not fleet.state().paused


def test_a_budget_counts_blocks_in_full_until_they_end_and_then_what_they_took():
    fleet = proven(a_pool(max=9, pending=9, budget=10.0))  # a block is 4 core-hours
    fleet.want(cpu=9)
    assert run_up(fleet) == ["cpu-1", "cpu-2"]
    assert "core-hours" in fleet.scheduler.why("cpu", fleet.now)
    assert not fleet.state().paused
    fleet.list(a_row(1), a_row(2))
    for label in ("cpu-1", "cpu-2"):
        fleet(Joined(label, 0, 4, idle=False))
        fleet(Left(label, 0))
    fleet.now += 900.0
    fleet.list()
    assert 2.0 <= fleet.state().spent <= 2.2
    fleet.want(cpu=9)
    assert run_up(fleet) == ["cpu-3"]
    fleet.list(a_row(3))
    fleet(Joined("cpu-3", 0, 4, idle=False))
    fleet(Left("cpu-3", 0))
    fleet.now += 3600.0
    fleet.list()
    fleet.want(cpu=9)
    run_up(fleet)
    assert "of 10 core-hours spent" in fleet.state().paused


def test_who_asks_changes_nothing_and_a_full_pool_says_so():
    fleet = proven(a_pool(max=1, budget=1.0, walltime_s=3600.0))  # a block would be 4 core-hours
    before = copy.deepcopy(fleet.records)
    fleet.state().workers = before.pools["cpu"].workers = 3
    assert "core-hours spent" in fleet.scheduler.why("cpu", fleet.now)
    assert fleet.records == before
    full = proven(a_pool(max=1))
    full.want(cpu=1)
    run_up(full)
    full.want(cpu=0)
    assert full.scheduler.why("cpu", full.now) == ""
    assert full.scheduler.hindrance("cpu", full.now) == "it has as many workers as it may, 1"


def test_a_block_keeps_the_price_it_had():
    fleet = proven(a_pool(max=9, budget=10.0))
    fleet.want(cpu=1)
    run_up(fleet)
    fleet(PoolSet(a_pool(max=9, budget=10.0, walltime_s=60.0)))
    (block,) = fleet.records.blocks.values()
    assert block.price(4) == 4.0


def test_a_budget_of_unknown_cores_waits_for_the_first_block():
    fleet = proven(a_pool(max=9, cores=0, budget=10.0))
    fleet.want(cpu=9)
    assert run_up(fleet) == ["cpu-1"]
    fleet(Joined("cpu-1", 0, 4, idle=False))
    fleet.want(cpu=8)
    assert run_up(fleet) == ["cpu-2"]
    assert fleet.state().cores == 4


def test_a_hold_never_gets_shorter():
    fleet = Fleet(a_pool())
    fleet.want(cpu=1)
    early_deaths(fleet, 2)
    until = fleet.state().held_until
    fleet.state().held = 0
    hold(Turn(fleet.records, fleet.now - 1), fleet.state(), "again")
    assert fleet.state().held_until >= until


def test_a_pause_by_hand_ends_when_the_pool_is_resumed_or_set():
    fleet = proven(a_pool(max=4))
    fleet(PoolPaused("cpu", "by hand"))
    fleet.want(cpu=2)
    assert not run_up(fleet)
    assert fleet.scheduler.room("cpu") == 0
    assert fleet.scheduler.why("cpu", fleet.now) == "paused: by hand"
    fleet(PoolSet(a_pool(max=5)))
    fleet.want(cpu=1)
    assert run_up(fleet) == ["cpu-1"]


def test_pools_of_one_system_share_its_listing_and_its_numbers():
    fleet = proven(a_pool("a"), a_pool("b"))
    fleet.want(a=1, b=1)
    assert run_up(fleet) == ["a-1", "b-2"]
    assert list(fleet.records.systems) == ["slurm"]


def test_events_about_what_nobody_knows_change_nothing():
    fleet = Fleet()
    for event in (
        PoolGone("x"),
        PoolPaused("x", "y"),
        PoolResumed("x"),
        SubmissionAccepted("x-1", "7"),
        SubmissionRefused("x-1", "no"),
        SubmissionUnclear("x-1", "?"),
        Left("x-1", 0),
        Working("x-1", 0),
        LogRead("x-1", "tail"),
        Wanted({"x": 3}, 0),
        Tick(),
    ):
        assert fleet(event) == []


@pytest.mark.parametrize(
    "numbers", [{"min": 2, "max": 1}, {"max": 3, "nodes": 2}, {"budget": 1.0, "walltime_s": None}, {"nodes": 0}]
)
def test_numbers_that_do_not_go_together_are_refused(numbers):
    with pytest.raises(ValueError, match="cpu"):
        FleetPool("cpu", "slurm", **numbers)
