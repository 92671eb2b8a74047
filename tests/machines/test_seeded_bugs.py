"""The table of seeded bugs can be planted, and a few of them are caught; `make bugs` hunts all of them."""

from __future__ import annotations

import pytest
from catch_bugs import ALL_BUGS, ALL_SUITES, try_suite
from seeded_bugs import planted_source

CHEAP = {
    "accept_a_stale_attempt": 100,
    "ignore_a_lease": 50,
    "swap_first_in_first_out": 50,
    "skip_a_release": 50,
    "barrier_one_too_low": 50,
    "one_too_many_under_a_limit": 50,
}
"""Some that show in the first few worlds, and how many of those are enough."""


def test_there_are_enough_of_them():
    assert len({bug.name for bug in ALL_BUGS}) == len(ALL_BUGS) >= 30
    assert {bug.suite for bug in ALL_BUGS} == ALL_SUITES.keys()


@pytest.mark.parametrize("bug", ALL_BUGS, ids=lambda bug: bug.name)
def test_every_bug_can_be_planted(bug):
    for change in bug.changes:
        assert change.old != change.new
        compile(planted_source(change), change.module, "exec")


@pytest.mark.parametrize("bug", [bug for bug in ALL_BUGS if bug.name in CHEAP], ids=lambda bug: bug.name)
def test_a_bug_is_caught(bug):
    found = try_suite(bug, bug.suite, CHEAP[bug.name])
    assert not found.ok
    assert not found.broken, found.words


def test_without_a_bug_the_suite_is_green():
    assert try_suite(None, "judge", 50).ok
