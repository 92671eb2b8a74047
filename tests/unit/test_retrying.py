"""The retry decision, by itself."""

from __future__ import annotations

import pytest

from grainlike._retrying import tries_again


@pytest.mark.parametrize(("failures", "times", "again"), [(1, 0, False), (1, 1, True), (2, 1, False), (3, 3, True)])
def test_as_many_further_attempts_as_were_asked_for(failures: int, times: int, again: bool) -> None:
    assert tries_again(failures, times) is again


def test_none_after_a_failure_that_is_not_covered_or_when_something_was_given_away() -> None:
    assert not tries_again(1, 3, covered=False)
    assert not tries_again(1, 3, committed=True)
