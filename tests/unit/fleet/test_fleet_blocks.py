"""Blocks: submissions without a clear answer, joins in any order, listings with surprises, ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fleets import Fleet, a_pool, a_row

from grainlike.fleet import (
    BlockDismissed,
    EndBlocks,
    Joined,
    Leave,
    Left,
    ListingFailed,
    LogRead,
    Pause,
    PoolGone,
    PoolSet,
    StraysGone,
    SubmissionAccepted,
    SubmissionRefused,
    SubmissionUnclear,
    SubmitBlock,
    TellTimeLeft,
    Tick,
)


def with_blocks(count=1, **numbers):
    """A fleet with blocks that were accepted."""
    fleet = Fleet(a_pool(min=count * numbers.get("nodes", 1), **{"max": 8, **numbers}))
    fleet.state().proven = True
    fleet.now = 1.0
    fleet(Tick())
    fleet.accept_all()
    assert len(fleet.records.blocks) == count
    return fleet


def test_a_block_goes_through_its_phases():
    fleet = Fleet(a_pool(min=1))
    (submission,) = fleet.take(SubmitBlock)
    block = fleet.records.blocks[submission.label]
    assert (submission.label, block.phase) == ("cpu-1", "intent")
    fleet(SubmissionAccepted("cpu-1", "77"))
    assert block.phase == "pending"
    fleet.list(a_row(1, native="77", left_s=3600.0, nodes=("n1",)))
    assert (block.phase, block.place) == ("starting", "n1")
    fleet(Joined("cpu-1", 0, 4))
    assert block.phase == "up"
    fleet(PoolGone("cpu"))
    assert block.phase == "leaving"
    assert fleet.take(Leave) == [Leave("cpu-1", 0, "the pool is taken down")]
    fleet(Left("cpu-1", 0))
    fleet.now += 5
    fleet.list()
    assert not fleet.records.blocks
    assert not fleet.records.pools
    assert fleet.records.ended["cpu-1"].reason == "the pool is taken down"


def test_a_block_that_runs_is_not_where_it_was_expected_to_start():
    fleet = with_blocks()
    (block,) = fleet.records.blocks.values()
    expected = a_row(1, "pending", native=block.native, start="2026-07-29T10:00:00")
    fleet.list(expected)
    assert block.place == "2026-07-29T10:00:00"
    fleet(Joined("cpu-1", 0, 4))
    assert block.place == ""
    fleet.list(expected)
    assert (block.phase, block.place) == ("up", ""), "a listing from before its worker joined"
    fleet.list(a_row(1, native=block.native, nodes=("n1", "n2")))
    assert block.place == "n1,n2"


def test_a_worker_that_joins_before_the_answer_leaves_its_id_to_be_told():
    fleet = Fleet(a_pool(min=1))
    fleet(Joined("cpu-1", 0, 4))
    fleet(SubmissionAccepted("cpu-1", "77"))
    fleet(PoolGone("cpu", at_once=True))
    fleet.later(31)
    assert EndBlocks("slurm", ("77",)) in fleet.take(EndBlocks)


def test_a_second_node_that_joins_does_not_make_a_busy_block_idle():
    fleet = with_blocks(nodes=2, idle_s=60.0)
    fleet.state().pool = a_pool(nodes=2, idle_s=60.0)  # min is 0 now
    fleet(Joined("cpu-1", 0, 4))
    fleet.work("cpu-1")
    fleet(Joined("cpu-1", 1, 4))
    fleet.want(cpu=0)
    fleet.later(200)
    assert not fleet.take(Leave)
    fleet(Joined("cpu-1", 0, 4, idle=False))  # it has reconnected
    fleet.later(200)
    assert not fleet.take(Leave)
    fleet.work("cpu-1", idle=True)
    fleet.want(cpu=0)
    fleet.later(70)
    assert {leave.node for leave in fleet.take(Leave)} == {0, 1}


def test_a_submission_without_a_clear_answer_is_found_by_its_name():
    fleet = Fleet(a_pool(min=1))
    fleet.take(SubmitBlock)
    fleet(SubmissionUnclear("cpu-1", "Socket timed out on send/recv operation"))
    assert fleet.records.blocks["cpu-1"].phase == "intent"
    fleet.now = 3.0
    fleet.list(a_row(1, "pending", native="88"))
    assert fleet.records.blocks["cpu-1"].native == "88"
    fleet.later(120)
    assert not fleet.take(SubmitBlock)


def test_one_that_is_looked_for_twice_in_vain_never_arrived_and_is_ended_if_it_does():
    fleet = Fleet(a_pool(min=1))
    fleet.take(SubmitBlock)
    fleet(SubmissionUnclear("cpu-1", "Socket timed out"))
    fleet.now = 2.0
    fleet.list()
    fleet.now = 12.0
    fleet.list()  # too soon to count
    assert "cpu-1" in fleet.records.blocks
    assert not fleet.take(SubmitBlock)
    fleet.now = 33.0
    fleet.list()
    assert fleet.records.ended["cpu-1"].reason == "never arrived: Socket timed out"
    assert fleet.state().deaths == 0
    fleet.later(40)
    assert [submission.label for submission in fleet.take(SubmitBlock)] == ["cpu-2"]
    fleet.list(a_row(1, "pending", native="88"), a_row(2, "pending"))
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("88",))]


def test_a_submission_that_shows_between_two_looks_is_kept():
    fleet = Fleet(a_pool(min=1))
    fleet(SubmissionUnclear("cpu-1", "Socket timed out"))
    fleet.now = 2.0
    fleet.list()
    assert fleet.records.blocks["cpu-1"].phase == "intent"
    fleet.now = 33.0
    fleet.list(a_row(1, "pending", native="88"))
    assert fleet.records.blocks["cpu-1"].native == "88"
    assert not fleet.take(EndBlocks)


def test_a_listing_that_was_asked_before_the_answer_finds_nothing_missing():
    fleet = Fleet(a_pool(min=1))
    fleet.now = 5.0
    fleet(SubmissionAccepted("cpu-1", "77"))
    fleet.list(asked=4.0)
    assert "cpu-1" in fleet.records.blocks
    fleet.now = 15.0
    fleet.list()
    assert "cpu-1" not in fleet.records.blocks


def test_an_answer_that_never_comes_is_an_unclear_one():
    fleet = Fleet(a_pool(min=1))
    fleet.later(125)
    fleet.list(a_row(1, "running"))
    assert fleet.records.blocks["cpu-1"].phase == "starting"
    assert fleet.records.systems["slurm"].submitting == ""


def test_of_two_rows_of_one_name_the_other_is_ended():
    fleet = with_blocks()
    fleet.list(a_row(1, native="5", state="pending"), a_row(1), a_row(1, native="6"))
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("5", "6"))]
    assert fleet.records.blocks["cpu-1"].native == "id1"
    fleet.list(a_row(1), a_row(1, native="6", state="ended"))
    assert not fleet.take(EndBlocks)


def test_one_that_was_taken_twice_is_kept_where_it_runs():
    fleet = Fleet(a_pool(min=1))
    fleet(SubmissionUnclear("cpu-1", "Socket timed out"))
    fleet.list(a_row(1, "pending", native="5"), a_row(1, native="6"))
    assert fleet.records.blocks["cpu-1"].native == "6"
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("5",))]


def test_names_that_are_not_ours_are_left_alone():
    fleet = with_blocks()
    for name in (f"gl{'1a2b3c4d'}-old", "gl99999999-1", "mine", "gl1a2b3c4d-"):
        row = a_row(1)
        fleet.list(a_row(1), type(row)("9", name, "running"))
    assert not fleet.take(EndBlocks)
    assert not fleet.records.strays["slurm"]


def test_strays_are_shown_and_ended_when_asked():
    fleet = with_blocks()
    fleet.list(a_row(1), a_row(70, native="9"))
    assert [row.native for row in fleet.records.strays["slurm"]] == ["9"]
    assert not fleet.take(EndBlocks)
    fleet(StraysGone())
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("9",))]
    fleet(PoolGone("cpu"))
    fleet.list(a_row(70, native="9"))
    assert "slurm" in fleet.records.systems  # it is asked until they are gone
    fleet.list()
    fleet(Tick())
    assert not fleet.records.systems


def test_a_block_with_a_connected_worker_lives_whatever_a_listing_says():
    fleet = with_blocks()
    fleet.bring_up("cpu-1")
    fleet.now += 20
    fleet.list()
    fleet.list(a_row(1, "ended", reason="TIMEOUT"))
    assert "cpu-1" in fleet.records.blocks
    fleet(Left("cpu-1", 0))
    fleet.now += 20
    fleet.list(a_row(1, "ended", reason="TIMEOUT"))
    assert fleet.records.ended["cpu-1"].reason == "TIMEOUT"
    assert fleet.state().deaths == 0


def test_a_block_that_could_not_be_started_is_an_early_death_and_is_taken_out():
    fleet = with_blocks()
    fleet.take(EndBlocks)
    fleet.list(a_row(1, "stuck", reason="state Eqw"))
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("id1",))]
    assert fleet.state().deaths == 1
    fleet.now += 3
    fleet.list(a_row(1, "stuck", reason="state Eqw"))
    assert fleet.state().deaths == 1, "it is the same"
    assert "cpu-1" in fleet.records.blocks, "as long as it is there"
    fleet.list()
    assert fleet.records.ended["cpu-1"].reason == "state Eqw"
    assert fleet.state().deaths == 1


def test_while_listings_fail_nothing_is_submitted_or_closed_and_the_limit_to_join_waits():
    fleet = with_blocks(2)
    fleet.list(a_row(1), a_row(2))
    fleet.silent = "Unable to contact slurm controller"
    fleet(ListingFailed("slurm", fleet.silent))
    fleet.want(cpu=5)
    fleet.take(SubmitBlock)
    fleet.later(2000)
    assert not fleet.take(SubmitBlock)
    assert not fleet.take(EndBlocks)
    assert {block.phase for block in fleet.records.blocks.values()} == {"starting"}
    assert "Unable to contact" in fleet.scheduler.why("cpu", fleet.now)
    fleet.list(a_row(1), a_row(2))
    fleet(Tick())
    assert len(fleet.take(EndBlocks)) == 2  # nobody has joined for so long


def test_a_started_block_without_workers_has_failed_after_the_time_to_join():
    fleet = with_blocks(join_s=100.0)
    fleet.list(a_row(1))
    fleet.later(99)
    assert not fleet.take(EndBlocks)
    fleet.later(2)
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("id1",))]
    assert fleet.state().deaths == 1
    fleet(LogRead("cpu-1", "no route to host", "/log"))
    assert "no worker joined within 100 s" in fleet.state().reason
    assert "no route to host" in fleet.state().reason


def test_a_block_whose_workers_do_not_come_back_to_the_next_head_is_ended():
    fleet = with_blocks(join_s=100.0)
    fleet.bring_up("cpu-1", idle=False)
    fleet.restart()
    fleet.later(50)
    fleet.list(a_row(1))
    assert not fleet.take(EndBlocks)
    fleet.later(60)
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("id1",))]
    assert fleet.state().deaths == 0


def test_a_block_is_not_idle_while_one_of_its_workers_may_come_back_with_a_job():
    fleet = with_blocks(nodes=2, idle_s=10.0, join_s=100.0)
    fleet.state().pool = a_pool(nodes=2, idle_s=10.0, join_s=100.0)
    fleet.bring_up("cpu-1", nodes=2)
    fleet.work("cpu-1", 1)
    fleet.restart()
    fleet(Joined("cpu-1", 0, 4))
    fleet.want(cpu=0)
    fleet.later(50)
    assert not fleet.take(Leave)
    fleet.later(120)
    assert [leave.node for leave in fleet.take(Leave)] == [0]


def test_an_idle_worker_that_does_not_leave_is_ended_by_its_batch_system():
    fleet = with_blocks()
    fleet.bring_up("cpu-1")
    fleet(PoolGone("cpu"))
    fleet.later(29)
    assert not fleet.take(EndBlocks)
    fleet.later(2)
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("id1",))]
    fleet.later(31)
    assert len(fleet.take(EndBlocks)) == 1  # told again


def test_pending_blocks_of_a_pool_that_goes_are_ended_by_their_batch_system_until_it_hears():
    fleet = with_blocks(2)
    both = [EndBlocks("slurm", ("id1",)), EndBlocks("slurm", ("id2",))]
    fleet(PoolGone("cpu"))
    assert fleet.take(EndBlocks) == both
    fleet.later(29)
    assert not fleet.take(EndBlocks)
    fleet.later(2)
    assert fleet.take(EndBlocks) == both
    fleet.later(31)
    assert fleet.take(EndBlocks) == both, "told again, as often as it did not hear"
    fleet.list()
    fleet(Tick())
    assert not fleet.records.blocks
    assert not fleet.records.pools


def test_a_pending_block_that_starts_before_its_end_is_heard_has_its_worker_leave():
    fleet = with_blocks()
    fleet(PoolGone("cpu"))
    fleet.take(Leave)
    fleet(Joined("cpu-1", 0, 4))
    assert fleet.take(Leave) == [Leave("cpu-1", 0, "the pool is taken down")]


def test_a_gentle_end_waits_for_jobs_and_one_at_once_does_not():
    fleet = with_blocks()
    fleet.bring_up("cpu-1", idle=False)
    fleet(PoolGone("cpu"))
    fleet.later(1000)
    assert not fleet.take(EndBlocks)
    fleet.take(Leave)
    fleet(PoolGone("cpu", at_once=True))
    assert fleet.take(Leave) == [Leave("cpu-1", 0, "the pool is taken down", at_once=True)]
    fleet.restart()
    fleet(Joined("cpu-1", 0, 4, idle=False))
    assert fleet.take(Leave) == [Leave("cpu-1", 0, "the pool is taken down", at_once=True)]
    fleet.later(31)
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("id1",))]


def test_a_worker_of_an_ended_block_is_told_to_leave():
    fleet = Fleet(a_pool())
    fleet(Joined("cpu-9", 0, 4))
    assert [(leave.label, leave.at_once) for leave in fleet.take(Leave)] == [("cpu-9", True)]


def test_workers_hear_of_another_end():
    fleet = with_blocks()
    fleet.bring_up("cpu-1")
    fleet.list(a_row(1, left_s=3000.0))
    fleet.now += 30
    fleet.list(a_row(1, left_s=2970.0))
    assert fleet.take(TellTimeLeft) == [TellTimeLeft("cpu-1", 3000.0)]
    fleet.now += 30
    fleet.list(a_row(1, left_s=600.0))
    assert fleet.take(TellTimeLeft) == [TellTimeLeft("cpu-1", 600.0)]


def test_a_worker_that_joins_after_the_listing_hears_when_its_block_ends():
    fleet = with_blocks()
    fleet.list(a_row(1, left_s=3000.0))
    assert fleet.take(TellTimeLeft) == [], "nobody is there to be told"
    fleet.now += 10
    fleet(Joined("cpu-1", 0, 4))
    assert fleet.take(TellTimeLeft) == [TellTimeLeft("cpu-1", 2990.0)]


def test_an_unknown_word_leaves_a_block_as_it_was():
    fleet = with_blocks()
    fleet.list(a_row(1, "unknown", reason="FROZEN"))
    block = fleet.records.blocks["cpu-1"]
    assert (block.phase, block.reason) == ("pending", "FROZEN")


def test_a_refusal_pauses_and_one_by_a_limit_waits():
    fleet = Fleet(a_pool(min=1))
    fleet(SubmissionRefused("cpu-1", "QOSMaxSubmitJobPerUserLimit", waits=True))
    assert not fleet.take(Pause)
    fleet.take(SubmitBlock)
    fleet.later(29)
    assert not fleet.take(SubmitBlock)
    assert "QOSMaxSubmitJobPerUserLimit" in fleet.scheduler.why("cpu", fleet.now)
    fleet.later(2)
    (second,) = fleet.take(SubmitBlock)
    fleet(SubmissionRefused(second.label, "invalid partition"))
    assert fleet.take(Pause) == [Pause("cpu", "invalid partition")]
    fleet.later(2000)
    assert not fleet.take(SubmitBlock)


def test_a_refusal_by_one_machine_neither_pauses_nor_holds_as_another_may_take_the_next():
    fleet = Fleet(a_pool(min=1, system="ssh of cpu"))
    (first,) = fleet.take(SubmitBlock)
    fleet(SubmissionRefused(first.label, "n1: Permission denied (publickey).", elsewhere=True))
    assert fleet.scheduler.submits_soon("cpu", fleet.now)
    assert fleet.records.ended[first.label].reason == "n1: Permission denied (publickey)."
    fleet.later(1.5)
    (second,) = fleet.take(SubmitBlock)
    assert (second.label, fleet.take(Pause), fleet.state().paused) == ("cpu-2", [], "")


def test_blocks_move_to_the_key_of_their_pool_once_a_listing_shows_them_there():
    fleet = with_blocks(2)
    fleet(PoolSet(a_pool(min=2, max=8, system="slurm via login2")))
    fleet(ListingFailed("slurm", "login1: Connection refused"), 10.0)
    fleet.list(a_row(1), a_row(2, native="another's"), system="slurm via login2")
    assert [block.system for block in fleet.records.blocks.values()] == ["slurm via login2", "slurm"]
    fleet.take(EndBlocks)
    fleet(BlockDismissed("cpu-1"))
    assert fleet.take(EndBlocks) == [EndBlocks("slurm via login2", ("id1",))]


def test_an_answer_for_a_block_that_was_given_up_ends_that_job():
    fleet = Fleet(a_pool(min=1))
    fleet(PoolGone("cpu"))
    fleet(SubmissionAccepted("cpu-1", "77"))
    assert fleet.take(EndBlocks) == [EndBlocks("slurm", ("77",))]


@pytest.mark.parametrize("count", [1, 3])
def test_listings_are_asked_for_as_often_as_there_is_something_to_learn(count):
    fleet = with_blocks(count)
    fleet.list(*(a_row(number) for number in range(1, count + 1)))
    for number in range(1, count + 1):
        fleet.bring_up(f"cpu-{number}", idle=False)
    fleet.asked.clear()
    fleet.later(600)
    periods = [round(after - before) for before, after in pairwise(fleet.asked)]
    assert set(periods[1:3]) == {10}
    assert set(periods[-8:]) == {30}


def test_a_row_of_a_block_that_another_system_has_is_left_alone():
    fleet = Fleet(a_pool("cpu", min=1), a_pool("far", system="slurm via ssh b"))
    fleet.accept_all()
    fleet.bring_up("cpu-1", idle=False)
    fleet.list(a_row(1), system="slurm via ssh b")
    assert not fleet.take(EndBlocks)
    assert not fleet.records.strays["slurm via ssh b"]


def test_rows_without_an_id_are_not_told_to_end():
    fleet = with_blocks()
    row = a_row(1)
    fleet.list(row, type(row)("", "gl1a2b3c4d-70", "pending"))
    fleet(PoolGone("cpu", at_once=True))
    fleet.later(10)
    fleet.list(type(row)("", "gl1a2b3c4d-1", "pending"))
    assert all("" not in action.natives for action in fleet.take(EndBlocks))


@pytest.mark.parametrize("first", ["ended", "running"])
def test_of_two_machines_that_list_one_block_the_one_on_which_it_runs_is_right(first):
    fleet = with_blocks()
    rows = [a_row(1, "ended"), a_row(1, "running")]
    fleet.list(*(rows if first == "ended" else reversed(rows)))
    assert fleet.records.blocks["cpu-1"].phase == "starting"
    assert not fleet.take(EndBlocks)


def test_a_pool_without_blocks_goes_on_under_the_next_head():
    fleet = with_blocks()
    fleet.bring_up("cpu-1")
    fleet.state().pool = a_pool()
    fleet.records.version = 0  # as in records that were read from a file
    fleet.restart()
    fleet.want(cpu=2)
    fleet.later(5)
    assert fleet.take(SubmitBlock)


def test_a_block_that_has_joined_does_not_say_any_more_why_it_waited():
    fleet = Fleet(a_pool(min=1))
    fleet.accept_all()
    fleet.list(a_row(1, "pending", fleet.records.blocks["cpu-1"].native, reason="PartitionDown"))
    assert fleet.records.blocks["cpu-1"].reason == "PartitionDown"
    fleet(Joined("cpu-1", 0, 4, idle=True))
    assert fleet.records.blocks["cpu-1"].reason == ""


@pytest.mark.parametrize("seen_running", [True, False])
def test_a_block_that_began_while_no_head_was_there_is_no_early_death_and_is_replaced_at_once(seen_running):
    fleet = with_blocks()
    fleet.restart()
    if seen_running:
        fleet.list(a_row(1))
    fleet.now += 20.0
    fleet.list(a_row(1, "ended", reason="COMPLETED"))
    assert fleet.state().deaths == 0
    assert fleet.records.ended["cpu-1"].reason == "COMPLETED; no head was there when it began"
    fleet.want(cpu=1)
    assert [action.label for action in fleet.take(SubmitBlock)] == ["cpu-2"]


def test_a_block_that_began_when_the_next_head_was_there_is_an_early_death():
    fleet = with_blocks()
    fleet.restart()
    fleet.list(a_row(1, "pending"))
    fleet.now += 20.0
    fleet.list(a_row(1, "ended", reason="FAILED"))
    assert fleet.state().deaths == 1
    assert fleet.records.ended["cpu-1"].reason == "FAILED"


def test_a_worker_of_a_block_that_runs_has_the_time_to_join_from_the_next_heads_beginning():
    fleet = with_blocks(join_s=300.0)
    fleet.list(a_row(1))
    fleet.now += 250.0
    fleet.restart()
    begun = fleet.now
    fleet.list(a_row(1))
    fleet(Tick(), begun + 299.0)
    assert fleet.records.blocks["cpu-1"].leave_reason == ""
    fleet(Tick(), begun + 300.0)
    assert fleet.records.blocks["cpu-1"].leave_reason == "no worker joined within 300 s of its start"
    assert fleet.state().deaths == 1


def test_a_block_that_its_batch_system_puts_back_into_the_queue_as_it_is_to_end_is_told_to_end_there():
    fleet = with_blocks()
    fleet.list(a_row(1))
    fleet.bring_up("cpu-1")
    fleet(BlockDismissed("cpu-1"))
    fleet(Left("cpu-1", 0, "PREEMPTED"))
    for _ in range(12):
        fleet.now += 3.0
        fleet.list(a_row(1, "pending", reason="Priority"))
    assert fleet.take(EndBlocks)[:1] == [EndBlocks("slurm", ("id1",))]
