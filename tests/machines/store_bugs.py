# ruff: noqa: E501 - lines of the sources stand here as they are
"""Bugs made by hand in the store's scheduler, and in what is said of where a copy goes on; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import Bug, Change

__all__ = ["STORE_BUGS", "STORE_SUITES"]

STORE_SUITES = {
    "store": "tests/unit/scheduler/test_store.py::test_nothing_is_lost_exceeded_or_left_waiting",
    "left": "tests/unit/scheduler/test_store.py::test_what_a_copy_has_left_makes_way_and_until_then_the_next_goes_on_there",
    "tiers": "tests/unit/scheduler/test_store.py::test_a_copy_goes_on_in_the_tier_where_its_bytes_are",
    "copies": "tests/unit/scheduler/test_store.py::test_copies_do_not_go_beyond_the_budget_nor_come_before_that_is_paid_back",
    "late": "tests/unit/scheduler/test_store.py::test_an_output_waits_for_an_overdraft_that_is_never_paid_back_and_is_refused_then",
    "lowest": "tests/unit/scheduler/test_store.py::test_what_is_freed_but_not_enough_makes_the_wait_longer_once",
    "busy": "tests/unit/scheduler/test_store.py::test_an_output_waits_as_long_as_leases_compute_that_may_free_something",
    "order": "tests/unit/scheduler/test_store.py::test_outputs_that_wait_are_served_in_order_and_those_that_have_room_do_not_wait_for_them",
    "late copies": "tests/unit/scheduler/test_store.py::test_no_copy_comes_while_an_output_waits",
    "paid back": "tests/unit/scheduler/test_store.py::test_an_overdraft_is_paid_back_as_soon_as_the_others_are_as_large_as_what_exceeds_the_budget",
    "offset": "tests/unit/worker/test_data_server.py::test_a_stopped_copy_says_nothing_and_another_goes_on_with_it",
}

_SCHEDULER, _RECORDS = "scheduler/store/_scheduler.py", "scheduler/store/_records.py"


def _bug(name: str, breaks: str, *changes: tuple[str, str, str], suite: str = "store") -> Bug:
    return Bug(name, "store's scheduler", breaks, suite, tuple(Change(*change) for change in changes))


STORE_BUGS: tuple[Bug, ...] = (
    _bug(
        "keep_room_after_a_failed_transfer",
        "what a copy that broke off has left never makes way",
        (
            _SCHEDULER,
            "            record.is_left = True\n            self.records.touch(record, is_spare=True)\n",
            "            self.records.touch(record, is_spare=True)\n",
        ),
        suite="left",
    ),
    _bug(
        "keep_room_that_is_returned",
        "room that was given, and is returned without a replica, stays taken",
        (
            _SCHEDULER,
            "                if replica in self._asks or replica in self._given or replica in self._late:\n",
            "                if replica in self._asks or replica in self._late:\n",
        ),
    ),
    _bug(
        "give_room_elsewhere_to_what_goes_on",
        "a copy that goes on has new room, and the bytes that another has left are not used",
        (
            _SCHEDULER,
            "        if record is None or not record.is_left or record.size != event.size:\n",
            "        if record is None or not record.is_left or record.size >= event.size:\n",
        ),
        suite="tiers",
    ),
    Bug(
        "ignore_the_offset",
        "data server",
        "a copy that goes on at an offset is sent from its first byte again",
        "offset",
        (
            Change(
                "data/_serving.py",
                "                _send_file(peer, fd, want.at, size)\n",
                "                _send_file(peer, fd, 0, size)\n",
                "worker/grainlike_worker",
            ),
        ),
    ),
    _bug(
        "evict_what_is_used",
        "a spare replica makes way though a job has it mapped",
        (_RECORDS, " and not replica.uses and not replica.is_spilling:", " and not replica.is_spilling:"),
    ),
    _bug(
        "evict_primaries",
        "a replica that is not spare makes way",
        (_SCHEDULER, "records.idle(tier, is_spare=True):", "records.idle(tier, is_spare=False):"),
    ),
    _bug(
        "exceed_by_one_more",
        "one output more than there are slots exceeds the budget",
        (
            _SCHEDULER,
            "len(self.records.overdrafts) < self.slots and",
            "len(self.records.overdrafts) <= self.slots and",
        ),
    ),
    _bug(
        "let_copies_exceed",
        "a copy may have memory beyond the budget as an output may",
        (
            _SCHEDULER,
            "        return ask.event.is_output and len(",
            "        return len(",
        ),
        (
            _SCHEDULER,
            "        if (self.records.overdrafts or self._late) and not event.is_output:\n",
            "        if False:\n",
        ),
        suite="copies",
    ),
    _bug(
        "spill_to_a_full_disk",
        "replicas are copied to scratch that has no room for them",
        (
            _SCHEDULER,
            "                and self.records.scratch + freed + one.size <= self.scratch\n",
            "",
        ),
    ),
    _bug(
        "forget_who_waits_for_a_spill",
        "a demand whose spill was for nothing is never answered",
        (
            _SCHEDULER,
            "            elif not self.records.spilling:  #",
            "            elif self.records.spilling < 0:  #",
        ),
    ),
    _bug(
        "lose_what_is_used_meanwhile",
        "a replica that a job maps while it is spilled goes to scratch under that job",
        (
            _SCHEDULER,
            "        is_kept = event.is_whole and is_here and not record.uses\n",
            "        is_kept = event.is_whole and is_here\n",
        ),
    ),
    _bug(
        "refuse_what_may_wait",
        "an output that finds no room fails although an overdraft may be paid back",
        (_SCHEDULER, "        elif self._may_wait(ask):\n", "        elif False:\n"),
        suite="late",
    ),
    _bug(
        "wait_for_ever",
        "an output waits for an overdraft that nothing can pay back",
        (_SCHEDULER, "            if were_busy:  #", "            if not were_busy:  #"),
        suite="late",
    ),
    _bug(
        "forget_who_waits_behind_another",
        "an output that waits is forgotten when another in front of it has no room",
        (_SCHEDULER, "            else:\n                self._late[replica] = ask\n", ""),
        suite="order",
    ),
    _bug(
        "wait_longer_for_whatever_is_freed",
        "an output waits on as long as others come and go in room that is too small for it",
        (_SCHEDULER, "            if lowest != ask.lowest:\n", "            if memory < self.limit + self.over:\n"),
        suite="lowest",
    ),
    _bug(
        "wait_for_leases_that_begin_later",
        "an output waits on as long as any lease uses a replica",
        (_SCHEDULER, "= ask.busy, ask.busy & busy\n", "= ask.busy, busy\n"),
        suite="busy",
    ),
    _bug(
        "let_copies_pass_outputs_that_wait",
        "a copy takes the room for which an output waits",
        (
            _SCHEDULER,
            "        if (self.records.overdrafts or self._late) and not",
            "        if self.records.overdrafts and not",
        ),
        suite="late copies",
    ),
    _bug(
        "pay_back_all_overdrafts_or_none",
        "outputs wait although fewer than one a slot are beyond the budget",
        (_SCHEDULER, "            if size <= rest:\n", "            if self.records.memory <= self.limit:\n"),
        suite="paid back",
    ),
    _bug(
        "count_scratch_never_down",
        "the room in scratch of a spill that was for nothing stays taken",
        (
            _RECORDS,
            "        self.scratch -= replica.size\n        if self.replicas",
            "        self.scratch -= replica.size * is_kept\n        if self.replicas",
        ),
    ),
)
