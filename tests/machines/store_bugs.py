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
            "                if replica in self._asks or replica in self._given:\n",
            "                if replica in self._asks:\n",
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
            "        return event.is_output and len(",
            "        return len(",
        ),
        (_SCHEDULER, "        if self.records.overdrafts and not event.is_output:\n", "        if False:\n"),
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
        "count_scratch_never_down",
        "the room in scratch of a spill that was for nothing stays taken",
        (
            _RECORDS,
            "        self.scratch -= replica.size\n        if self.replicas",
            "        self.scratch -= replica.size * is_kept\n        if self.replicas",
        ),
    ),
)
